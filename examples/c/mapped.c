// Threads that read a mapped file larger than the memory they may have, beside threads that compute.
//
//   cc -O2 -pthread -o mapped examples/c/mapped.c
//   ./mapped && raddle run ./mapped
//
// mapped [key=value…]: readers=1000 computers=8 file=256 memory=64 (MB) reads=20 (pages of each reader) way=cgroup|advice folder=.
//
// A read of a page that is not in memory blocks in the kernel, and nothing tells the library of it. With way=cgroup the
// process puts itself into a memory control group of that size, where it may make one; with way=advice, and where it may
// not, each reader has the kernel drop its page before it reads. Printed: what was done each second, and for each second
// of processor time, which is "per core used".
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static long readers = 1000, computers = 8, file_mb = 256, memory_mb = 64, reads = 20;
static const char *way = "cgroup", *folder = ".";
static int fd, advises;
static char *map;
static long page, pages, units;
static volatile int over;
static unsigned char checks[16];

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}
static int put(const char *path, const char *text) {
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0) return -1;
    long put = write(file, text, strlen(text));
    close(file);
    return put < 0 ? -1 : 0;
}

// A control group of its own: version 1, or version 2 with the controller handed down.
static char group[128];
static const char *const roots[] = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"};
static const char *const limits[] = {"memory.limit_in_bytes", "memory.max"};
static int enters_group(void) {
    for (int version = 0; version < 2; version++) {
        char path[256], number[32];
        snprintf(group, sizeof group, "%s/raddle-mapped-%d", roots[version], getpid());
        if (mkdir(group, 0755)) continue;
        snprintf(path, sizeof path, "%s/%s", group, limits[version]);
        snprintf(number, sizeof number, "%ld", memory_mb << 20);
        if (!put(path, number)) {
            snprintf(path, sizeof path, "%s/cgroup.procs", group);
            snprintf(number, sizeof number, "%d", getpid());
            if (!put(path, number)) return 1;
        }
        rmdir(group);
    }
    group[0] = 0;
    return 0;
}
static void leaves_group(void) {
    if (!group[0]) return;
    char path[256], number[32];
    snprintf(path, sizeof path, "%s/../cgroup.procs", group);
    snprintf(number, sizeof number, "%d", getpid());
    put(path, number);
    rmdir(group);
}

static void *reads_pages(void *argument) {
    unsigned long word = (long)argument * 2654435761u + 1;
    long sum = 0;
    for (long i = 0; i < reads; i++) {
        word = word * 6364136223846793005u + 1442695040888963407u;
        long at = (long)((word >> 33) % pages) * page;
        if (advises) {
            madvise(map + at, page, MADV_DONTNEED);
            posix_fadvise(fd, at, page, POSIX_FADV_DONTNEED);
        }
        sum += *(volatile unsigned char *)(map + at) != checks[at / page % sizeof checks];
    }
    return (void *)sum;
}
static void *computes(void *unused) {
    long done = 0;
    while (!over) {
        for (volatile int i = 0; i < 20000; i++) {}
        done++;
    }
    __atomic_fetch_add(&units, done, __ATOMIC_RELAXED);
    return NULL;
}
static void fails(const char *what) {
    fprintf(stderr, "mapped: %s: %s\n", what, strerror(errno));
    leaves_group();
    exit(1);
}
int main(int count, char **words) {
    struct { const char *name; long *value; } numbers[] = {
        {"readers=", &readers}, {"computers=", &computers}, {"file=", &file_mb}, {"memory=", &memory_mb}, {"reads=", &reads}};
    for (int i = 1; i < count; i++) {
        int known = 0;
        for (int n = 0; n < 5; n++)
            if (!strncmp(words[i], numbers[n].name, strlen(numbers[n].name))) known = (*numbers[n].value = atol(strchr(words[i], '=') + 1)) > 0;
        if (!strncmp(words[i], "way=", 4)) way = words[i] + 4, known = !strcmp(way, "cgroup") || !strcmp(way, "advice");
        if (!strncmp(words[i], "folder=", 7)) folder = words[i] + 7, known = 1;
        if (!known) return fprintf(stderr, "mapped: %s: see the head of mapped.c\n", words[i]), 2;
    }
    page = sysconf(_SC_PAGESIZE), pages = (file_mb << 20) / page;
    fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) fails(folder);
    char *content = malloc(page);
    for (long i = 0; i < pages; i++) {
        checks[i % sizeof checks] = i % sizeof checks + 1;
        memset(content, checks[i % sizeof checks], page);
        if (write(fd, content, page) != page) fails("write");
    }
    if (fsync(fd)) fails("fsync");
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    map = mmap(NULL, pages * page, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) fails("mmap");
    // One page each, no more.
    madvise(map, pages * page, MADV_RANDOM);
    advises = strcmp(way, "cgroup") || !enters_group();

    pthread_t *threads = calloc(readers + computers, sizeof *threads);
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    double wall = seconds(CLOCK_MONOTONIC), used = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (long i = 0; i < computers; i++)
        if (pthread_create(&threads[readers + i], NULL, computes, NULL)) fails("pthread_create");
    for (long i = 0; i < readers; i++)
        if (pthread_create(&threads[i], NULL, reads_pages, (void *)i)) fails("pthread_create");
    long wrong = 0;
    for (long i = 0; i < readers; i++) {
        void *sum;
        pthread_join(threads[i], &sum);
        wrong += (long)sum;
    }
    over = 1;
    for (long i = 0; i < computers; i++) pthread_join(threads[readers + i], NULL);
    wall = seconds(CLOCK_MONOTONIC) - wall, used = seconds(CLOCK_PROCESS_CPUTIME_ID) - used;
    getrusage(RUSAGE_SELF, &after);
    leaves_group();
    printf("%s, %ld wrong: %.2f s, %.2f s of cores; %ld cold pages; each second %.0f reads and %.0f units; per core used %.0f reads and %.0f units\n",
           advises ? "advice" : "cgroup", wrong, wall, used, after.ru_majflt - before.ru_majflt, readers * reads / wall, units / wall, readers * reads / used,
           units / used);
    return wrong != 0;
}
