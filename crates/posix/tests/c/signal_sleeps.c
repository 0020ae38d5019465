// Handlers that sleep and wait, while signals come that they block and while other threads change masks: nothing ends them early but a handler.
// Then waits with a mask that lets a signal in, in handlers and threads; signals sent by the hundred thousand; and jumps and forks in handlers. Prints the same natively.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>
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

// What is left is told of a sleep that is ended early, unless it was to last until a point in time.
static int with_left(int waited, const struct timespec *left, int relative) {
    int told = left->tv_nsec != -1;
    if (told != (waited != 0 && relative)) return 99;
    return told && left->tv_sec * 1000 + left->tv_nsec / 1000000 > milliseconds ? 98 : waited;
}
static int wait_here(void) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L}, at, left = {-1, -1};
    struct timeval coarse = {milliseconds / 1000, milliseconds % 1000 * 1000L};
    struct epoll_event event;
    int set, waited;
    switch (call) {
    case 0: waited = nanosleep(&time, &left); return with_left(waited, &left, 1);
    case 1: waited = clock_nanosleep(CLOCK_REALTIME, 0, &time, &left); return with_left(waited, &left, 1);
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
        waited = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, &left);
        return with_left(waited, &left, 0);
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
// Waits with a mask that lets SIGUSR2 in, which the caller blocks.
static void waits_letting_in(int signal) {
    struct timespec time = {1000, 0};
    struct epoll_event event;
    sigset_t set;
    int epoll;
    (void)signal;
    sigfillset(&set);
    sigdelset(&set, SIGUSR2);
    began = 1;
    errno = 0;
    switch (call) {
    case 0: result = ppoll(NULL, 0, &time, &set); break;
    case 1: result = pselect(0, NULL, NULL, NULL, &time, &set); break;
    default:
        epoll = epoll_create1(0);
        result = epoll_pwait(epoll, &event, 1, 1000000, &set);
        close(epoll);
    }
    error = errno;
    ended = 1;
}
static void *lets_in(void *in_thread) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    if (in_thread == NULL) return thread((void *)0L);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    waits_letting_in(0);
    return NULL;
}
static void masks(void) {
    struct sigaction action = {.sa_handler = waits_letting_in};
    sigfillset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
    for (long in_thread = 0; in_thread < 2; in_thread++) {
        for (call = 0; call < 3; call++) {
            pthread_t id;
            began = ended = later = 0;
            pthread_create(&id, NULL, lets_in, (void *)in_thread);
            if (!in_thread) pthread_kill(id, SIGUSR1);
            while (!began) usleep(100);
            usleep(2000);
            pthread_kill(id, SIGUSR2);
            while (!ended) usleep(100);
            pthread_join(id, NULL);
            printf("let in, %s: %d %s, %d\n", in_thread ? "thread" : "handler", result, error == EINTR ? "EINTR" : "?", later);
        }
    }
}
static int queued(void) {
    char line[256];
    int most = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, file)) {
        if (!strncmp(line, "SigQ:", 5)) most = atoi(line + 5);
    }
    fclose(file);
    return most;
}
static void *sends(void *id) {
    for (int i = 0; i < 50000; i++) pthread_kill(*(pthread_t *)id, SIGUSR2);
    return NULL;
}
static void many(void) {
    pthread_t id, senders[2];
    int before = queued();
    began = ended = later = 0;
    pthread_create(&id, NULL, thread, (void *)0L);
    for (int i = 0; i < 2; i++) pthread_create(&senders[i], NULL, sends, &id);
    for (int i = 0; i < 2; i++) pthread_join(senders[i], NULL);
    // The kernel counts what all processes of the user have.
    int more = queued() - before;
    for (int i = 0; i < 6000 && more >= 1000; i++) usleep(10000), more = queued() - before;
    ended = 1;
    pthread_join(id, NULL);
    printf("many: %s left, %s\n", more < 1000 ? "few" : "many", later ? "came" : "never");
}
static jmp_buf back;
static void jumps_within(int signal) {
    (void)signal;
    if (setjmp(back) == 0) longjmp(back, 1);
    usleep(1000);
    later++;
}
static void *jumps(void *unused) {
    for (int i = 0; i < 20; i++) raise(SIGUSR1);
    return unused;
}
static void within(void) {
    struct sigaction action = {.sa_handler = jumps_within};
    pthread_t id;
    later = 0;
    sigaction(SIGUSR1, &action, NULL);
    pthread_create(&id, NULL, jumps, NULL);
    pthread_join(id, NULL);
    printf("jumped within: %d\n", later);
}
static pid_t child;
static void forks(int signal) {
    (void)signal;
    child = fork();
    ended = 1;
}
static void *forks_here(void *unused) {
    pthread_t id;
    raise(SIGUSR1);
    if (child == 0) {
        ended = 1;
        if (pthread_create(&id, NULL, thread, (void *)0L) != 0 || pthread_join(id, NULL) != 0) _exit(1);
        usleep(1000);
        _exit(5);
    }
    return unused;
}
static void forked(void) {
    struct sigaction action = {.sa_handler = forks};
    pthread_t id;
    int status;
    sigaction(SIGUSR1, &action, NULL);
    pthread_create(&id, NULL, forks_here, NULL);
    pthread_join(id, NULL);
    waitpid(child, &status, 0);
    printf("forked: %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
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
    masks();
    many();
    within();
    forked();
    return 0;
}
