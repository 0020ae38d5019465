// A new thread has its creator's floating-point environment, and each keeps its own across waits.
#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

static int wrong;
static volatile double one = 1, three = 3, zero;
static volatile long double lone = 1, lthree = 3;

static void expect(int is, int should, const char *what) {
    if (is != should) {
        __sync_fetch_and_add(&wrong, 1);
        printf("WRONG: %s: %d instead of %d\n", what, is, should);
    }
}

// Rounding as the units do it, not as the register says.
static int rounds_up(void) { return one / three > 0.33333333333333334; }
static int rounds_up_long(void) { return lone / lthree * 3 > 1; }

static void *grandchild(void *argument) {
    expect(fegetround(), (int)(long)argument, "a thread's thread");
    return NULL;
}

static void *child(void *argument) {
    static const int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    int own = modes[(long)argument % 4];
    expect(fegetround(), FE_UPWARD, "the creator's mode");
    expect(rounds_up(), 1, "the creator's rounding");
    fesetround(own);
    feclearexcept(FE_ALL_EXCEPT);
    if ((long)argument % 2) {
        volatile double infinite = one / zero;
        (void)infinite;
    }
    for (int i = 0; i < 50; i++) {
        if (i % 2) usleep(50);
        else sched_yield();
        expect(fegetround(), own, "its own mode after a wait");
        expect(rounds_up(), own == FE_UPWARD, "its own rounding after a wait");
        expect(rounds_up_long() && own != FE_UPWARD && own != FE_TONEAREST, 0, "the other unit's rounding");
        expect(fetestexcept(FE_DIVBYZERO) != 0, (long)argument % 2, "its own flags after a wait");
    }
    pthread_t t;
    pthread_create(&t, NULL, grandchild, (void *)(long)own);
    pthread_join(t, NULL);
    return NULL;
}

int main(void) {
    pthread_t t[16];
    fesetround(FE_UPWARD);
    for (long i = 0; i < 16; i++) pthread_create(&t[i], NULL, child, (void *)i);
    for (int i = 0; i < 16; i++) pthread_join(t[i], NULL);
    expect(fegetround(), FE_UPWARD, "the first thread's mode");
    fesetround(FE_TONEAREST);
    pthread_create(&t[0], NULL, grandchild, (void *)(long)FE_TONEAREST);
    pthread_join(t[0], NULL);
    printf("wrong: %d\n", wrong);
    return 0;
}
