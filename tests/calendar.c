/* SPDX-License-Identifier: Apache-2.0 */
/* calendar.c: a library to preload, with which a test moves the wall clock of one process while
 * it runs. $HOLDFAST_TEST_CALENDAR names a file with the seconds to add, which is read at every
 * access to the clock. Only the wall clock moves. Timers, sleeps and monotonic clocks are those
 * of the system, as when somebody sets the date. calendar_kit.py preloads it. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define REPLACES_LIBC __attribute__((visibility("default")))

static long seconds_to_add(void)
{
    const char *path = getenv("HOLDFAST_TEST_CALENDAR");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    char text[32] = "";
    if (file < 0)
        return 0;
    if (read(file, text, sizeof text - 1) <= 0)
        abort();
    close(file);
    return strtol(text, NULL, 10);
}

REPLACES_LIBC int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    if (syscall(SYS_clock_gettime, clock, ret_time) != 0)
        return -1;
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
        ret_time->tv_sec += seconds_to_add();
    return 0;
}

REPLACES_LIBC int gettimeofday(struct timeval *restrict ret_time, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    *ret_time = (struct timeval){ .tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000 };
    return 0;
}

REPLACES_LIBC time_t time(time_t *ret_time)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    if (ret_time)
        *ret_time = now.tv_sec;
    return now.tv_sec;
}
