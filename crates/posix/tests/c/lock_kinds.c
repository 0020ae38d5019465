/* Each lock of raddle.h keeps threads apart: more threads than processors count under it, with places on their stacks. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <raddle.h>

#define THREADS 4
#define TURNS 100 /* few: who spins may wait for a kernel thread that has no core */

static raddle_lock *lock;
static long count, inside;

static void *turns(void *unused) {
    (void)unused;
    raddle_place place;
    for (int turn = 0; turn < TURNS; turn++) {
        raddle_lock_acquire(lock, &place);
        if (++inside != 1) abort();
        count++;
        inside--;
        raddle_lock_release(lock, &place);
    }
    return NULL;
}

int main(int argc, char **argv) {
    (void)argv;
    const char *kinds[] = {"fair", "spin", "mcs", "h1", "h2", "hemlock", "cna", "reciprocating", NULL};
    if (argc > 1) {
        // The clusters that are asked for are none: what needs them says so, and the others work.
        if (raddle_lock_create("cna") || raddle_clusters() != -1 || raddle_cluster() != -1) return 5;
        printf("%s\n", raddle_error());
        raddle_lock_destroy(lock = raddle_lock_create("h2"));
        return lock ? 0 : 6;
    }
    for (int kind = 0; kind < 9; kind++) {
        lock = raddle_lock_create(kinds[kind]);
        if (!lock) return fprintf(stderr, "%s\n", raddle_error()), 1;
        count = 0;
        pthread_t threads[THREADS];
        for (int thread = 0; thread < THREADS; thread++)
            if (pthread_create(&threads[thread], NULL, turns, NULL)) return 2;
        for (int thread = 0; thread < THREADS; thread++) pthread_join(threads[thread], NULL);
        printf("%s %ld\n", kinds[kind] ? kinds[kind] : "by default", count);
        raddle_lock_destroy(lock);
    }
    raddle_lock_destroy(NULL);
    if (raddle_lock_create("ticket") || !strstr(raddle_error(), "there is no lock `ticket`")) return 3;
    if (raddle_clusters() < 1 || raddle_cluster() < 0 || raddle_cluster() >= raddle_clusters()) return 4;
    return 0;
}
