// Readings that end without input: sockets for datagrams that are shut down, terminals whose settings say so.
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            printf("line %d: %s (errno %d)\n", __LINE__, #condition, errno); \
            fflush(stdout); \
            _exit(1); \
        } \
    } while (0)

static int fd, how;
static unsigned patience = 10000;

static void *receives(void *argument) {
    char room[100];
    struct iovec part = {room, sizeof room};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    long result;
    switch (how) {
    case 0: result = recv(fd, room, sizeof room, 0); break;
    case 1: result = recvfrom(fd, room, sizeof room, 0, NULL, NULL); break;
    case 2: result = recvmsg(fd, &message, 0); break;
    default: result = read(fd, room, sizeof room);
    }
    (void)argument;
    return (void *)(result < 0 ? -(long)errno : result);
}

static long result_of(pthread_t thread) {
    void *result;
    CHECK(pthread_join(thread, &result) == 0);
    return (long)result;
}

static void sockets(int domain, int connected) {
    int pair[2];
    pthread_t threads[2];
    if (domain == AF_UNIX) {
        CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
    } else {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof address;
        CHECK((pair[0] = socket(AF_INET, SOCK_DGRAM, 0)) >= 0 && (pair[1] = socket(AF_INET, SOCK_DGRAM, 0)) >= 0);
        CHECK(bind(pair[0], (void *)&address, size) == 0 && getsockname(pair[0], (void *)&address, &size) == 0);
        CHECK(connect(pair[1], (void *)&address, size) == 0);
        CHECK(getsockname(pair[1], (void *)&address, &size) == 0);
        if (connected) CHECK(connect(pair[0], (void *)&address, size) == 0);
    }
    fd = pair[0];
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, receives, NULL) == 0);
    usleep(5000);
    CHECK(send(pair[1], "abc", 3, 0) == 3);
    usleep(5000);
    // One waits still. (Natively an error, which has an effect all the same.)
    int shut = shutdown(fd, how % 2 ? SHUT_RD : SHUT_RDWR);
    CHECK(shut == 0 || (!connected && shut == -1 && errno == ENOTCONN));
    long first = result_of(threads[0]), second = result_of(threads[1]);
    CHECK(first + second == 3 && (first == 0 || second == 0));
    // Who comes later, too, and at once: long before a look at who waits here and was told of nothing.
    struct timeval limit = {.tv_usec = 100000};
    CHECK(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    CHECK(pthread_create(&threads[0], NULL, receives, NULL) == 0 && result_of(threads[0]) == 0);
    close(pair[0]), close(pair[1]);
}

static void terminals(void) {
    int master, slave;
    struct termios settings;
    pthread_t thread;
    char rest[100];
    CHECK(openpty(&master, &slave, NULL, NULL, NULL) == 0 && tcgetattr(slave, &settings) == 0);
    fd = slave, how = 3;
    cfmakeraw(&settings);
    // By the end of a time, at once, of bytes, and of a time after the first one.
    static const unsigned char least[] = {0, 0, 2, 3}, time[] = {1, 0, 0, 1};
    for (int i = 0; i < 4; i++) {
        settings.c_cc[VMIN] = least[i], settings.c_cc[VTIME] = time[i];
        CHECK(tcsetattr(slave, TCSANOW, &settings) == 0);
        CHECK(pthread_create(&thread, NULL, receives, NULL) == 0);
        usleep(2000);
        if (i >= 2) CHECK(write(master, "ab", 2) == 2);
        CHECK(result_of(thread) == (i < 2 ? 0 : 2));
    }
    // Without a time it waits, and a line does.
    settings.c_cc[VMIN] = 1, settings.c_cc[VTIME] = 0;
    CHECK(tcsetattr(slave, TCSANOW, &settings) == 0 && pthread_create(&thread, NULL, receives, NULL) == 0);
    usleep(20000);
    CHECK(write(master, "c", 1) == 1 && result_of(thread) == 1);
    settings.c_lflag |= ICANON, settings.c_cc[VMIN] = 0;
    CHECK(tcsetattr(slave, TCSANOW, &settings) == 0 && pthread_create(&thread, NULL, receives, NULL) == 0);
    usleep(20000);
    CHECK(write(master, "line\n", 5) == 5 && result_of(thread) == 5);
    CHECK(fcntl(master, F_SETFL, O_NONBLOCK) == 0);
    while (read(master, rest, sizeof rest) > 0) {}
    // Who waits when it goes is told otherwise than who comes later.
    settings.c_lflag &= ~ICANON, settings.c_cc[VMIN] = 1;
    CHECK(tcsetattr(slave, TCSANOW, &settings) == 0 && pthread_create(&thread, NULL, receives, NULL) == 0);
    usleep(patience);
    close(master);
    long gone = result_of(thread);
    CHECK(gone == -EIO || (gone == 0 && patience < 1000000));
    CHECK(read(slave, rest, sizeof rest) == 0);
    close(slave);
    // It came late: once more, with more time.
    if (gone == 0) {
        patience *= 2;
        terminals();
    }
}

int main(void) {
    for (how = 0; how < 4; how++) {
        sockets(AF_UNIX, 1);
        sockets(AF_INET, 1);
        sockets(AF_INET, 0);
    }
    terminals();
    puts("ok");
    return 0;
}
