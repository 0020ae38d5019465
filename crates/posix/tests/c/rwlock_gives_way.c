// Readers who come while a writer waits give way to it for a while, once many have passed it: then they have the lock,
// and none is told that a time is over, who set none.
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t have;
static volatile int wrote;

static void *writes(void *unused) {
    sem_post(&have);
    pthread_rwlock_wrlock(&lock);
    wrote = 1;
    pthread_rwlock_unlock(&lock);
    return unused;
}

static int wrong;
static pthread_mutex_t count = PTHREAD_MUTEX_INITIALIZER;

static void *reads(void *timed) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_sec += 3600;
    int error = timed ? pthread_rwlock_timedrdlock(&lock, &time) : pthread_rwlock_rdlock(&lock);
    pthread_mutex_lock(&count);
    wrong += error != 0;
    if (error) printf("%s\n", strerrorname_np(error));
    pthread_mutex_unlock(&count);
    if (!error) pthread_rwlock_unlock(&lock);
    return NULL;
}

// The lock is held by a reader all the time.
static void *all(void *unused) {
    pthread_t writer, reader;
    pthread_rwlock_rdlock(&lock);
    if (pthread_create(&writer, NULL, writes, NULL)) return &lock;
    sem_wait(&have);
    // Until it waits, which nobody can see.
    usleep(20000);
    for (long i = 0; i < 300; i++)
        if (pthread_create(&reader, NULL, reads, (void *)(i % 2)) || pthread_join(reader, NULL)) return &lock;
    pthread_rwlock_unlock(&lock);
    pthread_join(writer, NULL);
    printf("wrong: %d, wrote: %d\n", wrong, wrote);
    return unused;
}

int main(void) {
    alarm(60);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (sem_init(&have, 0, 0)) return 1;
    pthread_t thread;
    void *failed;
    if (pthread_create(&thread, NULL, all, NULL) || pthread_join(thread, &failed)) return 1;
    return failed || wrong;
}
