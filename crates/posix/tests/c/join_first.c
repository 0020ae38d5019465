// The first thread is joined by another: not yet, until a point in time, by two at once; and it is cancelled while it waits in a handler. The same natively.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int silent[2], cleaned;
static pthread_t first;
static volatile int inside;
static void clean(void *unused) { cleaned++; }
static void handler(int signal) {
    char byte;
    pthread_cleanup_push(clean, NULL);
    inside = 1;
    if (read(silent[0], &byte, 1)) {}
    inside = 2;
    pthread_cleanup_pop(0);
}
static void *joins(void *unused) {
    void *result = NULL;
    int error = pthread_join(first, &result);
    return (void *)(long)(error ? error : result == PTHREAD_CANCELED ? -1 : -2);
}
static void *gives_up(void *unused) {
    pthread_join(first, NULL);
    return NULL;
}
static void *work(void *unused) {
    void *result;
    pthread_t other;
    printf("at once: %s\n", strerror(pthread_tryjoin_np(first, &result)));
    struct timespec past = {1, 0}, soon;
    printf("until long ago: %s\n", strerror(pthread_timedjoin_np(first, &result, &past)));
    clock_gettime(CLOCK_MONOTONIC, &soon);
    soon.tv_nsec += 20000000;
    if (soon.tv_nsec >= 1000000000) soon.tv_sec++, soon.tv_nsec -= 1000000000;
    printf("until soon: %s\n", strerror(pthread_clockjoin_np(first, &result, CLOCK_MONOTONIC, &soon)));
    printf("no such clock: %s\n", strerror(pthread_clockjoin_np(first, &result, CLOCK_PROCESS_CPUTIME_ID, &soon)));
    pthread_create(&other, NULL, gives_up, NULL);
    usleep(20000);
    pthread_cancel(other);
    pthread_join(other, &result);
    printf("who joins it is %s\n", result == PTHREAD_CANCELED ? "cancelled" : "not cancelled");
    pthread_create(&other, NULL, joins, NULL);
    usleep(20000);
    pthread_kill(first, SIGHUP);
    while (!inside) usleep(1000);
    usleep(20000);
    pthread_cancel(first);
    pthread_join(other, &result);
    printf("joined: %s, cleaned %d, left the handler: %d\n", (long)result == -1 ? "cancelled" : "otherwise", cleaned, inside == 2);
    return NULL;
}
int main(void) {
    char byte;
    setlinebuf(stdout);
    if (pipe(silent)) return 1;
    signal(SIGHUP, handler);
    first = pthread_self();
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    pthread_cleanup_push(clean, NULL);
    if (read(silent[0], &byte, 1)) {}
    for (;;) pause();
    pthread_cleanup_pop(0);
}
