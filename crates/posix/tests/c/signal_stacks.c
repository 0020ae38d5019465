// Handlers of signals other than faults on the alternate stack that their thread has set, and what pthread attributes tell afterwards.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIZE = 300 << 10 };

static _Thread_local char *stack;
static _Thread_local volatile int right, runs;
static _Thread_local sigjmp_buf out;

static int is_on(const void *place) { return (char *)place >= stack && (char *)place < stack + SIZE; }

static int state(void) {
    stack_t now;
    sigaltstack(NULL, &now);
    return now.ss_flags;
}

static void large(int signal) {
    volatile char room[200 << 10];
    memset((void *)room, signal, sizeof room);
    stack_t other = {.ss_sp = malloc(SIZE), .ss_size = SIZE};
    int refused = sigaltstack(&other, NULL) == -1 && errno == EPERM;
    free(other.ss_sp);
    right = is_on((void *)room) && state() == SS_ONSTACK && refused && room[1000] == signal;
    runs++;
}

static void inner(int signal) {
    int here;
    right += is_on(&here);
    runs++;
}

static void outer(int signal) {
    sigjmp_buf within;
    volatile int jumped = 0;
    right = is_on(&within);
    raise(SIGUSR2);
    if (sigsetjmp(within, 1) == 0) {
        jumped = 1;
        siglongjmp(within, 1);
    }
    right += jumped && is_on(&within) && state() == SS_ONSTACK;
    runs++;
}

static void jumps(int signal) {
    int here;
    right += is_on(&here);
    siglongjmp(out, 1);
}

static void elsewhere(int signal) {
    int here;
    right = !is_on(&here);
    runs++;
}

static void ends(int signal) {
    int here;
    pthread_exit((void *)(long)(is_on(&here) ? 7 : 0));
}

static void set(int signal, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(signal, &action, NULL);
}

// A fault's handler in which other handlers run on the same stack.
static void fault(int signal, siginfo_t *info, void *context) {
    char room[5000];
    memset(room, 7, sizeof room);
    void *address = info->si_addr;
    for (int i = 0; i < 3; i++)
        raise(SIGUSR2);
    for (int i = 0; i < (int)sizeof room; i++)
        right += room[i] != 7;
    right += is_on(room) && info->si_addr == address;
    siglongjmp(out, 1);
}

static void *thread(void *unused) {
    stack_t mine = {.ss_sp = stack = malloc(SIZE), .ss_size = SIZE}, before;
    sigaltstack(&mine, NULL);
    set(SIGUSR1, large, SA_ONSTACK);
    raise(SIGUSR1);
    printf("large: %d %d, then %d\n", right, runs, state());
    set(SIGUSR1, large, SA_ONSTACK | SA_RESETHAND);
    raise(SIGUSR1);
    struct sigaction now;
    sigaction(SIGUSR1, NULL, &now);
    printf("once: %d %d %d\n", right, runs, now.sa_handler == SIG_DFL);
    set(SIGUSR1, outer, SA_ONSTACK);
    set(SIGUSR2, inner, SA_ONSTACK);
    raise(SIGUSR1);
    printf("within: %d %d\n", right, runs);
    right = 0;
    set(SIGUSR1, jumps, SA_ONSTACK);
    for (volatile int i = 0; i < 100; i++)
        if (sigsetjmp(out, 1) == 0)
            raise(SIGUSR1);
    printf("jumped out: %d, then %d\n", right, state());
    struct sigaction action = {.sa_sigaction = fault, .sa_flags = SA_ONSTACK | SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    right = 0;
    for (volatile int i = 0; i < 20; i++)
        if (sigsetjmp(out, 1) == 0)
            *(volatile int *)8 = 1;
    printf("faults: %d, then %d\n", right, state());
    set(SIGUSR1, elsewhere, 0);
    raise(SIGUSR1);
    printf("not asked for: %d\n", right);
    set(SIGUSR1, elsewhere, SA_ONSTACK);
    mine.ss_flags = SS_DISABLE;
    sigaltstack(&mine, &before);
    raise(SIGUSR1);
    printf("disabled: %d, before %d\n", right, before.ss_sp == stack && before.ss_size == SIZE);
    mine.ss_flags = 0;
    sigaltstack(&mine, NULL);
    set(SIGUSR1, ends, SA_ONSTACK);
    raise(SIGUSR1);
    return NULL;
}

// The smallest one that is taken, and ways to set one.
static void *sizes(void *unused) {
    static char room[4096];
    static const int ways[] = {0, SS_ONSTACK, SS_DISABLE, SS_ONSTACK | SS_DISABLE, 8};
    stack_t now;
    for (size_t size = 2046; size <= 2049; size++)
        for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++) {
            stack_t one = {.ss_sp = room, .ss_size = size, .ss_flags = ways[i]};
            int result = sigaltstack(&one, NULL), error = errno;
            sigaltstack(NULL, &now);
            printf("%zu bytes, way %d: %s, then %zu, %d\n", size, ways[i], result ? strerrorname_np(error) : "set", now.ss_size, now.ss_flags);
        }
    return unused;
}

