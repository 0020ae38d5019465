// What is remembered of descriptors must not outlive its truth: numbers that are given out again, other names of the same socket, flags
// that others set, and readings that end short although more is there. The same natively and with the library.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *what, long result) {
    int error = errno;
    printf("%s: %ld%s\n", what, result, result < 0 ? error == EAGAIN ? " EAGAIN" : " another error" : "");
    fflush(stdout);
}

struct later {
    int fd;
    const char *text;
    int flags;
};

static void *send_later(void *argument) {
    struct later *later = argument;
    usleep(3000);
    if (send(later->fd, later->text, strlen(later->text), later->flags) < 0) abort();
    return NULL;
}

// Reads into a large buffer what another thread sends a little later, so that the reader waits first.
static long read_later(int from, int to, const char *text) {
    struct later later = {to, text, 0};
    char buffer[100];
    pthread_t thread;
    if (pthread_create(&thread, NULL, send_later, &later)) abort();
    long count = read(from, buffer, sizeof buffer);
    pthread_join(thread, NULL);
    return count;
}

// A connection over TCP: ends[0] was accepted.
static void connection(int ends[2]) {
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof any;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&any, size) || listen(listener, 10)) abort();
    getsockname(listener, (struct sockaddr *)&any, &size);
    ends[1] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(ends[1], (struct sockaddr *)&any, size)) abort();
    ends[0] = accept(listener, NULL, NULL);
    if (ends[0] < 0) abort();
    close(listener);
}

static void ends_of_readings(void) {
    int c[2];
    char buffer[100];
    connection(c);
    for (int i = 0; i < 5; i++) say("short", read_later(c[0], c[1], "message"));
    // Two messages and the end come together; readings that are short, and one that is full.
    send(c[1], "message", 7, 0);
    send(c[1], "more", 4, 0);
    shutdown(c[1], SHUT_WR);
    say("full", read(c[0], buffer, 3));
    say("short before the end", read(c[0], buffer, sizeof buffer));
    say("end", read(c[0], buffer, sizeof buffer));
    say("end", recv(c[0], buffer, sizeof buffer, 0));
    close(c[0]);
    close(c[1]);

    connection(c);
    say("short", read_later(c[0], c[1], "message"));
    // A reading stops before the urgent byte, although there is more.
    send(c[1], "abc", 3, 0);
    send(c[1], "!", 1, MSG_OOB);
    send(c[1], "def", 3, 0);
    usleep(2000);
    say("up to the mark", read(c[0], buffer, sizeof buffer));
    say("behind it", read(c[0], buffer, sizeof buffer));
    say("short", read_later(c[0], c[1], "message"));
    // A reset while nobody reads.
    struct linger none = {1, 0};
    setsockopt(c[1], SOL_SOCKET, SO_LINGER, &none, sizeof none);
    close(c[1]);
    say("reset", read(c[0], buffer, sizeof buffer));
    close(c[0]);
}

