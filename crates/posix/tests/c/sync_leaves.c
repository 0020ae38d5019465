// Who leaves a queue passes on: a preferred writer that times out, of both clocks, wakes the readers behind it, also with other writers in the queue. Robust mutexes
// with priority inheritance, and `pthread_once` left by its thread's end in code that cannot be unwound: the same natively. With an argument, mutexes
// with ceilings, which the C library refuses to threads without a real-time class.
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_rwlock_t lock;
static sem_t told;
static struct timespec soon(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_nsec += 100000000;
    if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
    return t;
}
static void *writes_in_time(void *argument) {
    clockid_t clock = (clockid_t)(long)argument;
    struct timespec t = soon(clock);
    sem_post(&told);
    int error = clock == CLOCK_REALTIME ? pthread_rwlock_timedwrlock(&lock, &t) : pthread_rwlock_clockwrlock(&lock, clock, &t);
    return (void *)(long)error;
}
static void *reads(void *unused) {
    sem_post(&told);
    int error = pthread_rwlock_rdlock(&lock);
    if (!error) pthread_rwlock_unlock(&lock);
    return (void *)(long)error;
}
static void writers(clockid_t clock, int count) {
    pthread_t writer[3], reader[3];
    void *result;
    pthread_rwlock_rdlock(&lock);
    for (int n = 0; n < count; n++) pthread_create(writer + n, NULL, writes_in_time, (void *)(long)clock), sem_wait(&told);
    // One waits, or has given up on a slow machine.
    usleep(10000);
    for (int n = 0; n < 3; n++) pthread_create(reader + n, NULL, reads, NULL), sem_wait(&told);
    for (int n = 0; n < count; n++) pthread_join(writer[n], &result), printf("writer: %s\n", strerror((long)result));
    for (int n = 0; n < 3; n++) pthread_join(reader[n], &result), printf("reader: %s\n", strerror((long)result));
    pthread_rwlock_unlock(&lock);
    printf("free: %s\n", strerror(pthread_rwlock_trywrlock(&lock)));
    pthread_rwlock_unlock(&lock);
}

static pthread_mutex_t mutex;
static void *takes(void *unused) { return (void *)(long)pthread_mutex_lock(&mutex); }
static void *tries(void *unused) { return (void *)(long)pthread_mutex_trylock(&mutex); }
static long by(void *(*what)(void *)) {
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, what, NULL);
    pthread_join(thread, &result);
    return (long)result;
}
static void robust(int kind, int shared) {
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, kind);
    pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT);
    if (shared) pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
    printf("robust %d %d: %d", kind, shared, pthread_mutex_init(&mutex, &a));
    printf(" taken %ld", by(takes));
    int error = pthread_mutex_lock(&mutex);
    printf(", then %s, consistent %d, others %s", strerror(error), pthread_mutex_consistent(&mutex), strerror(by(tries)));
    printf(", unlock %d", pthread_mutex_unlock(&mutex));
    printf(", taken %ld", by(takes));
    printf(", %s", strerror(pthread_mutex_lock(&mutex)));
    printf(", unlock %d", pthread_mutex_unlock(&mutex));
    printf(", %s\n", strerror(by(takes)));
}
static void *contends(void *counter) {
    for (int n = 0; n < 1000; n++) {
        // Without a real-time class, a thread's first one is refused.
        while (pthread_mutex_lock(&mutex)) {}
        ++*(int *)counter;
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}
static void ceiling(int kind) {
    pthread_mutexattr_t a;
    int now = 0, old = 0, counter = 0;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, kind);
    pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_PROTECT);
    pthread_mutexattr_setprioceiling(&a, 5);
    pthread_mutex_init(&mutex, &a);
    int error = pthread_mutex_getprioceiling(&mutex, &now);
    printf("ceiling %d: %d %d", kind, error, now);
    error = pthread_mutex_setprioceiling(&mutex, 6, &old);
    pthread_mutex_getprioceiling(&mutex, &now);
    printf(", set %d: %d then %d, too high %s", error, old, now, strerror(pthread_mutex_setprioceiling(&mutex, 1000, &old)));
    pthread_t threads[4];
    for (int n = 0; n < 4; n++) pthread_create(threads + n, NULL, contends, &counter);
    for (int n = 0; n < 4; n++) pthread_join(threads[n], NULL);
    printf(", counted %d", counter);
    pthread_mutex_lock(&mutex);
    printf(", held: %s", strerror(by(tries)));
    pthread_mutex_unlock(&mutex);
    pthread_mutex_getprioceiling(&mutex, &now);
    printf(", still %d, destroyed %d\n", now, pthread_mutex_destroy(&mutex));
}

extern void cannot_be_unwound(void (*)(void));
#ifdef __x86_64__
__asm__(".text\n.globl cannot_be_unwound\ncannot_be_unwound:\npush %rbx\nsub $48, %rsp\ncall *%rdi\nadd $48, %rsp\npop %rbx\nret\n");
#else
void cannot_be_unwound(void (*f)(void)) { f(); }
#endif
static pthread_once_t once;
static int cleaned, times;
static void leaves(void) { times++; if (times == 1) pthread_exit((void *)7L); if (times == 2) for (;;) pause(); }
static void initialises(void) { cannot_be_unwound(leaves); }
static void clean(void *unused) { cleaned++; }
static void *runs_once(void *unused) {
    pthread_cleanup_push(clean, NULL);
    pthread_once(&once, initialises);
    pthread_cleanup_pop(0);
    return (void *)1L;
}
int main(int count_of_arguments, char **arguments) {
    setlinebuf(stdout);
    if (count_of_arguments > 1) {
        for (int kind = 0; kind < 3; kind++) ceiling(kind);
        return 0;
    }
    pthread_rwlockattr_t a;
    pthread_rwlockattr_init(&a);
    pthread_rwlockattr_setkind_np(&a, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&lock, &a);
    sem_init(&told, 0, 0);
    for (int count = 1; count <= 3; count++) writers(CLOCK_REALTIME, count), writers(CLOCK_MONOTONIC, count);
    for (int kind = 0; kind < 3; kind++) robust(kind, 0), robust(kind, 1);
    void *result;
    for (int n = 0; n < 3; n++) {
        pthread_t thread;
        pthread_create(&thread, NULL, runs_once, NULL);
        if (n == 1) usleep(10000), pthread_cancel(thread);
        pthread_join(thread, &result);
        printf("once: %s, run %d times, cleaned %d\n", result == PTHREAD_CANCELED ? "cancelled" : result == (void *)7L ? "left" : "done", times, cleaned);
    }
    return 0;
}
