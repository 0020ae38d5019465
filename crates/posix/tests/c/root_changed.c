// A server that changes its root after it has begun (`chroot`), where there is no /proc: a thread that blocks in the
// kernel unseen keeps nobody from a processor. Without the right to change it, it stays.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHECK(what) ((what) ? (void)0 : (fprintf(stderr, "line %d: %s\n", __LINE__, #what), exit(1)))

static int unseen[2], seen[2];

// Not by the C library, of which the drop-in would hear.
static long reads(int descriptor, char *byte) {
#if defined __x86_64__
    long got;
    __asm__ volatile("syscall"
                     : "=a"(got)
                     : "a"((long)SYS_read), "D"((long)descriptor), "S"(byte), "d"(1L)
                     : "rcx", "r11", "memory");
    return got;
#else
    return read(descriptor, byte, 1);
#endif
}

static void *blocks(void *argument) {
    char byte;
    CHECK(write(seen[1], "x", 1) == 1);
    CHECK(reads(unseen[0], &byte) == 1);
    return argument;
}

static void *writes(void *argument) {
    char byte;
    CHECK(read(seen[0], &byte, 1) == 1);
    CHECK(write(unseen[1], "x", 1) == 1);
    return argument;
}

static void pair(void) {
    pthread_t threads[2];
    CHECK(pthread_create(&threads[0], NULL, blocks, NULL) == 0);
    CHECK(pthread_create(&threads[1], NULL, writes, NULL) == 0);
    CHECK(pthread_join(threads[0], NULL) == 0);
    CHECK(pthread_join(threads[1], NULL) == 0);
}

int main(void) {
    CHECK(pipe(unseen) == 0 && pipe(seen) == 0);
    pair();
    CHECK(chroot("/etc") == 0 ? access("/proc/self", F_OK) != 0 : errno == EPERM);
    pair();
    puts("done");
    return 0;
}
