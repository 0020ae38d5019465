// A thread waits for a descriptor whose number is large.
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { NUMBER = 900 * 1024 / 64 };
static int ends[2];

static void *reads(void *argument) {
    char byte;
    long result = read(NUMBER, &byte, 1);
    struct pollfd entry = {NUMBER, POLLIN, 0};
    printf("read %ld, poll %d\n", result, poll(&entry, 1, 1));
    return argument;
}

static void *writes(void *argument) {
    usleep(10000);
    if (write(ends[1], "x", 1) != 1) return argument;
    return NULL;
}

int main(void) {
    pthread_t reader, writer;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    if (pipe(ends)) return 1;
    if (dup2(ends[0], NUMBER) != NUMBER) {
        puts("no such number here");
        return 0;
    }
    pthread_create(&reader, &attributes, reads, NULL);
    pthread_create(&writer, &attributes, writes, NULL);
    pthread_join(reader, NULL);
    pthread_join(writer, NULL);
    return 0;
}
