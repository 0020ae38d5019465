/* TryLock in both variants, and work that is left to who has a lock: by threads, and by handlers that interrupt the holder. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <raddle.h>

#define THREADS 4
#define TURNS 100
#define MOST 3

#define CHECK(what) \
    do \
        if (!(what)) fprintf(stderr, "line %d: " #what "\n", __LINE__), exit(1); \
    while (0)

static raddle_lock *lock;
static raddle_deferred *deferred;
static long count, inside;

static void add(void *by) {
    if (++inside != 1) abort();
    count += *(long *)by;
    inside--;
}

/* Variant 2: never waits. */
static void *tries(void *unused) {
    static long one = 1;
    raddle_place place;
    long lucky = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        raddle_trying *trying = raddle_trying_create();
        for (int again = 0; again <= turn % 3; again++) {
            if (raddle_lock_try(lock, trying)) continue;
            add(&one);
            lucky++;
            raddle_lock_release_tried(lock, trying);
        }
        raddle_trying_destroy(trying); /* queued, perhaps */
        raddle_lock_acquire(lock, &place);
        add(&one);
        raddle_lock_release(lock, &place);
    }
    (void)unused;
    return (void *)(lucky + TURNS);
}

static void a_try_never_waits(void) {
    lock = raddle_lock_create("try");
    CHECK(lock);
    raddle_place place;
    raddle_trying *early = raddle_trying_create(), *late = raddle_trying_create();
    raddle_lock_acquire(lock, &place);
    CHECK(raddle_lock_try(lock, early) == EBUSY && raddle_lock_try(lock, early) == EBUSY);
    raddle_lock_release(lock, &place);
    CHECK(raddle_lock_try(lock, late) == 0 && raddle_lock_try(lock, early) == EBUSY);
    raddle_lock_release_tried(lock, late);
    CHECK(raddle_lock_try(lock, early) == 0);
    raddle_lock_release_tried(lock, early);
    raddle_trying_destroy(early);
    raddle_trying_destroy(late);
    raddle_trying_destroy(NULL);
    pthread_t threads[THREADS];
    long total = 0;
    for (int thread = 0; thread < THREADS; thread++) CHECK(!pthread_create(&threads[thread], NULL, tries, NULL));
    for (int thread = 0; thread < THREADS; thread++) {
        void *did;
        pthread_join(threads[thread], &did);
        total += (long)did;
    }
    CHECK(count == total);
    raddle_lock_destroy(lock);
    lock = raddle_lock_create("mcs");
    raddle_trying *other = raddle_trying_create();
    CHECK(raddle_lock_try(lock, other) == EINVAL && strstr(raddle_error(), "can be tried"));
    raddle_trying_destroy(other);
    raddle_lock_destroy(lock);
}

/* Variant 1: waits for others, not for itself. */
static raddle_own own;
static volatile int answer;

static void takes_own(int signal) {
    (void)signal;
    answer = raddle_lock_acquire_own(lock, &own);
    if (!answer) raddle_lock_release_own(lock, &own);
}

static void a_handler_does_not_wait_for_its_own_thread(void) {
    const char *kinds[] = {"spin", "mcs", "h1", "h2", "hemlock", "cna", "reciprocating", "try"};
    signal(SIGUSR1, takes_own);
    for (int kind = 0; kind < 8; kind++) {
        lock = raddle_lock_create(kinds[kind]);
        CHECK(raddle_lock_acquire_own(lock, &own) == 0);
        answer = -1;
        raise(SIGUSR1);
        CHECK(answer == EBUSY);
        raddle_lock_release_own(lock, &own);
        raise(SIGUSR1);
        CHECK(answer == 0);
        raddle_lock_destroy(lock);
    }
}

/* Work that is left. */
static raddle_work rooms[MOST + 1];
static long ten = 10, order[MOST], done;

static void in_order(void *number) {
    order[done++] = (long)number;
}

static void leaves(int signal) {
    (void)signal;
    for (long piece = 0; piece <= MOST; piece++) {
        int left = raddle_deferred_do(deferred, &rooms[piece], in_order, (void *)piece);
        answer = left == (piece < MOST ? EINPROGRESS : EAGAIN) ? 0 : left;
        if (answer) return;
    }
}

static void *leaves_and_takes(void *number) {
    static long one = 1;
    static raddle_work work[THREADS][TURNS];
    raddle_place place;
    for (int turn = 0; turn < TURNS; turn++) {
        if (turn % 2 && raddle_deferred_do(deferred, &work[(long)number][turn], add, &one) != EAGAIN) continue;
        raddle_deferred_acquire(deferred, &place);
        add(&one);
        raddle_deferred_release(deferred, &place);
    }
    return NULL;
}

static void work_is_left_to_the_holder(void) {
    deferred = raddle_deferred_create(MOST);
    raddle_place place;
    count = 0;
    CHECK(raddle_deferred_do(deferred, &rooms[0], add, &ten) == 0 && count == 10);
    signal(SIGUSR1, leaves);
    raddle_deferred_acquire(deferred, &place);
    answer = -1;
    raise(SIGUSR1);
    CHECK(answer == 0 && done == 0);
    raddle_deferred_release(deferred, &place);
    CHECK(done == MOST && order[0] == 0 && order[1] == 1 && order[2] == 2);
    count = 0;
    pthread_t threads[THREADS];
    for (long thread = 0; thread < THREADS; thread++)
        CHECK(!pthread_create(&threads[thread], NULL, leaves_and_takes, (void *)thread));
    for (int thread = 0; thread < THREADS; thread++) pthread_join(threads[thread], NULL);
    CHECK(count == THREADS * TURNS);
    raddle_deferred_destroy(deferred);
    raddle_deferred_destroy(NULL);
}

int main(void) {
    a_try_never_waits();
    a_handler_does_not_wait_for_its_own_thread();
    work_is_left_to_the_holder();
    puts("tried, and left");
    return 0;
}
