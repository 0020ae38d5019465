// T threads a rank exchange messages that are sent when their receive is there, into buffers that are larger: both may
// have taken their receives back. Two ranks.
// usage: exchange T ROUNDS. Prints how many came right.
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { SENT = 2048, ROOM = 70000 };
static int rank, rounds;
static atomic_int right;

static void *partner(void *argument) {
    int tag = (int)(long)argument, other = 1 - rank, came;
    int *from = calloc(SENT, sizeof *from), *to = malloc(ROOM * sizeof *to);
    MPI_Status status;
    for (int i = 0; i < rounds; i++) {
        from[SENT - 1] = 1000 * tag + i;
        MPI_Sendrecv(from, SENT, MPI_INT, other, tag, to, ROOM, MPI_INT, other, tag, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_INT, &came);
        right += came == SENT && to[SENT - 1] == 1000 * tag + i && status.MPI_SOURCE == other && status.MPI_TAG == tag;
    }
    free(from);
    free(to);
    return argument;
}

int main(int count, char **words) {
    int threads = atoi(words[1]), provided;
    pthread_t *ids = calloc(threads, sizeof *ids);
    rounds = atoi(words[2]);
    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    for (long t = 0; t < threads; t++) pthread_create(&ids[t], NULL, partner, (void *)t);
    for (int t = 0; t < threads; t++) pthread_join(ids[t], NULL);
    printf("rank %d: right %d\n", rank, right);
    MPI_Finalize();
    return 0;
}
