// A connect that waits, since the listener's queue is full: it goes on after handlers that restart calls and after what
// the process's threads do to masks, ends with EINTR after others, and can be cancelled.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct sockaddr_un address;
static socklen_t size;
static volatile int handled, ready, done, cleaned;

static void handler(int signal) {
    (void)signal;
    handled++;
}

static void clean(void *argument) {
    (void)argument;
    cleaned = 1;
}

static void *connects(void *argument) {
    int result = 0, client = socket(AF_UNIX, SOCK_STREAM, 0);
    (void)argument;
    pthread_cleanup_push(clean, NULL);
    ready = 1;
    if (connect(client, (struct sockaddr *)&address, size))
        result = errno;
    pthread_cleanup_pop(0);
    close(client);
    done = 1;
    return (void *)(long)result;
}

static void *changes_masks(void *argument) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    for (int i = 0; i < 200; i++)
        pthread_sigmask(i & 1 ? SIG_UNBLOCK : SIG_BLOCK, &set, NULL);
    return argument;
}

static int listens(void) {
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    address.sun_family = AF_UNIX;
    // In the abstract name space.
    size = offsetof(struct sockaddr_un, sun_path) + 1 + snprintf(address.sun_path + 1, 90, "connect-waits-%d", getpid());
    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 1))
        return -1;
    for (;;) {
        int filler = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (connect(filler, (struct sockaddr *)&address, size)) {
            close(filler);
            return listener;
        }
    }
}

static void one(const char *name, int flags, int cancels) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(SIGUSR1, &action, NULL);
    int listener = listens();
    handled = ready = done = cleaned = 0;
    pthread_t thread, other;
    pthread_create(&thread, NULL, connects, NULL);
    while (!ready)
        usleep(100);
    if (cancels) {
        usleep(20000);
        pthread_cancel(thread);
    } else {
        for (int i = 0; i < 30 && !done; i++) {
            int before = handled;
            pthread_kill(thread, SIGUSR1);
            while (handled == before && !done)
                usleep(100);
            usleep(2000);
        }
        pthread_create(&other, NULL, changes_masks, NULL);
        pthread_join(other, NULL);
        if (flags == 0)
            while (!done) {
                pthread_kill(thread, SIGUSR1);
                usleep(1000);
            }
        while (!done) {
            fcntl(listener, F_SETFL, O_NONBLOCK);
            int accepted = accept(listener, NULL, NULL);
            if (accepted >= 0)
                close(accepted);
            usleep(1000);
        }
    }
    void *result;
    pthread_join(thread, &result);
    if (result == PTHREAD_CANCELED)
        printf("%s: cancelled, cleaned %d\n", name, cleaned);
    else
        printf("%s: %s\n", name, strerror((long)result));
    close(listener);
}

int main(void) {
    signal(SIGUSR2, SIG_IGN);
    for (int i = 0; i < 3; i++) {
        one("restarts", SA_RESTART, 0);
        one("ends", 0, 0);
        one("cancelled", 0, 1);
    }
    return 0;
}
