// The C interface: a pool under a policy with priorities, threads in it, counters, errors.
#include <raddle.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

enum { N = 1000 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int lightweight, order[2], next;

static void *body(void *argument) {
    sched_yield();
    pthread_mutex_lock(&lock);
    lightweight += raddle_is_lightweight();
    pthread_mutex_unlock(&lock);
    return argument;
}

static void *note(void *argument) {
    order[next++] = (int)(long)argument; // One processor, and no switch in here.
    return NULL;
}

static void *same(void *argument) {
    return argument;
}

// On the pool's only processor: the less important thread is created first and runs last.
static void *two(void *pool) {
    pthread_t low, high, equal;
    if (raddle_yield() != 0) return NULL;
    if (raddle_thread_create(&low, NULL, pool, 2, note, (void *)2L) != 0) return NULL;
    if (raddle_thread_create(&high, NULL, pool, 1, note, (void *)1L) != 0) return NULL;
    // Nobody as important is ready; then one is.
    if (raddle_yield() != 0) return NULL;
    if (raddle_thread_create(&equal, NULL, pool, 0, same, NULL) != 0 || raddle_yield() != raddle_is_lightweight())
        return NULL;
    pthread_join(equal, NULL);
    pthread_join(low, NULL);
    pthread_join(high, NULL);
    return pool;
}

int main(void) {
    if (raddle_is_lightweight() || raddle_yield() != 0) return 1;
    if (raddle_pool_create(2, "steel") != NULL || !strstr(raddle_error(), "column 1")) return 2;
    if (raddle_policy_check("fifo") != 0 || raddle_policy_check("fifo(") == 0) return 3;
    raddle_pool *pool = raddle_pool_create(1, "priority(3, steal)");
    if (!pool) return fprintf(stderr, "%s\n", raddle_error()), 4;
    static pthread_t threads[N];
    for (long i = 0; i < N; i++)
        if (raddle_thread_create(&threads[i], NULL, pool, -1, body, (void *)i) != 0) return 5;
    long sum = 0;
    for (int i = 0; i < N; i++) {
        void *value;
        if (pthread_join(threads[i], &value) != 0) return 6;
        sum += (long)value;
    }
    if (sum != (long)N * (N - 1) / 2) return 7;
    pthread_t thread;
    void *done;
    if (raddle_thread_create(&thread, NULL, pool, 3, body, NULL) == 0 && raddle_pool_processors(pool) > 0) return 8;
    /* The text is of this failure, and stays when a later call succeeds. */
    if (raddle_pool_processors(pool) > 0 && (strstr(raddle_error(), "fifo(") || !strstr(raddle_error(), "riorit"))) return 11;
    if (raddle_thread_create(&thread, NULL, pool, 0, two, pool) != 0) return 9;
    pthread_join(thread, &done);
    if (!done) return 10;
    struct raddle_stats stats;
    raddle_stats_get(&stats, sizeof stats);
    printf("%d threads, %u processors, order %d %d, spawned %d\n", lightweight, raddle_pool_processors(pool), order[0], order[1],
           (int)stats.spawned);
    raddle_pool_destroy(pool);
    return 0;
}
