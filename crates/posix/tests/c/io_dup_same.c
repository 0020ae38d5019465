// What makes no copy closes nothing: whoever waits for the number waits on, wherever the call is made.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROUNDS = 10, WAYS = 7 };
static int fd, way;
static char answer[100];
static atomic_int begun;

static int call(void) {
    switch (way) {
    case 0: return dup2(fd, fd) == fd;
    case 1: return dup3(fd, fd, 0);
    case 2: return dup3(fd, fd, O_CLOEXEC);
    case 3: return dup2(-1, fd);
    case 4: return dup3(-1, fd, 0);
    case 5: return dup3(0, fd, -1);
    default: return close_range(fd, fd, 1 << 20);
    }
}
static void calls(int signal) {
    (void)signal;
    int result = call();
    snprintf(answer, sizeof answer, "%d %s", result, result < 0 ? strerrorname_np(errno) : "");
}
static void *reads(void *unused) {
    char byte;
    atomic_store(&begun, 1);
    long n = read(fd, &byte, 1);
    return (void *)(n < 0 ? -(long)errno : n);
}
static void *rounds(void *in_handler) {
    for (way = 0; way < WAYS; way++) {
        int right = 0;
        long other = 0;
        for (int i = 0; i < ROUNDS; i++) {
            int s[2];
            pthread_t reader;
            void *result;
            if (socketpair(AF_UNIX, SOCK_STREAM, 0, s)) abort();
            fd = s[0];
            atomic_store(&begun, 0);
            if (pthread_create(&reader, NULL, reads, NULL)) abort();
            // It is likely to wait then. Where it does not, the round proves nothing.
            while (!atomic_load(&begun)) usleep(100);
            usleep(2000);
            if (in_handler) raise(SIGUSR1);
            else calls(0);
            usleep(1000);
            if (write(s[1], "x", 1) != 1) abort();
            pthread_join(reader, &result);
            if ((long)result == 1) right++;
            else other = (long)result;
            close(s[0]), close(s[1]);
        }
        printf("%s, way %d: %s, read %d of %d, %ld\n", in_handler ? "handler" : "thread", way, answer, right, ROUNDS, other);
        fflush(stdout);
    }
    return NULL;
}

int main(void) {
    pthread_t thread;
    signal(SIGUSR1, calls);
    for (long in_handler = 0; in_handler < 2; in_handler++)
        if (pthread_create(&thread, NULL, rounds, (void *)in_handler) || pthread_join(thread, NULL)) return 1;
    return 0;
}
