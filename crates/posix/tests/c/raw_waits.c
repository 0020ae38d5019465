// Waits that are no cancellation points, made by number or System V's: a request for a cancellation ends none of them, in a thread nor in a handler, but
// each at once where it is asynchronous.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int pipes[2], sets, loop, wrong;
static unsigned long contexts;
static unsigned word, shared;
static char byte;

static long reads(void) { return syscall(SYS_read, pipes[0], &byte, 1); }
static long pauses(void) { return syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0); }
static long polls(void) { struct pollfd p = {pipes[0], POLLIN, 0}; struct timespec t = {3600, 0}; return syscall(SYS_ppoll, &p, 1, &t, NULL, 0); }
static long sleeps(void) { struct timespec t = {3600, 0}; return syscall(SYS_nanosleep, &t, NULL); }
static long dozes(void) { struct timespec t = {3600, 0}; return syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &t, NULL); }
static long futex(void) { return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0); }
static long futex_shared(void) { struct timespec t = {3600, 0}; return syscall(SYS_futex, &shared, FUTEX_WAIT, 0, &t, NULL, 0); }
static long semaphores(void) { struct sembuf s = {0, -1, 0}; return semop(sets, &s, 1); }
static long semaphores_timed(void) { struct sembuf s = {0, -1, 0}; struct timespec t = {3600, 0}; return semtimedop(sets, &s, 1, &t); }
static long semaphores_by_number(void) { struct sembuf s = {0, -1, 0}; return syscall(SYS_semtimedop, sets, &s, 1UL, NULL); }

static long events(void) { char told[64]; return syscall(SYS_io_getevents, contexts, 1L, 1L, told, NULL); }
static long loops(void) { char told[64]; struct timespec t = {3600, 0}; return syscall(441 /* epoll_pwait2 */, loop, told, 1, &t, NULL, 0); }

static const struct { const char *name; long (*call)(void); } waits[] = {
    {"read", reads}, {"ppoll", pauses}, {"ppoll, timed", polls}, {"nanosleep", sleeps}, {"clock_nanosleep", dozes}, {"futex", futex},
    {"futex, shared", futex_shared}, {"semop", semaphores}, {"semtimedop", semaphores_timed}, {"semtimedop by number", semaphores_by_number},
    {"io_getevents", events}, {"epoll_pwait2", loops},
};
enum { WAITS = sizeof waits / sizeof *waits };

static int kind, place, asynchronous;
static volatile int returned, told, error;
static sem_t begun;

static void waits_here(void) {
    sem_post(&begun);
    long result = waits[kind].call();
    error = result < 0 ? errno : 0;
    returned = 1;
}
static void on_hup(int signal) { (void)signal, waits_here(); }
static void on_usr1(int signal) { (void)signal, told = 1; }
static void *thread(void *unused) {
    int old;
    if (asynchronous) pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    if (place == 0) waits_here();
    else sem_post(&begun);
    while (place && !returned) {
    }
    // Where the request that was there all the time is met.
    pthread_testcancel();
    return unused;
}

int main(void) {
    struct sigaction hup = {.sa_handler = on_hup, .sa_flags = SA_RESTART}, usr1 = {.sa_handler = on_usr1};
    sigaction(SIGHUP, &hup, NULL), sigaction(SIGUSR1, &usr1, NULL);
    sem_init(&begun, 0, 0);
    sets = semget(IPC_PRIVATE, 1, 0600);
    loop = epoll_create1(0);
    if (pipe(pipes) || sets < 0 || loop < 0 || syscall(SYS_io_setup, 4, &contexts)) return 2;
    for (kind = 0; kind < WAITS; kind++)
        for (asynchronous = 0; asynchronous < 2; asynchronous++)
            for (place = 0; place < 2; place++) {
                // Which may end for no reason.
                if (waits[kind].call == futex && !asynchronous) continue;
                pthread_t id;
                void *result;
                returned = told = error = 0;
                pthread_create(&id, NULL, thread, NULL);
                sem_wait(&begun);
                if (place) pthread_kill(id, SIGHUP), sem_wait(&begun);
                usleep(10000);
                pthread_cancel(id);
                if (!asynchronous) {
                    usleep(10000);
                    int early = returned;
                    // A handler ends it, that does not restart calls.
                    while (!returned) pthread_kill(id, SIGUSR1), usleep(2000);
                    if (early || error != EINTR || !told) printf("%s, %d: ended early: %d, error %d, told %d\n", waits[kind].name, place, early, error, told), wrong++;
                }
                pthread_join(id, &result);
                if (result != PTHREAD_CANCELED || returned != !asynchronous) printf("%s, %d: cancelled %d, returned %d\n", waits[kind].name, place, result == PTHREAD_CANCELED, returned), wrong++;
            }
    semctl(sets, 0, IPC_RMID);
    printf("wrong: %d\n", wrong);
    return 0;
}
