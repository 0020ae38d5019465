// Waits of the first thread that no handler restarts: SIGWINCH, which the program knows nothing of, ends none of them
// and prolongs none. A handler of the program's own does. Prints a line for each wait.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

enum { LONG = 1000 };
static struct timespec seconds(int s) { return (struct timespec){s, 0}; }
static int set, queue, semaphores;
static sigset_t none, other;

static int w_pause(void) { return pause(); }
static int w_sleep(void) { return sleep(LONG) > 0 ? -1 : 0; }
static int w_usleep(void) { return usleep(LONG * 1000000u); }
static int w_nanosleep(void) { struct timespec t = seconds(LONG), left; return nanosleep(&t, &left); }
static int w_clock(void) {
    struct timespec t = seconds(LONG), left;
    int error = clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &left);
    return error ? (errno = error, -1) : 0;
}
static int w_clock_until(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += LONG;
    int error = clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, NULL);
    return error ? (errno = error, -1) : 0;
}
static int w_thrd_sleep(void) {
    struct timespec t = seconds(LONG);
    int result = thrd_sleep(&t, NULL);
    return result == -1 ? (errno = EINTR, -1) : result;
}
static int w_poll(void) { return poll(NULL, 0, -1); }
static int w_ppoll(void) { struct timespec t = seconds(LONG); return ppoll(NULL, 0, &t, &none); }
static int w_select(void) { struct timeval t = {LONG, 0}; return select(0, NULL, NULL, NULL, &t); }
static int w_pselect(void) { return pselect(0, NULL, NULL, NULL, NULL, &none); }
static int w_epoll(void) { struct epoll_event event; return epoll_wait(set, &event, 1, -1); }
static int w_epoll_p(void) { struct epoll_event event; return epoll_pwait(set, &event, 1, LONG * 1000, &none); }
static int w_suspend(void) { return sigsuspend(&none); }
static int w_waitinfo(void) { return sigwaitinfo(&other, NULL); }
static int w_timedwait(void) { struct timespec t = seconds(LONG); return sigtimedwait(&other, NULL, &t); }
static int w_msgrcv(void) { struct { long kind; char text[8]; } message; return msgrcv(queue, &message, 8, 0, 0); }
static int w_semop(void) { struct sembuf down = {0, -1, 0}; return semop(semaphores, &down, 1); }
static int w_semtimed(void) {
    struct sembuf down = {0, -1, 0};
    struct timespec t = seconds(LONG);
    return semtimedop(semaphores, &down, 1, &t);
}

static struct { const char *name; int (*wait)(void); } WAITS[] = {
    {"pause", w_pause}, {"sleep", w_sleep}, {"usleep", w_usleep}, {"nanosleep", w_nanosleep}, {"clock_nanosleep", w_clock},
    {"clock_nanosleep until", w_clock_until}, {"thrd_sleep", w_thrd_sleep}, {"poll", w_poll}, {"ppoll", w_ppoll},
    {"select", w_select}, {"pselect", w_pselect}, {"epoll_wait", w_epoll}, {"epoll_pwait", w_epoll_p},
    {"sigsuspend", w_suspend}, {"sigwaitinfo", w_waitinfo}, {"sigtimedwait", w_timedwait}, {"msgrcv", w_msgrcv},
    {"semop", w_semop}, {"semtimedop", w_semtimed},
};
// Those that end by their time, though signals come; of so many milliseconds.
enum { SHORT = 150 };
static int s_usleep(void) { return usleep(SHORT * 1000); }
static int s_nanosleep(void) { struct timespec t = {0, SHORT * 1000000}; return nanosleep(&t, NULL); }
static int s_poll(void) { return poll(NULL, 0, SHORT); }
static int s_select(void) { struct timeval t = {0, SHORT * 1000}; return select(0, NULL, NULL, NULL, &t); }
static int s_epoll(void) { struct epoll_event event; return epoll_wait(set, &event, 1, SHORT); }
static struct { const char *name; int (*wait)(void); } ENDS[] = {
    {"usleep", s_usleep}, {"nanosleep", s_nanosleep}, {"poll", s_poll}, {"select", s_select}, {"epoll_wait", s_epoll},
};

static pthread_t first;
static atomic_int begun, over, may_end;

static void heard(int signal) { (void)signal; }

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

// Sends the process what it knows nothing of, and then, if it is to, the first thread what ends its wait.
static void *sends(void *ends) {
    while (!begun) usleep(100);
    for (int i = 0; i < 5; i++) {
        usleep(5000);
        kill(getpid(), SIGWINCH);
    }
    usleep(5000);
    may_end = 1;
    while (ends && !over) {
        pthread_kill(first, SIGUSR1);
        usleep(2000);
    }
    return NULL;
}

static int waits(int (*wait)(void), int ends) {
    pthread_t sender;
    over = may_end = begun = 0;
    pthread_create(&sender, NULL, sends, ends ? &over : NULL);
    begun = 1;
    errno = 0;
    int result = wait(), error = errno, in_time = may_end;
    over = 1;
    pthread_join(sender, NULL);
    if (!ends) return result == 0;
    return result == -1 && error == EINTR && in_time;
}

int main(void) {
    struct sigaction action = {.sa_handler = heard};
    sigaction(SIGUSR1, &action, NULL);
    sigemptyset(&none);
    sigemptyset(&other);
    sigaddset(&other, SIGUSR2);
    sigprocmask(SIG_BLOCK, &other, NULL);
    first = pthread_self();
    set = epoll_create1(0);
    queue = msgget(IPC_PRIVATE, 0600);
    semaphores = semget(IPC_PRIVATE, 1, 0600);
    for (unsigned i = 0; i < sizeof WAITS / sizeof *WAITS; i++)
        printf("%s: %s\n", WAITS[i].name, waits(WAITS[i].wait, 1) ? "as it should" : "cut");
    for (unsigned i = 0; i < sizeof ENDS / sizeof *ENDS; i++) {
        double began = now();
        int well = waits(ENDS[i].wait, 0);
        // The kernel's clock may be a little ahead of what is read.
        printf("%s in time: %s\n", ENDS[i].name, well && now() - began > SHORT - 1 ? "as it should" : "cut");
    }
    msgctl(queue, IPC_RMID, NULL);
    semctl(semaphores, 0, IPC_RMID);
    return 0;
}
