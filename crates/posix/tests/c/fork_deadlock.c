// A dead-lock in the child of a fork: what threads of its parent waited for says nothing about it. The child's report is
// read by its parent, which waits until it comes. Natively, or where threads are kernel threads, none does: then the
// child just ends.
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static sem_t never;
static int ends[2];
static atomic_int waits;
static int expected;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *on_a_semaphore(void *unused) {
    atomic_store(&waits, 1);
    sem_wait(&never);
    return unused;
}
static void *on_a_descriptor(void *unused) {
    char byte;
    atomic_store(&waits, 1);
    if (read(ends[0], &byte, 1) != 1) abort();
    return unused;
}
static void *on_descriptors(void *unused) {
    struct pollfd one = {ends[0], POLLIN, 0};
    atomic_store(&waits, 1);
    poll(&one, 1, -1);
    return unused;
}
static void *for_time(void *unused) {
    atomic_store(&waits, 1);
    sleep(1000);
    return unused;
}
static void *for_a_signal(void *unused) {
    sigset_t one;
    int signal;
    sigemptyset(&one), sigaddset(&one, SIGUSR1);
    atomic_store(&waits, 1);
    sigwait(&one, &signal);
    return unused;
}
static void *for_a_handler(void *unused) {
    atomic_store(&waits, 1);
    pause();
    return unused;
}
static void *for_a_mutex(void *unused) {
    atomic_store(&waits, 1);
    pthread_mutex_lock(&mutex);
    return unused;
}
static void *in_the_kernel(void *unused) {
    siginfo_t info;
    atomic_store(&waits, 1);
    waitid(P_ALL, 0, &info, WEXITED | WNOWAIT);
    return unused;
}

static pthread_t begin(void *(*body)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, NULL)) abort();
    return thread;
}

static void forks(const char *name) {
    int said[2];
    char text[1 << 16];
    size_t size = 0;
    if (pipe(said)) abort();
    pid_t child = fork();
    if (child == 0) {
        dup2(said[1], 2);
        if (expected) pthread_join(begin(on_a_semaphore), NULL);
        _exit(1);
    }
    close(said[1]);
    while (size < sizeof text - 1) {
        ssize_t n = read(said[0], text + size, sizeof text - 1 - size);
        if (n <= 0) break;
        size += n, text[size] = 0;
        if (strstr(text, "dead-lock: 1 threads wait")) break;
    }
    text[size] = 0;
    printf("%s: %s\n", name, strstr(text, "dead-lock: 1 threads wait") ? "told" : text);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(said[0]);
}

int main(int count, char **arguments) {
    (void)arguments;
    expected = count > 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    static const struct {
        const char *name;
        void *(*body)(void *);
    } others[] = {
        {"semaphore", on_a_semaphore}, {"descriptor", on_a_descriptor}, {"poll", on_descriptors}, {"time", for_time},
        {"signal", for_a_signal}, {"handler", for_a_handler}, {"mutex", for_a_mutex}, {"kernel", in_the_kernel},
    };
    sigset_t one;
    sigemptyset(&one), sigaddset(&one, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &one, NULL);
    pthread_mutex_lock(&mutex);
    if (sem_init(&never, 0, 0) || pipe(ends)) return 1;
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++) {
        atomic_store(&waits, 0);
        begin(others[i].body);
        while (!atomic_load(&waits)) usleep(1000);
        usleep(10000);
        forks(others[i].name);
    }
    // The others wait on.
    _exit(0);
}
