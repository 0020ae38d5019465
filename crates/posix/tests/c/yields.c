// What sched_yield does while others are ready, as a filter of system calls tells it: two threads of one processor give
// way to each other, while the first thread runs ("awake") or joins them ("asleep"). Awake, one of the two asks the
// kernel in each turn of both.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define TURNS 1000

static _Atomic int calls, here, turn, ended;
static int counted;

// The kernel was asked.
static void on_call(int signal) { calls++; }

static void *give_way(void *argument) {
    int me = (int)(long)argument;
    here++;
    while (here < 2) sched_yield();
    // In turns, so that the other one is always there to give way to.
    for (int i = 0; i < TURNS; i++) {
        while (turn != me) sched_yield();
        if (i == 0 && me == 0) calls = 0;
        if (i == TURNS - 1 && me == 0) counted = calls;
        turn = !me;
    }
    ended++;
    return NULL;
}

int main(int count, char **arguments) {
    struct sched_param none;
    // The order of the names, resolved before the filter is there.
    sched_getparam(0, &none);
    sched_yield();
    signal(SIGSYS, on_call);
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_yield, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) {
        puts("no filter");
        return 0;
    }
    pthread_t threads[2];
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], NULL, give_way, (void *)i);
    if (!strcmp(arguments[1], "awake"))
        while (ended < 2);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    printf("%s\n", counted >= TURNS / 4 ? "the kernel was asked" : "they gave way to each other");
    return 0;
}
