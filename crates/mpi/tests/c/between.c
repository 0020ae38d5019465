// MPI_Reduce between two groups, by an operation of the program's: ranks 0 and 2 against rank 1. Rank 2 takes no part, and
// need not pass anything that is right but the root. Three ranks.
#include <mpi.h>
#include <stdio.h>

static void adds(void *in, void *inout, int *count, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *count; i++) ((int *)inout)[i] += ((int *)in)[i];
}

int main(int count, char **words) {
    int provided, rank, one = 5, sum = -1;
    MPI_Comm own, between;
    MPI_Op ours;
    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Op_create(adds, 1, &ours);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &own);
    MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, rank % 2 ? 0 : 1, 7, &between);
#ifdef OPEN_MPI
    // It looks at what it does not need.
    const MPI_Datatype none = MPI_INT;
    const MPI_Op nothing = MPI_SUM;
#else
    const MPI_Datatype none = MPI_DATATYPE_NULL;
    const MPI_Op nothing = MPI_SUM;
#endif
    if (rank == 0) MPI_Reduce(&one, &sum, 1, MPI_INT, ours, MPI_ROOT, between);
    if (rank == 1) MPI_Reduce(&one, NULL, 1, MPI_INT, ours, 0, between);
    if (rank == 2) MPI_Reduce(NULL, NULL, 0, none, nothing, MPI_PROC_NULL, between);
    if (rank == 0) printf("sum %d\n", sum);
    MPI_Finalize();
    return 0;
}
