// What a thread is told of its stack: as many bytes as were asked for, from the beginning of a page on, so that the
// first pages can be protected (Java does) or mapped anew; and a later thread has the whole of its stack all the same.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void told(char **low, size_t *size) {
    pthread_attr_t attributes;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, (void **)low, size);
    pthread_attr_destroy(&attributes);
}

static void *protects(void *argument) {
    char *low, here;
    size_t size;
    told(&low, &size);
    printf("%zu of %zu, begins %ld, inside %d", size, (size_t)argument, (long)low & 4095, &here > low && &here < low + size);
    int anew = mmap(low, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0) == low;
    printf(", anew %d", anew);
    low[0] = 1;
    // Left so.
    printf(", protected %d\n", mprotect(low, 8192, PROT_NONE));
    return NULL;
}

// So many bytes below its caller's frame.
__attribute__((noinline)) static int uses(const char *start, size_t bytes) {
    char room[4096];
    memset(room, 1, sizeof room);
    return start - room >= (long)bytes ? room[5] : uses(start, bytes) + room[17] - 1;
}

// As many as the thread before it was told, and a page more.
static void *uses_all(void *argument) {
    char here = 1;
    return (void *)(long)uses(&here, (size_t)argument - 12288);
}

static long run(void *(*code)(void *), size_t size) {
    pthread_t thread;
    pthread_attr_t attributes;
    void *result;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, size);
    if (pthread_create(&thread, &attributes, code, (void *)size))
        return -1;
    pthread_join(thread, &result);
    return (long)result;
}

int main(void) {
    // Natively a kept stack may be larger than the next thread asks for: so each is larger than those before.
    const size_t sizes[] = {32768, 65536, 131072, 139264, 200000, 262144, 700000, 1500000, 5 << 20, 9 << 20};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        run(protects, sizes[i]);
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int again = 0; again < 3; again++)
            printf("%ld", run(uses_all, sizes[i] + 16384));
    printf("\n");
    return 0;
}
