/* What a work takes in processor time without checks and with them, in turns:
 *     rounds ROUNDS PLAIN CHECKED WORK
 * A run repeats the work until it takes RUN_MICROSECONDS without checks. What the same number of empty runs takes is taken off. The row: the
 * medians of both for one run of the work, in microseconds, the median of the rounds' ratios, and the lowest and highest of them. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* So long that the kernel's account of a process, exact to some microseconds, is exact to a thousandth. */
enum { RUN_MICROSECONDS = 20000, MOST_ROUNDS = 1001 };

static double seconds(struct timeval time) { return (double)time.tv_sec + (double)time.tv_usec / 1e6; }

static double run(const char *program, const char *work, long times) {
    char count[32];
    snprintf(count, sizeof count, "%ld", times);
    pid_t child = fork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, 1);
        execl(program, program, work, count, (char *)0);
        _exit(127);
    }
    int status;
    struct rusage used;
    if (child < 0 || wait4(child, &status, 0, &used) != child || status != 0) {
        fprintf(stderr, "%s %s %ld failed\n", program, work, times);
        exit(1);
    }
    return seconds(used.ru_utime) + seconds(used.ru_stime);
}

static double net(const char *program, const char *work, long times) { return run(program, work, times) - run(program, "nothing", times); }

static int lower(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int count, char **arguments) {
    static double all[3][MOST_ROUNDS];
    int rounds = count > 4 ? atoi(arguments[1]) : 0;
    if (rounds < 1 || rounds > MOST_ROUNDS)
        return fprintf(stderr, "rounds ROUNDS PLAIN CHECKED WORK\n"), 2;
    const char *programs[2] = {arguments[2], arguments[3]}, *work = arguments[4];
    long times = 1;
    while (times < 1 << 20 && net(programs[0], work, times) * 1e6 < RUN_MICROSECONDS)
        times *= 2;
    for (int round = 0; round < rounds; round++) {
        /* Each is the first one in every second round. */
        for (int turn = 0; turn < 2; turn++) {
            int which = (round + turn) % 2;
            all[which][round] = net(programs[which], work, times) / (double)times * 1e6;
        }
        all[2][round] = all[1][round] / all[0][round];
    }
    for (int i = 0; i < 3; i++)
        qsort(all[i], (size_t)rounds, sizeof(double), lower);
    int middle = rounds / 2;
    printf("%-18s %12.1f %12.1f %7.3f  (%.3f to %.3f)\n", work, all[0][middle], all[1][middle], all[2][middle], all[2][0], all[2][rounds - 1]);
    return 0;
}
