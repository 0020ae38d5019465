// What a thread finds as if nobody had been there before: its clock, and in a fork a first thread that has not ended
// though the parent's had. Besides, a comparison of a word with a negative number.
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CLOCK_ROUNDS = 20, WAKE_ROUNDS = 50, SPENT_NS = 20000000 };

static atomic_int words[2], ending;
static pthread_t first;

static long spent(void) {
    struct timespec time;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)) abort();
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void *spends(void *unused) {
    while (spent() < SPENT_NS) {}
    return unused;
}

static void *has_spent(void *unused) {
    (void)unused;
    return (void *)(long)(spent() >= SPENT_NS);
}

static void *sleeps_at_a_word(void *unused) {
    while (atomic_load(&words[1]) == -2) syscall(SYS_futex, &words[1], FUTEX_WAIT_PRIVATE, -2, NULL, NULL, 0);
    return unused;
}

static void *joins_the_first(void *unused) {
    (void)unused;
    void *result = NULL;
    int error = pthread_join(first, &result);
    int had_ended = atomic_load(&ending);
    printf("joined: %d %ld, had ended: %d\n", error, (long)result, had_ended);
    exit(0);
}

static void *forks(void *unused) {
    pthread_join(first, NULL);
    if (fork() == 0) {
        pthread_t thread;
        first = pthread_self();
        atomic_store(&ending, 0);
        if (pthread_create(&thread, NULL, joins_the_first, NULL)) abort();
        usleep(50000);
        atomic_store(&ending, 1);
        pthread_exit((void *)7);
    }
    int status = -1;
    wait(&status);
    printf("child: %d\n", status);
    exit(0);
    return unused;
}

static pthread_t begin(void *(*body)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, NULL)) abort();
    return thread;
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    long old = 0;
    for (int round = 0; round < CLOCK_ROUNDS; round++) {
        void *has;
        pthread_join(begin(spends), NULL);
        pthread_join(begin(has_spent), &has);
        old += (long)has;
    }
    printf("clocks that had begun before: %ld\n", old);
    for (int round = 0; round < WAKE_ROUNDS; round++) {
        atomic_store(&words[1], -2);
        pthread_t thread = begin(sleeps_at_a_word);
        usleep(1000);
        int operation = FUTEX_OP(FUTEX_OP_ADD, 1, FUTEX_OP_CMP_EQ, -2 & 0xfff);
        syscall(SYS_futex, &words[0], FUTEX_WAKE_OP_PRIVATE, 1, 1, &words[1], operation);
        pthread_join(thread, NULL);
    }
    printf("woken\n");
    first = pthread_self();
    begin(forks);
    pthread_exit(NULL);
}
