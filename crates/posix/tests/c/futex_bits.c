// FUTEX_WAKE_BITSET reaches the one that waits with such bits, whoever has waited longer.
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OTHERS = 3 };
static atomic_int word, begun, over;

static void waits(int expected, unsigned bits) {
    syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, expected, NULL, NULL, bits);
}
static void wakes(int count, unsigned bits) {
    syscall(SYS_futex, &word, FUTEX_WAKE_BITSET_PRIVATE, count, NULL, NULL, bits);
}

static void *other(void *unused) {
    atomic_fetch_add(&begun, 1);
    for (;;) {
        int seen = atomic_load(&word);
        if (atomic_load(&over)) return unused;
        waits(seen, 1);
    }
}
static void *meant(void *unused) {
    atomic_fetch_add(&begun, 1);
    // Whoever comes after the change does not wait.
    while (atomic_load(&word) == 0) waits(0, 6);
    return unused;
}
static void until_begun(int count) {
    while (atomic_load(&begun) < count) sched_yield();
    // It is likely to wait by then. Whoever does not, proves nothing.
    for (int i = 0; i < 5; i++) sched_yield();
}

static void *round_of(void *unused) {
    pthread_t others[OTHERS], one;
    atomic_store(&word, 0), atomic_store(&begun, 0), atomic_store(&over, 0);
    for (int i = 0; i < OTHERS; i++) {
        if (pthread_create(&others[i], NULL, other, NULL)) return &word;
        until_begun(i + 1);
    }
    if (pthread_create(&one, NULL, meant, NULL)) return &word;
    until_begun(OTHERS + 1);
    atomic_store(&word, 1);
    wakes(1, 2);
    pthread_join(one, NULL);
    atomic_store(&over, 1);
    atomic_store(&word, 2);
    wakes(OTHERS, -1);
    for (int i = 0; i < OTHERS; i++) pthread_join(others[i], NULL);
    return unused;
}

int main(void) {
    pthread_t thread;
    void *failed = NULL;
    for (int i = 0; i < 100; i++)
        if (pthread_create(&thread, NULL, round_of, NULL) || pthread_join(thread, &failed) || failed) return 1;
    puts("woken 100 times");
    return 0;
}
