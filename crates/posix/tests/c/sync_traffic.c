// Traffic over each kind of object, between lightweight threads and the program's first thread. Prints sums that do not depend on the
// order of events. A lost wake-up is a program that does not end.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(x) do { int e_ = (x); if (e_ != 0) { printf("%s: %s\n", #x, strerror(e_)); exit(1); } } while (0)
enum { MOST = 100000 };
static pthread_t threads[MOST];
static long scale = 1;

static void start(int n, void *(*body)(void *)) {
    for (long i = 0; i < n; i++) CHECK(pthread_create(&threads[i], NULL, body, (void *)i));
}
static void finish(int n) {
    for (int i = 0; i < n; i++) CHECK(pthread_join(threads[i], NULL));
}
static struct timespec in(clockid_t clock, long ns) {
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_nsec += ns;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

// --- mutexes of all kinds, with and without a yield inside, some with time-outs; the first thread takes part
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long counter, rounds;
static void *lockers(void *id) {
    for (long i = 0; i < rounds; i++) {
        if (((long)id + i) % 7 == 0) {
            struct timespec soon = in(CLOCK_REALTIME, 20000);
            int e = pthread_mutex_timedlock(&mutex, &soon);
            if (e == ETIMEDOUT) CHECK(pthread_mutex_lock(&mutex));
            else CHECK(e);
        } else if (pthread_mutex_trylock(&mutex) != 0) CHECK(pthread_mutex_lock(&mutex));
        counter++;
        if (i % 16 == 0) sched_yield();
        CHECK(pthread_mutex_unlock(&mutex));
    }
    return NULL;
}
static void mutexes(void) {
    pthread_mutex_t kinds[] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
                               PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP, PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP};
    for (int kind = 0; kind < 4; kind++) {
        memcpy(&mutex, &kinds[kind], sizeof mutex);
        counter = 0;
        rounds = 2000 * scale;
        start(63, lockers);
        lockers((void *)63);
        finish(63);
        printf("mutex %d: %d\n", kind, counter == 64 * rounds);
    }
    memcpy(&mutex, &kinds[0], sizeof mutex);
}

// --- turns on a condition variable, between the first thread and another
static pthread_cond_t turned[2] = {PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER};
static long turn;
static void *turns(void *id) {
    long me = (long)id;
    CHECK(pthread_mutex_lock(&mutex));
    for (long i = 0; i < rounds; i++) {
        while (turn % 2 != me) CHECK(pthread_cond_wait(&turned[me], &mutex));
        turn++;
        CHECK(pthread_cond_signal(&turned[1 - me]));
    }
    CHECK(pthread_mutex_unlock(&mutex));
    return NULL;
}
static void ping_pong(void) {
    rounds = 20000 * scale;
    start(1, turns);
    turns((void *)1);
    finish(1);
    printf("turns, first thread and another: %d\n", turn == 2 * rounds);
    turn = 0;
    start(2, turns);
    finish(2);
    printf("turns, two others: %d\n", turn == 2 * rounds);
    turn = 0;
}

// --- one gate for all: everybody waits on one condition variable
static pthread_cond_t gate = PTHREAD_COND_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static long waiting, open_gate, passed;
static void *crowd(void *id) {
    CHECK(pthread_mutex_lock(&mutex));
    waiting++;
    CHECK(pthread_cond_signal(&arrived));
    while (!open_gate) CHECK(pthread_cond_wait(&gate, &mutex));
    passed++;
    CHECK(pthread_mutex_unlock(&mutex));
    return id;
}
static void gates(int n) {
    start(n, crowd);
    CHECK(pthread_mutex_lock(&mutex));
    while (waiting < n) CHECK(pthread_cond_wait(&arrived, &mutex));
    open_gate = 1;
    CHECK(pthread_cond_broadcast(&gate));
    CHECK(pthread_mutex_unlock(&mutex));
    finish(n);
    printf("gate: %ld\n", passed);
}

