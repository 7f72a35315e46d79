/* trace.h: everything that happens, as lines in plain words, and a running hash of them.
 *
 *     12.004210 node 2: put a/b if-match v7 -> CONFLICT
 *
 * The number is true time in seconds. Equal seeds give equal lines on every machine, so the
 * hash of one run stands for the whole run. Therefore no line may hold a pointer, an order that
 * depends on one, a time of day or the words of a library. */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

#include "base/view.h"

#include <stdint.h>
#include <stdio.h>

enum trace_mode {
    TRACE_OFF,   /* nothing: fastest */
    TRACE_HASH,  /* the hash only */
    TRACE_PRINT, /* the hash, and the lines to `out` */
};

struct trace {
    enum trace_mode mode;
    FILE *out;
    uint64_t hash;
    uint64_t lines;
};

#define TRACE_LINE_MAX 512

void trace_init(struct trace *trace, enum trace_mode mode, FILE *out);

/* One line, without its newline; cut where it is too long. */
__attribute__((format(printf, 3, 4))) void trace_line(struct trace *trace, int64_t now_us,
                                                      const char *format, ...);

/* Bytes as they can stand in a line: control characters, spaces and what is not ASCII as \xx,
 * and what is too long cut, with dots at the end. */
struct trace_text {
    char text[64];
};
struct trace_text trace_text(struct view bytes);

#endif
