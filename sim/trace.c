/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c: formats the lines of a trace and keeps their running hash, which is used to compare
 * runs. */
#include "sim/trace.h"

#include "base/check.h"
#include "base/hash.h"

#include <inttypes.h>
#include <stdarg.h>

void trace_init(struct trace *trace, enum trace_mode mode, FILE *out, const int64_t *now_us)
{
    check(mode != TRACE_PRINT || out);
    *trace = (struct trace){ .mode = mode, .out = out, .now_us = now_us };
}

void trace_line(struct trace *trace, const char *format, ...)
{
    if (trace->mode == TRACE_OFF)
        return;
    char line[TRACE_LINE_MAX];
    int size = snprintf(line, sizeof line, "%" PRId64 ".%06" PRId64 " ",
                        *trace->now_us / 1000000, *trace->now_us % 1000000);
    va_list arguments;
    va_start(arguments, format);
    size += vsnprintf(line + size, sizeof line - (size_t)size, format, arguments);
    va_end(arguments);
    if ((size_t)size >= sizeof line)
        size = (int)sizeof line - 1;

    /* The hash depends on the order of lines: the previous hash is rotated and multiplied. */
    uint64_t before = (trace->hash << 7 | trace->hash >> 57) * UINT64_C(0x9fb21c651e98df25);
    trace->hash = before ^ hash_xxh3((struct view){ line, (size_t)size });
    trace->lines++;
    if (trace->mode == TRACE_PRINT)
        fprintf(trace->out, "%s\n", line);
}

struct trace_text trace_text(struct view bytes)
{
    static const char digits[] = "0123456789abcdef";
    struct trace_text result;
    size_t room = sizeof result.text - sizeof "...";
    size_t used = 0;
    for (size_t i = 0; i < bytes.size; i++) {
        unsigned char c = (unsigned char)bytes.data[i];
        bool plain = c > ' ' && c < 0x7f && c != '\\';
        if (used + (plain ? 1 : 3) > room) {
            memcpy(result.text + used, "...", 3);
            used += 3;
            break;
        }
        if (plain) {
            result.text[used++] = (char)c;
        } else {
            result.text[used++] = '\\';
            result.text[used++] = digits[c >> 4];
            result.text[used++] = digits[c & 15];
        }
    }
    result.text[used] = '\0';
    return result;
}
