// Handlers that wait, change their masks and jump, and waits that handlers end: the textbook loop over `sigsuspend`, a collector that stops the world,
// `sigwait` for everything, a jump without a mask, a handler that lets its own signal in, signals left to a thread that ended. Prints the same natively.
#define _GNU_SOURCE
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

enum { WORKERS = 4 };
static sigset_t usr1, usr2, empty, all;
static _Thread_local volatile int came, other, depth, deepest;
static sem_t stopped, resumed;
static atomic_int stop, count, odd;
static jmp_buf back;

static void comes(int signal) {
    if (signal == SIGUSR1) came++;
    else other++;
}
static void resumes(int signal) {
    (void)signal;
    atomic_fetch_add(&count, 1);
}
static void suspends(int signal) {
    sigset_t mask;
    (void)signal;
    sigfillset(&mask);
    sigdelset(&mask, SIGUSR2);
    int before = count;
    sem_post(&stopped);
    do sigsuspend(&mask);
    while (count == before);
    sem_post(&resumed);
}
static void jumps(int signal) {
    (void)signal;
    longjmp(back, 1);
}
static void lets_itself_in(int signal) {
    (void)signal;
    if (++depth > deepest) deepest = depth;
    if (depth < 5) {
        pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
        pthread_kill(pthread_self(), SIGUSR1);
    }
    depth--;
}
static void blocks_another(int signal) {
    (void)signal;
    pthread_sigmask(SIG_BLOCK, &usr2, NULL);
    pthread_kill(pthread_self(), SIGUSR2);
    odd += other;
}
static void handle(int signal, void (*handler)(int), int block_all) {
    struct sigaction action = {.sa_handler = handler};
    if (block_all) sigfillset(&action.sa_mask);
    sigaction(signal, &action, NULL);
}
static void *computes(void *nothing) {
    while (!stop) usleep(200);
    return nothing;
}
static void *waits_for_all(void *nothing) {
    int signal;
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    while (sigwait(&all, &signal) == 0 && signal != SIGUSR2) {
        odd += signal != SIGUSR1;
        atomic_fetch_add(&count, 1);
        usleep(10);
    }
    return nothing;
}
static atomic_int woke;
// Again and again: one that comes before the wait does not end it.
static void *sends(void *target) {
    for (; !woke; usleep(50000)) pthread_kill(*(pthread_t *)target, SIGUSR1);
    return NULL;
}
static void *main_part(void *nothing) {
    // Pending before the mask opens, to the process and to the thread, and while it opens.
    handle(SIGUSR1, comes, 0);
    pthread_sigmask(SIG_BLOCK, &usr1, NULL);
    for (int i = 0; i < 300; i++) {
        came = 0;
        if (i % 2) kill(getpid(), SIGUSR1);
        else raise(SIGUSR1);
        while (!came) sigsuspend(&empty);
    }
    printf("suspended: %d\n", came);
    pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);

    handle(SIGUSR1, jumps, 0);
    volatile int jumped = 0;
    for (volatile int i = 0; i < 20; i++) {
        if (setjmp(back) == 0) {
            raise(SIGUSR1);
        } else {
            sigset_t now;
            pthread_sigmask(SIG_UNBLOCK, &usr1, &now);
            jumped += sigismember(&now, SIGUSR1);
        }
    }
    printf("jumped out, with the signal blocked: %d\n", jumped);

    handle(SIGUSR1, lets_itself_in, 0);
    raise(SIGUSR1);
    printf("deepest: %d\n", deepest);
    handle(SIGUSR1, blocks_another, 0);
    handle(SIGUSR2, comes, 0);
    raise(SIGUSR1);
    printf("inside %d, after it %d\n", odd, other);

    handle(SIGUSR1, comes, 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        pthread_t self = pthread_self(), thread;
        came = 0;
        pthread_create(&thread, NULL, sends, &self);
        int left = sleep(1000);
        woke = 1;
        pthread_join(thread, NULL);
        printf("in a child: %d, interrupted %d\n", came > 0, left > 0);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    return nothing;
}

int main(void) {
    pthread_t threads[WORKERS];
    sigemptyset(&empty);
    usr1 = usr2 = empty;
    sigaddset(&usr1, SIGUSR1);
    sigaddset(&usr2, SIGUSR2);
    sigfillset(&all);
    sem_init(&stopped, 0, 0);
    sem_init(&resumed, 0, 0);

    pthread_sigmask(SIG_BLOCK, &usr1, NULL);
    pthread_create(&threads[0], NULL, main_part, NULL);
    pthread_join(threads[0], NULL);

    handle(SIGUSR1, suspends, 1);
    handle(SIGUSR2, resumes, 0);
    pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
    for (int i = 0; i < WORKERS; i++) pthread_create(&threads[i], NULL, computes, NULL);
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < WORKERS; i++) {
            pthread_kill(threads[i], SIGUSR1);
            while (sem_wait(&stopped) != 0) {}
            pthread_kill(threads[i], SIGUSR2);
            while (sem_wait(&resumed) != 0) {}
        }
    }
    stop = 1;
    for (int i = 0; i < WORKERS; i++) pthread_join(threads[i], NULL);
    printf("stopped and resumed: %d\n", count);

    count = odd = 0;
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, waits_for_all, NULL);
    for (int i = 0; i < 20000; i++) pthread_kill(threads[i % 2], SIGUSR1);
    for (int i = 0; i < 2; i++) {
        usleep(20000);
        pthread_kill(threads[i], SIGUSR2);
        pthread_join(threads[i], NULL);
    }
    printf("waited: %d, wrong %d\n", count > 0, odd);

    // More than fits in all, to threads that end.
    int refused = 0;
    for (int i = 0; i < 12; i++) {
        stop = 0;
        pthread_create(&threads[0], NULL, computes, NULL);
        for (int j = 0; j < 500; j++) refused += pthread_sigqueue(threads[0], SIGRTMIN, (union sigval){.sival_int = j}) != 0;
        stop = 1;
        pthread_join(threads[0], NULL);
    }
    printf("refused: %d\n", refused);
    return 0;
}
