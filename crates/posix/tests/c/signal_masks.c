// Signals for the process, as masks of threads change after threads were made: what all block stays pending and ends nobody, what one
// lets in is handled, by one that lets it in.
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 6, ROUNDS = 40 };
static sem_t go, done;
static atomic_int over, handled, wrong;
static _Thread_local int lets_in;

static void handler(int signal) {
    (void)signal;
    if (!lets_in) wrong++;
    handled++;
}
static void change(int how, int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    if (how == SIG_UNBLOCK) lets_in = 1;
    pthread_sigmask(how, &set, NULL);
    if (how == SIG_BLOCK) lets_in = 0;
}
static int pends(int signal) {
    sigset_t set;
    sigpending(&set);
    return sigismember(&set, signal);
}
static void pause_ms(int ms) {
    struct timespec time = {0, ms * 1000000};
    while (nanosleep(&time, &time) != 0) {}
}
static int awaited(atomic_int *count, int wanted) {
    for (int i = 0; i < 60000 && *count < wanted; i++) pause_ms(1);
    return *count == wanted;
}
// Blocks when told to, and goes on between computing and waiting.
static void *blocks(void *unused) {
    while (sem_wait(&go) != 0) {}
    change(SIG_BLOCK, SIGUSR1);
    sem_post(&done);
    volatile unsigned work = 0;
    while (!over) {
        for (int i = 0; i < 20000; i++) work++;
        sched_yield();
        usleep(100);
    }
    return unused;
}
static void *takes(void *second) {
    change(SIG_UNBLOCK, SIGUSR1);
    sem_post(&done);
    if (second)
        while (!over) {}
    else
        while (!over) pause_ms(1);
    change(SIG_BLOCK, SIGUSR1);
    sem_post(&done);
    return NULL;
}
static void *gets(void *count) {
    sigset_t set;
    int signal;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    for (int i = 0; i < ROUNDS; i++) {
        sem_post(&done);
        if (sigwait(&set, &signal) == 0 && signal == SIGUSR1) ++*(atomic_int *)count;
    }
    return NULL;
}
// A handler of another signal, which is left after all have blocked SIGUSR1: it returns to a mask from before.
static sigjmp_buf place;
enum { SLEEPS, COMPUTES, JUMPS, KINDS };
static atomic_int placed, inside, blocked, kind;
static void slow(int signal) {
    (void)signal;
    inside = 1;
    while (!blocked) {}
    if (kind == JUMPS) siglongjmp(place, 1);
}
static void *is_slow(void *unused) {
    while (!inside)
        if (sigsetjmp(place, 1) == 0) {
            placed = 1;
            if (kind != COMPUTES) usleep(100);
        }
    sem_post(&done);
    while (!over) pause_ms(1);
    return unused;
}
static void wait_for(int count) {
    while (count > 0)
        if (sem_wait(&done) == 0) count--;
}

int main(void) {
    pthread_t threads[THREADS], taker, getter;
    atomic_int got = 0;
    sigset_t none;
    setbuf(stdout, NULL);
    sem_init(&go, 0, 0);
    sem_init(&done, 0, 0);
    // 1. Blocked by all only after the threads were made: its default action ends nobody.
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, blocks, NULL);
    change(SIG_BLOCK, SIGUSR1);
    for (int i = 0; i < THREADS; i++) sem_post(&go);
    wait_for(THREADS);
    for (int i = 0; i < ROUNDS; i++) {
        kill(getpid(), SIGUSR1);
        pause_ms(1);
    }
    printf("pending: %d\n", pends(SIGUSR1));
    // 2. One waits for it, and gets each.
    sigemptyset(&none);
    sigaddset(&none, SIGUSR1);
    struct timespec now = {0, 0};
    printf("taken: %d\n", sigtimedwait(&none, NULL, &now) == SIGUSR1);
    pthread_create(&getter, NULL, gets, &got);
    for (int i = 0; i < ROUNDS; i++) {
        wait_for(1);
        kill(getpid(), SIGUSR1);
        if (!awaited(&got, i + 1)) break;
    }
    pthread_join(getter, NULL);
    printf("waited for: %d\n", got);
    // 3. One lets it in and handles it; then one that only computes.
    signal(SIGUSR1, handler);
    for (int second = 0; second < 2; second++) {
        over = 0;
        handled = 0;
        pthread_create(&taker, NULL, takes, second ? "" : NULL);
        wait_for(1);
        for (int i = 0; i < ROUNDS; i++) {
            kill(getpid(), SIGUSR1);
            if (!awaited(&handled, i + 1)) break;
        }
        printf("handled: %d\n", handled);
        // 4. It blocks it again: pending, and again the default action ends nobody.
        over = 1;
        wait_for(1);
        signal(SIGUSR1, SIG_DFL);
        kill(getpid(), SIGUSR1);
        pause_ms(3);
        pthread_join(taker, NULL);
        printf("pending: %d\n", pends(SIGUSR1));
        signal(SIGUSR1, handler);
        if (second == 0) sigtimedwait(&none, NULL, &now);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    // 5. The first thread lets it in.
    handled = 0;
    change(SIG_UNBLOCK, SIGUSR1);
    printf("handled by the first: %d\n", handled);
    // 6. A handler, a jump out of it: what they restore is from before all blocked.
    for (int each = SLEEPS; each < KINDS; each++) {
        change(SIG_BLOCK, SIGUSR1);
        placed = inside = blocked = over = 0;
        kind = each;
        signal(SIGUSR1, SIG_DFL);
        signal(SIGUSR2, slow);
        pthread_create(&getter, NULL, is_slow, NULL);
        pthread_create(&taker, NULL, takes, NULL);
        wait_for(1);
        while (!placed) pause_ms(1);
        pthread_kill(getter, SIGUSR2);
        while (!inside) pause_ms(1);
        over = 1;
        wait_for(1);
        pthread_join(taker, NULL);
        over = 0;
        blocked = 1;
        wait_for(1);
        for (int i = 0; i < ROUNDS; i++) {
            kill(getpid(), SIGUSR1);
            pause_ms(1);
        }
        printf("pending: %d\n", pends(SIGUSR1));
        sigtimedwait(&none, NULL, &now);
        over = 1;
        pthread_join(getter, NULL);
    }
    signal(SIGUSR1, handler);
    change(SIG_UNBLOCK, SIGUSR1);
    // 7. A child that a fork made, whose other threads are gone.
    if (fork() == 0) {
        change(SIG_BLOCK, SIGUSR1);
        signal(SIGUSR1, SIG_DFL);
        kill(getpid(), SIGUSR1);
        got = 0;
        pthread_create(&getter, NULL, gets, &got);
        wait_for(1);
        int well = awaited(&got, 1);
        for (int i = 1; i < ROUNDS; i++) {
            wait_for(1);
            kill(getpid(), SIGUSR1);
            if (!awaited(&got, i + 1)) break;
        }
        pthread_join(getter, NULL);
        _exit(well && got == ROUNDS ? 0 : 1);
    }
    int status;
    while (wait(&status) < 0 && errno == EINTR) {}
    printf("child: %d\nwrong: %d\n", status, wrong);
    return 0;
}
