// A thread that has itself stepped by instructions, by the processor's trap flag, hands something to another one again and again.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <ucontext.h>

#ifdef __x86_64__
static volatile long traps;
static volatile int on;

static void trapped(int number, siginfo_t *info, void *context) {
    ucontext_t *interrupted = context;
    traps++;
    if (!on) interrupted->uc_mcontext.gregs[REG_EFL] &= ~0x100L;
    (void)number, (void)info;
}

enum { ROUNDS = 200 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int full;

static void hand(int expected) {
    for (int round = 0; round < ROUNDS; round++) {
        pthread_mutex_lock(&mutex);
        while (full != expected) pthread_cond_wait(&condition, &mutex);
        full = !expected;
        pthread_cond_signal(&condition);
        pthread_mutex_unlock(&mutex);
    }
}

static void *takes(void *nothing) {
    hand(1);
    return nothing;
}

static void *gives(void *nothing) {
    on = 1;
    __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
    hand(0);
    on = 0;
    __asm__ volatile("nop");
    return nothing;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO};
    pthread_t threads[2];
    sigaction(SIGTRAP, &action, NULL);
    pthread_create(&threads[0], NULL, takes, NULL);
    pthread_create(&threads[1], NULL, gives, NULL);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    puts(traps > ROUNDS ? "ok" : "no traps");
    return 0;
}
#else
int main(void) {
    puts("ok");
    return 0;
}
#endif
