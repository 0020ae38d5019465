// So many threads ask for kernel threads of their own at once; with "few" the process may have some dozens only.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

static int own, refused, others, leaked;
static pthread_barrier_t all;

static void *asks(void *argument) {
    if (prctl(PR_SET_TIMERSLACK, 11111, 0, 0, 0) == 0) __sync_fetch_and_add(&own, 1);
    else if (errno == EAGAIN) __sync_fetch_and_add(&refused, 1);
    else __sync_fetch_and_add(&others, 1);
    pthread_barrier_wait(&all);
    return argument;
}
static void *innocent(void *argument) {
    __sync_fetch_and_add(&leaked, prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) == 11111);
    return (void *)1L;
}

int main(int count, char **arguments) {
    long threads = atol(arguments[1]), made = 0;
    pthread_t *t = calloc(threads, sizeof *t);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    // The limit is the user's, so it is one that no other process has; it does not hold for root.
    if (count > 2 && (setresgid(54321, 54321, 54321) != 0 || setresuid(54321, 54321, 54321) != 0) && geteuid() == 0) return 2;
    pthread_barrier_init(&all, NULL, threads + 1);
    pthread_create(&t[0], &small, innocent, NULL);
    pthread_join(t[0], NULL);
    if (count > 2) {
        struct rlimit limit = {40, 40};
        setrlimit(RLIMIT_NPROC, &limit);
    }
    for (long i = 0; i < threads; i++) made += pthread_create(&t[i], &small, asks, NULL) == 0;
    if (made != threads) return 3;
    pthread_barrier_wait(&all);
    for (long i = 0; i < threads; i++) pthread_join(t[i], NULL);
    printf("own: %d", own);
    printf(", refused: %s, other errors: %d, leaked: %d, ", refused ? "EAGAIN" : "none", others, leaked);
    long after = 0;
    for (int i = 0; i < 100; i++) {
        void *result;
        pthread_create(&t[0], &small, innocent, NULL);
        pthread_join(t[0], &result);
        after += (long)result;
    }
    printf("after: %ld\n", after - leaked);
    return others;
}
