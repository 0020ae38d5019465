// one_allowed: how many of eight threads can be had, and that each of these ran.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static void *body(void *number) { return number; }
int main(void) {
    pthread_t threads[8];
    int had[8], count = 0;
    for (long i = 0; i < 8; i++) {
        int error = pthread_create(&threads[i], NULL, body, (void *)i);
        had[i] = !error;
        count += had[i];
        if (error && error != EAGAIN) printf("another error: %s\n", strerror(error));
    }
    for (long i = 0; i < 8; i++) {
        void *result;
        if (had[i] && (pthread_join(threads[i], &result) || result != (void *)i)) printf("thread %ld is lost\n", i);
    }
    printf("threads: %d\n", count);
}
