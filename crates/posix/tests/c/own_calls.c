// What the kernel does to the kernel thread that makes a call, and what a program expects of the thread: SIGPIPE and
// SIGXFSZ that it blocks, its name in a forked child, a raw exit, a raw fork.
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_t creator;
static volatile int own, others;

static void handler(int signal) {
    (void)signal;
    if (pthread_equal(creator, pthread_self())) own++;
    else others++;
}

static void change(int how, int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    pthread_sigmask(how, &set, NULL);
}

static int take(int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    siginfo_t told = {0};
    struct timespec none = {0, 0};
    return sigtimedwait(&set, &told, &none) == signal ? 10 + told.si_code : 0;
}

static ssize_t breaks(int kind) {
    int ends[2], other[2] = {-1, -1};
    if (kind < 2) socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    else if (pipe(ends)) return 0;
    close(ends[0]);
    struct iovec part = {"abc", 3};
    errno = 0;
    ssize_t result = 0;
    if (kind == 0) result = send(ends[1], "abc", 3, 0);
    if (kind == 1) result = write(ends[1], "abc", 3);
    if (kind == 2) result = writev(ends[1], &part, 1);
    if (kind == 3 && pipe(other) == 0 && write(other[1], "abc", 3) == 3) result = splice(other[0], 0, ends[1], 0, 3, 0);
    if (kind == 4) {
        FILE *stream = fdopen(dup(ends[1]), "w");
        result = fputs("abc", stream);
        result |= fflush(stream);
        fclose(stream);
    }
    int error = errno;
    for (int at = 0; at < 2; at++)
        if (other[at] >= 0) close(other[at]);
    close(ends[1]);
    return result < 0 && error == EPIPE;
}

// What libraries do that write to sockets: the default action is in place all the while.
static void *blocks(void *argument) {
    change(SIG_BLOCK, SIGPIPE);
    change(SIG_BLOCK, SIGXFSZ);
    int well = 0;
    for (int kind = 0; kind < 5; kind++) well += breaks(kind) && take(SIGPIPE) == 10 + SI_USER && take(SIGPIPE) == 0;
    printf("broken and taken: %d\n", well);
    FILE *stream = tmpfile();
    int file = fileno(stream);
    well = write(file, argument, 3000) == 2000 && write(file, argument, 1) < 0;
    printf("too long and taken: %d\n", well && take(SIGXFSZ) != 0);
    struct sigaction told = {0};
    sigaction(SIGPIPE, NULL, &told);
    printf("default: %d\n", told.sa_handler == SIG_DFL && told.sa_flags == 0);
    fclose(stream);
    return NULL;
}

static void *handles(void *argument) {
    (void)argument;
    creator = pthread_self();
    change(SIG_BLOCK, SIGPIPE);
    breaks(0);
    breaks(4);
    int before = own + others;
    change(SIG_UNBLOCK, SIGPIPE);
    printf("handled: %d, then %d, elsewhere %d\n", before, own, others);
    return NULL;
}

static void *lets_in(void *argument) {
    (void)argument;
    change(SIG_BLOCK, SIGPIPE);
    breaks(1);
    printf("lives\n");
    fflush(stdout);
    change(SIG_UNBLOCK, SIGPIPE);
    printf("goes on\n");
    fflush(stdout);
    return NULL;
}

static void joined(void *(*start)(void *), void *argument) {
    pthread_t thread;
    pthread_create(&thread, NULL, start, argument);
    pthread_join(thread, NULL);
}

static void ends_by(void *(*start)(void *), int (*child)(void)) {
    fflush(stdout);
    pid_t process = fork();
    if (process == 0) {
        if (start != NULL) joined(start, NULL);
        _exit(child != NULL ? child() : 0);
    }
    int status;
    waitpid(process, &status, 0);
    if (WIFSIGNALED(status)) printf("ended by signal %d\n", WTERMSIG(status));
    else printf("ended with %d\n", WEXITSTATUS(status));
}

static void *other(void *argument) { return argument; }

static int names(void) {
    char name[16] = "";
    prctl(PR_GET_NAME, name);
    printf("the child is called %s\n", name);
    fflush(stdout);
    return 0;
}

static int at_once(void) { return (int)syscall(SYS_exit, 7); }

static void *forks(void *argument) {
    (void)argument;
    ends_by(NULL, names);
    pthread_setname_np(pthread_self(), "forker");
    ends_by(NULL, names);
    ends_by(NULL, at_once);
    fflush(stdout);
    pid_t process = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (process == 0) {
        joined(other, NULL);
        _exit(getpid() == gettid() ? 5 : 6);
    }
    int status;
    waitpid(process, &status, 0);
    printf("a raw child: %x\n", status);
    return NULL;
}

static void *leaves(void *argument) {
    syscall(SYS_exit, 0);
    return argument;
}

static void *tries(void *argument) {
    (void)argument;
    printf("itself: %s\n", strerrorname_np(pthread_tryjoin_np(pthread_self(), NULL)));
    return NULL;
}

static volatile int begun, result;

static void *waits(void *argument) {
    static int word;
    struct timespec far = {1000, 0};
    (void)argument;
    begun = 1;
    // One that processes may share.
    result = syscall(SYS_futex, &word, FUTEX_WAIT, 0, &far, NULL, 0) < 0 ? errno : 0;
    begun = 2;
    return NULL;
}

int main(void) {
    static char data[3000];
    struct rlimit two_thousand = {2000, RLIM_INFINITY}, before;
    getrlimit(RLIMIT_FSIZE, &before);
    setrlimit(RLIMIT_FSIZE, &two_thousand);
    joined(blocks, data);
    setrlimit(RLIMIT_FSIZE, &before);
    ends_by(lets_in, NULL);
    signal(SIGPIPE, handler);
    joined(handles, NULL);
    signal(SIGPIPE, SIG_DFL);
    ends_by(lets_in, NULL);
    signal(SIGPIPE, SIG_IGN);
    ends_by(lets_in, NULL);
    joined(forks, NULL);
    for (int at = 0; at < 5; at++) joined(leaves, NULL);
    joined(tries, NULL);
    struct sigaction restarts = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &restarts, NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, waits, NULL);
    while (begun == 0) sched_yield();
    // Until one has found it waiting.
    while (begun == 1) {
        pthread_kill(thread, SIGUSR1);
        usleep(1000);
    }
    pthread_join(thread, NULL);
    printf("a timed wait: %s\n", strerrorname_np(result));
}
