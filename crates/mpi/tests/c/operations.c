// Operations of the program's own run in the thread that calls: with its thread-local variables, its stack, and none of
// another's locks. Meanwhile another thread of the rank waits for a message. Two ranks.
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 50, DEEP = 300000 };
static int rank, wrong[THREADS];
static MPI_Comm comms[THREADS];
static __thread int mine = -1;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

// Adds, and adds more in a thread to which it is not to come. Three numbers each: whose it is, the sum, what to do.
static void adds(void *from, void *to, int *count, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i + 2 < *count; i += 3) {
        int *a = (int *)from + i, *b = (int *)to + i;
        if (a[2] == 'm') {
            pthread_mutex_lock(&mutex);
            pthread_mutex_unlock(&mutex);
        }
        if (a[2] == 's') {
            volatile char deep[DEEP];
            for (int at = 0; at < DEEP; at += 1000) deep[at] = 1;
        }
        b[1] += a[1] + (mine == a[0] ? 0 : 1000);
    }
}

static void *waits(void *holds) {
    int got;
    if (holds) pthread_mutex_lock(&mutex);
    MPI_Recv(&got, 1, MPI_INT, 1 - rank, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (holds) pthread_mutex_unlock(&mutex);
    return NULL;
}

static void *sends(void *unused) {
    int sent = 1;
    usleep(100000);
    MPI_Send(&sent, 1, MPI_INT, 1 - rank, 99, MPI_COMM_WORLD);
    return unused;
}

// Each of the calls that reduce; how many gave something else than natively.
static int reduce(int number, int what, MPI_Op operation, MPI_Comm comm) {
    int sent[6] = {number, 1, what, number, 1, what}, got[6], parts[2] = {3, 3}, bad = 0;
    MPI_Allreduce(sent, got, 3, MPI_INT, operation, comm);
    bad += got[1] != 2;
    MPI_Reduce(sent, got, 3, MPI_INT, operation, 1, comm);
    bad += rank == 1 && got[1] != 2;
    MPI_Reduce_scatter(sent, got, parts, MPI_INT, operation, comm);
    bad += got[1] != 2;
    MPI_Reduce_scatter_block(sent, got, 3, MPI_INT, operation, comm);
    bad += got[1] != 2;
    MPI_Scan(sent, got, 3, MPI_INT, operation, comm);
    bad += got[1] != rank + 1;
    MPI_Exscan(sent, got, 3, MPI_INT, operation, comm);
    bad += rank == 1 && got[1] != 1;
    MPI_Allreduce(MPI_IN_PLACE, sent, 3, MPI_INT, operation, comm);
    return bad + (sent[1] != 2);
}

static void *reduces(void *number) {
    MPI_Op operation;
    mine = (int)(long)number;
    MPI_Op_create(adds, 1, &operation);
    for (int i = 0; i < ROUNDS; i++) {
        if (rank == 0 && i % 10 == 0) usleep(2000);
        wrong[mine] += reduce(mine, 't', operation, comms[mine]);
    }
    MPI_Op_free(&operation);
    return NULL;
}

int main(int count, char **words) {
    int provided, sum, bad;
    pthread_t threads[THREADS], waiter, sender;
    pthread_attr_t small;
    MPI_Op operation;
    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < THREADS; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    pthread_create(&waiter, NULL, waits, NULL);
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, reduces, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    sends(NULL);
    pthread_join(waiter, NULL);
    MPI_Op_create(adds, 1, &operation);
    mine = 0;
    // One that waits with a lock, which the operation wants.
    pthread_create(&waiter, NULL, waits, &mutex);
    usleep(20000);
    pthread_create(&sender, NULL, sends, NULL);
    bad = reduce(0, 'm', operation, comms[0]);
    pthread_join(waiter, NULL);
    pthread_join(sender, NULL);
    // One with a small stack.
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    pthread_create(&waiter, &small, waits, NULL);
    usleep(20000);
    pthread_create(&sender, NULL, sends, NULL);
    for (int i = 0; i < ROUNDS; i++) bad += reduce(0, 's', operation, comms[0]);
    pthread_join(waiter, NULL);
    pthread_join(sender, NULL);
    // What is freed is no operation of the program's any more; MPI's own are none.
    MPI_Op_free(&operation);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < THREADS; i++) bad += wrong[i];
    printf("rank %d: wrong %d, freed %d, sum %d\n", rank, bad, operation == MPI_OP_NULL, sum);
    MPI_Finalize();
    return 0;
}
