// Waits until a point in time, by the time that the program is told: each ends, and not before.
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>

static long now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static struct timespec in_a_moment(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_nsec += 30000000;
    if (time.tv_nsec >= 1000000000) time.tv_nsec -= 1000000000, time.tv_sec++;
    return time;
}

static void told(const char *what, clockid_t clock, long before, int error) {
    printf("%s by clock %d: %d%s\n", what, (int)clock, error, now(clock) - before < 30 ? ", too early" : "");
}

static void *waits(void *argument) {
    (void)argument;
    for (int i = 0; i < 2; i++) {
        clockid_t clock = i ? CLOCK_MONOTONIC : CLOCK_REALTIME;
        pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
        pthread_condattr_t attributes;
        pthread_cond_t condition;
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, clock);
        pthread_cond_init(&condition, &attributes);
        long before = now(clock);
        struct timespec time = in_a_moment(clock);
        pthread_mutex_lock(&mutex);
        told("condition", clock, before, pthread_cond_timedwait(&condition, &mutex, &time));
        before = now(clock), time = in_a_moment(clock);
        told("sleep", clock, before, clock_nanosleep(clock, TIMER_ABSTIME, &time, NULL));
    }
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    long before = now(CLOCK_REALTIME);
    struct timespec time = in_a_moment(CLOCK_REALTIME), moment = {0, 30000000};
    told("semaphore", CLOCK_REALTIME, before, sem_timedwait(&semaphore, &time) ? errno : 0);
    before = now(CLOCK_MONOTONIC);
    told("a while", CLOCK_MONOTONIC, before, nanosleep(&moment, NULL));
    return NULL;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, waits, NULL);
    pthread_join(thread, NULL);
    return 0;
}
