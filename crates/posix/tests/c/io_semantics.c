// What calls answer, one line each: the same natively and with the library. All in threads that the program creates.
// Argument: a directory for files.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// What mkstemp fills in.
#define PLACES "XX" "XX" "XX"

static const char *name(int error) {
    switch (error) {
    case 0: return "0";
    case EAGAIN: return "EAGAIN";
    case EBADF: return "EBADF";
    case EPIPE: return "EPIPE";
    case EINVAL: return "EINVAL";
    case ENOTSOCK: return "ENOTSOCK";
    case ECONNREFUSED: return "ECONNREFUSED";
    case EINPROGRESS: return "EINPROGRESS";
    case ECHILD: return "ECHILD";
    case EFAULT: return "EFAULT";
    case EISDIR: return "EISDIR";
    case EMSGSIZE: return "EMSGSIZE";
    default: return "another error";
    }
}

static void say(const char *what, long result) {
    int error = errno;
    printf("%s: %ld %s\n", what, result, result < 0 ? name(error) : "");
    fflush(stdout);
}

struct later {
    int fd;
    const void *data;
    size_t size;
};

// Writes after the other one has had a chance to wait.
static void *write_later(void *argument) {
    struct later *later = argument;
    for (int i = 0; i < 3; i++) usleep(1000);
    if (write(later->fd, later->data, later->size) < 0) abort();
    return NULL;
}

static pthread_t begin(void *(*body)(void *), void *argument) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, argument)) abort();
    return thread;
}

struct stream {
    int from, to;
    long bytes;
};

// More than any buffer holds: the writer must wait for the reader.
static void *produce(void *argument) {
    struct stream *stream = argument;
    char *data = malloc(stream->bytes);
    for (long i = 0; i < stream->bytes; i++) data[i] = (char)(i * 7);
    long n = write(stream->to, data, stream->bytes);
    free(data);
    return (void *)n;
}

static void through(const char *what, int from, int to) {
    struct stream stream = {from, to, 3000000};
    pthread_t writer = begin(produce, &stream);
    char buffer[5000];
    long got = 0, wrong = 0;
    while (got < stream.bytes) {
        long n = read(from, buffer, sizeof buffer);
        if (n <= 0) break;
        for (long i = 0; i < n; i++) wrong += buffer[i] != (char)((got + i) * 7);
        got += n;
    }
    void *written;
    pthread_join(writer, &written);
    printf("%s: got %ld, wrong %ld, one write said %ld\n", what, got, wrong, (long)written);
}

static void pipes(void) {
    int p[2];
    char byte;
    if (pipe(p)) abort();
    struct later later = {p[1], "x", 1};
    pthread_t writer = begin(write_later, &later);
    say("read of a pipe waits", read(p[0], &byte, 1));
    pthread_join(writer, NULL);
    through("pipe", p[0], p[1]);
    say("flags stay", fcntl(p[0], F_GETFL) & O_NONBLOCK);
    say("short read", (write(p[1], "abc", 3), read(p[0], &(char[10]){0}, 10)));
    say("read of nothing", read(p[0], &byte, 0));
    void *volatile bad = (void *)1;
    say("bad buffer", (write(p[1], "a", 1), read(p[0], bad, 1)));
    close(p[1]);
    read(p[0], &byte, 1);
    say("end of file", read(p[0], &byte, 1));
    close(p[0]);
    say("closed", read(p[0], &byte, 1));
    if (pipe2(p, O_NONBLOCK)) abort();
    say("non-blocking read", read(p[0], &byte, 1));
    static char much[1 << 20];
    long n = write(p[1], much, sizeof much);
    say("non-blocking write, part", n > 0 && n < (long)sizeof much);
    say("non-blocking write, full", write(p[1], much, sizeof much));
    close(p[0]);
    say("broken pipe", write(p[1], "x", 1));
    close(p[1]);
    char path[] = "raddle-fifo-" PLACES;
    close(mkstemp(path));
    unlink(path);
    if (mkfifo(path, 0600)) abort();
    int both = open(path, O_RDWR);
    through("fifo", both, both);
    close(both);
    unlink(path);
}

