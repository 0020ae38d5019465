// Handlers that jump out of calls which wait, and out of code that computes, many times: the thread is itself again each time, and whole.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4 };
static int jumps_wanted;
static pthread_t threads[THREADS];
static atomic_int jumps[THREADS], over;
static _Thread_local sigjmp_buf place;
static _Thread_local int number;
static _Thread_local volatile int armed;

static void handler(int signal) {
    if (!armed) return;
    armed = 0;
    siglongjmp(place, signal);
}
static void wait_in(int way, int pipe_end) {
    char byte;
    struct pollfd poll_for = {pipe_end, POLLIN, 0};
    struct timespec time = {0, 50000};
    switch (way) {
    case 0: read(pipe_end, &byte, 1); break;
    case 1: poll(&poll_for, 1, 1000); break;
    case 2: nanosleep(&time, NULL); break;
    default: for (volatile int i = 0; i < 2000; i++) {}
    }
}
static void *jumper(void *my_number) {
    int pipe_ends[2];
    number = (int)(size_t)my_number;
    if (pipe(pipe_ends) != 0) abort();
    while (!over) {
        if (sigsetjmp(place, 1) == 0) {
            armed = 1;
            for (;;) wait_in(number, pipe_ends[0]);
        }
        jumps[number]++;
        struct timespec time = {0, 1000};
        nanosleep(&time, NULL);
    }
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    return my_number;
}

int main(int count, char **arguments) {
    jumps_wanted = count > 1 ? atoi(arguments[1]) : 100;
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR2, &action, NULL);
    for (size_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, jumper, (void *)i);
    for (size_t i = 0; i < THREADS; i++)
        while (jumps[i] < jumps_wanted) {
            // Not in step with the threads: it meets all that they do.
            struct timespec time = {0, rand() % 60000};
            for (size_t j = i; j < THREADS; j++) pthread_kill(threads[j], SIGUSR2);
            nanosleep(&time, NULL);
        }
    over = 1;
    for (size_t i = 0; i < THREADS; i++) {
        struct timespec time = {0, 1000000};
        void *result = NULL;
        // One that waits again needs one more; a thread that has ended is still to be joined, so its id is good.
        while (pthread_tryjoin_np(threads[i], &result) == EBUSY) {
            pthread_kill(threads[i], SIGUSR2);
            nanosleep(&time, NULL);
        }
        if (result != (void *)i) return 1;
    }
    puts("whole");
    return 0;
}
