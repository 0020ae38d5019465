/* Threads that spin for what another one is to do, which comes to its turn after them: for a flag, and for each other.
 * Arguments: the number of threads, and of their meetings. */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static long threads, meetings;
static atomic_long arrived, past;
static atomic_int flag;

static void pause_a_moment(void) {
#if defined __x86_64__
    __builtin_ia32_pause();
#else
    __asm__ volatile("yield");
#endif
}

static void *waits_for_flag(void *unused) {
    (void)unused;
    while (!atomic_load(&flag))
        pause_a_moment();
    return 0;
}

static void *sets_flag(void *unused) {
    (void)unused;
    atomic_store(&flag, 1);
    return 0;
}

static void *meets(void *unused) {
    (void)unused;
    for (long meeting = 0; meeting < meetings; meeting++) {
        if (atomic_fetch_add(&arrived, 1) == threads - 1) {
            atomic_store(&arrived, 0);
            atomic_fetch_add(&past, 1);
            continue;
        }
        while (atomic_load(&past) == meeting)
            pause_a_moment();
    }
    return 0;
}

int main(int count, char **arguments) {
    assert(count == 3);
    threads = atol(arguments[1]), meetings = atol(arguments[2]);
    pthread_t all[256];
    assert(threads > 1 && threads <= 256);
    for (long i = 0; i < threads; i++)
        assert(pthread_create(all + i, 0, i == threads - 1 ? sets_flag : waits_for_flag, 0) == 0);
    for (long i = 0; i < threads; i++)
        assert(pthread_join(all[i], 0) == 0);
    for (long i = 0; i < threads; i++)
        assert(pthread_create(all + i, 0, meets, 0) == 0);
    for (long i = 0; i < threads; i++)
        assert(pthread_join(all[i], 0) == 0);
    assert(atomic_load(&past) == meetings);
    puts("all have met");
    return 0;
}
