// Who waits for urgent data alone, or beside other things, is told when it comes.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WAYS = 6 };
static int ends[2], other[2], way;
static atomic_int begun;

static void connection(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 1)) abort();
    getsockname(listener, (struct sockaddr *)&address, &size);
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(ends[0], (struct sockaddr *)&address, size)) abort();
    ends[1] = accept(listener, NULL, NULL);
    close(listener);
}

static void *waits(void *unused) {
    fd_set readers, urgent;
    struct pollfd two[2] = {{ends[0], POLLPRI, 0}, {other[0], POLLIN, 0}};
    sigset_t none;
    int most = (ends[0] > other[0] ? ends[0] : other[0]) + 1;
    sigemptyset(&none);
    FD_ZERO(&readers);
    FD_ZERO(&urgent);
    FD_SET(other[0], &readers);
    FD_SET(ends[0], &urgent);
    begun = 1;
    switch (way) {
    case 0: printf("select: %d", select(most, NULL, NULL, &urgent, NULL)); break;
    case 1: printf("select beside another: %d", select(most, &readers, NULL, &urgent, NULL)); break;
    case 2: printf("pselect: %d", pselect(most, NULL, NULL, &urgent, NULL, &none)); break;
    case 3: printf("poll: %d", poll(two, 1, -1)); break;
    case 4: printf("poll beside another: %d", poll(two, 2, -1)); break;
    default: printf("ppoll: %d", ppoll(two, 1, NULL, &none));
    }
    printf(", urgent %d, other %d\n", way < 3 ? FD_ISSET(ends[0], &urgent) != 0 : two[0].revents == POLLPRI,
           way == 1 ? FD_ISSET(other[0], &readers) != 0 : two[1].revents);
    fflush(stdout);
    return unused;
}

static void *all_ways(void *unused) {
    for (way = 0; way < WAYS; way++) {
        pthread_t thread;
        connection();
        if (pipe(other)) abort();
        begun = 0;
        if (pthread_create(&thread, NULL, waits, NULL)) abort();
        while (!begun) usleep(100);
        // It is likely to wait then. Where it does not, it is told at once.
        usleep(2000);
        if (send(ends[1], "!", 1, MSG_OOB) != 1) abort();
        pthread_join(thread, NULL);
        close(ends[0]), close(ends[1]), close(other[0]), close(other[1]);
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, all_ways, NULL) || pthread_join(thread, NULL)) return 1;
    return 0;
}
