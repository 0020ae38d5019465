// A program replaces itself with as much in its environment as the system takes: not a byte less than without a library
// that adds to it.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// The kernel takes no longer string.
enum { LONGEST = 100000, STRINGS = 100 };

static char self[4096];
static char *filled[STRINGS + 1];
extern char **environ;

static void fill(size_t bytes) {
    int count = 0;
    for (; bytes > 0; count++) {
        size_t length = bytes < LONGEST ? bytes : LONGEST;
        if (count == STRINGS) abort();
        filled[count] = realloc(filled[count], length + 1);
        memset(filled[count], 'x', length);
        filled[count][length] = 0;
        bytes -= length;
    }
    filled[count] = NULL;
}

static void replace(const char *way, char *word) {
    char *arguments[] = {self, word, NULL};
    if (!strcmp(way, "execve")) execve(self, arguments, filled);
    if (!strcmp(way, "execvpe")) execvpe(self, arguments, filled);
    if (!strcmp(way, "fexecve")) fexecve(open(self, O_RDONLY), arguments, filled);
    environ = filled;
    if (!strcmp(way, "execv")) execv(self, arguments);
}

static int fits(const char *way, size_t bytes) {
    int status;
    fill(bytes);
    pid_t child = fork();
    if (child == 0) {
        replace(way, "nothing");
        _exit(errno == E2BIG ? 1 : 2);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) == 2) abort();
    return WEXITSTATUS(status) == 0;
}

// What a child replaces itself by gets no settings: the system's answer alone.
static void *most(void *way) {
    size_t fit = 0, too_much = (size_t)STRINGS * LONGEST;
    while (too_much - fit > 1) {
        size_t middle = fit + (too_much - fit) / 2;
        if (fits(way, middle)) fit = middle;
        else too_much = middle;
    }
    return (void *)fit;
}

static void *replaces(void *argument) {
    char *const *arguments = argument;
    size_t bytes = strtoul(arguments[2], NULL, 10);
    fill(bytes + 1);
    char **before = environ;
    replace(arguments[1], "replace");
    environ = before;
    printf("a byte more: %s\n", strerrorname_np(errno));
    fflush(stdout);
    fill(bytes);
    replace(arguments[1], "replace");
    printf("%zu bytes: %s\n", bytes, strerrorname_np(errno));
    return NULL;
}

int main(int count, char **arguments) {
    char *way = count > 1 ? arguments[1] : "execve";
    if (!strcmp(way, "nothing")) return 0;
    if (!strcmp(way, "replace")) {
        size_t bytes = 0;
        int others = 0;
        for (char **string = environ; *string; string++) {
            if (**string == 'x') bytes += strlen(*string);
            else others++;
        }
        printf("replaced, filled %d, beside that %d\n", bytes > 0, others);
        return 0;
    }
    pthread_t thread;
    void *bytes;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0) return 2;
    if (count < 3) {
        if (pthread_create(&thread, NULL, most, way) || pthread_join(thread, &bytes)) return 2;
        printf("%zu\n", (size_t)bytes);
        return 0;
    }
    if (count == 3) replaces(arguments);
    else if (pthread_create(&thread, NULL, replaces, arguments) == 0) pthread_join(thread, NULL);
    return 1;
}
