// pthread_exit in a handler, whatever the thread does: clean-up handlers and destructors run, the result is told, and what it waited for is as before.
// Prints the same natively, but for the last line, which it prints when asked: the C library's objects still count those who have left.
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *const places[] = {"computing",  "a mutex",    "a condition",   "a lock to read", "a lock to write", "a spin lock", "a semaphore",
                                     "a pipe",     "a socket",   "poll",          "sleep",          "pause",           "a join",      "raise",
                                     "itself",     "unblocking", "yielding",      "an event loop",  "epoll",           "a file lock",       "a channel",
                                     "a lock that is read"};
enum { PLACES = sizeof places / sizeof *places, RAISE = 13, UNBLOCK = 15 };
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER, mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
// Whoever waits to write keeps readers out, unless it has left.
static pthread_rwlock_t read_by_main = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static pthread_spinlock_t spin;
static sem_t semaphore, to, fro;
static int ends[2], pair[2], locked[2];
static pthread_key_t key;
static pthread_t sleeper;
static volatile int began, cleaned, destroyed;

static void exits(int signal) {
    (void)signal;
    pthread_exit(&key);
}
static void cleans(void *argument) {
    if (argument != NULL) pthread_mutex_unlock(argument);
    cleaned++;
}
static void destroys(void *argument) {
    (void)argument;
    destroyed++;
}
static void *sleeps(void *argument) {
    for (;;) pause();
    return argument;
}
static void *answers(void *argument) {
    for (;;) {
        sem_wait(&to);
        sem_post(&fro);
    }
    return argument;
}
static void waits(long place) {
    char text[9];
    struct epoll_event event;
    struct pollfd entry = {ends[0], POLLIN, 0};
    sigset_t set;
    int epoll = -1;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    switch (place) {
    case 0: for (;;) began = 1;
    case 1: pthread_mutex_lock(&held); break;
    case 3: pthread_rwlock_rdlock(&lock); break;
    case 4: pthread_rwlock_wrlock(&lock); break;
    case 5: pthread_spin_lock(&spin); break;
    case 6: sem_wait(&semaphore); break;
    case 7: if (read(ends[0], text, 1)) {} break;
    case 8: recv(pair[0], text, 1, 0); break;
    case 9: poll(&entry, 1, -1); break;
    case 10: sleep(1000); break;
    case 11: pause(); break;
    case 12: pthread_join(sleeper, NULL); break;
    case 13: raise(SIGUSR1); break;
    case 14: pthread_kill(pthread_self(), SIGUSR1); break;
    case 15:
        pthread_sigmask(SIG_BLOCK, &set, NULL);
        pthread_kill(pthread_self(), SIGUSR1);
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
        break;
    case 16: for (;;) sched_yield();
    case 17:
        epoll = epoll_create1(0);
        for (;;) epoll_wait(epoll, &event, 1, 1);
    case 18:
        epoll = epoll_create1(0);
        epoll_wait(epoll, &event, 1, -1);
        break;
    case 19: flock(locked[1], LOCK_EX); break;
    case 20:
        for (;;) {
            sem_post(&to);
            sem_wait(&fro);
        }
    case 21: pthread_rwlock_wrlock(&read_by_main); break;
    }
}
static void *thread(void *place) {
    pthread_setspecific(key, &key);
    if ((long)place == 2) pthread_mutex_lock(&mutex);
    pthread_cleanup_push(cleans, (long)place == 2 ? &mutex : NULL);
    began = 1;
    if ((long)place == 2) {
        for (;;) pthread_cond_wait(&condition, &mutex);
    }
    waits((long)place);
    pthread_cleanup_pop(0);
    return NULL;
}
int main(int count, char **arguments) {
    struct sigaction action = {.sa_handler = exits};
    int times = count > 1 ? atoi(arguments[1]) : 30;
    pthread_t id;
    sigaction(SIGUSR1, &action, NULL);
    pthread_key_create(&key, destroys);
    pthread_spin_init(&spin, 0);
    sem_init(&semaphore, 0, 0);
    sem_init(&to, 0, 0);
    sem_init(&fro, 0, 0);
    if (pipe(ends) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return 1;
    // What blocks in the kernel without the C library's locks: natively a thread that ended within them would leave them locked.
    char path[64];
    locked[0] = memfd_create("locked", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", locked[0]);
    locked[1] = open(path, O_RDWR);
    if (locked[1] < 0 || flock(locked[0], LOCK_EX) != 0) return 1;
    pthread_mutex_lock(&held);
    pthread_rwlock_wrlock(&lock);
    pthread_rwlock_rdlock(&read_by_main);
    pthread_spin_lock(&spin);
    pthread_create(&sleeper, NULL, sleeps, NULL);
    pthread_create(&id, NULL, answers, NULL);
    for (long place = 0; place < PLACES; place++) {
        int good = 0;
        for (int i = 0; i < times; i++) {
            void *result = NULL;
            began = cleaned = destroyed = 0;
            pthread_create(&id, NULL, thread, (void *)place);
            while (!began) usleep(100);
            if (i % 2) usleep(2000);
            if (place < RAISE || place > UNBLOCK) pthread_kill(id, SIGUSR1);
            pthread_join(id, &result);
            good += result == &key && cleaned == 1 && destroyed == 1;
        }
        printf("%s: %d\n", places[place], good);
        fflush(stdout);
    }
    if (count < 3) return 0;
    // Nobody is counted who has left.
    pthread_mutex_unlock(&held);
    pthread_rwlock_unlock(&lock);
    pthread_spin_unlock(&spin);
    int value, rest = pthread_mutex_destroy(&held) + pthread_mutex_destroy(&mutex) + pthread_rwlock_trywrlock(&lock) + pthread_spin_trylock(&spin);
    rest += pthread_rwlock_tryrdlock(&read_by_main);
    rest += pthread_cond_destroy(&condition);
    sem_getvalue(&semaphore, &value);
    printf("rest: %d %d\n", rest, value);
    return 0;
}
