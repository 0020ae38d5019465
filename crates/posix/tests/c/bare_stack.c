// Threads that compute, and spin, on stacks of their own making with not a byte to spare below the stack pointer, as
// languages do whose programs have all their handlers run on alternate stacks. Nobody writes there.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 20, BYTES = 65536 };

static volatile long turns;

/// With the stack pointer at `stack`: spins until the others have had a turn each, or for as many times as are enough.
static void spin(char *stack, long wanted, long enough) {
#ifdef __x86_64__
    __asm__ volatile(
        "mov %%rsp, %%r12\n"
        "mov %0, %%rsp\n"
        "1: pause\n"
        "dec %2\n"
        "jz 2f\n"
        "cmp %1, (%3)\n"
        "jl 1b\n"
        "2: mov %%r12, %%rsp\n"
        : "+r"(stack), "+r"(wanted), "+r"(enough)
        : "r"(&turns)
        : "r12", "memory", "cc");
#else
    while (turns < wanted && --enough) {
    }
#endif
}

static void *work(void *argument) {
    (void)argument;
    char *memory = malloc(BYTES);
    for (int round = 0; round < ROUNDS; round++) {
        memset(memory, 0xa5, BYTES);
        long now = __atomic_add_fetch(&turns, 1, __ATOMIC_SEQ_CST);
        spin(memory + BYTES - 64, now + THREADS, 300000);
        for (int i = 0; i < BYTES; i++) {
            if (memory[i] != (char)0xa5) {
                printf("%d bytes below the stack pointer something was written\n", BYTES - 64 - i);
                exit(1);
            }
        }
    }
    free(memory);
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    puts("nothing was written");
    return 0;
}
