// Asynchronous cancellation acts at once where a request is there already: when the type is set, when it is let in
// again, and when a thread asks for its own end. Nothing of that is a cancellation point.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_int begun, asked, went_on;

static void until_asked(void) {
    atomic_store(&begun, 1);
    while (!atomic_load(&asked)) {}
}
static void *sets_the_type(void *unused) {
    until_asked();
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    atomic_store(&went_on, 1);
    return unused;
}
static void *lets_it_in_again(void *unused) {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    until_asked();
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    atomic_store(&went_on, 1);
    return unused;
}
static void *sets_the_type_first(void *unused) {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    until_asked();
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    atomic_store(&went_on, 2);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    atomic_store(&went_on, 1);
    return unused;
}
static void *lets_it_in_deferred(void *unused) {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    until_asked();
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    atomic_store(&went_on, 1);
    pthread_testcancel();
    atomic_store(&went_on, 3);
    return unused;
}
static void *cancels_itself(void *unused) {
    until_asked();
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    pthread_cancel(pthread_self());
    atomic_store(&went_on, 1);
    return unused;
}

int main(void) {
    static const struct {
        const char *name;
        void *(*body)(void *);
        int by_itself;
    } ways[] = {
        {"sets the type", sets_the_type, 0},
        {"lets it in again", lets_it_in_again, 0},
        {"sets the type before it lets it in", sets_the_type_first, 0},
        {"lets it in, deferred", lets_it_in_deferred, 0},
        {"cancels itself", cancels_itself, 1},
    };
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++) {
        pthread_t thread;
        void *value;
        atomic_store(&begun, 0), atomic_store(&asked, 0), atomic_store(&went_on, 0);
        if (pthread_create(&thread, NULL, ways[i].body, NULL)) return 1;
        while (!atomic_load(&begun)) {}
        if (!ways[i].by_itself) pthread_cancel(thread);
        atomic_store(&asked, 1);
        pthread_join(thread, &value);
        printf("%s: cancelled %d, went on to %d\n", ways[i].name, value == PTHREAD_CANCELED, atomic_load(&went_on));
    }
    return 0;
}
