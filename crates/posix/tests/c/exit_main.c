// The first thread leaves, the others go on, and the process ends with the last of them, with status 0 whatever that one returns.
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

static pthread_key_t key;
static pthread_t first;

static void gone(void *value) {
    printf("destructor of %s\n", (char *)value);
    fflush(stdout);
}

static void *later(void *argument) {
    for (int i = 0; i < 100; i++) sched_yield();
    pthread_join(first, NULL);
    usleep(10000);
    printf("the last one\n");
    return argument;
}

static void cleanup(void *argument) {
    printf("cleanup of %s\n", (char *)argument);
    fflush(stdout);
}

int main(void) {
    pthread_t t;
    first = pthread_self();
    pthread_key_create(&key, gone);
    pthread_setspecific(key, "first");
    pthread_create(&t, NULL, later, (void *)9L);
    pthread_detach(t);
    pthread_cleanup_push(cleanup, "first");
    pthread_exit((void *)5L);
    pthread_cleanup_pop(0);
    return 7;
}
