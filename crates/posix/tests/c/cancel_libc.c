// Cancellation of threads that wait inside the C library, or in calls that are the kernel's: while they wait, with a request that was there before, and
// while cancellation is disabled (then none ends). Cleanup handlers run once, locks of streams are released. The same natively.
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <syslog.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static int empty[2], idle[2], full[2], pair[2], queue, full_queue, sets, null, terminal;
static mqd_t messages, full_messages;
static char fifo[128], file[128];
static FILE *in, *out;
static sigset_t user;
static pid_t sleeper;
static int holder;
static struct timespec hour(void) { return (struct timespec){time(NULL) + 3600, 0}; }
static long ignored;
#define IGNORE(call) (ignored = (long)(call))

static void fgets_(void) { char b[9]; IGNORE(fgets(b, 9, in)); }
static void getline_(void) { char *l = NULL; size_t n = 0; IGNORE(getline(&l, &n, in)); }
static void getdelim_(void) { char *l = NULL; size_t n = 0; IGNORE(getdelim(&l, &n, ':', in)); }
static void getc_(void) { IGNORE(getc(in)); }
static void fread_(void) { char b[9]; IGNORE(fread(b, 1, 9, in)); }
static void fscanf_(void) { char b[9]; IGNORE(fscanf(in, "%8s", b)); }
static void fputs_(void) { static char b[1 << 18]; memset(b, 'x', sizeof b - 1); IGNORE(fputs(b, out)); IGNORE(fflush(out)); }
static void system_(void) { IGNORE(system("exec sleep 3 >/dev/null 2>&1")); }
static void popen_(void) { char b[9]; FILE *f = popen("exec sleep 1 2>/dev/null", "r"); while (fgets(b, 9, f)) {} pclose(f); for (;;) pause(); }
static void wait_(void) { for (;;) IGNORE(wait(NULL)); }
static void wait4_(void) { IGNORE(wait4(sleeper, NULL, 0, NULL)); }
static void waitid_(void) { siginfo_t i; IGNORE(waitid(P_ALL, 0, &i, WEXITED)); }
static void open_(void) { IGNORE(open(fifo, O_RDONLY)); }
static void openat_(void) { IGNORE(openat(AT_FDCWD, fifo, O_WRONLY)); }
static void creat_(void) { IGNORE(creat(fifo, 0600)); }
static void fopen_(void) { IGNORE(fopen(fifo, "r")); }
struct message { long type; char text[8]; };
static void msgrcv_(void) { struct message m; IGNORE(msgrcv(queue, &m, 8, 0, 0)); }
static void msgsnd_(void) { struct message m = {1, "1234567"}; for (;;) IGNORE(msgsnd(full_queue, &m, 8, 0)); }
static void mq_receive_(void) { char b[64]; IGNORE(mq_receive(messages, b, 64, NULL)); }
static void mq_timedreceive_(void) { char b[64]; struct timespec t = hour(); IGNORE(mq_timedreceive(messages, b, 64, NULL, &t)); }
static void mq_send_(void) { for (;;) IGNORE(mq_send(full_messages, "x", 1, 0)); }
static void mq_timedsend_(void) { struct timespec t = hour(); for (;;) IGNORE(mq_timedsend(full_messages, "x", 1, 0, &t)); }
static void setlkw_(void) { struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET}; IGNORE(fcntl(open(file, O_RDWR), F_OFD_SETLKW, &l)); }
static void lockf_(void) { IGNORE(lockf(open(file, O_RDWR), F_LOCK, 0)); }
static struct aiocb block(void) { static char b; return (struct aiocb){.aio_fildes = idle[0], .aio_buf = &b, .aio_nbytes = 1, .aio_sigevent.sigev_notify = SIGEV_NONE, .aio_lio_opcode = LIO_READ}; }
static void aio_suspend_(void) { static struct aiocb c; c = block(); aio_read(&c); const struct aiocb *l[] = {&c}; IGNORE(aio_suspend(l, 1, NULL)); }
static void preadv2_(void) { char b; struct iovec v = {&b, 1}; IGNORE(preadv2(empty[0], &v, 1, -1, 0)); }
static void pwritev2_(void) { static char b[1 << 18]; struct iovec v = {b, sizeof b}; for (;;) IGNORE(pwritev2(full[1], &v, 1, -1, 0)); }
static void splice_(void) { IGNORE(splice(empty[0], NULL, null, NULL, 10, 0)); }
static void tee_(void) { IGNORE(tee(empty[0], full[1], 10, 0)); }
static void vmsplice_(void) { static char b[1 << 18]; struct iovec v = {b, sizeof b}; for (;;) IGNORE(vmsplice(full[1], &v, 1, 0)); }
static void recvmmsg_(void) { char b; struct iovec v = {&b, 1}; struct mmsghdr m = {{.msg_iov = &v, .msg_iovlen = 1}, 0}; IGNORE(recvmmsg(pair[0], &m, 1, 0, NULL)); }
static void sendmmsg_(void) { static char b[1 << 16]; struct iovec v = {b, sizeof b}; struct mmsghdr m = {{.msg_iov = &v, .msg_iovlen = 1}, 0}; for (;;) IGNORE(sendmmsg(pair[0], &m, 1, 0)); }
static void sigwait_(void) { int s; IGNORE(sigwait(&user, &s)); }
static void sigwaitinfo_(void) { IGNORE(sigwaitinfo(&user, NULL)); }
static void sigtimedwait_(void) { struct timespec t = {3600, 0}; IGNORE(sigtimedwait(&user, NULL, &t)); }
static void pause_(void) { pause(); }
static void sigsuspend_(void) { sigset_t s; sigemptyset(&s); sigsuspend(&s); }
int __xpg_sigpause(int signal);
static void sigpause_(void) { __xpg_sigpause(SIGUSR2); }
static void poll_(void) { struct pollfd p = {empty[0], POLLIN, 0}; IGNORE(poll(&p, 1, -1)); }
static void pselect_(void) { fd_set s; FD_ZERO(&s); FD_SET(empty[0], &s); IGNORE(pselect(empty[0] + 1, &s, NULL, NULL, NULL, NULL)); }
static void epoll_(void) { struct epoll_event e; IGNORE(epoll_pwait(sets, &e, 1, -1, NULL)); }
static void fsync_(void) { int f = open(file, O_RDWR); pthread_testcancel(); fsync(f); }
static void syslog_(void) { syslog(LOG_DEBUG, "nothing"); }
static void tcdrain_(void) { tcdrain(terminal); }
static void close_(void) { close(dup(null)); }
static void kernel_pause(void) { pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL); syscall(SYS_ppoll, 0, 0, 0, 0, 0); }
static void bare_pause(void) {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
#ifdef __x86_64__
    long r;
    __asm__ volatile("syscall" : "=a"(r) : "a"(SYS_pause) : "rcx", "r11", "memory");
#else
    syscall(SYS_ppoll, 0, 0, 0, 0, 0);
#endif
}
static void computes(void) { pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL); for (volatile long n = 0;; n++) {} }
static void computes_in_libc(void) { static char a[1 << 20], b[1 << 20]; pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL); for (;;) memcpy(a, b, sizeof a); }