static void files(void) {
    char path[] = "raddle-file-" PLACES;
    int fd = mkstemp(path);
    static char data[100000], back[200000];
    memset(data, 'x', sizeof data);
    say("file write", write(fd, data, sizeof data));
    lseek(fd, 0, SEEK_SET);
    say("file read", read(fd, back, sizeof back));
    say("file end", read(fd, back, sizeof back));
    fcntl(fd, F_SETFL, O_NONBLOCK);
    lseek(fd, 0, SEEK_SET);
    struct iovec parts[2] = {{back, 10}, {back + 10, 100}};
    say("file readv", readv(fd, parts, 2));
    say("file pread", pread(fd, back, 10, 99995));
    struct pollfd one = {fd, POLLIN | POLLOUT, 0};
    say("file poll", poll(&one, 1, -1));
    close(fd);
    unlink(path);
    fd = open("/", O_RDONLY);
    say("directory", read(fd, back, 1));
    close(fd);
    fd = open("/dev/zero", O_RDWR);
    say("/dev/zero", read(fd, back, sizeof back));
    say("/dev/zero write", write(fd, back, sizeof back));
    close(fd);
}

static void *echo_one(void *argument) {
    int fd = accept((int)(long)argument, NULL, NULL);
    char buffer[100];
    long n;
    while ((n = recv(fd, buffer, sizeof buffer, 0)) > 0)
        if (send(fd, buffer, n, MSG_NOSIGNAL) != n) break;
    close(fd);
    return NULL;
}

static void *receive_later(void *argument) {
    usleep(2000);
    static char buffer[1 << 16];
    long all = 0, n;
    while (all < 3000000 && (n = recv((int)(long)argument, buffer, sizeof buffer, 0)) > 0) all += n;
    return (void *)all;
}

