// Children that begin in a function, on a stack of their own: with their parent's memory and storage beside it, with these while it stands, and with
// copies. Each waits, computes with checks for whoever builds it so, and writes what it came to.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 6, ROUNDS = 4, STACK = 65536 };

struct child { int number; volatile unsigned long *sum; };

// A loop that a quantum check asks in: by hand where the compiler puts none in.
extern void raddle_quantum_used(long *) __attribute__((weak));
static unsigned long compute(unsigned long seed) {
    long word = 0;
    for (int i = 0; i < 200000; i++) {
        seed = seed * 6364136223846793005ul + 1442695040888963407ul;
        if (i % 2000 == 0 && raddle_quantum_used)
            raddle_quantum_used(&word);
    }
    return seed;
}

static int begins(void *argument) {
    struct child *me = argument;
    unsigned long sum = (unsigned long)me->number;
    for (int i = 0; i < 3; i++) {
        usleep(1000);
        sum = compute(sum);
    }
    *me->sum = sum;
    return 3 + me->number + (gettid() == getpid() ? 0 : 100);
}

static int status_of(pid_t pid) {
    int status;
    while (waitpid(pid, &status, 0) != pid)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int flags;
static volatile unsigned long *sums;

static void *makes_children(void *argument) {
    int number = (int)(long)argument, right = 0;
    char *stack = malloc(STACK);
    for (int i = 0; i < ROUNDS; i++) {
        struct child child = { number, &sums[number] };
        *child.sum = 0;
        pid_t pid = clone(begins, stack + STACK, flags | SIGCHLD, &child);
        unsigned long own = compute((unsigned long)i);
        int status = status_of(pid);
        unsigned long expected = (unsigned long)number;
        for (int j = 0; j < 3; j++)
            expected = compute(expected);
        right += pid > 0 && status == 3 + number && *child.sum == expected && own == compute((unsigned long)i);
    }
    free(stack);
    return (void *)(long)right;
}

static void all(const char *name, int with) {
    flags = with;
    pthread_t threads[THREADS];
    long right = 0;
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, makes_children, (void *)i);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        right += (long)result;
    }
    printf("%s: %ld of %d in threads, %ld of %d in the first one\n", name, right, THREADS * ROUNDS, (long)makes_children((void *)1), ROUNDS);
}

int main(void) {
    sums = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    all("with copies", 0);
    all("while the parent stands", CLONE_VM | CLONE_VFORK);
    all("beside the parent", CLONE_VM);
    errno = 0;
    int made = clone(begins, (char *)sums + 4096, CLONE_SIGHAND, NULL);
    printf("flags that do not go together: %d, %d\n", made, errno == EINVAL);
    made = clone(NULL, (char *)sums + 4096, CLONE_VM, NULL);
    printf("no function: %d\n", made);
    return 0;
}
