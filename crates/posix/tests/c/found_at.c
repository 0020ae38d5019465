// A handler of a signal that another thread has sent finds what its thread did: a profiler sees where it computes, and
// what a pre-empter or a collector writes to the registers comes back to it.
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

static atomic_int ready, stop, seen, in_code;
static char *alternate;

#if defined(__x86_64__)
#define PLACE(context) ((context)->uc_mcontext.gregs[REG_RIP])
#define VALUE(context) ((context)->uc_mcontext.gregs[REG_RBX])
// Until somebody writes 77 there.
#define SPIN(value)                                                                                                    \
    __asm__ volatile("mov $1, %%rbx\n1: pause\ncmp $77, %%rbx\njne 1b\nmov %%rbx, %0" : "=r"(value)::"rbx", "cc")
#else
#define PLACE(context) ((context)->uc_mcontext.pc)
#define VALUE(context) ((context)->uc_mcontext.regs[19])
#define SPIN(value)                                                                                                    \
    __asm__ volatile("mov x19, #1\n1: yield\ncmp x19, #77\nb.ne 1b\nmov %0, x19" : "=r"(value)::"x19", "cc")
#endif

// All of a function that computes, in a page of its own.
__attribute__((noinline, aligned(4096))) static void compute(void) {
    while (!atomic_load_explicit(&stop, memory_order_relaxed))
        ;
}

static void look(int signal, siginfo_t *info, void *context) {
    uintptr_t at = (uintptr_t)PLACE((ucontext_t *)context);
    (void)signal, (void)info;
    if (at - (uintptr_t)compute < 256) in_code++;
    seen++;
}

static void change(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    VALUE((ucontext_t *)context) = 77;
    seen++;
}

// Within the handler of a signal that found the thread, one that the handler sends itself: it has been found there.
static void again(int signal, siginfo_t *info, void *context) {
    raise(SIGUSR1);
    look(signal, info, context);
}

static void *computes(void *own_stack) {
    stack_t stack = {.ss_sp = alternate, .ss_size = 65536};
    if (own_stack) sigaltstack(&stack, NULL);
    ready = 1;
    compute();
    return NULL;
}

static void *spins(void *ignored) {
    long value;
    ready = 1;
    SPIN(value);
    printf("%ld\n", value);
    return ignored;
}

static void install(int signal, void (*handler)(int, siginfo_t *, void *), int flags) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART | flags};
    sigaction(signal, &action, NULL);
}

static pthread_t begin(void *(*code)(void *), void *argument) {
    pthread_t thread;
    ready = stop = seen = in_code = 0;
    pthread_create(&thread, NULL, code, argument);
    while (!ready) usleep(1000);
    usleep(20000);
    return thread;
}

static void sample(void *own_stack, int signal, int each) {
    pthread_t thread = begin(computes, own_stack);
    for (int i = 0; i < 10; i++) {
        pthread_kill(thread, signal);
        while (seen < each * (i + 1)) usleep(1000);
    }
    stop = 1;
    pthread_join(thread, NULL);
    printf("%d of %d\n", in_code, seen);
}

int main(void) {
    alternate = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    install(SIGUSR1, look, 0);
    sample(NULL, SIGUSR1, 1);
    install(SIGUSR2, again, 0);
    sample(NULL, SIGUSR2, 2);
    install(SIGUSR1, look, SA_ONSTACK);
    sample(alternate, SIGUSR1, 1);
    install(SIGUSR2, change, 0);
    pthread_t thread = begin(spins, NULL);
    pthread_kill(thread, SIGUSR2);
    pthread_join(thread, NULL);
    return 0;
}
