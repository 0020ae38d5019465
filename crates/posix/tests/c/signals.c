// Signals to threads and to the process. Prints the same natively.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static void check(const char *what, int right) {
    printf("%s: %s\n", what, right ? "right" : "WRONG");
    fflush(stdout);
}

static __thread int own;
static volatile sig_atomic_t seen, seen_in, value_seen, has_read;
static sem_t gate, told;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void handler(int signal) {
    (void)signal;
    seen_in = own;
    seen++;
}
static void handler_with_value(int signal, siginfo_t *info, void *context) {
    (void)signal;
    value_seen = context != NULL && info->si_code == SI_QUEUE ? info->si_value.sival_int : -1;
    seen_in = own;
    seen++;
}
static void install(int signal, void (*function)(int), int flags) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = function;
    action.sa_flags = flags;
    sigaction(signal, &action, NULL);
}

static void *waits_for_semaphore(void *argument) {
    own = (int)(long)argument;
    sem_post(&told);
    int result = sem_wait(&gate);
    return (void *)(long)(result == 0 ? 0 : errno);
}
static void *waits_for_mutex(void *argument) {
    own = (int)(long)argument;
    sem_post(&told);
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    return NULL;
}
static void *computes(void *argument) {
    own = (int)(long)argument;
    sem_post(&told);
    while (!seen) {}
    return NULL;
}
static void *reads(void *argument) {
    char byte;
    own = 4;
    sem_post(&told);
    long result = read(*(int *)argument, &byte, 1);
    if (result < 0) result = -errno;
    has_read = 1;
    return (void *)result;
}
static void *pauses(void *argument) {
    own = (int)(long)argument;
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, &old);
    sem_post(&told);
    sem_wait(&gate);
    sigset_t pending;
    sigpending(&pending);
    int before = seen, was_pending = sigismember(&pending, SIGUSR1);
    int result = sigsuspend(&old);
    return (void *)(long)(result == -1 && errno == EINTR && before == 0 && was_pending == 1 && seen == 1);
}
static void *waits_for_signal(void *argument) {
    sigset_t set;
    int signal = 0;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    sem_post(&told);
    int error = sigwait(&set, &signal);
    struct timespec soon = {0, 1000000};
    int none = sigtimedwait(&set, NULL, &soon) == -1 && errno == EAGAIN;
    (void)argument;
    return (void *)(long)(error == 0 && signal == SIGUSR2 && none);
}

static void send_until_seen(pthread_t t, int signal) {
    while (!seen) {
        pthread_kill(t, signal);
        usleep(2000);
    }
}

static void *raises(void *argument) {
    own = 6;
    seen = 0;
    raise(SIGUSR1);
    check("raise", seen == 1 && seen_in == 6);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    seen = 0;
    raise(SIGUSR1);
    check("raised while blocked", seen == 0);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    check("delivered when unblocked", seen == 1 && seen_in == 6);
    union sigval value = {.sival_int = 1234};
    seen = 0;
    check("sigqueue", pthread_sigqueue(pthread_self(), SIGRTMIN + 1, value) == 0 && seen == 1 && value_seen == 1234);
    check("no such signal", pthread_kill(pthread_self(), 1000) == EINVAL);
    struct sigaction old;
    install(SIGUSR1, handler, SA_RESETHAND);
    sigaction(SIGUSR1, NULL, &old);
    check("what is installed", old.sa_handler == handler && (old.sa_flags & ~0x04000000) == (int)SA_RESETHAND);
    raise(SIGUSR1);
    sigaction(SIGUSR1, NULL, &old);
    check("reset", old.sa_handler == SIG_DFL);
    check("former handler", signal(SIGUSR1, handler) == SIG_DFL && signal(SIGUSR1, SIG_IGN) == handler);
    raise(SIGUSR1);
    return argument;
}

