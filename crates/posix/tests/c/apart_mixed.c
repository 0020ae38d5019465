// A worker whose library waits for its only connection by a set of epoll's, as the postgres crate does, and who waits for another connection in between. Prints
// how many answers it got on both.
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { ROUNDS = 400 };

static int asked[2], first[2], second[2];

// Answers on the one that it is asked for.
static void *partner(void *unused) {
    (void)unused;
    char which;
    while (read(asked[0], &which, 1) == 1)
        if (write(which == '1' ? first[1] : second[1], &which, 1) != 1) break;
    return NULL;
}

static void *worker(void *unused) {
    (void)unused;
    struct epoll_event event = {.events = EPOLLIN};
    int set = epoll_create1(0), answers = 0;
    epoll_ctl(set, EPOLL_CTL_ADD, first[0], &event);
    char byte;
    for (int i = 0; i < ROUNDS; i++) {
        if (write(asked[1], "1", 1) != 1) break;
        if (epoll_wait(set, &event, 1, -1) == 1 && read(first[0], &byte, 1) == 1) answers += byte == '1';
        if (write(asked[1], "2", 1) != 1) break;
        if (read(second[0], &byte, 1) == 1) answers += byte == '2';
    }
    printf("%d\n", answers);
    close(asked[1]);
    return NULL;
}

int main(void) {
    pthread_t one, other;
    if (pipe(asked) || pipe(first) || pipe(second)) return 1;
    pthread_create(&one, NULL, partner, NULL);
    pthread_create(&other, NULL, worker, NULL);
    pthread_join(other, NULL);
    pthread_join(one, NULL);
    return 0;
}
