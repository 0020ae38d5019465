/* `raddle bench quantum`: how long a thread that is ready waits behind threads that compute. Compiled without quantum checks: its own code is short.
 *
 *     PROGRAM ready|periodic BUSY SAMPLES
 *
 * ready: BUSY threads compute; now and then one of them makes an urgent thread ready, by a semaphore, and computes on. Measured is the time from there
 * to the urgent thread's first step, on the clock and in processor time of the process, of which another program cannot take any.
 * periodic: a thread of the same priority sleeps until each next multiple of 20 ms; measured is how late it runs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef unsigned long work_function(unsigned long seed);
typedef int create_function(pthread_t *, const pthread_attr_t *, void *pool, int priority, void *(*)(void *), void *);

static work_function *work;
static atomic_int over, asked;
static atomic_ulong sink;
static sem_t ready;
static long ready_at, ready_at_cpu;

static long now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void *busy(void *seed) {
    unsigned long of_this_thread = (unsigned long)seed;
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        of_this_thread = work(of_this_thread);
        if (atomic_load_explicit(&asked, memory_order_relaxed) && atomic_exchange(&asked, 0)) {
            ready_at = now(CLOCK_MONOTONIC);
            ready_at_cpu = now(CLOCK_PROCESS_CPUTIME_ID);
            sem_post(&ready);
        }
    }
    atomic_fetch_add(&sink, of_this_thread);
    return 0;
}

static int compare(const void *a, const void *b) {
    long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}

static long quantile(const long *sorted, long count, double share) {
    long at = (long)(share * (double)count);
    return sorted[at < count ? at : count - 1];
}

static long samples, *late, *late_cpu;

static void *urgent(void *unused) {
    (void)unused;
    for (long i = 0; i < samples; i++) {
        atomic_store(&asked, 1);
        while (sem_wait(&ready) != 0)
            ;
        late_cpu[i] = now(CLOCK_PROCESS_CPUTIME_ID) - ready_at_cpu;
        late[i] = now(CLOCK_MONOTONIC) - ready_at;
    }
    atomic_store(&over, 1);
    return 0;
}

static void *periodic(void *unused) {
    (void)unused;
    long at = now(CLOCK_MONOTONIC);
    for (long i = 0; i < samples; i++) {
        at += 20000000;
        struct timespec until = {at / 1000000000, at % 1000000000};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, 0) != 0)
            ;
        long time = now(CLOCK_MONOTONIC);
        late_cpu[i] = late[i] = time - at;
        /* A period that was missed is not made up for. */
        while (at + 20000000 < time)
            at += 20000000;
    }
    atomic_store(&over, 1);
    return 0;
}

int raddle_bench_quantum(int count, char **arguments, work_function *function) {
    if (count != 4)
        return 2;
    int is_ready = !strcmp(arguments[1], "ready"), threads = atoi(arguments[2]);
    samples = atol(arguments[3]);
    if (threads < 1 || threads > 64 || samples < 1)
        return 2;
    work = function;
    late = calloc((size_t)samples, sizeof *late);
    late_cpu = calloc((size_t)samples, sizeof *late_cpu);
    sem_init(&ready, 0, 0);
    create_function *create;
    *(void **)&create = dlsym(RTLD_DEFAULT, "raddle_thread_create");
    if (!late || !late_cpu || !create)
        return 3;
    pthread_t ids[65];
    for (int i = 0; i < threads; i++)
        if (create(&ids[i], 0, 0, 1, busy, (void *)(unsigned long)(i + 1)) != 0)
            return 4;
    if (create(&ids[threads], 0, 0, is_ready ? 0 : 1, is_ready ? urgent : periodic, 0) != 0)
        return 4;
    for (int i = 0; i <= threads; i++)
        pthread_join(ids[i], 0);
    qsort(late, (size_t)samples, sizeof *late, compare);
    qsort(late_cpu, (size_t)samples, sizeof *late_cpu, compare);
    printf("{\"p50_ns\":%ld,\"p99_ns\":%ld,\"p999_ns\":%ld,\"cpu_p50_ns\":%ld,\"cpu_p99_ns\":%ld,\"cpu_p999_ns\":%ld}\n",
           quantile(late, samples, 0.5), quantile(late, samples, 0.99), quantile(late, samples, 0.999),
           quantile(late_cpu, samples, 0.5), quantile(late_cpu, samples, 0.99), quantile(late_cpu, samples, 0.999));
    return 0;
}
