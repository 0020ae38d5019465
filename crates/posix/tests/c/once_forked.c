// The child of a fork runs what another thread was about to do once when it forked, and which nobody does there: by
// `pthread_once` and C11's `call_once`, forked by a thread and by the first one.
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

static sem_t inside, go;
static pthread_once_t control;
static once_flag flag;
static int c11, ran, wrong;

static void once(void (*does)(void)) {
    if (c11) call_once(&flag, does);
    else pthread_once(&control, does);
}

static void waits(void) {
    sem_post(&inside);
    while (sem_wait(&go)) {}
    ran++;
}

static void counts(void) { ran++; }

static void *initialises(void *unused) {
    once(waits);
    return unused;
}

static void *forks(void *unused) {
    pid_t child = fork();
    if (child == 0) {
        // Else it would wait for ever.
        alarm(20);
        once(counts);
        once(counts);
        _exit(ran == 1 ? 7 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    printf("child: %d\n", code);
    wrong += code != 7;
    return unused;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; i < 4; i++) {
        pthread_t first, second;
        c11 = i & 1, ran = 0;
        control = (pthread_once_t)PTHREAD_ONCE_INIT;
        flag = (once_flag)ONCE_FLAG_INIT;
        if (sem_init(&inside, 0, 0) || sem_init(&go, 0, 0)) return 1;
        if (pthread_create(&first, NULL, initialises, NULL)) return 1;
        while (sem_wait(&inside)) {}
        if (i < 2) forks(NULL);
        else if (pthread_create(&second, NULL, forks, NULL) || pthread_join(second, NULL)) return 1;
        sem_post(&go);
        pthread_join(first, NULL);
        once(counts);
        printf("ran: %d\n", ran);
    }
    return wrong;
}
