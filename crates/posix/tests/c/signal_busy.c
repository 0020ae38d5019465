// Signals for the process that only one thread takes, which never waits: it signals a condition for ever. Each is answered before the next
// one is sent; the argument says how many.
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static sem_t answered[2];
static atomic_int handled, over;
static int wanted;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

static void handler(int signal) {
    handled++;
    sem_post(&answered[signal == SIGUSR2]);
}
static void *sends(void *second) {
    for (int i = 0; i < wanted; i++) {
        kill(getpid(), second ? SIGUSR2 : SIGUSR1);
        while (sem_wait(&answered[second != NULL]) != 0) {}
    }
    return NULL;
}
static void *waits(void *unused) {
    pthread_mutex_lock(&mutex);
    while (!over) pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
    return unused;
}
static void *takes(void *set) {
    pthread_sigmask(SIG_UNBLOCK, set, NULL);
    while (!over) pthread_cond_signal(&condition);
    return NULL;
}

int main(int count, char **words) {
    pthread_t senders[2], waiter, taker;
    sigset_t set;
    wanted = count > 1 ? atoi(words[1]) : 100;
    signal(SIGUSR1, handler);
    signal(SIGUSR2, handler);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    sem_init(&answered[0], 0, 0);
    sem_init(&answered[1], 0, 0);
    pthread_create(&waiter, NULL, waits, NULL);
    pthread_create(&taker, NULL, takes, &set);
    pthread_create(&senders[0], NULL, sends, NULL);
    pthread_create(&senders[1], NULL, sends, "");
    pthread_join(senders[0], NULL);
    pthread_join(senders[1], NULL);
    over = 1;
    pthread_join(taker, NULL);
    pthread_mutex_lock(&mutex);
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
    pthread_join(waiter, NULL);
    printf("%d\n", handled == 2 * wanted);
    return 0;
}
