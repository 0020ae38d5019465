// Who has passed a barrier last may destroy it, and use its memory for something else, while the others are about to
// leave: nobody touches it any more.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 200 };

static pthread_barrier_t barrier;
static int touched;

static void *passes(void *unused) {
    if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
        if (pthread_barrier_destroy(&barrier)) return &barrier;
        memset(&barrier, 0x5a, sizeof barrier);
    }
    return unused;
}

int main(void) {
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        void *failed;
        if (pthread_barrier_init(&barrier, NULL, THREADS)) return 1;
        for (int i = 0; i < THREADS; i++)
            if (pthread_create(&threads[i], NULL, passes, NULL)) return 1;
        for (int i = 0; i < THREADS; i++)
            if (pthread_join(threads[i], &failed) || failed) return 1;
        unsigned char now[sizeof barrier], before[sizeof barrier];
        memcpy(now, &barrier, sizeof barrier);
        memset(before, 0x5a, sizeof before);
        touched += memcmp(now, before, sizeof before) != 0;
    }
    printf("touched: %d\n", touched);
    return touched != 0;
}
