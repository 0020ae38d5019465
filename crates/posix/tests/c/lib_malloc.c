// Allocation by threads that wait in between, and memory that one thread allocates and another frees.
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 500, ROUNDS = 200 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *shelf[64];

static void *body(void *argument) {
    unsigned seed = (unsigned)(long)argument;
    long bytes = 0;
    for (int round = 0; round < ROUNDS; round++) {
        size_t size = 1 + rand_r(&seed) % 3000;
        char *block = malloc(size);
        if (!block) return NULL;
        memset(block, (int)(size & 0x7f), size);
        pthread_mutex_lock(&lock);
        char **place = &shelf[rand_r(&seed) % 64], *other = *place;
        *place = block;
        pthread_mutex_unlock(&lock);
        free(other);
        bytes += size;
        if (round % 8 == 0) sched_yield();
    }
    return (void *)bytes;
}

int main(void) {
    pthread_t threads[THREADS];
    long bytes = 0;
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, body, (void *)(i + 1)) != 0) return 1;
    for (int i = 0; i < THREADS; i++) {
        void *part;
        pthread_join(threads[i], &part);
        if (!part) return 2;
        bytes += (long)part;
    }
    for (int i = 0; i < 64; i++) free(shelf[i]);
    printf("%ld\n", bytes);
    return 0;
}
