// Names of threads that have a kernel thread of their own, as the kernel tells them to others (top -H, a debugger): given
// before that, after it, and by another thread.
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum { THREADS = 4 };

static pthread_barrier_t named, seen;

static void *work(void *argument) {
    const char *name = argument;
    struct sched_param parameters = {0};
    if (name[0] == 'b') pthread_setname_np(pthread_self(), name);
    // The kernel's policy is the thread's alone: it keeps the kernel thread from here on.
    if (sched_setscheduler(0, SCHED_BATCH, &parameters)) abort();
    if (name[0] == 'a') pthread_setname_np(pthread_self(), name);
    if (name[0] == 'p') prctl(PR_SET_NAME, name);
    pthread_barrier_wait(&named);
    pthread_barrier_wait(&seen);
    return NULL;
}

static int by_bytes(const void *a, const void *b) { return strcmp(a, b); }

int main(void) {
    static const char *names[THREADS] = {"before", "after", "by prctl", "-"};
    pthread_t threads[THREADS];
    char told[THREADS + 64][32];
    char program[32] = "";
    int count = 0;
    prctl(PR_GET_NAME, program);
    pthread_barrier_init(&named, NULL, THREADS + 1);
    pthread_barrier_init(&seen, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)names[i]);
    pthread_setname_np(threads[3], "fifteen bytes..");
    pthread_barrier_wait(&named);
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; (task = readdir(tasks)) && count < THREADS + 64;) {
        char path[300];
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = task->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (file == NULL) continue;
        // Of the runtime's own the names begin so; one that has just begun has the program's, as the first thread.
        int is_one = fgets(told[count], sizeof told[count], file) && strncmp(told[count], "raddle-", 7);
        if (is_one && strncmp(told[count], program, strlen(program))) count++;
        fclose(file);
    }
    closedir(tasks);
    qsort(told, count, sizeof told[0], by_bytes);
    for (int i = 0; i < count; i++) printf("%s", told[i]);
    pthread_barrier_wait(&seen);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    return 0;
}
