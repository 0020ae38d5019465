// Threads for a debugger: 40 that wait in a function of a known name, one that computes; until standard input ends.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#define WAITERS 40

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int waiting, done;
static atomic_int stop, computes;

__attribute__((noinline)) static void waiting_for_work(void) {
    pthread_mutex_lock(&mutex);
    waiting++;
    while (!done) pthread_cond_wait(&cond, &mutex);
    pthread_mutex_unlock(&mutex);
}

static void *wait_named(void *number) {
    char name[16];
    snprintf(name, sizeof name, "waiter-%ld", (long)number);
    pthread_setname_np(pthread_self(), name);
    waiting_for_work();
    return 0;
}

__attribute__((noinline)) static void computing_on(void) {
    while (!stop) computes = 1;
}

static void *compute(void *argument) {
    (void)argument;
    pthread_setname_np(pthread_self(), "computer");
    computing_on();
    return 0;
}

int main(void) {
    pthread_t threads[WAITERS + 1];
    char byte;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    for (long i = 0; i < WAITERS; i++) pthread_create(&threads[i], 0, wait_named, (void *)i);
    pthread_create(&threads[WAITERS], 0, compute, 0);
    for (int all = 0; !all; usleep(1000)) {
        pthread_mutex_lock(&mutex);
        all = waiting == WAITERS && computes;
        pthread_mutex_unlock(&mutex);
    }
    puts("ready");
    fflush(stdout);
    while (read(0, &byte, 1) > 0) {
    }
    pthread_mutex_lock(&mutex);
    done = 1;
    pthread_cond_broadcast(&cond);
    pthread_mutex_unlock(&mutex);
    stop = 1;
    for (int i = 0; i <= WAITERS; i++) pthread_join(threads[i], 0);
    puts("done");
    return 0;
}
