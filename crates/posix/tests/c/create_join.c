// Ten thousand threads with thread-local storage and switches; prints a sum and how many kernel threads there were.
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

enum { N = 10000 };
static __thread long mine;

static void *body(void *argument) {
    mine = (long)argument;
    for (int i = 0; i < 10; i++) sched_yield();
    return (void *)(mine * 2);
}

static int kernel_threads(void) {
    DIR *tasks = opendir("/proc/self/task");
    int count = -2; // "." and ".."
    while (readdir(tasks)) count++;
    closedir(tasks);
    return count;
}

int main(void) {
    static pthread_t threads[N];
    long sum = 0;
    for (long i = 0; i < N; i++)
        if (pthread_create(&threads[i], NULL, body, (void *)i) != 0) return 1;
    int kernel = kernel_threads();
    for (int i = 0; i < N; i++) {
        void *result;
        if (pthread_join(threads[i], &result) != 0) return 2;
        sum += (long)result;
    }
    printf("%ld %d\n", sum, kernel);
    return 0;
}
