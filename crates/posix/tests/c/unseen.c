// Threads that block in the kernel where nothing tells the runtime. While one does, another thread runs, with one processor for both: it sees the kernel
// thread of the first blocked, and only then ends the block. The same natively. Arguments: kinds, or all.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <resolv.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// Past the library, which takes the C library's `syscall` over.
static long raw(long number, long a, long b, long c, long d) {
#ifdef __x86_64__
    long answer;
    register long r10 __asm__("r10") = d;
    __asm__ volatile("syscall" : "=a"(answer) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
    return answer;
#else
    long answer = syscall(number, a, b, c, d, 0, 0);
    return answer < 0 ? -errno : answer;
#endif
}

// The kernel's number of the kernel thread that is about to block; a pipe, and what else a kind needs.
static volatile int task;
static int ends[2];
static void about_to_block(void) { task = raw(SYS_gettid, 0, 0, 0, 0); }

// The state that /proc tells of it: S, D or t.
static char state(void) {
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", task);
    FILE *file = fopen(path, "r");
    if (!file) return '?';
    if (!fgets(line, sizeof line, file)) line[0] = 0;
    fclose(file);
    char *end = strrchr(line, ')');
    return end ? end[2] : '?';
}
static void until_blocked(void) {
    while (!task || !strchr("SDt", state())) sched_yield();
}

// Each kind: what the first thread does, and what the second does then.
static long raw_read(void) { char c; return raw(SYS_read, ends[0], (long)&c, 1, 0); }
static void write_one(void) { if (write(ends[1], "x\n", 2) != 2) abort(); }

static long stdio(void) {
    char line[8];
    FILE *file = fdopen(dup(ends[0]), "r");
    long got = fgets(line, sizeof line, file) ? strlen(line) : -1;
    fclose(file);
    return got;
}

static int locked[2];
static void flock_begin(void) {
    char path[32];
    locked[0] = dup(fileno(tmpfile()));
    snprintf(path, sizeof path, "/proc/self/fd/%d", locked[0]);
    locked[1] = open(path, O_RDWR);
    if (flock(locked[0], LOCK_EX)) abort();
}
static long flock_waits(void) { return flock(locked[1], LOCK_EX); }
static void flock_ends(void) { flock(locked[0], LOCK_UN); }

static long lock_waits(void) {
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return raw(SYS_fcntl, locked[1], F_OFD_SETLKW, (long)&range, 0);
}
static void lock_begin(void) {
    flock_begin();
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(locked[0], F_OFD_SETLK, &range)) abort();
}
static void lock_ends(void) {
    struct flock range = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    fcntl(locked[0], F_OFD_SETLK, &range);
}

static int set;
static void semop_begin(void) { set = semget(IPC_PRIVATE, 1, 0600); }
static long semop_waits(void) { struct sembuf take = {0, -1, 0}; return semop(set, &take, 1); }
static void semop_ends(void) { struct sembuf give = {0, 1, 0}; if (semop(set, &give, 1)) abort(); }
static void semop_end(void) { semctl(set, 0, IPC_RMID); }

static int word;
static void futex_begin(void) { word = 0; }
static long futex_waits(void) {
    long answer;
    do answer = raw(SYS_futex, (long)&word, FUTEX_WAIT, 0, 0); while (!__atomic_load_n(&word, __ATOMIC_SEQ_CST));
    return answer == 0 || answer == -EAGAIN ? 0 : answer;
}
static void futex_ends(void) {
    __atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
    raw(SYS_futex, (long)&word, FUTEX_WAKE, 1, 0);
}

static char fifo[64];
static void fifo_begin(void) {
    snprintf(fifo, sizeof fifo, "/tmp/unseen-fifo-%d", getpid());
    if (mkfifo(fifo, 0600)) abort();
}
static long fifo_waits(void) { int fd = open(fifo, O_RDONLY); close(fd); return fd < 0 ? -errno : 0; }
static void fifo_ends(void) { close(open(fifo, O_WRONLY)); }
static void fifo_end(void) { unlink(fifo); }

static long vfork_waits(void) {
    pid_t child = vfork();
    if (child == 0) {
        char c;
        // The child has the parent's memory: the first thread goes on when it ends.
        _exit(raw(SYS_read, ends[0], (long)&c, 1, 0) == 1 ? 7 : 8);
    }
    int status;
    if (waitpid(child, &status, 0) != child) return -errno;
    return WEXITSTATUS(status);
}

static pid_t child;
static void wait_begin(void) {
    child = fork();
    if (child == 0) {
        char c;
        _exit(read(ends[0], &c, 1) == 1 ? 0 : 1);
    }
}
static long wait_waits(void) { int status = -1; return raw(SYS_wait4, child, (long)&status, 0, 0) == child ? status : -1; }

