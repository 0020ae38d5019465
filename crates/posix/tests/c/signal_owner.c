// A handler runs in one of the program's threads, which has its values: interpreters look for themselves there. The signals meet kernel threads
// that run none: those are busy hearing of another signal's mask, which a thread changes all the time.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static pthread_key_t key;
static atomic_int stop, handled, nobodys;

static void handler(int signal) {
    (void)signal;
    if (pthread_getspecific(key) == NULL) nobodys++;
    handled++;
}
static void *toggles(void *mine) {
    sigset_t other;
    pthread_setspecific(key, mine);
    sigemptyset(&other);
    sigaddset(&other, SIGUSR2);
    while (!stop) {
        pthread_sigmask(SIG_UNBLOCK, &other, NULL);
        pthread_sigmask(SIG_BLOCK, &other, NULL);
    }
    return NULL;
}

int main(int arguments, char **words) {
    int rounds = arguments > 1 ? atoi(words[1]) : 1000;
    sigset_t other, all;
    pthread_t thread;
    struct sigaction action = {.sa_handler = handler};
    pthread_key_create(&key, NULL);
    pthread_setspecific(key, &key);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    sigemptyset(&other);
    sigaddset(&other, SIGUSR2);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    pthread_create(&thread, NULL, toggles, &key);
    pthread_sigmask(SIG_SETMASK, &other, NULL);
    for (int i = 0; i < rounds; i++) {
        int before = handled;
        kill(getpid(), SIGUSR1);
        while (handled == before) sched_yield();
        for (volatile int j = 0; j < i * 7919 % 20000; j++) {}
    }
    stop = 1;
    pthread_join(thread, NULL);
    printf("handled: %d, by nobody: %d\n", handled, nobodys);
}
