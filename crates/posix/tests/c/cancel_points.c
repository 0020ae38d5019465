// Each cancellation point, entered with a request pending and cancelled while it waits, and waits for mutexes under asynchronous cancellation. The same natively.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int ends[2], pair[2], set;
static sem_t none, told;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER, held_again = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_t forever;
static pid_t sleeper;
static int cleaned;

static void do_testcancel(void) {
    for (;;) {
        pthread_testcancel();
        sched_yield();
    }
}
static void unlocks(void *argument) {
    cleaned += 10 + (pthread_mutex_unlock(argument) != 0) * 100;
}
static void do_cond_wait(void) {
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(unlocks, &mutex);
    for (;;) pthread_cond_wait(&condition, &mutex);
    pthread_cleanup_pop(1);
}
static void do_cond_timedwait(void) {
    struct timespec end = {time(NULL) + 1000, 0};
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(unlocks, &mutex);
    for (;;) pthread_cond_timedwait(&condition, &mutex, &end);
    pthread_cleanup_pop(1);
}
static void do_sem_wait(void) { sem_wait(&none); }
static void do_sem_timedwait(void) {
    struct timespec end = {time(NULL) + 1000, 0};
    sem_timedwait(&none, &end);
}
static void do_join(void) { pthread_join(forever, NULL); }
static void do_nanosleep(void) {
    struct timespec time = {1000, 0};
    nanosleep(&time, NULL);
}
static void do_clock_nanosleep(void) {
    struct timespec time = {1000, 0};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}
static void do_sleep(void) { sleep(1000); }
static void do_usleep(void) {
    for (;;) usleep(900000);
}
static void do_read(void) {
    char byte;
    if (read(ends[0], &byte, 1)) {}
}
static void do_readv(void) {
    char byte;
    struct iovec part = {&byte, 1};
    if (readv(ends[0], &part, 1)) {}
}
static void do_write(void) {
    static char much[1 << 20];
    if (write(ends[1], much, sizeof much)) {}
    if (write(ends[1], much, sizeof much)) {}
}
static void do_recv(void) {
    char byte;
    recv(pair[0], &byte, 1, 0);
}
static void do_recvfrom(void) {
    char byte;
    recvfrom(pair[0], &byte, 1, 0, NULL, NULL);
}
static void do_recvmsg(void) {
    char byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    recvmsg(pair[0], &message, 0);
}
static void do_poll(void) {
    struct pollfd entry = {ends[0], POLLIN, 0};
    poll(&entry, 1, -1);
}
static void do_poll_two(void) {
    struct pollfd entries[] = {{ends[0], POLLIN, 0}, {pair[0], POLLIN, 0}};
    poll(entries, 2, -1);
}
static void do_select(void) {
    fd_set read;
    FD_ZERO(&read);
    FD_SET(ends[0], &read);
    select(ends[0] + 1, &read, NULL, NULL, NULL);
}
static void do_epoll_wait(void) {
    struct epoll_event event;
    epoll_wait(set, &event, 1, -1);
}
static void do_waitpid(void) { waitpid(sleeper, NULL, 0); }
static void do_pause(void) { pause(); }
static void do_sigwait(void) {
    sigset_t signals;
    int signal;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR2);
    sigwait(&signals, &signal);
}
static void do_sigsuspend(void) {
    sigset_t signals;
    sigemptyset(&signals);
    sigsuspend(&signals);
}
static void do_lock(void) {
    int old;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    pthread_mutex_lock(&held);
}
static void do_timedlock(void) {
    struct timespec end = {time(NULL) + 1000, 0};
    int old;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    pthread_mutex_timedlock(&held_again, &end);
}

static struct point {
    const char *name;
    void (*enter)(void);
} points[] = {
    {"testcancel", do_testcancel},   {"cond_wait", do_cond_wait},   {"cond_timedwait", do_cond_timedwait},
    {"sem_wait", do_sem_wait},       {"sem_timedwait", do_sem_timedwait}, {"join", do_join},
    {"nanosleep", do_nanosleep},     {"clock_nanosleep", do_clock_nanosleep}, {"sleep", do_sleep},
    {"usleep", do_usleep},           {"read", do_read},             {"readv", do_readv},
    {"recv", do_recv},               {"recvfrom", do_recvfrom},     {"recvmsg", do_recvmsg},
    {"poll", do_poll},               {"poll of two", do_poll_two},  {"select", do_select},
    {"epoll_wait", do_epoll_wait},   {"waitpid", do_waitpid},       {"pause", do_pause},
    {"sigwait", do_sigwait},         {"sigsuspend", do_sigsuspend}, {"lock", do_lock},
    {"timedlock", do_timedlock},     {"write", do_write},
};

static void cleans(void *argument) {
    (void)argument;
    // Not a cancellation point any more.
    pthread_testcancel();
    usleep(1);
    cleaned++;
}
static void *enters(void *argument) {
    struct point *point = argument;
    pthread_cleanup_push(cleans, NULL);
    sem_post(&told);
    point->enter();
    pthread_cleanup_pop(0);
    return NULL;
}
static void *enters_requested(void *argument) {
    struct point *point = argument;
    int old;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    sem_post(&told);
    while (!cleaned) usleep(100);
    cleaned = 0;
    pthread_cleanup_push(cleans, NULL);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
    point->enter();
    pthread_cleanup_pop(0);
    return NULL;
}
static void *lives(void *argument) {
    for (;;) pause();
    return argument;
}

int main(void) {
    pthread_t t;
    void *result;
    struct epoll_event event = {.events = EPOLLIN};
    sem_init(&none, 0, 0);
    sem_init(&told, 0, 0);
    set = epoll_create1(0);
    if (pipe(ends) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return 1;
    if (epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event) != 0) return 1;
    pthread_create(&forever, NULL, lives, NULL);
    pthread_mutex_lock(&held);
    pthread_mutex_lock(&held_again);
    sleeper = fork();
    if (sleeper == 0) {
        alarm(600);
        for (;;) pause();
    }
    for (unsigned i = 0; i < sizeof points / sizeof *points; i++) {
        int fill = !strcmp(points[i].name, "write");
        cleaned = 0;
        pthread_create(&t, NULL, enters, &points[i]);
        while (sem_wait(&told) != 0) {}
        usleep(3000);
        pthread_cancel(t);
        pthread_join(t, &result);
        int waiting = result == PTHREAD_CANCELED && cleaned % 10 == 1 && cleaned < 12;
        cleaned = 0;
        pthread_create(&t, NULL, enters_requested, &points[i]);
        while (sem_wait(&told) != 0) {}
        pthread_cancel(t);
        cleaned = 1;
        pthread_join(t, &result);
        int entering = result == PTHREAD_CANCELED && cleaned % 10 == 1 && cleaned < 12;
        printf("%s: %s %s\n", points[i].name, waiting ? "right" : "WRONG", entering ? "right" : "WRONG");
        fflush(stdout);
        if (fill) break;
    }
    kill(sleeper, SIGKILL);
    // Nobody who left them holds them or is counted.
    pthread_mutex_unlock(&held);
    pthread_mutex_unlock(&held_again);
    int rest = pthread_mutex_destroy(&held) + pthread_mutex_destroy(&held_again);
    return rest + pthread_mutex_trylock(&mutex);
}
