/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h: the W3C trace context of a request, which ties it to the work of other programs:
 *
 *     traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
 *
 * A valid one is logged, and sent back with the reply. Any other one is ignored. */
#ifndef SERVE_LOG_TRACE_H
#define SERVE_LOG_TRACE_H

#include "base/view.h"

struct trace_context {
    struct view text; /* as it was sent; empty: there is none */
    struct view trace_id, parent_id;
};

/* False, and an empty context, if the text is not valid. The views point into the text. */
bool trace_context_read(struct view text, struct trace_context *ret_context);

#endif
