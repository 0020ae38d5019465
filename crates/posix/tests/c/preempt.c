/* Threads that compute without quantum checks, beside one that has turns to take: with a timer they give way, on one processor. Each computes something that
 * shows whether a register, a flag, errno, the stack or the C library's own state was lost on the way: sums in integers and vectors, rounding, allocation, streams,
 * qsort, jumps. Those that use the C library check its results in code of their own, which takes about as long: in the library no thread gives way.
 * Arguments: the turns to take, and the number of threads. */
#include <assert.h>
#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long turns_wanted = 30;
static atomic_long turns;
static atomic_int over;
static __thread uint64_t of_this_thread;

static void *takes_turns(void *unused) {
    (void)unused;
    while (atomic_fetch_add(&turns, 1) < turns_wanted)
        sched_yield();
    atomic_store(&over, 1);
    return 0;
}

/* Nothing but registers. */
static void *integers(void *seed) {
    uint64_t x = (uintptr_t)seed | 1, count = 0;
    of_this_thread = x;
    errno = ENOTTY;
    do {
        uint64_t from = x;
        for (int i = 0; i < 20000; i++)
            x = x * 6364136223846793005u + 1442695040888963407u;
        /* The same again, by the power of the multiplier. */
        uint64_t a = 1, c = 0;
        for (int i = 0; i < 20000; i++) {
            c = c * 6364136223846793005u + 1442695040888963407u;
            a *= 6364136223846793005u;
        }
        assert(x == from * a + c);
        count++;
    } while (!atomic_load(&over));
    assert(errno == ENOTTY && of_this_thread == ((uintptr_t)seed | 1) && count > 0);
    return 0;
}

typedef double vector __attribute__((vector_size(32)));

static void *vectors(void *seed) {
    double start = (double)(uintptr_t)seed;
    int rounding = (uintptr_t)seed % 2 ? FE_UPWARD : FE_DOWNWARD;
    fesetround(rounding);
    do {
        vector sum = {0, 0, 0, 0}, step = {start, start + 1, start + 2, start + 3};
        for (int i = 0; i < 20000; i++)
            sum += step;
        for (int i = 0; i < 4; i++)
            assert(sum[i] == 20000 * (start + i));
        volatile double one = 1, three = 3;
        double third = one / three;
        assert(fegetround() == rounding && (third * 3 > 1 || rounding == FE_DOWNWARD));
    } while (!atomic_load(&over));
    return 0;
}

/* Long enough to be met here: what is summed must not be lost. */
static void checks_sums(unsigned from) {
    uint32_t up = 0, down = 0;
    for (uint32_t i = 0; i < 3000; i++) {
        up = up * 31 + (from ^ i);
        __asm__ volatile("" : "+r"(up));
    }
    for (uint32_t i = 0; i < 3000; i++) {
        down = down * 31 + (from ^ i);
        __asm__ volatile("" : "+r"(down));
    }
    assert(up == down);
}

static void *allocates(void *seed) {
    unsigned state = (unsigned)(uintptr_t)seed;
    char *kept[64] = {0};
    size_t sizes[64] = {0};
    do {
        for (int i = 0; i < 300; i++) {
            state = state * 1103515245 + 12345;
            int at = state >> 16 & 63;
            for (size_t j = 0; j < sizes[at]; j++)
                assert(kept[at][j] == (char)at);
            sizes[at] = state >> 8 & 1023;
            kept[at] = realloc(kept[at], sizes[at] + 1);
            memset(kept[at], at, sizes[at] + 1);
        }
    } while (!atomic_load(&over));
    for (int i = 0; i < 64; i++)
        free(kept[i]);
    return 0;
}

