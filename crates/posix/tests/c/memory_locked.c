// All memory is locked, before the first thread or after some: what is only reserved is not taken, and threads begin and end.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            printf("line %d: %s (errno %d)\n", __LINE__, #condition, errno); \
            fflush(stdout); \
            _exit(1); \
        } \
    } while (0)

enum { COUNT = 20 };

static void *writes(void *argument) {
    char room[30000];
    memset(room, 1, sizeof room);
    free(malloc(1000));
    return (void *)(room[rand() % 100] + (long)argument - 1);
}

// Stacks of 256 KB, which are taken whole where they are locked.
static void threads(void) {
    pthread_t made[COUNT];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    for (int round = 0; round < 3; round++) {
        for (long i = 0; i < COUNT; i++) CHECK(pthread_create(&made[i], &attributes, writes, (void *)i) == 0);
        for (long i = 0; i < COUNT; i++) {
            void *result;
            CHECK(pthread_join(made[i], &result) == 0 && result == (void *)i);
        }
    }
}

// Megabytes that are in memory.
static long taken(void) {
    long all = 0, taken = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld %ld", &all, &taken) == 2);
    fclose(file);
    return taken * sysconf(_SC_PAGESIZE) >> 20;
}

// `early` or `late`; a number: by the system call. Without the right to lock nothing is to be seen.
int main(int count, char **arguments) {
    int late = count > 1 && !strcmp(arguments[1], "late"), raw = count > 2;
    if (late) threads();
    for (int flags = MCL_FUTURE; flags <= (MCL_CURRENT | MCL_FUTURE); flags++) {
        int result = raw ? syscall(SYS_mlockall, flags) : mlockall(flags);
        if (result != 0 && (errno == EPERM || errno == ENOMEM)) break;
        CHECK(result == 0);
        threads();
        CHECK(taken() < 600);
        CHECK((raw ? syscall(SYS_munlockall) : munlockall()) == 0);
        threads();
    }
    CHECK(mlockall(1000) == -1 && errno == EINVAL);
    threads();
    puts("ok");
    return 0;
}