enum { WAITS = 1, BEFORE = 2 };
static const struct { const char *name; void (*call)(void); int modes; FILE **stream; } calls[] = {
    {"fgets", fgets_, 3, &in}, {"getline", getline_, 3, &in}, {"getdelim", getdelim_, 3, &in}, {"getc", getc_, 3, &in}, {"fread", fread_, 3, &in},
    {"fscanf", fscanf_, 3, &in}, {"fputs", fputs_, 3, &out}, {"system", system_, 3, 0}, {"popen", popen_, 3, 0}, {"wait", wait_, 3, 0},
    {"wait4", wait4_, 3, 0}, {"waitid", waitid_, 3, 0}, {"open", open_, 3, 0}, {"openat", openat_, 3, 0}, {"creat", creat_, 3, 0}, {"fopen", fopen_, 3, 0},
    {"msgrcv", msgrcv_, 3, 0}, {"msgsnd", msgsnd_, 3, 0}, {"mq_receive", mq_receive_, 3, 0}, {"mq_timedreceive", mq_timedreceive_, 3, 0},
    {"mq_send", mq_send_, 3, 0}, {"mq_timedsend", mq_timedsend_, 3, 0}, {"F_OFD_SETLKW", setlkw_, 3, 0}, {"lockf", lockf_, 3, 0},
    {"aio_suspend", aio_suspend_, 1, 0}, {"preadv2", preadv2_, 3, 0}, {"pwritev2", pwritev2_, 3, 0},
    {"splice", splice_, 3, 0}, {"tee", tee_, 3, 0}, {"vmsplice", vmsplice_, 3, 0}, {"recvmmsg", recvmmsg_, 3, 0}, {"sendmmsg", sendmmsg_, 3, 0},
    {"sigwait", sigwait_, 3, 0}, {"sigwaitinfo", sigwaitinfo_, 3, 0}, {"sigtimedwait", sigtimedwait_, 3, 0}, {"pause", pause_, 3, 0},
    {"sigsuspend", sigsuspend_, 3, 0}, {"sigpause", sigpause_, 3, 0}, {"poll", poll_, 3, 0}, {"pselect", pselect_, 3, 0}, {"epoll_pwait", epoll_, 3, 0},
    {"fsync", fsync_, 2, 0}, {"syslog", syslog_, 2, 0}, {"tcdrain", tcdrain_, 2, 0}, {"close", close_, 2, 0},
    {"syscall, asynchronous", kernel_pause, 3, 0}, {"pause past libc, asynchronous", bare_pause, 3, 0}, {"loop, asynchronous", computes, 3, 0},
    {"memcpy, asynchronous", computes_in_libc, 3, 0},
};
enum { COUNT = sizeof calls / sizeof *calls };

