// One signal for the process a round while the first thread lets it in for moments, and blocks it again: some thread answers each. When the last
// thread has ended, the program's last functions still get signals.
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static sem_t go, answered;
static atomic_int stop, count;
static sigset_t set;
static pthread_t first;

static void handler(int signal) {
    (void)signal;
    count++;
    sem_post(&answered);
}
static void *takes(void *nothing) {
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    while (!stop) usleep(500);
    return nothing;
}
static void *spins(void *nothing) {
    while (!stop) sched_yield();
    return nothing;
}
static void *sends(void *rounds) {
    for (long i = 0; i < (long)rounds; i++) {
        while (sem_wait(&go) != 0) {}
        for (volatile int j = 0; j < i * 7919 % 400; j++) {}
        kill(getpid(), SIGUSR1);
    }
    return NULL;
}
static void *last(void *nothing) {
    pthread_join(first, NULL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    return nothing;
}
static void at_exit(void) {
    int before = count;
    raise(SIGUSR1);
    printf("at the end: %d\n", count - before);
}

int main(int arguments, char **words) {
    pthread_t threads[3];
    long rounds = arguments > 1 ? atol(words[1]) : 100;
    signal(SIGUSR1, handler);
    sem_init(&go, 0, 0);
    sem_init(&answered, 0, 0);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_create(&threads[0], NULL, takes, NULL);
    pthread_create(&threads[1], NULL, spins, NULL);
    pthread_create(&threads[2], NULL, sends, (void *)rounds);
    for (long i = 0; i < rounds; i++) {
        sem_post(&go);
        for (int j = 0; j < 3; j++) {
            for (volatile int k = 0; k < (i + j) * 104729 % 300; k++) {}
            pthread_sigmask(SIG_UNBLOCK, &set, NULL);
            pthread_sigmask(SIG_BLOCK, &set, NULL);
        }
        while (sem_wait(&answered) != 0) {}
    }
    stop = 1;
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    printf("answered: %d\n", count);
    atexit(at_exit);
    first = pthread_self();
    pthread_create(&threads[0], NULL, last, NULL);
    pthread_detach(threads[0]);
    pthread_exit(NULL);
}
