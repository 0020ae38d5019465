// What a handler finds in the mask of its context is what its thread has blocked, and what it leaves there is blocked
// after it. The argument says who runs the cases: a thread, main, or one with a kernel thread of its own.
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <ucontext.h>
#include <unistd.h>

enum { NOTHING, BLOCK, ALLOW, BLOCK_ALL, ALLOW_ALL, BLOCK_ITSELF };
static int what, nested;
static volatile int runs, woken;
static sigset_t found;
static char *page;

static int blocks(int signal) {
    sigset_t set;
    pthread_sigmask(0, NULL, &set);
    return sigismember(&set, signal);
}

static void change(int signal, siginfo_t *info, void *context) {
    sigset_t *mask = &((ucontext_t *)context)->uc_sigmask;
    (void)info;
    runs++;
    if (signal == SIGUSR2) return;
    found = *mask;
    if (signal == SIGSEGV) mprotect(page, 4096, PROT_READ | PROT_WRITE);
    switch (what) {
    case BLOCK: sigaddset(mask, SIGUSR2); break;
    case ALLOW: sigdelset(mask, SIGUSR2); break;
    case BLOCK_ALL: sigfillset(mask); break;
    case ALLOW_ALL: sigemptyset(mask); break;
    case BLOCK_ITSELF: sigaddset(mask, signal); break;
    }
}

static void within(int signal) {
    (void)signal;
    pthread_kill(pthread_self(), SIGUSR1);
    nested = blocks(SIGUSR2);
}

static void by(int change, int signal) {
    what = change;
    pthread_kill(pthread_self(), signal);
}

static void mask(int how, int signal) {
    sigset_t set;
    if (signal) {
        sigemptyset(&set);
        sigaddset(&set, signal);
    } else {
        sigfillset(&set);
    }
    pthread_sigmask(how, &set, NULL);
}

static void *inherits(void *argument) {
    (void)argument;
    printf("a new thread blocks it: %d\n", blocks(SIGUSR2));
    return NULL;
}

static void *send(void *thread) {
    // Until it has woken: a signal may come before the other waits.
    while (!woken) {
        pthread_kill(*(pthread_t *)thread, SIGUSR1);
        usleep(1000);
    }
    return NULL;
}

static sigjmp_buf out;
static void jumps(int signal) {
    (void)signal;
    siglongjmp(out, 1);
}

static void *cases(void *argument) {
    (void)argument;
    pthread_t other, self = pthread_self();
    sigset_t set;

    by(BLOCK, SIGUSR1);
    runs = 0;
    pthread_kill(self, SIGUSR2);
    sigpending(&set);
    printf("blocked %d, pending %d, ran %d\n", blocks(SIGUSR2), sigismember(&set, SIGUSR2), runs);
    pthread_create(&other, NULL, inherits, NULL);
    pthread_join(other, NULL);
    by(ALLOW, SIGUSR1);
    printf("blocked %d, ran %d\n", blocks(SIGUSR2), runs);

    mask(SIG_BLOCK, SIGHUP);
    by(NOTHING, SIGUSR1);
    int count = 0;
    for (int signal = 1; signal <= SIGRTMAX; signal++) count += sigismember(&found, signal) == 1;
    printf("found %d, SIGHUP %d\n", count, sigismember(&found, SIGHUP));
    mask(SIG_UNBLOCK, SIGHUP);

    by(BLOCK_ALL, SIGUSR1);
    printf("all: %d %d, but not SIGKILL %d\n", blocks(SIGUSR2), blocks(SIGTERM), blocks(SIGKILL));
    mask(SIG_UNBLOCK, SIGUSR1);
    by(ALLOW_ALL, SIGUSR1);
    printf("none: %d %d\n", blocks(SIGUSR2), blocks(SIGTERM));

    runs = 0;
    for (int i = 0; i < 5; i++) by(BLOCK_ITSELF, SIGUSR1);
    printf("itself: %d, ran %d\n", blocks(SIGUSR1), runs);
    what = NOTHING;
    mask(SIG_UNBLOCK, SIGUSR1);
    printf("then ran %d\n", runs);

    by(BLOCK, SIGTERM);
    printf("the handler that was interrupted blocks it: %d, the thread: %d\n", nested, blocks(SIGUSR2));

    what = BLOCK;
    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *(volatile char *)page = 1;
    printf("of a fault: %d\n", blocks(SIGUSR2));
    by(ALLOW, SIGUSR1);

    sem_t never;
    sem_init(&never, 0, 0);
    what = BLOCK;
    pthread_create(&other, NULL, send, &self);
    int result = sem_wait(&never), error = errno;
    woken = 1;
    pthread_join(other, NULL);
    printf("sem_wait %d %d, blocked %d\n", result, error == EINTR, blocks(SIGUSR2));

    // A wait with a mask of its own: its handler changes the mask after it.
    mask(SIG_SETMASK, 0);
    sigfillset(&set);
    sigdelset(&set, SIGUSR1);
    by(ALLOW, SIGUSR1);
    sigsuspend(&set);
    printf("after sigsuspend: %d %d, found %d\n", blocks(SIGUSR2), blocks(SIGUSR1), sigismember(&found, SIGUSR1));

    // One that is left by a jump does not.
    signal(SIGUSR1, jumps);
    mask(SIG_SETMASK, 0);
    pthread_kill(self, SIGUSR1);
    if (!sigsetjmp(out, 1)) sigsuspend(&set);
    printf("after a jump: %d %d\n", blocks(SIGUSR2), blocks(SIGUSR1));
    struct sigaction action = {.sa_sigaction = change, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    mask(SIG_UNBLOCK, SIGUSR1);
    by(NOTHING, SIGUSR1);
    printf("found after a jump: %d %d\n", sigismember(&found, SIGUSR2), sigismember(&found, SIGUSR1));
    by(ALLOW_ALL, SIGUSR1);
    printf("none: %d %d\n", blocks(SIGUSR2), blocks(SIGTERM));
    return NULL;
}

static void *dedicated(void *argument) {
    prctl(PR_SET_TIMERSLACK, 12345);
    return cases(argument);
}

int main(int count, char **arguments) {
    struct sigaction action = {.sa_sigaction = change, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
    signal(SIGTERM, within);
    pthread_t thread;
    const char *who = count > 1 ? arguments[1] : "thread";
    if (!strcmp(who, "main")) {
        cases(NULL);
    } else {
        pthread_create(&thread, NULL, !strcmp(who, "thread") ? cases : dedicated, NULL);
        pthread_join(thread, NULL);
    }
    return 0;
}
