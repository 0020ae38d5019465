// Robust mutexes whose holders end: by returning, by pthread_exit, by a cancellation; with others waiting and without.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { MUTEXES = 5 };
static pthread_mutex_t mutexes[MUTEXES];
static atomic_int held, waiting;

static void *ends(void *how) {
    for (int i = 0; i < MUTEXES; i++) pthread_mutex_lock(&mutexes[i]);
    pthread_mutex_unlock(&mutexes[2]);
    held = 1;
    while (waiting == 0) sched_yield();
    usleep(3000);
    if ((long)how == 1) pthread_exit(how);
    if ((long)how == 2)
        for (;;) usleep(1000);
    return how;
}
static void *waits(void *which) {
    pthread_mutex_t *mutex = which;
    while (!held) sched_yield();
    waiting++;
    int error = pthread_mutex_lock(mutex);
    if (error == EOWNERDEAD) pthread_mutex_consistent(mutex);
    if (error == 0 || error == EOWNERDEAD) pthread_mutex_unlock(mutex);
    return (void *)(long)(error == EOWNERDEAD);
}

int main(void) {
    for (long shared = 0; shared < 2; shared++)
        for (long how = 0; how < 3; how++) {
            pthread_t holder, waiter;
            pthread_mutexattr_t attributes;
            void *dead;
            pthread_mutexattr_init(&attributes);
            pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
            pthread_mutexattr_setpshared(&attributes, shared ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE);
            for (int i = 0; i < MUTEXES; i++) pthread_mutex_init(&mutexes[i], &attributes);
            held = waiting = 0;
            pthread_create(&holder, NULL, ends, (void *)how);
            pthread_create(&waiter, NULL, waits, &mutexes[0]);
            if (how == 2) {
                while (!waiting) sched_yield();
                pthread_cancel(holder);
            }
            pthread_join(waiter, &dead);
            printf("shared %ld, end %ld: %ld", shared, how, (long)dead);
            pthread_join(holder, NULL);
            // One is left as it is: nobody gets it any more.
            for (int i = 0; i < MUTEXES; i++) {
                int error = pthread_mutex_lock(&mutexes[i]);
                if (error == EOWNERDEAD && i != 3) error = pthread_mutex_consistent(&mutexes[i]) == 0 ? -1 : -2;
                printf(" %d", error == EOWNERDEAD ? -3 : error);
                printf(" %d", pthread_mutex_unlock(&mutexes[i]));
            }
            printf(" %d\n", pthread_mutex_lock(&mutexes[3]) == ENOTRECOVERABLE);
            for (int i = 0; i < MUTEXES; i++) pthread_mutex_destroy(&mutexes[i]);
        }
    return 0;
}