// --- tokens, each announced by one signal without the mutex; half of the consumers wait with time-outs
static long tokens, taken;
static void *consumers(void *id) {
    for (;;) {
        CHECK(pthread_mutex_lock(&mutex));
        while (tokens == 0) {
            if ((long)id % 2) {
                struct timespec soon = in(CLOCK_MONOTONIC, 10000);
                int e = pthread_cond_clockwait(&arrived, &mutex, CLOCK_MONOTONIC, &soon);
                if (e != ETIMEDOUT) CHECK(e);
            } else CHECK(pthread_cond_wait(&arrived, &mutex));
        }
        tokens--;
        int last = taken++ >= rounds;
        CHECK(pthread_mutex_unlock(&mutex));
        if (last) return NULL;
    }
}
static void signals(void) {
    rounds = 20000 * scale;
    taken = 0;
    start(16, consumers);
    for (long i = 0; i < rounds + 16; i++) {
        CHECK(pthread_mutex_lock(&mutex));
        tokens++;
        CHECK(pthread_mutex_unlock(&mutex));
        CHECK(pthread_cond_signal(&arrived));
        if (i % 64 == 0) sched_yield();
    }
    finish(16);
    printf("tokens left: %ld\n", tokens);
}

// --- an object that is destroyed and freed by the thread that was waited for or woke up last
struct object {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int ready, users;
};
static void *last_one_frees(void *argument) {
    struct object *object = argument;
    CHECK(pthread_mutex_lock(&object->mutex));
    while (!object->ready) CHECK(pthread_cond_wait(&object->cond, &object->mutex));
    int last = --object->users == 0;
    CHECK(pthread_mutex_unlock(&object->mutex));
    if (last) {
        CHECK(pthread_cond_destroy(&object->cond));
        CHECK(pthread_mutex_destroy(&object->mutex));
        memset(object, 0xa5, sizeof *object);
        free(object);
    }
    return NULL;
}
static void lifetimes(void) {
    for (int round = 0; round < 300 * scale; round++) {
        struct object *object = calloc(1, sizeof *object);
        object->users = 8;
        for (int i = 0; i < 8; i++) CHECK(pthread_create(&threads[i], NULL, last_one_frees, object));
        CHECK(pthread_mutex_lock(&object->mutex));
        object->ready = 1;
        CHECK(pthread_cond_broadcast(&object->cond));
        CHECK(pthread_mutex_unlock(&object->mutex));
        finish(8);
    }
    printf("lifetimes\n");
}

// --- semaphores: a ring of turns, and many posts to many waiters
static sem_t ring[16];
static long hops;
static void *hop(void *id) {
    long me = (long)id;
    for (long i = 0; i < rounds; i++) {
        if (me % 2) {
            struct timespec soon = in(CLOCK_REALTIME, 1000000);
            while (sem_timedwait(&ring[me], &soon) != 0)
                if (errno != ETIMEDOUT && errno != EINTR) exit(2);
        } else
            while (sem_wait(&ring[me]) != 0) {}
        hops++;
        sem_post(&ring[(me + 1) % 16]);
    }
    return NULL;
}
static void semaphores(void) {
    rounds = 200 * scale;
    for (int i = 0; i < 16; i++) sem_init(&ring[i], 0, 0);
    start(15, hop);
    sem_post(&ring[0]);
    hop((void *)15);
    finish(15);
    int value;
    sem_getvalue(&ring[0], &value);
    printf("hops: %d, left %d\n", hops == 16 * rounds, value);
}

// --- readers and writers of each kind
static pthread_rwlock_t lock;
static atomic_int readers_inside;
static long pair[2], writes;
static void *reads_and_writes(void *id) {
    for (long i = 0; i < rounds; i++) {
        int write = ((long)id + i) % 5 == 0, timed = ((long)id + i) % 3 == 0;
        struct timespec soon = in(CLOCK_MONOTONIC, 20000);
        int e = ETIMEDOUT;
        if (timed)
            e = write ? pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &soon)
                      : pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &soon);
        if (e == ETIMEDOUT) e = write ? pthread_rwlock_wrlock(&lock) : pthread_rwlock_rdlock(&lock);
        CHECK(e);
        if (write) {
            if (atomic_load(&readers_inside) != 0) exit(3);
            pair[0]++;
            if (i % 8 == 0) sched_yield();
            pair[1]++;
            writes++;
        } else {
            atomic_fetch_add(&readers_inside, 1);
            if (pair[0] != pair[1]) exit(4);
            if (i % 8 == 0) sched_yield();
            if (pair[0] != pair[1]) exit(5);
            atomic_fetch_sub(&readers_inside, 1);
        }
        CHECK(pthread_rwlock_unlock(&lock));
    }
    return NULL;
}
static void rwlocks(void) {
    rounds = 500 * scale;
    for (int kind = 0; kind < 3; kind++) {
        pthread_rwlockattr_t attributes;
        pthread_rwlockattr_init(&attributes);
        pthread_rwlockattr_setkind_np(&attributes, kind);
        CHECK(pthread_rwlock_init(&lock, &attributes));
        writes = 0;
        start(31, reads_and_writes);
        reads_and_writes((void *)31);
        finish(31);
        printf("writes: %d\n", writes == 32 * rounds / 5);
        CHECK(pthread_rwlock_destroy(&lock));
    }
}

