// Runs a program as a container does that allows little: no capability, no new privileges, and a filter that refuses what such filters refuse.
// container allows-idle|refuses-idle PROGRAM ARGUMENTS...
#define _GNU_SOURCE
#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REFUSE(number) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

int main(int count, char **words) {
    if (count < 3) return 2;
    // Without these two bits a program of the superuser's would get its capabilities back.
    if (geteuid() == 0 && prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED)) return perror("securebits"), 3;
    for (int one = 0; one <= 63 && geteuid() == 0; one++) prctl(PR_CAPBSET_DROP, one, 0, 0, 0);
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {0};
    if (syscall(SYS_capset, &header, none)) return perror("capset"), 3;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return perror("no_new_privs"), 3;
    int idle = strcmp(words[1], "refuses-idle") ? -1 : SYS_sched_setscheduler;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        REFUSE(SYS_perf_event_open), REFUSE(SYS_bpf),  REFUSE(SYS_userfaultfd), REFUSE(SYS_io_uring_setup),
        REFUSE(SYS_ptrace),          REFUSE(SYS_mount), REFUSE(SYS_unshare),     REFUSE(SYS_keyctl),
        REFUSE(idle),                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0)) return perror("seccomp"), 3;
    execv(words[2], words + 2);
    return perror(words[2]), 3;
}
