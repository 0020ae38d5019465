// Threads that are cancelled while they wait for a condition variable and for semaphores, and an interrupted wait; prints how each ended.
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static sem_t empty;
static atomic_int cleaned, there;

static void clean_up(void *unused) {
    (void)unused;
    // The mutex was taken again: it is ours to give up.
    if (pthread_mutex_trylock(&mutex) == EBUSY && pthread_mutex_unlock(&mutex) == 0) cleaned++;
}
static void *waits_for_cond(void *timed) {
    struct timespec late;
    clock_gettime(CLOCK_REALTIME, &late);
    late.tv_sec += 1000;
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(clean_up, NULL);
    there++;
    for (;;)
        if (timed) pthread_cond_timedwait(&cond, &mutex, &late);
        else pthread_cond_wait(&cond, &mutex);
    pthread_cleanup_pop(1);
    return NULL;
}
static void *waits_for_sem(void *timed) {
    struct timespec late;
    clock_gettime(CLOCK_REALTIME, &late);
    late.tv_sec += 1000;
    there++;
    for (;;)
        if (timed) sem_timedwait(&empty, &late);
        else sem_wait(&empty);
    return NULL;
}
static void cancel_one(const char *what, void *(*body)(void *), void *timed, int settle) {
    pthread_t thread;
    void *result;
    int before = there;
    if (pthread_create(&thread, NULL, body, timed) != 0) return;
    while (there == before) sched_yield();
    if (settle) nanosleep(&(struct timespec){0, 3000000}, NULL);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("%s, %s: %s\n", what, timed ? "timed" : "not timed", result == PTHREAD_CANCELED ? "cancelled" : "ended");
}

int main(void) {
    sem_init(&empty, 0, 0);
    for (int settle = 0; settle < 2; settle++)
        for (long timed = 0; timed < 2; timed++) {
            cancel_one("cond", waits_for_cond, (void *)timed, settle);
            cancel_one("sem", waits_for_sem, (void *)timed, settle);
        }
    // What was left behind still works.
    int value, held = pthread_mutex_trylock(&mutex);
    sem_post(&empty);
    sem_getvalue(&empty, &value);
    printf("cleaned up %d, mutex %d, value %d\n", cleaned, held, value);
    pthread_cond_signal(&cond);
    return pthread_cond_destroy(&cond);
}
