// Descriptors that the C library closes inside: freopen, pclose, closedir, mq_close. Who waits for one waits on, for what it
// stood for, and what gets the number next is waited for as anything else.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            printf("line %d: %s (errno %d)\n", __LINE__, #condition, errno); \
            fflush(stdout); \
            _exit(1); \
        } \
    } while (0)

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

static void *reader(void *argument) {
    char byte = 0;
    long got = read(*(int *)argument, &byte, 1);
    if (got < 0 && errno == EBADF) late = 1;
    else CHECK(got == 1 || got == 0);
    return (void *)(long)(got == 1 ? byte : 0);
}

// A thread reads from a stream's descriptor, and the stream comes to stand for another file.
static void *reopened(void *how) {
    int p[2], other[2];
    CHECK(pipe(p) == 0 && pipe(other) == 0);
    FILE *stream = fdopen(p[0], "r");
    CHECK(stream);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, reader, &p[0]) == 0);
    until_it_waits();
    char path[40];
    snprintf(path, sizeof path, "/dev/fd/%d", other[0]);
    CHECK((how ? freopen64 : freopen)(path, "r", stream) == stream && fileno(stream) == p[0]);
    until_it_waits();
    // What comes to the former pipe is for the thread, what comes to the other one for whoever reads the stream now.
    int sent = write(p[1], "x", 1) == 1;
    CHECK(write(other[1], "y", 1) == 1);
    void *got;
    pthread_join(thread, &got);
    // Who came late has read from the other one.
    if (got == (void *)'y') late = 1;
    CHECK(late || (sent && got == (void *)'x'));
    if (!late) {
        CHECK(pthread_create(&thread, NULL, reader, &p[0]) == 0);
        pthread_join(thread, &got);
        CHECK(got == (void *)'y');
        // It waits again, by the poller.
        CHECK(pthread_create(&thread, NULL, reader, &p[0]) == 0);
        until_it_waits();
        CHECK(write(other[1], "z", 1) == 1);
        pthread_join(thread, &got);
        CHECK(got == (void *)'z');
    }
    fclose(stream);
    close(p[1]), close(other[0]), close(other[1]);
    return NULL;
}

// A thread reads what a child says, which the first one ends by closing; a third one waits for what gets the number.
static void *ended(void *nothing) {
    FILE *child = popen("sleep 0.1; echo x 2>/dev/null", "r");
    CHECK(child);
    int fd = fileno(child);
    pthread_t thread, next;
    CHECK(pthread_create(&thread, NULL, reader, &fd) == 0);
    until_it_waits();
    int status = pclose(child);
    CHECK(status >= 0);
    void *got;
    int p[2];
    CHECK(pipe(p) == 0);
    int far = p[0] == fd ? p[0] : dup2(p[0], fd);
    CHECK(far == fd && pthread_create(&next, NULL, reader, &fd) == 0);
    until_it_waits();
    CHECK(write(p[1], "n", 1) == 1);
    pthread_join(next, &got);
    CHECK(got == (void *)'n');
    pthread_join(thread, &got);
    CHECK(late || (status == 0 && got == (void *)'x'));
    if (p[0] != fd) close(fd);
    close(p[0]), close(p[1]);
    return nothing;
}

// What was a folder, or a queue, is a pipe afterwards.
static void *given_again(void *queue) {
    int fd, p[2];
    if (queue) {
        char name[40];
        snprintf(name, sizeof name, "/raddle-close-%d", getpid());
        mqd_t made = mq_open(name, O_CREAT | O_RDWR, 0600, NULL);
        if (made < 0) return NULL;
        mq_unlink(name);
        struct pollfd none = {made, POLLIN, 0};
        CHECK(poll(&none, 1, 1) == 0);
        fd = made;
        CHECK(mq_close(made) == 0 && mq_close(made) == -1 && errno == EBADF);
    } else {
        DIR *folder = opendir("/");
        char byte;
        CHECK(folder && read(dirfd(folder), &byte, 1) == -1 && errno == EISDIR);
        fd = dirfd(folder);
        CHECK(closedir(folder) == 0 && closedir(NULL) == -1 && errno == EINVAL);
    }
    CHECK(pipe(p) == 0);
    int far = p[0] == fd ? fd : dup2(p[0], fd);
    pthread_t thread;
    CHECK(far == fd && pthread_create(&thread, NULL, reader, &fd) == 0);
    until_it_waits();
    CHECK(write(p[1], "q", 1) == 1);
    void *got;
    pthread_join(thread, &got);
    CHECK(got == (void *)'q');
    if (p[0] != fd) close(fd);
    close(p[0]), close(p[1]);
    return NULL;
}

static void *everything(void *nothing) {
    for (int round = 0; round < 3; round++) {
        in_time(reopened, NULL);
        in_time(reopened, (void *)1);
        in_time(ended, NULL);
        given_again(NULL);
        given_again((void *)1);
    }
    char *text = NULL;
    size_t size;
    FILE *memory = open_memstream(&text, &size);
    CHECK(memory && fclose(memory) == 0);
    free(text);
    return nothing;
}

int main(void) {
    // Where a thread comes late, nobody reads.
    signal(SIGPIPE, SIG_IGN);
    everything(NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, everything, NULL);
    pthread_join(thread, NULL);
    puts("ok");
    return 0;
}
