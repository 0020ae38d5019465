// What the kernel ties to a kernel thread belongs to one thread: who takes it keeps it, whoever that one creates inherits it, nobody else has it.
// usage: own_things [unprivileged]
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OLD 6
#define TAKERS 4
#define LATE 8

static char folder[64];
static char first_net[64];

// A word of the calling thread's status, without a call that would make it another kind of thread.
static long status(const char *key, int field) {
    static __thread char text[8192];
    int file = open("/proc/thread-self/status", O_RDONLY);
    if (file < 0) return -1;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = 0;
    char *line = strstr(text, key);
    if (line == NULL) return -1;
    line += strlen(key);
    long value = -1;
    for (int i = 0; i <= field; i++) value = strtol(line, &line, strcmp(key, "Umask:") == 0 ? 8 : 10);
    return value;
}

static int take_fsuid(void) { return setfsuid(12345), 0; }
static int has_fsuid(void) { return status("Uid:", 3) == 12345; }
static int take_fsgid(void) { return setfsgid(12345), 0; }
static int has_fsgid(void) { return status("Gid:", 3) == 12345; }
static int take_euid(void) { return syscall(SYS_setresuid, -1, 12345, -1); }
static int has_euid(void) { return status("Uid:", 1) == 12345; }
static int take_groups(void) {
    unsigned list[] = {777};
    return syscall(SYS_setgroups, 1, list);
}
static int has_groups(void) { return status("Groups:", 0) == 777; }
static int take_capabilities(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) != 0) return -1;
    data[0].effective &= ~(1u << CAP_NET_RAW);
    data[0].inheritable |= 1u << CAP_CHOWN & data[0].permitted;
    return syscall(SYS_capset, &header, data);
}
static int has_capabilities(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    return syscall(SYS_capget, &header, data) == 0 && (data[0].effective & 1u << CAP_NET_RAW) == 0;
}
static int take_bounding(void) { return prctl(PR_CAPBSET_DROP, CAP_SYS_TIME, 0, 0, 0); }
static int has_bounding(void) { return prctl(PR_CAPBSET_READ, CAP_SYS_TIME, 0, 0, 0) == 0; }
static int take_keepcaps(void) { return prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0); }
static int has_keepcaps(void) { return prctl(PR_GET_KEEPCAPS, 0, 0, 0, 0) == 1; }
static int take_no_new_privs(void) { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); }
static int has_no_new_privs(void) { return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1; }
static int take_folder(void) { return unshare(CLONE_FS) != 0 ? -1 : chdir(folder); }
static int has_folder(void) {
    char here[4096];
    return getcwd(here, sizeof here) != NULL && strcmp(here, folder) == 0;
}
static int take_umask(void) {
    if (unshare(CLONE_FS) != 0) return -1;
    umask(0123);
    return 0;
}
static int has_umask(void) { return status("Umask:", 0) == 0123; }
static int take_net(void) { return unshare(CLONE_NEWNET); }
static void net_of_caller(char *name) {
    ssize_t length = readlink("/proc/thread-self/ns/net", name, 63);
    name[length > 0 ? length : 0] = 0;
}
static int has_net(void) {
    char name[64];
    net_of_caller(name);
    return strcmp(name, first_net) != 0;
}
static int take_filter(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpgrp, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 99),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}
static int has_filter(void) { return syscall(SYS_getpgrp) == -1 && errno == 99; }
static int take_slack(void) { return prctl(PR_SET_TIMERSLACK, 777777, 0, 0, 0); }
static int has_slack(void) { return prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) == 777777; }
static int last_processor = -1;
static int take_affinity(void) {
    cpu_set_t all, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof all, &all) != 0) return -1;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all)) last_processor = i;
    CPU_SET(last_processor, &one);
    return sched_setaffinity(0, sizeof one, &one);
}
static int has_affinity(void) {
    cpu_set_t is;
    return sched_getaffinity(0, sizeof is, &is) == 0 && CPU_COUNT(&is) == 1 && CPU_ISSET(last_processor, &is);
}
static int take_affinity_np(void) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(last_processor, &one);
    return pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}
