/* Raddle for C and C++: what pthreads have no words for.
 *
 * A program that is linked with libraddle uses pthreads as ever: the threads it creates are lightweight, its locks, sleeps and
 * sockets block a thread and not a core. This header adds pools, policies, priorities and counters.
 *
 *     cc server.c $(pkg-config --cflags --libs raddle)
 *
 * Functions that fail set the calling thread's raddle_error(), a sentence that names the cause and the remedy.
 */
#ifndef RADDLE_H
#define RADDLE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A set of processors under one policy. */
typedef struct raddle_pool raddle_pool;

/* Makes a pool of so many processors (0: as many as the cores that the process may use) under a policy such as "fifo" or
 * "priority(3, steal)" (NULL: the default one). NULL when it cannot be had. */
raddle_pool *raddle_pool_create(unsigned processors, const char *policy);

/* Waits until the pool's threads have ended, then ends its kernel threads. Not to be called by a thread of the pool. */
void raddle_pool_destroy(raddle_pool *pool);

/* How many processors the pool has; 0 where threads are kernel threads. */
unsigned raddle_pool_processors(const raddle_pool *pool);

/* Threads of the pool that have not ended. */
uint64_t raddle_pool_live_threads(const raddle_pool *pool);

/* As pthread_create (which serves the caller's pool), in a pool, with a priority: 0 is the highest; below 0 means the caller's own.
 * The thread is a pthread like any other. EINVAL for a priority that the pool's policy does not tell apart. */
int raddle_thread_create(pthread_t *thread, const pthread_attr_t *attributes, raddle_pool *pool, int priority,
                         void *(*start)(void *), void *argument);

/* 1 if the caller is a lightweight thread. */
int raddle_is_lightweight(void);

/* 1 if threads that the program creates are lightweight; 0, with raddle_error() set, if they are kernel threads. */
int raddle_available(void);

/* Gives the processor up if a thread of a higher priority waits for it; for long computations. (sched_yield offers it to
 * threads of the same priority, too.) */
void raddle_check(void);

/* Offers the processor to ready threads of the same or a higher priority: 1 if another one ran. 0: none was ready, or the caller is no lightweight thread;
 * nothing happened then, where sched_yield gives the kernel thread's core away. For loops that wait for what comes from outside the process. */
int raddle_yield(void);

/* What a program calls that was compiled with quantum checks (raddle cc) when its word is below zero: fills the word again, and gives way to a thread of a
 * higher priority at once, to others when the quantum (RADDLE_QUANTUM, in microseconds; 1000 if it is not set) is over. */
void raddle_quantum_used(int64_t *word);

/* Sets the calling thread's own quantum, in microseconds; 0: as for all threads of its priority. 0, or EINVAL for more than a second. */
int raddle_set_quantum(unsigned microseconds);

/* Between the two the calling thread does not give way at quantum checks, for instance while it holds a spin lock of its own. Sections nest. */
void raddle_hold(void);
void raddle_release(void);

/* A function with this attribute gets no quantum checks (raddle cc; for a part of a file: #pragma clang attribute push). */
#ifdef __clang__
#define RADDLE_UNCOOPERATIVE __attribute__((annotate("raddle_uncooperative")))
#else
#define RADDLE_UNCOOPERATIVE
#endif

/* 0 if the text is a policy; otherwise EINVAL, and raddle_error() points at the column. */
int raddle_policy_check(const char *policy);

/* Counters of the process, since it began. Later versions add fields at the end. */
struct raddle_stats {
    uint64_t spawned;           /* threads created */
    uint64_t exited;            /* threads that ended */
    uint64_t switches;          /* times a processor went on with another thread */
    uint64_t sleeps;            /* times a processor went to sleep */
    uint64_t steals_tried;      /* attempts to steal */
    uint64_t steals_won;        /* those that brought something */
    uint64_t takeovers;         /* processors taken from threads that blocked in the kernel */
    uint64_t slices;            /* processors gone on with beside threads that computed */
    uint64_t spare_activations; /* kernel threads beyond one a processor, now */
    uint64_t stacks;            /* stacks used at once, at most */
};

