// An event loop waits for a mutex whose owner waits for ever. Another one could still wake it, and ends the program instead, unless there is an
// argument; "timed": it has waited for descriptors a few times before, each time until a time limit.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t taken;

static void look_often(int set) {
    struct epoll_event event;
    for (int i = 0; i < 40; i++)
        if (epoll_wait(set, &event, 1, 1) != 0) exit(1);
}

static void *timed(void *argument) {
    int set = epoll_create1(0), pair[2], pipes[2];
    struct epoll_event event;
    struct timeval limit = {0, 2000}, once = limit;
    char byte;
    fd_set readers;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || pipe(pipes) != 0) exit(1);
    struct pollfd entries[3] = {{set, POLLIN, 0}, {pair[0], POLLIN, 0}, {pipes[0], POLLIN, 0}};
    pthread_barrier_wait(&taken);
    if (epoll_wait(set, &event, 1, 2) != 0 || poll(entries, 3, 2) != 0) exit(2);
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (recv(pair[0], &byte, 1, 0) != -1 || errno != EAGAIN) exit(3);
    FD_ZERO(&readers);
    FD_SET(pipes[0], &readers);
    if (select(pipes[0] + 1, &readers, NULL, NULL, &once) != 0) exit(4);
    // One of several becomes ready: the waits for the others end by it.
    struct itimerspec soon = {{0, 0}, {0, 2000000}};
    entries[1].fd = timerfd_create(CLOCK_MONOTONIC, 0);
    if (timerfd_settime(entries[1].fd, 0, &soon, NULL) != 0) exit(6);
    if (poll(entries, 3, -1) != 1) exit(5);
    pthread_mutex_lock(&lock);
    return argument;
}

static void *owner(void *argument) {
    pthread_mutex_lock(&lock);
    pthread_barrier_wait(&taken);
    pthread_mutex_lock(&other);
    for (;;) pthread_cond_wait(&never, &other);
    return argument;
}

static void *loop(void *argument) {
    int set = epoll_create1(0);
    pthread_barrier_wait(&taken);
    look_often(set);
    pthread_mutex_lock(&lock);
    return argument;
}

static void *second(void *argument) {
    int set = epoll_create1(0);
    struct epoll_event event;
    look_often(set);
    epoll_wait(set, &event, 1, 500);
    _exit(0);
    return argument;
}

int main(int count, char **arguments) {
    int is_timed = count > 1 && strcmp(arguments[1], "timed") == 0;
    pthread_t threads[3];
    pthread_barrier_init(&taken, NULL, 2);
    if (count == 1) pthread_create(&threads[2], NULL, second, NULL);
    pthread_create(&threads[0], NULL, owner, NULL);
    pthread_create(&threads[1], NULL, is_timed ? timed : loop, NULL);
    pthread_join(threads[1], NULL);
    return 1;
}