static int has_affinity_np(void) {
    cpu_set_t is;
    return pthread_getaffinity_np(pthread_self(), sizeof is, &is) == 0 && CPU_COUNT(&is) == 1;
}
// The test itself may run with a lower priority.
static int first_nice;
static int nicer(int more) { return first_nice + more > 19 ? 19 : first_nice + more; }
static int take_nice(void) { return setpriority(PRIO_PROCESS, gettid(), nicer(7)); }
static int has_nice(void) { return getpriority(PRIO_PROCESS, gettid()) == nicer(7) && getpriority(PRIO_PROCESS, 0) == nicer(7); }
static int take_nice_more(void) {
    errno = 0;
    return nice(3) == -1 && errno != 0 ? -1 : 0;
}
static int has_nice_more(void) { return getpriority(PRIO_PROCESS, 0) == nicer(3); }
static int take_batch(void) {
    struct sched_param none = {0};
    return sched_setscheduler(gettid(), SCHED_BATCH, &none);
}
static int has_batch(void) { return sched_getscheduler(0) == SCHED_BATCH && sched_getscheduler(gettid()) == SCHED_BATCH; }
static int take_batch_np(void) {
    struct sched_param none = {0};
    return pthread_setschedparam(pthread_self(), SCHED_BATCH, &none);
}
static int has_batch_np(void) {
    struct sched_param parameters;
    int class;
    return pthread_getschedparam(pthread_self(), &class, &parameters) == 0 && class == SCHED_BATCH && sched_getscheduler(0) == SCHED_BATCH;
}
static int take_io_priority(void) { return syscall(SYS_ioprio_set, 1, gettid(), 3 << 13); }
static int has_io_priority(void) { return syscall(SYS_ioprio_get, 1, 0) == 3 << 13 && syscall(SYS_ioprio_get, 1, gettid()) == 3 << 13; }
static int take_personality(void) { return personality(ADDR_NO_RANDOMIZE) == -1 ? -1 : 0; }
static int has_personality(void) { return personality(0xffffffff) == ADDR_NO_RANDOMIZE; }
static int take_memory(void) { return syscall(SYS_set_mempolicy, 4 /* local */, NULL, 0); }
static int has_memory(void) {
    int mode = -1;
    return syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0) == 0 && mode == 4;
}
static int take_death(void) { return prctl(PR_SET_PDEATHSIG, SIGUSR1, 0, 0, 0); }
static int has_death(void) {
    int signal = 0;
    return prctl(PR_GET_PDEATHSIG, &signal, 0, 0, 0) == 0 && signal == SIGUSR1;
}
static char a_list[3 * sizeof(long)];
static int take_list(void) { return syscall(SYS_set_robust_list, a_list, sizeof a_list); }
static int has_list(void) {
    void *list;
    size_t size;
    return syscall(SYS_get_robust_list, 0, &list, &size) == 0 && list == a_list;
}

static const struct thing {
    const char *name;
    int (*take)(void);
    int (*has)(void);
    // Only with rights; and whether a thread that is created inherits it.
    int privileged, inherited;
} things[] = {
    {"fsuid", take_fsuid, has_fsuid, 1, 1},
    {"fsgid", take_fsgid, has_fsgid, 1, 1},
    {"effective user", take_euid, has_euid, 1, 1},
    {"groups", take_groups, has_groups, 1, 1},
    {"capabilities", take_capabilities, has_capabilities, 1, 1},
    {"bounding set", take_bounding, has_bounding, 1, 1},
    {"keep capabilities", take_keepcaps, has_keepcaps, 1, 1},
    {"network", take_net, has_net, 1, 1},
    {"no new privileges", take_no_new_privs, has_no_new_privs, 0, 1},
    {"folder", take_folder, has_folder, 0, 1},
    {"umask", take_umask, has_umask, 0, 1},
    {"filter", take_filter, has_filter, 0, 1},
    {"timer slack", take_slack, has_slack, 0, 1},
    {"affinity", take_affinity, has_affinity, 0, 1},
    {"affinity of itself", take_affinity_np, has_affinity_np, 0, 1},
    {"nice by number", take_nice, has_nice, 0, 1},
    {"nice", take_nice_more, has_nice_more, 0, 1},
    {"batch by number", take_batch, has_batch, 0, 1},
    {"batch of itself", take_batch_np, has_batch_np, 0, 1},
    {"I/O priority", take_io_priority, has_io_priority, 0, 1},
    {"personality", take_personality, has_personality, 0, 1},
    {"memory", take_memory, has_memory, 0, 1},
    {"death signal", take_death, has_death, 0, 0},
    {"robust list", take_list, has_list, 0, 0},
};

