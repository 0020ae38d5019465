// What can be asked of threads: joins of all kinds, attributes, names, keys, exits, cancellation. Prints one line for each; the same natively.
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static void check(const char *what, int right) {
    printf("%s: %s\n", what, right ? "right" : "WRONG");
}

static struct timespec in_ms(clockid_t clock, long ms) {
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_nsec += ms % 1000 * 1000000;
    t.tv_sec += ms / 1000 + t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static sem_t gate;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *waits(void *argument) {
    while (sem_wait(&gate) != 0) {}
    return argument;
}

static void joins(void) {
    pthread_t t;
    void *value = NULL;
    sem_init(&gate, 0, 0);
    pthread_create(&t, NULL, waits, (void *)7L);
    check("tryjoin of a running one", pthread_tryjoin_np(t, &value) == EBUSY);
    struct timespec soon = in_ms(CLOCK_REALTIME, 20);
    check("timedjoin in vain", pthread_timedjoin_np(t, &value, &soon) == ETIMEDOUT);
    soon = in_ms(CLOCK_MONOTONIC, 20);
    check("clockjoin in vain", pthread_clockjoin_np(t, &value, CLOCK_MONOTONIC, &soon) == ETIMEDOUT);
    sem_post(&gate);
    soon = in_ms(CLOCK_REALTIME, 60000);
    check("timedjoin", pthread_timedjoin_np(t, &value, &soon) == 0 && value == (void *)7L);
    check("kill with 0 of itself", pthread_kill(pthread_self(), 0) == 0);
    check("join of itself", pthread_join(pthread_self(), NULL) == EDEADLK);
    pthread_create(&t, NULL, waits, NULL);
    check("detach", pthread_detach(t) == 0);
    check("detach again", pthread_detach(t) == EINVAL);
    check("join of a detached one", pthread_join(t, NULL) == EINVAL);
    sem_post(&gate);
}

static void *joins_itself(void *argument) {
    (void)argument;
    check("join of itself, in a thread", pthread_join(pthread_self(), NULL) == EDEADLK);
    check("self is equal", pthread_equal(pthread_self(), pthread_self()));
    return NULL;
}

static void *stack_in(void *argument) {
    pthread_attr_t attributes;
    char here;
    void *low;
    size_t size;
    int state;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return NULL;
    pthread_attr_getstack(&attributes, &low, &size);
    pthread_attr_getdetachstate(&attributes, &state);
    // Where it runs is told, too.
    cpu_set_t told, own;
    pthread_attr_getaffinity_np(&attributes, sizeof told, &told);
    pthread_getaffinity_np(pthread_self(), sizeof own, &own);
    pthread_attr_destroy(&attributes);
    if (!CPU_EQUAL(&told, &own)) return NULL;
    int inside = &here >= (char *)low && &here < (char *)low + size && state == PTHREAD_CREATE_JOINABLE;
    return (void *)(long)(inside && size >= *(size_t *)argument - 32768);
}

static void *given_low;
static void *on_given(void *argument) {
    char here;
    sched_yield();
    return (void *)(long)(&here >= (char *)given_low && &here < (char *)given_low + (size_t)argument);
}

static int use(volatile char *stack, size_t size) {
    for (size_t i = 0; i < size; i += 4096) stack[i] = 1;
    return stack[size / 2];
}
static void *deep(void *argument) {
    volatile char large[7 << 20];
    return (void *)((long)argument + use(large, sizeof large) - large[0]);
}

static void attributes(void) {
    pthread_t t;
    void *value;
    pthread_attr_t a;
    pthread_attr_init(&a);
    for (size_t size = 64 << 10; size <= 64 << 20; size *= 8) {
        pthread_attr_setstacksize(&a, size);
        pthread_create(&t, &a, stack_in, &size);
        pthread_join(t, &value);
        check("stack size", value == (void *)1L);
    }
    size_t size = 256 << 10;
    given_low = aligned_alloc(4096, size);
    pthread_attr_setstack(&a, given_low, size);
    check("create on a given stack", pthread_create(&t, &a, on_given, (void *)size) == 0);
    pthread_join(t, &value);
    check("given stack", value == (void *)1L);
    free(given_low);
    pthread_attr_destroy(&a);
    pthread_create(&t, NULL, deep, (void *)5L);
    pthread_join(t, &value);
    check("eight megabytes by default", value == (void *)5L);
}

static void *named(void *argument) {
    char name[16];
    check("first name", pthread_getname_np(pthread_self(), name, sizeof name) == 0 && strncmp(name, "threads_all", 11) == 0);
    check("setname", pthread_setname_np(pthread_self(), "fifteen letters") == 0);
    check("getname", pthread_getname_np(pthread_self(), name, sizeof name) == 0 && !strcmp(name, "fifteen letters"));
    check("name too long", pthread_setname_np(pthread_self(), "sixteen letters.") == ERANGE);
    check("room too small", pthread_getname_np(pthread_self(), name, 15) == ERANGE);
    cpu_set_t set;
    check("affinity", pthread_getaffinity_np(pthread_self(), sizeof set, &set) == 0 && CPU_COUNT(&set) > 0);
    memset(&set, 0xff, sizeof set);
    check("none that is not there", pthread_getaffinity_np(pthread_self(), sizeof set, &set) == 0);
    check("none that is not there", CPU_COUNT(&set) <= sysconf(_SC_NPROCESSORS_CONF));
    int first = 0;
    while (!CPU_ISSET(first, &set)) first++;
    CPU_ZERO(&set);
    check("no processor", pthread_setaffinity_np(pthread_self(), sizeof set, &set) == EINVAL);
    CPU_SET(first, &set);
    check("one processor", pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0);
    CPU_ZERO(&set);
    check("one processor's answer",
          sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1 && CPU_ISSET(first, &set));
    struct sched_param parameters = {0};
    int policy = -1;
    check("policy", pthread_getschedparam(pthread_self(), &policy, &parameters) == 0 && policy == SCHED_OTHER);
    check("set policy", pthread_setschedparam(pthread_self(), SCHED_OTHER, &parameters) == 0);
    check("wrong policy", pthread_setschedparam(pthread_self(), 1000, &parameters) == EINVAL);
    clockid_t clock;
    struct timespec time;
    check("clock", pthread_getcpuclockid(pthread_self(), &clock) == 0 && clock_gettime(clock, &time) == 0);
    pid_t id = gettid();
    for (int i = 0; i < 100; i++) sched_yield();
    check("gettid", id == gettid() && id != getpid());
    // The kernel knows the number, and that it is no process's.
    long descriptor = syscall(SYS_pidfd_open, id, 0);
    check("no process of that number", descriptor == -1 && errno != ESRCH);
    check("concurrency", pthread_setconcurrency(3) == 0 && pthread_getconcurrency() == 3);
    return argument;
}

static pthread_key_t keys[2];
static int rounds[2];
static void again(void *value) {
    rounds[0]++;
    pthread_setspecific(keys[0], value);
}
static void once(void *value) {
    rounds[1] += (int)(long)value;
}
static void *keyed(void *argument) {
    pthread_setspecific(keys[0], argument);
    pthread_setspecific(keys[1], (void *)11L);
    return NULL;
}

static char trace[64];
static void note(void *argument) {
    strcat(trace, argument);
}
static void innermost(void) {
    pthread_exit((void *)3L);
}
static void *exits(void *argument) {
    (void)argument;
    pthread_cleanup_push(note, "a");
    pthread_cleanup_push(note, "b");
    pthread_cleanup_push(note, "c");
    pthread_cleanup_pop(1);
    innermost();
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
    return NULL;
}
static void *exits_in_given(void *argument) {
    return exits(argument);
}

static volatile int reached;
static void *cancelled(void *argument) {
    int old;
    pthread_cleanup_push(note, "x");
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    reached = 1;
    sem_wait(&gate);
    reached = 2;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
    for (;;) {
        pthread_testcancel();
        sched_yield();
    }
    pthread_cleanup_pop(0);
    return argument;
}
static void *joins_forever(void *argument) {
    pthread_join(*(pthread_t *)argument, NULL);
    return NULL;
}
static void *spins(void *argument) {
    int old;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    reached = 3;
    for (volatile long i = 0;; i++) {}
    return argument;
}

static int c11(void *argument) {
    if (argument != NULL) thrd_exit(-5);
    return thrd_equal(thrd_current(), thrd_current()) ? -4 : 1;
}

int main(void) {
    pthread_t t, u;
    void *value;
    joins();
    pthread_create(&t, NULL, joins_itself, NULL);
    pthread_join(t, NULL);
    attributes();
    pthread_create(&t, NULL, named, (void *)1L);
    pthread_join(t, &value);

    pthread_key_create(&keys[0], again);
    pthread_key_create(&keys[1], once);
    pthread_create(&t, NULL, keyed, (void *)1L);
    pthread_join(t, NULL);
    check("destructors", rounds[0] == PTHREAD_DESTRUCTOR_ITERATIONS && rounds[1] == 11);

    pthread_create(&t, NULL, exits, NULL);
    pthread_join(t, &value);
    check("exit", value == (void *)3L && !strcmp(trace, "cba"));
    trace[0] = 0;
    pthread_attr_t a;
    pthread_attr_init(&a);
    void *stack = aligned_alloc(4096, 256 << 10);
    pthread_attr_setstack(&a, stack, 256 << 10);
    pthread_create(&t, &a, exits_in_given, NULL);
    pthread_join(t, &value);
    check("exit on a given stack", value == (void *)3L && !strcmp(trace, "cba"));

    trace[0] = 0;
    pthread_create(&t, NULL, cancelled, NULL);
    while (reached != 1) sched_yield();
    check("cancel", pthread_cancel(t) == 0);
    check("disabled", reached == 1);
    sem_post(&gate);
    pthread_join(t, &value);
    check("cancelled", value == PTHREAD_CANCELED && !strcmp(trace, "x") && reached == 2);

    sem_init(&gate, 0, 0);
    pthread_create(&u, NULL, waits, NULL);
    pthread_create(&t, NULL, joins_forever, &u);
    usleep(10000);
    pthread_cancel(t);
    pthread_join(t, &value);
    check("cancelled join", value == PTHREAD_CANCELED);
    sem_post(&gate);
    check("joinable again", pthread_join(u, NULL) == 0);

    pthread_create(&t, NULL, spins, NULL);
    while (reached != 3) sched_yield();
    pthread_cancel(t);
    pthread_join(t, &value);
    check("cancelled while it computes", value == PTHREAD_CANCELED);

    thrd_t c;
    int result = 0;
    check("thrd_create", thrd_create(&c, c11, NULL) == thrd_success);
    check("thrd_join", thrd_join(c, &result) == thrd_success && result == -4);
    thrd_create(&c, c11, &c);
    check("thrd_exit", thrd_join(c, &result) == thrd_success && result == -5);
    (void)mutex;
    return 0;
}
