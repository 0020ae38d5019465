#define _GNU_SOURCE
// A reader and then a writer sleep at a lock that prefers writers, on kernel threads of their own: whoever unlocks it
// wakes the writer, though the kernel has the reader first.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_rwlock_t lock;
static int task;
static int order[2], came;

static void *enters(void *writes) {
    // From here on it has a kernel thread of its own, which sleeps in the kernel.
    if (prctl(PR_SET_TIMERSLACK, 11111, 0, 0, 0) != 0) exit(3);
    __atomic_store_n(&task, (int)syscall(SYS_gettid), __ATOMIC_RELEASE);
    if (writes) pthread_rwlock_wrlock(&lock);
    else pthread_rwlock_rdlock(&lock);
    order[__sync_fetch_and_add(&came, 1)] = writes != NULL;
    pthread_rwlock_unlock(&lock);
    return NULL;
}

// Begins one, and waits until it sleeps in the kernel's futex.
static pthread_t begin(void *writes) {
    pthread_t thread;
    char path[64], line[64];
    __atomic_store_n(&task, 0, __ATOMIC_RELAXED);
    if (pthread_create(&thread, NULL, enters, writes) != 0) exit(4);
    while (__atomic_load_n(&task, __ATOMIC_ACQUIRE) == 0) usleep(100);
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", task);
    for (;;) {
        FILE *file = fopen(path, "r");
        // A kernel that does not say it: the order of the two is left to luck then.
        if (file == NULL) return usleep(10000), thread;
        int found = fgets(line, sizeof line, file) != NULL && atol(line) == SYS_futex && strchr(line, ' ') != NULL;
        fclose(file);
        if (found) return thread;
        usleep(100);
    }
}

int main(void) {
    for (int i = 0; i < 20; i++) {
        pthread_rwlockattr_t kind;
        pthread_rwlockattr_init(&kind);
        pthread_rwlockattr_setkind_np(&kind, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
        pthread_rwlock_init(&lock, &kind);
        came = 0;
        pthread_rwlock_wrlock(&lock);
        pthread_t reader = begin(NULL), writer = begin(&lock);
        pthread_rwlock_unlock(&lock);
        pthread_join(reader, NULL);
        pthread_join(writer, NULL);
        pthread_rwlock_destroy(&lock);
        if (came != 2) return 1;
    }
    puts("both came in, 20 times");
    return 0;
}
