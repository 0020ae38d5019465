// A thread that has a kernel thread of its own is a thread like any other: signals, waits, cancellation, its end; and it becomes one when another thread asks.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void own(void) { prctl(PR_SET_TIMERSLACK, 123456, 0, 0, 0); }
static int is_own(void) { return prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) == 123456; }

static __thread int mine;
static int handled_elsewhere;
static __thread int here;
static void handler(int signal) {
    (void)signal;
    here++;
    if (!mine) handled_elsewhere++;
}

static sem_t ready, go, looped;
static int a_pipe[2];
static pid_t number;
static pthread_key_t key;
static int ended_keys;
static void end_key(void *value) {
    (void)value;
    __atomic_fetch_add(&ended_keys, 1, __ATOMIC_SEQ_CST);
}

static void ready_wait(sem_t *sem) {
    while (sem_wait(sem) != 0) {}
}

// Takes signals of all kinds.
static void *takes(void *argument) {
    sigset_t set, old, pending;
    int signal;
    siginfo_t info;
    mine = 1;
    pid_t before = gettid();
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    // What was sent before it is a kernel thread is its own afterwards.
    pthread_sigmask(SIG_BLOCK, &set, &old);
    pthread_kill(pthread_self(), SIGUSR1);
    own();
    sigpending(&pending);
    printf("pending from before: %d\n", sigismember(&pending, SIGUSR1));
    sigwait(&set, &signal);
    printf("taken: %d, handled %d\n", signal == SIGUSR1, here);
    pthread_kill(pthread_self(), SIGUSR1);
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    printf("blocked still: %d, handled %d\n", sigismember(&set, SIGUSR1), here);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    printf("handled after: %d\n", here);
    raise(SIGUSR1);
    printf("raised: %d\n", here);
    syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1);
    printf("by number: %d\n", here);
    // The number that it had is known still.
    printf("by the former number: %d", (int)syscall(SYS_tgkill, getpid(), before, SIGUSR1));
    printf(", %d\n", here);
    union sigval value = {.sival_int = 77};
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_sigqueue(pthread_self(), SIGRTMIN + 1, value);
    signal = sigwaitinfo(&set, &info);
    printf("queued: %d %d\n", signal == SIGRTMIN + 1, info.si_value.sival_int);
    number = gettid();
    sem_post(&ready);
    // By others: while it sleeps, and while it waits for a lock of theirs.
    struct timespec longer = {100, 0};
    printf("slept: %d", nanosleep(&longer, NULL) == -1 && errno == EINTR);
    printf(", %d\n", here > 4);
    sem_post(&ready);
    ready_wait(&go);
    printf("waited: %d\n", is_own());
    return argument;
}

static void *shares(void *argument) {
    own();
    pthread_mutex_t *lock = argument;
    for (int i = 0; i < 2000; i++) {
        pthread_mutex_lock(lock);
        mine++;
        if (i % 100 == 0) sched_yield();
        pthread_mutex_unlock(lock);
    }
    return (void *)(long)mine;
}
static void *shares_not(void *argument) {
    pthread_mutex_t *lock = argument;
    for (int i = 0; i < 2000; i++) {
        pthread_mutex_lock(lock);
        mine++;
        if (i % 100 == 0) sched_yield();
        pthread_mutex_unlock(lock);
    }
    return (void *)(long)(mine - is_own());
}

static int kind;
static volatile double sink;
static pthread_t idle;
static void cleans(void *argument) { *(int *)argument = 1; }
static void *rests(void *argument) {
    ready_wait(&go);
    return argument;
}
static void *is_cancelled(void *argument) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    char byte;
    own();
    pthread_setspecific(key, argument);
    pthread_cleanup_push(cleans, argument);
    sem_post(&ready);
    switch (kind) {
    case 0: if (read(a_pipe[0], &byte, 1) < 0) {} break;
    case 1: ready_wait(&go); break;
    case 2:
        pthread_mutex_lock(&lock);
        pthread_cleanup_push((void (*)(void *))pthread_mutex_unlock, &lock);
        for (;;) pthread_cond_wait(&cond, &lock);
        pthread_cleanup_pop(1);
        break;
    case 3: pthread_join(idle, NULL); break;
    case 4: for (;;) pause(); break;
    case 5: sleep(100); break;
    case 6: poll(NULL, 0, -1); break;
    case 7:
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
        for (;;) sink++;
    case 8: for (;;) pthread_testcancel();
    case 9: pthread_exit(PTHREAD_CANCELED);
    }
    pthread_cleanup_pop(0);
    return NULL;
}

