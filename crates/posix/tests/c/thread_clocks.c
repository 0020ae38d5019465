// Each thread has a clock of its processor time: what it has computed, not what others have, never going back, and readable by others.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define THREADS 12
#define ROUNDS 30

static double of(clockid_t clock) {
    struct timespec time;
    return clock_gettime(clock, &time) == 0 ? time.tv_sec + time.tv_nsec / 1e9 : -1;
}
static double raw(clockid_t clock) {
    struct timespec time;
    return syscall(SYS_clock_gettime, clock, &time) == 0 ? time.tv_sec + time.tv_nsec / 1e9 : -1;
}
static double used(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_utime.tv_sec + usage.ru_utime.tv_usec / 1e6 + usage.ru_stime.tv_sec + usage.ru_stime.tv_usec / 1e6;
}

static int back, differ, wrong;
static double process_first;
static volatile unsigned long sink;
static void expect(int holds, const char *what) {
    if (!holds) {
        __atomic_fetch_add(&wrong, 1, __ATOMIC_SEQ_CST);
        printf("WRONG: %s\n", what);
    }
}

// Its own time, by what its own clock says: no other clock can tell what it has had.
static void compute(double seconds) {
    double end = of(CLOCK_THREAD_CPUTIME_ID) + seconds;
    while (of(CLOCK_THREAD_CPUTIME_ID) < end)
        for (int i = 0; i < 1000; i++) sink++;
}

static void *runs(void *argument) {
    long which = (long)argument;
    clockid_t own;
    pthread_getcpuclockid(pthread_self(), &own);
    double first = of(CLOCK_THREAD_CPUTIME_ID), last = first, last_used = used();
    for (int i = 0; i < ROUNDS; i++) {
        if (which % 3 == 0) compute(0.0005);
        if (which % 4 == 1 && i == ROUNDS / 2) prctl(PR_SET_TIMERSLACK, 54321, 0, 0, 0);
        if (i % 2) usleep(500);
        else sched_yield();
        double before = of(CLOCK_THREAD_CPUTIME_ID), middle = i % 3 ? of(own) : raw(own), after = raw(CLOCK_THREAD_CPUTIME_ID), rest = used();
        if (before < last || rest < last_used) __atomic_fetch_add(&back, 1, __ATOMIC_SEQ_CST);
        if (middle < before || after < middle) __atomic_fetch_add(&differ, 1, __ATOMIC_SEQ_CST);
        last = after;
        last_used = rest;
    }
    static double sums[THREADS];
    sums[which] = of(CLOCK_THREAD_CPUTIME_ID) - first;
    return &sums[which];
}

static volatile int stop;
static void *computes(void *argument) {
    while (!stop) sink++;
    return argument;
}
static void *sleeps(void *argument) {
    while (!stop) usleep(1000);
    return argument;
}
static int c11(void *argument) {
    double first = of(CLOCK_THREAD_CPUTIME_ID);
    compute(0.001);
    *(double *)argument = of(CLOCK_THREAD_CPUTIME_ID) - first;
    return 0;
}

// Two that have computed since before anybody asked for a clock, without a wait: the clock of one is read by another, then each reads its own.
static volatile int begun, asks;
static void *computed_before(void *argument) {
    __atomic_fetch_add(&begun, 1, __ATOMIC_SEQ_CST);
    while (!asks) sink++;
    compute(0.001);
    return argument;
}
// Who has asked for the number of its clock, and then computes, finds that in it.
static void *computes_before_it_looks(void *argument) {
    clockid_t own;
    pthread_getcpuclockid(pthread_self(), &own);
    double end = of(CLOCK_PROCESS_CPUTIME_ID) + 0.01;
    while (of(CLOCK_PROCESS_CPUTIME_ID) < end)
        for (int i = 0; i < 1000; i++) sink++;
    // Others of the process have had a part of that at most: the first thread, which waits.
    expect(of(own) > 0.002, "what was computed between the number of a clock and the first look at it");
    return argument;
}

static void before_the_first_question(void) {
    pthread_t t[2];
    pthread_create(&t[0], NULL, computes_before_it_looks, NULL);
    pthread_join(t[0], NULL);
    clockid_t clock;
    for (int i = 0; i < 2; i++) pthread_create(&t[i], NULL, computed_before, NULL);
    while (begun < 2) usleep(100);
    expect(pthread_getcpuclockid(t[0], &clock) == 0, "a clock of one that computes already");
    double first = of(clock);
    while (of(clock) < first + 0.002) usleep(100);
    asks = 1;
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
}

int main(void) {
    pthread_t t[THREADS];
    double sum = 0;
    before_the_first_question();
    process_first = of(CLOCK_PROCESS_CPUTIME_ID);
    for (long i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, runs, (void *)i);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(t[i], &result);
        double one = *(double *)result;
        sum += one;
        expect(i % 3 != 0 || one >= 0.0005 * ROUNDS, "one that computed has less than that");
    }
    // What all have had together the process has had.
    expect(sum <= of(CLOCK_PROCESS_CPUTIME_ID) - process_first, "threads have had more than the process");
    printf("back: %d, differ: %d\n", back, differ);
    // Those of others: one that computes goes on, one that sleeps has had less.
    clockid_t clocks[2];
    pthread_create(&t[0], NULL, computes, NULL);
    pthread_create(&t[1], NULL, sleeps, NULL);
    for (int i = 0; i < 2; i++) expect(pthread_getcpuclockid(t[i], &clocks[i]) == 0, "a clock of another thread");
    double begin[2] = {of(clocks[0]), of(clocks[1])}, now;
    do {
        usleep(2000);
        now = of(clocks[0]) - begin[0];
    } while (now >= 0 && now < 0.02);
    expect(now >= 0.02, "the clock of one that computes");
    struct timespec resolution;
    expect(clock_getres(clocks[0], &resolution) == 0, "a resolution");
    // Named, one that computes becomes what the kernel knows, and its clock goes on.
    double before = of(clocks[0]);
    struct sched_param parameters = {0};
    expect(pthread_setschedparam(t[0], SCHED_BATCH, &parameters) == 0, "another thread's class");
    expect(of(clocks[0]) >= before, "the clock of one that came to be a kernel thread");
    stop = 1;
    pthread_join(t[0], NULL);
    pthread_join(t[1], NULL);
    // One that has ended has none. (A join returns while the kernel still knows the thread.)
    while (of(clocks[0]) != -1 || of(clocks[1]) != -1) usleep(100);
    thrd_t thread;
    double result = 0;
    thrd_create(&thread, c11, &result);
    thrd_join(thread, NULL);
    expect(result >= 0.001, "a thread of C11's");
    // The first thread's own.
    before = of(CLOCK_THREAD_CPUTIME_ID);
    compute(0.001);
    expect(of(CLOCK_THREAD_CPUTIME_ID) - before >= 0.001 && used() > 0, "the first thread's");
    printf("wrong: %d\n", wrong);
    return 0;
}
