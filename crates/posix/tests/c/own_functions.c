// A program with functions of its own that are called as functions of the C library's are, and seen by all libraries
// (`-rdynamic`): the C library never calls them. Nor does what stands in its place. Beside them, the program stands
// before `sigaction` as Erlang's runtime does, with what comes next behind the other name of the same function.
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

// By the names that the linker sees: the headers' prototypes are others.
#define NAMED(name)                                                               \
    long own_##name(void) __asm__(#name);                                         \
    long own_##name(void) {                                                       \
        syscall(SYS_write, 1, #name " was called\n", sizeof #name " was called"); \
        syscall(SYS_exit_group, 1);                                               \
        return 0;                                                                 \
    }

NAMED(clock_gettime) NAMED(clock_nanosleep) NAMED(nanosleep) NAMED(close) NAMED(close_range) NAMED(closedir)
NAMED(opendir) NAMED(connect) NAMED(dup2) NAMED(fcntl) NAMED(gettid) NAMED(open64) NAMED(pause) NAMED(pipe)
NAMED(pipe2) NAMED(poll) NAMED(raise) NAMED(read) NAMED(write) NAMED(readlink) NAMED(recv) NAMED(send) NAMED(sendmmsg)
NAMED(select) NAMED(sched_yield) NAMED(sigaltstack) NAMED(sigsuspend) NAMED(sigtimedwait) NAMED(stat64) NAMED(statx)
NAMED(vfork) NAMED(wait4) NAMED(writev) NAMED(pthread_sigmask) NAMED(sigprocmask) NAMED(pthread_setname_np)
NAMED(pthread_getname_np) NAMED(pthread_getaffinity_np) NAMED(pthread_getschedparam) NAMED(pthread_rwlock_tryrdlock)
NAMED(pthread_mutex_timedlock)

static int asked;

int sigaction(int signal, const struct sigaction *new, struct sigaction *old) {
    int (*next)(int, const struct sigaction *, struct sigaction *) = dlsym(RTLD_NEXT, "__sigaction");
    asked++;
    return next(signal, new, old);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static sem_t posted;
static int sockets[2], rounds;
static volatile sig_atomic_t handled;

static void handler(int signal) { handled = signal; }

static void *worker(void *mine) {
    char text[8];
    struct iovec into = {text, sizeof text};
    for (int i = 0; i < 20; i++) {
        pthread_mutex_lock(&lock);
        while (rounds % 2 != (mine != NULL)) {
            pthread_cond_wait(&turn, &lock);
        }
        rounds++;
        pthread_cond_signal(&turn);
        pthread_mutex_unlock(&lock);
        usleep(100);
    }
    if (mine) {
        struct timespec short_time = {0, 1000000};
        struct pollfd asked_for = {sockets[0], POLLIN, 0};
        ppoll(&asked_for, 1, &short_time, NULL);
        sem_post(&posted);
        printf("%zd in a message\n", readv(sockets[0], &into, 1));
        errno = 0;
        FILE *child = popen("echo child; exit 2", "r");
        printf("%s", fgets(text, sizeof text, child));
        printf("%d of its end\n", pclose(child));
        printf("%d of system\n", system("exit 3") >> 8);
    } else {
        sem_wait(&posted);
        struct iovec from = {"four", 4};
        struct msghdr message = {.msg_iov = &from, .msg_iovlen = 1};
        usleep(1000);
        sendmsg(sockets[1], &message, 0);
    }
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = handler}, before;
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR1, NULL, &before);
    printf("%d handler, asked %d times\n", before.sa_handler == handler, asked);
    socketpair(AF_UNIX, SOCK_STREAM, 0, sockets);
    sem_init(&posted, 0, 0);
    pthread_t threads[2];
    for (long i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, worker, (void *)i);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    kill(getpid(), SIGUSR1);
    printf("%d rounds, %d handled\n", rounds, handled == SIGUSR1);
    return 0;
}
