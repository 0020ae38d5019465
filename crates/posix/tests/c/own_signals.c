// A thread's own signals by a descriptor that it has made (signalfd), and what it creates after that.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

static sigset_t set;
static struct signalfd_siginfo told[8];
static volatile int ready;

static int take(int descriptor) {
    int result = read(descriptor, told, sizeof told);
    return result < 0 ? -errno : result / (int)sizeof *told;
}

static void *own(void *argument) {
    int descriptor = signalfd(-1, &set, SFD_NONBLOCK);
    printf("nothing yet: %d\n", take(descriptor) == -EAGAIN);
    pthread_kill(pthread_self(), SIGUSR1);
    int count = take(descriptor);
    printf("its own: %d, signal %d, code %d, sender %d\n", count, told[0].ssi_signo == SIGUSR1,
           told[0].ssi_code == SI_TKILL, told[0].ssi_pid == (unsigned)getpid());
    for (int i = 0; i < 5; i++) pthread_sigqueue(pthread_self(), SIGRTMIN + 2, (union sigval){i});
    count = take(descriptor);
    printf("in order:");
    for (int i = 0; i < count; i++) printf(" %d", told[i].ssi_int);
    sigset_t pending;
    sigpending(&pending);
    printf(", pending %d\n", sigismember(&pending, SIGRTMIN + 2));
    kill(getpid(), SIGUSR1);
    count = take(descriptor);
    printf("the process's: %d\n", count);
    close(descriptor);
    return argument;
}

// Left before the descriptor is there.
static void *early(void *argument) {
    pthread_kill(pthread_self(), SIGUSR1);
    int descriptor = syscall(SYS_signalfd4, -1, &set, 8, 0);
    printf("early: %d\n", take(descriptor));
    close(descriptor);
    return argument;
}

static void *waits(void *argument) {
    int descriptor = signalfd(-1, &set, 0), epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event);
    struct pollfd entry = {descriptor, POLLIN, 0};
    for (int way = 0; way < 3; way++) {
        ready = way + 1;
        int woken = way == 0 ? 1 : way == 1 ? poll(&entry, 1, -1) : epoll_wait(epoll, &event, 1, -1);
        printf("waits: %d, read %d\n", woken, take(descriptor));
    }
    close(epoll);
    close(descriptor);
    return argument;
}

int main(void) {
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGRTMIN + 2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, own, NULL);
    pthread_join(thread, NULL);
    pthread_create(&thread, NULL, early, NULL);
    pthread_join(thread, NULL);
    pthread_create(&thread, NULL, waits, NULL);
    for (int way = 0; way < 3; way++) {
        while (ready != way + 1) usleep(1000);
        pthread_kill(thread, SIGUSR1);
    }
    pthread_join(thread, NULL);
    return 0;
}
