// Several threads whose calls fail at once, each on a communicator of its own with a handler: each error is told to that
// one's, in the thread whose call it was. A message and a collective call that are too long, and a request that is waited
// for. Two ranks.
// usage: told THREADS TURNS
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 16 };
static MPI_Comm comms[MOST];
static atomic_int called[MOST], elsewhere;
static int turns, rank, failed[MOST];
static __thread int own = -1;

static void handler(MPI_Comm *comm, int *code, ...) {
    (void)code;
    for (int i = 0; i < MOST; i++) {
        if (*comm != comms[i]) continue;
        called[i]++;
        if (own != i) elsewhere++;
        return;
    }
    elsewhere++;
}

static void *run(void *number) {
    own = (int)(long)number;
    MPI_Comm comm = comms[own];
    int values[4] = {0}, other = 1 - rank;
    for (int i = 0; i < turns; i++) {
        failed[own] += MPI_Sendrecv(values, 4, MPI_INT, other, 3, values, 2, MPI_INT, other, 3, comm, MPI_STATUS_IGNORE) != 0;
        failed[own] += MPI_Bcast(values, rank == 0 ? 4 : 2, MPI_INT, 0, comm) != 0;
#ifdef OPEN_MPI
        // (MPICH's requests tell MPI_COMM_WORLD's.)
        MPI_Request request;
        MPI_Irecv(values, 2, MPI_INT, other, 4, comm, &request);
        MPI_Send(values, 4, MPI_INT, other, 4, comm);
        failed[own] += MPI_Wait(&request, MPI_STATUS_IGNORE) != 0;
        MPI_Irecv(values, 2, MPI_INT, other, 5, comm, &request);
        MPI_Send(values, 4, MPI_INT, other, 5, comm);
        failed[own] += MPI_Waitall(1, &request, MPI_STATUSES_IGNORE) != 0;
#endif
    }
    return NULL;
}

int main(int count, char **words) {
    int provided, threads = atoi(words[1]), all = 0, calls = 0;
    pthread_t ids[MOST];
    MPI_Errhandler ours;
    turns = atoi(words[2]);
    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_create_errhandler(handler, &ours);
    for (int i = 0; i < threads; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        MPI_Comm_set_errhandler(comms[i], ours);
    }
    for (long i = 0; i < threads; i++) pthread_create(&ids[i], NULL, run, (void *)i);
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL), all += failed[i], calls += called[i];
    printf("rank %d: failed %d, told %d, elsewhere %d\n", rank, all, calls, elsewhere);
    MPI_Finalize();
    return 0;
}
