// Details of signals where lightweight threads take them: real-time ones count and keep their order, others merge; a handler is not entered again while
// it runs; what is told of a signal is true; a jump out of a handler strands nothing; a fork leaves what is pending to the parent. Prints the same natively.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static sigset_t set;
static atomic_int stop, count, odd, last;
// Its own: the last one may come late.
static atomic_int ticks;
static volatile pid_t child;
static sigjmp_buf before;

static void *takes(void *nothing) {
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    while (!stop) usleep(500);
    return nothing;
}
// Has a processor most of the time, and blocks all.
static void *spins(void *nothing) {
    while (!stop) sched_yield();
    return nothing;
}
static void counts(int signal) {
    (void)signal;
    count++;
}
static void in_order(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    odd += info->si_code != SI_QUEUE || info->si_value.sival_int != last + 1;
    last = info->si_value.sival_int;
    count++;
}
static void of_timer(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    odd += info->si_code != SI_TIMER || info->si_value.sival_int != 42;
    ticks++;
}
static void of_child(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    odd += info->si_code != CLD_EXITED || info->si_status != 7 || info->si_pid != child;
    count++;
}
// Neither within itself nor within one that blocks all, which may begin while one that does not still runs.
static _Thread_local volatile int inside[2], inside_of_all;
static void runs_alone(int signal, int of_all) {
    odd += inside[signal == SIGUSR2]++ != 0 || inside_of_all != 0;
    inside_of_all += of_all;
    for (volatile int i = 0; i < 200000; i++) {}
    inside_of_all -= of_all;
    inside[signal == SIGUSR2]--;
    count++;
}
static void alone(int signal) {
    runs_alone(signal, 0);
}
static void alone_of_all(int signal) {
    runs_alone(signal, 1);
}
static void jumps(int signal) {
    (void)signal;
    siglongjmp(before, 1);
}
static void handle(int signal, void (*handler)(int, siginfo_t *, void *)) {
    struct sigaction action = {.sa_flags = SA_SIGINFO, .sa_sigaction = handler};
    sigaction(signal, &action, NULL);
}
static void handle_simply(int signal, void (*handler)(int), int block_all) {
    struct sigaction action = {.sa_handler = handler};
    if (block_all) sigfillset(&action.sa_mask);
    sigaction(signal, &action, NULL);
}
static void settle(int wanted) {
    for (int i = 0; i < 60000 && count < wanted; i++) usleep(1000);
    usleep(10000);
}
static void report(const char *what, int exact) {
    printf("%s: %d, wrong %d\n", what, exact ? count : count > 0, odd);
    count = odd = last = 0;
}
static void *own(void *nothing) {
    int numbers[] = {SIGUSR1, SIGRTMIN + 1};
    for (int i = 0; i < 4; i++) {
        signal(numbers[i / 2], counts);
        for (int j = 0; j < 3; j++) {
            if (i % 2) {
                pthread_sigqueue(pthread_self(), numbers[i / 2], (union sigval){.sival_int = j});
            } else {
                pthread_kill(pthread_self(), numbers[i / 2]);
            }
        }
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
        report("three to itself", 1);
    }
    handle_simply(SIGUSR1, jumps, 1);
    signal(SIGUSR2, counts);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    if (!sigsetjmp(before, 1)) {
        pthread_sigmask(SIG_BLOCK, &set, NULL);
        raise(SIGUSR1);
        raise(SIGUSR2);
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    }
    settle(1);
    report("behind a jump", 1);
    return nothing;
}

