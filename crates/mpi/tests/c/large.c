// Calls with large counts, as mpi4py makes them: where there are any. Two ranks; prints what each got, as natively.
#include <mpi.h>
#include <stdio.h>

#ifdef OPEN_MPI
int MPI_Send_c(const void *, MPI_Count, MPI_Datatype, int, int, MPI_Comm);
int MPI_Recv_c(void *, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Status *);
int MPI_Isend_c(const void *, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
int MPI_Irecv_c(void *, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
int MPI_Mrecv_c(void *, MPI_Count, MPI_Datatype, MPI_Message *, MPI_Status *);
int MPI_Sendrecv_c(const void *, MPI_Count, MPI_Datatype, int, int, void *, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Status *);
int MPI_Sendrecv_replace_c(void *, MPI_Count, MPI_Datatype, int, int, int, int, MPI_Comm, MPI_Status *);
int MPI_Bcast_c(void *, MPI_Count, MPI_Datatype, int, MPI_Comm);
int MPI_Allreduce_c(const void *, void *, MPI_Count, MPI_Datatype, MPI_Op, MPI_Comm);
int MPI_Allgather_c(const void *, MPI_Count, MPI_Datatype, void *, MPI_Count, MPI_Datatype, MPI_Comm);
int MPI_Win_allocate_c(MPI_Aint, MPI_Aint, MPI_Info, MPI_Comm, void *, MPI_Win *);
#endif
#pragma weak MPI_Send_c
#pragma weak MPI_Recv_c
#pragma weak MPI_Isend_c
#pragma weak MPI_Irecv_c
#pragma weak MPI_Mrecv_c
#pragma weak MPI_Sendrecv_c
#pragma weak MPI_Sendrecv_replace_c
#pragma weak MPI_Bcast_c
#pragma weak MPI_Allreduce_c
#pragma weak MPI_Allgather_c
#pragma weak MPI_Win_allocate_c

#define CALL(name, ...) (name##_c ? name##_c(__VA_ARGS__) : name(__VA_ARGS__))

int main(int count, char **words) {
    int provided, rank, other, x, y = 0, z = 0, got, all[2], refused = 1;
    char said[200], *out = said;
    void *shown;
    MPI_Request requests[2];
    MPI_Message message;
    MPI_Status status, both[2];
    MPI_Win window;
    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    other = 1 - rank;
    x = 10 + rank;
    if (rank == 0) CALL(MPI_Send, &x, 1, MPI_INT, other, 1, MPI_COMM_WORLD);
    CALL(MPI_Recv, &y, 1, MPI_INT, other, 1, MPI_COMM_WORLD, &status);
    if (rank == 1) CALL(MPI_Send, &x, 1, MPI_INT, other, 1, MPI_COMM_WORLD);
    MPI_Get_count(&status, MPI_INT, &got);
    out += sprintf(out, "rank %d: got %d, %d of them;", rank, y, got);
    CALL(MPI_Irecv, &y, 1, MPI_INT, other, 2, MPI_COMM_WORLD, &requests[0]);
    CALL(MPI_Isend, &rank, 1, MPI_INT, other, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, both);
    CALL(MPI_Isend, &x, 1, MPI_INT, other, 3, MPI_COMM_WORLD, &requests[0]);
    MPI_Mprobe(other, 3, MPI_COMM_WORLD, &message, &status);
    CALL(MPI_Mrecv, &z, 1, MPI_INT, &message, &status);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    out += sprintf(out, " %d %d;", y, z);
    CALL(MPI_Sendrecv, &x, 1, MPI_INT, other, 4, &y, 1, MPI_INT, other, 4, MPI_COMM_WORLD, &status);
    CALL(MPI_Sendrecv_replace, &z, 1, MPI_INT, other, 5, other, 5, MPI_COMM_WORLD, &status);
    out += sprintf(out, " %d %d;", y, z);
    CALL(MPI_Bcast, &z, 1, MPI_INT, 1, MPI_COMM_WORLD);
    CALL(MPI_Allreduce, &x, &y, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CALL(MPI_Allgather, &x, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
    out += sprintf(out, " %d %d %d %d;", z, y, all[0], all[1]);
    CALL(MPI_Win_allocate, sizeof x, sizeof x, MPI_INFO_NULL, MPI_COMM_WORLD, &shown, &window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
    // One that no `int` holds, where the calls are those with an `int`.
#ifdef OPEN_MPI
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (MPI_Send_c) refused = MPI_Send_c(&x, 1LL << 33, MPI_INT, other, 6, MPI_COMM_WORLD) == MPI_ERR_COUNT;
#endif
    printf("%s refused %d\n", said, refused);
    MPI_Finalize();
    return 0;
}
