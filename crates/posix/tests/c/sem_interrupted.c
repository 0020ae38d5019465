// A handler ends a wait for a semaphore, with a time or without, of a thread and of the first one. (It is sent again
// until it has ended it: it may come before the wait.)
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static sem_t never;
static volatile int over;

static void nothing(int signal) { (void)signal; }

static void *sends(void *to) {
    while (!over) {
        pthread_kill(*(pthread_t *)to, SIGUSR1);
        usleep(1000);
    }
    return NULL;
}

static void *waits(void *who) {
    for (int way = 0; way < 3; way++) {
        pthread_t me = pthread_self(), sender;
        struct timespec later;
        clock_gettime(CLOCK_REALTIME, &later);
        later.tv_sec += 3600;
        over = 0;
        if (pthread_create(&sender, NULL, sends, &me)) return who;
        int result = way == 0 ? sem_wait(&never) : way == 1 ? sem_timedwait(&never, &later) : sem_clockwait(&never, CLOCK_REALTIME, &later);
        int error = errno;
        over = 1;
        pthread_join(sender, NULL);
        printf("%s, %d: %d %s\n", (char *)who, way, result, strerrorname_np(error));
    }
    return NULL;
}

int main(void) {
    alarm(60);
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct sigaction action = {.sa_handler = nothing};
    pthread_t thread;
    void *failed;
    if (sigaction(SIGUSR1, &action, NULL) || sem_init(&never, 0, 0)) return 1;
    if (pthread_create(&thread, NULL, waits, "a thread") || pthread_join(thread, &failed)) return 1;
    return failed || waits("the first thread");
}
