// A place that a call cannot read or write is the kernel's EFAULT, in a thread, as it is in main.
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

// No memory; memory that cannot be written; four bytes before memory that cannot be read.
static char *nowhere, *constant, *edge;
static int ends[2], sockets[2], set;
static volatile size_t too_many = -1;

static void tell(const char *what, long result) {
    printf("%s: %ld %s\n", what, result, result == -1 ? strerrorname_np(errno) : "");
}

#define TRY(call) (errno = 0, tell(#call, (long)(call)))

static void times(void) {
    struct timespec soon = {0, 1000};
    TRY(nanosleep((void *)nowhere, NULL));
    TRY(nanosleep((void *)(edge - 4), NULL));
    TRY(nanosleep(&soon, (void *)nowhere));
    TRY(clock_nanosleep(CLOCK_MONOTONIC, 0, (void *)nowhere, NULL));
    TRY(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, (void *)nowhere, NULL));
    TRY(syscall(SYS_nanosleep, nowhere, NULL));
}

static void vectors(void) {
    struct msghdr message = {.msg_iov = (void *)nowhere, .msg_iovlen = 1};
    struct iovec parts[2] = {{"ab", 2}, {nowhere, 4}};
    TRY(read(ends[0], nowhere, 4));
    TRY(read(ends[0], constant, 4));
    TRY(read(ends[0], edge, too_many));
    TRY(write(ends[1], edge, too_many));
    TRY(readv(ends[0], (void *)nowhere, 1));
    TRY(readv(ends[0], (void *)(edge - 4), 1));
    TRY(writev(ends[1], (void *)nowhere, 2));
    TRY(writev(ends[1], parts, 2));
    TRY(sendmsg(sockets[0], (void *)nowhere, 0));
    TRY(sendmsg(sockets[0], &message, 0));
    TRY(recvmsg(sockets[0], (void *)nowhere, 0));
    TRY(sendmmsg(sockets[0], (void *)nowhere, 1, 0));
    struct mmsghdr one = {0};
    TRY(recvmmsg(sockets[0], &one, 1, 0, (void *)nowhere));
}

static void many(void) {
    struct pollfd entry = {ends[0], POLLIN, 0};
    struct epoll_event event;
    fd_set numbers;
    FD_ZERO(&numbers);
    FD_SET(ends[0], &numbers);
    TRY(poll((void *)nowhere, 1, 10));
    TRY(ppoll(&entry, 1, NULL, (void *)nowhere));
    TRY(select(ends[0] + 1, (void *)nowhere, NULL, NULL, NULL));
    TRY(select(ends[0] + 1, &numbers, (void *)constant, NULL, NULL));
    struct timespec none = {0, 0};
    TRY(pselect(0, NULL, NULL, NULL, &none, (void *)nowhere));
    TRY(epoll_wait(set, (void *)nowhere, 1, 10));
    TRY(epoll_pwait(set, &event, 1, 10, (void *)nowhere));
    TRY(epoll_pwait2(set, &event, 1, (void *)nowhere, NULL));
}

static void signals(void) {
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR1);
    TRY(sigwait((void *)nowhere, &(int){0}));
    TRY(sigwaitinfo((void *)nowhere, NULL));
    TRY(sigtimedwait(&some, NULL, (void *)nowhere));
    TRY(sigsuspend((void *)nowhere));
    TRY(pthread_sigmask(SIG_BLOCK, NULL, (void *)nowhere));
    TRY(sigaltstack((void *)nowhere, NULL));
    TRY(sigaltstack(NULL, (void *)nowhere));
}

static void words(void) {
    unsigned word = 0;
    const int wait = FUTEX_WAIT_PRIVATE;
    TRY(syscall(SYS_futex, nowhere, wait, 0, NULL, NULL, 0));
    TRY(syscall(SYS_futex, nowhere + (1l << 40), wait, 0, NULL, NULL, 0));
    TRY(syscall(SYS_futex, &word, wait, 0, nowhere, NULL, 0));
    TRY(syscall(SYS_futex, &word, FUTEX_WAKE_OP_PRIVATE, 1, 1l, nowhere, 0));
    TRY(syscall(SYS_futex, &word, FUTEX_WAKE_OP_PRIVATE, 1, 1l, constant, 0));
    TRY(syscall(SYS_futex, nowhere + (1l << 40), FUTEX_CMP_REQUEUE_PRIVATE, 1, 1l, &word, 0));
}

static void rest(void) {
    struct stat status;
    char name[8];
    int group = semget(IPC_PRIVATE, 1, 0600 | IPC_CREAT);
    struct sembuf down = {0, -1, 0};
    TRY(semtimedop(group, &down, 1, (void *)nowhere));
    semctl(group, 0, IPC_RMID);
    TRY(open(nowhere, O_RDONLY));
    TRY(access(nowhere, 0));
    TRY(stat(nowhere, &status));
    TRY(prctl(PR_GET_NAME, nowhere));
    TRY(pthread_getname_np(pthread_self(), name, sizeof name) == ERANGE);
}

// The runtime has met faults; the program's handler meets only the program's.
static void handler(int signal) {
    (void)signal;
    static const char line[] = "a fault of the program's\n";
    if (write(1, line, sizeof line - 1) < 0) abort();
    mprotect(constant, 4096, PROT_READ | PROT_WRITE);
}

static void *all(void *ignored) {
    times(), vectors(), many(), signals(), words(), rest();
    return ignored;
}

static void in_thread(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, all, NULL);
    pthread_join(thread, NULL);
}

static void *no_thing(void *ignored) { return ignored; }

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    constant = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    edge = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(edge + 4096, 4096, PROT_NONE);
    edge += 4092;
    struct epoll_event event = {.events = EPOLLIN};
    if (pipe(ends) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) || (set = epoll_create1(0)) < 0) abort();
    if (write(ends[1], "abcdefgh", 8) != 8 || write(sockets[1], "abcdefgh", 8) != 8) abort();
    epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event);
    all(NULL);
    in_thread();
    all(NULL);
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGSEGV, &action, NULL);
    in_thread();
    *(volatile char *)constant = 1;
    pthread_t thread;
    pthread_create(&thread, NULL, no_thing, NULL);
    return pthread_join(thread, NULL);
}
