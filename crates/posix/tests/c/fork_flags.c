// A flag that the child of a fork sets on what it shares with its parent, who has set it otherwise before, is seen
// there: whichever call made the child.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int pair[2], terminal = -1;

static int sets(void *unused) {
    return fcntl(pair[0], F_SETFL, O_NONBLOCK) | (unused != NULL);
}

static pid_t forked(void) { return fork(); }

static pid_t forked_by_number(void) {
    return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static pid_t with_terminal(void) {
    return forkpty(&terminal, NULL, NULL, NULL);
}

static pid_t cloned(void) {
    static char stack[64 << 10] __attribute__((aligned(16)));
    return clone(sets, stack + sizeof stack, SIGCHLD, NULL);
}

static pid_t vforked(void) {
    pid_t child = vfork();
    if (child == 0) _exit(sets(NULL));
    return child;
}

// Another thread: who has forked may be left to the kernel from then on.
static void *reads(void *name) {
    char byte;
    int result = read(pair[0], &byte, 1);
    printf("%s: read %d, %s\n", (char *)name, result, errno == EAGAIN ? "EAGAIN" : "other");
    return NULL;
}

static void *all(void *unused) {
    const struct {
        const char *name;
        pid_t (*make)(void);
    } ways[] = {
        {"fork", forked}, {"clone by its number", forked_by_number}, {"forkpty", with_terminal},
        {"clone", cloned}, {"vfork", vforked},
    };
    for (int i = 0; i < 5; i++) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || fcntl(pair[0], F_SETFL, 0)) return &pair;
        pid_t child = ways[i].make();
        if (child == 0) _exit(sets(NULL));
        int status;
        if (waitpid(child, &status, 0) != child || status != 0) return &pair;
        pthread_t reader;
        if (pthread_create(&reader, NULL, reads, (void *)ways[i].name) || pthread_join(reader, NULL)) return &pair;
        close(pair[0]), close(pair[1]);
        if (terminal >= 0) close(terminal), terminal = -1;
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    void *failed;
    // A read that waits is a failure.
    setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(60);
    if (pthread_create(&thread, NULL, all, NULL) || pthread_join(thread, &failed)) return 1;
    return failed != NULL;
}
