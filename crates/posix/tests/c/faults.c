// What goes wrong around a program that has threads. The argument says what; the same natively.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void *run(void *(*body)(void *), void *argument) {
    pthread_t thread;
    void *result;
    if (pthread_create(&thread, NULL, body, argument) != 0) abort();
    pthread_join(thread, &result);
    return result;
}
static void *forever(void *unused) {
    for (;;) pause();
    return unused;
}
static int listening(struct sockaddr_in *address) {
    socklen_t size = sizeof *address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(fd, (struct sockaddr *)address, size) || listen(fd, 64) || getsockname(fd, (struct sockaddr *)address, &size)) abort();
    return fd;
}
static int connected(const struct sockaddr_in *address) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof *address)) abort();
    return fd;
}

// Descriptors run out, in socket, accept, pipe and open; what was there works on.
static struct sockaddr_in server;
static void *descriptors(void *unused) {
    int listener = listening(&server), clients[2] = {connected(&server), connected(&server)}, all[64], n = 0, ends[2];
    struct rlimit limit = {40, 40};
    setrlimit(RLIMIT_NOFILE, &limit);
    while (n < 64 && (all[n] = socket(AF_INET, SOCK_STREAM, 0)) >= 0) n++;
    printf("socket: %s\n", strerror(errno));
    printf("accept: %d %s\n", accept(listener, NULL, NULL), strerror(errno));
    printf("pipe: %d %s\n", pipe(ends), strerror(errno));
    printf("open: %d %s\n", open("/dev/null", O_RDONLY), strerror(errno));
    close(all[--n]);
    int peer = accept(listener, NULL, NULL);
    char byte = 0;
    printf("then: %d", write(clients[0], "x", 1) == 1 && read(peer, &byte, 1) == 1 && byte == 'x');
    close(all[--n]);
    close(all[--n]);
    printf(" %d\n", pipe(ends) == 0 && write(ends[1], "x", 1) == 1 && read(ends[0], &byte, 1) == 1);
    return unused;
}

// Address space runs out: pthread_create says EAGAIN, and what runs goes on.
static sem_t gate;
static void *waits(void *unused) {
    while (sem_wait(&gate) != 0) {}
    return unused;
}
static void memory(void) {
    enum { MOST = 100000 };
    static pthread_t threads[MOST];
    pthread_attr_t attributes;
    int n = 0, error = 0;
    run(waits, (sem_post(&gate), NULL));
    FILE *status = fopen("/proc/self/statm", "r");
    long pages = 0;
    if (!status || fscanf(status, "%ld", &pages) != 1) abort();
    fclose(status);
    struct rlimit limit = {(rlim_t)pages * 4096 + (200 << 20), RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &limit);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 20); // A size of which the runtime has reserved none yet.
    while (n < MOST && (error = pthread_create(&threads[n], &attributes, waits, NULL)) == 0) n++;
    printf("create: %s\n", strerror(error));
    for (int i = 0; i < n; i++) sem_post(&gate);
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
    limit.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_AS, &limit);
    sem_post(&gate);
    printf("then: %d\n", pthread_create(&threads[0], &attributes, waits, NULL) || pthread_join(threads[0], NULL));
}

// The peer is killed: with nothing on its way the end of the stream, otherwise a reset.
static void *reads(void *fd) {
    char byte;
    long got = read((int)(long)fd, &byte, 1);
    return (void *)(got < 0 ? (long)errno : got == 0 ? -1 : -2);
}
static void peer(void) {
    int listener = listening(&server);
    for (int unread = 0; unread < 2; unread++) {
        pid_t child = fork();
        if (child == 0) {
            connected(&server);
            for (;;) pause();
        }
        int fd = accept(listener, NULL, NULL);
        if (unread && write(fd, "unread", 6) != 6) abort();
        pthread_t reader;
        void *result;
        pthread_create(&reader, NULL, reads, (void *)(long)fd);
        usleep(5000);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        pthread_join(reader, &result);
        printf("killed, %s: %s\n", unread ? "unread" : "idle", (long)result < 0 ? "end" : strerror((long)result));
        close(fd);
    }
}

