// One that was an event loop, and now waits for another thread again and again: it shares its processor with that one. Prints whether it left the kernel
// thread that it kept for itself, and whether the two have one.
#include <pthread.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ROUNDS = 1000 };

// Whose turn it is, waited for as std of Rust does it: a wait that is no cancellation point.
static atomic_int turn;

static void give(int to) {
    atomic_store(&turn, to);
    syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, NULL);
}

static void take(int mine) {
    while (atomic_load(&turn) != mine) syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, !mine, NULL);
}

// The kernel thread's number, which the library answers for its own threads.
static long kernel_thread(void) {
    long number;
#if defined(__x86_64__)
    __asm__ volatile("syscall" : "=a"(number) : "a"(186L) : "rcx", "r11", "memory");
#else
    register long call __asm__("x8") = 178, answer __asm__("x0");
    __asm__ volatile("svc 0" : "=r"(answer) : "r"(call) : "memory");
    number = answer;
#endif
    return number;
}

static void *partner(void *argument) {
    for (int i = 0; i < ROUNDS; i++) {
        take(1);
        *(long *)argument = kernel_thread();
        give(0);
    }
    return NULL;
}

static void *once_a_loop(void *argument) {
    (void)argument;
    struct epoll_event event;
    int set = epoll_create1(0);
    for (int i = 0; i < 40; i++) epoll_wait(set, &event, 1, 1);
    long before = kernel_thread(), theirs = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, partner, &theirs);
    // In one round at least: a processor may be taken from a kernel thread that has no core.
    int left = 0, together = 0;
    for (int i = 0; i < ROUNDS; i++) {
        give(1);
        take(0);
        long own = kernel_thread();
        left |= own != before;
        together |= own != before && own == theirs;
    }
    pthread_join(thread, NULL);
    printf("%d %d\n", left, together);
    return NULL;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, once_a_loop, NULL);
    pthread_join(thread, NULL);
    return 0;
}