// Has something pending while another thread forks: that one has a kernel thread of its own then, and is not asked.
static sem_t pends, has_forked;
static void *stands_by(void *nothing) {
    raise(SIGUSR1);
    sem_post(&pends);
    sem_wait(&has_forked);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    report("beside a fork", 1);
    return nothing;
}
static void *forks(void *nothing) {
    signal(SIGUSR1, counts);
    pthread_t other;
    pthread_create(&other, NULL, stands_by, NULL);
    sem_wait(&pends);
    raise(SIGUSR1);
    fflush(stdout);
    if ((child = fork()) == 0) {
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
        report("in a child", 1);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
        pthread_kill(pthread_self(), SIGUSR1);
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
        report("its own", 1);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    report("in the parent", 1);
    sem_post(&has_forked);
    pthread_join(other, NULL);
    return nothing;
}

// Any thread's number names its process here.
static void *sends_by_number(void *argument) {
    pid_t number = gettid();
    int refused = kill(number, 0);
    for (int i = 0; i < 100; i++) {
        refused |= kill(number, SIGRTMIN + 1);
        refused |= sigqueue(number, SIGRTMIN + 1, (union sigval){.sival_int = i});
        refused |= syscall(SYS_kill, number, SIGRTMIN + 1);
    }
    printf("refused: %d\n", refused);
    return argument;
}

int main(void) {
    pthread_t first, second;
    sigemptyset(&set);
    int numbers[] = {SIGUSR1, SIGUSR2, SIGCHLD, SIGRTMIN + 1};
    for (int i = 0; i < 4; i++) sigaddset(&set, numbers[i]);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_create(&first, NULL, own, NULL);
    pthread_join(first, NULL);
    sem_init(&pends, 0, 0);
    sem_init(&has_forked, 0, 0);
    pthread_create(&first, NULL, forks, NULL);
    pthread_join(first, NULL);

    pthread_create(&first, NULL, takes, NULL);
    pthread_create(&second, NULL, spins, NULL);
    handle(SIGRTMIN + 1, in_order);
    for (int i = 1; i <= 300; i++) {
        pthread_sigqueue(first, SIGRTMIN + 1, (union sigval){.sival_int = i});
    }
    settle(300);
    report("values to a thread", 1);
    handle_simply(SIGRTMIN + 1, counts, 0);
    for (int i = 1; i <= 300; i++) {
        sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = i});
        kill(getpid(), SIGRTMIN + 1);
    }
    settle(600);
    report("real-time signals to the process", 1);

    pthread_t by_number;
    pthread_create(&by_number, NULL, sends_by_number, NULL);
    pthread_join(by_number, NULL);
    settle(300);
    report("to the process by a thread's number", 1);

    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 42};
    struct itimerspec often = {{0, 2000000}, {0, 2000000}}, never = {0};
    timer_t timer;
    handle(SIGUSR1, of_timer);
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &often, NULL);
    for (int i = 0; i < 60000 && ticks < 30; i++) usleep(1000);
    timer_settime(timer, 0, &never, NULL);
    count = ticks;
    report("a timer", 0);
    handle(SIGCHLD, of_child);
    for (int i = 1; i <= 10; i++) {
        int gate[2];
        char byte = 0;
        if (pipe(gate)) return 1;
        if ((child = fork()) == 0) _exit(read(gate[0], &byte, 1) == 1 ? 7 : 1);
        if (write(gate[1], &byte, 1) != 1) return 1;
        for (int j = 0; j < 60000 && count < i; j++) usleep(1000);
        waitpid(child, NULL, 0);
        close(gate[0]);
        close(gate[1]);
    }
    report("children", 1);
    for (int all = 0; all < 2; all++) {
        handle_simply(SIGUSR1, all ? alone_of_all : alone, all);
        handle_simply(SIGUSR2, all ? alone_of_all : alone, all);
        for (int i = 0; i < 200; i++) {
            if (i % 3) {
                pthread_kill(first, all && i % 2 ? SIGUSR2 : SIGUSR1);
            } else {
                kill(getpid(), SIGUSR1);
            }
            usleep(i % 7 * 10);
        }
        settle(1);
        report("alone", 0);
    }
    stop = 1;
    pthread_join(first, NULL);
    pthread_join(second, NULL);
    return 0;
}
