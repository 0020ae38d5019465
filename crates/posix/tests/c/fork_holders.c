// The child of a fork locks what asks the kernel about its holder: it is known by the child's own number, and its death is told.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { INHERITS = 1, ROBUST = 2 };
static pthread_mutex_t *mutexes;
static int used;

static pthread_mutex_t *make(int kind) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    if (kind & INHERITS) pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    if (kind & ROBUST) pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_t *mutex = &mutexes[used++];
    if (pthread_mutex_init(mutex, &attributes)) exit(1);
    return mutex;
}

// In a child, or in a child of that.
static void child_locks(const char *who, pthread_mutex_t *mutex, int generations) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (generations > 1) {
            child_locks(who, mutex, generations - 1);
        } else {
            int result = pthread_mutex_lock(mutex);
            printf("%s: lock %d, by its number %d\n", who, result, (mutex->__data.__lock & 0x3fffffff) == getpid());
        }
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

static void *forks(void *argument) {
    const char *who = argument;
    for (int kind = 1; kind <= 3; kind++) {
        for (int generations = 1; generations <= 2; generations++) {
            pthread_mutex_t *mutex = make(kind);
            child_locks(who, mutex, generations);
            // In a child, too, so that nobody here has locked one before the next fork.
            fflush(stdout);
            pid_t looker = fork();
            if (looker == 0) {
                if (kind & ROBUST) printf("%s: kind %d, then %d\n", who, kind, pthread_mutex_trylock(mutex));
                fflush(stdout);
                _exit(0);
            }
            waitpid(looker, NULL, 0);
        }
    }
    // One that knows already, and its child.
    pthread_mutex_t *mutex = make(INHERITS);
    int locked = pthread_mutex_lock(mutex);
    printf("%s: own lock %d %d\n", who, locked, pthread_mutex_unlock(mutex));
    child_locks(who, make(INHERITS), 1);
    // By the system call itself.
    fflush(stdout);
    mutex = make(INHERITS);
    pid_t child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        printf("%s: by the system call %d\n", who, pthread_mutex_lock(mutex));
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    return NULL;
}

int main(void) {
    mutexes = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    forks("main");
    pthread_t thread;
    if (pthread_create(&thread, NULL, forks, "thread") || pthread_join(thread, NULL)) return 1;
    return 0;
}
