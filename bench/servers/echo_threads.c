// An echo server with a POSIX thread for each connection: as one would write it, knowing of no runtime.
// Prints `port N`, then serves until it is killed. Stacks have their default size.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void *serve(void *argument) {
    int connection = (int)(long)argument;
    char buffer[1024];
    ssize_t count;
    while ((count = read(connection, buffer, sizeof buffer)) > 0)
        if (write(connection, buffer, count) != count) break;
    close(connection);
    return NULL;
}

int main(void) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) || listen(listener, 4096) ||
        getsockname(listener, (struct sockaddr *)&address, &size)) {
        perror("cannot listen");
        return 1;
    }
    printf("port %d\n", ntohs(address.sin_port));
    fflush(stdout);
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    for (;;) {
        int connection = accept(listener, NULL, NULL);
        if (connection < 0) {
            perror("cannot accept");
            return 1;
        }
        setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        pthread_t thread;
        int error = pthread_create(&thread, &detached, serve, (void *)(long)connection);
        if (error) {
            fprintf(stderr, "cannot create a thread: %s\n", strerror(error));
            return 1;
        }
    }
}
