// Threads that share a sum by a lock, which ThreadSanitizer has to see; then what the program was given.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long sum;

static void *add(void *argument) {
    int *number = malloc(sizeof *number);
    *number = (int)(long)argument;
    pthread_mutex_lock(&lock);
    sum += *number;
    pthread_mutex_unlock(&lock);
    free(number);
    return NULL;
}

int main(int count, char **arguments) {
    pthread_t threads[100];
    for (long i = 0; i < 100; i++)
        if (pthread_create(&threads[i], NULL, add, (void *)i) != 0) return 1;
    for (int i = 0; i < 100; i++) pthread_join(threads[i], NULL);
    printf("%ld", sum);
    for (int i = 1; i < count; i++) printf(" [%s]", arguments[i]);
    const char *preload = getenv("LD_PRELOAD");
    printf(" preload [%s]\n", preload ? preload : "");
    return 0;
}
