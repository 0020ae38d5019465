// A nested function whose address is taken: GCC makes code on the stack.
#include <stdlib.h>

long sorted(long factor) {
    int numbers[] = {4, 2, 3, 1};
    int compare(const void *one, const void *other) { return factor * (*(int *)one - *(int *)other); }
    qsort(numbers, 4, sizeof numbers[0], compare);
    return numbers[0] * 1000 + numbers[1] * 100 + numbers[2] * 10 + numbers[3];
}
