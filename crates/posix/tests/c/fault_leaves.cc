// Handlers of faults that do not return: by an exception, by a jump, by the end of their thread; with actions that were set before the first thread, and after it.
// What the thread does next waits for others.
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int total;
static thread_local sigjmp_buf out;
static const int FALLS = 8;

static void count(int by) {
    pthread_mutex_lock(&lock);
    usleep(50);
    total += by;
    pthread_mutex_unlock(&lock);
}

__attribute__((noinline)) static int falls() {
    static int *volatile nowhere = reinterpret_cast<int *>(8);
    return *nowhere;
}

static void throws(int signal) {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal);
    pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
    throw 1;
}

static void *catches(void *) {
    for (int i = 0; i < FALLS; i++) try {
            falls();
        } catch (int by) {
            count(by);
        }
    return nullptr;
}

static void jumps(int) { siglongjmp(out, 1); }

static void *is_back(void *) {
    for (volatile int i = 0; i < FALLS; i = i + 1)
        if (sigsetjmp(out, 1)) count(1);
        else falls();
    return nullptr;
}

static void ends(int) { pthread_exit(nullptr); }

struct Last {
    ~Last() { count(1); }
};

static void *is_ended(void *) {
    Last last;
    return reinterpret_cast<void *>(static_cast<long>(falls()));
}

static void many(const char *name, void (*handler)(int), void *(*start)(void *)) {
    struct sigaction action = {};
    action.sa_handler = handler;
    sigaction(SIGSEGV, &action, nullptr);
    pthread_t threads[6];
    for (pthread_t &thread : threads) pthread_create(&thread, nullptr, start, nullptr);
    for (pthread_t thread : threads) pthread_join(thread, nullptr);
    printf("%s: %d\n", name, total);
    total = 0;
}

int main() {
    for (int i = 0; i < 2; i++) {
        many("caught", throws, catches);
        many("jumped", jumps, is_back);
        many("ended", ends, is_ended);
    }
}
