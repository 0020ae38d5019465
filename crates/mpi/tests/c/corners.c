// What is seldom used, while twenty threads of each rank wait: levels of MPI_THREAD, error handlers, requests that are
// cancelled, a window, communicators that are made. Two ranks. Prints what each gave, as natively.
// usage: corners LEVEL (0 to 3; threads wait at 3 alone)
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int rank, other, handled, codes[3];
static MPI_Request late;
static atomic_int begun;

static void *waits(void *tag) {
    int value = 0;
    MPI_Recv(&value, 1, MPI_INT, other, 1000 + (int)(long)tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return NULL;
}

// The receive is cancelled by the main thread.
static void *waits_in_vain(void *unused) {
    int value;
    MPI_Status status;
    MPI_Irecv(&value, 1, MPI_INT, other, 999, MPI_COMM_WORLD, &late);
    MPI_Request mine = late;
    begun = 1;
    MPI_Wait(&mine, &status);
    int cancelled = 0;
    MPI_Test_cancelled(&status, &cancelled);
    codes[0] = cancelled + 10 * (mine == MPI_REQUEST_NULL);
    return unused;
}

static int class_of(int error) {
    int class;
    MPI_Error_class(error, &class);
    return class;
}

static void handles(MPI_Comm *comm, int *error, ...) {
    int size;
    MPI_Comm_size(*comm, &size);
    handled += class_of(*error) == MPI_ERR_TRUNCATE && size == 2;
}

static void with_threads(void) {
    pthread_t ids[21];
    MPI_Comm mine, both;
    MPI_Errhandler handler;
    MPI_Comm_dup(MPI_COMM_WORLD, &both);
    for (long t = 0; t < 20; t++) pthread_create(&ids[t], NULL, waits, (void *)t);
    pthread_create(&ids[20], NULL, waits_in_vain, NULL);
    // A handler of the program's is called with the communicator, and the call's code is the error's.
    MPI_Comm_create_errhandler(handles, &handler);
    MPI_Comm_set_errhandler(both, handler);
    int two[2] = {1, 2}, one = 0, code;
    MPI_Request request;
    MPI_Isend(two, 2, MPI_INT, other, 1, both, &request);
    code = MPI_Recv(&one, 1, MPI_INT, other, 1, both, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    printf("rank %d: handler called %d, truncated %d\n", rank, handled, class_of(code) == MPI_ERR_TRUNCATE);
    // One of many that fails is told by its status; MPICH asks MPI_COMM_WORLD's handler about requests, natively, too.
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(both, MPI_ERRORS_RETURN);
    MPI_Request many[3];
    MPI_Status statuses[3];
    int places[2] = {0, 0};
    MPI_Irecv(&places[0], 1, MPI_INT, other, 2, both, &many[0]);
    MPI_Irecv(&places[1], 1, MPI_INT, other, 3, both, &many[1]);
    MPI_Isend(two, 1, MPI_INT, other, 2, both, &many[2]);
    MPI_Send(two, 2, MPI_INT, other, 3, both);
    code = MPI_Waitall(3, many, statuses);
    printf("rank %d: waitall %d, the second's %d, first %d\n", rank, class_of(code) == MPI_ERR_IN_STATUS,
           class_of(statuses[1].MPI_ERROR) == MPI_ERR_TRUNCATE, places[0]);
    // Requests that are null, or persistent and not begun.
    MPI_Recv_init(&one, 1, MPI_INT, other, 4, both, &many[0]);
    many[1] = MPI_REQUEST_NULL;
    code = MPI_Waitall(2, many, statuses);
    printf("rank %d: nothing to wait for %d\n", rank, code == MPI_SUCCESS && many[0] != MPI_REQUEST_NULL);
    MPI_Request_free(&many[0]);
    // A window, fenced and locked.
    int *shown;
    MPI_Win window;
    // As each may be had natively: MPICH 4.0's allocated windows show one's own memory, Open MPI 4.1's created ones what
    // was before.
#ifdef MPICH
    shown = malloc(sizeof *shown);
    MPI_Win_create(shown, sizeof *shown, sizeof *shown, MPI_INFO_NULL, both, &window);
#else
    MPI_Win_allocate(sizeof *shown, sizeof *shown, MPI_INFO_NULL, both, &shown, &window);
#endif
    *shown = 10 + rank;
    MPI_Win_fence(0, window);
    MPI_Get(&one, 1, MPI_INT, other, 0, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    code = one;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, other, 0, window);
    two[0] = 20 + rank;
    MPI_Put(two, 1, MPI_INT, other, 0, 1, MPI_INT, window);
    MPI_Win_flush(other, window);
    MPI_Win_unlock(other, window);
    MPI_Barrier(both);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
    printf("rank %d: got %d, was put %d\n", rank, code, *shown);
    MPI_Win_unlock(rank, window);
    MPI_Win_free(&window);
    // Communicators.
    MPI_Comm_split(both, rank, 0, &mine);
    int size;
    MPI_Comm_size(mine, &size);
    MPI_Comm_free(&mine);
    // The receive that waits in vain.
    MPI_Barrier(both);
    for (int t = 0; t < 20; t++) MPI_Send(&t, 1, MPI_INT, other, 1000 + t, MPI_COMM_WORLD);
    for (int t = 0; t < 20; t++) pthread_join(ids[t], NULL);
    while (!begun) usleep(1000);
    MPI_Cancel(&late);
    pthread_join(ids[20], NULL);
    printf("rank %d: split %d, cancelled %d\n", rank, size, codes[0]);
    MPI_Comm_free(&both);
    MPI_Errhandler_free(&handler);
}

int main(int count, char **words) {
    const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};
    int level = atoi(words[1]), provided, asked, first, value = 0;
    MPI_Init_thread(&count, &words, levels[level], &provided);
    MPI_Query_thread(&asked);
    MPI_Is_thread_main(&first);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    other = 1 - rank;
    MPI_Sendrecv(&rank, 1, MPI_INT, other, 0, &value, 1, MPI_INT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d: level %d, as asked for %d, main %d, sum %d\n", rank, level, provided == levels[level] && asked == provided,
           first, value);
    if (level == 3) with_threads();
    MPI_Finalize();
    return 0;
}
