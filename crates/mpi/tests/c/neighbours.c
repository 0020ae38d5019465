// What neighbours send each other, on shapes where one rank is a neighbour twice and on others; by T threads, each on
// communicators of its own. All threads must have got the same; it is printed rank by rank.
// usage: neighbours T
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHAPES = 6, MOST = 6, SAID = 4000, MORE = 40 };
static int rank, ranks;
static MPI_Comm comms[16][SHAPES];
static char said[16][SAID + MORE];

static MPI_Comm shape(int which) {
    int size[3] = {ranks, 1, 1}, periodic[3] = {1, 1, 1}, once[3] = {0, 0, 0};
    // The next rank three times, by two ways.
    int to[3] = {(rank + 1) % ranks, (rank + 1) % ranks, (rank + 1) % ranks};
    int from[3] = {(rank + ranks - 1) % ranks, (rank + ranks - 1) % ranks, (rank + ranks - 1) % ranks};
    int weights[3] = {1, 1, 1};
    MPI_Comm made;
    if (which < 3) MPI_Cart_create(MPI_COMM_WORLD, which + 1, size, periodic, 0, &made);
    if (which == 3) MPI_Cart_create(MPI_COMM_WORLD, 2, size, once, 0, &made);
    if (which == 4)
        MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 3, from, weights, 3, to, weights, MPI_INFO_NULL, 0, &made);
    if (which == 5) {
        int ends[8], edges[16];
        for (int r = 0; r < ranks; r++) {
            ends[r] = 2 * (r + 1);
            edges[2 * r] = (r + 1) % ranks;
            edges[2 * r + 1] = (r + ranks - 1) % ranks;
        }
        MPI_Graph_create(MPI_COMM_WORLD, ranks, ends, edges, 0, &made);
    }
    return made;
}

static void *exchanges(void *argument) {
    int t = (int)(long)argument, sent[2 * MOST], got[2 * MOST], counts[MOST], places[MOST];
    MPI_Aint bytes[MOST];
    MPI_Datatype types[MOST];
    char *out = said[t];
    for (int i = 0; i < MOST; i++) counts[i] = 2, places[i] = 2 * (MOST - 1 - i), bytes[i] = 8 * (MOST - 1 - i), types[i] = MPI_INT;
    for (int i = 0; i < 2 * MOST; i++) sent[i] = 100 * rank + i;
    for (int call = 0; call < 5; call++) {
        for (int which = 0; which < SHAPES; which++) {
            MPI_Comm comm = comms[t][which];
            for (int i = 0; i < 2 * MOST; i++) got[i] = -1;
            if (call == 0) MPI_Neighbor_alltoall(sent, 2, MPI_INT, got, 2, MPI_INT, comm);
            if (call == 1) MPI_Neighbor_alltoallv(sent, counts, places, MPI_INT, got, counts, places, MPI_INT, comm);
            if (call == 2) MPI_Neighbor_alltoallw(sent, counts, bytes, types, got, counts, bytes, types, comm);
            if (call == 3) MPI_Neighbor_allgather(sent, 2, MPI_INT, got, 2, MPI_INT, comm);
            if (call == 4) MPI_Neighbor_allgatherv(sent, 2, MPI_INT, got, counts, places, MPI_INT, comm);
            out += snprintf(out, 20, " %d%c", call, 'a' + which);
            for (int i = 0; i < 2 * MOST; i++) out += snprintf(out, 20, " %d", got[i]);
        }
    }
    return NULL;
}

int main(int count, char **words) {
    int threads = atoi(words[1]), provided, same = 1, to = 0, from = 0, gathered, exchanged;
    pthread_t ids[16];
    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int t = 0; t < threads; t++)
        for (int which = 0; which < SHAPES; which++) comms[t][which] = shape(which);
    for (long t = 0; t < threads; t++) pthread_create(&ids[t], NULL, exchanges, (void *)t);
    for (int t = 0; t < threads; t++) pthread_join(ids[t], NULL);
    for (int t = 1; t < threads; t++) same &= strcmp(said[t], said[0]) == 0;
    // Where there are no neighbours.
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Neighbor_allgather(&to, 1, MPI_INT, &from, 1, MPI_INT, MPI_COMM_WORLD), &gathered);
    MPI_Error_class(MPI_Neighbor_alltoall(&to, 1, MPI_INT, &from, 1, MPI_INT, MPI_COMM_WORLD), &exchanged);
    // One rank prints it all: what starts them may put others' lines into the midst of one.
    snprintf(said[0] + strlen(said[0]), MORE, "; refused %d %d, all alike %d", gathered, exchanged, same);
    MPI_Gather(rank ? said[0] : MPI_IN_PLACE, sizeof said[0], MPI_CHAR, said, sizeof said[0], MPI_CHAR, 0, MPI_COMM_WORLD);
    for (int r = 0; r < ranks && rank == 0; r++) printf("rank %d:%s\n", r, said[r]);
    MPI_Finalize();
    return 0;
}
