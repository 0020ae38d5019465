// refused [EXTRA...]: threads that block where nothing tells the library, beside others, while something happens to the process: nothing is lost.
//   traced    a debugger attaches to each kernel thread and lets go of it, again and again
//   stopped   the process is stopped and goes on, again and again, once for so long that every clock has jumped
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SLEEPERS = 6, WORKERS = 2, ROUNDS = 15, ALL_AT_ONCE = 64 };
// Past the library.
static void nap(long microseconds) {
    struct timespec time = {0, microseconds * 1000};
#ifdef __x86_64__
    long answer;
    __asm__ volatile("syscall" : "=a"(answer) : "a"((long)SYS_nanosleep), "D"(&time), "S"(0L) : "rcx", "r11", "memory");
#else
    syscall(SYS_nanosleep, &time, NULL);
#endif
}
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long counted;
static volatile int over, happens;
static void *sleeps(void *unused) {
    long rounds = 0;
    while (rounds < ROUNDS || happens) {
        nap(3000);
        pthread_mutex_lock(&lock);
        counted++;
        pthread_mutex_unlock(&lock);
        rounds++;
    }
    return (void *)rounds;
}
static void *computes(void *unused) {
    long rounds = 0;
    while (!over) {
        for (volatile int i = 0; i < 20000; i++) {}
        pthread_mutex_lock(&lock);
        counted++;
        pthread_mutex_unlock(&lock);
        rounds++;
        sched_yield();
    }
    return (void *)rounds;
}

static int attach_to_all(pid_t process) {
    char path[32];
    pid_t stopped[ALL_AT_ONCE];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/task", process);
    DIR *tasks = opendir(path);
    if (!tasks) return 1;
    for (struct dirent *entry; count < ALL_AT_ONCE && (entry = readdir(tasks));) {
        pid_t task = atoi(entry->d_name);
        // It may have ended meanwhile.
        if (task <= 0 || ptrace(PTRACE_SEIZE, task, 0, 0)) continue;
        int status;
        if (!ptrace(PTRACE_INTERRUPT, task, 0, 0) && waitpid(task, &status, __WALL) == task && WIFSTOPPED(status)) stopped[count++] = task;
    }
    closedir(tasks);
    usleep(2000);
    for (int i = 0; i < count; i++) ptrace(PTRACE_DETACH, stopped[i], 0, 0);
    return count == 0;
}
static int trace(pid_t process) {
    int vain = 0;
    for (int i = 0; i < 25; i++) vain += attach_to_all(process), usleep(1700);
    return vain == 25;
}
static int stop(pid_t process) {
    for (int i = 0; i < 20; i++) {
        kill(process, SIGSTOP);
        usleep(i == 10 ? 1500000 : 1000 * i);
        kill(process, SIGCONT);
        usleep(3000);
    }
    return 0;
}
int main(int count, char **words) {
    if (count == 4 && !strcmp(words[1], "on")) return (!strcmp(words[2], "traced") ? trace : stop)(atoi(words[3]));
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    pid_t other = 0;
    happens = count > 1;
    if (happens) {
        char process[16];
        snprintf(process, sizeof process, "%d", getpid());
        other = fork();
        if (other == 0) {
            unsetenv("LD_PRELOAD");
            execl("/proc/self/exe", words[0], "on", words[1], process, NULL);
            _exit(127);
        }
    }
    pthread_t sleepers[SLEEPERS], workers[WORKERS];
    for (int i = 0; i < WORKERS; i++) pthread_create(&workers[i], NULL, computes, NULL);
    for (int i = 0; i < SLEEPERS; i++) pthread_create(&sleepers[i], NULL, sleeps, NULL);
    int status = 0;
    if (happens && waitpid(other, &status, 0) != other) perror("waitpid");
    if (status) printf("the other process failed: %d\n", status);
    happens = 0;
    long sum = 0;
    void *rounds;
    for (int i = 0; i < SLEEPERS; i++) pthread_join(sleepers[i], &rounds), sum += (long)rounds;
    over = 1;
    for (int i = 0; i < WORKERS; i++) pthread_join(workers[i], &rounds), sum += (long)rounds;
    printf("%ld lost\n", sum - counted);
}
