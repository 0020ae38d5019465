// System V's calls that wait: masks that others change do not end them, a handler does, a time limit lasts as long as it says. The same natively.
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <time.h>
#include <unistd.h>

static int set, queue, full;
static sem_t begins;
static volatile int ended;
struct message { long type; char text[8]; };
static void handler(int signal) {}
static int takes(void) { struct sembuf one = {0, -1, 0}; return semop(set, &one, 1); }
static int takes_in_time(void) { struct sembuf one = {0, -1, 0}; struct timespec t = {1000, 0}; return semtimedop(set, &one, 1, &t); }
static int receives(void) { struct message m; return msgrcv(queue, &m, 8, 0, 0) == 8 ? 0 : -1; }
static int sends(void) { struct message m = {1, "1234567"}; return msgsnd(full, &m, 8, 0); }
static int (*const calls[])(void) = {takes, takes_in_time, receives, sends};
static void *work(void *argument) {
    int (*call)(void) = argument;
    sem_post(&begins);
    errno = 0;
    long error = call() ? errno : 0;
    ended = 1;
    return (void *)error;
}
static void *toggles(void *unused) {
    sigset_t one;
    sigemptyset(&one), sigaddset(&one, SIGUSR2);
    for (int n = 0; n < 200; n++) pthread_sigmask(n % 2 ? SIG_BLOCK : SIG_UNBLOCK, &one, NULL);
    return NULL;
}
int main(void) {
    struct sembuf give = {0, 1, 0};
    struct message m = {1, "1234567"};
    sigset_t one;
    sigemptyset(&one), sigaddset(&one, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &one, NULL);
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handler, .sa_flags = SA_RESTART}, NULL);
    sem_init(&begins, 0, 0);
    set = semget(IPC_PRIVATE, 1, 0600), queue = msgget(IPC_PRIVATE, 0600), full = msgget(IPC_PRIVATE, 0600);
    while (!msgsnd(full, &m, 8, IPC_NOWAIT)) {}
    for (int call = 0; call < 4; call++) for (int how = 0; how < 2; how++) {
        pthread_t waits, other;
        ended = 0;
        pthread_create(&waits, NULL, work, calls[call]);
        sem_wait(&begins);
        usleep(10000);
        pthread_create(&other, NULL, toggles, NULL);
        pthread_join(other, NULL);
        usleep(10000);
        // Again and again: one that comes before the call does not end it.
        if (how) for (; !ended; usleep(10000)) pthread_kill(waits, SIGUSR1);
        else if (call < 2) semop(set, &give, 1);
        else if (call == 2) msgsnd(queue, &m, 8, 0);
        else msgrcv(full, &m, 8, 0, 0);
        void *result;
        pthread_join(waits, &result);
        printf("%d: %s\n", call, strerror((long)result));
    }
    struct sembuf take = {0, -1, 0};
    struct timespec soon = {0, 1000000};
    printf("%d\n", semtimedop(set, &take, 1, &soon) == -1 && errno == EAGAIN);
    semctl(set, 0, IPC_RMID), msgctl(queue, IPC_RMID, NULL), msgctl(full, IPC_RMID, NULL);
    return 0;
}