static int told(pthread_t id, size_t *size, size_t *guard) {
    pthread_attr_t attributes;
    int inherits, policy;
    pthread_getattr_np(id, &attributes);
    pthread_attr_getstacksize(&attributes, size);
    pthread_attr_getguardsize(&attributes, guard);
    pthread_attr_getinheritsched(&attributes, &inherits);
    pthread_attr_getschedpolicy(&attributes, &policy);
    pthread_attr_destroy(&attributes);
    return inherits * 10 + policy;
}

static void *tells(void *what) {
    size_t size, guard;
    int schedule = told(pthread_self(), &size, &guard);
    // What is a power of two of a megabyte or more is told without what the guard and thread-local storage take.
    printf("%s: about %zu, guard %zu, %d\n", (char *)what, (size + (32 << 10)) >> 16, guard, schedule);
    return NULL;
}

static void create(const char *what, size_t size, size_t guard, int explicit) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (size)
        pthread_attr_setstacksize(&attributes, size);
    pthread_attr_setguardsize(&attributes, guard);
    if (explicit)
        pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    if (explicit == 2) {
        // A priority of one class, and another class that has none.
        struct sched_param priority = {.sched_priority = 1};
        pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
        pthread_attr_setschedparam(&attributes, &priority);
        pthread_attr_setschedpolicy(&attributes, SCHED_OTHER);
    }
    pthread_t id;
    int error = pthread_create(&id, &attributes, tells, (void *)what);
    if (error)
        printf("%s: %s\n", what, strerrorname_np(error));
    else
        pthread_join(id, NULL);
    pthread_attr_destroy(&attributes);
}

// What a thread asks for by saying nothing is the default of that moment.
static void *sets_the_default(void *size) {
    pthread_t id;
    pthread_attr_t attributes;
    pthread_create(&id, NULL, tells, "before");
    pthread_join(id, NULL);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, *(size_t *)size);
    pthread_attr_setguardsize(&attributes, 12288);
    printf("set: %d\n", pthread_setattr_default_np(&attributes));
    pthread_create(&id, NULL, tells, "after");
    pthread_join(id, NULL);
    return NULL;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    pthread_t id;
    void *result;
    for (int i = 0; i < 2; i++) {
        pthread_create(&id, NULL, thread, NULL);
        pthread_join(id, &result);
        printf("ended on it: %ld\n", (long)result);
    }
    pthread_create(&id, NULL, sizes, NULL);
    pthread_join(id, NULL);
    // In an order in which the C library has no stack at hand that it would take for another size.
    create("a small one", 100000, 65536, 0);
    create("an odd one", 300001, 0, 0);
    create("no attributes but these", 0, 4096, 0);
    create("a large stack", 64 << 20, 5000, 1);
    create("more than there are addresses", SIZE_MAX, 4096, 0);
    create("a guard of all", 1 << 20, SIZE_MAX, 0);
    create("more than there is room for", (size_t)1 << 46, 4096, 0);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 3 << 20);
    pthread_attr_setguardsize(&attributes, 12288);
    pthread_setattr_default_np(&attributes);
    size_t size;
    pthread_getattr_default_np(&attributes);
    pthread_attr_getstacksize(&attributes, &size);
    printf("the default: %zu\n", size);
    pthread_create(&id, NULL, tells, "by default");
    pthread_join(id, NULL);
    size = 5 << 20;
    pthread_create(&id, NULL, sets_the_default, &size);
    pthread_join(id, NULL);
    create("a priority without a class", 0, 4096, 2);
    return 0;
}
