// Contexts on lightweight threads: each has the mask that its thread had when it was filled, or that was set by hand.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <ucontext.h>

static ucontext_t there, edited, back;
static char stacks[2][1 << 16];
static volatile int handled, passes;

static void handler(int signal) {
    (void)signal;
    handled++;
}

static int blocks(int signal) {
    sigset_t set;
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    return sigismember(&set, signal);
}

static void change(int how, int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    pthread_sigmask(how, &set, NULL);
}

static int blocked_there;

static void runs(void) {
    for (;;) {
        blocked_there = blocks(SIGUSR1);
        raise(SIGUSR1);
        sched_yield();
        swapcontext(&there, &back);
    }
}

static void by_hand(void) {
    for (;;) {
        blocked_there = blocks(SIGUSR2);
        swapcontext(&edited, &back);
    }
}

static void make(ucontext_t *context, int at, void (*start)(void)) {
    context->uc_stack.ss_sp = stacks[at];
    context->uc_stack.ss_size = sizeof stacks[at];
    context->uc_link = NULL;
    makecontext(context, start, 0);
}

static void *thread(void *argument) {
    (void)argument;
    change(SIG_BLOCK, SIGUSR1);
    getcontext(&there);
    make(&there, 0, runs);
    change(SIG_UNBLOCK, SIGUSR1);
    getcontext(&edited);
    sigaddset(&edited.uc_sigmask, SIGUSR2);
    make(&edited, 1, by_hand);
    for (int at = 0; at < 3; at++) {
        int before = handled;
        swapcontext(&back, &there);
        // What came there is handled here, where it is let in.
        printf("blocked there: %d, here: %d, handled: %d\n", blocked_there, blocks(SIGUSR1), handled - before);
        sched_yield();
        swapcontext(&back, &edited);
        printf("set by hand: %d, here: %d\n", blocked_there, blocks(SIGUSR2));
    }
    change(SIG_BLOCK, SIGUSR2);
    ucontext_t again;
    passes = 0;
    getcontext(&again);
    printf("pass %d blocks: %d\n", passes, blocks(SIGUSR2));
    if (passes++ < 2) {
        change(SIG_UNBLOCK, SIGUSR2);
        setcontext(&again);
    }
    return NULL;
}

int main(void) {
    signal(SIGUSR1, handler);
    for (int at = 0; at < 3; at++) {
        pthread_t id;
        pthread_create(&id, NULL, thread, NULL);
        pthread_join(id, NULL);
    }
}
