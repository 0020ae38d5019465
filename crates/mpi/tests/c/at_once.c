// Calls of all ranks that one rank alone makes, with arguments for which the implementation refuses them at once: it is
// told so though the other never comes. At the end all ranks make what those would have made. Two ranks.
// Open MPI has MPI_UNWEIGHTED for an array of none.
#pragma GCC diagnostic ignored "-Wstringop-overread"
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static void nothing(void *in, void *inout, int *count, MPI_Datatype *type) {
    (void)in, (void)inout, (void)count, (void)type;
}

static void told(const char *call, int code) {
    int kind = code;
    if (code != MPI_SUCCESS) MPI_Error_class(code, &kind);
    printf("%s: refused %d, %d\n", call, code != MPI_SUCCESS, kind);
}

#define TRY(call) told(#call, call)

int main(int count, char **words) {
    int provided, rank, sum = 0, one = 1;
    MPI_Comm d, between, cart, made;
    MPI_Win window, w;
    MPI_File file;
    MPI_Op ours;
    void *base;
    static int a[4] = {0}, b[4] = {0}, none[4] = {0}, ones[4] = {1, 1, 1, 1}, two = 2;
    int many[4] = {100, 1, 1, 1}, less[4] = {-1, 1, 1, 1}, falls[4] = {2, 1, 1, 1};
    const MPI_Info info = MPI_INFO_NULL;
    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &d);
    MPI_Cart_create(d, 1, &two, ones, 0, &cart);
    MPI_Intercomm_create(MPI_COMM_SELF, 0, d, 1 - rank, 3, &between);
    MPI_Win_create(a, sizeof a, 1, info, d, &window);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(cart, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(between, MPI_ERRORS_RETURN);
    MPI_Op_create(nothing, 1, &ours);
    if (rank == 0) {
        TRY(MPI_Comm_split(MPI_COMM_NULL, 0, 0, &made));
        TRY(MPI_Comm_split_type(d, 77777, 0, info, &made));
        TRY(MPI_Comm_split_type(d, -1, 0, info, &made));
        TRY(MPI_Comm_create(d, MPI_GROUP_NULL, &made));
        TRY(MPI_Comm_dup_with_info(d, info, NULL));
        TRY(MPI_Cart_create(d, 1, many, none, 0, &made));
        TRY(MPI_Cart_create(d, -1, ones, none, 0, &made));
        TRY(MPI_Cart_create(d, 1, NULL, none, 0, &made));
        TRY(MPI_Cart_create(d, 1, ones, NULL, 0, &made));
        TRY(MPI_Cart_create(between, 1, ones, none, 0, &made));
        TRY(MPI_Cart_sub(d, ones, &made));
        TRY(MPI_Graph_create(d, 50, ones, ones, 0, &made));
        TRY(MPI_Graph_create(d, 1, NULL, ones, 0, &made));
        TRY(MPI_Graph_create(between, 1, ones, none, 0, &made));
        TRY(MPI_Dist_graph_create(d, -1, a, a, a, MPI_UNWEIGHTED, info, 0, &made));
        TRY(MPI_Dist_graph_create(d, 1, NULL, ones, none, MPI_UNWEIGHTED, info, 0, &made));
        TRY(MPI_Dist_graph_create(between, 0, a, a, a, MPI_UNWEIGHTED, info, 0, &made));
        TRY(MPI_Dist_graph_create_adjacent(d, -1, a, MPI_UNWEIGHTED, 0, a, MPI_UNWEIGHTED, info, 0, &made));
        TRY(MPI_Dist_graph_create_adjacent(d, 0, a, MPI_UNWEIGHTED, -1, a, MPI_UNWEIGHTED, info, 0, &made));
        TRY(MPI_Dist_graph_create_adjacent(d, 1, NULL, MPI_UNWEIGHTED, 0, a, MPI_UNWEIGHTED, info, 0, &made));
        TRY(MPI_Win_create(a, -1, 1, info, d, &w));
        TRY(MPI_Win_create(a, 8, 0, info, d, &w));
        TRY(MPI_Win_create(a, 8, -1, info, d, &w));
        TRY(MPI_Win_create(a, 8, 1, info, d, NULL));
        TRY(MPI_Win_create(a, 8, 1, info, MPI_COMM_NULL, &w));
        TRY(MPI_Win_allocate(-1, 1, info, d, &base, &w));
        TRY(MPI_Win_allocate(8, -1, info, d, &base, &w));
        TRY(MPI_Win_allocate(8, 1, info, d, &base, NULL));
        TRY(MPI_Win_allocate_shared(-1, 1, info, d, &base, &w));
        TRY(MPI_Win_create_dynamic(info, d, NULL));
        TRY(MPI_Win_fence(-1, window));
        TRY(MPI_Win_fence(MPI_MODE_NOCHECK, window));
        TRY(MPI_File_open(MPI_COMM_NULL, "none", MPI_MODE_RDONLY, info, &file));
        TRY(MPI_Allreduce(a, b, 1, MPI_DATATYPE_NULL, ours, d));
        TRY(MPI_Reduce(a, b, 1, MPI_INT, ours, 99, d));
#ifdef OPEN_MPI
        TRY(MPI_Comm_split(d, -5, 0, &made));
        TRY(MPI_Intercomm_merge(d, 0, &made));
        TRY(MPI_Cart_create(d, 1, less, none, 0, &made));
        TRY(MPI_Cart_create(d, 1, none, none, 0, &made));
        TRY(MPI_Graph_create(d, -1, ones, ones, 0, &made));
        TRY(MPI_Dist_graph_create(d, 1, none, less, none, MPI_UNWEIGHTED, info, 0, &made));
        TRY(MPI_Dist_graph_create(d, 1, none, ones, many, MPI_UNWEIGHTED, info, 0, &made));
        TRY(MPI_Dist_graph_create(d, 1, many, ones, none, MPI_UNWEIGHTED, info, 0, &made));
        TRY(MPI_Dist_graph_create_adjacent(d, 1, many, MPI_UNWEIGHTED, 0, a, MPI_UNWEIGHTED, info, 0, &made));
        TRY(MPI_Dist_graph_create_adjacent(d, 0, a, MPI_UNWEIGHTED, 1, many, MPI_UNWEIGHTED, info, 0, &made));
        TRY(MPI_Win_create(a, 8, 1, info, between, &w));
        TRY(MPI_Win_allocate_shared(8, 1, info, between, &base, &w));
        TRY(MPI_File_open(d, "none", MPI_MODE_RDONLY | MPI_MODE_WRONLY, info, &file));
        TRY(MPI_File_open(d, "none", 0, info, &file));
        TRY(MPI_File_open(d, "none", MPI_MODE_RDONLY | MPI_MODE_CREATE, info, &file));
        TRY(MPI_File_open(d, "none", MPI_MODE_RDONLY | MPI_MODE_EXCL, info, &file));
        TRY(MPI_File_open(d, "none", MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL, info, &file));
        // MPICH writes beyond their place.
        TRY(MPI_Allreduce(a, b, -1, MPI_INT, ours, d));
        TRY(MPI_Reduce(a, b, -1, MPI_INT, ours, 0, d));
        TRY(MPI_Reduce_scatter(a, b, less, MPI_INT, ours, d));
        TRY(MPI_Scan(a, b, -1, MPI_INT, ours, d));
        TRY(MPI_Reduce_scatter_block(a, b, -1, MPI_INT, ours, d));
#else
        TRY(MPI_Graph_create(d, 1, ones, (int[]){7}, 0, &made));
        TRY(MPI_Graph_create(d, 2, falls, none, 0, &made));
        TRY(MPI_Win_create(NULL, 8, 1, info, d, &w));
        TRY(MPI_Win_allocate(8, 1, info, d, NULL, &w));
        TRY(MPI_Win_allocate_shared(8, 0, info, d, &base, &w));
        TRY(MPI_Win_allocate_shared(8, 1, info, d, NULL, &w));
        MPI_Group two_ranks;
        MPI_Comm_group(d, &two_ranks);
        TRY(MPI_Comm_create(MPI_COMM_SELF, two_ranks, &made));
        MPI_Group_free(&two_ranks);
#endif
        (void)falls, (void)less;
        fflush(stdout);
    }
    MPI_Barrier(d);
    // Right ones, with what looks like the above.
    MPI_Cart_create(d, 0, NULL, NULL, 0, &made);
    if (rank == 0) printf("a point: %d\n", made != MPI_COMM_NULL);
    MPI_Dist_graph_create_adjacent(d, 1, (int[]){MPI_PROC_NULL}, MPI_UNWEIGHTED, 0, a, MPI_UNWEIGHTED, info, 0, &made);
    MPI_Graph_create(d, 0, none, none, 0, &made);
    if (rank == 0) printf("an empty graph: %d\n", made != MPI_COMM_NULL);
    MPI_Win_create(NULL, 0, 1, info, d, &w);
    MPI_Win_fence(MPI_MODE_NOPRECEDE | MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOSUCCEED, w);
    MPI_Win_free(&w);
    // A rank without edges has no array of them, which Open MPI refuses.
#ifndef OPEN_MPI
    MPI_Dist_graph_create(d, 1, &rank, rank == 0 ? none : ones, rank == 0 ? NULL : none, MPI_UNWEIGHTED, info, 0, &made);
#endif
    MPI_Intercomm_merge(between, 0, &made);
    MPI_Comm_split_type(d, MPI_UNDEFINED, 0, info, &made);
    if (rank == 0) printf("none: %d\n", made == MPI_COMM_NULL);
    MPI_Comm_split_type(d, MPI_COMM_TYPE_SHARED, 0, info, &made);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, made);
    if (rank == 0) printf("then: %d\n", sum);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
