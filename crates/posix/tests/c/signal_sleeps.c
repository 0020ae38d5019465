// Handlers that sleep and wait, while signals come that they block and while other threads change masks: nothing ends them early but a handler.
// Prints the same natively.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

enum { CALLS = 9, PLACES = 3 };
static const char *const names[CALLS] = {"nanosleep", "clock_nanosleep", "poll",   "select", "epoll_wait",
                                         "usleep",    "ppoll",           "pselect", "until"};
static const char *const places[PLACES] = {"computing", "pausing", "locking"};
static atomic_int began, ended, gone, later, stop;
static int call, milliseconds;
static _Atomic int result, error;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int wait_here(void) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L}, at;
    struct timeval coarse = {milliseconds / 1000, milliseconds % 1000 * 1000L};
    struct epoll_event event;
    int set, waited;
    switch (call) {
    case 0: return nanosleep(&time, NULL);
    case 1: return clock_nanosleep(CLOCK_REALTIME, 0, &time, NULL);
    case 2: return poll(NULL, 0, milliseconds);
    case 3: return select(0, NULL, NULL, NULL, &coarse);
    case 4:
        set = epoll_create1(0);
        waited = epoll_wait(set, &event, 1, milliseconds);
        close(set);
        return waited;
    case 5: return usleep(milliseconds * 1000);
    case 6: return ppoll(NULL, 0, &time, NULL);
    case 7: return pselect(0, NULL, NULL, NULL, &time, NULL);
    default:
        clock_gettime(CLOCK_MONOTONIC, &at);
        at.tv_sec += time.tv_sec;
        at.tv_nsec += time.tv_nsec;
        if (at.tv_nsec >= 1000000000) at.tv_sec++, at.tv_nsec -= 1000000000;
        return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
    }
}
static void waits(int signal) {
    (void)signal;
    pthread_kill(pthread_self(), SIGUSR2);
    began = 1;
    errno = 0;
    int waited = wait_here();
    error = waited > 0 ? waited : errno;
    result = waited;
    ended = 1;
}
static void comes(int signal) {
    (void)signal;
    later++;
}
static void *thread(void *place) {
    switch ((long)place) {
    case 0:
        while (!ended);
        break;
    case 1:
        while (!ended) pause();
        break;
    default:
        pthread_mutex_lock(&lock);
        pthread_mutex_unlock(&lock);
    }
    gone = 1;
    return NULL;
}
static void *changes(void *unused) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGWINCH);
    while (!stop) {
        pthread_sigmask(SIG_BLOCK, &set, NULL);
        usleep(1000);
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
        usleep(1000);
    }
    return unused;
}
// A thread in that place runs the handler, and gets that signal again and again: `times` or until the handler has returned.
static void run(int place, int signal, int times) {
    pthread_t id;
    began = ended = later = gone = 0;
    pthread_mutex_lock(&lock);
    pthread_create(&id, NULL, thread, (void *)(long)place);
    usleep(5000);
    pthread_kill(id, SIGUSR1);
    while (!began) usleep(100);
    for (int i = 0; i < times && !ended; i++) {
        pthread_kill(id, signal);
        usleep(1000);
    }
    while (!ended) usleep(1000);
    pthread_mutex_unlock(&lock);
    // One may have been about to pause.
    while (!gone) {
        if (place == 1) pthread_kill(id, SIGUSR2);
        usleep(1000);
    }
    pthread_join(id, NULL);
}
int main(void) {
    struct sigaction action = {.sa_handler = comes};
    pthread_t changer;
    sigset_t set;
    sigaction(SIGUSR2, &action, NULL);
    sigaction(SIGURG, &action, NULL);
    action.sa_handler = waits;
    sigaddset(&action.sa_mask, SIGUSR2);
    sigaction(SIGUSR1, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGWINCH);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_create(&changer, NULL, changes, NULL);
    for (int place = 0; place < PLACES; place++) {
        for (call = 0; call < CALLS; call++) {
            milliseconds = 30;
            run(place, SIGUSR2, 20);
            printf("%s, %s: %d %d, %s\n", places[place], names[call], result, error, later ? "then the other" : "never");
        }
    }
    milliseconds = 1000000;
    for (call = 0; call < CALLS; call++) {
        run(0, SIGURG, 1 << 30);
        int told = result > 0 ? result : error;
        printf("interrupted, %s: %s\n", names[call], told == EINTR ? "EINTR" : "no");
    }
    stop = 1;
    pthread_join(changer, NULL);
    return 0;
}
