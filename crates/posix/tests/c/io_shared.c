// Descriptors that many threads share, and that are closed under them.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ACCEPTORS = 40, CLIENTS = 2000, WORKERS = 8, PAIRS = 64, ROUNDS = 200 };

static int listener;
static struct sockaddr_in address = {.sin_family = AF_INET};
static atomic_int accepted;

static pthread_t begin(void *(*body)(void *), void *argument) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, argument)) abort();
    return thread;
}

// Several acceptors on one socket: each connection gets one, and its byte. A connection that says 'q' ends its acceptor.
static void *acceptor(void *argument) {
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        char byte = 0;
        if (fd < 0 || read(fd, &byte, 1) != 1) abort();
        if (byte != 'q') atomic_fetch_add(&accepted, 1);
        if (write(fd, &byte, 1) != 1) abort();
        close(fd);
        if (byte == 'q') return argument;
    }
}

static void *client(void *argument) {
    char byte = (char)(long)argument, back = 0;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address)) abort();
    if (write(fd, &byte, 1) != 1 || read(fd, &back, 1) != 1 || back != byte) abort();
    close(fd);
    return NULL;
}

static void acceptors(void) {
    socklen_t size = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    bind(listener, (struct sockaddr *)&address, size);
    listen(listener, 1000);
    getsockname(listener, (struct sockaddr *)&address, &size);
    pthread_t all[ACCEPTORS], some[50];
    for (int i = 0; i < ACCEPTORS; i++) all[i] = begin(acceptor, NULL);
    for (int i = 0; i < CLIENTS; i += 50) {
        for (int j = 0; j < 50; j++) some[j] = begin(client, (void *)(long)'c');
        for (int j = 0; j < 50; j++) pthread_join(some[j], NULL);
    }
    for (int i = 0; i < ACCEPTORS; i++) client((void *)(long)'q');
    for (int i = 0; i < ACCEPTORS; i++) pthread_join(all[i], NULL);
    close(listener);
    printf("accepted %d\n", atomic_load(&accepted));
}

// Workers share an epoll set; each event is for one of them.
static int set, pairs[PAIRS][2];
static atomic_long handled;

static void *worker(void *argument) {
    for (;;) {
        struct epoll_event event;
        if (epoll_wait(set, &event, 1, -1) != 1) abort();
        int pair = (int)event.data.u32;
        char byte;
        if (read(pairs[pair][1], &byte, 1) != 1) abort();
        if (byte == 'q') return argument;
        atomic_fetch_add(&handled, 1);
        if (write(pairs[pair][1], &byte, 1) != 1) abort();
        event.events = EPOLLIN | EPOLLONESHOT;
        epoll_ctl(set, EPOLL_CTL_MOD, pairs[pair][1], &event);
    }
}

static void *asker(void *argument) {
    int *pair = argument;
    for (int i = 0; i < ROUNDS; i++) {
        char byte = 'x';
        if (write(pair[0], &byte, 1) != 1 || read(pair[0], &byte, 1) != 1) abort();
    }
    return NULL;
}

static void event_loop(void) {
    set = epoll_create1(0);
    pthread_t workers[WORKERS], askers[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i]);
        struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u32 = i};
        epoll_ctl(set, EPOLL_CTL_ADD, pairs[i][1], &event);
    }
    for (int i = 0; i < WORKERS; i++) workers[i] = begin(worker, NULL);
    for (int i = 0; i < PAIRS; i++) askers[i] = begin(asker, pairs[i]);
    for (int i = 0; i < PAIRS; i++) pthread_join(askers[i], NULL);
    for (int i = 0; i < WORKERS; i++)
        if (write(pairs[i][0], "q", 1) != 1) abort();
    for (int i = 0; i < WORKERS; i++) pthread_join(workers[i], NULL);
    printf("handled %ld\n", atomic_load(&handled));
}

// Many wait in poll for the same thing; all see it.
static void *watcher(void *argument) {
    struct pollfd entries[2] = {{((int *)argument)[0], POLLIN, 0}, {listener, POLLIN, 0}};
    return (void *)(long)poll(entries, 1, -1);
}

static void watchers(void) {
    int p[2];
    long sum = 0;
    pthread_t threads[100];
    if (pipe(p)) abort();
    for (int i = 0; i < 100; i++) threads[i] = begin(watcher, p);
    usleep(2000);
    if (write(p[1], "x", 1) != 1) abort();
    for (int i = 0; i < 100; i++) {
        void *result;
        pthread_join(threads[i], &result);
        sum += (long)result;
    }
    printf("saw it %ld\n", sum);
}

int main(void) {
    acceptors();
    event_loop();
    watchers();
    return 0;
}
