// Signals of faults that another process sends: a handler runs on a thread of the program, mostly the first one, wherever that waits or computes.
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGUSR1};
static pthread_t first;
static _Thread_local int of_program;
static volatile int runs, on_first, on_thread, code, sender;
static atomic_int begun;

static void handler(int signal, siginfo_t *info, void *context) {
    on_first += pthread_equal(pthread_self(), first) != 0;
    on_thread += of_program;
    code = info->si_code;
    sender = info->si_pid;
    runs++;
}

static void *waits(void *argument) {
    of_program = 1;
    begun++;
    for (;;) pause();
    return argument;
}

// Another process: the shell, or a child that is forked, which makes a lightweight thread dedicated.
static pid_t sends(int forks, int queues, int signal) {
    const pid_t parent = getpid();
    pid_t child;
    if (forks) {
        child = fork();
        if (child == 0) {
            if (queues) sigqueue(parent, signal, (union sigval){.sival_int = 7});
            else kill(parent, signal);
            _exit(0);
        }
        return child;
    }
    char line[64];
    snprintf(line, sizeof line, "kill -%d %d", signal, (int)parent);
    char *words[] = {"sh", "-c", line, NULL};
    return posix_spawn(&child, "/bin/sh", NULL, NULL, words, environ) == 0 ? child : -1;
}

int main(int count, char **arguments) {
    const int tells = count > 1, forks = count > 2, queues = count > 3, on_stack = forks ? SA_ONSTACK : 0;
    int on_first_all = 0;
    first = pthread_self();
    of_program = 1;
    stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | on_stack};
    for (int i = 0; i < 7; i++) sigaction(signals[i], &action, NULL);
    pthread_t thread;
    for (int i = 0; i < 4; i++) pthread_create(&thread, NULL, waits, NULL);
    // One that is not yet known as the program's may be met, too.
    while (begun < 4) usleep(1000);
    for (int i = 0; i < 7; i++) {
        for (int way = 0; way < 3; way++) {
            runs = on_first = on_thread = 0;
            pid_t child = sends(forks, queues, signals[i]);
            while (runs == 0) {
                if (way == 0) usleep(1000);
                if (way == 1) sched_yield();
            }
            while (waitpid(child, NULL, 0) != child) {}
            printf("%d: runs %d, on a thread %d, code %d, the child's %d\n", signals[i], runs, on_thread, code, sender == child);
            on_first_all += on_first;
        }
    }
    // And what has no handler ends the process.
    fflush(stdout);
    signal(SIGSEGV, SIG_DFL);
    if (tells) fprintf(stderr, "on the first thread: %d\n", on_first_all);
    sends(forks, queues, SIGSEGV);
    for (;;) pause();
}