// A peer that resets: errors of reads and writes, and the signal of a write.
static void *meets_resets(void *killed) {
    int listener = listening(&server), fd = connected(&server), other = accept(listener, NULL, NULL);
    struct linger now = {1, 0};
    char byte;
    setsockopt(other, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(other);
    int got = read(fd, &byte, 1);
    printf("read: %d %s\n", got, strerror(errno));
    printf("again: %zd\n", read(fd, &byte, 1));
    got = send(fd, "x", 1, MSG_NOSIGNAL);
    printf("send: %d %s\n", got, strerror(errno));
    fflush(stdout);
    if (!killed) signal(SIGPIPE, SIG_IGN);
    got = write(fd, "x", 1);
    printf("write: %d %s\n", got, strerror(errno));
    int ends[2];
    if (pipe(ends)) abort();
    close(ends[0]);
    got = write(ends[1], "x", 1);
    printf("pipe: %d %s\n", got, strerror(errno));
    return NULL;
}

// A timer that fires all the time, with a handler that lets calls be interrupted: each is repeated, and nothing is lost.
enum { TIMES = 200 };
static atomic_int fired;
static void on_alarm(int signal) {
    (void)signal;
    fired++;
}
static int ends_of_pipe[2];
static sem_t tokens;
static void *storm_reader(void *unused) {
    long sum = 0;
    for (int i = 0; i < TIMES; i++) {
        unsigned char byte;
        ssize_t got;
        while ((got = read(ends_of_pipe[0], &byte, 1)) < 0 && errno == EINTR) {}
        if (got == 1) sum += byte;
    }
    return (void *)sum;
}
static void *storm_acceptor(void *listener) {
    long accepted = 0;
    for (int i = 0; i < TIMES; i++) {
        int fd;
        while ((fd = accept((int)(long)listener, NULL, NULL)) < 0 && errno == EINTR) {}
        if (fd >= 0) accepted++, close(fd);
    }
    return (void *)accepted;
}
static void *storm_waiter(void *unused) {
    long taken = 0;
    for (int i = 0; i < TIMES; i++) {
        int error;
        while ((error = sem_wait(&tokens)) != 0 && errno == EINTR) {}
        taken += error == 0;
    }
    return (void *)taken;
}
static void *storm_sleeper(void *unused) {
    long early = 0;
    for (int i = 0; i < TIMES; i++) {
        struct timespec before, after, time = {0, 500000};
        clock_gettime(CLOCK_MONOTONIC, &before);
        while (nanosleep(&time, &time) != 0 && errno == EINTR) {}
        clock_gettime(CLOCK_MONOTONIC, &after);
        early += (after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec < 500000;
    }
    return (void *)early;
}
static void *storm_feeder(void *unused) {
    for (int i = 0; i < TIMES; i++) {
        unsigned char byte = 3;
        struct timespec time = {0, 200000};
        while (write(ends_of_pipe[1], &byte, 1) < 0 && errno == EINTR) {}
        sem_post(&tokens);
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&server, sizeof server) != 0 && errno != EINTR) abort();
        nanosleep(&time, NULL);
        close(fd);
    }
    return unused;
}
static void storm(void) {
    void *(*bodies[])(void *) = {storm_reader, storm_acceptor, storm_waiter, storm_sleeper, storm_feeder};
    pthread_t threads[5];
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    if (pipe(ends_of_pipe)) abort();
    long listener = listening(&server);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 5; i++) pthread_create(&threads[i], NULL, bodies[i], (void *)listener);
    for (int i = 0; i < 5; i++) {
        void *result;
        pthread_join(threads[i], &result);
        if (i < 4) printf("storm: %ld\n", (long)result);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    printf("fired: %d\n", fired > 50);
}

// Deeper and deeper; the thread has a name.
static int deeper(volatile char *above) {
    volatile char here[4096];
    here[0] = above ? above[0] : 1;
    return deeper(here) + here[0];
}
static void *overflows(void *unused) {
    pthread_setname_np(pthread_self(), "digger");
    return (void *)(long)deeper(unused);
}

// Forks from threads, one after the other; each child makes a thread, which ends the child.
static void *ends_process(void *code) {
    _exit((int)(long)code);
}
static void *forks(void *first) {
    long right = 0;
    for (int i = 0; i < 50; i++) {
        int code = ((int)(long)first + i) % 100, status = 0;
        pid_t child = fork();
        if (child == 0) {
            run(ends_process, (void *)(long)code);
            _exit(101);
        }
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
        right += WIFEXITED(status) && WEXITSTATUS(status) == code;
    }
    return (void *)right;
}

static void *exits(void *unused) {
    (void)unused;
    exit(3);
}
static void *aborts(void *unused) {
    (void)unused;
    abort();
}
static void at_exit(void) {
    printf("at exit\n");
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "return";
    struct rlimit none = {0, 0};
    pthread_t others[4];
    setrlimit(RLIMIT_CORE, &none);
    sem_init(&gate, 0, 0);
    sem_init(&tokens, 0, 0);
    if (!strcmp(what, "descriptors")) run(descriptors, NULL);
    if (!strcmp(what, "memory")) memory();
    if (!strcmp(what, "peer")) peer();
    if (!strcmp(what, "resets")) run(meets_resets, NULL);
    if (!strcmp(what, "pipe")) run(meets_resets, "");
    if (!strcmp(what, "storm")) storm();
    if (!strcmp(what, "overflow")) run(overflows, NULL);
    if (!strcmp(what, "forks")) {
        void *right;
        for (long i = 0; i < 4; i++) pthread_create(&others[i], NULL, forks, (void *)(i * 7));
        for (int i = 0; i < 4; i++) pthread_join(others[i], &right), printf("right: %ld\n", (long)right);
    }
    atexit(at_exit);
    for (int i = 0; i < 4; i++) pthread_create(&others[i], NULL, forever, NULL);
    if (!strcmp(what, "exit")) run(exits, NULL);
    if (!strcmp(what, "abort")) run(aborts, NULL);
    return 5;
}
