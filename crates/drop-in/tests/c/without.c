// Calls that are made for the first time when no memory or no descriptor is left, or under low limits, in a process
// that has no thread yet, on its first thread and on a new one: what they answer.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static struct timespec soon(clockid_t clock) {
    struct timespec at;
    clock_gettime(clock, &at);
    at.tv_nsec += 2000000;
    if (at.tv_nsec >= 1000000000) at.tv_nsec -= 1000000000, at.tv_sec++;
    return at;
}

static sem_t semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int ends[2];
static void nothing(void) {}
static void handler(int signal) { (void)signal; }

static int semaphores(void) {
    struct timespec at = soon(CLOCK_REALTIME);
    int first = sem_timedwait(&semaphore, &at) ? errno : 0;
    sem_post(&semaphore);
    return first * 1000 + (sem_wait(&semaphore) ? errno : 0);
}
static int mutexes(void) {
    pthread_mutex_lock(&mutex);
    struct timespec at = soon(CLOCK_REALTIME);
    int error = pthread_mutex_timedlock(&mutex, &at);
    pthread_mutex_unlock(&mutex);
    pthread_mutex_lock(&recursive);
    pthread_mutex_lock(&recursive);
    pthread_mutex_unlock(&recursive);
    pthread_mutex_unlock(&recursive);
    return error;
}
static int conditions(void) {
    pthread_mutex_lock(&mutex);
    struct timespec at = soon(CLOCK_REALTIME);
    int error = pthread_cond_timedwait(&changed, &mutex, &at);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    return error;
}
static int locks(void) {
    pthread_rwlock_wrlock(&lock);
    struct timespec at = soon(CLOCK_REALTIME);
    int error = pthread_rwlock_timedrdlock(&lock, &at);
    pthread_rwlock_unlock(&lock);
    return error;
}
static int barriers(void) {
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, 1);
    int answer = pthread_barrier_wait(&barrier);
    return answer + pthread_barrier_destroy(&barrier);
}
static int once_only(void) { return pthread_once(&once, nothing); }
static int sleeps(void) {
    struct timespec time = {0, 1000000};
    int error = nanosleep(&time, NULL) ? errno : 0;
    error = error * 1000 + clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
    return error + usleep(1000) + thrd_sleep(&time, NULL);
}
static int polls(void) {
    struct pollfd of = {.fd = ends[0], .events = POLLIN};
    int error = poll(&of, 1, 2);
    struct timeval time = {0, 2000};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    return error * 10 + select(ends[0] + 1, &set, NULL, NULL, &time);
}
static int reads(void) {
    char byte = 'a';
    if (write(ends[1], &byte, 1) != 1) return errno;
    return read(ends[0], &byte, 1) == 1 ? byte : errno;
}
static int sockets(void) {
    int pair[2];
    char byte = 'b';
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return errno;
    struct timeval time = {0, 2000};
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    int error = recv(pair[0], &byte, 1, 0) < 0 ? errno : 0;
    send(pair[1], &byte, 1, 0);
    error = error * 1000 + (int)recv(pair[0], &byte, 1, 0);
    close(pair[0]);
    close(pair[1]);
    return error;
}
static int events(void) {
    int queue = epoll_create1(0), event = eventfd(1, 0);
    struct epoll_event of = {.events = EPOLLIN}, got;
    epoll_ctl(queue, EPOLL_CTL_ADD, event, &of);
    int count = epoll_wait(queue, &got, 1, 100);
    close(queue);
    close(event);
    return count;
}
static int signals(void) {
    sigset_t set;
    int got = 0;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    raise(SIGUSR1);
    int error = sigwait(&set, &got);
    struct timespec time = {0, 1000000};
    error = error * 1000 + (sigtimedwait(&set, NULL, &time) < 0 ? errno : 0);
    return error * 100 + got;
}
static int handlers(void) {
    struct sigaction action = {.sa_handler = handler};
    int error = sigaction(SIGUSR2, &action, NULL) ? errno : 0;
    return error * 1000 + pthread_kill(pthread_self(), SIGUSR2) + kill(getpid(), SIGUSR2);
}
static int keys(void) {
    pthread_key_t key;
    int error = pthread_key_create(&key, NULL);
    return error * 1000 + pthread_setspecific(key, &key) * 10 + (pthread_getspecific(key) != &key);
}
static int schedules(void) {
    struct sched_param of;
    int policy;
    int error = pthread_getschedparam(pthread_self(), &policy, &of);
    sched_yield();
    return error * 1000 + policy + pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL) +
           pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
}
static int names(void) {
    char name[16] = "";
    int error = pthread_setname_np(pthread_self(), "without");
    return error * 1000 + pthread_getname_np(pthread_self(), name, sizeof name) + strcmp(name, "without");
}
static int attributes(void) {
    // (Of the process's first thread it reads a file, by memory.)
    pthread_attr_t attr;
    int error = pthread_attr_init(&attr);
    return error * 1000 + pthread_attr_destroy(&attr);
}
static void *ended(void *argument) { return argument; }
static int threads(void) {
    pthread_t thread;
    pthread_attr_t large;
    pthread_attr_init(&large);
    pthread_attr_setstacksize(&large, 512 << 20);
    int error = pthread_create(&thread, &large, ended, NULL);
    if (!error) pthread_join(thread, NULL);
    return error;
}
static int children(void) {
    pid_t child = fork();
    int status = 0;
    if (!child) _exit(7);
    if (child < 0) return errno;
    return waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : errno;
}
static int jumps(void) {
    static __thread sigjmp_buf place;
    static __thread volatile int count;
    count = 0;
    if (!sigsetjmp(place, 1) || count < 3) count++, siglongjmp(place, 1);
    return count;
}
static const struct {
    const char *name;
    int (*call)(void);
} calls[] = {
    {"semaphores", semaphores}, {"mutexes", mutexes},     {"conditions", conditions}, {"locks", locks},
    {"barriers", barriers},     {"once", once_only},      {"sleeps", sleeps},         {"polls", polls},
    {"reads", reads},           {"sockets", sockets},     {"events", events},         {"signals", signals},
    {"handlers", handlers},     {"keys", keys},           {"schedules", schedules},   {"names", names},
    {"attributes", attributes}, {"threads", threads},     {"children", children},     {"jumps", jumps},
};

