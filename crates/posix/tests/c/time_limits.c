// Calls with a time limit end by it, and by nothing else, while what is no concern of theirs happens to their thread: a
// signal that it blocks is sent to it, its cancellation, which it does not let happen, is asked for, and another thread
// changes its mask.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT_NS = 30000000 };
static const struct timespec limit = {0, LIMIT_NS};
static const struct timeval limit_us = {0, LIMIT_NS / 1000};
static char much[1 << 20];
static atomic_int begun, done;
static pthread_t waiter, first;

static struct timespec later(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_nsec += LIMIT_NS;
    if (time.tv_nsec >= 1000000000) time.tv_sec++, time.tv_nsec -= 1000000000;
    return time;
}

static int limited(int domain, int type, int option, int *other) {
    int pair[2];
    if (socketpair(domain, type, 0, pair)) abort();
    if (setsockopt(pair[0], SOL_SOCKET, option, &limit_us, sizeof limit_us)) abort();
    *other = pair[1];
    return pair[0];
}

static long by_poll(void) {
    struct pollfd one = {-1, POLLIN, 0};
    return poll(&one, 1, LIMIT_NS / 1000000);
}
static long by_poll_of_one(void) {
    int pair[2];
    if (pipe(pair)) abort();
    struct pollfd one = {pair[0], POLLIN, 0};
    long result = poll(&one, 1, LIMIT_NS / 1000000);
    close(pair[0]), close(pair[1]);
    return result;
}
static long by_ppoll(void) { return ppoll(NULL, 0, &limit, NULL); }
static long by_select(void) {
    struct timeval time = limit_us;
    return select(0, NULL, NULL, NULL, &time);
}
static long by_pselect(void) { return pselect(0, NULL, NULL, NULL, &limit, NULL); }
static long by_epoll_wait(void) {
    struct epoll_event event;
    int set = epoll_create1(0);
    long result = epoll_wait(set, &event, 1, LIMIT_NS / 1000000);
    close(set);
    return result;
}
static long by_epoll_pwait(void) {
    struct epoll_event event;
    int set = epoll_create1(0);
    long result = epoll_pwait(set, &event, 1, LIMIT_NS / 1000000, NULL);
    close(set);
    return result;
}
static long by_epoll_pwait2(void) {
    struct epoll_event event;
    int set = epoll_create1(0);
    long result = epoll_pwait2(set, &event, 1, &limit, NULL);
    close(set);
    return result;
}
static long by_nanosleep(void) { return nanosleep(&limit, NULL); }
static long by_clock_nanosleep(void) { return clock_nanosleep(CLOCK_REALTIME, 0, &limit, NULL); }
static long by_usleep(void) { return usleep(LIMIT_NS / 1000); }
static long by_sem(void) {
    sem_t never;
    struct timespec end = later(CLOCK_REALTIME);
    sem_init(&never, 0, 0);
    return sem_timedwait(&never, &end);
}
static long by_cond(void) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    struct timespec end = later(CLOCK_REALTIME);
    int result = 0;
    pthread_mutex_lock(&mutex);
    while (result == 0) result = pthread_cond_timedwait(&never, &mutex, &end);
    pthread_mutex_unlock(&mutex);
    return result;
}
static long by_mutex(void) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    struct timespec end = later(CLOCK_REALTIME);
    pthread_mutex_lock(&mutex);
    return pthread_mutex_timedlock(&mutex, &end);
}
static long by_rwlock(void) {
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    struct timespec end = later(CLOCK_REALTIME);
    pthread_rwlock_rdlock(&lock);
    return pthread_rwlock_timedwrlock(&lock, &end);
}
static long by_join(void) {
    struct timespec end = later(CLOCK_REALTIME);
    return pthread_timedjoin_np(first, NULL, &end);
}
static long by_sigtimedwait(void) {
    sigset_t one;
    sigemptyset(&one), sigaddset(&one, SIGRTMIN + 3);
    return sigtimedwait(&one, NULL, &limit);
}
static long by_semtimedop(void) {
    int set = semget(IPC_PRIVATE, 1, 0600);
    struct sembuf down = {0, -1, 0};
    long result = semtimedop(set, &down, 1, &limit);
    int error = errno;
    semctl(set, 0, IPC_RMID);
    errno = error;
    return result;
}
static long by_recv(void) {
    char byte;
    int other, one = limited(AF_UNIX, SOCK_STREAM, SO_RCVTIMEO, &other);
    long result = recv(one, &byte, 1, 0);
    close(one), close(other);
    return result;
}
static long by_read(void) {
    char byte;
    int other, one = limited(AF_UNIX, SOCK_DGRAM, SO_RCVTIMEO, &other);
    long result = read(one, &byte, 1);
    close(one), close(other);
    return result;
}
static long by_recvmsg(void) {
    char byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    int other, one = limited(AF_UNIX, SOCK_DGRAM, SO_RCVTIMEO, &other);
    long result = recvmsg(one, &message, 0);
    close(one), close(other);
    return result;
}
static long by_recvmsg_of_all(void) {
    char bytes[8];
    struct iovec part = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    int other, one = limited(AF_UNIX, SOCK_STREAM, SO_RCVTIMEO, &other);
    long result = recvmsg(one, &message, MSG_WAITALL);
    close(one), close(other);
    return result;
}
static long by_peek_of_all(void) {
    char bytes[8];
    int other, one = limited(AF_UNIX, SOCK_STREAM, SO_RCVTIMEO, &other);
    long result = recv(one, bytes, sizeof bytes, MSG_WAITALL | MSG_PEEK);
    close(one), close(other);
    return result;
}
static long by_send(void) {
    int other, one = limited(AF_UNIX, SOCK_STREAM, SO_SNDTIMEO, &other);
    while (send(one, much, sizeof much, MSG_DONTWAIT) > 0) {}
    long result = send(one, much, 1, 0);
    close(one), close(other);
    return result;
}
static int listener(struct sockaddr_in *address) {
    socklen_t size = sizeof *address;
    int made = socket(AF_INET, SOCK_STREAM, 0);
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(made, (struct sockaddr *)address, size) || listen(made, 0)) abort();
    if (getsockname(made, (struct sockaddr *)address, &size)) abort();
    return made;
}
static long by_accept(void) {
    struct sockaddr_in address;
    int one = listener(&address);
    if (setsockopt(one, SOL_SOCKET, SO_RCVTIMEO, &limit_us, sizeof limit_us)) abort();
    long result = accept(one, NULL, NULL);
    close(one);
    return result;
}
// So many bytes take ten times a limit of so much to come, and each far less.
enum { MANY = 1000, BYTE_US = 2000, ALL_US = 200000 };
static atomic_int ended;
static int slow;
static void *sends_bytes(void *unused) {
    for (int i = 0; i < MANY && !atomic_load(&ended); i++) {
        if (send(slow, "", 1, MSG_NOSIGNAL) != 1) break;
        usleep(BYTE_US);
    }
    return unused;
}
// All that a call waits for is within one limit: how much has come by then is a matter of luck.
static long by_recv_of_all(void) {
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    int server = listener(&address), one = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(one, (struct sockaddr *)&address, size)) abort();
    slow = accept(server, NULL, NULL);
    const struct timeval all = {0, ALL_US};
    if (setsockopt(one, SOL_SOCKET, SO_RCVTIMEO, &all, sizeof all)) abort();
    pthread_t sender;
    pthread_create(&sender, NULL, sends_bytes, NULL);
    long result = recv(one, much, MANY, MSG_WAITALL);
    atomic_store(&ended, 1);
    close(one);
    pthread_join(sender, NULL);
    close(slow), close(server);
    if (result == MANY) return MANY;
    errno = EAGAIN;
    return -1;
}
// Nobody accepts, and there is room for one.
static long by_connect(void) {
    struct sockaddr_in address;
    int one = listener(&address), filler = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(filler, (struct sockaddr *)&address, sizeof address)) abort();
    // The other side may know later that it is connected: who comes before that finds room, too.
    for (struct tcp_info info = {0}; info.tcpi_unacked == 0; usleep(1000)) {
        socklen_t size = sizeof info;
        if (getsockopt(one, IPPROTO_TCP, TCP_INFO, &info, &size)) abort();
    }
    if (setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit_us, sizeof limit_us)) abort();
    long result = connect(client, (struct sockaddr *)&address, sizeof address);
    if (result == -1 && errno == EINPROGRESS) {
        // The same beginning is waited for once more.
        result = connect(client, (struct sockaddr *)&address, sizeof address);
    }
    close(one), close(client), close(filler);
    return result;
}
static long by_connect_near(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    // In the abstract name space.
    socklen_t size = offsetof(struct sockaddr_un, sun_path) + 1 +
                     snprintf(address.sun_path + 1, 90, "time-limits-%d", (int)getpid());
    int one = socket(AF_UNIX, SOCK_STREAM, 0), fillers[3], client = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(one, (struct sockaddr *)&address, size) || listen(one, 0)) abort();
    for (int i = 0; i < 3; i++) {
        fillers[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        connect(fillers[i], (struct sockaddr *)&address, size);
    }
    if (setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit_us, sizeof limit_us)) abort();
    long result = connect(client, (struct sockaddr *)&address, size);
    close(one), close(client);
    for (int i = 0; i < 3; i++) close(fillers[i]);
    return result;
}
static long by_mq(void) {
    char name[50], byte[16];
    struct mq_attr attributes = {.mq_maxmsg = 1, .mq_msgsize = 16};
    struct timespec end = later(CLOCK_REALTIME);
    snprintf(name, sizeof name, "/time-limits-%d", (int)getpid());
    mqd_t queue = mq_open(name, O_RDWR | O_CREAT, 0600, &attributes);
    if (queue == (mqd_t)-1) return errno = ETIMEDOUT, -1;
    mq_unlink(name);
    long result = mq_timedreceive(queue, byte, sizeof byte, NULL, &end);
    mq_close(queue);
    return result;
}

