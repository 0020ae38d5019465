// Event loops beside threads that block: their waits, locks, time limits, signals and ends. The same natively and with the library.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LOOPS = 6, ROUNDS = 300, JOBS = 2000, ENDS = 60 };

static void check(int good, const char *what) {
    if (!good) {
        printf("failed: %s (%d)\n", what, errno);
        exit(1);
    }
}

// An event loop over one side of a pair of sockets: adds one to each byte, until a 255 comes.
struct loop {
    int ours, theirs, set;
    pthread_t thread;
    atomic_int interrupted;
};

static void prepare(struct loop *loop) {
    int pair[2];
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0, "socketpair");
    loop->ours = pair[0];
    loop->theirs = pair[1];
    loop->set = epoll_create1(0);
    atomic_store(&loop->interrupted, 0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = pair[1]};
    check(epoll_ctl(loop->set, EPOLL_CTL_ADD, pair[1], &event) == 0, "epoll_ctl");
}

static void finish(struct loop *loop) {
    close(loop->ours);
    close(loop->theirs);
    close(loop->set);
}

static void *turn(void *argument) {
    struct loop *loop = argument;
    for (;;) {
        struct epoll_event events[4];
        int count = epoll_wait(loop->set, events, 4, -1);
        if (count < 0) {
            check(errno == EINTR, "epoll_wait");
            atomic_fetch_add(&loop->interrupted, 1);
            continue;
        }
        unsigned char byte;
        while (read(loop->theirs, &byte, 1) == 1) {
            if (byte == 255) return NULL;
            byte++;
            check(write(loop->theirs, &byte, 1) == 1, "write");
        }
        check(errno == EAGAIN, "read");
    }
}

static unsigned char ask(struct loop *loop, unsigned char byte) {
    check(write(loop->ours, &byte, 1) == 1, "ask");
    while (read(loop->ours, &byte, 1) != 1) {
        check(errno == EAGAIN, "answer");
        sched_yield();
    }
    return byte;
}

static void rounds(struct loop *loop, int count) {
    for (int i = 0; i < count; i++) check(ask(loop, i % 200) == i % 200 + 1, "the byte and one");
}

static void *asker(void *argument) {
    rounds(argument, ROUNDS);
    return NULL;
}

static void begin(struct loop *loop) {
    prepare(loop);
    check(pthread_create(&loop->thread, NULL, turn, loop) == 0, "pthread_create");
}

static void end(struct loop *loop) {
    unsigned char stop = 255;
    check(write(loop->ours, &stop, 1) == 1, "stop");
    check(pthread_join(loop->thread, NULL) == 0, "join");
    finish(loop);
}

// Loops that others ask.
static void loops(void) {
    static struct loop all[LOOPS];
    pthread_t askers[LOOPS];
    for (int i = 0; i < LOOPS; i++) begin(&all[i]);
    for (int i = 0; i < LOOPS; i++) check(pthread_create(&askers[i], NULL, asker, &all[i]) == 0, "asker");
    for (int i = 0; i < LOOPS; i++) pthread_join(askers[i], NULL);
    for (int i = 0; i < LOOPS; i++) end(&all[i]);
    printf("%d loops, %d rounds each\n", LOOPS, ROUNDS);
}

// One set for several loops: each event is somebody's.
static int shared_set, shared_event, stop_event;
static atomic_long taken;

static void *sharer(void *argument) {
    (void)argument;
    for (;;) {
        struct epoll_event event;
        check(epoll_wait(shared_set, &event, 1, -1) == 1, "epoll_wait");
        if (event.data.fd == stop_event) return NULL;
        uint64_t count;
        if (read(shared_event, &count, 8) == 8) atomic_fetch_add(&taken, 1);
    }
}

static void sharing(void) {
    pthread_t threads[LOOPS];
    shared_set = epoll_create1(0);
    shared_event = eventfd(0, EFD_NONBLOCK | EFD_SEMAPHORE);
    stop_event = eventfd(0, EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = shared_event};
    check(epoll_ctl(shared_set, EPOLL_CTL_ADD, shared_event, &event) == 0, "epoll_ctl");
    event.data.fd = stop_event;
    check(epoll_ctl(shared_set, EPOLL_CTL_ADD, stop_event, &event) == 0, "epoll_ctl");
    for (int i = 0; i < LOOPS; i++) pthread_create(&threads[i], NULL, sharer, NULL);
    for (long i = 0; i < ROUNDS; i++) {
        uint64_t some = 1 + i % 5;
        long before = atomic_load(&taken);
        check(write(shared_event, &some, 8) == 8, "some");
        while (atomic_load(&taken) < before + (long)some) sched_yield();
    }
    uint64_t one = 1;
    check(write(stop_event, &one, 8) == 8, "stop");
    for (int i = 0; i < LOOPS; i++) pthread_join(threads[i], NULL);
    printf("%ld taken\n", atomic_load(&taken));
}

