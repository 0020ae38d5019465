/* A thread takes a lock again and again, and gives way only while it holds it, as one does whose quantum ends there: whoever waits for the lock runs
 * only then. Each of them has it soon all the same. */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Turns of the one that has it always, until all others have had it: each takes longer than the quantum. */
#define MOST 2000

static pthread_mutex_t mutex;
static pthread_rwlock_t rwlock;
static sem_t semaphore;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int told;
static atomic_int waiting, had;
static const char *kind;

static int is(const char *of) { return strcmp(kind, of) == 0; }

static int of_readers(void) { return strstr(kind, " behind a ") != 0; }

static int of_semaphores(void) { return strstr(kind, "semaphore") != 0; }

static void lock(int waits) {
    struct timespec far = {time(0) + 3600, 0};
    if (of_semaphores()) {
        assert((is("timed semaphore") && waits ? sem_timedwait(&semaphore, &far) : sem_wait(&semaphore)) == 0);
        return;
    }
    int reads = waits ? is("reader behind a writer") : is("writer behind a reader");
    if (of_readers())
        assert((reads ? pthread_rwlock_rdlock(&rwlock) : pthread_rwlock_wrlock(&rwlock)) == 0);
    else
        assert((is("timed") && waits ? pthread_mutex_timedlock(&mutex, &far) : pthread_mutex_lock(&mutex)) == 0);
}

static void unlock(void) {
    if (of_semaphores()) {
        assert(sem_post(&semaphore) == 0);
        return;
    }
    assert((of_readers() ? pthread_rwlock_unlock(&rwlock) : pthread_mutex_unlock(&mutex)) == 0);
}

static void *waits(void *unused) {
    (void)unused;
    if (!is("condition")) {
        atomic_fetch_add(&waiting, 1);
        lock(1);
    } else {
        lock(1);
        atomic_fetch_add(&waiting, 1);
        while (!told)
            pthread_cond_wait(&condition, &mutex);
    }
    atomic_fetch_add(&had, 1);
    unlock();
    return 0;
}

static void computes(void) {
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begun.tv_sec) * 1000000000 + now.tv_nsec - begun.tv_nsec < 100000);
}

static void one(const char *of, int others) {
    kind = of;
    atomic_store(&waiting, 0), atomic_store(&had, 0), told = 0;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    if (is("recursive"))
        pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    if (is("checking"))
        pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&mutex, &attributes);
    pthread_rwlock_init(&rwlock, 0);
    sem_init(&semaphore, 0, 1);
    /* All wait for the lock, or for the condition. */
    if (!is("condition"))
        lock(0);
    pthread_t ids[64];
    for (int i = 0; i < others; i++)
        assert(pthread_create(&ids[i], 0, waits, 0) == 0);
    while (atomic_load(&waiting) < others)
        sched_yield();
    if (!is("condition"))
        unlock();
    int turns = 0;
    for (; turns < MOST && atomic_load(&had) < others; turns++) {
        lock(0);
        told = 1;
        pthread_cond_broadcast(&condition);
        computes();
        sched_yield();
        unlock();
    }
    int so_far = atomic_load(&had);
    for (int i = 0; i < others; i++)
        pthread_join(ids[i], 0);
    /* One that tries has it when it is free. */
    assert(pthread_mutex_trylock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
    assert(pthread_rwlock_trywrlock(&rwlock) == 0 && pthread_rwlock_unlock(&rwlock) == 0);
    assert(pthread_rwlock_tryrdlock(&rwlock) == 0 && pthread_rwlock_unlock(&rwlock) == 0);
    int value;
    assert(sem_trywait(&semaphore) == 0 && sem_post(&semaphore) == 0);
    assert(sem_getvalue(&semaphore, &value) == 0 && value == 1 && sem_destroy(&semaphore) == 0);
    assert(pthread_mutex_destroy(&mutex) == 0 && pthread_rwlock_destroy(&rwlock) == 0);
    if (so_far < others)
        printf("%s: %d of %d had it in %d turns\n", kind, so_far, others, turns);
    if (getenv("VERBOSE"))
        printf("%s: %d turns\n", kind, turns);
}

static void *all(void *unused) {
    (void)unused;
    const char *kinds[] = {"semaphore", "timed semaphore", "normal", "recursive", "checking", "timed", "condition", "reader behind a writer", "writer behind a writer", "writer behind a reader", 0};
    for (const char **of = kinds; *of; of++) {
        one(*of, 1);
        one(*of, 5);
    }
    return 0;
}

int main(void) {
    pthread_t id;
    assert(pthread_create(&id, 0, all, 0) == 0);
    pthread_join(id, 0);
    puts("all had it");
    return 0;
}
