// Time limits that another process has set on sockets which it then handed over: calls on them end by these, also by
// other names of the descriptors, and on connections that a socket so received has accepted.
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SOCKETS = 5, PATIENCE_S = 20 };
static const struct timeval limit = {0, 30000};
static int way[2], got[SOCKETS];
static char much[1 << 20];

static void hand_over(const int *sockets) {
    char control[CMSG_SPACE(sizeof got)] = {0}, byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof got);
    memcpy(CMSG_DATA(head), sockets, sizeof got);
    if (sendmsg(way[1], &message, 0) != 1) exit(2);
}

static void take_over(void) {
    char control[CMSG_SPACE(sizeof got)] = {0}, byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (recvmsg(way[0], &message, 0) != 1) exit(3);
    memcpy(got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof got);
}

// Three that nobody sends to, one that nobody reads from, and one for connections, of which a first one is there.
static void other_process(void) {
    int sockets[SOCKETS], pair[2];
    for (int i = 0; i < SOCKETS - 1; i++) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) exit(4);
        if (i == 3) while (send(pair[0], much, sizeof much, MSG_DONTWAIT) > 0) {}
        sockets[i] = pair[0];
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int server = sockets[SOCKETS - 1] = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(server, (struct sockaddr *)&address, size) || listen(server, 4)) exit(5);
    if (getsockname(server, (struct sockaddr *)&address, &size)) exit(6);
    for (int i = 0; i < SOCKETS; i++) {
        int option = i == 3 ? SO_SNDTIMEO : SO_RCVTIMEO;
        if (setsockopt(sockets[i], SOL_SOCKET, option, &limit, sizeof limit)) exit(7);
    }
    if (connect(client, (struct sockaddr *)&address, size)) exit(8);
    hand_over(sockets);
    // Who does not end by a limit ends when this process does.
    char byte;
    struct timeval patience = {PATIENCE_S, 0};
    setsockopt(way[1], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    _exit(recv(way[1], &byte, 1, 0) == 1 ? 0 : 9);
}

static void tell(const char *call, long result) {
    printf("%s: %ld, %s\n", call, result, result == -1 ? strerror(errno) : "");
}

static void *waits(void *unused) {
    char byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    take_over();
    int copy = dup(got[2]);
    tell("recv on a copy", recv(copy, &byte, 1, 0));
    tell("recvmsg", recvmsg(got[1], &message, 0));
    tell("read", read(got[0], &byte, 1));
    tell("send", send(got[3], much, 1, 0));
    int accepted = accept(got[4], NULL, NULL);
    tell("read of what was accepted", read(accepted, &byte, 1));
    tell("accept", accept(got[4], NULL, NULL));
    if (write(way[0], "x", 1) != 1) exit(10);
    return unused;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, way)) return 1;
    pid_t child = fork();
    if (child == 0) other_process();
    close(way[1]);
    pthread_t thread;
    if (pthread_create(&thread, NULL, waits, NULL)) return 11;
    pthread_join(thread, NULL);
    int status;
    waitpid(child, &status, 0);
    printf("status %x\n", status);
    return 0;
}