// --- a writer among readers that overlap for ever, each of which takes the lock twice
static atomic_int stop;
static void *overlapping(void *id) {
    while (!atomic_load(&stop)) {
        CHECK(pthread_rwlock_rdlock(&lock));
        sched_yield();
        CHECK(pthread_rwlock_rdlock(&lock));
        sched_yield();
        CHECK(pthread_rwlock_unlock(&lock));
        sched_yield();
        CHECK(pthread_rwlock_unlock(&lock));
    }
    return id;
}
static void writer_among_readers(void) {
    CHECK(pthread_rwlock_init(&lock, NULL));
    start(8, overlapping);
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_rwlock_wrlock(&lock));
        CHECK(pthread_rwlock_unlock(&lock));
    }
    atomic_store(&stop, 1);
    finish(8);
    printf("a writer gets through\n");
}

// --- barriers: rounds in step; whoever is last destroys
static pthread_barrier_t *barrier;
static atomic_long steps, serials;
static void *in_step(void *id) {
    for (long i = 0; i < rounds; i++) {
        atomic_fetch_add(&steps, 1);
        int e = pthread_barrier_wait(barrier);
        if (e == PTHREAD_BARRIER_SERIAL_THREAD) atomic_fetch_add(&serials, 1);
        else CHECK(e);
        if (atomic_load(&steps) < (i + 1) * 32) exit(6);
        e = pthread_barrier_wait(barrier);
        if (e != PTHREAD_BARRIER_SERIAL_THREAD) CHECK(e);
    }
    return id;
}
static void *meet(void *argument) {
    pthread_barrier_t *mine = argument;
    if (pthread_barrier_wait(mine) == PTHREAD_BARRIER_SERIAL_THREAD) {
        CHECK(pthread_barrier_destroy(mine));
        memset(mine, 0xa5, sizeof *mine);
        free(mine);
    }
    return NULL;
}
static void barriers(void) {
    rounds = 200 * scale;
    barrier = malloc(sizeof *barrier);
    CHECK(pthread_barrier_init(barrier, NULL, 32));
    start(31, in_step);
    in_step(NULL);
    finish(31);
    CHECK(pthread_barrier_destroy(barrier));
    free(barrier);
    printf("steps: %d, serial threads: %d\n", steps == 32 * rounds, serials == rounds);
    for (int i = 0; i < 300 * scale; i++) {
        pthread_barrier_t *one = malloc(sizeof *one);
        CHECK(pthread_barrier_init(one, NULL, 4));
        for (int k = 0; k < 4; k++) CHECK(pthread_create(&threads[k], NULL, meet, one));
        finish(4);
    }
}

// --- spin locks whose holders yield, and initialisers that do
static pthread_spinlock_t spin;
static pthread_once_t control = PTHREAD_ONCE_INIT;
static atomic_int initialised;
static void initialise(void) {
    for (int i = 0; i < 100; i++) sched_yield();
    atomic_fetch_add(&initialised, 1);
}
static void *spinners(void *id) {
    CHECK(pthread_once(&control, initialise));
    if (atomic_load(&initialised) != 1) exit(7);
    for (long i = 0; i < rounds; i++) {
        CHECK(pthread_spin_lock(&spin));
        counter++;
        if (i % 16 == 0) sched_yield();
        CHECK(pthread_spin_unlock(&spin));
    }
    return id;
}
static void spins(void) {
    rounds = 500 * scale;
    counter = 0;
    CHECK(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE));
    start(31, spinners);
    spinners(NULL);
    finish(31);
    printf("spins: %d\n", counter == 32 * rounds);
}

int main(int argc, char **argv) {
    if (argc > 2) scale = atol(argv[2]);
    int all = argc < 2 || strcmp(argv[1], "all") == 0;
#define RUN(name, call) if (all || strcmp(argv[1], name) == 0) call
    RUN("mutexes", mutexes());
    RUN("turns", ping_pong());
    RUN("gate", gates(all ? 1000 : (int)scale));
    RUN("signals", signals());
    RUN("lifetimes", lifetimes());
    RUN("semaphores", semaphores());
    RUN("rwlocks", rwlocks());
    RUN("writer", writer_among_readers());
    RUN("barriers", barriers());
    RUN("spins", spins());
    return 0;
}
