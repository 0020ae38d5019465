// Counts on the rule that a new descriptor has the lowest free number, while other threads block in the kernel and compute, so that the
// runtime looks at what they do. Argument: milliseconds. Prints how often the rule did not hold.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <time.h>
#include <unistd.h>

static atomic_int over;

// Off the core for five milliseconds, again and again: nobody raises the semaphore.
static void *blocks(void *semaphore) {
    struct sembuf lower = {.sem_op = -1};
    struct timespec limit = {.tv_nsec = 5000000};
    while (!atomic_load(&over))
        if (semtimedop((int)(long)semaphore, &lower, 1, &limit) == 0) abort();
    return NULL;
}

static void *computes(void *unused) {
    while (!atomic_load(&over)) {}
    return unused;
}

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    int semaphore = semget(IPC_PRIVATE, 1, 0600);
    if (semaphore < 0) return 3;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, i ? blocks : computes, (void *)(long)semaphore);
    long until = now() + atol(arguments[1]), wrong = 0, rounds = 0;
    int lowest = dup(0);
    for (; now() < until; rounds++) {
        close(lowest);
        int again = dup(0);
        if (again == lowest) continue;
        wrong++;
        close(again);
        lowest = dup(0);
    }
    atomic_store(&over, 1);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    semctl(semaphore, 0, IPC_RMID);
    printf("%ld wrong\n", wrong);
    return rounds == 0;
}
