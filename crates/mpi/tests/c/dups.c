// Threads that duplicate a communicator of one rank while others make communicators of several: the number of a new
// communicator is given to one of them at a time. Prints how many were made, and whether memory stayed.
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>

enum { THREADS = 4, ROUNDS = 5 };
static MPI_Comm comms[THREADS];
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static int made;

static void *rounds(void *number) {
    int tag = (int)(long)number;
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Comm several, alone;
        MPI_Group all;
        MPI_Comm_group(comms[tag], &all);
        MPI_Comm_create_group(comms[tag], all, tag, &several);
        MPI_Barrier(several);
        MPI_Comm_free(&several);
        MPI_Group_free(&all);
        pthread_mutex_lock(&one_at_a_time);
        MPI_Comm_dup(MPI_COMM_SELF, &alone);
        made++;
        pthread_mutex_unlock(&one_at_a_time);
        MPI_Comm_free(&alone);
    }
    return NULL;
}

int main(int count, char **words) {
    int provided, rank;
    pthread_t ids[THREADS];
    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < THREADS; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    for (long i = 0; i < THREADS; i++) pthread_create(&ids[i], NULL, rounds, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);
    getrusage(RUSAGE_SELF, &after);
    for (int i = 0; i < THREADS; i++) MPI_Comm_free(&comms[i]);
    // In KiB. Without it a second takes some hundred MiB.
    printf("rank %d: made %d, stayed %d\n", rank, made, after.ru_maxrss - before.ru_maxrss < 20 * 1024);
    MPI_Finalize();
    return 0;
}
