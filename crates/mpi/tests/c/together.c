// So many threads wait for messages that are sent when all of them have begun. Prints what came, how often MPI was
// asked about one request until all had begun, how often one thread can ask in so many milliseconds here, and how often
// MPI was asked about many in the tenth of a second in which it was asked least.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static atomic_int begun, sum;

static void *waits(void *tag) {
    int value = 0;
    begun++;
    MPI_Recv(&value, 1, MPI_INT, 0, (int)(long)tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    sum += value;
    return NULL;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

// How often one request can be asked about in three milliseconds by who lets others run in between: the most of ten
// times.
static int asked_in_3_ms(void) {
    int most = 0, value, flag;
    MPI_Request request;
    MPI_Irecv(&value, 1, MPI_INT, 0, 9999, MPI_COMM_WORLD, &request);
    for (int i = 0; i < 10; i++) {
        int asked = 0;
        for (double began = now(); now() - began < 3e-3; asked++) {
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
            sched_yield();
        }
        if (asked > most) most = asked;
    }
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return most;
}

int main(int count, char **words) {
    int provided, threads = atoi(words[1]);
    atomic_int *of_one = dlsym(RTLD_DEFAULT, "tests_of_one"), *of_many = dlsym(RTLD_DEFAULT, "tests_of_many");
    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &provided);
    int possible = asked_in_3_ms(), before = *of_one;
    pthread_t *ids = malloc(threads * sizeof *ids);
    for (long t = 0; t < threads; t++) pthread_create(&ids[t], NULL, waits, (void *)t);
    while (begun < threads) usleep(1000);
    int first = *of_one - before;
    // As many as there would be in a tenth of a second of one length.
    double least = 1e9;
    for (int i = 0; i < 100 && least > 6; i++) {
        int before = *of_many;
        double began = now();
        usleep(100000);
        double asked = (*of_many - before) / (now() - began) / 10;
        if (asked < least) least = asked;
    }
    for (int t = 0; t < threads; t++) MPI_Send(&t, 1, MPI_INT, 0, t, MPI_COMM_WORLD);
    for (int t = 0; t < threads; t++) pthread_join(ids[t], NULL);
    printf("sum %d, asked %d times at first, possible %d in 3 ms, %.0f in a tenth of a second\n", sum, first, possible, least);
    MPI_Finalize();
    return 0;
}