static void sockets(void) {
    char buffer[64];
    int s[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    through("socket pair", s[0], s[1]);
    struct later later = {s[1], "0123456789", 10};
    pthread_t writer = begin(write_later, &later);
    say("recv", recv(s[0], buffer, 4, 0));
    say("recv peek", recv(s[0], buffer, 4, MSG_PEEK));
    say("recv all", recv(s[0], buffer, 6, MSG_WAITALL));
    pthread_join(writer, NULL);
    writer = begin(write_later, &later);
    struct iovec parts[2] = {{buffer, 3}, {buffer + 3, 20}};
    say("readv", readv(s[0], parts, 2));
    pthread_join(writer, NULL);
    say("recv don't wait", recv(s[0], buffer, 4, MSG_DONTWAIT));
    struct timeval limit = {0, 20000};
    setsockopt(s[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    say("recv with a limit", recv(s[0], buffer, 4, 0));
    setsockopt(s[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    static char much[1 << 22];
    long n = send(s[0], much, sizeof much, 0);
    say("send with a limit, part", n > 0 && n < (long)sizeof much);
    say("send with a limit, full", send(s[0], much, sizeof much, 0));
    close(s[1]);
    say("send to nobody", send(s[0], much, 1, MSG_NOSIGNAL));
    close(s[0]);

    // Several parts, more than fits, with a descriptor in the control data of the first.
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    struct iovec three[3] = {{much, 1000000}, {much, 1500000}, {much, 500000}};
    struct msghdr message = {.msg_iov = three, .msg_iovlen = 3};
    pthread_t reader = begin(receive_later, (void *)(long)s[1]);
    say("sendmsg of all parts", sendmsg(s[0], &message, 0));
    void *all;
    pthread_join(reader, &all);
    say("received", (long)all);
    reader = begin(receive_later, (void *)(long)s[1]);
    say("writev of all parts", writev(s[0], three, 3));
    pthread_join(reader, &all);
    close(s[0]);
    close(s[1]);

    // Datagrams.
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, peer;
    socklen_t size = sizeof any;
    int a = socket(AF_INET, SOCK_DGRAM, 0), b = socket(AF_INET, SOCK_DGRAM, 0);
    bind(a, (struct sockaddr *)&any, sizeof any);
    getsockname(a, (struct sockaddr *)&any, &size);
    say("connect of datagrams", connect(b, (struct sockaddr *)&any, sizeof any));
    later = (struct later){b, "datagram", 8};
    writer = begin(write_later, &later);
    size = sizeof peer;
    say("recvfrom", recvfrom(a, buffer, 4, 0, (struct sockaddr *)&peer, &size));
    say("from", peer.sin_family == AF_INET && size == sizeof peer);
    pthread_join(writer, NULL);
    struct mmsghdr many[3] = {0};
    struct iovec places[3] = {{buffer, 20}, {buffer + 20, 20}, {buffer + 40, 20}};
    for (int i = 0; i < 3; i++) many[i].msg_hdr.msg_iov = &places[i], many[i].msg_hdr.msg_iovlen = 1;
    say("sendmmsg", sendmmsg(b, many, 3, 0));
    say("recvmmsg", recvmmsg(a, many, 3, MSG_WAITFORONE, NULL) >= 1);
    // One is enough, be it there or yet to come.
    say("send", send(b, "x", 1, 0));
    say("recvmmsg of one", recvmmsg(a, many, 3, MSG_WAITFORONE, NULL));
    writer = begin(write_later, &later);
    say("recvmmsg of one that comes later", recvmmsg(a, many, 3, MSG_WAITFORONE, NULL));
    pthread_join(writer, NULL);
    // More than a datagram holds: told by how many were sent, or by an error if none was.
    struct iovec too_much = {much, 100000};
    for (int first = 1; first >= 0; first--) {
        for (int i = 0; i < 3; i++) many[i].msg_hdr.msg_iov = i == first ? &too_much : &places[i], many[i].msg_len = 99;
        say("sendmmsg, one too large", sendmmsg(b, many, 3, 0));
        for (int i = 0; i < 3; i++) say("of it", many[i].msg_len);
    }
    say("sendto", sendto(b, "x", 1, 0, NULL, 0));
    while (recv(a, buffer, 20, MSG_DONTWAIT) > 0) {}
    // Those that have come are told when the time for the next one is over.
    setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    for (int i = 0; i < 3; i++) many[i].msg_hdr.msg_iov = &places[i];
    for (int sent = 2; sent >= 0; sent -= 2) {
        for (int i = 0; i < sent; i++) say("send", send(b, "x", 1, 0));
        say("recvmmsg with a limit", recvmmsg(a, many, 3, 0, NULL));
    }
    close(a);
    close(b);

    // Connections.
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    any.sin_port = 0;
    bind(listener, (struct sockaddr *)&any, sizeof any);
    say("accept before listen", accept(listener, NULL, NULL));
    listen(listener, 100);
    size = sizeof any;
    getsockname(listener, (struct sockaddr *)&any, &size);
    pthread_t server = begin(echo_one, (void *)(long)listener);
    usleep(2000);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    say("connect", connect(client, (struct sockaddr *)&any, sizeof any));
    say("send", send(client, "hello", 5, 0));
    say("echo", recv(client, buffer, 5, MSG_WAITALL));
    shutdown(client, SHUT_WR);
    say("end", recv(client, buffer, 5, 0));
    struct timeval none;
    size = sizeof none;
    getsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &none, &size);
    say("no limit left behind", none.tv_sec + none.tv_usec);
    close(client);
    pthread_join(server, NULL);
    setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    say("accept with a limit", accept(listener, NULL, NULL));
    fcntl(listener, F_SETFL, O_NONBLOCK);
    say("non-blocking accept", accept(listener, NULL, NULL));
    close(listener);
    client = socket(AF_INET, SOCK_STREAM, 0);
    say("connect to nobody", connect(client, (struct sockaddr *)&any, sizeof any));
    close(client);
    void *volatile bad = (void *)1;
    client = socket(AF_INET, SOCK_STREAM, 0);
    say("connect with a bad address", connect(client, bad, sizeof any));
    close(client);
    say("accept of no socket", accept(1, NULL, NULL));
    say("recv of no socket", recv(1, buffer, 1, 0));
    say("recv of no descriptor", recv(9999, buffer, 1, 0));

    // A local listener whose queue is full: connect waits for room.
    struct sockaddr_un local = {.sun_family = AF_UNIX, .sun_path = "\0raddle-test-"};
    snprintf(local.sun_path + 13, 20, "%d", (int)getpid());
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    bind(listener, (struct sockaddr *)&local, sizeof local);
    listen(listener, 0);
    int clients[3];
    clients[0] = socket(AF_UNIX, SOCK_STREAM, 0);
    say("first connect", connect(clients[0], (struct sockaddr *)&local, sizeof local));
    server = begin(echo_one, (void *)(long)listener);
    clients[1] = socket(AF_UNIX, SOCK_STREAM, 0);
    say("second connect", connect(clients[1], (struct sockaddr *)&local, sizeof local));
    close(clients[0]);
    pthread_join(server, NULL);
    close(clients[1]);
    close(listener);
}

static void many(void) {
    int p[50][2];
    struct pollfd entries[50];
    for (int i = 0; i < 50; i++) {
        if (pipe(p[i])) abort();
        entries[i] = (struct pollfd){p[i][0], POLLIN, 0};
    }
    say("poll, nothing", poll(entries, 50, 0));
    say("poll, a while", poll(entries, 50, 5));
    struct later later = {p[33][1], "x", 1};
    pthread_t writer = begin(write_later, &later);
    say("poll waits", poll(entries, 50, -1));
    say("for that one", entries[33].revents == POLLIN);
    pthread_join(writer, NULL);
    char byte;
    read(p[33][0], &byte, 1);
    writer = begin(write_later, &later);
    struct pollfd one = {p[33][0], POLLIN, 0};
    say("poll of one", poll(&one, 1, 10000));
    pthread_join(writer, NULL);
    say("poll of nobody", poll(NULL, 0, 5));
    one.fd = 9999;
    say("poll of no descriptor", poll(&one, 1, -1) == 1 && one.revents == POLLNVAL);
    one = (struct pollfd){p[0][0], 0, 0};
    say("poll for the end only, a while", poll(&one, 1, 5));
    one = (struct pollfd){p[33][0], POLLPRI, 0};
    say("poll for urgent data only, while there is other", poll(&one, 1, 5));
    struct timespec time = {0, 5000000};
    sigset_t none;
    sigemptyset(&none);
    one = (struct pollfd){p[0][0], POLLIN, 0};
    say("ppoll", ppoll(&one, 1, &time, &none));
    read(p[33][0], &byte, 1);

    fd_set set;
    FD_ZERO(&set);
    for (int i = 0; i < 50; i++) FD_SET(p[i][0], &set);
    writer = begin(write_later, &later);
    say("select waits", select(p[49][1] + 1, &set, NULL, NULL, NULL));
    say("for that one", FD_ISSET(p[33][0], &set) && !FD_ISSET(p[0][0], &set));
    pthread_join(writer, NULL);
    FD_ZERO(&set);
    FD_SET(p[0][0], &set);
    struct timeval limit = {0, 5000};
    fd_set others = set;
    say("select, a while", select(p[0][0] + 1, &set, NULL, &others, &limit));
    say("nothing left", FD_ISSET(p[0][0], &set) + limit.tv_sec + limit.tv_usec);
    FD_SET(p[0][1], &set);
    say("select for writing", select(p[0][1] + 1, NULL, &set, NULL, NULL));
    limit = (struct timeval){0, 2000};
    say("select as a sleep", select(0, NULL, NULL, NULL, &limit));
    FD_ZERO(&set);
    int gone = dup(0);
    close(gone);
    FD_SET(gone, &set);
    say("select, bad descriptor", select(gone + 1, &set, NULL, NULL, NULL));
    FD_ZERO(&set);
    time = (struct timespec){0, 2000000};
    FD_ZERO(&set);
    FD_SET(p[0][0], &set);
    say("pselect", pselect(p[0][0] + 1, &set, NULL, NULL, &time, NULL));

    int epoll = epoll_create1(0);
    for (int i = 0; i < 50; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
        epoll_ctl(epoll, EPOLL_CTL_ADD, p[i][0], &event);
    }
    read(p[33][0], &byte, 1);
    struct epoll_event events[10];
    say("epoll_wait, nothing", epoll_wait(epoll, events, 10, 0));
    say("epoll_wait, a while", epoll_wait(epoll, events, 10, 5));
    writer = begin(write_later, &later);
    say("epoll_wait waits", epoll_wait(epoll, events, 10, -1));
    say("for that one", events[0].data.u32);
    pthread_join(writer, NULL);
    say("epoll_pwait", epoll_pwait(epoll, events, 10, -1, &none));
    say("epoll_wait, no room", epoll_wait(epoll, events, 0, -1));
    say("epoll_wait of no set", epoll_wait(p[0][0], events, 10, -1));
    close(epoll);
    for (int i = 0; i < 50; i++) close(p[i][0]), close(p[i][1]);
}

static void *post_later(void *argument) {
    usleep(3000);
    eventfd_write((int)(long)argument, 5);
    return NULL;
}

static void times(void) {
    int event = eventfd(0, 0);
    eventfd_t value = 0;
    pthread_t writer = begin(post_later, (void *)(long)event);
    say("eventfd_read", eventfd_read(event, &value));
    say("value", (long)value);
    pthread_join(writer, NULL);
    close(event);
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec setting = {.it_value = {0, 3000000}};
    timerfd_settime(timer, 0, &setting, NULL);
    unsigned long expired = 0;
    say("timer", read(timer, &expired, 8));
    say("expired", (long)expired);
    close(timer);
    struct timespec before, after, time = {0, 3000000};
    clock_gettime(CLOCK_MONOTONIC, &before);
    say("nanosleep", nanosleep(&time, NULL));
    say("clock_nanosleep", clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL));
    say("usleep", usleep(3000));
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_nsec += 3000000;
    if (time.tv_nsec >= 1000000000) time.tv_nsec -= 1000000000, time.tv_sec++;
    say("until", clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &time, NULL));
    clock_gettime(CLOCK_MONOTONIC, &after);
    long long spent = (after.tv_sec - before.tv_sec) * 1000000000LL + after.tv_nsec - before.tv_nsec;
    say("at least what was asked for", spent >= 12000000);
    time = (struct timespec){0, 1000000000};
    say("no time", nanosleep(&time, NULL));
    say("no time", clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL) == EINVAL);
    time = (struct timespec){-1, 0};
    say("negative time", nanosleep(&time, NULL));
    say("sleep of nothing", sleep(0));
}

static void *exit_later(void *argument) {
    usleep(3000);
    kill((pid_t)(long)argument, SIGKILL);
    return NULL;
}

struct forked {
    int status;
    pid_t child;
};
static void *forks(void *argument) {
    struct forked *forked = argument;
    forked->child = fork();
    if (forked->child == 0) {
        if (forked->status < 0) execl("/bin/sleep", "sleep", "1000", NULL);
        _exit(forked->status);
    }
    return NULL;
}
// A child of another thread's, that ends with this status, or sleeps: who forks is left to the kernel from then on.
static pid_t a_child(int status) {
    struct forked forked = {status, 0};
    pthread_join(begin(forks, &forked), NULL);
    return forked.child;
}

static void children(void) {
    int status;
    pid_t child = a_child(7);
    say("waitpid", waitpid(child, &status, 0) == child);
    say("status", WEXITSTATUS(status));
    child = a_child(-1);
    say("not yet", waitpid(child, &status, WNOHANG));
    pthread_t killer = begin(exit_later, (void *)(long)child);
    siginfo_t info = {0};
    say("waitid", waitid(P_PID, child, &info, WEXITED));
    say("killed by", info.si_status);
    pthread_join(killer, NULL);
    child = a_child(-1);
    killer = begin(exit_later, (void *)(long)child);
    say("waitpid, later", waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    pthread_join(killer, NULL);
    child = a_child(3);
    say("wait for any", waitpid(-1, &status, 0) == child);
    say("no child", waitpid(child, &status, 0));
}

static void *forks_one_that_stops(void *argument) {
    pid_t child = fork();
    if (child == 0) {
        kill(getpid(), SIGSTOP);
        _exit(1);
    }
    *(pid_t *)argument = child;
    return NULL;
}

// Who asks for stops as well is told of one, though the end is yet to come: in a thread that has no child of its own.
static void *stops(void *argument) {
    for (int by = 0; by < 3; by++) {
        int status;
        pid_t child;
        siginfo_t info = {0};
        pthread_join(begin(forks_one_that_stops, &child), NULL);
        if (by == 0) say("waitpid for a stop", waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
        else say("waitid for a stop", waitid(P_PID, child, &info, by == 1 ? WEXITED | WSTOPPED : WSTOPPED));
        if (by > 0) say("stopped", info.si_code == CLD_STOPPED && info.si_pid == child);
        kill(child, SIGKILL);
        if (by == 0) say("its end", waitpid(child, &status, WUNTRACED) == child && WIFSIGNALED(status));
        else say("its end", waitid(P_PID, child, &info, WEXITED | WSTOPPED));
        if (by > 0) say("killed by", info.si_code == CLD_KILLED ? info.si_status : -1);
    }
    return argument;
}

static void *body(void *argument) {
    (void)argument;
    pipes();
    files();
    sockets();
    many();
    times();
    children();
    return NULL;
}

int main(int count, char **arguments) {
    if (count < 2 || chdir(arguments[1])) return 2;
    signal(SIGPIPE, SIG_IGN);
    pthread_join(begin(body, NULL), NULL);
    pthread_join(begin(stops, NULL), NULL);
    return 0;
}
