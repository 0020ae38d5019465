// In the child of a thread's fork, that thread is the first one, and others join it, detach it and ask for it.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { JOINS, TRIES, TIMES, DETACHES, WAYS };
static pthread_t forker;
static long way;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void *joins(void *argument) {
    void *result = NULL;
    struct timespec past = {1, 0};
    int first = 0, second;
    (void)argument;
    if (way == TRIES)
        first = pthread_tryjoin_np(forker, &result);
    if (way == TIMES)
        first = pthread_timedjoin_np(forker, &result, &past);
    if (way == DETACHES)
        first = pthread_detach(forker);
    pthread_mutex_unlock(&gate);
    second = pthread_join(forker, &result);
    printf("way %ld: %d %d %ld\n", way, first, second, (long)result);
    fflush(stdout);
    return NULL;
}

static void *forks(void *argument) {
    pid_t child = fork();
    (void)argument;
    if (child == 0) {
        pthread_t thread;
        forker = pthread_self();
        pthread_mutex_lock(&gate);
        pthread_create(&thread, NULL, joins, NULL);
        // It has asked while this one lives. (Unlocked by another, which natively works.)
        pthread_mutex_lock(&gate);
        if (way != DETACHES) {
            printf("itself: %d\n", pthread_join(pthread_self(), NULL));
            fflush(stdout);
        }
        pthread_exit((void *)5);
    }
    int status;
    waitpid(child, &status, 0);
    printf("status %x\n", status);
    fflush(stdout);
    return NULL;
}

int main(void) {
    for (way = 0; way < WAYS; way++) {
        pthread_t thread;
        pthread_create(&thread, NULL, forks, NULL);
        pthread_join(thread, NULL);
        if (way != DETACHES)
            forks(NULL);
    }
    return 0;
}
