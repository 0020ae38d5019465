// An echo server with a thread for each connection, and its clients. Arguments: connections, rounds.
// Prints how many bytes came back right, and how many kernel threads there were while all were connected.
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static int listener, connections, rounds;
static pthread_t *servers;

static void *serve(void *argument) {
    int fd = (int)(long)argument;
    char buffer[256];
    ssize_t n;
    while ((n = read(fd, buffer, sizeof buffer)) > 0)
        if (write(fd, buffer, n) != n) break;
    close(fd);
    return NULL;
}

static void *accept_all(void *argument) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (int i = 0; i < connections; i++) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0) {
            perror("accept");
            exit(3);
        }
        int error = pthread_create(&servers[i], &small, serve, (void *)(long)fd);
        if (error) {
            fprintf(stderr, "thread %d: error %d\n", i, error);
            exit(4);
        }
    }
    return argument;
}

static int kernel_threads(void) {
    DIR *tasks = opendir("/proc/self/task");
    int count = -2; // "." and ".."
    while (readdir(tasks)) count++;
    closedir(tasks);
    return count;
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    connections = atoi(arguments[1]);
    rounds = atoi(arguments[2]);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < (rlim_t)connections * 2 + 100) {
        printf("limit %ld\n", (long)limit.rlim_max);
        return 0;
    }
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    servers = calloc(connections, sizeof *servers);
    int *clients = calloc(connections, sizeof *clients);

    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 4096)) return 5;
    getsockname(listener, (struct sockaddr *)&address, &size);
    pthread_t acceptor;
    if (pthread_create(&acceptor, NULL, accept_all, NULL)) return 6;

    for (int i = 0; i < connections; i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (clients[i] < 0 || connect(clients[i], (struct sockaddr *)&address, sizeof address)) {
            perror("connect");
            return 7;
        }
        int one = 1;
        setsockopt(clients[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    long right = 0;
    int kernel = 0;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < connections; i++) {
            char byte = (char)(round + i);
            if (write(clients[i], &byte, 1) != 1) return 8;
        }
        for (int i = 0; i < connections; i++) {
            char byte = 0;
            if (read(clients[i], &byte, 1) != 1) return 9;
            right += byte == (char)(round + i);
        }
        if (round == 0) kernel = kernel_threads();
    }
    for (int i = 0; i < connections; i++) close(clients[i]);
    pthread_join(acceptor, NULL);
    for (int i = 0; i < connections; i++) pthread_join(servers[i], NULL);
    printf("%ld %d\n", right, kernel);
    return 0;
}