static void *sets_in_a_child(void *descriptor) {
    pid_t child = fork();
    if (child == 0) {
        fcntl(*(int *)descriptor, F_SETFL, O_NONBLOCK);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    return NULL;
}

static void flags(void) {
    int c[2], on = 1, off = 0;
    char buffer[100];
    connection(c);
    say("short", read_later(c[0], c[1], "message"));
    int other = dup(c[0]);
    fcntl(other, F_SETFL, O_NONBLOCK);
    say("made non-blocking under another name", read(c[0], buffer, sizeof buffer));
    ioctl(c[0], FIONBIO, &off);
    say("blocking again", read_later(c[0], c[1], "message"));
    ioctl(other, FIONBIO, &on);
    say("and not", recv(c[0], buffer, sizeof buffer, 0));
    fcntl(c[0], F_SETFL, 0);
    close(c[0]);
    say("under the other name", read_later(other, c[1], "message"));
    // Another thread forks: that one is left to the kernel from then on.
    pthread_t forks;
    if (pthread_create(&forks, NULL, sets_in_a_child, &other)) abort();
    pthread_join(forks, NULL);
    say("made non-blocking by a child", read(other, buffer, sizeof buffer));
    close(other);
    close(c[1]);
}

static int by_dup(int old, int least) {
    int made = dup(old);
    if (made < 0 || made >= least) return made;
    int next = by_dup(old, least);
    close(made);
    return next;
}
static int by_dupfd(int old, int least) { return fcntl(old, F_DUPFD, least); }
static int by_dupfd_cloexec(int old, int least) { return fcntl(old, F_DUPFD_CLOEXEC, least); }

// A number was closed by a system call, which nobody has seen: what the next call makes of it is nothing like before.
static void closed_unseen(int (*const make)(int old, int least)) {
    int first[2], c[2];
    char buffer[100];
    connection(first);
    connection(c);
    fcntl(c[0], F_SETFL, O_NONBLOCK);
    say("short", read_later(first[0], first[1], "message"));
    syscall(SYS_close, first[0]);
    int made = make(c[0], first[0]);
    say("the same number", made == first[0]);
    say("not blocking", read(made, buffer, sizeof buffer));
    fcntl(c[0], F_SETFL, 0);
    say("blocking", read_later(made, c[1], "message"));
    close(made);
    close(first[1]);
    close(c[0]);
    close(c[1]);
}

// Toggled again and again under its only name, then under two, of which one or the other is asked first.
static void more_flags(void) {
    int c[2], on = 1, off = 0;
    char buffer[100];
    connection(c);
    for (int i = 0; i < 3; i++) {
        ioctl(c[0], FIONBIO, &on);
        say("only name, not blocking", recv(c[0], buffer, sizeof buffer, MSG_PEEK));
        say("again", read(c[0], buffer, sizeof buffer));
        i % 2 ? ioctl(c[0], FIONBIO, &off) : fcntl(c[0], F_SETFL, 0);
        say("only name, blocking", read_later(c[0], c[1], "message"));
    }
    say("no flag", ioctl(c[0], FIONBIO, NULL));
    say("as before", read_later(c[0], c[1], "message"));
    int others[3] = {dup(c[0]), fcntl(c[0], F_DUPFD, 40), dup2(c[0], 50)};
    for (int i = 0; i < 3; i++) {
        say("copy", read_later(others[i], c[1], "message"));
        ioctl(c[0], FIONBIO, &on);
        say("copy, not blocking", recv(others[i], buffer, sizeof buffer, 0));
        ioctl(others[i], FIONBIO, &off);
        say("the first name", read_later(c[0], c[1], "message"));
        fcntl(others[i], F_SETFL, O_NONBLOCK);
        say("the first name, not blocking", read(c[0], buffer, sizeof buffer));
        fcntl(c[0], F_SETFL, 0);
        say("copy, blocking", read_later(others[i], c[1], "message"));
        close(others[i]);
    }
    close(c[0]);
    close(c[1]);
}

// No time limit, one, and none again.
static void limits(void) {
    int c[2];
    char buffer[100];
    struct timeval none = {0, 0}, some = {0, 20000};
    connection(c);
    setsockopt(c[0], SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
    say("no limit", read_later(c[0], c[1], "message"));
    say("a bad time", setsockopt(c[0], SOL_SOCKET, SO_RCVTIMEO, NULL, sizeof none));
    setsockopt(c[0], SOL_SOCKET, SO_RCVTIMEO, &some, sizeof some);
    say("in time, or not", read(c[0], buffer, sizeof buffer));
    setsockopt(c[0], SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
    say("no limit", read_later(c[0], c[1], "message"));
    close(c[0]);
    close(c[1]);
}

static void give(int through, int fd) {
    char control[CMSG_SPACE(sizeof fd)] = {0}, byte = 'x';
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    if (sendmsg(through, &message, 0) != 1) abort();
}

static int take(int through) {
    char control[CMSG_SPACE(sizeof(int))], byte;
    int fd;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (recvmsg(through, &message, 0) != 1) abort();
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

static void numbers(void) {
    int c[2], d[2], through[2];
    connection(c);
    connection(d);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, through)) abort();
    for (int i = 0; i < 20; i++) {
        // Both numbers live again each time; every other time one of them is put where the last one of its kind was.
        say("short", read_later(c[0], c[1], "message"));
        close(c[0]);
        close(c[1]);
        connection(c);
        if (i % 2) {
            if (dup2(c[0], 100) != 100) abort();
            close(c[0]);
            c[0] = 100;
        }
    }
    close(c[0]);
    close(c[1]);
    connection(c);
    say("short", read_later(c[0], c[1], "message"));
    // Closed inside the C library, and given out again by a message: nobody can see that.
    while (dup(0) < c[0]) {} // no lower number is free
    FILE *file = fdopen(c[0], "r");
    int number = c[0];
    give(through[0], d[0]);
    fclose(file);
    int taken = take(through[1]);
    say("the same number", taken == number);
    say("under a number that was another's", read_later(taken, d[1], "message"));
    say("and again", read_later(taken, d[1], "message"));
    close(taken);
    say("under its own", read_later(d[0], d[1], "message"));
}

static void unseen(void) {
    closed_unseen(by_dup);
    closed_unseen(by_dupfd);
    closed_unseen(by_dupfd_cloexec);
}

static void *body(void *part) {
    (*(void (**)(void))part)();
    return NULL;
}

// Each in a thread of its own: one that has forked has its waits in the kernel from then on.
int main(void) {
    void (*parts[])(void) = {ends_of_readings, flags, unseen, more_flags, limits, numbers};
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, body, &parts[i])) return 2;
        pthread_join(thread, NULL);
    }
    return 0;
}
