// Times that are none: what calls with a time limit answer to them, in a thread, where they wait and where they do not.
// And who may unlock a mutex that another thread holds, or nobody.
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static const struct timespec TIMES[] = {
    {0, -1}, {0, 1000000000}, {1, 2000000000}, {-1, 0}, {-1, -1}, {-5, 5}, {-9000000000000000000, 5}, {0, 0}, {0, 999},
};

static int or_error(long result) { return result < 0 ? errno : 0; }

static void *cases(void *argument) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    sem_t semaphore;
    sigset_t set;
    int word = 0, sockets[2], epoll = epoll_create1(0), semaphores = semget(IPC_PRIVATE, 1, 0600);
    char byte;
    struct iovec part = {&byte, 1};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
    struct epoll_event event;
    fd_set none;
    FD_ZERO(&none);
    sem_init(&semaphore, 0, 0);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets)) return argument;
    for (unsigned i = 0; i < sizeof TIMES / sizeof *TIMES; i++) {
        const struct timespec *time = &TIMES[i];
        struct timespec copy = *time;
        struct timeval short_one = {time->tv_sec, time->tv_nsec < 1000000 ? time->tv_nsec : -1};
        printf("%lld s, %ld ns:", (long long)time->tv_sec, time->tv_nsec);
        printf(" ppoll %d", or_error(ppoll(NULL, 0, time, NULL)));
        printf(", pselect %d", or_error(pselect(0, &none, NULL, NULL, time, NULL)));
        printf(", select %d", or_error(select(0, &none, NULL, NULL, &short_one)));
        printf(", epoll %d", or_error(epoll_pwait2(epoll, &event, 1, time, NULL)));
        printf(", sigtimedwait %d", or_error(sigtimedwait(&set, NULL, time)));
        struct sembuf take = {0, -1, 0};
        printf(", semtimedop %d", or_error(semtimedop(semaphores, &take, 1, time)));
        if (write(sockets[1], "x", 1) != 1) return argument;
        printf(", recvmmsg %d", or_error(recvmmsg(sockets[0], &message, 1, 0, &copy)));
        recv(sockets[0], &byte, 1, MSG_DONTWAIT);
        printf(", nanosleep %d", or_error(nanosleep(time, NULL)));
        printf(", clock_nanosleep %d", clock_nanosleep(CLOCK_MONOTONIC, 0, time, NULL));
        printf(" %d", clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, time, NULL));
        printf(", futex %d", or_error(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, time)));
        printf(", semaphore %d", or_error(sem_timedwait(&semaphore, time)));
        printf(" %d", or_error(sem_clockwait(&semaphore, CLOCK_MONOTONIC, time)));
        pthread_mutex_lock(&mutex);
        printf(", condition %d", pthread_cond_timedwait(&condition, &mutex, time));
        printf(" %d\n", pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, time));
        pthread_mutex_unlock(&mutex);
    }
    semctl(semaphores, 0, IPC_RMID);
    return argument;
}

enum { PLAIN, CHECKED, RECURSIVE, ADAPTIVE, INHERITING, KINDS };

// The first thread holds the second of each while `locks` runs.
static pthread_mutex_t mutexes[2][KINDS];
static mtx_t c11[2];
static pthread_rwlock_t writer[2], reader;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void make(void) {
    static const int types[KINDS] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_RECURSIVE,
                                     PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_MUTEX_NORMAL};
    for (int held = 0; held < 2; held++) {
        for (int kind = 0; kind < KINDS; kind++) {
            pthread_mutexattr_t attributes;
            pthread_mutexattr_init(&attributes);
            pthread_mutexattr_settype(&attributes, types[kind]);
            if (kind == INHERITING) pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
            pthread_mutex_init(&mutexes[held][kind], &attributes);
            if (held) pthread_mutex_lock(&mutexes[held][kind]);
        }
        mtx_init(&c11[held], mtx_timed);
        pthread_rwlock_init(&writer[held], NULL);
    }
    mtx_lock(&c11[1]);
    pthread_rwlock_wrlock(&writer[1]);
    pthread_rwlock_init(&reader, NULL);
    pthread_rwlock_rdlock(&reader);
    pthread_mutex_lock(&gate);
}

