// Threads that wait for descriptors which others close: the kernel holds the file for their calls, so they wait on, and
// get what comes. (poll and select look the number up again then, and find it closed.) And `shutdown` beside those who wait to send.
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            printf("line %d: %s (errno %d)\n", __LINE__, #condition, errno); \
            fflush(stdout); \
            _exit(1); \
        } \
    } while (0)

// Who has begun to wait cannot be seen, so all get some time. On a very busy machine it may be too little: whoever comes
// late finds the descriptor closed, natively, too, and that round is done again, with more time.
static atomic_int late;
static unsigned patience = 10000;

static void until_it_waits(void) { usleep(patience); }

static void in_time(void *(*round)(void *), void *argument) {
    for (patience = 10000; patience < 2000000; patience *= 2) {
        late = 0;
        round(argument);
        if (!late) return;
    }
    CHECK(!"nobody waits in time");
}

enum how { CLOSE, RANGE, FROM, STREAM, DUP2, DUP3, WAYS };

static void end(int fd, enum how how) {
    int other;
    switch (how) {
    case CLOSE: CHECK(close(fd) == 0); break;
    case RANGE: CHECK(close_range(fd, fd, 0) == 0); break;
    // The highest number that is open.
    case FROM: closefrom(fd); break;
    case STREAM: {
        FILE *stream = fdopen(fd, "r");
        CHECK(stream && fclose(stream) == 0);
        break;
    }
    default:
        CHECK((other = dup(0)) >= 0);
        CHECK((how == DUP2 ? dup2(other, fd) : dup3(other, fd, 0)) == fd);
        close(other);
        close(fd);
    }
}

struct wait {
    int fd, what;
    char got;
    long result;
};

static void *reader(void *argument) {
    struct wait *w = argument;
    struct iovec part = {&w->got, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    struct pollfd entry = {w->fd, POLLIN, 0};
    fd_set set;
    switch (w->what) {
    case 0: w->result = read(w->fd, &w->got, 1); break;
    case 1: w->result = recv(w->fd, &w->got, 1, 0); break;
    case 2: w->result = recvmsg(w->fd, &message, 0); break;
    case 3: w->result = readv(w->fd, &part, 1); break;
    case 4: w->result = poll(&entry, 1, -1); w->got = entry.revents == POLLNVAL ? 'x' : 'p'; break;
    default:
        FD_ZERO(&set);
        FD_SET(w->fd, &set);
        // What it says of a number that is closed is not the same with all kernels.
        select(w->fd + 1, &set, NULL, NULL, NULL);
        w->result = 1, w->got = 'x';
    }
    if (w->result < 0) w->result = -errno;
    return NULL;
}

// So many threads wait for one end of a pair, which is closed; then the other end sends to each.
static void *readers(void *argument) {
    int what = (int)(long)argument % 6, how = (int)(long)argument / 6;
    enum { COUNT = 3 };
    int s[2], far;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
    CHECK((far = dup2(s[0], 400 + (int)(long)argument)) >= 0);
    close(s[0]);
    struct wait waits[COUNT];
    pthread_t threads[COUNT];
    for (int j = 0; j < COUNT; j++) {
        waits[j] = (struct wait){far, what, 0, 0};
        CHECK(pthread_create(&threads[j], NULL, reader, &waits[j]) == 0);
    }
    until_it_waits();
    end(far, how);
    // Nobody has noticed.
    usleep(5000);
    int sent = send(s[1], "xxx", what < 4 ? COUNT : 1, MSG_NOSIGNAL) > 0;
    for (int j = 0; j < COUNT; j++) {
        pthread_join(threads[j], NULL);
        // Or it polled what lay there for a moment: nobody who waited in time is told of that.
        int met_other = what == 4 && how >= DUP2 && waits[j].got == 'p';
        if (waits[j].result == -EBADF || met_other) late = 1;
        else if (waits[j].result != 1 || waits[j].got != 'x') {
            printf("wait %d, end %d: %ld %d\n", what, how, waits[j].result, waits[j].got);
            fflush(stdout);
            _exit(1);
        }
    }
    // Nobody was in time where nobody can get it.
    CHECK(sent || late || what >= 4);
    close(s[1]);
    return NULL;
}

static void *acceptor(void *argument) {
    int got = accept(*(int *)argument, NULL, NULL);
    if (got < 0 && errno == EBADF) {
        late = 1;
        return NULL;
    }
    CHECK(got >= 0);
    CHECK(write(got, "y", 1) == 1);
    close(got);
    return NULL;
}

static void *accepts(void *nothing) {
    int fd = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path + 1, 90, "raddle-io-close-%d", getpid());
    CHECK(bind(fd, (void *)&name, sizeof name) == 0 && listen(fd, 5) == 0);
    pthread_t thread;
    pthread_create(&thread, NULL, acceptor, &fd);
    until_it_waits();
    close(fd);
    char byte = 0;
    int connected = connect(client, (void *)&name, sizeof name);
    if (connected == 0) CHECK(read(client, &byte, 1) == 1 && byte == 'y');
    pthread_join(thread, NULL);
    CHECK(late || connected == 0);
    close(client);
    return nothing;
}

