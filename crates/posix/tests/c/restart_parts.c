// Handlers with SA_RESTART: what has a time limit, and what has been done in part, ends all the same.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { WAITS, TIMED, CLOCKED, WRITES, SENDS, RECEIVES, KINDS };
static const char *const names[] = {"sem_wait", "sem_timedwait", "sem_clockwait", "write", "send", "recv all"};
static char data[1 << 22];
static int sockets[2], ends[2];
static sem_t semaphore;
static volatile int handled, begun, done;

static void handler(int signal) {
    (void)signal;
    handled++;
}

static void *waits(void *argument) {
    long kind = (long)argument, result = 0;
    struct timespec far;
    clock_gettime(kind == CLOCKED ? CLOCK_MONOTONIC : CLOCK_REALTIME, &far);
    far.tv_sec += 1000;
    begun = 1;
    switch (kind) {
    case WAITS:
        result = sem_wait(&semaphore);
        break;
    case TIMED:
        result = sem_timedwait(&semaphore, &far);
        break;
    case CLOCKED:
        result = sem_clockwait(&semaphore, CLOCK_MONOTONIC, &far);
        break;
    case WRITES:
        result = write(ends[1], data, sizeof data);
        break;
    case SENDS:
        result = send(sockets[0], data, sizeof data, 0);
        break;
    case RECEIVES:
        result = recv(sockets[0], data, 100, MSG_WAITALL);
        break;
    }
    printf("%s: %s\n", names[kind], result < 0 ? (errno == EINTR ? "EINTR" : "error") : result == 0 ? "0" : "a part");
    done = 1;
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    sem_init(&semaphore, 0, 0);
    if (pipe(ends))
        return 1;
    for (long kind = 0; kind < KINDS; kind++) {
        pthread_t thread;
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
            return 1;
        begun = done = 0;
        pthread_create(&thread, NULL, waits, (void *)kind);
        while (!begun)
            usleep(100);
        if (kind == RECEIVES && write(sockets[1], data, 10) != 10)
            return 1;
        // It waits, with a part done, by now or after some more of them.
        for (int sent = 0; !done && (kind != WAITS || sent < 20); sent++) {
            int before = handled;
            pthread_kill(thread, SIGUSR1);
            while (handled == before && !done)
                usleep(100);
            usleep(2000);
        }
        if (kind == WAITS)
            sem_post(&semaphore);
        pthread_join(thread, NULL);
    }
    return 0;
}
