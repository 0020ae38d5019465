// Alternate stacks of threads: handlers of faults run on the one that their thread gave, for overflows too, and jump out of it.
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static __thread sigjmp_buf jump;
static __thread char *low;
static __thread size_t size;
static int wrong, inside, refused, returned;
static volatile int depth;

static void handler(int signal, siginfo_t *info, void *context) {
    char here[100000];
    memset(here, 1, size > 200000 ? sizeof here : 100);
    if (here < low || here > low + size) __sync_fetch_and_add(&wrong, 1);
    stack_t now, other = {.ss_sp = low, .ss_size = size};
    sigaltstack(0, &now);
    if (now.ss_flags & SS_ONSTACK && now.ss_sp == low) __sync_fetch_and_add(&inside, 1);
    if (sigaltstack(&other, 0) && errno == EPERM) __sync_fetch_and_add(&refused, 1);
    siglongjmp(jump, signal);
}

__attribute__((noinline)) static int dig(int n) {
    volatile char room[512];
    room[0] = n;
    depth = n;
    return dig(n + 1) + room[0];
}

static void *digger(void *argument) {
    size = argument ? 1 << 20 : 256 << 10;
    low = malloc(size);
    stack_t own = {.ss_sp = low, .ss_size = size}, now;
    // Nobody else's is its.
    if (sigaltstack(0, &now) || now.ss_flags != SS_DISABLE || now.ss_size) return (void *)5;
    if (sigaltstack(&own, &now) || now.ss_flags != SS_DISABLE) return (void *)1;
    for (int i = 0; i < 3; i++) {
        if (!sigsetjmp(jump, 1)) dig(0);
        if (!sigsetjmp(jump, 1)) *(volatile int *)8 = 1;
        usleep(100);
    }
    sigaltstack(0, &now);
    if (now.ss_sp != low || now.ss_size != size || now.ss_flags) return (void *)2;
    stack_t off = {.ss_flags = SS_DISABLE};
    sigaltstack(&off, 0);
    sigaltstack(0, &now);
    own.ss_flags = 99;
    int bad = sigaltstack(&own, 0) == -1 && errno == EINVAL;
    own.ss_flags = 0, own.ss_size = 100;
    int small = sigaltstack(&own, 0) == -1 && errno == ENOMEM;
    return (void *)(long)(now.ss_flags == SS_DISABLE && bad && small ? 0 : 3);
}

// A handler that returns: the instruction is tried again, and finds memory there.
static char *page;
static void mend(int signal) {
    char here;
    if (&here < low || &here > low + size) __sync_fetch_and_add(&wrong, 1);
    __sync_fetch_and_add(&returned, 1);
    // A system call that the runtime does not wait in.
    extern int mprotect(void *, size_t, int);
    mprotect(page, 4096, 3);
}
static void *mender(void *argument) {
    extern void *mmap(void *, size_t, int, int, int, long);
    size = 64 << 10;
    low = malloc(size);
    stack_t own = {.ss_sp = low, .ss_size = size};
    sigaltstack(&own, 0);
    page = mmap(0, 4096, 0, 0x22, -1, 0);
    page[5] = 7;
    return (void *)(long)(page[5] == 7 ? 0 : 4);
}

int main(void) {
    struct sigaction old, action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &action, 0);
    pthread_t ids[6];
    long sum = 0;
    void *result;
    for (long i = 0; i < 6; i++) pthread_create(ids + i, 0, digger, (void *)(i & 1));
    for (int i = 0; i < 6; i++) pthread_join(ids[i], &result), sum += (long)result;
    // set again, now that there are threads
    sigaction(SIGSEGV, &action, &old);
    printf("the same handler: %d, flags %d\n", old.sa_sigaction == handler, (old.sa_flags & (SA_SIGINFO | SA_ONSTACK)) == (SA_SIGINFO | SA_ONSTACK));
    for (long i = 0; i < 6; i++) pthread_create(ids + i, 0, digger, (void *)(i & 1));
    for (int i = 0; i < 6; i++) pthread_join(ids[i], &result), sum += (long)result;
    struct sigaction plain = {.sa_handler = mend, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &plain, 0);
    pthread_create(ids, 0, mender, 0), pthread_join(ids[0], &result), sum += (long)result;
    printf("failures %ld, elsewhere %d, said to be on it %d, refused there %d, returned %d\n", sum, wrong, inside, refused, returned);
    return 0;
}
