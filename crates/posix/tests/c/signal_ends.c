// Signals for the process while the threads that let them in end, or block them again: each is answered by one of them before the next
// one is sent. The argument says how many. One more, sent when all takers are gone, stays pending.
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static sem_t answered[2];
static atomic_int handled, done, values;
static int wanted;
static sigset_t set;

static void handler(int signal) {
    handled++;
    sem_post(&answered[signal == SIGUSR2]);
}
static void valued(int signal, siginfo_t *info, void *context) {
    (void)context;
    values += info->si_value.sival_int;
    handler(signal);
}
static void *sends(void *second) {
    for (int i = 1; i <= wanted; i++) {
        if (second) {
            sigqueue(getpid(), SIGUSR2, (union sigval){.sival_int = i % 100});
        } else {
            kill(getpid(), SIGUSR1);
        }
        while (sem_wait(&answered[second != NULL]) != 0) {}
    }
    done++;
    return NULL;
}
static void *takes(void *turns) {
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    for (volatile long i = 0; i < (long)turns; i++) {}
    if ((long)turns % 2) {
        pthread_sigmask(SIG_BLOCK, &set, NULL);
    }
    return NULL;
}

int main(int count, char **words) {
    pthread_t senders[2], takers[2];
    wanted = count > 1 ? atoi(words[1]) : 100;
    signal(SIGUSR1, handler);
    struct sigaction action = {.sa_flags = SA_SIGINFO, .sa_sigaction = valued};
    sigaction(SIGUSR2, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    sem_init(&answered[0], 0, 0);
    sem_init(&answered[1], 0, 0);
    pthread_create(&senders[0], NULL, sends, NULL);
    pthread_create(&senders[1], NULL, sends, "");
    long turns = 0;
    while (done < 2) {
        turns = (turns * 7919 + 13) % 20011;
        pthread_create(&takers[0], NULL, takes, (void *)turns);
        pthread_create(&takers[1], NULL, takes, (void *)(turns / 3));
        pthread_join(takers[0], NULL);
        pthread_join(takers[1], NULL);
    }
    pthread_join(senders[0], NULL);
    pthread_join(senders[1], NULL);
    int sum = 0;
    for (int i = 1; i <= wanted; i++) {
        sum += i % 100;
    }
    kill(getpid(), SIGUSR1);
    sigset_t pending;
    sigpending(&pending);
    printf("%d %d %d\n", handled - 2 * wanted, values - sum, sigismember(&pending, SIGUSR1));
    return 0;
}
