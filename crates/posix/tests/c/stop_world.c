// Stops the world by signals, as collectors do: each thread stands in sigsuspend, in a handler, until it is told to go on; or, with a second argument, in sched_yield.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 60, ROUNDS = 10 };

static sem_t begun, stopped, gone_on;
static sigset_t waits;
static volatile int stop, generation, wrong, stands, yields;
static _Thread_local int number, *place;
static long progress[THREADS];
static int pipes[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t none;

static void on_stop(int signal) {
    int mine = number, error = errno, now = generation;
    int *where = place;
    pthread_t self = pthread_self();
    sem_post(&stopped);
    do
        if (yields) sched_yield();
        else sigsuspend(&waits);
    while (now == generation);
    sigset_t set;
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    if (mine != number || where != place || !pthread_equal(self, pthread_self()) || !sigismember(&set, SIGUSR1))
        wrong |= 1;
    errno = error;
    sem_post(&gone_on);
}

static void on_go(int signal) {}

static void *thread(void *argument) {
    int local = 0;
    number = (int)(long)argument;
    place = &local;
    sem_post(&begun);
    char byte;
    while (!stop) {
        switch (number % 6) {
        case 0: usleep(500); break;
        case 1:
            pthread_mutex_lock(&lock);
            struct timespec time;
            clock_gettime(CLOCK_REALTIME, &time);
            time.tv_nsec += 1000000;
            if (time.tv_nsec >= 1000000000)
                time.tv_sec++, time.tv_nsec -= 1000000000;
            pthread_cond_timedwait(&never, &lock, &time);
            pthread_mutex_unlock(&lock);
            break;
        case 2:
            while (sem_wait(&none) && errno == EINTR)
                ;
            break;
        case 3: read(pipes[0], &byte, 1); break;
        case 4:
            for (volatile int i = 0; i < 10000; i++)
                ;
            usleep(100);
            break;
        default: free(malloc(100 + local % 1000)); usleep(300);
        }
        if (stands)
            wrong |= 2;
        progress[number]++;
        local++;
    }
    sigset_t set;
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    if (place != &local || sigismember(&set, SIGUSR1) || sigismember(&set, SIGTERM))
        wrong |= 4;
    return NULL;
}

static int kernel_threads(void) {
    DIR *folder = opendir("/proc/self/task");
    int count = 0;
    while (folder && readdir(folder))
        count++;
    closedir(folder);
    return count - 2;
}

int main(int count, char **arguments) {
    yields = count > 2;
    sem_init(&begun, 0, 0), sem_init(&stopped, 0, 0), sem_init(&gone_on, 0, 0), sem_init(&none, 0, 0);
    pipe(pipes);
    sigfillset(&waits);
    sigdelset(&waits, SIGUSR2);
    sigdelset(&waits, SIGTERM);
    struct sigaction action = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
    sigfillset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
    action.sa_handler = on_go;
    sigaction(SIGUSR2, &action, NULL);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, thread, (void *)i);
    for (int i = 0; i < THREADS; i++)
        sem_wait(&begun);
    int most = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < THREADS; i++)
            pthread_kill(threads[i], SIGUSR1);
        for (int i = 0; i < THREADS; i++)
            sem_wait(&stopped);
        stands = 1;
        int now = kernel_threads();
        most = now > most ? now : most;
        long before = 0, after = 0;
        for (int i = 0; i < THREADS; i++)
            before += progress[i];
        usleep(3000);
        for (int i = 0; i < THREADS; i++)
            after += progress[i];
        if (before != after)
            wrong |= 8;
        stands = 0;
        generation++;
        for (int i = 0; i < THREADS; i++)
            pthread_kill(threads[i], SIGUSR2);
        for (int i = 0; i < THREADS; i++)
            sem_wait(&gone_on);
    }
    stop = 1;
    for (int i = 0; i < THREADS; i++)
        sem_post(&none);
    for (int i = 0; i < THREADS; i++)
        write(pipes[1], "x", 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("stopped and went on: %d, wrong: %d\n", ROUNDS, wrong);
    if (count > 1)
        printf("few kernel threads: %d\n", most < THREADS * 2 / 3);
    return wrong;
}