static int cleaned;
static sem_t ready, go;
static void clean(void *unused) { cleaned++; }
struct work { int call, mode; };
static void *work(void *argument) {
    struct work *w = argument;
    pthread_cleanup_push(clean, NULL);
    if (w->mode == BEFORE) {
        int old;
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
        sem_post(&ready);
        sem_wait(&go);
        pthread_setcancelstate(old, NULL);
    } else {
        sem_post(&ready);
    }
    calls[w->call].call();
    pthread_cleanup_pop(0);
    return NULL;
}
static void run(int call, int mode) {
    struct work w = {call, mode};
    pthread_t thread;
    cleaned = 0;
    pthread_create(&thread, NULL, work, &w);
    sem_wait(&ready);
    if (mode == WAITS) usleep(10000);
    pthread_cancel(thread);
    if (mode == BEFORE) sem_post(&go);
    struct timespec end = {time(NULL) + 100, 0};
    void *result = NULL;
    int error = pthread_timedjoin_np(thread, &result, &end);
    const char *lock = "";
    if (!error && calls[call].stream) {
        if (ftrylockfile(*calls[call].stream)) lock = ", its stream stays locked";
        else funlockfile(*calls[call].stream);
    }
    printf("%s, %s: %s, cleaned %d%s\n", calls[call].name, mode == WAITS ? "waiting" : "before", error ? "NOT CANCELLED" : result == PTHREAD_CANCELED ? "cancelled" : "returned", cleaned, lock);
    if (error) fflush(stdout), _exit(1);
}

// Disabled: none of these ends before what it waits for has come.
static int went_on;
static void *disabled(void *unused) {
    char byte;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    sem_post(&ready);
    FILE *stream = fdopen(dup(empty[0]), "r");
    int got = getc(stream);
    struct message m;
    ssize_t size = msgrcv(queue, &m, 8, 0, 0);
    ssize_t bytes = preadv2(empty[0], &(struct iovec){&byte, 1}, 1, -1, 0);
    int status = system("exit 7");
    printf("disabled: %c, %zd, %zd, %d\n", got, size, bytes, WEXITSTATUS(status));
    went_on = 1;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    getc(stream);
    return NULL;
}

