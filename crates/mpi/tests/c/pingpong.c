// T threads a rank, each with a partner on the other: rounds of a message there and back; then, with seconds, all wait for so long. Prints what came, the
// time of a round and the processor time of the wait. Messages, and buffers of the wait, have so many bytes.
// usage: pingpong T ROUNDS [SECONDS [BYTES]]
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int rank, rounds, seconds, numbers = 1;
static long sum;

static double now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void *partner(void *argument) {
    int t = (int)(long)argument, *value = calloc(numbers, sizeof *value);
    for (int i = 0; i < rounds; i++) {
        if (rank == 0) {
            MPI_Send(value, numbers, MPI_INT, 1, t, MPI_COMM_WORLD);
            MPI_Recv(value, numbers, MPI_INT, 1, t, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(value, numbers, MPI_INT, 0, t, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            value[numbers - 1]++;
            MPI_Send(value, numbers, MPI_INT, 0, t, MPI_COMM_WORLD);
        }
    }
    __sync_fetch_and_add(&sum, value[numbers - 1]);
    // What it waits for comes after so many seconds.
    if (seconds) MPI_Recv(value, numbers, MPI_INT, 1 - rank, 5000 + t, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    free(value);
    return 0;
}

int main(int count, char **values) {
    int provided, threads = atoi(values[1]);
    rounds = atoi(values[2]);
    seconds = count > 3 ? atoi(values[3]) : 0;
    if (count > 4) numbers = atoi(values[4]) / (int)sizeof(int);
    MPI_Init_thread(&count, &values, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    pthread_t *ids = malloc(threads * sizeof *ids);
    double began = now(CLOCK_MONOTONIC), used = now(CLOCK_PROCESS_CPUTIME_ID);
    for (long t = 0; t < threads; t++) pthread_create(ids + t, 0, partner, (void *)t);
    if (seconds) {
        sleep(2);
        used = now(CLOCK_PROCESS_CPUTIME_ID);
        sleep(seconds);
        used = now(CLOCK_PROCESS_CPUTIME_ID) - used;
        for (int t = 0; t < threads; t++) MPI_Send(&t, 1, MPI_INT, 1 - rank, 5000 + t, MPI_COMM_WORLD);
        fprintf(stderr, "rank %d: %.3f s of processor time in %d s of waiting\n", rank, used, seconds);
    }
    for (int t = 0; t < threads; t++) pthread_join(ids[t], 0);
    began = now(CLOCK_MONOTONIC) - began;
    used = now(CLOCK_PROCESS_CPUTIME_ID) - used;
    if (rank == 0) {
        printf("%ld\n", sum);
        if (!seconds) fprintf(stderr, "T=%d: %.2f us a round\n", threads, began / threads / rounds * 1e6);
    }
    if (!seconds) fprintf(stderr, "rank %d: %.2f us of processor time a round\n", rank, used / threads / rounds * 1e6);
    MPI_Finalize();
    return 0;
}
