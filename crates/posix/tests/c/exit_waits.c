// A thread that ends by itself, or is cancelled, waits in its clean-up handlers and destructors: nobody can cancel that any more, and each wait is as long as it is to be. And a wait
// for a semaphore that a handler ends, once where the handler comes and once where it comes with a post. Prints the same natively.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

enum { EXITS, CANCELLED, WAYS, SHORT = 30 };
static const char *const ways[WAYS] = {"exits", "cancelled"};
static pthread_key_t key;
static sem_t began, asked, never, none;
static int ends[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}
static struct timespec soon(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_nsec += SHORT * 1000000L;
    if (time.tv_nsec >= 1000000000) time.tv_sec++, time.tv_nsec -= 1000000000;
    return time;
}
static void say(const char *what, double since, int result) {
    printf(" %s %d%s", what, result, now() - since < SHORT - 1 ? " (too short)" : "");
}
static void waits(void *where) {
    struct timespec time = {0, SHORT * 1000000L}, at;
    struct timeval coarse = {0, SHORT * 1000};
    char byte;
    sem_post(&began);
    int got = sem_wait(&asked);
    printf("%s: semaphore %d", (const char *)where, got);
    double since = now();
    say("nanosleep", since, nanosleep(&time, NULL));
    since = now();
    say("usleep", since, usleep(SHORT * 1000));
    since = now();
    say("poll", since, poll(NULL, 0, SHORT));
    since = now();
    say("select", since, select(0, NULL, NULL, NULL, &coarse));
    since = now();
    at = soon();
    say("sem_timedwait", since, sem_timedwait(&never, &at) ? errno == ETIMEDOUT : -1);
    pthread_mutex_lock(&lock);
    since = now();
    at = soon();
    int error = 0;
    for (int times = 0; !error; times++)
        if (times > 1000) error = -1;
        else error = pthread_cond_timedwait(&changed, &lock, &at);
    pthread_mutex_unlock(&lock);
    say("condition", since, error == ETIMEDOUT);
    ssize_t count = read(ends[0], &byte, 1);
    printf(" read %zd\n", count);
}
static void last(void *value) {
    (void)value;
    waits("destructor");
}
static void *thread(void *way) {
    // Not null, of which a destructor hears nothing.
    pthread_setspecific(key, &key);
    pthread_cleanup_push(waits, "clean-up");
    switch ((long)way) {
    case EXITS: pthread_exit("exited");
    default:
        sem_post(&began);
        sem_wait(&never);
    }
    pthread_cleanup_pop(0);
    return NULL;
}
static void ending(long way) {
    pthread_t id;
    void *result;
    pthread_create(&id, NULL, thread, (void *)way);
    if (way == CANCELLED) {
        sem_wait(&began);
        pthread_cancel(id);
    }
    for (int rest = 2; rest; rest--) {
        sem_wait(&began);
        // In the middle of its end.
        pthread_cancel(id);
        sem_post(&asked);
        usleep(1000);
        if (write(ends[1], "x", 1) != 1) perror("write");
    }
    pthread_join(id, &result);
    printf("%s: %s\n", ways[way], result == PTHREAD_CANCELED ? "cancelled" : (char *)result);
}

static atomic_int handled, over;
static int posts;
static void comes(int signal) {
    (void)signal;
    handled++;
    if (posts) sem_post(&none);
}
static void *waiter(void *out) {
    int result = sem_wait(&none);
    *(int *)out = result ? errno : 0;
    over = 1;
    return NULL;
}
static void interrupted(int post) {
    pthread_t id;
    int result = -1, value;
    posts = post;
    over = handled = 0;
    pthread_create(&id, NULL, waiter, &result);
    // Until one has met it in its wait.
    while (!over) {
        int before = handled;
        pthread_kill(id, SIGUSR1);
        while (!over && handled == before) usleep(100);
        usleep(1000);
        if (posts && handled) break;
    }
    pthread_join(id, NULL);
    if (!post) printf("for nothing: %s\n", strerror(result));
    while (!sem_trywait(&none));
    // Nobody counts as waiting any more: the next one is woken.
    over = 0;
    pthread_create(&id, NULL, waiter, &result);
    sem_post(&none);
    pthread_join(id, NULL);
    sem_getvalue(&none, &value);
    printf("interrupted %s: then %d, %d left\n", post ? "with a post" : "for nothing", result, value);
}

int main(void) {
    struct sigaction action = {.sa_handler = comes};
    sigaction(SIGUSR1, &action, NULL);
    pthread_key_create(&key, last);
    sem_init(&began, 0, 0), sem_init(&asked, 0, 0), sem_init(&never, 0, 0), sem_init(&none, 0, 0);
    if (pipe(ends)) return 1;
    for (long way = EXITS; way < WAYS; way++) ending(way);
    interrupted(0);
    interrupted(1);
    return 0;
}
