// The size of the table of descriptors: before there is a thread, in one, and in one of a child of the main program and
// one of a thread's, none of which has waited for a descriptor.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *tells(void *unused) {
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    if (!status) exit(2);
    while (fgets(line, sizeof line, status))
        if (strncmp(line, "FDSize:", 7) == 0) printf("%d\n", atoi(line + 7));
    fclose(status);
    fflush(stdout);
    return unused;
}

static void in_a_thread(void *(*what)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, what, NULL)) exit(3);
    pthread_join(thread, NULL);
}

static void *forks(void *unused) {
    pid_t child = fork();
    if (child == 0) {
        in_a_thread(tells);
        _exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status) exit(4);
    return unused;
}

int main(void) {
    tells(NULL);
    in_a_thread(tells);
    forks(NULL);
    in_a_thread(forks);
    return 0;
}
