// Handlers of faults that block signals while they run: what they see of their mask, what comes meanwhile, and what is left after a return, a jump, a fault in one.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static __thread sigjmp_buf out;
static __thread volatile int jumps, came, inside, seen_inside, second;
static char *page;

static int blocked(int signal) {
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    return sigismember(&now, signal);
}

static void comes(int signal) {
    came++;
    if (came == 1) printf("ordinary: %d %d %d\n", blocked(signal), blocked(SIGUSR2), blocked(SIGHUP));
    if (inside) seen_inside++;
}

static void fault(int signal, siginfo_t *info, void *context) {
    (void)info, (void)context;
    inside = 1;
    printf("in %s: %d %d %d\n", signal == SIGTRAP ? "trap" : "fault", blocked(SIGUSR1), blocked(SIGUSR2), blocked(SIGHUP));
    pthread_kill(pthread_self(), SIGUSR1);
    // What waits lets others on, and the thread comes back as it was.
    usleep(1000);
    printf("waited: %d %d, came %d\n", blocked(SIGUSR1), blocked(SIGUSR2), came);
    if (signal == SIGSEGV && second) {
        second = 0;
        raise(SIGTRAP);
    }
    inside = 0;
    if (jumps == 1) siglongjmp(out, 1);
    if (jumps == 2) _longjmp(out, 1);
    if (signal == SIGSEGV) mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

static void *thread(void *unused) {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &one, NULL);
    for (int round = 0; round < 4; round++) {
        mprotect(page, 4096, PROT_NONE);
        jumps = round == 1 ? 1 : 0;
        second = round == 2;
        if (round == 3) raise(SIGTRAP);
        else if (sigsetjmp(out, 1) == 0) *(volatile char *)page = 1;
        printf("after %d: %d %d %d, came %d, inside %d\n", round, blocked(SIGUSR1), blocked(SIGUSR2), blocked(SIGHUP), came, seen_inside);
    }
    // A jump that restores no mask leaves that of the handler.
    jumps = 2;
    mprotect(page, 4096, PROT_NONE);
    if (sigsetjmp(out, 0) == 0) *(volatile char *)page = 1;
    printf("after a jump without a mask: %d %d %d, came %d\n", blocked(SIGUSR1), blocked(SIGUSR2), blocked(SIGHUP), came);
    return unused;
}

// Has taken the place of one that blocks signals.
static void plain(int signal) {
    (void)signal;
    printf("plain: %d\n", blocked(SIGUSR1));
}

static void *beside(void *unused) {
    raise(SIGBUS);
    printf("another: %d %d %d\n", blocked(SIGUSR1), blocked(SIGUSR2), blocked(SIGHUP));
    return unused;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sigaction action = {0}, back;
    action.sa_handler = comes;
    sigaddset(&action.sa_mask, SIGUSR2);
    sigaction(SIGUSR1, &action, NULL);
    action.sa_sigaction = fault;
    action.sa_flags = SA_SIGINFO;
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaddset(&action.sa_mask, SIGUSR2);
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGTRAP, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    signal(SIGBUS, plain);
    sigaction(SIGTRAP, NULL, &back);
    printf("read back: %d %d %d %d\n", back.sa_sigaction == fault, !!(back.sa_flags & SA_SIGINFO), sigismember(&back.sa_mask, SIGUSR1), sigismember(&back.sa_mask, SIGHUP));
    for (int i = 0; i < 2; i++) {
        pthread_t t;
        pthread_create(&t, NULL, thread, NULL);
        pthread_join(t, NULL);
        pthread_create(&t, NULL, beside, NULL);
        pthread_join(t, NULL);
    }
    // The first thread, beside others that there have been.
    thread(NULL);
    return 0;
}