static const struct thing *thing;
static int stop, taken, kept, inherited, leaked, turn;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turns = PTHREAD_COND_INITIALIZER;

static void add(int *counter, int value) { __atomic_fetch_add(counter, value, __ATOMIC_SEQ_CST); }

// Waits in several ways, with all the others.
static void rest(int i) {
    if (i % 4 == 0) usleep(300);
    else if (i % 4 == 1) sched_yield();
    else {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 500000;
        if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
        pthread_mutex_lock(&lock);
        int before = turn++;
        pthread_cond_broadcast(&turns);
        while (turn == before + 1 && pthread_cond_timedwait(&turns, &lock, &until) == 0) {}
        pthread_mutex_unlock(&lock);
    }
}

static void *innocent(void *argument) {
    int rounds = (int)(long)argument;
    for (int i = 0; rounds == 0 ? !__atomic_load_n(&stop, __ATOMIC_SEQ_CST) : i < rounds; i++) {
        add(&leaked, thing->has());
        rest(i);
    }
    return NULL;
}

static void *heir(void *argument) {
    pthread_t t;
    add(&inherited, thing->has());
    if (argument == NULL) {
        pthread_create(&t, NULL, heir, &stop);
        pthread_join(t, NULL);
    }
    for (int i = 0; i < 4; i++) rest(i);
    add(&inherited, thing->has());
    return argument;
}

static void *taker(void *argument) {
    pthread_t t;
    (void)argument;
    rest(0);
    int result = thing->take();
    add(&taken, result == 0);
    if (result != 0) return NULL;
    for (int i = 0; i < 20; i++) {
        add(&kept, thing->has());
        rest(i);
    }
    pthread_create(&t, NULL, heir, NULL);
    pthread_join(t, NULL);
    return NULL;
}

static int skip(const struct thing *one, int unprivileged) {
    // Who has it from the start cannot lose it, and there is nothing to see.
    return (one->privileged && unprivileged) || one->has();
}

int main(int count, char **arguments) {
    int unprivileged = geteuid() != 0;
    if (count > 1 && geteuid() == 0) unprivileged = setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0;
    snprintf(folder, sizeof folder, "/tmp/own-things-%d", getpid());
    if (mkdir(folder, 0755) != 0) return 2;
    net_of_caller(first_net);
    first_nice = getpriority(PRIO_PROCESS, 0);
    for (size_t i = 0; i < sizeof things / sizeof *things; i++) {
        pthread_t old[OLD], takers[TAKERS], late[LATE];
        thing = &things[i];
        taken = kept = inherited = leaked = stop = 0;
        if (skip(thing, unprivileged)) {
            printf("%s: not here\n", thing->name);
            continue;
        }
        for (int k = 0; k < OLD; k++) pthread_create(&old[k], NULL, innocent, NULL);
        for (int k = 0; k < TAKERS; k++) pthread_create(&takers[k], NULL, taker, NULL);
        for (int k = 0; k < TAKERS; k++) pthread_join(takers[k], NULL);
        for (int k = 0; k < LATE; k++) pthread_create(&late[k], NULL, innocent, (void *)8L);
        for (int k = 0; k < LATE; k++) pthread_join(late[k], NULL);
        stop = 1;
        for (int k = 0; k < OLD; k++) pthread_join(old[k], NULL);
        leaked += thing->has();
        int heirs = thing->inherited ? 4 * taken : 0;
        printf("%s: kept %s, inherited %s, leaked %s\n", thing->name, kept == 20 * taken ? "by all" : "NOT BY ALL",
               inherited == heirs ? "as it should be" : "WRONGLY", leaked ? "TO OTHERS" : "to nobody");
        if (!taken) printf("  (cannot be taken here)\n");
        if (kept != 20 * taken || inherited != heirs || leaked)
            fprintf(stderr, "%s: taken %d kept %d inherited %d leaked %d\n", thing->name, taken, kept, inherited, leaked);
    }
    rmdir(folder);
    return 0;
}
