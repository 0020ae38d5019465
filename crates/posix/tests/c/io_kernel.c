// Threads that block in the kernel where nothing intercepts them, while others go on: each part completes, on one processor too.
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_t begin(void *(*body)(void *), void *argument) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, argument)) abort();
    return thread;
}

static void *read_line(void *argument) {
    char line[100];
    FILE *file = fdopen((int)(long)argument, "r");
    char *got = fgets(line, sizeof line, file);
    fclose(file);
    return (void *)(got && strcmp(line, "a line\n") == 0 ? 1L : 0L);
}

static void *write_line(void *argument) {
    usleep(1000);
    FILE *file = fdopen((int)(long)argument, "w");
    fputs("a line\n", file);
    fclose(file);
    return NULL;
}

static char path[] = "raddle-lock-" "XX" "XX" "XX";
static atomic_int order;

static void *wait_for_lock(void *argument) {
    int fd = open(path, O_RDWR);
    flock(fd, LOCK_EX);
    int mine = atomic_fetch_add(&order, 1);
    close(fd);
    return (void *)(long)mine + 0 * (long)argument;
}

static void *unlock(void *argument) {
    usleep(1000);
    atomic_fetch_add(&order, 1);
    flock((int)(long)argument, LOCK_UN);
    return NULL;
}

static atomic_int flag;

static void *spin(void *argument) {
    while (!atomic_load(&flag)) {}
    return argument;
}

static void *raise_flag(void *argument) {
    usleep(1000);
    atomic_store(&flag, 1);
    return argument;
}

static void *open_fifo(void *argument) {
    int fd = open(argument, O_RDONLY);
    char byte = 0;
    long n = read(fd, &byte, 1);
    close(fd);
    return (void *)(n == 1 && byte == 'f' ? 1L : 0L);
}

static void *feed_fifo(void *argument) {
    int fd = open(argument, O_WRONLY);
    write(fd, "f", 1);
    close(fd);
    return NULL;
}

static void *look_up(void *argument) {
    struct addrinfo *found = NULL, hint = {.ai_socktype = SOCK_STREAM};
    int error = getaddrinfo("localhost", "80", &hint, &found);
    if (!error) freeaddrinfo(found);
    return (void *)(long)(error == 0) + 0 * (long)argument;
}

static void *sync_file(void *argument) {
    int fd = (int)(long)argument;
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    page[5] = 1;
    msync(page, 4096, MS_SYNC);
    munmap(page, 4096);
    return (void *)(long)(fsync(fd) == 0);
}

// A mapped page that comes when another thread has fetched it: what a slow disk does, by userfaultfd.
static long slow_fault = -1;
static char *slow_page;
static void *touch(void *argument) {
    return (void *)(long)(*(volatile char *)slow_page == 7) + 0 * (long)argument;
}
static void *fetch(void *argument) {
    struct uffd_msg message;
    static char page[4096] __attribute__((aligned(4096)));
    if (read((int)slow_fault, &message, sizeof message) != sizeof message) return NULL;
    usleep(20000); // The one who touched it is stuck in the kernel meanwhile.
    page[0] = 7;
    struct uffdio_copy copy = {.dst = (unsigned long)slow_page, .src = (unsigned long)page, .len = 4096};
    return (void *)(long)(ioctl((int)slow_fault, UFFDIO_COPY, &copy) == 0) + 0 * (long)argument;
}
static int prepare_slow_page(void) {
    slow_fault = syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    if (slow_fault < 0 || ioctl((int)slow_fault, UFFDIO_API, &api)) return 0;
    slow_page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register wish = {.range = {(unsigned long)slow_page, 4096}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    return ioctl((int)slow_fault, UFFDIO_REGISTER, &wish) == 0;
}

static long join(pthread_t thread) {
    void *result;
    pthread_join(thread, &result);
    return (long)result;
}

int main(int count, char **arguments) {
    if (count < 2 || chdir(arguments[1])) return 2;
    int p[2];
    if (pipe(p)) return 3;
    pthread_t reader = begin(read_line, (void *)(long)p[0]);
    usleep(5000); // the reader is in the kernel before the writer exists
    pthread_t writer = begin(write_line, (void *)(long)p[1]);
    printf("fgets %ld\n", join(reader));
    join(writer);

    int fd = mkstemp(path);
    flock(fd, LOCK_EX);
    pthread_t waiter = begin(wait_for_lock, NULL);
    usleep(5000);
    join(begin(unlock, (void *)(long)fd));
    printf("flock %ld\n", join(waiter));

    pthread_t spinner = begin(spin, (void *)7L);
    usleep(5000);
    join(begin(raise_flag, NULL));
    printf("flag %ld\n", join(spinner));

    char fifo[100];
    snprintf(fifo, sizeof fifo, "%s.fifo", path);
    if (mkfifo(fifo, 0600)) return 4;
    reader = begin(open_fifo, fifo);
    usleep(5000);
    writer = begin(feed_fifo, fifo);
    printf("fifo %ld\n", join(reader));
    join(writer);
    unlink(fifo);

    printf("names %ld\n", join(begin(look_up, NULL)));
    if (ftruncate(fd, 4096)) return 5;
    printf("sync %ld\n", join(begin(sync_file, (void *)(long)fd)));
    close(fd);
    unlink(path);

    if (prepare_slow_page()) {
        pthread_t toucher = begin(touch, NULL);
        usleep(5000);
        long fetched = join(begin(fetch, NULL));
        printf("slow page %ld %ld\n", fetched, join(toucher));
    } else {
        printf("no userfaultfd here\n");
    }
    return 0;
}
