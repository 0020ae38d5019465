// Threads that could not be created do not count: the process ends with its last one.
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static sem_t refused;

static void ended(void) { printf("the last thread has ended\n"); }

static void *waits(void *first) {
    while (sem_wait(&refused)) {}
    pthread_join(*(pthread_t *)first, NULL);
    return NULL;
}

int main(void) {
    static pthread_t first;
    pthread_t thread;
    alarm(60);
    setvbuf(stdout, NULL, _IOLBF, 0);
    atexit(ended);
    first = pthread_self();
    if (sem_init(&refused, 0, 0) || pthread_create(&thread, NULL, waits, &first)) return 1;
    struct rlimit before, limit;
    getrlimit(RLIMIT_AS, &before);
    limit = before;
    // Less than there is already: no more is to be had.
    limit.rlim_cur = 4096;
    pthread_attr_t large;
    pthread_attr_init(&large);
    pthread_attr_setstacksize(&large, 512 << 20);
    setrlimit(RLIMIT_AS, &limit);
    for (int i = 0; i < 3; i++) {
        int error = pthread_create(&thread, &large, waits, &first);
        printf("%s\n", error ? strerrorname_np(error) : "created");
    }
    setrlimit(RLIMIT_AS, &before);
    sem_post(&refused);
    pthread_exit(NULL);
}
