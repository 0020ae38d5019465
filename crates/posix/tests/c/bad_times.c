// Times that are none: what calls with a time limit answer to them, in a thread.
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const struct timespec TIMES[] = {
    {0, -1}, {0, 1000000000}, {1, 2000000000}, {-1, 0}, {-1, -1}, {-5, 5}, {-9000000000000000000, 5}, {0, 0}, {0, 999},
};

static int or_error(long result) { return result < 0 ? errno : 0; }

static void *cases(void *argument) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    sem_t semaphore;
    sigset_t set;
    int word = 0, sockets[2], epoll = epoll_create1(0), semaphores = semget(IPC_PRIVATE, 1, 0600);
    char byte;
    struct iovec part = {&byte, 1};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
    struct epoll_event event;
    fd_set none;
    FD_ZERO(&none);
    sem_init(&semaphore, 0, 0);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets)) return argument;
    for (unsigned i = 0; i < sizeof TIMES / sizeof *TIMES; i++) {
        const struct timespec *time = &TIMES[i];
        struct timespec copy = *time;
        struct timeval short_one = {time->tv_sec, time->tv_nsec < 1000000 ? time->tv_nsec : -1};
        printf("%lld s, %ld ns:", (long long)time->tv_sec, time->tv_nsec);
        printf(" ppoll %d", or_error(ppoll(NULL, 0, time, NULL)));
        printf(", pselect %d", or_error(pselect(0, &none, NULL, NULL, time, NULL)));
        printf(", select %d", or_error(select(0, &none, NULL, NULL, &short_one)));
        printf(", epoll %d", or_error(epoll_pwait2(epoll, &event, 1, time, NULL)));
        printf(", sigtimedwait %d", or_error(sigtimedwait(&set, NULL, time)));
        struct sembuf take = {0, -1, 0};
        printf(", semtimedop %d", or_error(semtimedop(semaphores, &take, 1, time)));
        if (write(sockets[1], "x", 1) != 1) return argument;
        printf(", recvmmsg %d", or_error(recvmmsg(sockets[0], &message, 1, 0, &copy)));
        recv(sockets[0], &byte, 1, MSG_DONTWAIT);
        printf(", nanosleep %d", or_error(nanosleep(time, NULL)));
        printf(", clock_nanosleep %d", clock_nanosleep(CLOCK_MONOTONIC, 0, time, NULL));
        printf(" %d", clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, time, NULL));
        printf(", futex %d", or_error(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, time)));
        printf(", semaphore %d", or_error(sem_timedwait(&semaphore, time)));
        printf(" %d", or_error(sem_clockwait(&semaphore, CLOCK_MONOTONIC, time)));
        pthread_mutex_lock(&mutex);
        printf(", condition %d", pthread_cond_timedwait(&condition, &mutex, time));
        printf(" %d\n", pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, time));
        pthread_mutex_unlock(&mutex);
    }
    semctl(semaphores, 0, IPC_RMID);
    return argument;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, cases, NULL);
    pthread_join(thread, NULL);
    return 0;
}
