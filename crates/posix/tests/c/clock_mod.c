// Preloaded: tells another time, as libfaketime does. Days earlier by the calendar, and hours later since the start.
#include <dlfcn.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    int (*next)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int result = next(clock, time);
    if (clock == CLOCK_REALTIME) time->tv_sec -= 100 * 86400;
    if (clock == CLOCK_MONOTONIC) time->tv_sec += 10 * 3600;
    return result;
}
