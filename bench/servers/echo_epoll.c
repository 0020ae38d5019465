// An echo server with event loops, written by hand: `echo_epoll LOOPS` runs so many kernel threads, each with an epoll set of its
// own; connections are dealt out in turn. Prints `port N`, then serves until it is killed.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 256, MOST_LOOPS = 64 };

static void *serve(void *argument) {
    int set = (int)(long)argument;
    struct epoll_event events[EVENTS];
    char buffer[1024];
    for (;;) {
        int count = epoll_wait(set, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            int connection = events[i].data.fd;
            ssize_t size = recv(connection, buffer, sizeof buffer, MSG_DONTWAIT);
            if (size < 0 && (errno == EAGAIN || errno == EINTR)) continue;
            // Answers are small and the clients wait for them: there is always room.
            if (size <= 0 || send(connection, buffer, size, MSG_DONTWAIT | MSG_NOSIGNAL) != size) close(connection);
        }
    }
    return NULL;
}

int main(int count, char **arguments) {
    int loops = count > 1 ? atoi(arguments[1]) : 1, sets[MOST_LOOPS], one = 1;
    if (loops < 1 || loops > MOST_LOOPS) return 2;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) || listen(listener, 4096) ||
        getsockname(listener, (struct sockaddr *)&address, &size)) {
        perror("cannot listen");
        return 1;
    }
    for (int i = 0; i < loops; i++) {
        pthread_t thread;
        sets[i] = epoll_create1(0);
        if (sets[i] < 0 || pthread_create(&thread, NULL, serve, (void *)(long)sets[i])) return 1;
    }
    printf("port %d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (unsigned next = 0;; next++) {
        int connection = accept(listener, NULL, NULL);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = connection};
        if (connection < 0) {
            perror("cannot accept");
            return 1;
        }
        setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (epoll_ctl(sets[next % loops], EPOLL_CTL_ADD, connection, &event)) return 1;
    }
}