// What another thread asks of one that waits or computes in some way.
static int stop;
static void *is_named(void *argument) {
    char byte;
    number = gettid();
    sem_post(&ready);
    switch (kind) {
    case 0: ready_wait(&go); break;
    case 1: if (read(a_pipe[0], &byte, 1) < 0) {} break;
    case 2: while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST)) sink++; break;
    case 3: while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST)) sched_yield(); break;
    case 4: while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST)) usleep(1000); break;
    case 5: while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST)) poll(NULL, 0, 10); break;
    case 6: {
        // An event loop, which has found something many times.
        int set = epoll_create1(0);
        struct epoll_event event = {.events = EPOLLIN};
        epoll_ctl(set, EPOLL_CTL_ADD, a_pipe[0], &event);
        for (int i = 0; i < 200; i++) epoll_wait(set, &event, 1, i % 8 == 0);
        sem_post(&looped);
        while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST)) epoll_wait(set, &event, 1, -1);
        close(set);
        break;
    }
    }
    struct sched_param parameters;
    int class;
    pthread_getschedparam(pthread_self(), &class, &parameters);
    printf("named %d: %d %d %d\n", kind, getpriority(PRIO_PROCESS, 0), getpriority(PRIO_PROCESS, gettid()), class == SCHED_BATCH);
    return argument;
}
static void *begins_named(void *argument) {
    ready_wait(&go);
    printf("named at once: %d\n", sched_getscheduler(0) == SCHED_BATCH);
    return argument;
}
static void *names(void *argument) {
    for (kind = 0; kind < 7; kind++) {
        pthread_t t;
        struct sched_param parameters = {0};
        stop = 0;
        pthread_create(&t, NULL, is_named, NULL);
        ready_wait(&ready);
        if (kind == 6) ready_wait(&looped);
        int error = setpriority(PRIO_PROCESS, number, 5 + kind) ? errno : 0;
        int other = pthread_setschedparam(t, SCHED_BATCH, &parameters);
        printf("names %d: %d %d, reads %d\n", kind, error, other, getpriority(PRIO_PROCESS, number));
        stop = 1;
        sem_post(&go);
        if (write(a_pipe[1], "", 1) != 1) abort();
        pthread_join(t, NULL);
        while (sem_trywait(&go) == 0) {}
        char byte;
        struct pollfd one = {a_pipe[0], POLLIN, 0};
        while (poll(&one, 1, 0) == 1 && read(a_pipe[0], &byte, 1) == 1) {}
    }
    pthread_t t;
    struct sched_param parameters = {0};
    pthread_create(&t, NULL, begins_named, NULL);
    printf("names at once: %d\n", pthread_setschedparam(t, SCHED_BATCH, &parameters));
    sem_post(&go);
    pthread_join(t, NULL);
    return argument;
}

// Files that name the thread by its number.
static void *files(void *argument) {
    char path[100], text[100] = "", name[100] = "";
    pid_t own_number = gettid();
    struct stat status;
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", own_number);
    int file = argument ? open(path, O_RDWR) : openat(AT_FDCWD, path, O_RDWR);
    if (write(file, "renamed", 7) != 7) printf("not written\n");
    close(file);
    prctl(PR_GET_NAME, text);
    pthread_getname_np(pthread_self(), name, sizeof name);
    printf("name: %s, %s", text, name);
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", getpid(), own_number);
    FILE *stream = fopen(path, "r");
    int told = -1;
    if (stream == NULL || fscanf(stream, "%d (%[^)])", &told, text) != 2) printf("not read\n");
    if (stream != NULL) fclose(stream);
    printf(", %s, %d", text, told == gettid());
    snprintf(path, sizeof path, "/proc/%d/ns/mnt", own_number);
    printf(", %d %d %d", readlink(path, text, sizeof text) > 0, stat(path, &status), access(path, F_OK));
    snprintf(path, sizeof path, "/proc/self/task/%d/fd", own_number);
    DIR *folder = opendir(path);
    printf(" %d\n", folder != NULL);
    if (folder != NULL) closedir(folder);
    return NULL;
}

