// The program's first thread is cancelled while it waits, in a program that has threads; the process outlives it. The argument says
// what it waits in.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t none, disabled;
static pthread_t first, other;
static sem_t end;

// Whom the first thread joins.
static void *waits(void *unused) {
    sem_wait(&end);
    return unused;
}
static void cleans(void *what) {
    printf("cleaned after %s, mutex %s\n", (char *)what, pthread_mutex_trylock(&mutex) == EBUSY ? "held" : "free");
    pthread_mutex_unlock(&mutex);
}
static void *cancels(void *unused) {
    void *result;
    usleep(5000);
    pthread_cancel(first);
    // Where the first thread has its cancellation disabled, it is told when to go on.
    sem_post(&disabled);
    printf("joined: %d", pthread_join(first, &result));
    printf(", cancelled: %d\n", result == PTHREAD_CANCELED);
    // Whoever the first thread has joined in vain can be joined still.
    sem_post(&end);
    if (other) printf("the other one joined: %d\n", pthread_join(other, NULL));
    return unused;
}

int main(int count, char **words) {
    char *what = count > 1 ? words[1] : "sem";
    struct timespec late = {time(NULL) + 1000, 0};
    pthread_t thread;
    int old;
    setbuf(stdout, NULL);
    first = pthread_self();
    sem_init(&none, 0, 0);
    sem_init(&disabled, 0, 0);
    sem_init(&end, 0, 0);
    if (strstr(what, "join")) pthread_create(&other, NULL, waits, NULL);
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(cleans, what);
    if (!strcmp(what, "requested") || !strcmp(what, "disabled")) pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    pthread_create(&thread, NULL, cancels, NULL);
    pthread_detach(thread);
    if (!strcmp(what, "cond"))
        for (;;) pthread_cond_wait(&condition, &mutex);
    if (!strcmp(what, "cond, timed"))
        for (;;) pthread_cond_timedwait(&condition, &mutex, &late);
    if (!strcmp(what, "sem, timed")) sem_timedwait(&none, &late);
    if (!strcmp(what, "join")) pthread_join(other, NULL);
    if (!strcmp(what, "timedjoin")) pthread_timedjoin_np(other, NULL, &late);
    if (!strcmp(what, "clockjoin")) pthread_clockjoin_np(other, NULL, CLOCK_REALTIME, &late);
    if (!strcmp(what, "epoll_pwait2")) {
        struct epoll_event event;
        epoll_pwait2(epoll_create1(0), &event, 1, NULL, NULL);
    }
    if (!strcmp(what, "requested")) usleep(20000);
    // Not ended while that is disabled, and ended at the next point when it is not any more.
    if (!strcmp(what, "disabled")) printf("waited: %d\n", sem_wait(&disabled));
    if (!strcmp(what, "requested") || !strcmp(what, "disabled")) pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
    sem_wait(&none);
    puts("WRONG");
    pthread_cleanup_pop(0);
    return 0;
}
