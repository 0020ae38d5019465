// Children that share their parent's memory: vfork and posix_spawn, from the first thread and from threads.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int status_of(pid_t pid) {
    int status;
    while (waitpid(pid, &status, 0) != pid)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static volatile int handled;
static void handler(int signal) { handled += signal; }

// What the child writes is there, and the parent stands until then.
static int shares(void) {
    volatile int written = 0;
    pid_t pid = vfork();
    if (pid == 0) {
        usleep(20000);
        written = 7;
        _exit(3);
    }
    int seen = written;
    return pid > 0 && seen == 7 && status_of(pid) == 3;
}

static __attribute__((noinline)) int deep(int n) {
    volatile char room[300];
    memset((void *)room, n, sizeof room);
    return n ? deep(n - 1) + room[n] : room[0];
}

// The child's calls overwrite the stack below; the parent returns all the same.
static int overwrites(void) {
    volatile long kept[8];
    for (int i = 0; i < 8; i++)
        kept[i] = 1000 + i;
    pid_t pid = vfork();
    if (pid == 0) {
        deep(50);
        _exit(4);
    }
    long sum = 0;
    for (int i = 0; i < 8; i++)
        sum += kept[i];
    return sum == 8028 && status_of(pid) == 4;
}

// Descriptors, actions and masks of the child are its own.
static int apart(void) {
    int pair[2], other[2];
    if (pipe(pair) || pipe(other))
        return 0;
    struct sigaction action = {.sa_handler = handler}, before;
    sigaction(SIGUSR1, &action, NULL);
    sigset_t set, now;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, &now);
    volatile int wrong = 0;
    pid_t pid = vfork();
    if (pid == 0) {
        sigset_t mine;
        pthread_sigmask(SIG_SETMASK, NULL, &mine);
        if (!sigismember(&mine, SIGUSR2) || sigismember(&mine, SIGUSR1))
            wrong |= 1;
        sigfillset(&mine);
        pthread_sigmask(SIG_SETMASK, &mine, NULL);
        struct sigaction was, none = {.sa_handler = SIG_DFL};
        if (sigaction(SIGUSR1, &none, &was) || was.sa_handler != handler)
            wrong |= 2;
        signal(SIGTERM, SIG_IGN);
        close(pair[0]);
        dup2(other[0], pair[1]);
        close_range(other[1], other[1], 0);
        fcntl(other[0], F_SETFD, FD_CLOEXEC);
        int made = dup(other[0]);
        close(made);
        if (getpid() == getppid() || gettid() != getpid() || syscall(SYS_gettid) != getpid())
            wrong |= 4;
        _exit(5);
    }
    int status = status_of(pid);
    char byte = 0;
    if (write(pair[1], "x", 1) != 1 || read(pair[0], &byte, 1) != 1 || byte != 'x')
        wrong |= 8;
    if (write(other[1], "y", 1) != 1 || read(other[0], &byte, 1) != 1 || byte != 'y')
        wrong |= 16;
    sigaction(SIGUSR1, NULL, &before);
    sigset_t after;
    pthread_sigmask(SIG_SETMASK, &now, &after);
    if (before.sa_handler != handler || !sigismember(&after, SIGUSR2) || sigismember(&after, SIGTERM))
        wrong |= 32;
    handled = 0;
    pthread_kill(pthread_self(), SIGUSR1);
    if (handled != SIGUSR1)
        wrong |= 64;
    sigaction(SIGTERM, NULL, &before);
    if (before.sa_handler != SIG_DFL)
        wrong |= 128;
    close(pair[0]), close(pair[1]), close(other[0]), close(other[1]);
    if (wrong)
        printf("wrong: %d\n", wrong);
    return status == 5 && !wrong;
}

// A flag that the child sets on what it shares is seen.
static int flags(void) {
    int pair[2];
    char byte;
    if (pipe(pair))
        return 0;
    write(pair[1], "a", 1), read(pair[0], &byte, 1);
    pid_t pid = vfork();
    if (pid == 0) {
        fcntl(pair[0], F_SETFL, O_NONBLOCK);
        _exit(0);
    }
    int status = status_of(pid);
    int result = read(pair[0], &byte, 1), error = errno;
    close(pair[0]), close(pair[1]);
    return status == 0 && result == -1 && error == EAGAIN;
}

static int execs(void) {
    int pair[2];
    if (pipe(pair))
        return 0;
    pid_t pid = vfork();
    if (pid == 0) {
        dup2(pair[1], 1);
        char *arguments[] = {"sh", "-c", "echo out", NULL};
        execv("/bin/sh", arguments);
        _exit(127);
    }
    close(pair[1]);
    char text[20] = "";
    int count = read(pair[0], text, sizeof text - 1);
    close(pair[0]);
    int status = status_of(pid);
    pid = vfork();
    if (pid == 0) {
        execl("/nowhere", "nowhere", (char *)NULL);
        _exit(errno);
    }
    return count == 4 && !strcmp(text, "out\n") && status == 0 && status_of(pid) == ENOENT;
}

