// Of several signals that are pending for a thread and are let in together, each handler interrupts the one before: the
// highest number runs first. What the mask of a handler blocks waits for its end; after a wait with a mask of its own
// (sigsuspend, ppoll) for what the thread blocks then. And alternate stacks that are unused while a handler runs
// (SS_AUTODISARM), or changed by one.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1U << 31)
#endif

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            printf("line %d: %s (errno %d)\n", __LINE__, #condition, errno); \
            fflush(stdout); \
            _exit(1); \
        } \
    } while (0)

// Not static: the compiler would take it that calls such as raise leave it alone.
__thread char order[64];

static void note(const char *what) {
    CHECK(strlen(order) + strlen(what) < sizeof order);
    strcat(order, what);
}

static void on_signal(int number, siginfo_t *info, void *context) {
    char text[16];
    (void)info;
    (void)context;
    snprintf(text, sizeof text, "(%d ", number);
    note(text);
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    CHECK(sigismember(&blocked, number) == 1);
    note(")");
}

static void handle(int number, int also_blocks) {
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    if (also_blocks) sigaddset(&action.sa_mask, also_blocks);
    sigaction(number, &action, NULL);
}

static sigset_t set_of(int a, int b, int c) {
    sigset_t set;
    sigemptyset(&set);
    if (a) sigaddset(&set, a);
    if (b) sigaddset(&set, b);
    if (c) sigaddset(&set, c);
    return set;
}

static void expect(const char *wanted) {
    if (strcmp(order, wanted)) {
        printf("%s, not %s\n", order, wanted);
        fflush(stdout);
        _exit(1);
    }
    order[0] = 0;
}

