// System V's and BSD's functions for masks and actions, and other names of the C library's functions: they count for the calling
// thread, and a handler that they install runs as one of sigaction's. What is printed is the same natively.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static _Thread_local int runs;
static int beside;

static void handler(int signal) { runs++; }

static int blocks(int signal) {
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    return sigismember(&mask, signal);
}

static int waits(int signal) {
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, signal);
}

static const char *name(sighandler_t action) {
    return action == SIG_DFL ? "default" : action == SIG_IGN ? "ignored" : action == SIG_HOLD ? "held" : action == SIG_ERR ? "error" : "handler";
}

static void flags(int signal) {
    struct sigaction action;
    sigaction(signal, NULL, &action);
    const int known = SA_RESTART | SA_RESETHAND | SA_NODEFER;
    printf(" %s flags %x itself %d\n", name(action.sa_handler), (unsigned)action.sa_flags & known, sigismember(&action.sa_mask, signal));
}

static void *system_v(void *who) {
    const int one = SIGUSR1, other = SIGUSR2;
    runs = 0;
    printf("%s: %s", (char *)who, name(sigset(one, handler)));
    flags(one);
    raise(one);
    printf("ran %d, hold %d, blocks %d\n", runs, sighold(one), blocks(one));
    pthread_kill(pthread_self(), one);
    printf("held %d waits %d\n", runs, waits(one));
    int released = sigrelse(one);
    printf("release %d: %d, blocks %d\n", released, runs, blocks(one));
    const char *before = name(sigset(one, SIG_HOLD));
    printf("%s, blocks %d\n", before, blocks(one));
    before = name(sigset(one, SIG_HOLD));
    raise(one);
    printf("%s %d\n", before, runs);
    before = name(sigset(one, handler));
    printf("%s %d, blocks %d\n", before, runs, blocks(one));
    printf("ignore %d", sigignore(other));
    flags(other);
    raise(other);
    sigset(other, handler);
    sighold(other);
    raise(other);
    int result = sigpause(other);
    printf("pause %d %d: %d, blocks %d\n", result, errno == EINTR, runs, blocks(other));
    sigrelse(other);
    int bad[] = {sighold(0), sigrelse(65), sigignore(-1), siginterrupt(70, 1)};
    printf("bad %d %d %d %d %s %s\n", bad[0], bad[1], bad[2], bad[3], name(sigset(0, handler)), name(signal(one, SIG_ERR)));
    sigset(other, SIG_DFL);
    return NULL;
}

static void *bsd(void *who) {
    const int one = SIGUSR1, other = SIGUSR2;
    runs = 0;
    signal(one, handler);
    unsigned before = sigblock(sigmask(one) | sigmask(other));
    printf("%s: blocked %x, blocks %d %d\n", (char *)who, before, blocks(one), blocks(other));
    raise(one);
    before = sigsetmask(0);
    printf("blocked %x: %d\n", before, runs);
    flags(one);
    siginterrupt(one, 1);
    flags(one);
    signal(one, handler);
    flags(one);
    siginterrupt(one, 0);
    flags(one);
    sysv_signal(one, handler);
    flags(one);
    raise(one);
    flags(one);
    ssignal(one, handler);
    flags(one);
    gsignal(one);
    printf("%d\n", runs);
    return NULL;
}

// Others let the signal in: what this thread holds does not come to it.
static void *holds(void *argument) {
    sighold(SIGUSR1);
    runs = 0;
    for (int i = 0; i < 100; i++) pthread_kill(pthread_self(), SIGUSR1), sched_yield();
    __sync_fetch_and_add(&beside, runs);
    sigrelse(SIGUSR1);
    __sync_fetch_and_add(&beside, runs != 1);
    return NULL;
}

static void *pauses(void *begun) {
    *(volatile int *)begun = 1;
    sigpause(SIGUSR2);
    return NULL;
}

extern int __close(int), __sigaction(int, const struct sigaction *, struct sigaction *), __pipe(int *);
extern ssize_t __read(int, void *, size_t), __write(int, const void *, size_t);
extern pid_t __fork(void), __vfork(void), __waitpid(pid_t, int *, int);

static int ends[2];

static void *reads(void *argument) {
    char text[4];
    return (void *)__read(ends[0], text, 4);
}

static void *other_names(void *argument) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    runs = 0;
    __sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    pthread_t readers[8];
    void *read;
    int sum = 0, status;
    if (__pipe(ends) != 0) return "pipe";
    for (int i = 0; i < 8; i++) pthread_create(&readers[i], NULL, reads, NULL);
    for (int i = 0; i < 8; i++) {
        if (__write(ends[1], "four", 4) != 4) return "write";
    }
    for (int i = 0; i < 8; i++) pthread_join(readers[i], &read), sum += (int)(long)read;
    pid_t child = __fork();
    if (child == 0) _exit(3);
    __waitpid(child, &status, 0);
    int first = status >> 8;
    child = __vfork();
    if (child == 0) _exit(4);
    __waitpid(child, &status, 0);
    printf("other names: %d %d %d %d %d\n", runs, sum, first, status >> 8, __close(ends[0]) + __close(ends[1]));
    return NULL;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    pthread_t thread, many[8];
    void *result;
    void *(*parts[])(void *) = {system_v, bsd};
    for (int i = 0; i < 2; i++) {
        parts[i]("first");
        pthread_create(&thread, NULL, parts[i], "thread");
        pthread_join(thread, NULL);
    }
    sigset(SIGUSR1, handler);
    for (int i = 0; i < 8; i++) pthread_create(&many[i], NULL, holds, NULL);
    for (int i = 0; i < 8; i++) pthread_join(many[i], NULL);
    printf("beside: %d\n", beside);
    volatile int begun = 0;
    pthread_create(&thread, NULL, pauses, (void *)&begun);
    while (!begun) sched_yield();
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("cancelled: %d\n", result == PTHREAD_CANCELED);
    pthread_create(&thread, NULL, other_names, NULL);
    pthread_join(thread, &result);
    if (result != NULL) printf("failed: %s\n", (char *)result);
    return 0;
}
