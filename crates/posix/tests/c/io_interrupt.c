// Cancellation and signals that reach threads in calls that block. The same natively and with the library.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int s[2], listener, epoll;
static pid_t child;
static atomic_int handled, cleaned, inside, ended;

static void clean(void *argument) {
    (void)argument;
    atomic_fetch_add(&cleaned, 1);
}

static void handler(int signal) {
    (void)signal;
    atomic_fetch_add(&handled, 1);
}

static long do_read(void) {
    char byte;
    return read(s[0], &byte, 1);
}
static long do_recv(void) {
    char byte;
    return recv(s[0], &byte, 1, 0);
}
static long do_accept(void) { return accept(listener, NULL, NULL); }
static long do_poll(void) {
    struct pollfd one = {s[0], POLLIN, 0};
    return poll(&one, 1, -1);
}
static long do_select(void) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(s[0], &set);
    return select(s[0] + 1, &set, NULL, NULL, NULL);
}
static long do_epoll(void) {
    struct epoll_event event;
    return epoll_wait(epoll, &event, 1, -1);
}
static long do_nanosleep(void) {
    struct timespec time = {1000, 0}, left = {0, 0};
    long result = nanosleep(&time, &left);
    return left.tv_sec > 900 ? result : 99;
}
static long do_sleep(void) { return sleep(1000) > 900; }
static long do_wait(void) { return waitpid(child, NULL, 0); }

static struct {
    const char *name;
    long (*call)(void);
} calls[] = {{"read", do_read}, {"recv", do_recv}, {"accept", do_accept}, {"poll", do_poll}, {"select", do_select},
    {"epoll_wait", do_epoll}, {"nanosleep", do_nanosleep}, {"sleep", do_sleep}, {"waitpid", do_wait}};

static void *body(void *argument) {
    long (*call)(void) = argument;
    pthread_cleanup_push(clean, NULL);
    atomic_store(&inside, 1);
    errno = 0;
    long result = call();
    int interrupted = errno == EINTR;
    atomic_store(&ended, 1);
    return (void *)(result * 10 + interrupted);
    pthread_cleanup_pop(0);
}

static pthread_t begin(int i) {
    pthread_t thread;
    atomic_store(&inside, 0);
    atomic_store(&ended, 0);
    if (pthread_create(&thread, NULL, body, (void *)calls[i].call)) abort();
    while (!atomic_load(&inside)) usleep(1000);
    usleep(20000); // it is in the call, most likely; cancelled before, it ends there
    return thread;
}

int main(void) {
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    listen(listener, 1);
    epoll = epoll_create1(0);
    child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    int count = sizeof calls / sizeof *calls;
    for (int i = 0; i < count; i++) {
        pthread_t thread = begin(i);
        void *result;
        pthread_cancel(thread);
        pthread_join(thread, &result);
        printf("%s cancelled %d\n", calls[i].name, result == PTHREAD_CANCELED);
        fflush(stdout);
    }
    printf("cleaned %d\n", atomic_load(&cleaned));
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < count; i++) {
        pthread_t thread = begin(i);
        void *result;
        int before = atomic_load(&handled);
        // Again and again: one that comes before the call ends nothing.
        for (; !atomic_load(&ended); usleep(20000)) pthread_kill(thread, SIGUSR1);
        pthread_join(thread, &result);
        printf("%s interrupted %ld, handled %d\n", calls[i].name, (long)result, atomic_load(&handled) > before);
        fflush(stdout);
    }
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 3; i++) {
        if (calls[i].call == do_accept) continue;
        pthread_t thread = begin(i);
        void *result;
        pthread_kill(thread, SIGUSR1);
        usleep(10000);
        if (write(s[1], "x", 1) != 1) abort();
        pthread_join(thread, &result);
        printf("%s goes on %ld\n", calls[i].name, (long)result);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return 0;
}
