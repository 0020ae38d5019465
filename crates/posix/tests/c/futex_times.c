// The time limit of a wait on a word: from now, or a point in time by either clock; none is over too early.
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT_NS = 20000000 };

static unsigned word;

static struct timespec later(clockid_t clock, long ns) {
    struct timespec time = {0, 0};
    if (clock >= 0) clock_gettime(clock, &time);
    time.tv_nsec += ns;
    time.tv_sec += time.tv_nsec / 1000000000, time.tv_nsec %= 1000000000;
    return time;
}
static long long now_ns(void) {
    struct timespec time = later(CLOCK_MONOTONIC, 0);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}
static void wait_on(const char *name, int operation, struct timespec time, unsigned expected) {
    long long begun = now_ns();
    long result = syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, expected, &time, NULL, -1);
    int error = errno;
    printf("%s: %ld %s, as long as it should %d\n", name, result, strerrorname_np(error),
           error != ETIMEDOUT || strstr(name, "past") || now_ns() - begun >= LIMIT_NS);
}

static void *waits(void *unused) {
    // By no clock: from now.
    struct timespec from_now = later(-1, LIMIT_NS), past = {1, 0}, wrong = {1, 1000000000}, before_all = {-1, 0};
    wait_on("from now", FUTEX_WAIT, from_now, 0);
    wait_on("until, monotonic", FUTEX_WAIT_BITSET, later(CLOCK_MONOTONIC, LIMIT_NS), 0);
    wait_on("until, real time", FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, later(CLOCK_REALTIME, LIMIT_NS), 0);
    wait_on("past, monotonic", FUTEX_WAIT_BITSET, past, 0);
    wait_on("past, real time", FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, past, 0);
    wait_on("past by the other clock", FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, later(CLOCK_MONOTONIC, LIMIT_NS), 0);
    wait_on("another value", FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, later(CLOCK_REALTIME, LIMIT_NS), 1);
    wait_on("no time", FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, wrong, 0);
    wait_on("no time, from now", FUTEX_WAIT, wrong, 0);
    wait_on("before all times", FUTEX_WAIT_BITSET, before_all, 0);
    return unused;
}

int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, waits, NULL) || pthread_join(thread, NULL)) return 1;
    return 0;
}