// In a handler: the wait of the handler ends, and the thread with it.
static volatile int inside;
static void handler(int signal) { char byte; inside = 1; IGNORE(read(empty[0], &byte, 1)); inside = 2; }
static void stdio_handler(int signal) { inside = 1; getc(in); inside = 2; }
static void poll_handler(int signal) { struct pollfd p = {empty[0], POLLIN, 0}; inside = 1; poll(&p, 1, -1); inside = 2; }
static void sleep_handler(int signal) { inside = 1; sleep(1000); inside = 2; }
static void pause_handler(int signal) { inside = 1; pause(); inside = 2; }
static void *interrupted(void *how) {
    char byte;
    pthread_cleanup_push(clean, NULL);
    sem_post(&ready);
    if (how) IGNORE(read(pair[1], &byte, 1));
    else while (!inside) {}
    for (;;) pause();
    pthread_cleanup_pop(0);
    return NULL;
}
static void in_handlers(void) {
    void (*handlers[])(int) = {handler, stdio_handler, poll_handler, sleep_handler, pause_handler};
    for (int kind = 0; kind < 5; kind++) for (long how = 0; how < 2; how++) {
        signal(SIGHUP, handlers[kind]);
        pthread_t thread;
        inside = cleaned = 0;
        pthread_create(&thread, NULL, interrupted, (void *)how);
        sem_wait(&ready);
        usleep(10000);
        pthread_kill(thread, SIGHUP);
        while (!inside) usleep(1000);
        usleep(10000);
        pthread_cancel(thread);
        struct timespec end = {time(NULL) + 100, 0};
        void *result = NULL;
        int error = pthread_timedjoin_np(thread, &result, &end);
        printf("handler %d of one that %s: %s, cleaned %d, left %d\n", kind, how ? "waits" : "computes", error ? "NOT CANCELLED" : result == PTHREAD_CANCELED ? "cancelled" : "returned", cleaned, inside == 2);
        if (error) fflush(stdout), _exit(1);
    }
}

int main(void) {
    setlinebuf(stdout);
    alarm(600);
    snprintf(fifo, sizeof fifo, "/tmp/raddle-cancel-fifo-%d", getpid());
    snprintf(file, sizeof file, "/tmp/raddle-cancel-file-%d", getpid());
    sem_init(&ready, 0, 0), sem_init(&go, 0, 0);
    sigemptyset(&user), sigaddset(&user, SIGUSR1);
    signal(SIGPIPE, SIG_IGN);
    pthread_sigmask(SIG_BLOCK, &user, NULL);
    int other;
    IGNORE(pipe(empty) || pipe(idle) || pipe(full) || socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) || mkfifo(fifo, 0600) || openpty(&other, &terminal, NULL, NULL, NULL));
    fcntl(full[1], F_SETFL, O_NONBLOCK);
    char some[4096] = "";
    while (write(full[1], some, sizeof some) > 0) {}
    fcntl(full[1], F_SETFL, 0);
    null = open("/dev/null", O_WRONLY);
    queue = msgget(IPC_PRIVATE, 0600), full_queue = msgget(IPC_PRIVATE, 0600);
    char name[64];
    snprintf(name, sizeof name, "/raddle-cancel-%d", getpid());
    struct mq_attr attributes = {.mq_maxmsg = 1, .mq_msgsize = 64};
    messages = mq_open(name, O_CREAT | O_RDWR, 0600, &attributes), mq_unlink(name);
    full_messages = mq_open(name, O_CREAT | O_RDWR, 0600, &attributes), mq_unlink(name);
    sets = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(sets, EPOLL_CTL_ADD, empty[0], &event);
    in = fdopen(dup(empty[0]), "r"), out = fdopen(dup(full[1]), "w");
    holder = open(file, O_CREAT | O_RDWR, 0600);
    if (!(sleeper = fork())) {
        // Holds the file for `lockf`, which knows processes only.
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        IGNORE(lockf(holder, F_LOCK, 0));
        for (;;) pause();
    }
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    do lock.l_type = F_WRLCK, lock.l_pid = 0, IGNORE(fcntl(holder, F_GETLK, &lock)); while (lock.l_type == F_UNLCK && !usleep(1000));
    for (int call = 0; call < COUNT; call++) for (int mode = WAITS; mode <= BEFORE; mode++) if (calls[call].modes & mode) run(call, mode);
    in_handlers();
    pthread_t thread;
    pthread_create(&thread, NULL, disabled, NULL);
    sem_wait(&ready);
    struct message m = {1, "1234567"};
    pthread_cancel(thread);
    usleep(20000), IGNORE(write(empty[1], "ab", 1));
    usleep(20000), msgsnd(queue, &m, 5, 0);
    usleep(20000), IGNORE(write(empty[1], "b", 1));
    void *result;
    pthread_join(thread, &result);
    printf("went on %d, then %s\n", went_on, result == PTHREAD_CANCELED ? "cancelled" : "returned");
    kill(sleeper, SIGKILL);
    msgctl(queue, IPC_RMID, NULL), msgctl(full_queue, IPC_RMID, NULL);
    unlink(fifo), unlink(file);
    // Nobody takes what is left in the streams.
    fflush(stdout);
    _exit(0);
}