static const struct {
    const char *name;
    long (*call)(void);
} calls[] = {
    {"poll", by_poll}, {"poll of one", by_poll_of_one}, {"ppoll", by_ppoll}, {"select", by_select},
    {"pselect", by_pselect}, {"epoll_wait", by_epoll_wait}, {"epoll_pwait", by_epoll_pwait},
    {"epoll_pwait2", by_epoll_pwait2}, {"nanosleep", by_nanosleep}, {"clock_nanosleep", by_clock_nanosleep},
    {"usleep", by_usleep}, {"sem_timedwait", by_sem}, {"pthread_cond_timedwait", by_cond},
    {"pthread_mutex_timedlock", by_mutex}, {"pthread_rwlock_timedwrlock", by_rwlock},
    {"pthread_timedjoin_np", by_join}, {"sigtimedwait", by_sigtimedwait}, {"semtimedop", by_semtimedop},
    {"recv", by_recv}, {"read", by_read}, {"recvmsg", by_recvmsg},
    {"recvmsg of all", by_recvmsg_of_all}, {"peek of all", by_peek_of_all}, {"recv of all", by_recv_of_all},
    {"send", by_send}, {"accept", by_accept}, {"connect", by_connect}, {"connect near", by_connect_near},
    {"mq_timedreceive", by_mq},
};
enum { CALLS = sizeof calls / sizeof *calls };
static const char *only;

