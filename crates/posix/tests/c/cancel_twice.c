// Cancellation that is disabled twice is enabled by one call, and disabled by one where it was enabled twice.
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static sem_t waits, never;
static int unwritten[2];

static void sleeps(void) { nanosleep(&(struct timespec){3600, 0}, NULL); }
static void reads(void) {
    char byte;
    if (read(unwritten[0], &byte, 1)) return;
}
static void takes(void) { sem_wait(&never); }
static void is_signalled(void) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    pthread_mutex_lock(&mutex);
    for (;;) pthread_cond_wait(&condition, &mutex);
}
static void pauses(void) { pause(); }

static const struct {
    const char *name;
    void (*wait)(void);
} ways[] = {{"nanosleep", sleeps}, {"read", reads}, {"sem_wait", takes}, {"pthread_cond_wait", is_signalled}, {"pause", pauses}};

static void set(int state, int times) {
    int old;
    for (int i = 0; i < times; i++) pthread_setcancelstate(state, &old);
}

static void *enabled(void *way) {
    set(PTHREAD_CANCEL_DISABLE, 3);
    set(PTHREAD_CANCEL_ENABLE, 1);
    sem_post(&waits);
    ways[(long)way].wait();
    return NULL;
}

// Asked for already when it begins to wait.
static void *disabled(void *unused) {
    set(PTHREAD_CANCEL_ENABLE, 3);
    set(PTHREAD_CANCEL_DISABLE, 1);
    pthread_cancel(pthread_self());
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    int result = sem_timedwait(&never, &time);
    printf("disabled: %d %s\n", result, strerrorname_np(errno));
    printf("slept: %d\n", nanosleep(&(struct timespec){0, 1000000}, NULL));
    set(PTHREAD_CANCEL_ENABLE, 1);
    pthread_testcancel();
    return unused;
}

int main(void) {
    // What is not cancelled waits for ever.
    alarm(60);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (sem_init(&waits, 0, 0) || sem_init(&never, 0, 0) || pipe(unwritten)) return 1;
    pthread_t thread;
    void *result;
    for (long way = 0; way < 5; way++) {
        if (pthread_create(&thread, NULL, enabled, (void *)way)) return 1;
        sem_wait(&waits);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        printf("%s: cancelled %d\n", ways[way].name, result == PTHREAD_CANCELED);
    }
    if (pthread_create(&thread, NULL, disabled, NULL)) return 1;
    pthread_join(thread, &result);
    printf("enabled again: cancelled %d\n", result == PTHREAD_CANCELED);
    return 0;
}
