// What a program's first thread is and may do: the same natively, with the library, and with `main` on a lightweight thread.
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 5000 };

static pthread_t first;
static _Thread_local int own = 7;

static void check(int good, const char *what) {
    if (!good) {
        printf("failed: %s (%d)\n", what, errno);
        exit(1);
    }
}

static sem_t there, back;

static void *partner(void *argument) {
    for (int i = 0; i < ROUNDS; i++) {
        sem_wait(&there);
        sem_post(&back);
    }
    return argument;
}

static void *taker(void *argument) {
    int signal;
    check(sigwait(argument, &signal) == 0, "sigwait");
    return (void *)(long)signal;
}

static atomic_int handled, on_first, elsewhere;

static void handler(int signal) {
    (void)signal;
    atomic_store(&on_first, pthread_equal(pthread_self(), first));
    if (!atomic_load(&on_first)) atomic_fetch_add(&elsewhere, 1);
    atomic_fetch_add(&handled, 1);
}

static void until(int count) {
    while (atomic_load(&handled) < count) usleep(1000);
}

// Computes all the time, until so many handlers have run.
static void *computes(void *argument) {
    while (atomic_load(&handled) < *(int *)argument) {
    }
    return NULL;
}

// From another process, with time between them: the kernel then prefers the first thread. (Of what a thread sends to its own process it does so at
// most times.)
static void signals_from_outside(int enough) {
    int status;
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        while (getppid() == parent) {
            kill(parent, SIGUSR1);
            usleep(50000);
        }
        _exit(0);
    }
    until(enough);
    kill(child, SIGKILL);
    check(waitpid(child, &status, 0) == child, "sender");
}

static int deep(int left) {
    volatile char room[64 << 10];
    room[0] = (char)left;
    return left == 0 ? 0 : deep(left - 1) + (room[0] == (char)left);
}

static void *joiner(void *argument) {
    void *value;
    (void)argument;
    check(pthread_join(first, &value) == 0, "join of the first");
    printf("the first left with %ld\n", (long)value);
    return NULL;
}

int main(int count, char **arguments, char **environment) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    first = pthread_self();
    printf("%d arguments, the last %s; %s\n", count, arguments[count - 1], getenv("MAIN_TEST") ? getenv("MAIN_TEST") : "no setting");
    check(environment[0] != NULL && own == 7, "environment and variables");
    printf("number of the process %d %d\n", gettid() == getpid(), syscall(SYS_gettid) == getpid());

    pthread_attr_t attributes;
    void *stack;
    size_t size;
    struct rlimit limit;
    getrlimit(RLIMIT_STACK, &limit);
    check(pthread_getattr_np(pthread_self(), &attributes) == 0, "getattr");
    pthread_attr_getstack(&attributes, &stack, &size);
    printf("on its stack %d, deep %d\n", (char *)&size > (char *)stack && (char *)&size < (char *)stack + size, deep(80));

    pthread_t thread;
    void *result;
    sem_init(&there, 0, 0);
    sem_init(&back, 0, 0);
    pthread_create(&thread, NULL, partner, &there);
    for (int i = 0; i < ROUNDS; i++) {
        sem_post(&there);
        sem_wait(&back);
    }
    pthread_join(thread, &result);
    printf("%d rounds\n", result == &there ? ROUNDS : 0);

    // A signal for the process that all threads block ends nobody, and is taken by who waits for it.
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_create(&thread, NULL, taker, &set);
    usleep(20000);
    kill(getpid(), SIGTERM);
    pthread_join(thread, &result);
    printf("taken %d\n", (long)result == SIGTERM);

    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    kill(getpid(), SIGUSR1);
    until(1);
    pthread_kill(pthread_self(), SIGUSR1);
    until(2);
    printf("for this thread %d\n", atomic_load(&on_first));
    atomic_store(&on_first, 0);
    syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1);
    until(3);
    printf("by its number %d\n", atomic_load(&on_first));
    raise(SIGUSR1);
    printf("raised %d\n", atomic_load(&handled));
    syscall(SYS_tkill, gettid(), SIGUSR1);
    until(5);
    // What is sent to the process interrupts the first thread, whatever the others do.
    int enough = 15;
    atomic_store(&elsewhere, 0);
    pthread_create(&thread, NULL, computes, &enough);
    signals_from_outside(enough);
    pthread_join(thread, NULL);
    printf("%d of them elsewhere\n", atomic_load(&elsewhere));
    alarm(0);
    sigaction(SIGALRM, &action, NULL);
    alarm(1);
    check(pause() == -1 && errno == EINTR, "pause");

    pid_t child = fork();
    if (child == 0) {
        _exit(gettid() == getpid() && pthread_equal(pthread_self(), first) ? 9 : 1);
    }
    int status;
    check(waitpid(child, &status, 0) == child, "waitpid");
    printf("child %d\n", WEXITSTATUS(status));

    const char *end = arguments[count - 1];
    if (strcmp(end, "exit") == 0) exit(4);
    if (strcmp(end, "leave") == 0) {
        pthread_create(&thread, NULL, joiner, NULL);
        pthread_exit((void *)5);
    }
    return 42;
}
