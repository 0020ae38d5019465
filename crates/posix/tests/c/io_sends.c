// Many threads that send at about the same time, and what may happen to a send meanwhile: io_sends WHAT. Prints the same natively and with the library.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAIRS 48
#define CHECK(what)                                                                       \
    do {                                                                                  \
        if (!(what)) {                                                                    \
            printf("line %d: %s: %s\n", __LINE__, #what, strerror(errno));                \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

// A connection of TCP, or a pair of Unix sockets.
static void connection(int ends[2], int tcp) {
    if (!tcp) {
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
        return;
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(listener >= 0 && bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(ends[0], (struct sockaddr *)&address, size) == 0);
    ends[1] = accept(listener, NULL, NULL);
    CHECK(ends[1] >= 0 && close(listener) == 0);
    for (int i = 0; i < 2; i++) CHECK(setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
}

static ssize_t put(int to, long number, int how) {
    struct iovec part = {&number, sizeof number};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    switch (how % 4) {
    case 0: return write(to, &number, sizeof number);
    case 1: return send(to, &number, sizeof number, MSG_NOSIGNAL);
    case 2: return writev(to, &part, 1);
    default: return sendmsg(to, &message, MSG_NOSIGNAL);
    }
}

static long get(int from) {
    long number = -1;
    for (size_t done = 0; done < sizeof number;) {
        ssize_t more = read(from, (char *)&number + done, sizeof number - done);
        if (more < 0 && errno == EINTR) continue;
        if (more <= 0) return -1;
        done += more;
    }
    return number;
}

struct end {
    int here;
    long rounds;
    int begins;
};

// To and fro: each sends the round's number and gets the other's. Without a number of rounds until the other end is gone.
static void *plays(void *argument) {
    struct end *end = argument;
    for (long round = 0; !end->rounds || round < end->rounds; round++) {
        long got = 0;
        if (end->begins || (got = get(end->here)) == round) {
            ssize_t sent = put(end->here, round, round + end->here);
            CHECK(sent == sizeof round || !end->rounds);
            if (sent < 0) break;
        }
        if (end->begins) got = get(end->here);
        CHECK(got == round || !end->rounds);
        if (got < 0) break;
    }
    return NULL;
}

struct game {
    int pairs;
    struct end ends[PAIRS][2];
    pthread_t threads[PAIRS][2];
};

static void begin(struct game *game, int pairs, long rounds) {
    game->pairs = pairs;
    for (int i = 0; i < pairs; i++) {
        int ends[2];
        connection(ends, i % 2);
        for (int j = 0; j < 2; j++) {
            game->ends[i][j] = (struct end){ends[j], rounds, !j};
            CHECK(pthread_create(&game->threads[i][j], NULL, plays, &game->ends[i][j]) == 0);
        }
    }
}

static void finish(struct game *game) {
    for (int i = 0; i < game->pairs; i++)
        for (int j = 0; j < 2; j++) {
            if (!game->ends[i][j].rounds) shutdown(game->ends[i][j].here, SHUT_RDWR);
        }
    for (int i = 0; i < game->pairs; i++)
        for (int j = 0; j < 2; j++) CHECK(pthread_join(game->threads[i][j], NULL) == 0);
    for (int i = 0; i < game->pairs; i++)
        for (int j = 0; j < 2; j++) CHECK(close(game->ends[i][j].here) == 0);
}

static struct game one, other;

static void traffic(void) {
    begin(&one, PAIRS, 500);
    finish(&one);
}

// SIGPIPE for those who have not asked for none, and EPIPE for all.
static atomic_int pipes;
static void count_pipe(int signal) { (void)signal, atomic_fetch_add(&pipes, 1); }
static void *loses(void *argument) {
    int how = (int)(long)argument, ends[2];
    for (int i = 0; i < 50; i++) {
        connection(ends, 0);
        close(ends[1]);
        CHECK(put(ends[0], 1, how) < 0 && errno == EPIPE);
        close(ends[0]);
    }
    return NULL;
}

static void gone(void) {
    signal(SIGPIPE, count_pipe);
    begin(&other, 16, 0);
    pthread_t threads[8];
    for (long i = 0; i < 8; i++) CHECK(pthread_create(&threads[i], NULL, loses, (void *)i) == 0);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    signal(SIGPIPE, SIG_IGN);
    finish(&other);
    printf("%d signals\n", pipes);
}

// More than a socket holds, in the order in which it was sent.
#define MUCH 200000
static void *pours(void *argument) {
    int to = *(int *)argument;
    for (long i = 0; i < MUCH / 8; i++) CHECK(put(to, i, i) == 8);
    return NULL;
}
static void *drinks(void *argument) {
    int from = *(int *)argument;
    for (long i = 0; i < MUCH / 8; i++) {
        if (i % 5000 == 0) usleep(1000);
        CHECK(get(from) == i);
    }
    return NULL;
}

static void full(void) {
    begin(&other, 16, 0);
    int ends[8][2];
    pthread_t threads[8][2];
    for (int i = 0; i < 8; i++) {
        connection(ends[i], i % 2);
        pthread_create(&threads[i][0], NULL, pours, &ends[i][0]);
        pthread_create(&threads[i][1], NULL, drinks, &ends[i][1]);
    }
    for (int i = 0; i < 8; i++) pthread_join(threads[i][0], NULL), pthread_join(threads[i][1], NULL);
    fcntl(ends[0][0], F_SETFL, O_NONBLOCK);
    int refused = 0;
    for (long i = 0; i < 10000000 && !refused; i++) refused = write(ends[0][0], &i, 8) < 0 && errno == EAGAIN;
    signal(SIGPIPE, SIG_IGN);
    finish(&other);
    printf("all there, then %s\n", refused ? "EAGAIN" : "no end");
}

// Signals to threads that send.
static atomic_long handled;
static int notes[2];
static void note(int signal) {
    (void)signal;
    int before = errno;
    if (write(notes[1], "x", 1) == 1) atomic_fetch_add(&handled, 1);
    errno = before;
}
static void disturbed(void) {
    CHECK(pipe(notes) == 0);
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    begin(&one, 16, 2000);
    for (int i = 0; i < 2000; i++) pthread_kill(one.threads[i % 16][i % 2], SIGUSR1), sched_yield();
    finish(&one);
    char bytes[4096];
    long got = 0;
    while (got < handled) got += read(notes[0], bytes, sizeof bytes);
    printf("every handler has written\n");
}

// Threads that are cancelled while they send, beside others.
static void *sends_on(void *argument) {
    int to = *(int *)argument;
    for (long i = 0;; i++) put(to, i, i);
    return NULL;
}
static void *takes(void *argument) {
    while (get(*(int *)argument) >= 0) {}
    return NULL;
}
static void cancelled(void) {
    begin(&other, 16, 0);
    for (int i = 0; i < 60; i++) {
        int ends[2];
        pthread_t sender, taker;
        void *result;
        connection(ends, i % 2);
        pthread_create(&taker, NULL, takes, &ends[1]);
        pthread_create(&sender, NULL, sends_on, &ends[0]);
        usleep(500);
        pthread_cancel(sender);
        CHECK(pthread_join(sender, &result) == 0 && result == PTHREAD_CANCELED);
        close(ends[0]);
        pthread_join(taker, NULL);
        close(ends[1]);
    }
    signal(SIGPIPE, SIG_IGN);
    finish(&other);
    printf("all cancelled\n");
}

// The program closes all that it does not know, again and again.
static void closed(void) {
    begin(&one, PAIRS, 1000);
    int first = 500; // Below may be a copy of standard error, for the counters.
    for (int i = 0; i < 2 * PAIRS; i++)
        if (one.ends[i / 2][i % 2].here >= first) first = one.ends[i / 2][i % 2].here + 1;
    for (int i = 0; i < 20; i++) {
        CHECK(syscall(SYS_close_range, first, ~0u, 0) == 0);
        usleep(2000);
    }
    finish(&one);
}

// Children that go on as servers of their own.
static void forks(void) {
    begin(&other, 16, 0);
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        if (!child) {
            begin(&one, 8, 100);
            finish(&one);
            _exit(7);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    signal(SIGPIPE, SIG_IGN);
    finish(&other);
    printf("ten children\n");
}

// A sandbox without rings.
static void refused(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 425, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    traffic();
}

int main(int count, char **arguments) {
    static const struct {
        const char *name;
        void (*run)(void);
    } all[] = {{"traffic", traffic}, {"gone", gone},     {"full", full},   {"disturbed", disturbed}, {"cancelled", cancelled},
               {"closed", closed},   {"forks", forks},   {"refused", refused}};
    for (size_t i = 0; count == 2 && i < sizeof all / sizeof *all; i++) {
        if (strcmp(arguments[1], all[i].name)) continue;
        all[i].run();
        printf("%s: done\n", all[i].name);
        return 0;
    }
    fprintf(stderr, "give one of: traffic gone full disturbed cancelled closed forks refused\n");
    return 2;
}
