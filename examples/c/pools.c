/* A pool under a policy of its own choice, and a hundred threads in it.
 *
 *     cc pools.c $(pkg-config --cflags --libs raddle) -o pools && ./pools
 */
#include <raddle.h>
#include <stdio.h>

static void *body(void *argument) {
    return argument;
}

int main(void) {
    raddle_pool *pool = raddle_pool_create(2, "priority(2, steal)");
    if (!pool) {
        fprintf(stderr, "%s\n", raddle_error());
        return 1;
    }
    pthread_t threads[100];
    for (long i = 0; i < 100; i++) {
        /* Even ones go first. They are pthreads: joined, named and cancelled as ever. */
        if (raddle_thread_create(&threads[i], NULL, pool, i % 2, body, (void *)i) != 0) {
            fprintf(stderr, "%s\n", raddle_error());
            return 1;
        }
    }
    long sum = 0;
    for (int i = 0; i < 100; i++) {
        void *value;
        pthread_join(threads[i], &value);
        sum += (long)value;
    }
    printf("sum %ld on %s threads\n", sum, raddle_pool_processors(pool) > 0 ? "lightweight" : "kernel");
    raddle_pool_destroy(pool);
    return 0;
}
