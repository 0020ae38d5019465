// The set*id family from the first thread and from others, while threads run, wait and block: each kernel thread has the new rights.
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile int stop;
static sem_t gate;

static void *yields(void *argument) {
    while (!stop) sched_yield();
    return argument;
}
static void *computes(void *argument) {
    while (!stop) {}
    return argument;
}
static void *waits(void *argument) {
    while (sem_wait(&gate) != 0) {}
    return argument;
}

// How many kernel threads do not have this group id.
static int others(int id) {
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    int count = 0;
    while ((entry = readdir(tasks)) != NULL) {
        if (entry->d_name[0] == '.') continue;
        char path[300], line[200];
        int group = -1;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        FILE *status = fopen(path, "r");
        if (status == NULL) continue;
        while (fgets(line, sizeof line, status) != NULL) sscanf(line, "Gid: %d", &group);
        fclose(status);
        if (group != id && group != -1) count++;
    }
    closedir(tasks);
    return count;
}

static void *changes(void *argument) {
    int id = (int)(long)argument;
    for (int i = 0; i < 20; i++)
        if (setresgid(id, -1, -1) != 0 || getgid() != (unsigned)id || setegid(getegid()) != 0) return (void *)1L;
    // The C library does not ask one that is about to end; any other one keeps what it has.
    int left = others(id);
    for (int i = 0; i < 3000 && left > 0; i++) usleep(10000), left = others(id);
    return (void *)(long)left;
}

int main(void) {
    pthread_t t[12], changer;
    void *result;
    sem_init(&gate, 0, 0);
    for (int i = 0; i < 12; i++) pthread_create(&t[i], NULL, i % 6 == 0 ? computes : i % 2 ? yields : waits, NULL);
    // Without the right to have another id, its own.
    int id = geteuid() == 0 ? 1234 : (int)getgid();
    printf("first thread: %ld\n", (long)changes((void *)(long)id));
    fflush(stdout);
    id = geteuid() == 0 ? 4321 : (int)getgid();
    for (int i = 0; i < 3; i++) {
        pthread_create(&changer, NULL, changes, (void *)(long)(geteuid() == 0 ? id + i : id));
        pthread_join(changer, &result);
        printf("a thread: %ld\n", (long)result);
        fflush(stdout);
    }
    stop = 1;
    for (int i = 0; i < 12; i++) sem_post(&gate);
    for (int i = 0; i < 12; i++) pthread_join(t[i], NULL);
    return 0;
}
