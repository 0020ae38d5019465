// What deletes an attribute of MPI_COMM_SELF is called by MPI_Finalize, and may wait for another rank. Two ranks.
// Prints what came. And a receive that is wrong in itself is told at once, whatever handler is set.
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

static int rank;

static int deletes(MPI_Comm comm, int key, void *attribute, void *extra) {
    int value = 5, sum;
    (void)comm, (void)key, (void)attribute, (void)extra;
    if (rank == 0) {
        usleep(200000);
        MPI_Send(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    } else {
        value = 0;
        MPI_Recv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d: got %d, sum %d\n", rank, value, sum);
    return MPI_SUCCESS;
}

static int class_of(int code) {
    int class;
    MPI_Error_class(code, &class);
    return class;
}

int main(int count, char **words) {
    volatile int below = -1;
    int provided, key, value, class[3];
    MPI_Comm both;
    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &both);
    MPI_Comm_set_errhandler(both, MPI_ERRORS_RETURN);
    class[0] = class_of(MPI_Recv(&value, below, MPI_INT, 1 - rank, 0, both, MPI_STATUS_IGNORE));
    class[1] = class_of(MPI_Recv(&value, 1, MPI_DATATYPE_NULL, 1 - rank, 0, both, MPI_STATUS_IGNORE));
    class[2] = class_of(MPI_Sendrecv(&value, 1, MPI_INT, MPI_PROC_NULL, 0, &value, below, MPI_INT, 1 - rank, 0, both, MPI_STATUS_IGNORE));
    printf("rank %d: refused %d %d %d\n", rank, class[0] == MPI_ERR_COUNT, class[1] == MPI_ERR_TYPE, class[2] == MPI_ERR_COUNT);
    MPI_Comm_free(&both);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, deletes, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    MPI_Finalize();
    return 0;
}
