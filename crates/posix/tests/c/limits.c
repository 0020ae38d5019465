// What a process may have: how many threads there can be, and what of the address space a core dump would look at.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int go;

static void *waits(void *argument) {
    free(malloc(1000));
    pthread_mutex_lock(&mutex);
    while (!go) pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
    return argument;
}

// Megabytes of mappings that a core dump does not leave out.
static long dumped(void) {
    FILE *maps = fopen("/proc/self/smaps", "r");
    char line[1000];
    long size = 0, sum = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "Size: %ld kB", &size) == 1) continue;
        if (!strncmp(line, "VmFlags:", 8) && !strstr(line, " dd")) sum += size;
    }
    if (maps) fclose(maps);
    return sum >> 10;
}

int main(int count, char **arguments) {
    int most = count > 1 ? atoi(arguments[1]) : 20, error = 0;
    static pthread_t threads[20000];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (getenv("STACK")) pthread_attr_setstacksize(&attributes, atoi(getenv("STACK")));
    // Twice: what the first ones leave serves the next ones.
    for (int round = 0; round < 2; round++) {
        int made = 0;
        go = 0;
        while (made < most && !(error = pthread_create(&threads[made], &attributes, waits, NULL))) made++;
        if (error && error != EAGAIN) printf("%s\n", strerror(error));
        if (count > 2) printf("%s\n", dumped() < 10000 ? "little" : "much");
        pthread_mutex_lock(&mutex);
        go = 1;
        pthread_cond_broadcast(&condition);
        pthread_mutex_unlock(&mutex);
        for (int i = 0; i < made; i++) pthread_join(threads[i], NULL);
        // Whatever they have taken, there is memory for others.
        void *memory = malloc(1 << 20);
        if (!memory) return 1;
        free(memory);
        printf("%d\n", made);
    }
    return 0;
}
