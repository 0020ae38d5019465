// turns [ROUNDS]: threads that come back from blocks of which nothing had told the runtime, and find their turn there, while signals, cancellations and jumps come to
// them: each does what it does natively. More threads than processors compute meanwhile.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 8 };
static int rounds = 40;
// Past the library.
static long raw(long number, long a, long b, long c) {
#ifdef __x86_64__
    long answer;
    __asm__ volatile("syscall" : "=a"(answer) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return answer;
#else
    long answer = syscall(number, a, b, c, 0, 0, 0);
    return answer < 0 ? -errno : answer;
#endif
}
static void nap(long microseconds) {
    struct timespec time = {0, microseconds * 1000};
    raw(SYS_nanosleep, (long)&time, 0, 0);
}
static volatile int over;
static __thread volatile int handled, cleaned;
static __thread sigjmp_buf place;
static __thread volatile int jumps;
static void counts(int signal) { handled++; }
static void leaves(int signal) {
    if (jumps) {
        jumps = 0;
        siglongjmp(place, 1);
    }
}
static void ends(int signal) { pthread_exit((void *)7); }
static void *computes(void *unused) {
    volatile double x = 1;
    while (!over) {
        for (int i = 0; i < 2000; i++) x = x * 1.0000001;
        sched_yield();
    }
    return NULL;
}
// Floats over blocks: what the runtime does at a return must not be seen.
static void *floats(void *argument) {
    long seed = (long)argument;
    double sum = 0, same = 0;
    for (int round = 0; round < rounds; round++) {
        double a = seed + round, b = a * 1.5, c = b * 1.25, d = c / 3;
        __asm__ volatile("" : "+x"(a), "+x"(b), "+x"(c), "+x"(d));
        nap(1000 + 500 * (round % 8));
        __asm__ volatile("" : "+x"(a), "+x"(b), "+x"(c), "+x"(d));
        sum += a + b + c + d;
        same += (seed + round) * (1 + 1.5 + 1.5 * 1.25) + (seed + round) * 1.5 * 1.25 / 3;
    }
    return (void *)(long)(sum - same > 1e-6 || same - sum > 1e-6);
}
// Signals end some of its blocks.
static void *interrupted(void *unused) {
    long bad = 0;
    for (int round = 0; round < rounds; round++) {
        struct timespec time = {0, 3000000};
        long answer = raw(SYS_nanosleep, (long)&time, 0, 0);
        if (answer != 0 && answer != -EINTR) bad++;
    }
    return (void *)bad;
}
// A handler leaves its blocks by a jump.
static void *left(void *unused) {
    static __thread volatile int round;
    for (round = 0; round < rounds; round++)
        if (!sigsetjmp(place, 1)) {
            jumps = 1;
            nap(3000);
            jumps = 0;
        }
    return NULL;
}
static int file;
static void cleans(void *argument) { ++*(int *)argument; }
static int clean;
static void *locks(void *argument) {
    pthread_cleanup_push(cleans, &clean);
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    int own = open(path, O_RDWR);
    flock(own, LOCK_EX);
    nap(1500);
    flock(own, LOCK_UN);
    close(own);
    // Deferred: it ends here, if not before.
    while (argument) pthread_testcancel(), sched_yield();
    pthread_cleanup_pop(1);
    return NULL;
}
static void *waits(void *unused) {
    for (;;) nap(3000);
    return NULL;
}
int main(int count_of_words, char **words) {
    if (count_of_words > 1) rounds = atoi(words[1]);
    pthread_t compute[2], threads[THREADS];
    struct sigaction count = {.sa_handler = counts}, leave = {.sa_handler = leaves}, end = {.sa_handler = ends};
    sigaction(SIGUSR1, &count, NULL), sigaction(SIGUSR2, &leave, NULL), sigaction(SIGALRM, &end, NULL);
    for (int i = 0; i < 2; i++) pthread_create(&compute[i], NULL, computes, NULL);

    long bad = 0;
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, floats, (void *)i);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        bad += (long)result;
    }
    printf("floats: %ld wrong\n", bad);

    void *(*const met[])(void *) = {interrupted, left};
    for (int kind = 0; kind < 2; kind++) {
        bad = 0;
        for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, met[kind], NULL);
        for (int n = 0; n < 200; n++) {
            pthread_kill(threads[n % THREADS], kind ? SIGUSR2 : SIGUSR1);
            usleep(300);
        }
        for (int i = 0; i < THREADS; i++) {
            void *result;
            pthread_join(threads[i], &result);
            bad += (long)result;
        }
        printf("%s: %ld wrong\n", kind ? "left" : "interrupted", bad);
    }

    file = fileno(tmpfile());
    long cancelled = 0;
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, locks, (void *)1);
    usleep(4000);
    for (int i = 0; i < THREADS; i++) pthread_cancel(threads[i]), usleep(500);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        cancelled += result == PTHREAD_CANCELED;
    }
    printf("cancelled: %ld, cleaned %d\n", cancelled, clean);

    long ended = 0;
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, waits, NULL);
    usleep(20000);
    for (int i = 0; i < THREADS; i++) pthread_kill(threads[i], SIGALRM), usleep(700);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        ended += result == (void *)7;
    }
    printf("ended by handlers: %ld\n", ended);
    over = 1;
    for (int i = 0; i < 2; i++) pthread_join(compute[i], NULL);
}
