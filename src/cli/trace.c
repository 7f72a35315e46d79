#include "cli/trace.h"

#include "cli/json_add.h"
#include "cli/lock.h"

#include <inttypes.h>
#include <stdio.h>

/* Keys, ETags and what a server says may hold any byte; a line shows the odd ones escaped.
 *
 *     put a/b if-match 7f -> CONFLICT (the object has changed ...) 120 bytes 1.3ms */
static void trace_line(const struct hf_store_request *request)
{
    struct buffer line = BUFFER_INIT(8 * KIB);
    char span[SPAN_TEXT_MAX];
    uint64_t bytes = request->sent_bytes + request->received_bytes;
    buffer_print(&line, "%s ", hf_store_call_name(request->call));
    escape_append(&line, (struct view){ request->key, request->key_size });
    if (request->if_absent)
        buffer_print(&line, " if-absent");
    if (request->if_match) {
        buffer_print(&line, " if-match ");
        escape_append(&line, view_of(request->if_match));
    }
    buffer_print(&line, " -> %s", hf_status_name(request->status));
    if (request->status != HF_OK) {
        buffer_print(&line, " (");
        escape_append(&line, view_of(request->why));
        buffer_print(&line, ")");
    } else if (request->etag) {
        buffer_print(&line, " ");
        escape_append(&line, view_of(request->etag));
    }
    if (bytes > 0)
        buffer_print(&line, " %" PRIu64 " bytes", bytes);
    buffer_print(&line, " %s", span_text(SPAN_US(request->took_us), span));
    const char *text = buffer_text(&line);
    fprintf(stderr, "holdfast: %s\n", text ? text : hf_store_call_name(request->call));
    buffer_release(&line);
}

/* Written at once: other threads write theirs. */
static void trace_json(const struct hf_store_request *request)
{
    json_t *object = json_object();
    json_add(&object, "call", json_string(hf_store_call_name(request->call)));
    json_add_key(&object, "key", (struct view){ request->key, request->key_size });
    if (request->if_absent)
        json_add_bool(&object, "if_absent", true);
    if (request->if_match)
        json_add_key(&object, "if_match", view_of(request->if_match));
    json_add(&object, "status", json_string(hf_status_name(request->status)));
    if (request->status != HF_OK)
        json_add_words(&object, "why", view_of(request->why));
    else if (request->etag)
        json_add_key(&object, "etag", view_of(request->etag));
    json_add_count(&object, "sent_bytes", request->sent_bytes);
    json_add_count(&object, "received_bytes", request->received_bytes);
    json_add(&object, "took_ms", json_real((double)request->took_us / 1000));
    write_error_line(object);
}

void trace_request(void *argument, const struct hf_store_request *request)
{
    const struct cli *cli = argument;
    if (cli->json)
        trace_json(request);
    else
        trace_line(request);
}