static volatile int answer;
static const char *what;

static void without_memory(int which) {
    struct rlimit before, limit;
    getrlimit(RLIMIT_AS, &before);
    limit = before;
    limit.rlim_cur = 4096;
    setrlimit(RLIMIT_AS, &limit);
    // What the allocator still has, too.
    void *all = NULL;
    for (size_t size = 1 << 20; size >= sizeof all; size /= 2) {
        void **one;
        while ((one = malloc(size))) *one = all, all = one;
    }
    answer = calls[which].call();
    setrlimit(RLIMIT_AS, &before);
    while (all) {
        void *next = *(void **)all;
        free(all);
        all = next;
    }
}

static void without_descriptors(int which) {
    struct rlimit before, limit;
    getrlimit(RLIMIT_NOFILE, &before);
    limit = before;
    limit.rlim_cur = 64;
    setrlimit(RLIMIT_NOFILE, &limit);
    int all[64], count = 0;
    while (count < 64 && (all[count] = open("/dev/null", O_RDONLY)) >= 0) count++;
    answer = calls[which].call();
    while (count) close(all[--count]);
    setrlimit(RLIMIT_NOFILE, &before);
}

static void under_limits(int which) {
    static const int limits[] = {RLIMIT_MEMLOCK, RLIMIT_SIGPENDING, RLIMIT_NPROC, RLIMIT_STACK, RLIMIT_DATA};
    for (unsigned k = 0; k < sizeof limits / sizeof *limits; k++) {
        struct rlimit little = {k < 3 ? k % 2 : 1 << 16, k < 3 ? k % 2 : 1 << 16};
        setrlimit(limits[k], &little);
    }
    answer = calls[which].call();
}

static void *on_thread(void *which) {
    if (!strcmp(what, "memory")) without_memory((int)(long)which);
    if (!strcmp(what, "descriptors")) without_descriptors((int)(long)which);
    if (!strcmp(what, "limits")) under_limits((int)(long)which);
    return NULL;
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    what = arguments[1];
    setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(60);
    for (int which = 0; which < (int)(sizeof calls / sizeof *calls); which++) {
        for (int on = 0; on < 2; on++) {
            pid_t child = fork();
            int status;
            if (!child) {
                alarm(10);
                if (sem_init(&semaphore, 0, 0) || pipe(ends)) _exit(1);
                if (on) {
                    pthread_t thread;
                    int error = pthread_create(&thread, NULL, on_thread, (void *)(long)which);
                    if (error) _exit(2);
                    pthread_join(thread, NULL);
                } else {
                    on_thread((void *)(long)which);
                }
                printf("%s, %s: %d\n", calls[which].name, on ? "a new thread" : "the first", answer);
                _exit(0);
            }
            waitpid(child, &status, 0);
            if (status) printf("%s, %d: status %x\n", calls[which].name, on, status);
        }
    }
    return 0;
}
