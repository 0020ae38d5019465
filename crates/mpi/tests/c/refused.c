// Calls that make or free communicators, refused in one rank only, or in all with a handler that makes one itself: the
// rank is told at once, and what all ranks make after it is made. Two ranks.
#include <mpi.h>
#include <stdio.h>

static int rank;

// All ranks, after what one of them did.
static void all(const char *after, MPI_Comm parent) {
    MPI_Comm made, duplicate;
    MPI_Comm_split(parent, 0, 0, &made);
    MPI_Comm_dup(made, &duplicate);
    MPI_Comm_free(&made);
    MPI_Comm_split(duplicate, 0, 0, &made);
    int sum = 0, one = 1;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, made);
    MPI_Comm_free(&made);
    MPI_Comm_free(&duplicate);
    if (rank == 0) printf("after %s: %d\n", after, sum);
}

static void handler(MPI_Comm *of, int *code, ...) {
    (void)of, (void)code;
    all("a split in a handler", MPI_COMM_WORLD);
}

static void told(const char *call, int code) { printf("%s: refused %d\n", call, code != MPI_SUCCESS); }

int main(int count, char **words) {
    int provided;
    MPI_Comm d, made, world = MPI_COMM_WORLD;
    MPI_Group group;
    MPI_Errhandler ours;
    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &d);
    MPI_Comm_set_errhandler(d, MPI_ERRORS_RETURN);
    MPI_Comm_group(d, &group);
    if (rank == 0) told("a group with a wrong tag", MPI_Comm_create_group(d, group, -7, &made));
    all("it", d);
    if (rank == 0) told("a split without a place", MPI_Comm_split(d, 0, 0, NULL));
    all("it", d);
    if (rank == 0) told("a duplicate without a place", MPI_Comm_dup(MPI_COMM_WORLD, NULL));
    MPI_Comm_free(&d);
    MPI_Comm_dup(MPI_COMM_WORLD, &d);
    all("it", d);
    if (rank == 0) told("an end of all", MPI_Comm_free(&world));
    all("it", MPI_COMM_WORLD);
    // MPICH allows no calls in a handler, and takes this colour.
    if (count > 1) {
        MPI_Comm_create_errhandler(handler, &ours);
        MPI_Comm_set_errhandler(d, ours);
        MPI_Comm_split(d, -5, 0, &made);
        all("it", d);
    }
    MPI_Group_free(&group);
    MPI_Finalize();
    return 0;
}
