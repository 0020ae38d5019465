// A library whose constructor makes threads and waits for them, and whose destructor joins one: in its own threads it uses what takes a lock of the C
// library's, as far as a thread may natively while a constructor runs.
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static __thread int own = 7;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_key_t key;
static pthread_t lasting;
static sem_t stop;
static int begun, keys_ended;

static void key_end(void *value) { __sync_fetch_and_add((int *)value, 1); }

static void *worker(void *argument) {
    own += (long)argument;
    pthread_setspecific(key, &keys_ended);
    void *memory = malloc(100000);
    memset(memory, 1, 100000);
    free(memory);
    char line[40];
    snprintf(line, sizeof line, "%d", own);
    pthread_mutex_lock(&mutex);
    begun++;
    pthread_cond_broadcast(&condition);
    while (begun < 8) pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
    usleep(1000);
    int pipes[2];
    char byte = 1;
    if (pipe(pipes) || write(pipes[1], &byte, 1) != 1 || read(pipes[0], &byte, 1) != 1) return (void *)-1L;
    close(pipes[0]);
    close(pipes[1]);
    return (void *)(long)(atoi(line) - 7);
}

static void *lasts(void *argument) {
    while (sem_wait(&stop)) {}
    return argument;
}

__attribute__((constructor)) static void load(void) {
    pthread_t threads[8];
    void *result;
    long sum = 0;
    pthread_key_create(&key, key_end);
    sem_init(&stop, 0, 0);
    pthread_create(&lasting, 0, lasts, 0);
    for (long i = 0; i < 8; i++) pthread_create(&threads[i], 0, worker, (void *)i);
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], &result);
        sum += (long)result;
    }
    begun = 0;
    printf("constructor: %ld %d\n", sum, keys_ended);
    keys_ended = 0;
}

__attribute__((destructor)) static void unload(void) {
    sem_post(&stop);
    pthread_join(lasting, 0);
    pthread_key_delete(key);
    puts("destructor");
}
