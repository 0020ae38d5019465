// Threads that wait for mutexes which others hold, one that sleeps and the first one, beside one that computes: the
// program asks for a dump of itself.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static pthread_mutex_t sleepers = PTHREAD_MUTEX_INITIALIZER, firsts = PTHREAD_MUTEX_INITIALIZER;
static volatile int stop;

static void *holder(void *unused) {
    pthread_setname_np(pthread_self(), "holder");
    pthread_mutex_lock(&sleepers);
    while (!stop) usleep(1000);
    pthread_mutex_unlock(&sleepers);
    return unused;
}

static void *waiter(void *mutex) {
    pthread_setname_np(pthread_self(), "waiter");
    pthread_mutex_lock(mutex);
    pthread_mutex_unlock(mutex);
    return NULL;
}

static void *computer(void *unused) {
    pthread_setname_np(pthread_self(), "computer");
    while (!stop) {}
    return unused;
}

int main(void) {
    pthread_t threads[4];
    alarm(60);
    pthread_mutex_lock(&firsts);
    pthread_create(threads, NULL, holder, NULL);
    while (!pthread_mutex_trylock(&sleepers)) pthread_mutex_unlock(&sleepers), usleep(1000);
    pthread_create(threads + 1, NULL, waiter, &sleepers);
    pthread_create(threads + 2, NULL, waiter, &firsts);
    pthread_create(threads + 3, NULL, computer, NULL);
    // Whoever reads the dump says when it is all there: a line on standard input, or its end.
    for (char byte; kill(getpid(), SIGWINCH), read(0, &byte, 1) == 1 && byte != '\n';) {}
    stop = 1;
    pthread_mutex_unlock(&firsts);
    for (int k = 0; k < 4; k++) pthread_join(threads[k], NULL);
    return 0;
}
