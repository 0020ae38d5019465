// One thread waits for a message, another joins it, the first is cancelled; then a message comes for each.
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static atomic_int begun;

static void *waits(void *tag) {
    int value = 0;
    begun++;
    MPI_Recv(&value, 1, MPI_INT, 0, (int)(long)tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    pthread_testcancel();
    printf("got %d\n", value);
    return NULL;
}

// Until so many threads are in their calls, most likely.
static void until(int threads) {
    while (begun < threads) usleep(1000);
    usleep(100000);
}

int main(int count, char **words) {
    int provided, value = 7;
    pthread_t first, second;
    void *cancelled, *other;
    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &provided);
    pthread_create(&first, NULL, waits, (void *)1);
    until(1);
    pthread_create(&second, NULL, waits, (void *)2);
    until(2);
    pthread_cancel(first);
    usleep(100000);
    MPI_Send(&value, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
    pthread_join(second, &other);
    MPI_Send(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    pthread_join(first, &cancelled);
    printf("the other %d, cancelled %d\n", other == PTHREAD_CANCELED, cancelled == PTHREAD_CANCELED);
    MPI_Finalize();
    return 0;
}
