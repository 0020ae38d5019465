// C11's threads, locks and conditions: what each call answers, in a thread and in the first one. The same natively.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <threads.h>
#include <time.h>

static mtx_t held, timed, again, lock;
static cnd_t changed;
static once_flag once = ONCE_FLAG_INIT;
static atomic_int ran, begun, sleeps, ended;
static int turn, woken;
static struct timespec left;

static const char *name(int answer) {
    switch (answer) {
    case thrd_success: return "success";
    case thrd_busy: return "busy";
    case thrd_error: return "error";
    case thrd_nomem: return "no memory";
    case thrd_timedout: return "timed out";
    default: return "another";
    }
}
static void runs_once(void) { ran++; }
static void handler(int signal) { (void)signal; }

static int returns(void *number) {
    call_once(&once, runs_once);
    return *(int *)number;
}
static int exits(void *number) {
    call_once(&once, runs_once);
    thrd_exit(-*(int *)number);
}
static int ends(void *argument) {
    (void)argument;
    ended = 1;
    return 0;
}
static int sleeps_long(void *argument) {
    (void)argument;
    struct timespec time = {100000, 0};
    begun = 1;
    int answer = thrd_sleep(&time, &left);
    sleeps = 1;
    return answer;
}
static int waits(void *argument) {
    (void)argument;
    mtx_lock(&lock);
    begun = begun + 1;
    while (!turn) cnd_wait(&changed, &lock);
    woken++;
    mtx_unlock(&lock);
    return 0;
}
static int itself(void *argument) {
    (void)argument;
    printf("joins itself: %s\n", name(thrd_join(thrd_current(), NULL)));
    printf("itself %d\n", thrd_equal(thrd_current(), thrd_current()) != 0);
    return 0;
}

static int all(void *who) {
    thrd_t thread, some[4];
    int number = 7, result = 0;
    struct timespec past = {1, 0}, none = {0, 1000000000}, short_one = {0, 1000};
    printf("%s\n", (char *)who);
    printf("returns: %s", name(thrd_create(&thread, returns, &number)));
    printf(" %d", thrd_equal(thread, thrd_current()) != 0);
    printf(" %s", name(thrd_join(thread, &result)));
    printf(" %d\n", result);
    printf("exits: %s", name(thrd_create(&thread, exits, &number)));
    printf(" %s", name(thrd_join(thread, &result)));
    printf(" %d, once %d\n", result, ran);
    thrd_create(&thread, returns, &number);
    printf("without a place: %s\n", name(thrd_join(thread, NULL)));
    ended = 0;
    thrd_create(&thread, ends, NULL);
    printf("detached: %s\n", name(thrd_detach(thread)));
    while (!ended) thrd_yield();
    thrd_create(&thread, itself, NULL);
    thrd_join(thread, NULL);

    printf("held: %s", name(mtx_trylock(&held)));
    printf(" %s", name(mtx_timedlock(&timed, &past)));
    printf(" %s\n", name(mtx_timedlock(&timed, &none)));
    printf("again: %s", name(mtx_lock(&again)));
    printf(" %s", name(mtx_trylock(&again)));
    for (int i = 0; i < 3; i++) printf(" %s", name(mtx_unlock(&again)));
    printf("\n");
    mtx_lock(&lock);
    printf("waits: %s", name(cnd_timedwait(&changed, &lock, &past)));
    printf(" %s\n", name(cnd_timedwait(&changed, &lock, &none)));
    mtx_unlock(&lock);
    turn = woken = begun = 0;
    for (int i = 0; i < 4; i++) thrd_create(&some[i], waits, NULL);
    while (begun < 4) thrd_yield();
    mtx_lock(&lock);
    turn = 1;
    printf("woken: %s", name(cnd_signal(&changed)));
    printf(" %s", name(cnd_broadcast(&changed)));
    mtx_unlock(&lock);
    for (int i = 0; i < 4; i++) thrd_join(some[i], NULL);
    printf(" %d\n", woken);

    printf("sleeps: %d", thrd_sleep(&short_one, NULL));
    printf(" %d\n", thrd_sleep(&none, &left));
    begun = sleeps = 0;
    left.tv_sec = left.tv_nsec = 0;
    thrd_create(&thread, sleeps_long, NULL);
    while (!begun) thrd_yield();
    // Repeated, since the first may come before it sleeps.
    while (!sleeps) pthread_kill(thread, SIGUSR1), thrd_sleep(&short_one, NULL);
    thrd_join(thread, &result);
    printf("interrupted: %d, left %d\n", result, 0 < left.tv_sec && left.tv_sec <= 100000);
    return 0;
}

int main(void) {
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    mtx_init(&held, mtx_plain);
    mtx_init(&timed, mtx_timed);
    mtx_init(&again, mtx_plain | mtx_recursive);
    mtx_init(&lock, mtx_plain);
    cnd_init(&changed);
    mtx_lock(&held);
    mtx_lock(&timed);
    all("first");
    thrd_t thread;
    thrd_create(&thread, all, "thread");
    thrd_join(thread, NULL);
    mtx_unlock(&held);
    mtx_unlock(&timed);
    mtx_destroy(&held), mtx_destroy(&timed), mtx_destroy(&again), mtx_destroy(&lock);
    cnd_destroy(&changed);
    return 0;
}