// One in another, a fork in one, and a signal that the child sends itself.
static int nested(void) {
    volatile int sum = 0;
    pid_t pid = vfork();
    if (pid == 0) {
        pid_t inner = vfork();
        if (inner == 0) {
            sum += 1;
            _exit(6);
        }
        int status;
        waitpid(inner, &status, 0);
        sum += WEXITSTATUS(status) * 10;
        pid_t forked = fork();
        if (forked == 0)
            _exit(gettid() == getpid() ? 7 : 0);
        waitpid(forked, &status, 0);
        sum += WEXITSTATUS(status) * 100;
        handled = 0;
        raise(SIGUSR1);
        sum += handled == SIGUSR1 ? 1000 : 0;
        signal(SIGTERM, SIG_DFL);
        raise(SIGTERM);
        _exit(8);
    }
    return status_of(pid) == 1000 + SIGTERM && sum == 1761;
}

// Starts a child that writes its own line with this word, for `answers`; -1 if it was not started.
static pid_t tells(char *word, const posix_spawnattr_t *given, int *answers) {
    int pair[2];
    if (pipe(pair)) abort();
    pid_t pid;
    char *arguments[] = {"grep", word, "/proc/self/status", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pair[1], 1);
    int error = posix_spawnp(&pid, "grep", &actions, given, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pair[1]);
    *answers = pair[0];
    return error ? -1 : pid;
}

// Whether the child ended well, and a signal is in the set of its line: 1 or 0; else -1.
static int holds(pid_t pid, int answers, int number) {
    char text[100] = "";
    int status = pid < 0 ? -1 : status_of(pid);
    read(answers, text, sizeof text - 1);
    close(answers);
    const char *set = strchr(text, ':');
    return status == 0 && set ? (int)(strtoull(set + 1, NULL, 16) >> (number - 1) & 1) : -1;
}

// What is started blocks what its thread blocks.
static int masks(void) {
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    int right = 0;
    for (int way = 0; way < 2; way++) {
        posix_spawnattr_t attributes;
        posix_spawnattr_init(&attributes);
        sigemptyset(&set);
        posix_spawnattr_setsigmask(&attributes, &set);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
        int answers;
        pid_t pid = tells("SigBlk", way == 0 ? NULL : &attributes, &answers);
        posix_spawnattr_destroy(&attributes);
        right += holds(pid, answers, SIGUSR2) == (way == 0);
    }
    sigset_t after;
    pthread_sigmask(SIG_SETMASK, &before, &after);
    pid_t pid;
    char *arguments[] = {"nowhere", NULL};
    int missing = posix_spawn(&pid, "/nowhere", NULL, NULL, arguments, environ);
    return right == 2 && sigismember(&after, SIGUSR2) && missing == ENOENT;
}

// Other attributes are kept beside the mask: a group of its own, and actions that are the default's again.
static int attributes(void) {
    sighandler_t before = signal(SIGTTOU, SIG_IGN);
    int right = 0;
    for (int way = 0; way < 2; way++) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGTTOU);
        posix_spawnattr_t given;
        posix_spawnattr_init(&given);
        posix_spawnattr_setsigdefault(&given, &set);
        posix_spawnattr_setpgroup(&given, 0);
        posix_spawnattr_setflags(&given, way ? POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF : 0);
        int answers;
        pid_t pid = tells("SigIgn", &given, &answers);
        short flags = -1;
        posix_spawnattr_getflags(&given, &flags);
        posix_spawnattr_destroy(&given);
        int alone = pid > 0 && getpgid(pid) == pid;
        right += holds(pid, answers, SIGTTOU) == !way && alone == way;
        right += flags == (way ? POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF : 0);
    }
    signal(SIGTTOU, before);
    return right == 4;
}

static void all(const char *who) {
    printf("%s: shares %d, overwrites %d", who, shares(), overwrites());
    printf(", apart %d, flags %d", apart(), flags());
    printf(", execs %d, nested %d, masks %d", execs(), nested(), masks());
    printf(", attributes %d\n", attributes());
    fflush(stdout);
}

static void *thread(void *who) {
    all(who);
    return NULL;
}

// The child waits for another thread of its parent, which goes on though the parent's kernel thread stands.
static int bell[2];

static void *rings(void *unused) {
    usleep(1000);
    write(bell[1], "r", 1);
    return NULL;
}

static void *stands(void *unused) {
    pid_t pid = vfork();
    if (pid == 0) {
        char byte;
        _exit(read(bell[0], &byte, 1) == 1 ? 9 : 0);
    }
    return (void *)(long)status_of(pid);
}

static void *many(void *count) {
    long ended = 0;
    for (int i = 0; i < *(int *)count; i++) {
        volatile int mine = 0;
        pid_t pid = i % 4 ? vfork() : fork();
        if (pid == 0) {
            mine = i;
            _exit(i & 63);
        }
        ended += status_of(pid) == (i & 63) && (i % 4 == 0 || mine == i);
    }
    return (void *)ended;
}

int main(void) {
    all("first, alone");
    pthread_t threads[16];
    pthread_create(&threads[0], NULL, thread, "a thread");
    pthread_join(threads[0], NULL);
    all("first");

    void *result[16];
    pipe(bell);
    pthread_create(&threads[0], NULL, stands, NULL);
    pthread_create(&threads[1], NULL, rings, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], &result[i]);
    printf("rung by another thread: %ld\n", (long)result[0]);

    int count = 40;
    long sum = 0;
    for (int i = 0; i < 16; i++)
        pthread_create(&threads[i], NULL, many, &count);
    for (int i = 0; i < 16; i++) {
        pthread_join(threads[i], &result[i]);
        sum += (long)result[i];
    }
    printf("many at once: %ld\n", sum);
    return 0;
}
