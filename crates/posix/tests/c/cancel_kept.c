// A thread that ends by a request that no wait of its has met leaves nothing to the next one with its id: that one's
// waits go on until they are asked to end.
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t begun;
static atomic_int woken;

static void *computes(void *argument) {
    sem_post(&begun);
    for (;;) pthread_testcancel();
    return argument;
}

static void unlock(void *argument) { pthread_mutex_unlock(argument); }

static void *waits(void *argument) {
    pthread_mutex_lock(&lock);
    pthread_cleanup_push(unlock, &lock);
    sem_post(&begun);
    for (;; woken++) pthread_cond_wait(&condition, &lock);
    pthread_cleanup_pop(1);
    return argument;
}

int main(void) {
    sem_init(&begun, 0, 0);
    int cancelled = 0, same = 0;
    for (int i = 0; i < 20; i++) {
        pthread_t id, before;
        void *result;
        pthread_create(&before, NULL, computes, NULL);
        sem_wait(&begun);
        pthread_cancel(before);
        pthread_join(before, &result);
        cancelled += result == PTHREAD_CANCELED;
        pthread_create(&id, NULL, waits, NULL);
        same += id == before;
        sem_wait(&begun);
        // The lock is free when it waits.
        pthread_mutex_lock(&lock), pthread_mutex_unlock(&lock);
        pthread_cancel(id);
        pthread_join(id, &result);
        cancelled += result == PTHREAD_CANCELED;
    }
    fprintf(stderr, "%d of 20 had the id of the one before\n", same);
    printf("cancelled %d, woken for nothing %d\n", cancelled, woken);
    return woken != 0 || cancelled != 40;
}
