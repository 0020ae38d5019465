// Handlers that wait, each kind on many threads at once: for a semaphore, a lock, a descriptor, a signal, time. Half of
// the threads block the second signal themselves, which ends those waits that let it in. With `stack` the handlers run
// on alternate stacks.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 40, KINDS = 13 };
static const char *const names[KINDS] = {
    "sem_wait", "sem_timedwait", "sigsuspend", "sigwaitinfo", "sigtimedwait", "ppoll, a signal", "pselect, a signal",
    "poll, a pipe", "a mutex", "nanosleep", "a mask", "epoll_pwait, a signal", "epoll_wait, a pipe"};
static int kind, stop, wrong, pipes[2], events;
static sem_t begun, entered, left, open_gate, none;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int on_stack;
static _Thread_local int number, *place, seconds;

static void on_second(int signal) {
    (void)signal;
    seconds++;
}

static void on_first(int signal) {
    int mine = number, error = errno, *where = place, before = seconds, result = 0;
    pthread_t self = pthread_self();
    sigset_t second, others, now;
    sigemptyset(&second);
    sigaddset(&second, SIGUSR2);
    sigfillset(&others);
    sigdelset(&others, SIGUSR2);
    struct timespec late, long_time = {30, 0}, short_time = {0, 3000000};
    clock_gettime(CLOCK_REALTIME, &late);
    late.tv_sec += 30;
    sem_post(&entered);
    switch (kind) {
    case 0: result = sem_wait(&open_gate); break;
    case 1: result = sem_timedwait(&open_gate, &late); break;
    case 2: result = sigsuspend(&others) == -1 && errno == EINTR && seconds == before + 1 ? 0 : 1; break;
    case 3: result = sigwaitinfo(&second, NULL) != SIGUSR2; break;
    case 4: result = sigtimedwait(&second, NULL, &long_time) != SIGUSR2; break;
    case 5: result = !(ppoll(NULL, 0, &long_time, &others) == -1 && errno == EINTR && seconds == before + 1); break;
    case 6:
        result = !(pselect(0, NULL, NULL, NULL, &long_time, &others) == -1 && errno == EINTR && seconds == before + 1);
        break;
    case 7: {
        struct pollfd entry = {.fd = pipes[0], .events = POLLIN};
        result = poll(&entry, 1, 30000) != 1 || !(entry.revents & POLLIN);
        break;
    }
    case 8: result = pthread_mutex_lock(&lock) || pthread_mutex_unlock(&lock); break;
    case 9: result = nanosleep(&short_time, NULL); break;
    case 11: {
        struct epoll_event event;
        result = !(epoll_pwait(events, &event, 1, 30000, &others) == -1 && errno == EINTR && seconds == before + 1);
        break;
    }
    case 12: {
        struct epoll_event event;
        result = epoll_wait(events, &event, 1, 30000) != 1 || !(event.events & EPOLLIN);
        break;
    }
    case 10: {
        sigset_t mask;
        pthread_sigmask(SIG_UNBLOCK, &second, &mask);
        while (seconds == before) usleep(100);
        pthread_sigmask(SIG_SETMASK, &mask, NULL);
        break;
    }
    }
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    int stays = mine == number && where == place && pthread_equal(self, pthread_self());
    if (result || !stays || !sigismember(&now, signal) || !sigismember(&now, SIGUSR2))
        __atomic_fetch_or(&wrong, 1 << kind, __ATOMIC_SEQ_CST);
    errno = error;
    sem_post(&left);
}

static void *thread(void *argument) {
    int local = 0;
    number = (int)(long)argument;
    place = &local;
    stack_t stack = {.ss_size = 65536};
    if (on_stack && (!(stack.ss_sp = malloc(stack.ss_size)) || sigaltstack(&stack, NULL))) abort();
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    if (number % 2) pthread_sigmask(SIG_BLOCK, &set, NULL);
    sem_post(&begun);
    while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST)) {
        if (number % 4 < 2) usleep(300);
        else if (number % 4 == 2)
            while (sem_wait(&none) && errno == EINTR) {
            }
        else
            for (volatile int i = 0; i < 3000; i++) {
            }
        local++;
    }
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    if (place != &local || sigismember(&set, SIGUSR1) || sigismember(&set, SIGUSR2) != number % 2)
        __atomic_fetch_or(&wrong, 1 << KINDS, __ATOMIC_SEQ_CST);
    if (on_stack) {
        stack.ss_flags = SS_DISABLE;
        void *memory = stack.ss_sp;
        sigaltstack(&stack, NULL);
        free(memory);
    }
    return NULL;
}

int main(int count, char **arguments) {
    on_stack = count > 1 && !strcmp(arguments[1], "stack");
    setvbuf(stdout, NULL, _IOLBF, 0);
    sem_t *all[] = {&begun, &entered, &left, &open_gate, &none};
    for (int i = 0; i < 5; i++) sem_init(all[i], 0, 0);
    struct epoll_event event = {.events = EPOLLIN};
    if (pipe(pipes) || (events = epoll_create1(0)) < 0 || epoll_ctl(events, EPOLL_CTL_ADD, pipes[0], &event)) return 2;
    struct sigaction action = {.sa_handler = on_first, .sa_flags = SA_RESTART | (on_stack ? SA_ONSTACK : 0)};
    sigaddset(&action.sa_mask, SIGUSR2);
    sigaction(SIGUSR1, &action, NULL);
    action.sa_handler = on_second;
    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR2, &action, NULL);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, thread, (void *)i);
    for (int i = 0; i < THREADS; i++) sem_wait(&begun);
    for (kind = 0; kind < KINDS; kind++) {
        if (kind == 8) pthread_mutex_lock(&lock);
        for (int i = 0; i < THREADS; i++) pthread_kill(threads[i], SIGUSR1);
        for (int i = 0; i < THREADS; i++) sem_wait(&entered);
        char byte = 0;
        for (int i = 0; i < THREADS; i++)
            if (kind < 2) sem_post(&open_gate);
            else if ((kind >= 2 && kind <= 6) || kind == 10 || kind == 11) pthread_kill(threads[i], SIGUSR2);
        if ((kind == 7 || kind == 12) && write(pipes[1], &byte, 1) != 1) wrong |= 1 << 30;
        if (kind == 8) pthread_mutex_unlock(&lock);
        for (int i = 0; i < THREADS; i++) sem_wait(&left);
        if ((kind == 7 || kind == 12) && read(pipes[0], &byte, 1) != 1) wrong |= 1 << 30;
        printf("%s: done\n", names[kind]);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < THREADS; i++) sem_post(&none);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    printf("wrong: %d\n", wrong);
    return wrong != 0;
}
