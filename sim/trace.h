/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h: records every event of a run as a line of text, and keeps a running hash of the lines.
 *
 *     12.004210 node 2: put a/b if-match v7 -> CONFLICT
 *
 * The number is true time in seconds. The same seed produces the same lines on every machine, so
 * the hash identifies the whole run. Therefore no line may depend on a pointer value, an order
 * derived from pointers, the time of day, or text from a library. */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

#include "base/view.h"

#include <stdint.h>
#include <stdio.h>

enum trace_mode {
    TRACE_OFF,   /* no trace: fastest */
    TRACE_HASH,  /* the hash only */
    TRACE_PRINT, /* the hash, and the lines to `out` */
};

struct trace {
    enum trace_mode mode;
    FILE *out;
    const int64_t *now_us; /* true time */
    uint64_t hash;
    uint64_t lines;
};

#define TRACE_LINE_MAX 512

void trace_init(struct trace *trace, enum trace_mode mode, FILE *out, const int64_t *now_us);

/* Adds one line, without its newline; truncates it if it is too long. The line gets the time after
 * its arguments have been computed: computing them may take simulated time, and compilers do so in
 * different orders. */
__attribute__((format(printf, 2, 3))) void trace_line(struct trace *trace, const char *format,
                                                      ...);

/* Formats bytes as text for a line: control characters, spaces and non-ASCII bytes become \xx. Text
 * that is too long is truncated, and ends with dots. */
struct trace_text {
    char text[64];
};
struct trace_text trace_text(struct view bytes);

#endif
