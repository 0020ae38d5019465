// Jumps out of handlers that run on alternate stacks, by threads and the first thread, where the compiler has jumps
// checked: from above the thread's stack and from below.
#define _FORTIFY_SOURCE 2
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { THREADS = 4, ROUNDS = 50, BYTES = 65536 };

static __thread sigjmp_buf back;
static char below[THREADS][BYTES];

static void fault(int signal) {
    (void)signal;
    siglongjmp(back, 1);
}

static void *work(void *argument) {
    long which = (long)argument;
    // Where the kernel puts it, or in the program's data, which lies below all of it.
    void *above = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *memory = which % 2 ? below[which] : above;
    stack_t stack = {.ss_sp = memory, .ss_size = BYTES};
    sigaltstack(&stack, NULL);
    volatile long jumps = 0;
    for (int round = 0; round < ROUNDS; round++) {
        if (sigsetjmp(back, 1)) {
            jumps++;
            continue;
        }
        if (round % 2) {
            *(volatile int *)8 = 1;
        } else {
            pthread_kill(pthread_self(), SIGUSR1);
        }
    }
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, NULL);
    return (void *)jumps;
}

int main(void) {
    struct sigaction action = {.sa_handler = fault, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    long jumps = (long)work(0);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        jumps += (long)result;
    }
    printf("%ld jumps\n", jumps);
    return 0;
}
