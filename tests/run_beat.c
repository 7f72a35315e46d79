/* SPDX-License-Identifier: Apache-2.0 */
/* run_beat.c: a command for tests of `holdfast run`. It records in a file when it is alive.
 *
 *     run_beat beat FILE    appends "start PID TOKEN", then "beat US" every few milliseconds; so
 *                           do an orphan in its own session and a child; ignores TERM, HUP and
 *                           INT
 *     run_beat note FILE    appends "note US TOKEN" and ends
 *
 * US is the boot-time clock in microseconds, which all processes of a machine share. */
#include "base/check.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BEAT_MS 10

static int file;

static int64_t now_us(void)
{
    struct timespec t;
    check(clock_gettime(CLOCK_BOOTTIME, &t) == 0);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Short lines that are appended by one write each stay whole. */
static void append(const char *line, int size)
{
    check(write(file, line, (size_t)size) == size);
}

static _Noreturn void beat(void)
{
    char line[64];
    for (;;) {
        append(line, snprintf(line, sizeof line, "beat %" PRId64 "\n", now_us()));
        poll(NULL, 0, BEAT_MS);
    }
}

static _Noreturn void beat_with_others(const char *token)
{
    char line[128];
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    int pid = getpid();
    if (fork() == 0)
        beat();
    if (fork() == 0) {
        setsid();
        if (fork() == 0)
            beat();
        _exit(0);
    }
    append(line, snprintf(line, sizeof line, "start %d %s\n", pid, token));
    beat();
}

int main(int count, char **words)
{
    char line[128];
    const char *token = getenv("HOLDFAST_TOKEN");
    if (count != 3 || !token) {
        fprintf(stderr, "usage: HOLDFAST_TOKEN=N run_beat beat|note FILE\n");
        return 2;
    }
    int64_t now = now_us();
    file = open(words[2], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    check(file >= 0);
    if (strcmp(words[1], "beat") == 0)
        beat_with_others(token);
    append(line, snprintf(line, sizeof line, "note %" PRId64 " %s\n", now, token));
    return 0;
}
