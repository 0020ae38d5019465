// What each operation answers on mutexes of every type, protocol and reach, to their holder and to another thread. By main, or by a thread (`thread`).
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t mutex;
static int answers[6];

static struct timespec soon(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_nsec += 10 * 1000 * 1000;
    if (time.tv_nsec >= 1000000000) time.tv_sec++, time.tv_nsec -= 1000000000;
    return time;
}
static int gives_back(int error) {
    if (!error) pthread_mutex_unlock(&mutex);
    return error;
}
static void *another(void *unused) {
    struct timespec later = soon(CLOCK_REALTIME), past = {1, 0}, none = {1, -1}, monotonic = soon(CLOCK_MONOTONIC);
    answers[0] = gives_back(pthread_mutex_trylock(&mutex));
    answers[1] = gives_back(pthread_mutex_timedlock(&mutex, &later));
    answers[2] = gives_back(pthread_mutex_timedlock(&mutex, &past));
    answers[3] = gives_back(pthread_mutex_timedlock(&mutex, &none));
    answers[4] = gives_back(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &monotonic));
    // One without an owner is anybody's to unlock.
    answers[5] = pthread_mutex_unlock(&mutex);
    return unused;
}
static void try(const char *name, int reach, int protocol, int type) {
    pthread_mutexattr_t attributes;
    pthread_t thread;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, type);
    pthread_mutexattr_setprotocol(&attributes, protocol);
    pthread_mutexattr_setpshared(&attributes, reach);
    if (protocol == PTHREAD_PRIO_PROTECT) pthread_mutexattr_setprioceiling(&attributes, 10 + type);
    printf("%s: init %d", name, pthread_mutex_init(&mutex, &attributes));
    // With a ceiling, and without a real-time class, the first one may be refused, and the next one not.
    int error = pthread_mutex_lock(&mutex);
    printf(" lock %d", error);
    if (error) printf(", %d", error = pthread_mutex_lock(&mutex));
    if (error) {
        puts(" refused");
        return;
    }
    int tried = pthread_mutex_trylock(&mutex);
    struct timespec time = soon(CLOCK_REALTIME);
    int again = type == PTHREAD_MUTEX_NORMAL || type == PTHREAD_MUTEX_ADAPTIVE_NP ? pthread_mutex_timedlock(&mutex, &time) : pthread_mutex_lock(&mutex);
    printf(" again %d %d", gives_back(tried), gives_back(again));
    pthread_create(&thread, NULL, another, NULL);
    pthread_join(thread, NULL);
    printf(" another %d %d %d %d %d, unlocks %d", answers[0], answers[1], answers[2], answers[3], answers[4], answers[5]);
    if (answers[5]) printf(", destroy %d, unlock %d", pthread_mutex_destroy(&mutex), pthread_mutex_unlock(&mutex));
    if (type == PTHREAD_MUTEX_ERRORCHECK) printf(", %d", pthread_mutex_unlock(&mutex));
    int now = -1, before = -1;
    error = pthread_mutex_getprioceiling(&mutex, &now);
    int set = pthread_mutex_setprioceiling(&mutex, 12, &before);
    printf(", ceiling %d %d, set %d %d, destroy %d\n", error, now, set, before, pthread_mutex_destroy(&mutex));
}
static void *tries(void *unused) {
    const char *reaches[] = {"", "shared "}, *protocols[] = {"none", "inherit", "protect"};
    const char *types[] = {"normal", "recursive", "errorcheck", "adaptive"};
    char name[64];
    for (int reach = 0; reach < 2; reach++)
        for (int protocol = 0; protocol < 3; protocol++)
            for (int type = 0; type < 4; type++) {
                snprintf(name, sizeof name, "%s%s %s", reaches[reach], protocols[protocol], types[type]);
                try(name, reach, protocol, type);
            }
    return unused;
}
static void *ends(void *unused) { return unused; }

int main(int count, char **words) {
    pthread_t thread;
    if (count > 1 && !strcmp(words[1], "thread")) return pthread_create(&thread, NULL, tries, NULL) || pthread_join(thread, NULL);
    pthread_create(&thread, NULL, ends, NULL);
    pthread_join(thread, NULL);
    tries(NULL);
    return 0;
}
