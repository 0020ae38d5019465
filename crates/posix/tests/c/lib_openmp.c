// OpenMP: parallel sums, critical sections, barriers, tasks.
#include <omp.h>
#include <stdio.h>

static long fib(int n) {
    if (n < 12) return n < 2 ? n : fib(n - 1) + fib(n - 2);
    long a, b;
#pragma omp task shared(a)
    a = fib(n - 1);
    b = fib(n - 2);
#pragma omp taskwait
    return a + b;
}

int main(void) {
    omp_set_num_threads(8);
    long sum = 0, inside = 0, steps = 0;
    for (int round = 0; round < 20; round++) {
#pragma omp parallel for reduction(+ : sum) schedule(dynamic, 64)
        for (int i = 0; i < 10000; i++) sum += i;
#pragma omp parallel
        {
#pragma omp critical
            inside++;
#pragma omp barrier
#pragma omp atomic
            steps += inside;
        }
    }
    long f = 0;
#pragma omp parallel
#pragma omp single
    f = fib(22);
    printf("%ld %ld %ld %ld\n", sum, inside, steps, f);
    return 0;
}
