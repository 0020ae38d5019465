// The first thread asks for one processor and for a memory policy, as libraries do to try them, and takes back what it had: whoever it creates then is what
// others are. Prints each time whether so many waiting threads have a kernel thread each.
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_barrier_t together;

static int kernel_threads(void) {
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) count += task->d_name[0] != '.';
    closedir(tasks);
    return count;
}

static void *waits(void *argument) {
    pthread_barrier_wait(&together);
    pthread_barrier_wait(&together);
    return argument;
}

static int first_of(const cpu_set_t *set) {
    int first = 0;
    while (!CPU_ISSET(first, set)) first++;
    return first;
}

// Whether so many waiting threads have a kernel thread each.
static int have_their_own(int threads) {
    pthread_t *ids = malloc(threads * sizeof *ids);
    pthread_barrier_init(&together, NULL, threads + 1);
    for (int i = 0; i < threads; i++)
        if (pthread_create(ids + i, NULL, waits, NULL) != 0) exit(1);
    pthread_barrier_wait(&together);
    int count = kernel_threads();
    pthread_barrier_wait(&together);
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    free(ids);
    return count > threads;
}

int main(int count, char **values) {
    int threads = count > 1 ? atoi(values[1]) : 100;
    cpu_set_t all, one;
    long policy[2] = {1, 0};
    printf("at first: %d\n", have_their_own(threads));
    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&one);
    CPU_SET(first_of(&all), &one);
    sched_setaffinity(0, sizeof one, &one);
    // A sandbox may refuse the policy, and there may be one processor.
    int set = syscall(SYS_set_mempolicy, 1 /* MPOL_PREFERRED */, policy, 64) == 0;
    printf("with them as told: %d\n", have_their_own(threads) == (set || CPU_COUNT(&all) > 1));
    sched_setaffinity(0, sizeof all, &all);
    printf("with one of them as told: %d\n", have_their_own(threads) == set);
    syscall(SYS_set_mempolicy, 0 /* MPOL_DEFAULT */, NULL, 0);
    printf("without: %d\n", have_their_own(threads));
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
    pthread_setaffinity_np(pthread_self(), sizeof all, &all);
    printf("by its name: %d\n", have_their_own(threads));
    return 0;
}
