/* A runtime for the tests: counts how often the quantum is used up, and says at the end how long the longest gap was. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __cplusplus
extern "C" {
#endif
static long asked;
#define UNCOOPERATIVE __attribute__((annotate("raddle_uncooperative")))
/* Small, so that a part that does not check is seen. */
UNCOOPERATIVE __attribute__((used)) void raddle_quantum_used(long *quantum) { asked++; *quantum = 20000; }
extern __thread unsigned long __raddle_gap_max __attribute__((weak));
UNCOOPERATIVE __attribute__((destructor)) static void tell(void) {
#ifdef MEASURE
    fprintf(stderr, "gap %lu\n", __raddle_gap_max);
#endif
}
#ifdef __cplusplus
}
#endif
/* Runs what must check, and says so if it does not; the text is the same with and without the pass. */
#define MUST_ASK(what, expression)                                                                                        \
    do {                                                                                                                  \
        long before_ = asked;                                                                                             \
        printf("%s %lld\n", what, (long long)(expression));                                                               \
        if (INSTRUMENTED && asked == before_) printf("%s: no check asked\n", what);                                       \
    } while (0)