static void *through_gate(void *argument) {
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    return argument;
}

static void *nothing(void *argument) { return argument; }

static int unlocked(int error, pthread_rwlock_t *lock) { return error ? error : pthread_rwlock_unlock(lock); }

static void *locks(void *argument) {
    pthread_t blocked, ends;
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    pthread_create(&blocked, NULL, through_gate, NULL);
    for (unsigned i = 0; i < sizeof TIMES / sizeof *TIMES; i++) {
        const struct timespec *time = &TIMES[i];
        for (int held = 0; held < 2; held++) {
            printf("%s:", held ? "held" : "free");
            for (int kind = 0; kind < KINDS; kind++) {
                pthread_mutex_t *mutex = &mutexes[held][kind];
                int error = pthread_mutex_timedlock(mutex, time);
                printf(" %d", error ? error : pthread_mutex_unlock(mutex));
                if (kind == INHERITING) continue; // a newer kernel's
                error = pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, time);
                printf(" %d", error ? error : pthread_mutex_unlock(mutex));
            }
            int error = mtx_timedlock(&c11[held], time);
            printf(", C11 %d", error != thrd_success ? error : mtx_unlock(&c11[held]));
            pthread_rwlock_t *lock = &writer[held];
            printf(", writer %d", unlocked(pthread_rwlock_timedrdlock(lock, time), lock));
            printf(" %d", unlocked(pthread_rwlock_timedwrlock(lock, time), lock));
            printf(" %d", unlocked(pthread_rwlock_clockrdlock(lock, CLOCK_MONOTONIC, time), lock));
            printf(" %d", unlocked(pthread_rwlock_clockwrlock(lock, CLOCK_MONOTONIC, time), lock));
            if (!held) sem_post(&semaphore);
            printf(", semaphore %d\n", or_error(sem_timedwait(&semaphore, time)));
            while (!sem_trywait(&semaphore)) {}
        }
        printf("reader %d", unlocked(pthread_rwlock_timedrdlock(&reader, time), &reader));
        printf(" %d", pthread_rwlock_timedwrlock(&reader, time));
        for (int kind = CHECKED; kind <= RECURSIVE; kind++) {
            pthread_mutex_t *own = &mutexes[0][kind];
            pthread_mutex_lock(own);
            int error = pthread_mutex_timedlock(own, time);
            printf(", own %d %d", error, error ? 0 : pthread_mutex_unlock(own));
            pthread_mutex_unlock(own);
        }
        printf(", joins %d", pthread_timedjoin_np(pthread_self(), NULL, time));
        // A time before the first is past; what is no time else is no limit.
        if (time->tv_sec < 0 || (time->tv_nsec >= 0 && time->tv_nsec < 1000000000)) {
            printf(" %d", pthread_timedjoin_np(blocked, NULL, time));
            printf(" %d", pthread_timedjoin_np(*(pthread_t *)argument, NULL, time));
            printf(" %d\n", pthread_clockjoin_np(blocked, NULL, CLOCK_MONOTONIC, time));
        } else {
            pthread_create(&ends, NULL, nothing, NULL);
            printf(" without limit %d\n", pthread_timedjoin_np(ends, NULL, time));
        }
    }
    for (int held = 0; held < 2; held++)
        for (int kind = CHECKED; kind <= INHERITING; kind++)
            if (kind != ADAPTIVE) printf("unlocks %d\n", pthread_mutex_unlock(&mutexes[held][kind]));
    pthread_mutex_t *inheriting = &mutexes[0][INHERITING];
    printf("inherits %d", pthread_mutex_lock(inheriting));
    printf(" %d", pthread_mutex_trylock(inheriting));
    printf(" %d", pthread_mutex_unlock(inheriting));
    printf(" %d\n", pthread_mutex_unlock(inheriting));
    return NULL;
}

int main(void) {
    pthread_t thread, first = pthread_self();
    pthread_create(&thread, NULL, cases, NULL);
    pthread_join(thread, NULL);
    make();
    pthread_create(&thread, NULL, locks, &first);
    pthread_join(thread, NULL);
    printf("unlocks %d\n", pthread_mutex_unlock(&mutexes[1][INHERITING]));
    return 0;
}
