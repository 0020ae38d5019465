/* An allocator of the program's own, as some programs have one: a thread that holds its lock computes until the monitor
   looks, and gives way. The kernel threads that are started meanwhile take memory from it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *at, *end;
static _Thread_local int slow;

static void compute(int milliseconds) {
    struct timespec from, now;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - from.tv_sec) * 1000 + (now.tv_nsec - from.tv_nsec) / 1000000 < milliseconds);
}

/* The word before a block is its size. */
void *malloc(size_t size) {
    pthread_mutex_lock(&lock);
    size = (size + 31) & ~(size_t)15;
    if (!at || at + size > end) {
        size_t more = size + (1 << 24);
        at = mmap(0, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        end = at + more;
    }
    char *here = at + 16;
    ((size_t *)here)[-1] = size - 16;
    at += size;
    if (slow) {
        compute(slow);
        sched_yield();
    }
    pthread_mutex_unlock(&lock);
    return here;
}

void free(void *unused) { (void)unused; }

void *calloc(size_t count, size_t size) { return malloc(count * size); }

void *realloc(void *from, size_t size) {
    void *to = malloc(size);
    size_t old = from ? ((size_t *)from)[-1] : 0;
    return old ? memcpy(to, from, old < size ? old : size) : to;
}

void *aligned_alloc(size_t alignment, size_t size) {
    uintptr_t to = ((uintptr_t)malloc(size + alignment + 16) + 16 + alignment - 1) & ~(alignment - 1);
    ((size_t *)to)[-1] = size;
    return (void *)to;
}

void *memalign(size_t alignment, size_t size) { return aligned_alloc(alignment, size); }

int posix_memalign(void **to, size_t alignment, size_t size) {
    *to = aligned_alloc(alignment, size);
    return 0;
}

static void *run(void *unused) {
    (void)unused;
    for (int turn = 0; turn < 3; turn++) {
        slow = 60;
        void *volatile got = malloc(10);
        slow = 0;
        free(got);
        sched_yield();
    }
    return 0;
}

int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, run, 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    puts("all have got memory");
}
