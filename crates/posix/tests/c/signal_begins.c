// The masks with which threads and handlers begin: by attributes, and with SA_NODEFER whose `sa_mask` holds the signal itself. The same natively.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile int handled;
static void show(const char *what) {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    printf("%s:", what);
    for (int n = 1; n < 32; n++) if (sigismember(&mask, n)) printf(" %d", n);
    printf("\n");
}
static void handler(int signal) { show("in the handler"); handled = 1; }
static void counts(int signal) { handled++; }
static void *shows(void *unused) { show("in the thread"); return NULL; }
static void *sleeps(void *unused) { while (!handled) usleep(1000); return NULL; }
static void *computes(void *unused) { while (!handled) {} return NULL; }
static void in_thread(pthread_attr_t *attributes, void *(*what)(void *)) {
    pthread_t thread;
    handled = 0;
    pthread_create(&thread, attributes, what, NULL);
    if (what != shows) usleep(5000), pthread_kill(thread, SIGUSR2);
    pthread_join(thread, NULL);
}
int main(void) {
    setlinebuf(stdout);
    pthread_attr_t attributes;
    sigset_t mask, got;
    pthread_attr_init(&attributes);
    printf("none: %d\n", pthread_attr_getsigmask_np(&attributes, &got));
    sigemptyset(&mask), sigaddset(&mask, SIGUSR1), sigaddset(&mask, SIGKILL);
    pthread_attr_setsigmask_np(&attributes, &mask);
    in_thread(&attributes, shows);
    in_thread(NULL, shows);
    for (int itself = 0; itself < 2; itself++) for (int again = 0; again < 2; again++) {
        struct sigaction action = {.sa_handler = handler, .sa_flags = again ? SA_NODEFER : 0};
        sigaddset(&action.sa_mask, SIGHUP);
        if (itself) sigaddset(&action.sa_mask, SIGUSR2);
        sigaction(SIGUSR2, &action, NULL);
        in_thread(NULL, sleeps), in_thread(NULL, computes);
        handled = 0;
        raise(SIGUSR2);
    }
    // All block it, but for the one that begins with its own mask: it takes what is sent to the process.
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = counts}, NULL);
    pthread_sigmask(SIG_BLOCK, &mask, NULL);
    sigemptyset(&mask);
    pthread_attr_setsigmask_np(&attributes, &mask);
    handled = 0;
    kill(getpid(), SIGUSR1);
    pthread_t thread;
    pthread_create(&thread, &attributes, sleeps, NULL);
    pthread_join(thread, NULL);
    printf("taken %d\n", handled);
    return 0;
}
