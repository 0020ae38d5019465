// Signals that a child of the process sends to its threads, by their numbers: with tgkill, tkill, rt_tgsigqueueinfo and
// kill; to threads that compute, wait, block the signal, or are dedicated. And what the process's own threads send so.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { COMPUTES, SLEEPS, PAUSES, READS, BLOCKS, DEDICATED, KINDS };
static const char *const names[] = {"computes", "sleeps", "pauses", "reads", "blocks", "dedicated"};

static volatile pid_t number;
static volatile int handled, code, value, sender, ready;
static volatile pid_t handled_by;
static int channel[2];

static void handler(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    handled_by = gettid();
    code = info->si_code;
    sender = info->si_pid;
    value = info->si_code == SI_QUEUE ? info->si_value.sival_int : 0;
    handled = 1;
}

static void *target(void *argument) {
    long kind = (long)argument;
    struct pollfd from = {.fd = channel[0], .events = POLLIN};
    sigset_t set;
    siginfo_t info;
    char byte;
    if (kind == DEDICATED)
        prctl(PR_SET_TIMERSLACK, 60000);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    if (kind == BLOCKS)
        pthread_sigmask(SIG_BLOCK, &set, NULL);
    number = gettid();
    ready = 1;
    switch (kind) {
    case COMPUTES:
        while (!handled)
            ;
        break;
    case PAUSES:
        while (!handled)
            poll(&from, 1, -1);
        break;
    case READS:
        while (!handled && read(channel[0], &byte, 1) < 0 && errno == EINTR)
            ;
        break;
    case BLOCKS:
        while (sigtimedwait(&set, &info, &(struct timespec){.tv_sec = 100}) < 0)
            ;
        handler(SIGUSR1, &info, NULL);
        break;
    default:
        while (!handled)
            usleep(1000);
    }
    return NULL;
}

static int send_by(int way, pid_t process, pid_t thread, int signal) {
    siginfo_t info = {.si_signo = signal, .si_code = SI_QUEUE};
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_int = 7;
    long result = way == 0   ? syscall(SYS_tgkill, process, thread, signal)
                  : way == 1 ? syscall(SYS_tkill, thread, signal)
                  : way == 2 ? syscall(SYS_rt_tgsigqueueinfo, process, thread, signal, &info)
                             : tgkill(process, thread, signal);
    return result ? errno : 0;
}

static void one(long kind, int way, int from_child) {
    pthread_t thread;
    handled = ready = 0;
    pthread_create(&thread, NULL, target, (void *)kind);
    while (!ready)
        usleep(100);
    pid_t process = getpid(), child = process;
    int result;
    if (from_child) {
        child = fork();
        if (child == 0)
            _exit(send_by(way, process, number, SIGUSR1));
        int status;
        waitpid(child, &status, 0);
        result = WEXITSTATUS(status);
    } else {
        result = send_by(way, process, number, SIGUSR1);
    }
    if (kind == READS || kind == PAUSES) {
        // The signal may have come before it waited.
        struct pollfd left = {.fd = channel[0], .events = POLLIN};
        char byte = 0;
        while (!handled)
            usleep(1000);
        if (write(channel[1], &byte, 1) != 1)
            exit(1);
        pthread_join(thread, NULL);
        while (poll(&left, 1, 0) == 1)
            if (read(channel[0], &byte, 1) != 1)
                exit(1);
    } else {
        pthread_join(thread, NULL);
    }
    int same = kind == BLOCKS || handled_by == number;
    printf("%s, way %d, %s: %d, code %d, value %d, there %d, sender %d\n", names[kind], way,
           from_child ? "child" : "own", result, code, value, same, sender == child);
    fflush(stdout);
}

static void *waits(void *argument) {
    (void)argument;
    number = gettid();
    ready = 1;
    while (!handled)
        usleep(1000);
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    if (pipe(channel))
        return 1;
    for (int way = 0; way < 4; way++)
        for (long kind = 0; kind < KINDS; kind++)
            for (int from_child = 0; from_child < 2; from_child++)
                one(kind, way, from_child);

    // Errors; the null signal; the process by a thread's number; the parent's first thread.
    pthread_t thread;
    handled = ready = 0;
    pthread_create(&thread, NULL, waits, NULL);
    while (!ready)
        usleep(100);
    pid_t process = getpid(), child = fork();
    if (child == 0) {
        printf("null %d, none %d, bad %d, other %d\n", send_by(0, process, number, 0),
               send_by(0, process, number + 1000000, 0), send_by(0, process, number, 65) == EINVAL,
               send_by(0, getpid(), number, 0));
        printf("kill %d, first %d\n", kill(number, 0), send_by(1, process, process, 0));
        fflush(stdout);
        _exit(kill(number, SIGUSR1) ? errno : 0);
    }
    int status;
    // The signal may be taken here.
    while (waitpid(child, &status, 0) < 0)
        ;
    pthread_join(thread, NULL);
    printf("the process: %d, code %d\n", WEXITSTATUS(status), code);
    return 0;
}