// As GLib does it: the attributes of who creates a pool for each thread of it.
static char attributes_of_creator[56];
static void *same(void *argument) {
    pid_t before = gettid();
    long result = syscall(SYS_sched_setattr, before, attributes_of_creator, 0);
    printf("the same attributes: %ld, the same number: %d\n", result, gettid() == before);
    return argument;
}
static void *creates(void *argument) {
    pthread_t t;
    long result = syscall(SYS_sched_getattr, gettid(), attributes_of_creator, sizeof attributes_of_creator, 0);
    printf("attributes: %ld\n", result);
    pthread_create(&t, NULL, same, NULL);
    pthread_join(t, NULL);
    return argument;
}

// What attributes ask for: processors, and another class.
static void *has_attributes(void *argument) {
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    printf("by attributes: %d of the processors, class %d\n", CPU_COUNT(&set) == 1, sched_getscheduler(0));
    return argument;
}
static void attributes(void) {
    pthread_t t;
    pthread_attr_t wanted;
    struct sched_param parameters = {.sched_priority = 1};
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
    pthread_attr_init(&wanted);
    pthread_attr_setaffinity_np(&wanted, sizeof one, &one);
    if (pthread_create(&t, &wanted, has_attributes, NULL) == 0) pthread_join(t, NULL);
    pthread_attr_setinheritsched(&wanted, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&wanted, SCHED_RR);
    pthread_attr_setschedparam(&wanted, &parameters);
    int error = pthread_create(&t, &wanted, has_attributes, NULL);
    if (error == 0) pthread_join(t, NULL);
    printf("created: %s\n", strerror(error));
}
static void *asks_for(void *argument) {
    attributes();
    return argument;
}

static void *forks(void *argument) {
    own();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        pthread_t t;
        void *result = NULL;
        pthread_create(&t, NULL, shares, argument);
        pthread_join(t, &result);
        _exit(is_own() && (long)result == 2000 ? 7 : 8);
    }
    int status;
    waitpid(child, &status, 0);
    printf("child: %d\n", WEXITSTATUS(status));
    return NULL;
}

static void *last(void *argument) {
    own();
    usleep(10000);
    printf("the last one\n");
    fflush(stdout);
    return argument;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    sem_init(&ready, 0, 0);
    sem_init(&go, 0, 0);
    sem_init(&looped, 0, 0);
    if (pipe(a_pipe) != 0) return 2;
    pthread_key_create(&key, end_key);
    pthread_t t, more[8];
    pthread_create(&t, NULL, takes, NULL);
    ready_wait(&ready);
    // Another process knows the number.
    pid_t child = fork();
    if (child == 0) {
        for (;;) {
            usleep(10000);
            syscall(SYS_tgkill, getppid(), number, SIGUSR1);
        }
    }
    ready_wait(&ready);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    sem_post(&go);
    pthread_join(t, NULL);
    printf("handled elsewhere: %d\n", handled_elsewhere);
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    for (int i = 0; i < 8; i++) pthread_create(&more[i], NULL, i % 2 ? shares : shares_not, &lock);
    long sum = 0;
    for (int i = 0; i < 8; i++) {
        void *result;
        pthread_join(more[i], &result);
        sum += (long)result;
    }
    printf("sum: %ld\n", sum);
    fflush(stdout);
    pthread_create(&idle, NULL, rests, NULL);
    for (kind = 0; kind < 10; kind++) {
        int cleaned = 0;
        void *result;
        pthread_create(&t, NULL, is_cancelled, &cleaned);
        ready_wait(&ready);
        if (kind % 2) usleep(20000);
        pthread_cancel(t);
        pthread_join(t, &result);
        printf("cancelled %d: %d, cleaned %d, keys %d\n", kind, result == PTHREAD_CANCELED, cleaned, ended_keys);
    }
    sem_post(&go);
    pthread_join(idle, NULL);
    while (sem_trywait(&go) == 0) {}
    pthread_create(&t, NULL, names, NULL);
    pthread_join(t, NULL);
    names(NULL);
    for (long i = 0; i < 2; i++) {
        pthread_create(&t, NULL, files, (void *)i);
        pthread_join(t, NULL);
    }
    attributes();
    pthread_create(&t, NULL, asks_for, NULL);
    pthread_join(t, NULL);
    pthread_create(&t, NULL, creates, NULL);
    pthread_join(t, NULL);
    pthread_create(&t, NULL, forks, &lock);
    pthread_join(t, NULL);
    // The first thread, too: who is created by it inherits, who was before does not.
    own();
    pthread_create(&t, NULL, shares_not, &lock);
    void *result;
    pthread_join(t, &result);
    printf("inherits from the first thread: %ld\n", 2000 - (long)result);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    fflush(stdout);
    pthread_create(&t, &attributes, last, NULL);
    pthread_exit(NULL);
}