// A page of a mapped file that is not there until somebody brings it.
static int faults;
static char *page;
static long size;
static const char *fault_lacks(void) {
    size = sysconf(_SC_PAGESIZE);
    faults = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (faults < 0) return "userfaultfd is refused";
    struct uffdio_api api = {.api = UFFD_API};
    int memory = memfd_create("unseen", 0);
    if (ioctl(faults, UFFDIO_API, &api) || ftruncate(memory, size)) return "userfaultfd is of another kind";
    page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    close(memory);
    struct uffdio_register range = {.range = {(unsigned long)page, size}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    return ioctl(faults, UFFDIO_REGISTER, &range) ? "userfaultfd knows no mapped files" : NULL;
}
static long fault_waits(void) { return *(volatile char *)page; }
static void fault_ends(void) {
    char *content = aligned_alloc(size, size);
    memset(content, 42, size);
    struct uffdio_copy copy = {.dst = (unsigned long)page, .src = (unsigned long)content, .len = size};
    if (ioctl(faults, UFFDIO_COPY, &copy)) abort();
    free(content);
}
static void fault_end(void) { munmap(page, size); close(faults); }

// A name server that answers late.
static int server, client_port;
static void name_begin(void) {
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof here;
    server = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(server, (struct sockaddr *)&here, sizeof here) || getsockname(server, (struct sockaddr *)&here, &length)) abort();
    client_port = here.sin_port;
}
static long name_waits(void) {
    res_init();
    _res.nscount = 1;
    _res.retrans = 1000;
    _res.nsaddr_list[0] = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = client_port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct addrinfo *found, hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    int error = getaddrinfo("late.example.", NULL, &hints, &found);
    if (error) return -error;
    long last = ntohl(((struct sockaddr_in *)found->ai_addr)->sin_addr.s_addr) & 255;
    freeaddrinfo(found);
    return last;
}
static void name_ends(void) {
    static const unsigned char answer[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 5};
    unsigned char query[512];
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    long got = recvfrom(server, query, sizeof query - sizeof answer, 0, (struct sockaddr *)&from, &length);
    // Its question ends behind the name, with type and class; what stands behind that is left out.
    long at = 12;
    while (at < got && query[at]) at += query[at] + 1;
    at += 5;
    query[2] |= 0x80, query[3] = 0x80, query[7] = 1, query[11] = 0;
    memcpy(query + at, answer, sizeof answer);
    if (sendto(server, query, at + sizeof answer, 0, (struct sockaddr *)&from, length) < 0) abort();
}
static void name_end(void) { close(server); }

// One that a debugger has stopped while it computes.
static volatile int go_on;
static int tracer[2];
static const char *traced_lacks(void) {
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    go_on = 0;
    if (pipe(tracer)) abort();
    return NULL;
}
static long traced_waits(void) {
    while (!go_on) {}
    return go_on;
}
static long trace(void) {
    if (ptrace(PTRACE_SEIZE, task, 0, 0)) return errno;
    if (ptrace(PTRACE_INTERRUPT, task, 0, 0)) return errno;
    int status;
    if (waitpid(task, &status, __WALL) != task) return errno;
    char c;
    if (raw(SYS_read, ends[0], (long)&c, 1, 0) != 1) return EIO;
    return ptrace(PTRACE_DETACH, task, 0, 0) ? errno : 0;
}
static int traced_status;
static void traced_ends(void);

struct kind {
    const char *name;
    long (*waits)(void);
    void (*ends)(void);
    void (*begin)(void);
    void (*end)(void);
    const char *(*lacks)(void);
    int computes;
};
static const struct kind kinds[] = {
    {"fault", fault_waits, fault_ends, NULL, fault_end, fault_lacks, 0},
    {"flock", flock_waits, flock_ends, flock_begin, NULL, NULL, 0},
    {"range", lock_waits, lock_ends, lock_begin, NULL, NULL, 0},
    {"fgets", stdio, write_one, NULL, NULL, NULL, 0},
    {"name", name_waits, name_ends, name_begin, name_end, NULL, 0},
    {"semop", semop_waits, semop_ends, semop_begin, semop_end, NULL, 0},
    {"fifo", fifo_waits, fifo_ends, fifo_begin, fifo_end, NULL, 0},
    {"vfork", vfork_waits, write_one, NULL, NULL, NULL, 0},
    {"wait", wait_waits, write_one, wait_begin, NULL, NULL, 0},
    {"futex", futex_waits, futex_ends, futex_begin, NULL, NULL, 0},
    {"read", raw_read, write_one, NULL, NULL, NULL, 0},
    {"traced", traced_waits, traced_ends, NULL, NULL, traced_lacks, 1},
};
static const struct kind *now;

static void traced_ends(void) {
    // The one that computes is not blocked yet: its debugger is a process of its own.
    pid_t debugger = fork();
    if (debugger == 0) _exit(trace());
    int status = 0;
    while (state() != 't' && waitpid(debugger, &status, WNOHANG) == 0) sched_yield();
    if (state() == 't') {
        write_one();
        waitpid(debugger, &status, 0);
    }
    traced_status = WEXITSTATUS(status);
    go_on = 1;
}

static void *first(void *unused) {
    about_to_block();
    return (void *)now->waits();
}
static void *second(void *unused) {
    if (now->computes) while (!task) sched_yield();
    else until_blocked();
    now->ends();
    return NULL;
}
static void one(const struct kind *kind) {
    now = kind, task = 0;
    if (pipe(ends)) abort();
    const char *lacks = kind->lacks ? kind->lacks() : NULL;
    if (lacks) {
        printf("%s: %s\n", kind->name, lacks);
        return;
    }
    if (kind->begin) kind->begin();
    pthread_t threads[2];
    void *result;
    pthread_create(&threads[0], NULL, first, NULL);
    pthread_create(&threads[1], NULL, second, NULL);
    pthread_join(threads[1], NULL);
    pthread_join(threads[0], &result);
    if (kind->end) kind->end();
    close(ends[0]), close(ends[1]);
    printf("%s: %ld%s\n", kind->name, (long)result, kind->computes && traced_status ? ", ptrace is refused" : "");
    fflush(stdout);
}
int main(int count, char **names) {
    for (unsigned at = 0; at < sizeof kinds / sizeof *kinds; at++) {
        int wanted = count == 1;
        for (int name = 1; name < count; name++) wanted |= !strcmp(names[name], kinds[at].name);
        if (wanted) one(&kinds[at]);
    }
}
