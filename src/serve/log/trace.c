/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c: reads a trace context. It guards against anything else that a client sends under its
 * name and that would otherwise get into logs and replies. */
#include "serve/log/trace.h"

#include "base/parse.h"

#define TRACE_ID_SIZE  32
#define PARENT_ID_SIZE 16
#define CONTEXT_SIZE   (2 + 1 + TRACE_ID_SIZE + 1 + PARENT_ID_SIZE + 1 + 2)

static bool is_hex_id(struct view text, size_t size)
{
    bool is_zero = true;
    for (size_t i = 0; i < text.size; i++)
        is_zero = is_zero && text.data[i] == '0';
    return text_is_hex(text, size) && !is_zero;
}

bool trace_context_read(struct view text, struct trace_context *ret_context)
{
    struct view rest = view_first(text, CONTEXT_SIZE);
    struct view version = view_cut(&rest, '-'), trace = view_cut(&rest, '-');
    struct view parent = view_cut(&rest, '-'), flags = rest;
    *ret_context = (struct trace_context){ VIEW(""), VIEW(""), VIEW("") };
    /* A later version may have more behind it, which is not passed on. */
    bool known = view_equal(version, VIEW("00"));
    bool ends = text.size == CONTEXT_SIZE ||
                (!known && text.size > CONTEXT_SIZE && text.data[CONTEXT_SIZE] == '-');
    if (!ends || !text_is_hex(version, 2) || view_equal(version, VIEW("ff")) ||
        !is_hex_id(trace, TRACE_ID_SIZE) || !is_hex_id(parent, PARENT_ID_SIZE) ||
        !text_is_hex(flags, 2))
        return false;
    *ret_context = (struct trace_context){ view_first(text, CONTEXT_SIZE), trace, parent };
    return true;
}
