/* Functions: recursion direct and indirect, through pointers, mutual in a larger circle, with tail calls, of functions that are small, excluded, or not known. */
#include "common.h"
#include <sched.h>
#define NOINLINE __attribute__((noinline))
NOINLINE long fib(long n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
NOINLINE long even(long n);
NOINLINE long odd(long n) { if (n == 0) return 0; long r = even(n - 1); __asm__ volatile(""); return r; }
NOINLINE long even(long n) { if (n == 0) return 1; long r = odd(n - 1); __asm__ volatile(""); return r; }
static long (*volatile through)(long);
NOINLINE long pointer(long n) { if (n == 0) return 7; long r = through(n - 1); __asm__ volatile(""); return r + 1; }
NOINLINE long a(long n); NOINLINE long b(long n); NOINLINE long c(long n);
long a(long n) { return n <= 0 ? 1 : b(n - 1) + 1; }
long b(long n) { return n <= 0 ? 2 : c(n - 1) * 3 % 1000003; }
long c(long n) { return n <= 0 ? 3 : a(n - 1) ^ n; }
NOINLINE long tail(long n, long s) { if (n == 0) return s; __attribute__((musttail)) return tail(n - 1, s * 3 + n); }
NOINLINE long small(long x) { return x * 3 + 1; }
NOINLINE long calls_small(long n) { long s = 0; for (long i = 0; i < n; i++) s ^= small(i); return s; }
NOINLINE UNCOOPERATIVE long excluded(long n) { long s = 0; for (long i = 0; i < n; i++) { s = s * 3 + i; __asm__ volatile("" : "+r"(s)); } return s; }
#pragma clang attribute push(__attribute__((annotate("raddle_uncooperative"))), apply_to = function)
NOINLINE long excluded_by_pragma(long n) { long s = 0; for (long i = 0; i < n; i++) { s = s * 5 + i; __asm__ volatile("" : "+r"(s)); } return s; }
#pragma clang attribute pop
NOINLINE long calls_excluded(long n) { long s = 0; for (long i = 0; i < n; i++) s ^= excluded(3); return s; }
/* Straight to a function of another module: nothing to check for. Through a pointer, or round in this one: there is. */
NOINLINE long hands_on(const char *text) { return a64l(text); }
NOINLINE long calls_hands_on(long n) { long s = 0; for (long i = 0; i < n; i++) s = s * 3 + hands_on("raddle"); return s; }
NOINLINE long hands_on_to_pointer(long n) { return through(n); }
NOINLINE long round_here(long n);
NOINLINE long round_there(long n) { return round_here(n + 1); }
NOINLINE long round_here(long n) { return n > 9000 ? n : round_there(n + 1); }
/* Not too deep: what the frames do as they return comes on top of the bound. */
NOINLINE long hands_round(long n); NOINLINE long hands_back(long n) { return hands_round(n + 1) + 1; }
NOINLINE long hands_round(long n) { return n > 800 ? n : hands_back(n) + 1; }
NOINLINE long hands_rounds(long n) { long s = 0; while (n--) s = s * 3 + hands_round(n); return s; }
/* Gives way by itself at each turn. */
NOINLINE long gives_way(long n) { long s = 0; while (n--) { sched_yield(); s = s * 3 + n; } return s; }
static int compare(const void *x, const void *y) { return *(const int *)x - *(const int *)y; }
NOINLINE long sorts(int *v, int n) { for (int i = 0; i < n; i++) v[i] = (i * 7919) % n; qsort(v, n, sizeof *v, compare); long s = 0; for (int i = 0; i < n; i++) s = s * 3 + v[i]; return s; }
int main(void) {
    through = pointer;
    MUST_ASK("fib", fib(22)); MUST_ASK("indirect", odd(9000)); MUST_ASK("through a pointer", pointer(9000)); MUST_ASK("a circle", a(9000));
    MUST_ASK("tail", tail(100000, 1)); MUST_ASK("calls of a small one", calls_small(100000)); MUST_ASK("calls of an excluded one", calls_excluded(30000));
    MUST_ASK("hands on", calls_hands_on(30000)); MUST_ASK("to a pointer", hands_on_to_pointer(9000)); MUST_ASK("round", round_here(0)); MUST_ASK("rounds", hands_rounds(300));
    printf("%ld\n", gives_way(30000));
    static int v[20000]; MUST_ASK("called back", sorts(v, 20000));
    long before = asked;
    printf("%ld %ld\n", excluded(1000000), excluded_by_pragma(1000000));
    if (asked - before > 1) printf("an excluded function asked\n");
}
