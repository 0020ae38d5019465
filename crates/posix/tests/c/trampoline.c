// Code on the stacks of threads: of a program that asks for executable stacks, or of a library that does so and is loaded beside threads that live.
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

extern long sorted(long) __attribute__((weak));
static long (*function)(long);
static sem_t go;

static void *sorts(void *factor) {
    if (factor != (void *)1) sem_wait(&go);
    return (void *)function((long)factor);
}

int main(int count, char **arguments) {
    pthread_t threads[3];
    void *result;
    function = sorted;
    sem_init(&go, 0, 0);
    pthread_create(&threads[1], 0, sorts, (void *)-1);
    pthread_create(&threads[2], 0, sorts, (void *)2);
    if (count > 1) {
        void *library = dlopen(arguments[1], RTLD_NOW);
        if (!library) return puts(dlerror()), 0;
        function = dlsym(library, "sorted");
    }
    if (!function) return 0;
    pthread_create(&threads[0], 0, sorts, (void *)1);
    sem_post(&go);
    sem_post(&go);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], &result);
        printf("%ld\n", (long)result);
    }
    return 0;
}
