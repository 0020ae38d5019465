// A thread that blocks all signals does what has the kernel, or the C library, change the mask of its kernel thread for
// a while, and ends. Another one, which lets signals in, gets them after that while it computes: what is sent to it, and
// then what is sent to the process.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

extern char **environ;
static char *nothing[] = {"nothing", NULL};
static atomic_int computes, handled, elsewhere;
static pthread_t computing;
static volatile int jumped;

static void handler(int signal) {
    if (!pthread_equal(pthread_self(), computing)) atomic_fetch_add(&elsewhere, 1);
    atomic_fetch_add(&handled, signal == SIGUSR1 ? 1 : 100);
}

static int ended(pid_t child) {
    int status = -1;
    while (waitpid(child, &status, 0) != child)
        if (errno != EINTR) abort();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int by_execve(void) { return execve("/nowhere", nothing, environ) == -1 && errno == ENOENT; }
static int by_execv(void) { return execv("/nowhere", nothing) == -1 && errno == ENOENT; }
static int by_execvp(void) { return execvp("nothing-of-that-name", nothing) == -1 && errno == ENOENT; }
static int by_fexecve(void) {
    int folder = open("/", O_RDONLY);
    int wrong = fexecve(folder, nothing, environ) == -1 && errno == EACCES;
    close(folder);
    return wrong;
}
static int by_execveat(void) { return execveat(AT_FDCWD, "/nowhere", nothing, environ, 0) == -1 && errno == ENOENT; }

static int by_spawn_in_vain(void) { return posix_spawn(NULL, "/nowhere", NULL, NULL, nothing, environ) == ENOENT; }
static int by_spawn(void) {
    pid_t child;
    char *shell[] = {"sh", "-c", "exit 3", NULL};
    return posix_spawnp(&child, "sh", NULL, NULL, shell, environ) == 0 && ended(child) == 3;
}
static int by_vfork(void) {
    pid_t child = vfork();
    if (child == 0) {
        execv("/nowhere", nothing);
        _exit(5);
    }
    return ended(child) == 5;
}
static int by_fork(void) {
    pid_t child = fork();
    if (child == 0) _exit(6);
    return ended(child) == 6;
}
static int by_system(void) { return system("exit 4") == 4 << 8; }
static int by_popen(void) {
    FILE *stream = popen("exit 7", "r");
    return stream && pclose(stream) == 7 << 8;
}

// Waits with another mask.
static int by_ppoll(void) {
    struct timespec time = {0, 1000000};
    sigset_t none;
    sigemptyset(&none);
    return ppoll(NULL, 0, &time, &none) == 0;
}
static int by_pselect(void) {
    struct timespec time = {0, 1000000};
    sigset_t none;
    sigemptyset(&none);
    return pselect(0, NULL, NULL, NULL, &time, &none) == 0;
}
static int by_epoll_pwait(void) {
    struct epoll_event event;
    sigset_t none;
    sigemptyset(&none);
    int set = epoll_create1(0), result = epoll_pwait(set, &event, 1, 1, &none);
    close(set);
    return result == 0;
}
static int by_sigtimedwait(void) {
    struct timespec time = {0, 1000000};
    sigset_t all;
    sigfillset(&all);
    return sigtimedwait(&all, NULL, &time) == -1 && errno == EAGAIN;
}

static int by_contexts(void) {
    ucontext_t here;
    jumped = 0;
    if (getcontext(&here)) return 0;
    if (jumped++ == 0) setcontext(&here);
    return jumped == 2;
}

static const struct {
    const char *name;
    int (*way)(void);
} ways[] = {
    {"execve", by_execve}, {"execv", by_execv}, {"execvp", by_execvp}, {"fexecve", by_fexecve},
    {"execveat", by_execveat}, {"posix_spawn in vain", by_spawn_in_vain}, {"posix_spawnp", by_spawn},
    {"vfork", by_vfork}, {"system", by_system}, {"popen", by_popen}, {"ppoll", by_ppoll}, {"pselect", by_pselect},
    {"epoll_pwait", by_epoll_pwait}, {"sigtimedwait", by_sigtimedwait}, {"contexts", by_contexts}, {"fork", by_fork},
};

static void *goes(void *number) {
    sigset_t all, after;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    int well = ways[(long)number].way();
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    for (int signal = 1; signal < 32; signal++)
        if (signal != SIGKILL && signal != SIGSTOP) well &= sigismember(&after, signal);
    return (void *)(long)well;
}

// The first one comes while its mask is as it was created; it does not wait between them.
static void *gets(void *unused) {
    sigset_t second;
    sigemptyset(&second);
    sigaddset(&second, SIGUSR2);
    computing = pthread_self();
    atomic_store(&computes, 1);
    while (atomic_load(&handled) < 1) {}
    pthread_sigmask(SIG_UNBLOCK, &second, NULL);
    while (atomic_load(&handled) < 101) {}
    return unused;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    sigset_t second;
    sigemptyset(&second);
    sigaddset(&second, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &second, NULL);
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL), sigaction(SIGUSR2, &action, NULL);
    for (long i = 0; i < (long)(sizeof ways / sizeof *ways); i++) {
        pthread_t thread;
        void *well;
        atomic_store(&computes, 0), atomic_store(&handled, 0);
        if (pthread_create(&thread, NULL, goes, (void *)i) || pthread_join(thread, &well)) return 1;
        if (pthread_create(&thread, NULL, gets, NULL)) return 1;
        while (!atomic_load(&computes)) usleep(1000);
        pthread_kill(thread, SIGUSR1);
        kill(getpid(), SIGUSR2);
        pthread_join(thread, NULL);
        printf("%s: %ld, handled: %d, elsewhere: %d\n", ways[i].name, (long)well, handled, elsewhere);
    }
    return 0;
}