static void *prints(void *seed) {
    char *text = 0;
    size_t length = 0;
    do {
        FILE *stream = open_memstream(&text, &length);
        long sum = 0;
        for (int i = 0; i < 200; i++) {
            fprintf(stream, "%d %.3f %s\n", i, i / 8.0, "words");
            sum += i;
        }
        fclose(stream);
        const char *at = text;
        for (int i = 0; i < 200; i++) {
            int number = 0, thousandths = 0;
            for (; *at != ' '; at++)
                number = number * 10 + *at - '0';
            for (at++; *at != ' '; at++)
                if (*at != '.')
                    thousandths = thousandths * 10 + *at - '0';
            assert(number == i && thousandths == i * 125 && at[1] == 'w' && at[6] == '\n');
            at += 7;
            if (i % 8 == 0)
                checks_sums(i);
        }
        assert(at == text + length);
        stream = fmemopen(text, length, "r");
        int number;
        double fraction;
        char word[16];
        while (fscanf(stream, "%d %lf %15s", &number, &fraction, word) == 3) {
            assert(fraction == number / 8.0 && !strcmp(word, "words"));
            sum -= number;
            if (number % 8 == 0)
                checks_sums(number);
        }
        assert(sum == 0);
        fclose(stream);
        free(text);
        text = 0;
    } while (!atomic_load(&over));
    (void)seed;
    return 0;
}

static int compare(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    /* Long enough to be met here. */
    for (volatile int i = 0; i < 10; i++)
        ;
    return (x > y) - (x < y);
}

static void *sorts(void *seed) {
    uint32_t state = (uint32_t)(uintptr_t)seed;
    int32_t *numbers = malloc(2000 * sizeof *numbers), *again = malloc(2000 * sizeof *again);
    do {
        for (int i = 0; i < 2000; i++)
            numbers[i] = again[i] = (int32_t)(state = state * 1664525 + 1013904223);
        qsort(numbers, 2000, sizeof *numbers, compare);
        for (int i = 1; i < 2000; i++) {
            int32_t moved = again[i];
            int at = i;
            for (; at > 0 && again[at - 1] > moved; at--)
                again[at] = again[at - 1];
            again[at] = moved;
        }
        for (int i = 0; i < 2000; i++)
            assert(numbers[i] == again[i]);
    } while (!atomic_load(&over));
    free(numbers);
    free(again);
    return 0;
}

static void *jumps(void *seed) {
    volatile long there = 0;
    do {
        for (volatile int i = 0; i < 1000; i++) {
            sigjmp_buf back;
            volatile int before = i;
            if (sigsetjmp(back, i % 2) == 0)
                siglongjmp(back, 1);
            assert(before == i);
            checks_sums(before);
            there++;
        }
    } while (!atomic_load(&over));
    assert(there > 0);
    (void)seed;
    return 0;
}

/* Its handler runs on it, whatever interrupts that. */
static __thread volatile sig_atomic_t handled;
static void handler(int signal) {
    (void)signal;
    int before = errno;
    for (volatile int i = 0; i < 2000; i++)
        ;
    handled++;
    errno = before;
}

static void *is_signalled(void *seed) {
    long sent = 0;
    do {
        pthread_kill(pthread_self(), SIGUSR1);
        sent++;
        assert(handled == sent);
        checks_sums((unsigned)sent);
        checks_sums((unsigned)handled);
    } while (!atomic_load(&over));
    (void)seed;
    return 0;
}

int main(int count, char **arguments) {
    int threads = count > 2 ? atoi(arguments[2]) : 8;
    if (count > 1)
        turns_wanted = atol(arguments[1]);
    signal(SIGUSR1, handler);
    void *(*const kinds[])(void *) = {integers, vectors, allocates, prints, sorts, jumps, is_signalled, integers};
    pthread_t ids[256];
    assert(threads <= 256);
    for (int i = 0; i < threads; i++)
        assert(pthread_create(&ids[i], 0, kinds[i % 8], (void *)(uintptr_t)(i + 1)) == 0);
    pthread_t other;
    assert(pthread_create(&other, 0, takes_turns, 0) == 0);
    pthread_join(other, 0);
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], 0);
    puts("nothing was lost");
    return 0;
}
