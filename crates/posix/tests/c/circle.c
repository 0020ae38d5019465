// circle: three threads lock each other's mutexes in a circle, one of them error-checking, while another goes on until the process is ended. Without an argument nobody does.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER, third;
static pthread_mutex_t *const mutexes[] = {&first, &second, &third};
static pthread_barrier_t all;
static int timed;

static void *in_turn(void *number) {
    long me = (long)number;
    char name[16];
    snprintf(name, sizeof name, "philosopher %ld", me);
    pthread_setname_np(pthread_self(), name);
    pthread_mutex_lock(mutexes[me]);
    pthread_barrier_wait(&all);
    if (timed && me == 0) {
        // Not for ever: the others wait for one that gives up, again and again.
        struct timespec until;
        for (;;) {
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_sec += 1000;
            pthread_mutex_timedlock(mutexes[1], &until);
        }
    }
    pthread_mutex_lock(mutexes[(me + 1) % 3]);
    return number;
}

int main(int count, char **words) {
    if (count < 2) return 0;
    timed = !strcmp(words[1], "timed");
    pthread_mutexattr_t checks;
    pthread_mutexattr_init(&checks);
    pthread_mutexattr_settype(&checks, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&third, &checks);
    pthread_barrier_init(&all, NULL, 3);
    pthread_t threads[3];
    for (long i = 0; i < 3; i++) pthread_create(&threads[i], NULL, in_turn, (void *)i);
    if (!strcmp(words[1], "reads")) {
        char byte;
        return read(0, &byte, 1) == 1 ? 0 : 1;
    }
    for (int i = 0; timed ? i < 400 : 1; i++) usleep(10000);
    return 0;
}
