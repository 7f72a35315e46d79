/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h: a progress line on the terminal for long work. It is shown only when stderr is a
 * terminal and the work has taken a second, and it is erased at the end. */
#ifndef CLI_OUTPUT_PROGRESS_H
#define CLI_OUTPUT_PROGRESS_H

#include "cli/cli.h"

struct gauge {
    struct env *env;
    bool visible; /* stderr is a terminal */
    struct view label;
    struct mono_time start;
    struct mono_time last_shown;
    size_t width; /* columns of the line that is currently shown; 0: none */
};

void gauge_start(struct gauge *gauge, struct cli *cli, struct view label);

/* The progress callback of library calls, whose argument is the gauge. Returns false, which stops
 * the transfer, after a signal has arrived. */
bool gauge_watch(void *gauge, const struct hf_progress *progress);

/* Reports the progress of work that is not a library call. A `total` of 0 means unknown. */
bool gauge_step(struct gauge *gauge, uint64_t done, uint64_t total);

/* Whether the line should be drawn again, for a caller that uses gauge_say. */
bool gauge_is_due(struct gauge *gauge);

/* Shows the caller's own text on the line, if there is a terminal. */
__attribute__((format(printf, 2, 3))) void gauge_say(struct gauge *gauge, const char *format,
                                                     ...);

/* Erases the line. */
void gauge_clear(struct gauge *gauge);

#endif
