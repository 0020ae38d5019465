// What main and threads begin with: no error, and their creator's name, under which the process is known to others.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>

static char name[16];
static int error, depth;

static void *thread(void *argument) {
    error |= errno;
    char mine[16];
    pthread_getname_np(pthread_self(), mine, sizeof mine);
    printf("named %s\n", mine);
    prctl(PR_GET_NAME, mine);
    printf("named %s\n", mine);
    if (depth++ < 2) {
        if (depth == 2) pthread_setname_np(pthread_self(), "inner");
        pthread_t id;
        pthread_create(&id, NULL, thread, NULL);
        pthread_join(id, NULL);
    }
    return argument;
}

static void comm(void) {
    FILE *file = fopen("/proc/self/comm", "r");
    if (file && fgets(name, sizeof name, file)) printf("comm %s", name);
    if (file) fclose(file);
}

int main(void) {
    error = errno;
    printf("main begins with %d\n", error);
    pthread_t id;
    errno = 0;
    int created = pthread_create(&id, NULL, thread, NULL), after = errno;
    pthread_join(id, NULL);
    printf("created: %d, errno %d\n", created, after);
    prctl(PR_SET_NAME, "outer");
    comm();
    pthread_setname_np(pthread_self(), "other");
    comm();
    // Others have its new name.
    depth = 1;
    pthread_create(&id, NULL, thread, NULL);
    pthread_join(id, NULL);
    printf("errors: %d\n", error);
    return 0;
}
