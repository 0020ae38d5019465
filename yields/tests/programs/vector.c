/* Loops that the compiler vectorises; run.sh compares the vector instructions with and without the pass. */
#include "common.h"
#define NOINLINE __attribute__((noinline))
NOINLINE void saxpy(float *restrict y, const float *restrict x, float a, long n) { for (long i = 0; i < n; i++) y[i] += a * x[i]; }
NOINLINE int sum(const int *v, long n) { int s = 0; for (long i = 0; i < n; i++) s += v[i]; return s; }
NOINLINE void matmul(const double *restrict a, const double *restrict b, double *restrict c, int n) {
    for (int i = 0; i < n; i++) for (int k = 0; k < n; k++) for (int j = 0; j < n; j++) c[i * n + j] += a[i * n + k] * b[k * n + j];
}
int main(void) {
    enum { N = 100003, M = 61 };
    static float x[N], y[N]; static int v[N]; static double a[M * M], b[M * M], c[M * M];
    for (int i = 0; i < N; i++) { x[i] = i % 17; y[i] = i % 13; v[i] = i * 31; }
    for (int i = 0; i < M * M; i++) { a[i] = i % 7; b[i] = i % 5; }
    for (long n = 0; n < 200; n++) { saxpy(y, x, 2, n); v[n] += sum(v, n); }
    saxpy(y, x, 3, N); double s = 0; for (int i = 0; i < N; i++) s += y[i];
    MUST_ASK("sum", sum(v, N)); matmul(a, b, c, M); MUST_ASK("saxpy and matmul", (saxpy(y, x, 1, N), (long)(s + c[77] * 1000 + y[5])));
}
