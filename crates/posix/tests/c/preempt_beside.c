/* One processor. A thread computes where it may not give way, in the comparison of qsort, until a spare has another one
 * go on. From then on it computes in its own code, and comes back to the queue there: another kernel thread carries it
 * on. */
#define _GNU_SOURCE
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_int goes_on, over;

/* The kernel's number of the kernel thread, not the thread's. */
static long kernel_thread(void) {
#ifdef __x86_64__
    long number;
    __asm__ volatile("syscall" : "=a"(number) : "a"((long)SYS_gettid) : "rcx", "r11", "memory");
    return number;
#else
    return syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
#endif
}

static int compare(const void *a, const void *b) {
    while (!atomic_load(&goes_on))
        ;
    return *(const int *)a - *(const int *)b;
}

static void *computes(void *unused) {
    int numbers[2] = {2, 1};
    qsort(numbers, 2, sizeof *numbers, compare);
    assert(numbers[0] == 1);
    long before = kernel_thread();
    do
        for (volatile int i = 0; i < 100000; i++)
            ;
    while (kernel_thread() == before);
    atomic_store(&over, 1);
    return unused;
}

static void *takes_turns(void *unused) {
    atomic_store(&goes_on, 1);
    while (!atomic_load(&over))
        sched_yield();
    return unused;
}

int main(void) {
    pthread_t first, second;
    assert(pthread_create(&first, 0, computes, 0) == 0);
    assert(pthread_create(&second, 0, takes_turns, 0) == 0);
    pthread_join(first, 0);
    pthread_join(second, 0);
    puts("nothing was lost");
    return 0;
}
