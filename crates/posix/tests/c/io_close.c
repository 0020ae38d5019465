// Threads that wait for descriptors which others close: with the library they wake with EBADF (natively they would wait on).
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

// Readers that are about to wait: one that came after the close might read what somebody else has opened meanwhile.
static atomic_int waiting;

static void *reader(void *argument) {
    char byte;
    errno = 0;
    waiting++;
    long n = read((int)(long)argument, &byte, 1);
    return (void *)(long)(n == -1 && errno == EBADF);
}

static int rounds;

static void *closer(void *argument) {
    unsigned fd = (unsigned)(long)argument;
    while (waiting < 10) usleep(100);
    usleep(1000);
    // One by one, and as a range.
    if (rounds % 2 ? close_range(fd, fd, 0) : close(fd)) abort();
    return NULL;
}

int main(void) {
    long sum = 0;
    for (rounds = 0; rounds < 50; rounds++) {
        int s[2];
        waiting = 0;
        pthread_t threads[10], end;
        socketpair(AF_UNIX, SOCK_STREAM, 0, s);
        for (int j = 0; j < 10; j++) pthread_create(&threads[j], NULL, reader, (void *)(long)s[0]);
        pthread_create(&end, NULL, closer, (void *)(long)s[0]);
        for (int j = 0; j < 10; j++) {
            void *result;
            pthread_join(threads[j], &result);
            sum += (long)result;
        }
        pthread_join(end, NULL);
        close(s[1]);
    }
    printf("%ld\n", sum);
    return 0;
}
