// A limit on address space, or data, that comes when threads have been made: what fits natively fits, and what does not does not.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            printf("line %d: %s (errno %d)\n", __LINE__, #condition, errno); \
            fflush(stdout); \
            _exit(1); \
        } \
    } while (0)

enum { MOST = 2000 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_t threads[MOST];
static int go;

static void *waits(void *argument) {
    pthread_mutex_lock(&mutex);
    while (!go) pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
    return argument;
}

// As many threads as there can be at once, at most so many.
static int many(int most) {
    int made = 0, error = 0;
    go = 0;
    while (made < most && !(error = pthread_create(&threads[made], NULL, waits, NULL))) made++;
    CHECK(!error || error == EAGAIN);
    pthread_mutex_lock(&mutex);
    go = 1;
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < made; i++) pthread_join(threads[i], NULL);
    return made;
}

static int resource;
static const char *how;

static void set(rlim_t soft) {
    struct rlimit limit, back;
    CHECK(getrlimit(resource, &limit) == 0);
    limit.rlim_cur = soft;
    switch (how[1]) {
    case 's': CHECK(setrlimit(resource, &limit) == 0); break;
    case 'p': CHECK(prlimit(0, resource, &limit, &back) == 0); break;
    case 'o': CHECK(prlimit(getpid(), resource, &limit, NULL) == 0); break;
    default: CHECK(syscall(SYS_setrlimit, resource, &limit) == 0);
    }
    CHECK(getrlimit(resource, &back) == 0 && back.rlim_cur == soft && back.rlim_max == limit.rlim_max);
}

static char *map(size_t size) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    return mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
}

static void *everything(void *megabytes) {
    size_t limit = (size_t)megabytes << 20;
    int alive = many(20) == 20;
    CHECK(alive);
    set(limit);
    CHECK(map(2 * limit) == MAP_FAILED && errno == ENOMEM);
    void *little = malloc(100 << 10);
    CHECK(little);
    char *part = map(limit / 4);
    CHECK(part != MAP_FAILED);
    memset(part, 1, 1 << 20);
    CHECK(munmap(part, limit / 4) == 0);
    free(little);
    CHECK(many(8) == 8 && many(8) == 8);
    if (resource == RLIMIT_AS) printf("%d\n", many(MOST));
    // Whatever they had, there is memory afterwards, and once the limit is gone there are threads.
    CHECK((little = malloc(1 << 20)));
    free(little);
    set(RLIM_INFINITY);
    char *much = map(2 * limit);
    CHECK(much != MAP_FAILED && munmap(much, 2 * limit) == 0);
    CHECK(many(MOST) == MOST);
    return NULL;
}

static void *computes(void *flag) {
    while (!*(volatile int *)flag) __asm__ volatile("" ::: "memory");
    return NULL;
}

// MEGABYTES, then `a` or `d` for what is limited, the way it is set, and who does it: the first thread, another one, or
// the first one beside one that computes.
int main(int count, char **arguments) {
    void *megabytes = (void *)(count > 1 ? atol(arguments[1]) : 4000);
    how = count > 2 ? arguments[2] : "asm";
    resource = how[0] == 'a' ? RLIMIT_AS : RLIMIT_DATA;
    int done = 0;
    pthread_t thread;
    if (how[2] == 'b') CHECK(pthread_create(&thread, NULL, computes, &done) == 0);
    if (how[2] == 't') CHECK(pthread_create(&thread, NULL, everything, megabytes) == 0);
    else everything(megabytes);
    done = 1;
    if (how[2] != 'm') pthread_join(thread, NULL);
    puts("ok");
    return 0;
}
