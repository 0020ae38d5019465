// A daemon: the grandchild of the process, without a terminal, with threads; it reports through a file.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *body(void *argument) {
    return argument;
}

static int threads(void) {
    pthread_t t;
    void *value;
    if (pthread_create(&t, NULL, body, (void *)5L) != 0 || pthread_join(t, &value) != 0) return 1;
    return value != (void *)5L;
}

static void *becomes(void *path) {
    if (daemon(1, 1) != 0) exit(2);
    FILE *report = fopen(path, "w");
    fprintf(report, "daemon %d\n", threads());
    fclose(report);
    exit(0);
}

int main(int count, char **arguments) {
    pthread_t t;
    if (count != 2 || threads() != 0) return 3;
    pthread_create(&t, NULL, becomes, arguments[1]);
    pthread_join(t, NULL);
    return 4;
}
