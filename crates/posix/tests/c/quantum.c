/* Quantum checks as the compiler's pass puts them in, here by hand: a thread that only computes lets others run, on one processor; it keeps errno; and between
 * raddle_hold and raddle_release it does not give way. */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

extern void raddle_quantum_used(int64_t *) __attribute__((weak));
extern void raddle_hold(void) __attribute__((weak));
extern void raddle_release(void) __attribute__((weak));
extern int raddle_set_quantum(unsigned) __attribute__((weak));

static __thread int64_t word;
static __thread long asked;
static __attribute__((noinline)) void check(long weight) {
    word -= weight;
    if (word < 0) {
        asked++;
        raddle_quantum_used(&word);
        assert(word >= 0);
    }
}

enum { TURNS = 1000 };
static atomic_long turns;

static void *other(void *unused) {
    (void)unused;
    for (int i = 0; i < TURNS; i++) {
        atomic_fetch_add(&turns, 1);
        sched_yield();
    }
    return 0;
}

static void *computes(void *unused) {
    (void)unused;
    volatile uint64_t sum = 0;
    errno = ENOTTY;
    pthread_t id;
    assert(pthread_create(&id, 0, other, 0) == 0);
    /* With a quantum of nothing each check asks again at once, but not in a section: nothing would come of it. */
    check(1);
    assert(word < 100);
    raddle_hold();
    raddle_hold();
    word = 0;
    check(1);
    assert(word > 1000);
    raddle_release();
    word = 0;
    check(1);
    assert(word > 1000);
    raddle_release();
    word = 0;
    check(1);
    assert(word < 100);
    /* A quantum of its own. */
    assert(raddle_set_quantum(2000000) == EINVAL && raddle_set_quantum(1000000) == 0);
    word = 0;
    check(1);
    assert(word > 1000);
    assert(raddle_set_quantum(0) == 0);
    word = 0;
    check(1);
    assert(word < 100);
    /* Turns of the other one before which it was asked more often than it takes: none, but where the machine keeps that one from its core and this one
     * asks in vain meanwhile. */
    long often = 0, last = -1, before = asked;
    while (atomic_load(&turns) < TURNS) {
        long turn = atomic_load(&turns);
        if (turn != last) {
            often += asked - before > 3;
            last = turn, before = asked;
        }
        sum += sum * 3 + 1;
        check(1 << 20);
    }
    printf("errno %s, the checks asked %s\n", errno == ENOTTY ? "kept" : "lost", often > TURNS / 2 ? "too often" : "as often as it takes");
    pthread_join(id, 0);
    return 0;
}

/* One gap between two looks: it ends in this function. */
static __attribute__((noinline)) void slow(void) {
    for (volatile int i = 0; i < 100000; i++)
        ;
    word = 0;
    check(1);
    asked++;
}

static void *has_a_gap(void *unused) {
    check(1);
    slow();
    return unused;
}

int main(int count, char **arguments) {
    (void)arguments;
    if (!raddle_quantum_used) {
        puts("no runtime");
        return 0;
    }
    pthread_t id;
    assert(pthread_create(&id, 0, count > 1 ? has_a_gap : computes, 0) == 0);
    pthread_join(id, 0);
    if (count > 2)
        getchar();
}
