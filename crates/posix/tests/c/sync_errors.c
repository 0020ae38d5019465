// What each operation answers, in one line each: the same natively and as a drop-in.
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <threads.h>
#include <time.h>

static struct timespec past(void) { return (struct timespec){1, 0}; }
static struct timespec bad(void) { return (struct timespec){1, 1000000000}; }
static struct timespec in(clockid_t clock, long ms) {
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_nsec += ms * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}
#define SAY(x) printf("%s: %s\n", #x, name(x))
static const char *name(int e) { return e == 0 ? "ok" : e == -1 ? strerrorname_np(errno) : strerrorname_np(e); }

static void *mutexes(void *unused) {
    struct timespec p = past(), b = bad();
    pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER, recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    pthread_mutex_t checking = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP, adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
    pthread_mutex_t *all[] = {&normal, &recursive, &checking, &adaptive};
    for (int i = 0; i < 4; i++) {
        pthread_mutex_t *m = all[i];
        printf("kind %d\n", i);
        SAY(pthread_mutex_lock(m));
        SAY(pthread_mutex_trylock(m));
        SAY(pthread_mutex_timedlock(m, &p));
        if (i != 1) SAY(pthread_mutex_timedlock(m, &b));
        SAY(pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &p));
        SAY(pthread_mutex_clocklock(m, CLOCK_PROCESS_CPUTIME_ID, &p));
        if (i == 1 || i == 2) SAY(pthread_mutex_lock(m));
        SAY(pthread_mutex_destroy(m));
        SAY(pthread_mutex_unlock(m));
        if (i == 1 || i == 2) for (int k = 0; k < 4; k++) SAY(pthread_mutex_unlock(m));
        if (i == 2) SAY(pthread_mutex_trylock(m)), SAY(pthread_mutex_unlock(m));
        SAY(pthread_mutex_destroy(m));
        SAY(pthread_mutex_lock(m));
    }
    for (int type = 0; type < 4; type++)
        for (int shared = 0; shared < 2; shared++) {
            pthread_mutexattr_t a;
            pthread_mutexattr_init(&a);
            SAY(pthread_mutexattr_settype(&a, type));
            SAY(pthread_mutexattr_setpshared(&a, shared));
            pthread_mutex_t m;
            SAY(pthread_mutex_init(&m, &a));
            SAY(pthread_mutex_lock(&m));
            SAY(pthread_mutex_trylock(&m));
            SAY(pthread_mutex_unlock(&m));
            if (type == 1) SAY(pthread_mutex_unlock(&m));
            SAY(pthread_mutex_destroy(&m));
        }
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    SAY(pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT));
    pthread_mutex_t inherit;
    SAY(pthread_mutex_init(&inherit, &a));
    SAY(pthread_mutex_lock(&inherit));
    SAY(pthread_mutex_trylock(&inherit));
    SAY(pthread_mutex_unlock(&inherit));
    SAY(pthread_mutex_destroy(&inherit));
    return unused;
}

static void *waits(void *unused) {
    struct timespec p = past(), b = bad();
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER, checking = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
    pthread_cond_t real = PTHREAD_COND_INITIALIZER, mono, shared;
    pthread_condattr_t a;
    pthread_condattr_init(&a);
    SAY(pthread_condattr_setclock(&a, CLOCK_MONOTONIC));
    SAY(pthread_cond_init(&mono, &a));
    SAY(pthread_condattr_setpshared(&a, PTHREAD_PROCESS_SHARED));
    SAY(pthread_cond_init(&shared, &a));
    pthread_mutex_lock(&m);
    struct timespec r = in(CLOCK_REALTIME, 2), mo = in(CLOCK_MONOTONIC, 2);
    SAY(pthread_cond_timedwait(&real, &m, &p));
    SAY(pthread_cond_timedwait(&real, &m, &b));
    SAY(pthread_cond_timedwait(&real, &m, &r));
    SAY(pthread_cond_timedwait(&mono, &m, &mo));
    SAY(pthread_cond_clockwait(&real, &m, CLOCK_MONOTONIC, &mo));
    SAY(pthread_cond_clockwait(&real, &m, CLOCK_PROCESS_CPUTIME_ID, &mo));
    SAY(pthread_mutex_trylock(&m));
    SAY(pthread_mutex_unlock(&m));
    SAY(pthread_cond_timedwait(&real, &checking, &p));
    // Of a mutex that the caller does not hold: nobody uses it for that.
    pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP, *not_held[] = {&checking, &recursive};
    for (int i = 0; i < 2; i++) {
        SAY(pthread_cond_wait(&real, not_held[i]));
        SAY(pthread_cond_timedwait(&real, not_held[i], &r));
        SAY(pthread_cond_clockwait(&real, not_held[i], CLOCK_MONOTONIC, &mo));
        SAY(pthread_mutex_lock(not_held[i]));
        SAY(pthread_mutex_unlock(not_held[i]));
        SAY(pthread_mutex_destroy(not_held[i]));
    }
    SAY(pthread_cond_signal(&real));
    SAY(pthread_cond_broadcast(&mono));
    SAY(pthread_cond_signal(&shared));
    SAY(pthread_cond_destroy(&real));
    SAY(pthread_cond_destroy(&mono));
    SAY(pthread_cond_destroy(&shared));

    sem_t s;
    int v;
    SAY(sem_init(&s, 0, 1));
    SAY(sem_wait(&s));
    SAY(sem_trywait(&s));
    SAY(sem_timedwait(&s, &p));
    SAY(sem_timedwait(&s, &b));
    r = in(CLOCK_REALTIME, 2);
    SAY(sem_timedwait(&s, &r));
    SAY(sem_clockwait(&s, CLOCK_MONOTONIC, &p));
    SAY(sem_clockwait(&s, CLOCK_PROCESS_CPUTIME_ID, &p));
    SAY(sem_post(&s));
    SAY(sem_getvalue(&s, &v));
    printf("value %d\n", v);
    SAY(sem_timedwait(&s, &b));
    SAY(sem_destroy(&s));
    SAY(sem_init(&s, 0, INT_MAX));
    SAY(sem_post(&s));
    SAY(sem_init(&s, 1, 0));
    SAY(sem_post(&s));
    SAY(sem_wait(&s));
    SAY(sem_trywait(&s));
    return unused;
}

