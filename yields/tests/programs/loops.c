/* Loops of all kinds: counted up and down, by steps, to a bound that is met exactly or passed, of unknown length, nested, with exits in the middle,
 * irreducible ones; small types, whose variables go round. */
#include "common.h"
#include <stdint.h>

#define NOINLINE __attribute__((noinline))
NOINLINE uint64_t up(uint64_t n) { uint64_t s = 1; for (uint64_t i = 0; i < n; i++) s = s * 31 + i; return s; }
NOINLINE uint64_t down(uint64_t n) { uint64_t s = 1; while (n--) s = s * 33 ^ n; return s; }
NOINLINE uint64_t counter_only(uint64_t n, uint64_t s) { do { s = s * 6364136223846793005u + 1; } while (--n); return s; }
NOINLINE int64_t by_three(int64_t from, int64_t to) { int64_t s = 0; for (int64_t i = from; i <= to; i += 3) s = s * 7 + i; return s; }
NOINLINE int64_t by_minus_five(int64_t from, int64_t to) { int64_t s = 0; for (int64_t i = from; i > to; i -= 5) s = s * 5 ^ i; return s; }
NOINLINE uint32_t wraps(uint8_t step) { uint32_t s = 0; uint8_t i = 7; do { s = s * 3 + i; i += step; } while (i != 3); return s; }
NOINLINE uint32_t wraps16(uint16_t step) { uint32_t s = 0; uint16_t i = 1; do { s = s * 3 + i; i += step; } while (i != 0); return s; }
NOINLINE uint64_t once_though_beyond(int64_t i, int64_t n) { uint64_t s = 0; do { s += i * 3; i++; } while (i < n); return s * 31 + i; }
NOINLINE uint64_t near_the_end(uint64_t from) { uint64_t s = 0; for (uint64_t i = from; i < UINT64_MAX; i++) s = s * 3 + i; return s; }
NOINLINE uint64_t near_the_signed_end(int64_t from) { uint64_t s = 0; for (int64_t i = from; i < INT64_MAX; i++) s = s * 3 + i; return s; }
NOINLINE uint64_t pointers(const uint32_t *p, const uint32_t *end) { uint64_t s = 0; for (; p != end; p++) s = s * 7 + *p; return s; }
NOINLINE uint64_t backwards(const uint32_t *p, const uint32_t *first) { uint64_t s = 0; while (p > first) s = s * 7 + *--p; return s; }
NOINLINE size_t find(const char *s, char c) { const char *p = s; while (*p && *p != c) p++; return p - s; }
NOINLINE uint64_t collatz(uint64_t n) { uint64_t s = 0; while (n != 1) { n = n & 1 ? 3 * n + 1 : n / 2; s++; } return s; }
NOINLINE uint64_t nested(int n) {
    uint64_t s = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i % 7; j++)
            for (int k = 0; k < 3; k++) s = s * 3 + i * j - k;
    return s;
}
NOINLINE uint64_t variable_stride(char *f, long n) { uint64_t s = 0; for (long i = 2; i < n; i++) if (!f[i]) { s += i; for (long j = i * i; j < n; j += i) f[j] = 1; } return s; }
NOINLINE uint64_t leaves(const uint32_t *p, long n) { for (long i = 0; i < n; i++) { if (p[i] == 77) return i; if (p[i] % 1000003 == 5) return -i; } return n; }
NOINLINE uint64_t swaps(long n) { uint64_t a = 1, b = 2, c = 3; for (long i = 0; i < n; i++) { uint64_t t = a; a = b; b = c; c = t + i; } return a * 3 + b * 5 + c * 7; }
NOINLINE uint64_t last_value(long n, long *out) { long i; uint64_t s = 0; for (i = 3; i < n; i += 4) s ^= i << (i & 7); *out = i; return s; }
/* Duff's device: a loop with two entries. */
NOINLINE uint64_t irreducible(long n, int at) {
    uint64_t s = 0;
    switch (at) { case 0: do { s = s * 3 + 1; case 1: s ^= n; case 2: s += 5; } while (--n > 0); }
    return s;
}
NOINLINE uint64_t jumps(const unsigned char *code, long n) {
    static void *const to[] = {&&add, &&twice, &&mix, &&end};
    uint64_t s = 1; long i = 0;
    goto *to[code[0]];
add: s += 3; if (++i >= n) goto end; goto *to[code[i & 63]];
twice: s *= 2; if (++i >= n) goto end; goto *to[code[i & 63]];
mix: s ^= s >> 7; if (++i >= n) goto end; goto *to[code[i & 63]];
end: return s;
}
NOINLINE uint64_t switched(const unsigned char *code, long n) {
    uint64_t s = 1;
    for (long i = 0; i < n; i++) switch (code[i & 63]) { case 0: s += 3; break; case 1: s *= 2; continue; default: s ^= s >> 7; }
    return s;
}
/* A turn that ends in a switch, one of whose ways is the way back: a search in a node of a tree. */
NOINLINE uint64_t searches(const uint32_t *keys, long n, uint32_t key) {
    long i = 0;
    for (;; i++) {
        if (i == n) return n;
        switch (keys[i] > key ? 1 : keys[i] == key ? 2 : 0) { case 0: continue; case 1: return i; default: return ~i; }
    }
}
/* As the optimiser unrolls; and one whose counter meets the bound after it has gone round. */
NOINLINE uint64_t fours(const uint32_t *p, uint64_t n) { uint64_t s = 0; for (uint64_t i = 0; i != (n & ~3ull); i += 4) { s = s * 3 + p[i]; s ^= p[i + 1]; s += p[i + 2] * s; s ^= p[i + 3]; } return s; }
NOINLINE uint64_t fours_round(uint16_t from, uint16_t to) { uint64_t s = 0; for (uint16_t i = from & ~3; i != (to & ~3); i += 4) s = s * 3 + i; return s; }
NOINLINE uint64_t straight(uint64_t a) {
#define A a = a * 3 + 1; a ^= a >> 3; a += 7;
#define B A A A A A A A A A A
#define C B B B B B B B B B B
    C C C C C C C C C C C C C C C C C C C C
    return a;
}
int main(void) {
    enum { N = 300001 };
    uint32_t *p = malloc(N * sizeof *p);
    for (int i = 0; i < N; i++) p[i] = i * 2654435761u % 70000 + 100;
    char *text = malloc(N); memset(text, 'a', N); text[N - 1] = 0;
    char *flags = calloc(N, 1);
    unsigned char code[64]; for (int i = 0; i < 64; i++) code[i] = (i * 5 + 1) % 3;
    for (uint64_t n = 0; n < 300; n += 7) printf("%llx ", (unsigned long long)(up(n) ^ down(n) ^ counter_only(n + 1, n) ^ swaps(n) ^ pointers(p, p + n) ^ backwards(p + n, p)));
    MUST_ASK("up", up(N)); MUST_ASK("down", down(N)); MUST_ASK("counter only", counter_only(N, 3)); MUST_ASK("by three", by_three(-N, N));
    MUST_ASK("by minus five", by_minus_five(N, -N)); MUST_ASK("near the end", near_the_end(UINT64_MAX - N)); MUST_ASK("near the signed end", near_the_signed_end(INT64_MAX - N));
    MUST_ASK("pointers", pointers(p, p + N)); MUST_ASK("backwards", backwards(p + N, p)); MUST_ASK("find", find(text, 'x'));
    MUST_ASK("nested", nested(N)); MUST_ASK("variable stride", variable_stride(flags, N)); MUST_ASK("leaves", leaves(p, N)); MUST_ASK("swaps", swaps(N));
    long last; MUST_ASK("last value", last_value(N, &last)); printf("%ld\n", last);
    for (int at = 0; at < 4; at++) printf("%llu ", (unsigned long long)irreducible(5, at));
    MUST_ASK("irreducible", irreducible(N, 1)); MUST_ASK("jumps", jumps(code, N)); MUST_ASK("switched", switched(code, N));
    uint32_t *sorted = malloc(N * sizeof *sorted);
    for (int i = 0; i < N; i++) sorted[i] = i * 3;
    MUST_ASK("searches", searches(sorted, N, 3 * N)); for (int i = 0; i < 60; i++) printf("%llx ", (unsigned long long)searches(sorted, i % 12, i));
    MUST_ASK("fours", fours(p, N)); for (int i = 0; i < 60; i++) printf("%llx ", (unsigned long long)(fours(p, i) ^ fours_round(i * 7, i * 5)));
    uint64_t sum = 0; for (int i = 1; i < 3000; i++) sum += collatz(i);
    printf("%llu\n", (unsigned long long)sum);
    for (int step = 1; step < 256; step += 2) sum = sum * 5 + wraps(step);
    printf("%llu %u %u\n", (unsigned long long)sum, wraps16(3), wraps16(255));
    for (long i = -3; i < 300; i += 9) sum = sum * 3 + once_though_beyond(i, 20) + once_though_beyond(20, i);
    printf("%llu\n", (unsigned long long)sum);
    for (int i = 0; i < 30; i++) sum = straight(sum);
    MUST_ASK("straight", straight(straight(straight(straight(sum)))) + straight(straight(straight(sum + 1))));
}