static struct sockaddr_in server;

static void *connects(void *argument) {
    long result = connect(*(int *)argument, (void *)&server, sizeof server);
    if (result < 0 && errno == EBADF) late = 1;
    else CHECK(result == 0);
    return NULL;
}

// The listener's queue is full, so the connection begins and waits; its descriptor is closed, then the queue is emptied.
static void *beginnings(void *nothing) {
    enum { MOST = 20 };
    int fd = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0), fillers[MOST], count = 0;
    socklen_t size = sizeof server;
    server = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK(bind(fd, (void *)&server, size) == 0 && listen(fd, 0) == 0 && getsockname(fd, (void *)&server, &size) == 0);
    struct pollfd made = {0, POLLOUT, 0};
    do {
        CHECK(count < MOST);
        made.fd = fillers[count++] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (connect(made.fd, (void *)&server, size)) CHECK(errno == EINPROGRESS);
    } while (poll(&made, 1, 100) == 1);
    pthread_t thread;
    pthread_create(&thread, NULL, connects, &client);
    until_it_waits();
    close(client);
    // Among them the client, who has gone by then: nobody holds its socket any more.
    for (int accepted = 0; accepted < count + !late; accepted++) {
        struct pollfd one = {fd, POLLIN, 0};
        if (poll(&one, 1, 4000) != 1) break;
        close(accept(fd, NULL, NULL));
    }
    pthread_join(thread, NULL);
    for (int i = 0; i < count; i++) close(fillers[i]);
    close(fd);
    return nothing;
}

static void *looper(void *argument) {
    struct epoll_event event;
    int count = epoll_wait(*(int *)argument, &event, 1, -1);
    if (count < 0 && errno == EBADF) late = 1;
    else CHECK(count == 1 && event.data.u32 == 7);
    return NULL;
}

static void *loops(void *nothing) {
    int p[2], set = epoll_create1(0);
    CHECK(pipe(p) == 0);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = 7};
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, p[0], &event) == 0);
    pthread_t thread;
    pthread_create(&thread, NULL, looper, &set);
    until_it_waits();
    close(set);
    CHECK(write(p[1], "z", 1) == 1);
    pthread_join(thread, NULL);
    close(p[0]);
    close(p[1]);
    return nothing;
}

static void *sender(void *argument) {
    char data[4096] = {0};
    long sent;
    while ((sent = send(*(int *)argument, data, sizeof data, MSG_NOSIGNAL)) > 0) {}
    return (void *)(long)errno;
}

// Of a full local stream that cannot take more: the sender's own end is shut down for writing, or the other one for
// reading, or closed.
static void *senders(void *argument) {
    int s[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
    pthread_t thread;
    pthread_create(&thread, NULL, sender, &s[0]);
    until_it_waits();
    switch ((long)argument) {
    case 0: CHECK(shutdown(s[0], SHUT_WR) == 0); break;
    case 1: CHECK(shutdown(s[1], SHUT_RD) == 0); break;
    case 2: CHECK(shutdown(s[0], SHUT_RDWR) == 0); break;
    default: close(s[1]);
    }
    void *result;
    pthread_join(thread, &result);
    // What was sent and not read is lost with the other end.
    CHECK((long)result == EPIPE || ((long)argument == 3 && (long)result == ECONNRESET));
    close(s[0]);
    if ((long)argument != 3) close(s[1]);
    return NULL;
}

static void on_signal(int number) { (void)number; }

static void *interrupted(void *argument) {
    char byte;
    long result = read(*(int *)argument, &byte, 1);
    CHECK(result == -1);
    if (errno == EBADF) late = 1;
    else CHECK(errno == EINTR);
    return NULL;
}

static void *cancelled(void *argument) {
    char byte;
    long result = read(*(int *)argument, &byte, 1);
    CHECK(result == -1 && errno == EBADF);
    late = 1;
    return NULL;
}

// What else ends such a wait.
static void *ends(void *is_cancelled) {
    int p[2];
    CHECK(pipe(p) == 0);
    pthread_t thread;
    pthread_create(&thread, NULL, is_cancelled ? cancelled : interrupted, &p[0]);
    until_it_waits();
    close(p[0]);
    until_it_waits();
    if (is_cancelled) pthread_cancel(thread);
    else if (!late) pthread_kill(thread, SIGUSR1);
    void *result;
    pthread_join(thread, &result);
    CHECK(late || result == (is_cancelled ? PTHREAD_CANCELED : NULL));
    close(p[1]);
    return NULL;
}

static void *everything(void *nothing) {
    for (long what = 0; what < 6; what++)
        for (long how = 0; how < WAYS; how++) in_time(readers, (void *)(how * 6 + what));
    in_time(accepts, NULL);
    in_time(loops, NULL);
    in_time(beginnings, NULL);
    for (long how = 0; how < 4; how++) senders((void *)how);
    in_time(ends, NULL);
    in_time(ends, (void *)1);
    return nothing;
}

int main(void) {
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    // By the first thread, and by another one.
    everything(NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, everything, NULL);
    pthread_join(thread, NULL);
    puts("ok");
    return 0;
}