static sigjmp_buf jump;
static void jumps(int signal) {
    (void)signal;
    siglongjmp(jump, 1);
}
static void *jumped(void *argument) {
    install(SIGUSR1, jumps, 0);
    int times = 0;
    for (int i = 0; i < 100; i++) {
        if (sigsetjmp(jump, 1) == 0) {
            raise(SIGUSR1);
            return NULL;
        }
        times++;
        sched_yield();
        usleep(10);
    }
    check("jumps out of handlers", times == 100);
    return argument;
}

static void *until_alarm(void *argument) {
    while (!seen) sched_yield();
    return argument;
}

int main(void) {
    pthread_t t;
    void *result;
    sem_init(&gate, 0, 0);
    sem_init(&told, 0, 0);
    install(SIGUSR1, handler, 0);

    pthread_create(&t, NULL, waits_for_semaphore, (void *)1L);
    sem_wait(&told);
    send_until_seen(t, SIGUSR1);
    // The handler ran before the wait or in it.
    sem_post(&gate);
    pthread_join(t, &result);
    check("semaphore", seen_in == 1 && (result == NULL || result == (void *)(long)EINTR));
    sem_init(&gate, 0, 0);

    seen = 0;
    pthread_mutex_lock(&mutex);
    pthread_create(&t, NULL, waits_for_mutex, (void *)2L);
    sem_wait(&told);
    send_until_seen(t, SIGUSR1);
    pthread_mutex_unlock(&mutex);
    pthread_join(t, &result);
    check("mutex", seen_in == 2);

    seen = 0;
    pthread_create(&t, NULL, computes, (void *)3L);
    sem_wait(&told);
    pthread_kill(t, SIGUSR1);
    pthread_join(t, &result);
    check("computing", seen == 1 && seen_in == 3);

    for (int restart = 0; restart < 2; restart++) {
        int ends[2];
        if (pipe(ends) != 0) return 1;
        seen = has_read = 0;
        install(SIGUSR1, handler, restart ? SA_RESTART : 0);
        pthread_create(&t, NULL, reads, &ends[0]);
        sem_wait(&told);
        usleep(20000);
        // One that comes before the read does not interrupt it.
        for (; !restart && !has_read; usleep(2000)) pthread_kill(t, SIGUSR1);
        send_until_seen(t, SIGUSR1);
        usleep(20000);
        if (write(ends[1], "x", 1) != 1) return 1;
        pthread_join(t, &result);
        check(restart ? "read begun again" : "read interrupted",
              seen_in == 4 && result == (void *)(long)(restart ? 1 : -EINTR));
        close(ends[0]);
        close(ends[1]);
    }

    seen = 0;
    install(SIGUSR1, handler, 0);
    pthread_create(&t, NULL, pauses, (void *)5L);
    sem_wait(&told);
    pthread_kill(t, SIGUSR1);
    sem_post(&gate);
    pthread_join(t, &result);
    check("blocked, then suspended", result == (void *)1L && seen_in == 5);

    pthread_create(&t, NULL, waits_for_signal, NULL);
    sem_wait(&told);
    usleep(10000);
    pthread_kill(t, SIGUSR2);
    pthread_join(t, &result);
    check("sigwait", result == (void *)1L);

    struct sigaction with_value = {.sa_sigaction = handler_with_value, .sa_flags = SA_SIGINFO};
    sigaction(SIGRTMIN + 1, &with_value, NULL);
    pthread_create(&t, NULL, raises, (void *)1L);
    pthread_join(t, NULL);
    pthread_create(&t, NULL, jumped, NULL);
    pthread_join(t, NULL);

    // For the process: blocked in all threads, one waits.
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_create(&t, NULL, waits_for_signal, NULL);
    sem_wait(&told);
    usleep(10000);
    pthread_kill(t, SIGUSR2);
    pthread_join(t, &result);
    check("sigwait again", result == (void *)1L);

    seen = 0;
    install(SIGALRM, handler, 0);
    pthread_create(&t, NULL, until_alarm, NULL);
    struct itimerval timer = {{0, 0}, {0, 20000}};
    setitimer(ITIMER_REAL, &timer, NULL);
    pthread_join(t, NULL);
    check("alarm", seen == 1);
    return 0;
}
