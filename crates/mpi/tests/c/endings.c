// Twenty threads of each rank wait for messages that never come. Rank 1 ends by kill -9, by MPI_Abort or by a message
// that is too long, or each rank by MPI_Finalize.
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static atomic_int begun;
static void *waits(void *tag) {
    int value;
    begun++;
    MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 100 + (int)(long)tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return NULL;
}
int main(int count, char **words) {
    int provided, rank;
    const char *end = words[1];
    pthread_t threads[20];
    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (long i = 0; i < 20; i++) pthread_create(&threads[i], NULL, waits, (void *)i);
    while (begun < 20) usleep(1000);
    // In their calls, most likely.
    usleep(100000);
    if (strcmp(end, "finalize") == 0) {
        MPI_Finalize();
        return 0;
    }
    if (rank == 1 && strcmp(end, "kill") == 0) kill(getpid(), SIGKILL);
    if (rank == 1 && strcmp(end, "abort") == 0) MPI_Abort(MPI_COMM_WORLD, 3);
    if (rank == 0 && strcmp(end, "long") == 0) MPI_Send("two integers", 8, MPI_CHAR, 1, 110, MPI_COMM_WORLD);
    for (int i = 0; i < 20; i++) pthread_join(threads[i], NULL);
    return 1;
}
