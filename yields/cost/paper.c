// The lock-free scheduler's News, Matrix and switches (its table 1, figures 10 and 8), for `cargo xtask yields-paper`.
//     paper news CUSTOMERS REPORTERS ITEMS | loop CUSTOMERS REPORTERS ITEMS | matrix SIZE THREADS | switch THREADS TOTAL
// Prints milliseconds of processor time of the whole, and a checksum. `loop` is News where who has read looks at all customers in place of a count: the paper
// speaks of a tight innermost loop and does not say which.
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static long a, b, c;

static pthread_mutex_t board = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t fresh = PTHREAD_COND_INITIALIZER, all_read = PTHREAD_COND_INITIALIZER;
static long published, unread, item, sum;
static long *has_read;
static int looks;

static long all_looked_at(void) {
    long left = 0;
    for (long i = 0; i < a; i++) left += has_read[i] < published;
    return left;
}

static void *customer(void *number) {
    long own = 0;
    for (long seen = 0; seen < b * c; seen++) {
        pthread_mutex_lock(&board);
        while (published == seen) pthread_cond_wait(&fresh, &board);
        own += item;
        has_read[(long)number] = published;
        unread = looks ? all_looked_at() : unread - 1;
        int last = unread == 0;
        pthread_mutex_unlock(&board);
        if (last) pthread_cond_signal(&all_read);
    }
    __atomic_fetch_add(&sum, own, __ATOMIC_RELAXED);
    return 0;
}

static void *reporter(void *number) {
    for (long i = 0; i < c; i++) {
        pthread_mutex_lock(&board);
        while (unread > 0) pthread_cond_wait(&all_read, &board);
        item = (long)number * c + i;
        published++;
        unread = a;
        pthread_mutex_unlock(&board);
        pthread_cond_broadcast(&fresh);
    }
    return 0;
}

static double *left, *right, *product;

static void *rows(void *number) {
    for (long i = (long)number; i < a; i += b)
        for (long j = 0; j < a; j++) {
            double all = 0;
            for (long k = 0; k < a; k++) all += left[i * a + k] * right[k * a + j];
            product[i * a + j] = all;
        }
    return 0;
}

static void *switches(void *number) {
    for (long i = (long)number; i < b; i += a) sched_yield();
    return 0;
}

static void all(long count, void *(*body)(void *), pthread_t *threads) {
    for (long i = 0; i < count; i++)
        if (pthread_create(&threads[i], 0, body, (void *)i)) abort();
}

static void join(long count, pthread_t *threads) {
    for (long i = 0; i < count; i++) pthread_join(threads[i], 0);
}

int main(int count, char **words) {
    struct timespec from, to;
    if (count < 4) return 2;
    a = atol(words[2]), b = atol(words[3]), c = count > 4 ? atol(words[4]) : 0;
    pthread_t *threads = calloc(a + b, sizeof *threads);
    has_read = calloc(a, sizeof *has_read);
    if (!strcmp(words[1], "matrix")) {
        left = calloc(a * a, sizeof *left), right = calloc(a * a, sizeof *right), product = calloc(a * a, sizeof *product);
        for (long i = 0; i < a; i++)
            for (long j = 0; j < a; j++) left[i * a + j] = (i + j) % 7, right[i * a + j] = i * j % 5;
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    if (!strcmp(words[1], "matrix")) {
        all(b, rows, threads), join(b, threads);
        for (long i = 0; i < a * a; i++) sum += product[i];
    } else if (!strcmp(words[1], "switch")) {
        all(a, switches, threads), join(a, threads);
        sum = b;
    } else {
        looks = !strcmp(words[1], "loop");
        all(a, customer, threads), all(b, reporter, threads + a), join(a + b, threads);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    printf("%.3f %ld\n", (to.tv_sec - from.tv_sec) * 1e3 + (to.tv_nsec - from.tv_nsec) / 1e6, sum);
}
