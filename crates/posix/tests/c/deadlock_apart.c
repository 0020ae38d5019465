// An event loop waits for a mutex whose owner waits for ever. Another one could still wake it, and ends the program instead, unless there is an
// argument.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t taken;

static void look_often(int set) {
    struct epoll_event event;
    for (int i = 0; i < 40; i++)
        if (epoll_wait(set, &event, 1, 1) != 0) exit(1);
}

static void *owner(void *argument) {
    pthread_mutex_lock(&lock);
    pthread_barrier_wait(&taken);
    pthread_mutex_lock(&other);
    for (;;) pthread_cond_wait(&never, &other);
    return argument;
}

static void *loop(void *argument) {
    int set = epoll_create1(0);
    pthread_barrier_wait(&taken);
    look_often(set);
    pthread_mutex_lock(&lock);
    return argument;
}

static void *second(void *argument) {
    int set = epoll_create1(0);
    struct epoll_event event;
    look_often(set);
    epoll_wait(set, &event, 1, 500);
    _exit(0);
    return argument;
}

int main(int count, char **arguments) {
    (void)arguments;
    pthread_t threads[3];
    pthread_barrier_init(&taken, NULL, 2);
    if (count == 1) pthread_create(&threads[2], NULL, second, NULL);
    pthread_create(&threads[0], NULL, owner, NULL);
    pthread_create(&threads[1], NULL, loop, NULL);
    pthread_join(threads[1], NULL);
    return 1;
}
