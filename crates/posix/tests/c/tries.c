/* Threads that find out by locks whether they may go on, without ever waiting: each of the ways below is a meeting of
 * all of them, of whom the last one comes to its turn after the others. Arguments: the number of threads, of their
 * meetings, and a way if not all are meant. */
#include <assert.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

enum { LOCKS, LOCKS_RECURSIVE, TRIES, READS, TRIES_TO_READ, TRIES_A_SEMAPHORE, WAYS };

static long threads, meetings;
static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER, recursive;
static pthread_rwlock_t many = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t count = PTHREAD_MUTEX_INITIALIZER;
static sem_t gone;
static long arrived;
static volatile long meeting_of_all;

/* The number of the meeting, as that way reads it. */
static long reads(int way) {
    long seen;
    switch (way) {
    case LOCKS:
        pthread_mutex_lock(&plain);
        seen = meeting_of_all;
        pthread_mutex_unlock(&plain);
        return seen;
    case LOCKS_RECURSIVE:
        pthread_mutex_lock(&recursive);
        seen = meeting_of_all;
        pthread_mutex_unlock(&recursive);
        return seen;
    case TRIES:
        while (pthread_mutex_trylock(&plain) != 0)
            ;
        seen = meeting_of_all;
        pthread_mutex_unlock(&plain);
        return seen;
    case READS:
        pthread_rwlock_rdlock(&many);
        seen = meeting_of_all;
        pthread_rwlock_unlock(&many);
        return seen;
    case TRIES_TO_READ:
        while (pthread_rwlock_tryrdlock(&many) != 0)
            ;
        seen = meeting_of_all;
        pthread_rwlock_unlock(&many);
        return seen;
    default:
        while (sem_trywait(&gone) != 0)
            ;
        seen = meeting_of_all;
        sem_post(&gone);
        return seen;
    }
}

static void *meets(void *way) {
    for (long meeting = 0; meeting < meetings; meeting++) {
        pthread_mutex_lock(&count);
        int last = ++arrived == threads;
        if (last) {
            arrived = 0;
            meeting_of_all = meeting + 1;
        }
        pthread_mutex_unlock(&count);
        while (!last && reads((int)(long)way) <= meeting)
            ;
    }
    return 0;
}

int main(int arguments, char **texts) {
    threads = arguments > 1 ? atol(texts[1]) : 4;
    meetings = arguments > 2 ? atol(texts[2]) : 2;
    assert(threads > 1 && threads <= 256 && meetings > 0);
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    assert(pthread_mutex_init(&recursive, &kind) == 0);
    assert(sem_init(&gone, 0, 1) == 0);
    for (long way = 0; way < WAYS; way++) {
        if (arguments > 3 && way != atol(texts[3]))
            continue;
        pthread_t all[256];
        meeting_of_all = 0;
        for (long i = 0; i < threads; i++)
            assert(pthread_create(all + i, 0, meets, (void *)way) == 0);
        for (long i = 0; i < threads; i++)
            assert(pthread_join(all[i], 0) == 0);
        assert(meeting_of_all == meetings);
    }
    puts("all have met");
    return 0;
}
