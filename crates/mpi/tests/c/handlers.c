// A message that is too long for MPI_Recv, MPI_Sendrecv and (Open MPI) MPI_Bcast on a communicator whose handler is another than MPI_COMM_WORLD's. Two ranks.
// usage: handlers return|call|fatal|none|old: what the communicator's does (old: it returns, set by the old name); MPI_COMM_WORLD's is fatal beside the first two and the last, and returns beside the others. Prints what came of it.
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

static int called;
static MPI_Comm both;

static void calls(MPI_Comm *comm, int *error, ...) {
    int class;
    MPI_Error_class(*error, &class);
    called += *comm == both && class == MPI_ERR_TRUNCATE;
}

static int is_truncated(int code) {
    int class;
    MPI_Error_class(code, &class);
    return class == MPI_ERR_TRUNCATE;
}

int main(int count, char **words) {
    int provided, rank, one = 0, two[20000] = {1, 2}, codes[3];
    char what = words[1][0];
    MPI_Errhandler handler;
    MPI_Request request;
    MPI_Status status;
    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &both);
    MPI_Comm_create_errhandler(calls, &handler);
    if (what == 'f' || what == 'n') MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
#ifndef OPEN_MPI
    int MPI_Errhandler_set(MPI_Comm, MPI_Errhandler);
    if (what == 'o') MPI_Errhandler_set(both, MPI_ERRORS_RETURN);
    else
#endif
    MPI_Comm_set_errhandler(what == 'n' ? MPI_COMM_SELF : both, what == 'c' ? handler : what == 'f' ? MPI_ERRORS_ARE_FATAL : MPI_ERRORS_RETURN);
    for (int i = 0; i < 2; i++) {
        // A short one, and one that does not come at once.
        if (i == 1) usleep(20000 * rank);
        MPI_Isend(two, i == 0 ? 2 : 20000, MPI_INT, 1 - rank, 1, both, &request);
        codes[i] = MPI_Recv(&one, 1, MPI_INT, 1 - rank, 1, both, &status);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    codes[2] = MPI_Sendrecv(two, 2, MPI_INT, 1 - rank, 2, &one, 1, MPI_INT, 1 - rank, 2, both, &status);
    int shared = 0;
#ifdef OPEN_MPI
    // (MPICH's non-blocking form tells another error, to the right handler.)
    shared = MPI_Bcast(two, 2 - rank, MPI_INT, 0, both);
    if (shared != MPI_SUCCESS) shared = is_truncated(shared);
#endif
    // What fits comes.
    two[0] = 70 + rank;
    MPI_Sendrecv(two, 1, MPI_INT, 1 - rank, 3, &one, 1, MPI_INT, 1 - rank, 3, both, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    printf("rank %d: too long %d %d %d %d, called %d, then %d, %d of them from %d\n", rank, is_truncated(codes[0]), is_truncated(codes[1]),
           is_truncated(codes[2]), shared, called, one, count, status.MPI_SOURCE);
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&both);
    MPI_Finalize();
    return 0;
}
