// Forks in threads and in the first thread: the child goes on, creates threads, blocks, forks again, executes programs.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
static __thread long own;
static char trace[8];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int turns;

static void before(void) {
    pthread_mutex_lock(&mutex);
    strcpy(trace, "b");
}
static void in_parent(void) {
    strcat(trace, "p");
    pthread_mutex_unlock(&mutex);
}
static void in_child(void) {
    strcat(trace, "c");
    pthread_mutex_unlock(&mutex);
}

static void *worker(void *argument) {
    for (int i = 0; i < 50; i++) {
        pthread_mutex_lock(&mutex);
        turns++;
        pthread_cond_broadcast(&condition);
        pthread_mutex_unlock(&mutex);
        sched_yield();
        if (i % 10 == 0) usleep(100);
    }
    return argument;
}

// Threads in a process, whichever it is: 0 if all is right.
static int threads(void) {
    pthread_t t[20];
    turns = 0;
    for (long i = 0; i < 20; i++)
        if (pthread_create(&t[i], NULL, worker, (void *)i) != 0) return 1;
    pthread_mutex_lock(&mutex);
    while (turns < 20 * 50) pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
    for (long i = 0; i < 20; i++) {
        void *result;
        if (pthread_join(t[i], &result) != 0 || result != (void *)i) return 2;
    }
    return 0;
}

static int status_of(pid_t pid) {
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

// Who has forked has a kernel thread of its own from then on, and waits in the kernel: so another thread waits.
static void *waits(void *pid) {
    return (void *)(long)status_of((pid_t)(long)pid);
}
static long status_elsewhere(void *pid) {
    pthread_t t;
    void *status;
    if ((long)pid <= 0 || pthread_create(&t, NULL, waits, pid) != 0 || pthread_join(t, &status) != 0) return -1;
    return (long)status;
}
static pid_t forked_elsewhere(void *(*forks)(void *), long argument) {
    pthread_t t;
    void *pid;
    if (pthread_create(&t, NULL, forks, (void *)argument) != 0 || pthread_join(t, &pid) != 0) return -1;
    return (pid_t)(long)pid;
}

static int child(int depth) {
    char message[32], got[32];
    int ends[2];
    if (strcmp(trace, "bc") != 0) return 3;
    if (threads() != 0) return 4;
    // A pipe between a thread of the child and this one.
    if (pipe(ends) != 0) return 5;
    sprintf(message, "depth %d", depth);
    if (write(ends[1], message, sizeof message) != sizeof message) return 6;
    if (read(ends[0], got, sizeof got) != sizeof got || strcmp(message, got) != 0) return 7;
    usleep(1000);
    if (depth > 0) {
        pid_t pid = fork();
        if (pid == 0) _exit(child(depth - 1));
        if (status_of(pid) != 40) return 8;
    }
    return 40;
}

static pthread_t forker;
static void *forks(void *argument) {
    own = (long)argument;
    sched_yield();
    pthread_t me = pthread_self();
    pid_t pid = fork();
    if (pid == 0) {
        if (own != (long)argument || !pthread_equal(me, pthread_self())) _exit(9);
        if (gettid() != getpid() || syscall(SYS_gettid) != getpid()) _exit(10);
        _exit(child(1));
    }
    return (void *)(long)(strcmp(trace, "bp") == 0 || trace[0] != 0 ? pid : -1);
}

// The forked thread returns: the child ends with status 0 when its last thread has.
static void *last(void *argument) {
    usleep(5000);
    printf("the child's last thread\n");
    fflush(stdout);
    return argument;
}
static void *returns(void *argument) {
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t t;
        pthread_create(&t, NULL, last, NULL);
        if (argument == NULL) return (void *)5L;
        pthread_exit((void *)6L);
    }
    return (void *)(long)pid;
}

static void *is_killed(void *argument) {
    pid_t pid = fork();
    if (pid == 0) {
        execlp("sh", "sh", "-c", "kill -TERM $$; sleep 5", (char *)NULL);
        _exit(9);
    }
    return argument == NULL ? (void *)(long)pid : NULL;
}

static int runs_programs(void) {
    pid_t pid;
    char *true_program[] = {"true", NULL};
    if (posix_spawnp(&pid, "true", NULL, NULL, true_program, environ) != 0 || status_of(pid) != 0) return 1;
    if (system("exit 3") >> 8 != 3) return 2;
    FILE *echo = popen("echo from a program", "r");
    char line[64];
    if (echo == NULL || fgets(line, sizeof line, echo) == NULL) return 3;
    if (pclose(echo) != 0 || strcmp(line, "from a program\n") != 0) return 4;
    pid = vfork();
    if (pid == 0) {
        execlp("true", "true", (char *)NULL);
        _exit(9);
    }
    if (status_of(pid) != 0) return 5;
    if (status_of(forked_elsewhere(is_killed, 0)) != 1000 + SIGTERM) return 6;
    return 0;
}
static void *programs(void *argument) {
    (void)argument;
    return (void *)(long)runs_programs();
}

static void *ends_with(void *status) {
    pid_t pid = fork();
    if (pid == 0) _exit((int)(long)status);
    return (void *)(long)pid;
}
static void *loops(void *argument) {
    for (int i = 0; i < 20; i++)
        if (status_of(forked_elsewhere(ends_with, i)) != i) return (void *)1L;
    return argument;
}

int main(void) {
    pthread_t t[4];
    void *value;
    pthread_atfork(before, in_parent, in_child);
    pid_t pid = fork();
    if (pid == 0) _exit(child(0));
    printf("before all threads: %d\n", status_of(pid));
    printf("threads: %d\n", threads());
    pid = fork();
    if (pid == 0) _exit(child(1));
    printf("first thread: %d\n", status_of(pid));
    pthread_create(&forker, NULL, forks, (void *)77L);
    pthread_join(forker, &value);
    printf("a thread: %ld\n", status_elsewhere(value));
    for (long i = 0; i < 4; i++) pthread_create(&t[i], NULL, forks, (void *)i);
    for (long i = 0; i < 4; i++) {
        pthread_join(t[i], &value);
        printf("one of four: %ld\n", status_elsewhere(value));
    }
    fflush(stdout);
    for (long i = 0; i < 2; i++) {
        pthread_create(&t[0], NULL, returns, (void *)i);
        pthread_join(t[0], &value);
        printf("a child that returns: %ld\n", status_elsewhere(value));
        fflush(stdout);
    }
    printf("programs: %d\n", runs_programs());
    pthread_create(&t[0], NULL, programs, NULL);
    pthread_join(t[0], &value);
    printf("programs in a thread: %ld\n", (long)value);
    for (long i = 0; i < 4; i++) pthread_create(&t[i], NULL, loops, NULL);
    for (long i = 0; i < 4; i++) {
        pthread_join(t[i], &value);
        printf("loop: %ld\n", (long)value);
    }
    return threads();
}
