// The multi-threaded latency of the OSU micro-benchmarks, by its definition: one thread of the first rank sends and waits for an answer, T threads of the second
// one receive, whichever gets the message, and answer. Sizes from one byte to 64 KiB.
// usage: latency THREADS ROUNDS. Prints how many bytes came back right, and half the time of a round over all sizes; on standard error each size's.
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LARGEST 65536

static int threads, rounds;

static double now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void *answers(void *argument) {
    char *buffer = malloc(LARGEST);
    int share = rounds / threads;
    for (int size = 1; size <= LARGEST; size *= 16)
        for (int i = 0; i < share; i++) {
            MPI_Recv(buffer, size, MPI_CHAR, 0, size, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, size, MPI_CHAR, 0, LARGEST + size, MPI_COMM_WORLD);
        }
    free(buffer);
    return argument;
}

int main(int count, char **values) {
    int provided, rank;
    MPI_Init_thread(&count, &values, MPI_THREAD_MULTIPLE, &provided);
    if (count < 3 || provided != MPI_THREAD_MULTIPLE) return 2;
    threads = atoi(values[1]);
    rounds = atoi(values[2]) / threads * threads;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double used = now(CLOCK_PROCESS_CPUTIME_ID);
    if (rank == 1) {
        pthread_t *ids = malloc(threads * sizeof *ids);
        for (int t = 0; t < threads; t++) pthread_create(ids + t, NULL, answers, NULL);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int t = 0; t < threads; t++) pthread_join(ids[t], NULL);
    } else {
        char *sent = malloc(LARGEST), *came = malloc(LARGEST);
        long right = 0, sizes = 0;
        MPI_Barrier(MPI_COMM_WORLD);
        double first = now(CLOCK_MONOTONIC);
        for (int size = 1; size <= LARGEST; size *= 16, sizes++) {
            double began = now(CLOCK_MONOTONIC);
            memset(sent, size, LARGEST);
            for (int i = 0; i < rounds; i++) {
                sent[size / 2] = i;
                MPI_Send(sent, size, MPI_CHAR, 1, size, MPI_COMM_WORLD);
                MPI_Recv(came, size, MPI_CHAR, 1, LARGEST + size, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                right += memcmp(sent, came, size) == 0 ? size : 0;
            }
            fprintf(stderr, "%d bytes: %.2f each\n", size, (now(CLOCK_MONOTONIC) - began) / rounds / 2 * 1e6);
        }
        printf("%ld\n", right);
        fprintf(stderr, "T=%d: %.2f us a message\n", threads, (now(CLOCK_MONOTONIC) - first) / sizes / rounds / 2 * 1e6);
    }
    used = now(CLOCK_PROCESS_CPUTIME_ID) - used;
    fprintf(stderr, "rank %d: %.2f us of processor time a message\n", rank, used / 5 / rounds / 2 * 1e6);
    MPI_Finalize();
    return 0;
}
