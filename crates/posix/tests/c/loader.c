// Libraries whose constructors and destructors make threads and wait for them, loaded by the first thread and by others, while other threads do what takes
// locks of the C library's.
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <locale.h>
#include <netdb.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern int __cxa_thread_atexit_impl(void (*)(void *), void *, void *);
extern void *__dso_handle;

static const char *library;
static sem_t go;
static volatile int stop;
static int ended, wrong;

static void count(void *place) { __sync_fetch_and_add((int *)place, 1); }

static void *opens(void *argument) {
    (void)argument;
    void *handle = dlopen(library, RTLD_NOW);
    if (!handle) return puts(dlerror()), NULL;
    if (dlclose(handle)) puts(dlerror());
    return NULL;
}

// As C++ does at the first use of a thread-local variable: under the loader's lock.
static void *registers(void *argument) {
    sem_wait(&go);
    __cxa_thread_atexit_impl(count, argument, &__dso_handle);
    if (!dlsym(RTLD_DEFAULT, "printf") || dlsym(RTLD_DEFAULT, "no such function") || !dlerror()) count(&wrong);
    return NULL;
}

// Keeps its file locked across a switch.
static void *writes(void *file) {
    for (int i = 0; i < 20; i++) {
        flockfile(file);
        putc_unlocked('a', file);
        usleep(200);
        putc_unlocked('b', file);
        funlockfile(file);
        fprintf(file, "ab");
    }
    return NULL;
}

static int in_walk(struct dl_phdr_info *info, size_t size, void *data) {
    (void)info, (void)size;
    usleep(100);
    ++*(int *)data;
    return 0;
}

static void *walks(void *argument) {
    (void)argument;
    for (int i = 0; i < 5; i++) {
        int found = 0;
        dl_iterate_phdr(in_walk, &found);
        if (found < 2) count(&wrong);
    }
    return NULL;
}

static void *forks(void *argument) {
    (void)argument;
    for (int i = 0; i < 3; i++) {
        int status;
        pid_t child = fork();
        if (!child) {
            free(malloc(100000));
            _exit(dlsym(RTLD_DEFAULT, "printf") ? 0 : 1);
        }
        if (waitpid(child, &status, 0) != child || status) count(&wrong);
    }
    return NULL;
}

static void *allocates(void *argument) {
    (void)argument;
    while (!stop) {
        void *memory = malloc(200000);
        usleep(50);
        free(memory);
        locale_t locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
        freelocale(locale);
    }
    return NULL;
}

static void handlers(void) { usleep(100); }

int main(int count_of_arguments, char **arguments) {
    const char *way = count_of_arguments > 2 ? arguments[2] : "locks without a library";
    library = arguments[1];
    sem_init(&go, 0, 0);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(way, "first")) {
        opens(NULL);
    } else if (!strcmp(way, "thread")) {
        pthread_t thread;
        for (int i = 0; i < 3; i++) {
            pthread_create(&thread, NULL, opens, NULL);
            pthread_join(thread, NULL);
        }
    } else if (!strcmp(way, "registering")) {
        // Threads that come to the loader's lock while the constructor waits, or before, or after.
        pthread_t threads[20], opener;
        for (int i = 0; i < 20; i++) pthread_create(&threads[i], NULL, registers, &ended);
        pthread_create(&opener, NULL, opens, NULL);
        for (int i = 0; i < 20; i++) sem_post(&go);
        pthread_join(opener, NULL);
        for (int i = 0; i < 20; i++) pthread_join(threads[i], NULL);
        printf("%d destructors\n", ended);
    } else if (!strncmp(way, "locks", 5)) {
        pthread_t threads[16];
        int n = 0;
        char *text = NULL;
        size_t size = 0;
        pthread_atfork(handlers, handlers, handlers);
        FILE *file = open_memstream(&text, &size);
        for (int i = 0; i < 4; i++) pthread_create(&threads[n++], NULL, writes, file);
        for (int i = 0; i < 4; i++) pthread_create(&threads[n++], NULL, walks, NULL);
        for (int i = 0; i < 2; i++) pthread_create(&threads[n++], NULL, forks, NULL);
        if (library) pthread_create(&threads[n++], NULL, opens, NULL);
        int others = n;
        for (int i = 0; i < 4; i++) pthread_create(&threads[n++], NULL, allocates, NULL);
        for (int i = 0; i < others; i++) pthread_join(threads[i], NULL);
        stop = 1;
        for (int i = others; i < n; i++) pthread_join(threads[i], NULL);
        fclose(file);
        int right = size == 320;
        for (size_t i = 0; i < size; i++) right &= text[i] == "ab"[i % 2];
        printf("the file is %s\n", right ? "right" : "wrong");
    }
    printf("%d wrong\n", wrong);
    return 0;
}
