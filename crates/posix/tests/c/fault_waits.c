// Handlers of faults that wait, on many threads at once: for a lock, for time, for another thread; on the thread's stack and on its alternate one. The first action is
// set before there are threads, the others after; each thread's next fault is met, too, and nobody's frames are written over.
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 12, FAULTS = 8, PAGE = 4096, STACK = 65536 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t turns;
static int handled, wrong, on_stack;
static __thread char *page;

static void fault(int signal, siginfo_t *info, void *context) {
    (void)context;
    char frame[2000], mark = (char)(signal + handled);
    memset(frame, mark, sizeof frame);
    pthread_mutex_lock(&lock);
    usleep(200);
    handled++;
    pthread_mutex_unlock(&lock);
    sem_wait(&turns);
    sched_yield();
    sem_post(&turns);
    int bad = (char *)info->si_addr < page || (char *)info->si_addr >= page + PAGE;
    for (size_t i = 0; i < sizeof frame; i++) bad |= frame[i] != mark;
    if (bad) __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
    mprotect(page, PAGE, PROT_READ | PROT_WRITE);
}

static void *thread(void *unused) {
    page = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *stack = on_stack ? malloc(STACK) : NULL;
    stack_t alternate = {.ss_sp = stack, .ss_size = STACK};
    if (on_stack) sigaltstack(&alternate, NULL);
    long sum = 0;
    for (int round = 0; round < FAULTS; round++) {
        mprotect(page, PAGE, PROT_NONE);
        volatile double kept = round * 1.5;
        ((volatile char *)page)[round] = (char)round;
        sum += page[round] + (long)(2 * kept);
        if (round % 3 == 0) sched_yield();
    }
    alternate.ss_flags = SS_DISABLE;
    if (on_stack) sigaltstack(&alternate, NULL);
    free(stack);
    munmap(page, PAGE);
    return unused ? unused : (void *)sum;
}

static void many(int flags) {
    struct sigaction action = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO | flags}, before;
    on_stack = flags & SA_ONSTACK;
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGSEGV, NULL, &before);
    long sum = 0;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, thread, NULL);
    for (int i = 0; i < THREADS; i++) {
        void *part;
        pthread_join(threads[i], &part);
        sum += (long)part;
    }
    printf("handled %d, sum %ld, wrong %d, read back %d\n", handled, sum, wrong, before.sa_sigaction == fault && (before.sa_flags & (SA_SIGINFO | SA_ONSTACK | SA_NODEFER)) == action.sa_flags);
    handled = 0;
}

static void once(int signal) {
    (void)signal;
    handled++;
}

static void *ends(void *unused) {
    return unused;
}

static void *falls(void *nowhere) {
    *(volatile char *)nowhere = 1;
    return NULL;
}

// The handler of a fault that is called once only: the same fault then has its default effect. `early`: the action is set before the first thread.
static void resets(int early) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct sigaction action = {.sa_handler = once, .sa_flags = SA_RESETHAND};
        if (early) sigaction(SIGSEGV, &action, NULL);
        pthread_t one;
        pthread_create(&one, NULL, ends, NULL);
        pthread_join(one, NULL);
        if (!early) sigaction(SIGSEGV, &action, NULL);
        pthread_create(&one, NULL, falls, NULL);
        pthread_join(one, NULL);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    printf("ends by signal %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

int main(void) {
    sem_init(&turns, 0, 2);
    resets(1);
    resets(0);
    many(0);
    many(0);
    many(SA_ONSTACK);
    return 0;
}
