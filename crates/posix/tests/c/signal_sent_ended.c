// A fault's signal that another process sends while main has ended, and one whose action is for once.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int runs, elsewhere, begun;
static _Thread_local int of_program;
static _Atomic pid_t child;

static void handler(int signal) {
    (void)signal;
    elsewhere += !of_program;
    runs++;
}

static void *waits(void *argument) {
    of_program = 1;
    begun++;
    for (;;) usleep(2000);
    return argument;
}

static void *tells(void *wanted) {
    of_program = 1;
    begun++;
    while (runs < (int)(long)wanted || child == 0) usleep(1000);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    printf("runs %s, on threads %s\n", runs > 0 ? "some" : "none", elsewhere == 0 ? "all" : "not all");
    fflush(stdout);
    _exit(0);
}

int main(int count, char **arguments) {
    (void)arguments;
    const int once = count > 1;
    pid_t me = getpid();
    struct sigaction action = {.sa_handler = handler, .sa_flags = once ? SA_RESETHAND : 0};
    sigaction(SIGSEGV, &action, NULL);
    of_program = 1;
    pthread_t thread;
    for (int i = 0; i < 3; i++) pthread_create(&thread, NULL, waits, NULL);
    pthread_create(&thread, NULL, tells, (void *)(once ? 1L : 5L));
    // One that is not yet known as the program's may be met, too.
    while (begun < 4) usleep(1000);
    pid_t forked = fork();
    if (forked == 0) {
        do {
            usleep(20000);
            kill(me, SIGSEGV);
        } while (!once);
        for (;;) pause();
    }
    child = forked;
    if (!once) pthread_exit(NULL);
    for (;;) pause();
}
