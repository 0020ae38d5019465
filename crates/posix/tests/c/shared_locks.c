// Locks in memory that processes share: those that know their holder keep it, whichever process it is of, and robust ones are told of when a process dies.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PROCESSES = 3, THREADS = 2, ROUNDS = 90, KINDS = 4 };
static struct shared {
    pthread_mutex_t mutexes[KINDS], robust[2];
    pthread_rwlock_t rwlock;
    int inside[KINDS + 1], together, failed, done, held;
} *shared;

static void count(int *number, int by) {
    __atomic_fetch_add(number, by, __ATOMIC_SEQ_CST);
}

static void inside(int lock) {
    if (__atomic_fetch_add(&shared->inside[lock], 1, __ATOMIC_SEQ_CST)) count(&shared->together, 1);
    sched_yield();
    usleep(20);
    count(&shared->inside[lock], -1);
}

static void *locks(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        int kind = i % KINDS;
        pthread_mutex_t *mutex = &shared->mutexes[kind];
        if (pthread_mutex_lock(mutex)) count(&shared->failed, 1);
        inside(kind);
        if (pthread_mutex_unlock(mutex)) count(&shared->failed, 1);
        if (i % 2 ? pthread_rwlock_wrlock(&shared->rwlock) : pthread_rwlock_rdlock(&shared->rwlock)) count(&shared->failed, 1);
        if (i % 2) inside(KINDS);
        if (pthread_rwlock_unlock(&shared->rwlock)) count(&shared->failed, 1);
        count(&shared->done, 1);
    }
    return unused;
}

static void *holds(void *mutex) {
    if (pthread_mutex_lock(mutex)) count(&shared->failed, 1);
    count(&shared->held, 1);
    for (;;) usleep(1000);
    return NULL;
}

// One that has locked what the kernel knows goes on as a thread like any other.
static void *goes_on(void *mutex) {
    for (int i = 0; i < 2; i++) {
        if (pthread_mutex_lock(mutex) || pthread_mutex_unlock(mutex)) count(&shared->failed, 1);
        usleep(100);
        pthread_t below;
        if (pthread_create(&below, NULL, locks, NULL) || pthread_join(below, NULL)) count(&shared->failed, 1);
    }
    return NULL;
}

static void make(pthread_mutex_t *mutex, int kind, int protocol, int robust) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_settype(&attributes, kind);
    pthread_mutexattr_setprotocol(&attributes, protocol);
    if (robust) pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

int main(void) {
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    make(&shared->mutexes[0], PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE, 0);
    make(&shared->mutexes[1], PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE, 0);
    make(&shared->mutexes[2], PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_INHERIT, 0);
    make(&shared->mutexes[3], PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE, 1);
    make(&shared->robust[0], PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, 1);
    make(&shared->robust[1], PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE, 1);
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_rwlock_init(&shared->rwlock, &attributes);

    // One process has had threads before the others are made of it.
    pthread_t first;
    pthread_create(&first, NULL, goes_on, &shared->robust[0]);
    pthread_join(first, NULL);
    for (int i = 0; i < PROCESSES; i++)
        if (fork() == 0) {
            pthread_t threads[THREADS];
            for (int t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, locks, NULL);
            for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
            _exit(0);
        }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        wait(&status);
        if (status) printf("status %d\n", status);
    }
    printf("done %d, together %d, failed %d\n", shared->done, shared->together, shared->failed);

    for (int i = 0; i < 4; i++) {
        pthread_mutex_t *mutex = &shared->robust[i % 2];
        pid_t child = fork();
        if (child == 0) {
            pthread_t threads[2];
            pthread_create(&threads[0], NULL, holds, mutex);
            if (i > 1) pthread_create(&threads[1], NULL, locks, NULL);
            pthread_join(threads[0], NULL);
        }
        while (__atomic_load_n(&shared->held, __ATOMIC_SEQ_CST) == i) usleep(1000);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        struct timespec soon;
        clock_gettime(CLOCK_REALTIME, &soon);
        soon.tv_sec += 100;
        int told = pthread_mutex_timedlock(mutex, &soon);
        printf("told %s\n", told == EOWNERDEAD ? "EOWNERDEAD" : "otherwise");
        if (told != EOWNERDEAD) return 1;
        int consistent = pthread_mutex_consistent(mutex);
        printf("consistent %d, unlocked %d\n", consistent, pthread_mutex_unlock(mutex));
    }
    return 0;
}