static void together(void) {
    pthread_t me = pthread_self();
    sigset_t all = set_of(SIGUSR1, SIGUSR2, SIGALRM), before;
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pthread_kill(me, SIGUSR1);
    pthread_kill(me, SIGALRM);
    pthread_kill(me, SIGUSR2);
    // 10, 12, 14: the first is set up first, and interrupted by the others before it has begun.
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    expect("(14 )(12 )(10 )");

    // The first one blocks the second.
    handle(SIGUSR1, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pthread_kill(me, SIGUSR1);
    pthread_kill(me, SIGUSR2);
    pthread_kill(me, SIGALRM);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    expect("(14 )(10 )(12 )");

    // In a wait: what the first one blocks stays pending, since the thread blocks it.
    pthread_sigmask(SIG_BLOCK, &all, &before);
    sigset_t none = before, pending;
    pthread_kill(me, SIGUSR1);
    pthread_kill(me, SIGUSR2);
    pthread_kill(me, SIGALRM);
    CHECK(sigsuspend(&none) == -1 && errno == EINTR);
    expect("(14 )(10 )");
    sigpending(&pending);
    CHECK(sigismember(&pending, SIGUSR2) == 1);
    pthread_kill(me, SIGUSR1);
    struct timespec time = {10, 0};
    CHECK(ppoll(NULL, 0, &time, &none) == -1 && errno == EINTR);
    expect("(10 )");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    expect("(12 )");
    handle(SIGUSR1, 0);

    // Real-time ones, each as often as it was sent.
    sigset_t real = set_of(SIGRTMIN + 1, SIGRTMIN + 2, 0);
    handle(SIGRTMIN + 1, 0);
    handle(SIGRTMIN + 2, 0);
    pthread_sigmask(SIG_BLOCK, &real, &before);
    union sigval value = {0};
    pthread_sigqueue(me, SIGRTMIN + 2, value);
    pthread_sigqueue(me, SIGRTMIN + 1, value);
    pthread_sigqueue(me, SIGRTMIN + 1, value);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    // The second of the same number waits for the end of the first.
    expect("(36 )(35 )(35 )");
}

static sigjmp_buf out;

static void jumps(int number, siginfo_t *info, void *context) {
    on_signal(number, info, context);
    siglongjmp(out, 1);
}

// A jump out of the innermost leaves the others, too.
static void jump(void) {
    pthread_t me = pthread_self();
    sigset_t all = set_of(SIGUSR1, SIGUSR2, 0), before;
    struct sigaction action = {.sa_sigaction = jumps, .sa_flags = SA_SIGINFO};
    sigaction(SIGHUP, &action, NULL);
    sigaddset(&all, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pthread_kill(me, SIGUSR1);
    if (sigsetjmp(out, 1) == 0) {
        sigset_t now = before;
        pthread_kill(me, SIGHUP);
        pthread_sigmask(SIG_SETMASK, &now, NULL);
        CHECK(!"not left");
    }
    // 1 was set up before 10, which has run inside it.
    expect("(10 )(1 )");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    expect("");
}

static char first[65536], second[65536];
static volatile int looks_for;

static void on_stack(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)info;
    (void)context;
    char here;
    stack_t now = {0}, other = {.ss_sp = second, .ss_size = sizeof second};
    CHECK(sigaltstack(NULL, &now) == 0);
    size_t at = (size_t)&here;
    int on_first = at - (size_t)first < sizeof first, on_second = at - (size_t)second < sizeof second;
    switch (looks_for) {
    case 0:
        // Its own stack is in use, and cannot be changed.
        CHECK(on_first && now.ss_flags == SS_ONSTACK && now.ss_sp == first);
        CHECK(sigaltstack(&other, NULL) == -1 && errno == EPERM);
        break;
    case 1:
        // It is unused, and another one can be set, for the time of the handler.
        CHECK(on_first && now.ss_flags == SS_DISABLE);
        CHECK(sigaltstack(&other, NULL) == 0);
        CHECK(sigaltstack(NULL, &now) == 0 && now.ss_sp == second && now.ss_flags == 0);
        looks_for = 2;
        raise(SIGUSR2);
        looks_for = 1;
        break;
    case 2:
        CHECK(on_second && now.ss_flags == SS_ONSTACK);
        break;
    default:
        // A handler that does not run there changes it until it returns.
        CHECK(!on_first && sigaltstack(&other, NULL) == 0);
    }
}

static void stacks(void) {
    struct sigaction action = {.sa_sigaction = on_stack, .sa_flags = SA_SIGINFO | SA_ONSTACK}, before[3];
    sigaction(SIGUSR1, &action, &before[0]);
    sigaction(SIGUSR2, &action, &before[1]);
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGALRM, &action, &before[2]);
    stack_t stack = {.ss_sp = first, .ss_size = sizeof first}, now = {0}, old;
    CHECK(sigaltstack(&stack, &old) == 0);
    for (looks_for = 0; looks_for < 2; looks_for++) {
        raise(SIGUSR1);
        CHECK(sigaltstack(NULL, &now) == 0 && now.ss_sp == first && now.ss_size == sizeof first);
        CHECK(now.ss_flags == (looks_for ? (int)SS_AUTODISARM : 0));
        stack.ss_flags = (int)SS_AUTODISARM;
        CHECK(sigaltstack(&stack, NULL) == 0);
    }
    stack.ss_flags = 0;
    CHECK(sigaltstack(&stack, NULL) == 0);
    looks_for = 3;
    raise(SIGALRM);
    CHECK(sigaltstack(NULL, &now) == 0 && now.ss_sp == first);
    stack.ss_flags = SS_DISABLE;
    CHECK(sigaltstack(&stack, NULL) == 0);
    sigaction(SIGUSR1, &before[0], NULL);
    sigaction(SIGUSR2, &before[1], NULL);
    sigaction(SIGALRM, &before[2], NULL);
}

static void *everything(void *nothing) {
    together();
    jump();
    stacks();
    return nothing;
}

int main(void) {
    handle(SIGUSR1, 0);
    handle(SIGUSR2, 0);
    handle(SIGALRM, 0);
    pthread_t thread;
    pthread_create(&thread, NULL, everything, NULL);
    pthread_join(thread, NULL);
    everything(NULL);
    puts("ok");
    return 0;
}
