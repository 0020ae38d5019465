// Threads that are cancelled while a handler of theirs waits, each kind in a thread that computes, that waits for a
// semaphore, and that waits to read.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

enum { KINDS = 13, PLACES = 3 };
static const char *const names[KINDS] = {"sem_wait", "sem_timedwait", "cond_wait", "cond_timedwait", "join",
                                         "timedjoin", "clockjoin",    "nanosleep", "poll",           "select",
                                         "read",      "sigsuspend",   "sigwaitinfo"};
static int kind, place, pipes[2], cleaned, returned;
static sem_t begun, inside, never, end;
static pthread_mutex_t lock;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_t sleeper;

static void on_signal(int signal) {
    (void)signal;
    struct timespec late, later, time = {600, 0};
    clock_gettime(CLOCK_REALTIME, &late);
    clock_gettime(CLOCK_MONOTONIC, &later);
    late.tv_sec += 600, later.tv_sec += 600;
    sigset_t none, second;
    sigemptyset(&none), sigemptyset(&second);
    sigaddset(&second, SIGUSR2);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(pipes[0], &set);
    struct pollfd entry = {.fd = pipes[0], .events = POLLIN};
    char byte;
    sem_post(&inside);
    switch (kind) {
    case 0: sem_wait(&never); break;
    case 1: sem_timedwait(&never, &late); break;
    case 2: pthread_mutex_lock(&lock), pthread_cond_wait(&condition, &lock); break;
    case 3: pthread_mutex_lock(&lock), pthread_cond_timedwait(&condition, &lock, &late); break;
    case 4: pthread_join(sleeper, NULL); break;
    case 5: pthread_timedjoin_np(sleeper, NULL, &late); break;
    case 6: pthread_clockjoin_np(sleeper, NULL, CLOCK_MONOTONIC, &later); break;
    case 7: nanosleep(&time, NULL); break;
    case 8: poll(&entry, 1, -1); break;
    case 9: select(pipes[0] + 1, &set, NULL, NULL, NULL); break;
    case 10: (void)!read(pipes[0], &byte, 1); break;
    case 11: sigsuspend(&none); break;
    case 12: sigwaitinfo(&second, NULL); break;
    }
    returned++;
}

static void clean(void *argument) {
    (void)argument;
    cleaned++;
}

static void *thread(void *argument) {
    char byte;
    (void)argument;
    pthread_cleanup_push(clean, NULL);
    sem_post(&begun);
    for (;;)
        if (place == 0)
            for (volatile int i = 0; i < 1000; i++) {
            }
        else if (place == 1) sem_wait(&never);
        else (void)!read(pipes[0], &byte, 1);
    pthread_cleanup_pop(0);
}

static void *sleeps(void *argument) {
    while (sem_wait(&end) && errno == EINTR) {
    }
    return argument;
}

int main(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    sem_init(&begun, 0, 0), sem_init(&inside, 0, 0), sem_init(&never, 0, 0), sem_init(&end, 0, 0);
    if (pipe(pipes)) return 2;
    pthread_create(&sleeper, NULL, sleeps, NULL);
    for (kind = 0; kind < KINDS; kind++) {
        int cancelled = 0;
        cleaned = returned = 0;
        for (place = 0; place < PLACES; place++) {
            pthread_t id;
            void *result;
            pthread_mutex_init(&lock, NULL);
            pthread_create(&id, NULL, thread, NULL);
            sem_wait(&begun);
            pthread_kill(id, SIGUSR1);
            sem_wait(&inside);
            pthread_cancel(id);
            pthread_join(id, &result);
            cancelled += result == PTHREAD_CANCELED;
        }
        printf("%s: cancelled %d, cleaned %d, returned %d\n", names[kind], cancelled, cleaned, returned);
    }
    sem_post(&end);
    pthread_join(sleeper, NULL);
    return 0;
}
