/* SPDX-License-Identifier: Apache-2.0 */
/* entry.c: an entry of the log as a line. It guards against names of clients that would begin
 * another line or another member: they are written as JSON strings in both formats. */
#include "serve/log/log.h"

#include "base/json.h"
#include "base/parse.h"

#include <inttypes.h>
#include <stdlib.h>

static const char *status_word(const struct log_entry *entry)
{
    if (entry->status == 0)
        return "hung_up";
    return entry->word ? entry->word : "ok";
}

static void put_log_member(struct buffer *line, const char *name, struct view text)
{
    if (!text.data || text.size == 0)
        return;
    buffer_print(line, ",\"%s\":", name);
    json_write_string(line, text);
}

static void put_log_text(struct buffer *line, const char *name, const char *text)
{
    put_log_member(line, name, view_of(text ? text : ""));
}

static void put_took(struct buffer *line, struct span took)
{
    int64_t us = took.us > 0 ? took.us : 0;
    buffer_print(line, "%" PRId64 ".%03" PRId64, us / 1000, us % 1000);
}

void log_entry_json(const struct log_entry *entry, bool audits, struct buffer *line)
{
    char at[TIME_TEXT_MAX];
    buffer_print(line, "{\"at\":\"%s\"", time_text(entry->at, at));
    put_log_text(line, "message", audits ? "audit" : "request");
    put_log_text(line, "method", entry->method);
    put_log_text(line, "route", entry->route);
    buffer_print(line, ",\"status\":%d", entry->status);
    put_log_text(line, "result", status_word(entry));
    buffer_append(line, VIEW(",\"took_ms\":"));
    put_took(line, entry->took);
    put_log_text(line, "namespace", entry->ns);
    if (audits) {
        put_log_text(line, "scope", entry->scope);
        put_log_text(line, "owner", entry->owner);
        put_log_text(line, "reason", entry->reason);
        if (entry->token > 0)
            buffer_print(line, ",\"fencing_token\":%" PRIu64, entry->token);
    }
    put_log_text(line, "who", entry->who);
    put_log_text(line, "peer", entry->peer);
    put_log_member(line, "trace_id", entry->trace.trace_id);
    put_log_member(line, "parent_id", entry->trace.parent_id);
    buffer_append(line, VIEW("}\n"));
}

static void put_word(struct buffer *line, const char *name, struct view text)
{
    if (text.size == 0)
        return;
    buffer_print(line, " %s=", name);
    json_write_string(line, text);
}

void log_entry_text(const struct log_entry *entry, struct buffer *line)
{
    buffer_print(line, "holdfast serve: %s %s: ", entry->method, entry->route);
    if (entry->status > 0)
        buffer_print(line, "%d ", entry->status);
    buffer_print(line, "%s, ", status_word(entry));
    put_took(line, entry->took);
    buffer_append(line, VIEW(" ms"));
    put_word(line, "namespace", view_of(entry->ns ? entry->ns : ""));
    put_word(line, "who", view_of(entry->who));
    put_word(line, "peer", view_of(entry->peer));
    put_word(line, "trace_id", entry->trace.trace_id);
    buffer_append_byte(line, '\n');
}
