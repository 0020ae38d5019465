// A reader that goes away in the middle of what is sent: as much as was taken is told, without a signal. The next call
// meets the end, with one.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MUCH = 1 << 22, WAYS = 8 };
static const char *const names[WAYS] = {
    "write", "writev", "send", "sendto", "sendmsg", "sendmsg of parts", "send, no signal", "a pipe",
};
static char much[MUCH];
static atomic_int signals;
static int ends[2], way;

static void count(int signal) { (void)signal, signals++; }

static ssize_t sends(void) {
    struct iovec parts[2] = {{much, MUCH / 2}, {much + MUCH / 2, MUCH / 2}}, whole = {much, MUCH};
    struct msghdr message = {.msg_iov = &whole, .msg_iovlen = 1}, of_parts = {.msg_iov = parts, .msg_iovlen = 2};
    switch (way) {
    case 1: return writev(ends[1], parts, 2);
    case 2: return send(ends[1], much, MUCH, 0);
    case 3: return sendto(ends[1], much, MUCH, 0, NULL, 0);
    case 4: return sendmsg(ends[1], &message, 0);
    case 5: return sendmsg(ends[1], &of_parts, 0);
    case 6: return send(ends[1], much, MUCH, MSG_NOSIGNAL);
    default: return write(ends[1], much, MUCH);
    }
}
static void *sender(void *unused) {
    ssize_t sent = sends();
    printf("%s: a part %d, signals %d", names[way], sent > 0 && sent < MUCH, signals);
    sent = sends();
    printf(", then %zd %s, signals %d\n", sent, sent < 0 ? strerrorname_np(errno) : "", signals);
    fflush(stdout);
    return unused;
}

static void *all_ways(void *unused) {
    for (way = 0; way < WAYS; way++) {
        pthread_t thread;
        int there = 0;
        signals = 0;
        if (way == WAYS - 1 ? pipe(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) abort();
        if (pthread_create(&thread, NULL, sender, NULL)) abort();
        // It has sent some, and cannot send all.
        while (ioctl(ends[0], FIONREAD, &there) == 0 && there == 0) usleep(100);
        close(ends[0]);
        pthread_join(thread, NULL);
        close(ends[1]);
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    signal(SIGPIPE, count);
    if (pthread_create(&thread, NULL, all_ways, NULL) || pthread_join(thread, NULL)) return 1;
    return 0;
}
