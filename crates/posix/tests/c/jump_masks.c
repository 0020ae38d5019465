// The mask that sigsetjmp saves is the calling thread's, and siglongjmp restores it: outside of handlers, out of them,
// beside threads that block other signals, in threads that are dedicated meanwhile, and for the function setjmp.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#undef setjmp
extern int setjmp(jmp_buf) __attribute__((returns_twice));

static __thread sigjmp_buf out;
static __thread volatile int handled;
static pthread_barrier_t barrier;

static void handler(int signal) {
    handled++;
    if (signal == SIGUSR2)
        siglongjmp(out, 1);
}

static unsigned blocked(void) {
    sigset_t set;
    unsigned bits = 0;
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    for (int signal = 1; signal < 32; signal++)
        bits |= (unsigned)(sigismember(&set, signal) > 0) << signal;
    return bits;
}

static void block(int how, int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    pthread_sigmask(how, &set, NULL);
}

static void *jumps(void *argument) {
    long number = (long)argument;
    unsigned seen[9];
    volatile int at = 0, count = 0;
    sigjmp_buf buffer, copy, plain;
    // Each thread blocks another one besides.
    block(SIG_BLOCK, SIGHUP + (int)number % 3);
    pthread_barrier_wait(&barrier);
    // What is blocked after the saving is let in by the jump, and what was let in is blocked.
    block(SIG_BLOCK, SIGALRM);
    if (sigsetjmp(buffer, 1) == 0) {
        block(SIG_BLOCK, SIGUSR1);
        block(SIG_UNBLOCK, SIGALRM);
        pthread_kill(pthread_self(), SIGUSR1);
        seen[at++] = handled;
        siglongjmp(buffer, 1);
    }
    seen[at++] = handled;
    seen[at++] = blocked();
    // From a copy, many times, while others do the same.
    if (sigsetjmp(buffer, 1) < 20) {
        for (unsigned i = 0; i < sizeof buffer; i++)
            ((volatile char *)&copy)[i] = ((char *)&buffer)[i];
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, NULL);
        usleep(100);
        siglongjmp(copy, ++count);
    }
    seen[at++] = blocked();
    // No mask was saved.
    if (sigsetjmp(plain, 0) == 0) {
        block(SIG_BLOCK, SIGTERM);
        siglongjmp(plain, 1);
    }
    seen[at++] = blocked();
    // Out of a handler, to where other signals were blocked.
    if (sigsetjmp(out, 1) == 0) {
        block(SIG_BLOCK, SIGUSR1);
        pthread_kill(pthread_self(), SIGUSR2);
        for (;;)
            pause();
    }
    seen[at++] = blocked();
    if (setjmp(buffer) == 0) {
        block(SIG_UNBLOCK, SIGTERM);
        longjmp(buffer, 1);
    }
    seen[at++] = blocked();
    // It is dedicated when it jumps.
    if (sigsetjmp(buffer, 1) == 0) {
        block(SIG_BLOCK, SIGWINCH);
        prctl(PR_SET_TIMERSLACK, 60000);
        block(SIG_BLOCK, SIGURG);
        siglongjmp(buffer, 1);
    }
    seen[at++] = blocked();
    block(SIG_UNBLOCK, SIGTERM);
    if (number == 0)
        for (int i = 0; i < at; i++)
            printf("%d: %x\n", i, seen[i]);
    unsigned sum = 0;
    for (int i = 2; i < at; i++)
        sum = sum * 31 + (seen[i] ^ (1u << (SIGHUP + number % 3)));
    return (void *)(unsigned long)sum;
}

int main(void) {
    enum { THREADS = 9 };
    pthread_t threads[THREADS];
    void *sums[THREADS];
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, jumps, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], &sums[i]);
    int same = 1;
    for (int i = 0; i < THREADS; i++)
        same &= sums[i] == sums[0];
    printf("the same: %d\n", same);
    return 0;
}