static void *waits(void *unused) {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    waiter = pthread_self();
    atomic_store(&begun, 1);
    for (int i = 0; i < CALLS; i++) {
        if (only && strcmp(only, calls[i].name)) continue;
        errno = 0;
        long result = calls[i].call();
        printf("%s: %ld, %s\n", calls[i].name, result, result == -1 ? strerror(errno) : "");
    }
    atomic_store(&done, 1);
    return unused;
}

static void *disturbs(void *unused) {
    sigset_t two;
    sigemptyset(&two), sigaddset(&two, SIGUSR2);
    while (!atomic_load(&begun)) usleep(1000);
    while (!atomic_load(&done)) {
        pthread_sigmask(SIG_UNBLOCK, &two, NULL);
        pthread_kill(waiter, SIGUSR1);
        pthread_sigmask(SIG_BLOCK, &two, NULL);
        pthread_cancel(waiter);
        usleep(500);
    }
    return unused;
}

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (count > 1) only = arguments[1];
    sigset_t both;
    sigemptyset(&both), sigaddset(&both, SIGUSR1), sigaddset(&both, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &both, NULL);
    first = pthread_self();
    pthread_t threads[2];
    if (pthread_create(&threads[0], NULL, waits, NULL) || pthread_create(&threads[1], NULL, disturbs, NULL)) return 1;
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return 0;
}
