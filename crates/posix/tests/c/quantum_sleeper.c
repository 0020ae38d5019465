/* Threads that compute with quantum checks take turns, and one sleeps now and then. Printed is how often another one had its turn, at most, between the time at
 * which a sleep was over and the sleeper's first step. The checks are called as the compiler pass calls them. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

__attribute__((weak)) void raddle_quantum_used(long *word);

enum { BUSY = 3, SLEEPS = 10 };
static atomic_long until, turns;
static atomic_int over, last;

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void *computes(void *number) {
    int me = (int)(long)number;
    long word = 1000;
    while (!atomic_load(&over)) {
        if (--word < 0) {
            if (raddle_quantum_used)
                raddle_quantum_used(&word);
            else
                word = 1000;
            long end = atomic_load(&until);
            if (atomic_exchange(&last, me) != me && end != 0 && now() > end)
                atomic_fetch_add(&turns, 1);
        }
    }
    return 0;
}

static void *sleeps(void *most) {
    for (int i = 0; i < SLEEPS; i++) {
        struct timespec time = {0, 3000000};
        atomic_store(&until, now() + 3000000);
        nanosleep(&time, 0);
        atomic_store(&until, 0);
        long seen = atomic_exchange(&turns, 0);
        if (seen > *(long *)most)
            *(long *)most = seen;
    }
    atomic_store(&over, 1);
    return 0;
}

int main(void) {
    pthread_t ids[BUSY + 1];
    long most = 0;
    for (long i = 0; i < BUSY; i++)
        if (pthread_create(&ids[i], 0, computes, (void *)(i + 1)) != 0)
            return 1;
    if (pthread_create(&ids[BUSY], 0, sleeps, &most) != 0)
        return 1;
    for (int i = 0; i <= BUSY; i++)
        pthread_join(ids[i], 0);
    printf("%ld\n", most);
    return 0;
}
