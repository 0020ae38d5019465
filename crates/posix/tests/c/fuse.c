// A file system of threads that answer at /dev/fuse, where each write is a message: `unable` where nobody may mount one.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 1 << 18, THREADS = 3 };
static int device;

static unsigned char at(unsigned long offset) {
    return (unsigned char)(offset * 7 + offset / 251);
}

static struct fuse_attr attributes(unsigned long node) {
    return (struct fuse_attr){.ino = node, .size = node == 1 ? 0 : SIZE, .mode = node == 1 ? S_IFDIR | 0755 : S_IFREG | 0644, .nlink = 1, .blksize = 4096};
}

static void answer(unsigned long unique, int error, const void *data, size_t length, const void *more, size_t rest) {
    struct fuse_out_header header = {.len = sizeof header + length + rest, .error = error, .unique = unique};
    struct iovec parts[] = {{&header, sizeof header}, {(void *)data, length}, {(void *)more, rest}};
    ssize_t done = writev(device, parts, 3);
    if (done != (ssize_t)header.len && errno != ENOENT && errno != ENODEV) printf("answered %zd of %u: %d\n", done, header.len, errno);
}

static void *serves(void *unused) {
    char *buffer = malloc(SIZE + 65536), *data = malloc(SIZE);
    for (;;) {
        ssize_t length = read(device, buffer, SIZE + 65536);
        if (length < 0 && errno == ENODEV) break;
        if (length < (ssize_t)sizeof(struct fuse_in_header)) continue;
        struct fuse_in_header *header = (void *)buffer;
        void *argument = header + 1;
        switch (header->opcode) {
        case FUSE_INIT: {
            struct fuse_init_in *in = argument;
            struct fuse_init_out out = {.major = 7, .minor = in->minor < 31 ? in->minor : 31, .max_readahead = 65536, .max_write = 65536};
            answer(header->unique, 0, &out, sizeof out, NULL, 0);
            break;
        }
        case FUSE_LOOKUP: {
            struct fuse_entry_out out = {.nodeid = 2, .attr_valid = 100, .entry_valid = 100, .attr = attributes(2)};
            answer(header->unique, 0, &out, sizeof out, NULL, 0);
            break;
        }
        case FUSE_GETATTR: {
            struct fuse_attr_out out = {.attr_valid = 100, .attr = attributes(header->nodeid)};
            answer(header->unique, 0, &out, sizeof out, NULL, 0);
            break;
        }
        case FUSE_OPEN: {
            struct fuse_open_out out = {.open_flags = FOPEN_DIRECT_IO};
            answer(header->unique, 0, &out, sizeof out, NULL, 0);
            break;
        }
        case FUSE_READ: {
            struct fuse_read_in *in = argument;
            unsigned long from = in->offset < SIZE ? in->offset : SIZE, count = in->size < SIZE - from ? in->size : SIZE - from;
            for (unsigned long i = 0; i < count; i++) data[i] = (char)at(from + i);
            answer(header->unique, 0, data, count / 2, data + count / 2, count - count / 2);
            break;
        }
        case FUSE_FORGET:
        case FUSE_BATCH_FORGET:
        case FUSE_INTERRUPT: break;
        default: answer(header->unique, header->opcode == FUSE_RELEASE || header->opcode == FUSE_FLUSH ? 0 : -ENOSYS, NULL, 0, NULL, 0);
        }
    }
    free(buffer);
    free(data);
    return unused;
}

int main(void) {
    char where[100], options[100], file[200];
    snprintf(where, sizeof where, "/tmp/raddle-fuse-%d", getpid());
    setvbuf(stdout, NULL, _IOLBF, 0);
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (device < 0 || unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 || mkdir(where, 0700) != 0) {
        puts("unable");
        return 0;
    }
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", device);
    if (mount("test", where, "fuse.test", MS_NOSUID | MS_NODEV, options) != 0) {
        rmdir(where);
        puts("unable");
        return 0;
    }
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, serves, NULL);
    // Who reads is a process of its own: it may not hold up those that answer.
    snprintf(file, sizeof file, "%s/file", where);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        static unsigned char data[SIZE + 1];
        int opened = open(file, O_RDONLY), wrong = 0;
        size_t all = 0;
        ssize_t got;
        while ((got = read(opened, data + all, 50000)) > 0 && (all += got) < SIZE) {}
        for (size_t i = 0; i < all; i++) wrong += data[i] != at(i);
        printf("read %zu, wrong %d, error %d\n", all, wrong, got < 0 ? errno : 0);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    umount2(where, MNT_DETACH);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    rmdir(where);
    puts("ended");
    return 0;
}
