// The child of a thread's fork is the thread's: it may be traced by it, waited for by it alone, and dies with it.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int ends[2];

static void *traces(void *by_number) {
    int status = 0;
    pid_t child = by_number ? syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execl("/bin/true", "true", NULL);
        _exit(9);
    }
    usleep(20000);
    pid_t waited = waitpid(child, &status, __WALL);
    printf("its own %d, stopped %d by %d\n", waited == child, WIFSTOPPED(status), WSTOPSIG(status));
    printf("goes on %ld\n", ptrace(PTRACE_CONT, child, 0, 0));
    waitpid(child, &status, 0);
    printf("ended with %d\n", WEXITSTATUS(status));
    child = fork();
    if (child == 0) _exit(6);
    waited = waitpid(child, &status, __WNOTHREAD);
    printf("of this thread %d: %d\n", waited == child, WEXITSTATUS(status));
    return NULL;
}

static void *ends_before_its_child(void *ignored) {
    if (fork() == 0) {
        char byte;
        int other[2];
        close(ends[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (write(ends[1], "lives", 5) != 5 || pipe(other) != 0) _exit(1);
        read(other[0], &byte, 1);
        _exit(0);
    }
    // Until it is to die with this thread.
    char text[5];
    if (read(ends[0], text, 5) != 5) return NULL;
    return ignored;
}

static void *no_thing(void *ignored) { return ignored; }

static void run(void *(*code)(void *), void *argument) {
    pthread_t thread;
    pthread_create(&thread, NULL, code, argument);
    pthread_join(thread, NULL);
}

int main(void) {
    char byte;
    setvbuf(stdout, NULL, _IONBF, 0);
    run(traces, NULL);
    run(traces, ends);
    if (pipe(ends) != 0) return 1;
    pthread_t thread;
    pthread_create(&thread, NULL, ends_before_its_child, NULL);
    for (int i = 0; i < 20; i++) run(no_thing, NULL);
    pthread_join(thread, NULL);
    close(ends[1]);
    // The end of the file: the child, which has the other end, is dead.
    if (read(ends[0], &byte, 1) == 0) puts("and died");
    return 0;
}
