// Connections to a listener whose queue is full, each given up after a moment, while signals of the runtime's come all
// the time: none is taken for made.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { TIMES = 300 };

static atomic_int done;
static pthread_t connects;

// What it blocks and lets in, and whom it cancels, the runtime tells other kernel threads by signals.
static void *disturbs(void *two) {
    while (!atomic_load(&done)) {
        pthread_sigmask(SIG_UNBLOCK, two, NULL);
        pthread_kill(connects, SIGUSR1);
        pthread_sigmask(SIG_BLOCK, two, NULL);
        pthread_cancel(connects);
    }
    return NULL;
}

static void *tries(void *address) {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    long made = 0;
    for (int i = 0; i < TIMES; i++) {
        int client = socket(AF_INET, SOCK_STREAM, 0);
        const struct timeval limit = {0, 2000};
        if (setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit)) abort();
        made += connect(client, address, sizeof(struct sockaddr_in)) == 0;
        close(client);
    }
    atomic_store(&done, 1);
    printf("%ld of %d were made\n", made, TIMES);
    return NULL;
}

int main(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int one = socket(AF_INET, SOCK_STREAM, 0), filler = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(one, (struct sockaddr *)&address, size) || listen(one, 0)) abort();
    if (getsockname(one, (struct sockaddr *)&address, &size)) abort();
    if (connect(filler, (struct sockaddr *)&address, sizeof address)) abort();
    for (struct tcp_info info = {0}; info.tcpi_unacked == 0; usleep(1000)) {
        socklen_t length = sizeof info;
        if (getsockopt(one, IPPROTO_TCP, TCP_INFO, &info, &length)) abort();
    }
    sigset_t two;
    sigemptyset(&two), sigaddset(&two, SIGUSR1), sigaddset(&two, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &two, NULL);
    pthread_t other;
    pthread_create(&connects, NULL, tries, &address);
    pthread_create(&other, NULL, disturbs, &two);
    pthread_join(connects, NULL);
    pthread_join(other, NULL);
    close(one), close(filler);
    return 0;
}
