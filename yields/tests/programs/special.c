/* What must not be split or reshaped: setjmp, inline assembly (with jumps too), naked functions, indirect functions, alloca, thread-local variables. */
#include "common.h"
#include <setjmp.h>
#include <stdint.h>
#define NOINLINE __attribute__((noinline))
static jmp_buf here;
NOINLINE void jump(int n) { for (volatile int i = 0; i < n; i++) {} longjmp(here, n); }
NOINLINE long jumps_back(int n) { volatile long s = 0; volatile int turn = 0; int r = setjmp(here); s += r; if (++turn < n) jump(turn); for (int i = 0; i < n; i++) s += i * r; return s; }
#ifdef __x86_64__
NOINLINE long flags(long n) { long s = 0; for (long i = 0; i < n; i++) { unsigned char c; __asm__("subq %2, %1\n\tsetb %0" : "=r"(c), "+r"(s) : "r"(i * 3)); s += c + 5; } return s; }
NOINLINE long asm_goto(long n) { long s = 0; for (long i = 0; i < n; i++) { __asm__ goto("testq $3, %0\n\tjz %l1" : : "r"(i) : "cc" : quarter); s += 2; continue; quarter: s -= 1; } return s; }
__attribute__((naked)) NOINLINE long naked(long x) { __asm__("leaq 5(%rdi), %rax\n\tret"); }
#else
NOINLINE long flags(long n) { return n; } NOINLINE long asm_goto(long n) { return n; } NOINLINE long naked(long x) { return x + 5; }
#endif
static long chosen(long x) { return x + 1; }
__attribute__((noinline)) int probes(int n) { int v = 0; for (int i = 0; i < n; i++) { v = v * 3 + i; __asm__ volatile("" : "+r"(v)); } return v; }
static void *choose(void) { for (volatile int i = 0; i < 100000; i++) {} return probes(1000) ? (void *)chosen : 0; }
long indirect(long x) __attribute__((ifunc("choose")));
NOINLINE long allocates(int n) { long s = 0; for (int i = 1; i < n; i++) { int *p = __builtin_alloca(16); p[i & 3] = i; __asm__ volatile("" : : "r"(p) : "memory"); s += p[i & 3]; } return s; }
static _Thread_local long counter;
NOINLINE long local(long n) { for (long i = 0; i < n; i++) counter += i ^ counter; return counter; }
NOINLINE double floats(long n) { double s = 0, t = 1; for (long i = 0; i < n; i++) { s = s * .5 + t; t = t < 10 ? t * 1.5 : t - 9; } return s * 1e6; }
NOINLINE long many(long n, long a, long b, long c, long d, long e, long f) {
    long g = 1, h = 2, i = 3, j = 4, k = 5;
    while (n > 0) { n -= (a & 1) + 1; a += b; b ^= c; c += d; d ^= e; e += f; f ^= g; g += h; h ^= i; i += j; j ^= k; k += a; }
    return a ^ b ^ c ^ d ^ e ^ f ^ g ^ h ^ i ^ j ^ k;
}
int main(void) {
    MUST_ASK("setjmp", jumps_back(300)); MUST_ASK("flags", flags(100000)); MUST_ASK("asm goto", asm_goto(100000)); printf("%ld %ld\n", naked(37), indirect(1));
    MUST_ASK("alloca", allocates(20000)); MUST_ASK("thread-local", local(100000)); MUST_ASK("floats", floats(100000)); MUST_ASK("many", many(100000, 1, 2, 3, 4, 5, 6));
}
