// A program that sets the action of every signal there is, by its number, while threads run, as daemons do: the answers,
// and that threads which compute are still signalled and cancelled after it.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

static volatile sig_atomic_t came;

static void handler(int signal) { came = signal; }

static void *compute(void *argument) {
    int before;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
    *(volatile int *)argument = 1;
    while (*(volatile int *)argument) {
    }
    return NULL;
}

static void set_all(const char *name, void (*wanted)(int)) {
    struct sigaction action = {.sa_handler = wanted}, present;
    int set = 0, same = 0;
    for (int signal = 1; signal <= 64; signal++) {
        if (sigaction(signal, &action, NULL)) continue;
        set++;
        same += !sigaction(signal, NULL, &present) && present.sa_handler == wanted;
    }
    action.sa_handler = handler;
    sigaction(SIGUSR1, &action, &present);
    volatile int begun = 0;
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, compute, (void *)&begun);
    while (!begun) {
    }
    came = 0;
    pthread_kill(thread, SIGUSR1);
    while (came != SIGUSR1) {
    }
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("%s: %d set, %d told, the one before %d, cancelled %d\n", name, set, same, present.sa_handler == wanted,
           result == PTHREAD_CANCELED);
}

int main(void) {
    pthread_t thread;
    volatile int begun = 0;
    pthread_create(&thread, NULL, compute, (void *)&begun);
    while (!begun) {
    }
    set_all("default", SIG_DFL);
    set_all("ignored", SIG_IGN);
    set_all("handled", handler);
    set_all("default", SIG_DFL);
    pthread_cancel(thread);
    pthread_join(thread, NULL);
    return 0;
}
