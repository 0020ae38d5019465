// What a call does where nothing else of its kind was done before in the program.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static char much[1 << 22];
static int ends[2];
static pid_t child;
static atomic_int waits, over;

static void nothing(int number) { (void)number; }

static int lowest_free(void) {
    int number = dup(0);
    close(number);
    return number;
}

// A time limit for sends, in a program that has none for anything else.
static void *sends_with_a_limit(void *unused) {
    int s[2];
    struct timeval limit = {0, 20000};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, s)) abort();
    if (setsockopt(s[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit)) abort();
    long n = send(s[0], much, sizeof much, 0);
    printf("a part: %d\n", n > 0 && n < (long)sizeof much);
    n = send(s[0], much, sizeof much, 0);
    printf("full: %ld %d\n", n, errno == EAGAIN);
    return unused;
}

// All of a datagram is one.
static void *receives_all_of_a_datagram(void *unused) {
    int s[2];
    char buffer[10];
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, s) || send(s[1], "abc", 3, 0) != 3) abort();
    printf("datagram: %zd\n", recv(s[0], buffer, sizeof buffer, MSG_WAITALL));
    return unused;
}

// Waits for room, or for the end of what the other side sends: there is never any room.
static void *polls_for_the_end(void *unused) {
    struct pollfd one = {ends[0], POLLOUT | POLLRDHUP, 0};
    atomic_store(&waits, 1);
    int n = poll(&one, 1, -1);
    printf("poll: %d, the end: %d\n", n, (one.revents & POLLRDHUP) != 0);
    return unused;
}

static void connect_ends(void) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), room = 16384;
    // As large as that for ever.
    setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 1)) abort();
    getsockname(listener, (struct sockaddr *)&address, &size);
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    if (connect(ends[0], (struct sockaddr *)&address, size)) abort();
    ends[1] = accept(listener, NULL, NULL);
    // Until nothing goes any more: what was sent is on its way at first.
    for (int empty = 0; empty < 50; empty++) {
        while (send(ends[0], much, sizeof much, MSG_DONTWAIT) > 0) empty = 0;
        usleep(1000);
    }
}

// A wait for a child that a handler ends leaves no descriptor.
static void *waits_for_the_child(void *unused) {
    int before = lowest_free();
    pid_t ended = waitpid(child, NULL, 0);
    int error = errno;
    atomic_store(&over, 1);
    printf("waitpid: %d %d, descriptors left: %d\n", ended, error == EINTR, lowest_free() - before);
    return unused;
}

static pthread_t begin(void *(*body)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, NULL)) abort();
    return thread;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    pthread_join(begin(sends_with_a_limit), NULL);
    pthread_join(begin(receives_all_of_a_datagram), NULL);
    connect_ends();
    pthread_t thread = begin(polls_for_the_end);
    while (!atomic_load(&waits)) usleep(1000);
    usleep(20000);
    shutdown(ends[1], SHUT_WR);
    pthread_join(thread, NULL);
    struct sigaction action = {.sa_handler = nothing};
    sigaction(SIGUSR1, &action, NULL);
    child = fork();
    if (!child) {
        pause();
        _exit(0);
    }
    thread = begin(waits_for_the_child);
    // Until it has ended the wait: it may come before that.
    while (!atomic_load(&over)) {
        pthread_kill(thread, SIGUSR1);
        usleep(1000);
    }
    pthread_join(thread, NULL);
    kill(child, SIGKILL);
    printf("the child: %d\n", waitpid(child, NULL, 0) == child);
    return 0;
}