/* Fills as much of `stats` as `size` (sizeof *stats) holds. */
void raddle_stats_get(struct raddle_stats *stats, size_t size);

/* Locks beside pthread_mutex_t, for where several processors meet on one structure; docs/locks.md says which one to take. `algorithm` is "fair" (NULL; in the
 * order of coming, who waits parks), or one that spins: "spin", "mcs", "h1", "h2", "hemlock", "cna", "reciprocating", "try". Those that spin are for a hold of a few
 * instructions, or for threads that own their cores. NULL if there is no such algorithm. */
typedef struct raddle_lock raddle_lock;
raddle_lock *raddle_lock_create(const char *algorithm);

/* Nobody holds the lock or waits for it, and nobody will. */
void raddle_lock_destroy(raddle_lock *lock);

/* What a thread needs while it waits for a lock and holds it, on its stack for instance; nothing has to be set in it. It stays where it is from acquire to
 * release, is used for one lock at a time, and release is called by the thread that acquired. */
typedef struct raddle_place {
    uint64_t opaque[32];
} raddle_place;
void raddle_lock_acquire(const raddle_lock *lock, raddle_place *place);
void raddle_lock_release(const raddle_lock *lock, raddle_place *place);

/* A try that never waits, for locks "try" alone; for handlers, for instance. What one needs for it is made beforehand, is used by one caller at a time (a handler
 * has its own), and belongs to the lock's queue after a try that failed, until somebody's release has passed it: until then each try with it fails. It may be
 * destroyed at any time but while the lock is had by it. raddle_lock_try returns 0, EBUSY if somebody has the lock or waits for it, or EINVAL. Under
 * constant demand it never succeeds: leave the work to the holder then, see below. */
typedef struct raddle_trying raddle_trying;
raddle_trying *raddle_trying_create(void);
void raddle_trying_destroy(raddle_trying *trying);
int raddle_lock_try(const raddle_lock *lock, raddle_trying *trying);
void raddle_lock_release_tried(const raddle_lock *lock, raddle_trying *trying);

/* For a lock that a thread and its handlers take: a thread's own place for that lock, zeroed at first. It waits for others as raddle_lock_acquire does, and
 * returns 0; in a handler that has interrupted its own thread with the lock, or on the way to it, it returns EBUSY at once in place of waiting for ever. */
typedef struct raddle_own {
    uint64_t opaque[33];
} raddle_own;
int raddle_lock_acquire_own(const raddle_lock *lock, raddle_own *own);
void raddle_lock_release_own(const raddle_lock *lock, raddle_own *own);

/* A lock to which work can be left by who must not wait. `most` pieces may be left at once, and who has the lock does so many of them at most when it releases,
 * in the order of their coming; nobody else is needed. The lock itself spins and is fair. */
typedef struct raddle_deferred raddle_deferred;
raddle_deferred *raddle_deferred_create(size_t most);
void raddle_deferred_destroy(raddle_deferred *deferred);
void raddle_deferred_acquire(const raddle_deferred *deferred, raddle_place *place);
void raddle_deferred_release(const raddle_deferred *deferred, raddle_place *place);

/* Calls work(argument) alone: at once if nobody is there, which returns 0; or later, by who has the lock, on that one's thread, which returns EINPROGRESS.
 * EAGAIN: as much is left as there is room for, and the work is not done. It never waits, allocates nothing, and may be called by a handler. The room is the
 * caller's, stays where it is until `work` is called, and is free from then on. `work` may leave more work; it must not acquire the lock, throw or end its
 * thread. */
typedef struct raddle_work {
    uint64_t opaque[6];
} raddle_work;
int raddle_deferred_do(const raddle_deferred *deferred, raddle_work *room, void (*work)(void *), void *argument);

/* The cluster of cores on which the caller runs just now, from 0, and how many there are: cores that share the last cache, or as RADDLE_CLUSTERS says.
 * -1 if that has none of its words. */
int raddle_cluster(void);
int raddle_clusters(void);

/* What went wrong in the calling thread's last call of this header that failed; "" if none did. Valid until the next. */
const char *raddle_error(void);

#ifdef __cplusplus
}
#endif

#endif
