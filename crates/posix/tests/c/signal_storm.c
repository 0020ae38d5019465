// A million signals: handlers that post a semaphore and write to a pipe, while threads of all kinds work. Nothing is lost.
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 8 };
static sem_t posted;
static int ends[2];
static atomic_long handled, taken, bytes;
static atomic_int stop;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long guarded;

static void posts(int signal) {
    (void)signal;
    long n = atomic_fetch_add(&handled, 1);
    sem_post(&posted);
    if (n % 1000 == 0 && write(ends[1], "x", 1) != 1) abort();
}

static void *takes(void *argument) {
    for (;;) {
        while (sem_wait(&posted) != 0) {}
        if (atomic_load(&stop)) return argument;
        atomic_fetch_add(&taken, 1);
    }
}

static void *works(void *argument) {
    while (!atomic_load(&stop)) {
        pthread_mutex_lock(&mutex);
        guarded++;
        pthread_mutex_unlock(&mutex);
        sched_yield();
    }
    return argument;
}

static void *reads(void *argument) {
    char buffer[64];
    long got;
    while ((got = read(ends[0], buffer, sizeof buffer)) != 0)
        if (got > 0) atomic_fetch_add(&bytes, got);
    return argument;
}

// Raises in a thread of its own, so that each signal is handled before the next.
static void *raises(void *count) {
    for (long i = 0; i < (long)count; i++) raise(SIGUSR1);
    return NULL;
}

int main(int count, char **arguments) {
    long signals = count > 1 ? atol(arguments[1]) : 1000000;
    pthread_t taker[THREADS], worker[THREADS], raiser[2], reader;
    sem_init(&posted, 0, 0);
    if (pipe(ends) != 0) return 1;
    signal(SIGUSR1, posts);
    pthread_create(&reader, NULL, reads, NULL);
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&taker[i], NULL, takes, NULL);
        pthread_create(&worker[i], NULL, works, NULL);
    }
    for (int i = 0; i < 2; i++) pthread_create(&raiser[i], NULL, raises, (void *)(signals / 4));
    // The rest to the process, or to its first thread: this one.
    for (long i = 0; i < signals / 2; i++) i % 2 ? raise(SIGUSR1) : kill(getpid(), SIGUSR1);
    for (int i = 0; i < 2; i++) pthread_join(raiser[i], NULL);
    while (atomic_load(&taken) != atomic_load(&handled)) usleep(1000);
    long all = atomic_load(&handled);
    atomic_store(&stop, 1);
    for (int i = 0; i < THREADS; i++) sem_post(&posted);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(taker[i], NULL);
        pthread_join(worker[i], NULL);
    }
    close(ends[1]);
    pthread_join(reader, NULL);
    // Two signals for the process may become one while the first is pending.
    printf("%d %d\n", all <= signals / 4 * 4 && all >= signals / 4 * 3, atomic_load(&bytes) == (all + 999) / 1000);
    return 0;
}
