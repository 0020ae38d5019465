// A program that may not make calls which a sandbox seldom knows, and is killed for them: it makes 200 threads at a
// time, and ends them, several times. With an argument, the filter is there before the program starts.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREADS 200

#define CHECK(what)                                              \
    do {                                                         \
        if (!(what)) {                                           \
            printf("line %d: %s does not hold\n", __LINE__, #what); \
            exit(1);                                             \
        }                                                        \
    } while (0)

static pthread_barrier_t all;

static void *meet(void *unused) {
    pthread_barrier_wait(&all);
    return unused;
}

static void have_threads(void) {
    pthread_t threads[THREADS];
    CHECK(pthread_barrier_init(&all, NULL, THREADS) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, meet, NULL) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    pthread_barrier_destroy(&all);
}

static void forbid(void) {
    static const int rare[] = {SYS_process_madvise, SYS_io_uring_setup};
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, rare[0], 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, rare[1], 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

int main(int count, char **arguments) {
    if (count == 2) {
        forbid();
        char *again[] = {arguments[0], NULL};
        execv(arguments[0], again);
        CHECK(!"it is executed");
    }
    // Inherited: it is there already, and another one does no harm.
    forbid();
    for (int i = 0; i < 3; i++) {
        have_threads();
        // Until the memory of stacks goes back.
        usleep(250000);
    }
    puts("ok");
    return 0;
}
