// Where the loader says that the process's stack ends, `main` has begun: by the loader's word, or by the program's copy of it (COPIED).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

#ifdef COPIED
extern char *__libc_stack_end;
#else
#define __libc_stack_end (*(char **)dlsym(RTLD_DEFAULT, "__libc_stack_end"))
#endif

int main(int count, char **arguments) {
    char *here = (char *)&arguments, *end = __libc_stack_end;
    printf("above %d, near %d\n", end > here, end - here < 4096 * count);
    // The page is as it was.
    char line[256];
    unsigned long low, high, word = (unsigned long)dlsym(RTLD_DEFAULT, "__libc_stack_end");
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) {
        char rights[5];
        if (sscanf(line, "%lx-%lx %4s", &low, &high, rights) == 3 && word >= low && word < high) puts(rights);
    }
    return 0;
}