static void *rwlocks(void *unused) {
    struct timespec p = past(), b = bad();
    for (int kind = 0; kind < 3; kind++)
        for (int shared = 0; shared < 2; shared++) {
            pthread_rwlockattr_t a;
            pthread_rwlockattr_init(&a);
            pthread_rwlockattr_setkind_np(&a, kind);
            pthread_rwlockattr_setpshared(&a, shared);
            pthread_rwlock_t l;
            SAY(pthread_rwlock_init(&l, &a));
            SAY(pthread_rwlock_rdlock(&l));
            SAY(pthread_rwlock_tryrdlock(&l));
            SAY(pthread_rwlock_trywrlock(&l));
            SAY(pthread_rwlock_timedwrlock(&l, &p));
            SAY(pthread_rwlock_timedwrlock(&l, &b));
            SAY(pthread_rwlock_clockwrlock(&l, CLOCK_MONOTONIC, &p));
            SAY(pthread_rwlock_timedrdlock(&l, &p));
            SAY(pthread_rwlock_unlock(&l));
            SAY(pthread_rwlock_unlock(&l));
            SAY(pthread_rwlock_unlock(&l));
            SAY(pthread_rwlock_wrlock(&l));
            SAY(pthread_rwlock_wrlock(&l));
            SAY(pthread_rwlock_rdlock(&l));
            SAY(pthread_rwlock_tryrdlock(&l));
            SAY(pthread_rwlock_trywrlock(&l));
            SAY(pthread_rwlock_clockrdlock(&l, CLOCK_MONOTONIC, &p));
            SAY(pthread_rwlock_unlock(&l));
            SAY(pthread_rwlock_tryrdlock(&l));
            SAY(pthread_rwlock_unlock(&l));
            SAY(pthread_rwlock_destroy(&l));
        }
    pthread_spinlock_t s;
    SAY(pthread_spin_init(&s, 0));
    SAY(pthread_spin_lock(&s));
    SAY(pthread_spin_trylock(&s));
    SAY(pthread_spin_unlock(&s));
    SAY(pthread_spin_trylock(&s));
    SAY(pthread_spin_unlock(&s));
    SAY(pthread_spin_destroy(&s));
    pthread_barrier_t bar;
    SAY(pthread_barrier_init(&bar, NULL, 0));
    SAY(pthread_barrier_init(&bar, NULL, 1));
    printf("%d\n", pthread_barrier_wait(&bar) == PTHREAD_BARRIER_SERIAL_THREAD);
    SAY(pthread_barrier_destroy(&bar));

    struct timespec soon;
    timespec_get(&soon, TIME_UTC);
    mtx_t m;
    cnd_t c;
#define C11(x) printf("%s: %d\n", #x, x)
    C11(mtx_init(&m, mtx_timed | mtx_recursive));
    C11(cnd_init(&c));
    C11(mtx_lock(&m));
    C11(mtx_trylock(&m));
    C11(mtx_timedlock(&m, &soon));
    C11(mtx_unlock(&m));
    C11(mtx_unlock(&m));
    C11(cnd_timedwait(&c, &m, &soon));
    C11(mtx_unlock(&m));
    C11(mtx_unlock(&m));
    mtx_destroy(&m);
    C11(mtx_init(&m, mtx_timed));
    C11(mtx_lock(&m));
    C11(mtx_trylock(&m));
    C11(mtx_timedlock(&m, &soon));
    C11(cnd_signal(&c));
    C11(cnd_broadcast(&c));
    C11(mtx_unlock(&m));
    mtx_destroy(&m);
    cnd_destroy(&c);
    return unused;
}

int main(void) {
    void *(*const all[])(void *) = {mutexes, waits, rwlocks};
    for (int i = 0; i < 3; i++) {
        pthread_t t;
        if (pthread_create(&t, NULL, all[i], NULL) != 0) return 1;
        pthread_join(t, NULL);
        all[i](NULL); // and as a kernel thread
    }
    return 0;
}