// A loop that gives jobs to workers and is told when they are done.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static int jobs, over, done_event;
static long sum;

static void *worker(void *argument) {
    (void)argument;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (jobs == 0 && !over) pthread_cond_wait(&more, &lock);
        if (jobs == 0) break;
        sum += jobs--;
        if (sum % 3 == 0) sched_yield(); // while it holds the lock
        pthread_mutex_unlock(&lock);
        uint64_t one = 1;
        check(write(done_event, &one, 8) == 8, "done");
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void *giver(void *argument) {
    (void)argument;
    int set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    check(epoll_ctl(set, EPOLL_CTL_ADD, done_event, &event) == 0, "epoll_ctl");
    long given = 0, finished = 0;
    while (finished < JOBS) {
        pthread_mutex_lock(&lock);
        for (; given < JOBS && given - finished < 4; given++) jobs++;
        pthread_cond_broadcast(&more);
        pthread_mutex_unlock(&lock);
        check(epoll_wait(set, &event, 1, -1) == 1, "epoll_wait");
        uint64_t count;
        check(read(done_event, &count, 8) == 8, "count");
        finished += count;
    }
    close(set);
    return (void *)finished;
}

static void workers(void) {
    pthread_t threads[4], loop;
    void *finished;
    done_event = eventfd(0, 0);
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, worker, NULL);
    pthread_create(&loop, NULL, giver, NULL);
    pthread_join(loop, &finished);
    pthread_mutex_lock(&lock);
    over = 1;
    pthread_cond_broadcast(&more);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    printf("%ld jobs, %d left\n", (long)finished, jobs);
}

static void *limited(void *argument) {
    struct loop *loop = argument;
    struct epoll_event event;
    for (int i = 0; i < 40; i++) check(epoll_wait(loop->set, &event, 1, 1) == 0, "nothing");
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    check(epoll_wait(loop->set, &event, 1, 60) == 0, "nothing in time");
    clock_gettime(CLOCK_MONOTONIC, &after);
    long spent = (after.tv_sec - before.tv_sec) * 1000000 + (after.tv_nsec - before.tv_nsec) / 1000;
    check(spent >= 59000, "not before its time");
    check(epoll_wait(loop->set, &event, 0, 60) == -1 && errno == EINVAL, "no room");
    check(epoll_wait(loop->set, &event, 1, 0) == 0, "a look");
    return NULL;
}

static void limits(void) {
    struct loop loop;
    prepare(&loop);
    pthread_create(&loop.thread, NULL, limited, &loop);
    pthread_join(loop.thread, NULL);
    finish(&loop);
    printf("limits kept\n");
}

static atomic_int handled;

static void handler(int signal) {
    (void)signal;
    atomic_fetch_add(&handled, 1);
}

static void signals(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    struct loop loop;
    begin(&loop);
    rounds(&loop, 100);
    for (int i = 0; i < 50; i++) {
        pthread_kill(loop.thread, SIGUSR1);
        while (atomic_load(&handled) <= i) sched_yield();
        rounds(&loop, 1);
    }
    end(&loop);
    // Whether a call was interrupted depends on when the signal came; it cannot be more often.
    printf("%d handled, %d\n", atomic_load(&handled), atomic_load(&loop.interrupted) <= 50);
}

// Cancelled while they wait, or anywhere else in their turn.
static void ends(void) {
    int cancelled = 0;
    for (int i = 0; i < ENDS; i++) {
        struct loop loop;
        void *result;
        begin(&loop);
        rounds(&loop, 20 + i);
        unsigned char byte = 1;
        if (i % 2) check(write(loop.ours, &byte, 1) == 1, "one more");
        pthread_cancel(loop.thread);
        pthread_join(loop.thread, &result);
        cancelled += result == PTHREAD_CANCELED;
        finish(&loop);
    }
    printf("%d cancelled\n", cancelled);
}

// One that is not to be cancelled for now.
static void *protected(void *argument) {
    struct loop *loop = argument;
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    turn(loop);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
    pthread_testcancel();
    return NULL;
}

static void protection(void) {
    struct loop loop;
    void *result;
    prepare(&loop);
    pthread_create(&loop.thread, NULL, protected, &loop);
    rounds(&loop, 100);
    pthread_cancel(loop.thread);
    rounds(&loop, 100);
    unsigned char stop = 255;
    check(write(loop.ours, &stop, 1) == 1, "stop");
    pthread_join(loop.thread, &result);
    finish(&loop);
    printf("protected, then cancelled %d\n", result == PTHREAD_CANCELED);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    loops();
    sharing();
    workers();
    limits();
    signals();
    ends();
    protection();
    return 0;
}
