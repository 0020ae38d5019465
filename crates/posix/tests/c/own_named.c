// A thread that another one names, in a call that the kernel makes for kernel threads only, becomes one in the wait
// that it is in. That wait ends by a handler, or by what it waits for, as before.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const struct timespec LONG = {100, 0};
static int ends[2], sockets[2];
static sem_t semaphore;
static sigset_t nothing, second;
static char byte;

static struct timespec later(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_sec += 100;
    return time;
}

// Nothing is left for the next one.
static long emptied(long result) {
    int error = errno;
    if (result > 0 && read(ends[0], &byte, 1) != 1) return -2;
    errno = error;
    return result;
}

static long sleeps(void) { return nanosleep(&LONG, NULL); }
static long sleeps_by_clock(void) { return (errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &LONG, NULL)) ? -1 : 0; }
static long sleeps_seconds(void) { return sleep(100) > 0 ? -1 : 0; }
static long polls(void) { return emptied(poll(&(struct pollfd){ends[0], POLLIN, 0}, 1, 100000)); }
static long polls_with_mask(void) { return emptied(ppoll(&(struct pollfd){ends[0], POLLIN, 0}, 1, &LONG, &nothing)); }
static long selects(void) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    return emptied(select(ends[0] + 1, &set, NULL, NULL, &(struct timeval){100, 0}));
}
static long epolls(void) {
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event);
    long result = epoll_wait(epoll, &event, 1, 100000);
    int error = errno;
    close(epoll);
    errno = error;
    return emptied(result);
}
static long reads(void) { return read(ends[0], &byte, 1); }
static long receives(void) { return recv(sockets[0], &byte, 1, 0); }
static long waits(void) { return sem_wait(&semaphore); }
static long waits_long(void) { return sem_timedwait(&semaphore, &(struct timespec[]){later()}[0]); }
static long waits_for_signal(void) {
    long result = sigwaitinfo(&second, NULL);
    return result > 0 ? 1 : result;
}
static long waits_long_for_signal(void) {
    long result = sigtimedwait(&second, NULL, &LONG);
    return result > 0 ? 1 : result;
}
static long pauses(void) { return pause(); }
static long suspends(void) { return sigsuspend(&nothing); }

static void to_pipe(pthread_t thread) { (void)thread, (void)!write(ends[1], "x", 1); }
static void to_socket(pthread_t thread) { (void)thread, (void)!write(sockets[1], "x", 1); }
static void post(pthread_t thread) { (void)thread, sem_post(&semaphore); }
static void send_second(pthread_t thread) { pthread_kill(thread, SIGUSR2); }

static const struct {
    const char *name;
    long (*wait)(void);
    void (*end)(pthread_t);
} WAITS[] = {
    {"nanosleep", sleeps, NULL},
    {"clock_nanosleep", sleeps_by_clock, NULL},
    {"sleep", sleeps_seconds, NULL},
    {"poll", polls, to_pipe},
    {"ppoll", polls_with_mask, to_pipe},
    {"select", selects, to_pipe},
    {"epoll_wait", epolls, to_pipe},
    {"read", reads, to_pipe},
    {"recv", receives, to_socket},
    {"sem_wait", waits, post},
    {"sem_timedwait", waits_long, post},
    {"sigwaitinfo", waits_for_signal, send_second},
    {"sigtimedwait", waits_long_for_signal, send_second},
    {"pause", pauses, NULL},
    {"sigsuspend", suspends, NULL},
};

static volatile int number, ended;

static void handle(int signal) { (void)signal; }

static void *thread(void *argument) {
    size_t which = (size_t)argument;
    sigset_t set;
    number = syscall(SYS_gettid);
    errno = 0;
    long result = WAITS[which].wait();
    int error = errno;
    ended = 1;
    pthread_sigmask(0, NULL, &set);
    printf("%s: %ld%s, blocks %d %d\n", WAITS[which].name, result, result < 0 && error == EINTR ? " (EINTR)" : "",
           sigismember(&set, SIGUSR1), sigismember(&set, SIGUSR2));
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    sigemptyset(&second);
    sigaddset(&second, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &second, NULL);
    nothing = second;
    sem_init(&semaphore, 0, 0);
    if (pipe(ends) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets)) return 1;
    for (size_t which = 0; which < sizeof WAITS / sizeof *WAITS; which++) {
        for (int by_itself = 0; by_itself < 2; by_itself++) {
            if (by_itself && !WAITS[which].end) continue;
            pthread_t id;
            number = ended = 0;
            pthread_create(&id, NULL, thread, (void *)which);
            while (!number) usleep(100);
            usleep(10000);
            if (setpriority(PRIO_PROCESS, number, 1)) printf("setpriority: %s\n", strerror(errno));
            usleep(2000);
            if (by_itself) WAITS[which].end(id);
            // A signal may come before the thread waits.
            while (!by_itself && !ended) {
                pthread_kill(id, SIGUSR1);
                usleep(1000);
            }
            pthread_join(id, NULL);
        }
    }
    return 0;
}
