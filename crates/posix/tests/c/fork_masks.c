// The child of a fork blocks what the forking thread blocked, and not what the others did: by the call and by its number.
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static sem_t set, end;
static volatile sig_atomic_t handled;

static void counts(int signal) {
    (void)signal;
    handled++;
}

static void mask(int how, int signal) {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal);
    pthread_sigmask(how, &one, NULL);
}

// Blocks the other one of the two.
static void *other(void *unused) {
    mask(SIG_UNBLOCK, SIGUSR1);
    mask(SIG_BLOCK, SIGUSR2);
    sem_post(&set);
    while (sem_wait(&end)) {}
    return unused;
}

static int child(void) {
    sigset_t now, pending;
    sigprocmask(SIG_BLOCK, NULL, &now);
    int wrong = !sigismember(&now, SIGUSR1) + 2 * sigismember(&now, SIGUSR2);
    kill(getpid(), SIGUSR1);
    wrong += 4 * (handled != 0);
    sigpending(&pending);
    wrong += 8 * !sigismember(&pending, SIGUSR1);
    kill(getpid(), SIGUSR2);
    wrong += 16 * (handled != 1);
    mask(SIG_UNBLOCK, SIGUSR1);
    wrong += 32 * (handled != 2);
    return wrong;
}

static void *forks(void *who) {
    mask(SIG_BLOCK, SIGUSR1);
    for (int by_number = 0; by_number < 2; by_number++) {
        pid_t pid = by_number ? syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
        if (pid == 0) {
            alarm(20);
            _exit(child());
        }
        int status;
        while (waitpid(pid, &status, 0) != pid) {}
        printf("%s%s: %d\n", (char *)who, by_number ? ", by number" : "", status);
    }
    return NULL;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct sigaction action = {.sa_handler = counts};
    sigaction(SIGUSR1, &action, NULL), sigaction(SIGUSR2, &action, NULL);
    pthread_t thread, forker;
    if (sem_init(&set, 0, 0) || sem_init(&end, 0, 0) || pthread_create(&thread, NULL, other, NULL)) return 1;
    while (sem_wait(&set)) {}
    forks("the first thread");
    if (pthread_create(&forker, NULL, forks, "a thread") || pthread_join(forker, NULL)) return 1;
    sem_post(&end);
    return pthread_join(thread, NULL);
}
