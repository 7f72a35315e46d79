/* SPDX-License-Identifier: Apache-2.0 */
/* parquet_message.c: writes and reads the messages of parquet_message.h by a table of members. */
#include "merge/parquet_message.h"

#include "base/parse.h"

#include <stddef.h>

struct message_member {
    const char *name;
    size_t offset;
    bool is_text;
};

#define REQUEST(member, is_text)                                   \
    {                                                              \
#member, offsetof(struct parquet_request, member), is_text \
    }
#define REPORT(member, is_text)                                   \
    {                                                             \
#member, offsetof(struct parquet_report, member), is_text \
    }
#define TABLE_SIZE(table) (sizeof(table) / sizeof(table)[0])

static const struct message_member request_members[] = {
    REQUEST(work, false),
    REQUEST(library, true),
    REQUEST(key, true),
    REQUEST(time, true),
    REQUEST(deleted, true),
    REQUEST(drops, false),
    REQUEST(from, true),
    REQUEST(to, true),
    REQUEST(prefix, true),
    REQUEST(since, true),
    REQUEST(until, true),
    REQUEST(output, true),
    REQUEST(rejects, true),
    REQUEST(temporary, true),
    REQUEST(memory_bytes, false),
    REQUEST(threads, false),
    REQUEST(group_rows, false),
    REQUEST(rejects_max, false),
    REQUEST(temporary_bytes, false),
};

static const struct message_member report_members[] = {
    REPORT(status, false),        REPORT(why, true),
    REPORT(input, false),         REPORT(overload, false),
    REPORT(disk_full, false),     REPORT(rows_in, false),
    REPORT(rows_out, false),      REPORT(rows_superseded, false),
    REPORT(rows_rejected, false), REPORT(rows_deleted, false),
    REPORT(deletions, false),     REPORT(reject_first, false),
    REPORT(first, true),          REPORT(last, true),
    REPORT(last_deletion, true),  REPORT(version, true),
};

#define INPUT "input"

/* ---- Writing ------------------------------------------------------------------------- */

/* With its NUL. */
static void write_text(struct buffer *to, const char *text)
{
    buffer_append(to, (struct view){ text, strlen(text) + 1 });
}

static void write_members(const struct message_member *members, size_t count,
                          const void *object, struct buffer *to)
{
    for (size_t i = 0; i < count; i++) {
        const char *at = (const char *)object + members[i].offset;
        write_text(to, members[i].name);
        if (members[i].is_text) {
            const char *text;
            memcpy(&text, at, sizeof text);
            write_text(to, text ? text : "");
        } else {
            uint64_t number;
            memcpy(&number, at, sizeof number);
            buffer_append_u64(to, number);
            buffer_append_byte(to, '\0');
        }
    }
}

bool parquet_request_write(const struct parquet_request *request, struct buffer *to)
{
    write_members(request_members, TABLE_SIZE(request_members), request, to);
    for (uint64_t i = 0; i < request->input_count; i++) {
        write_text(to, INPUT);
        write_text(to, request->inputs[i]);
    }
    return !to->failed;
}

bool parquet_report_write(const struct parquet_report *report, struct buffer *to)
{
    write_members(report_members, TABLE_SIZE(report_members), report, to);
    return !to->failed;
}

/* ---- Reading ------------------------------------------------------------------------- */

/* A text that is ended by a NUL within the message. */
static bool read_text(struct view *rest, const char **ret_text)
{
    size_t end = view_find(*rest, '\0');
    if (end == rest->size)
        return false;
    *ret_text = rest->data;
    *rest = view_from(*rest, end + 1);
    return true;
}

static bool read_value(const struct message_member *member, const char *value, void *object)
{
    char *at = (char *)object + member->offset;
    uint64_t number;
    if (member->is_text) {
        memcpy(at, &value, sizeof value);
        return true;
    }
    if (parse_u64(view_of(value), UINT64_MAX, &number, NULL) != HF_OK)
        return false;
    memcpy(at, &number, sizeof number);
    return true;
}

/* Every member must be there, in the order of the table. */
static bool read_members(const struct message_member *members, size_t count, struct view *rest,
                         void *object)
{
    const char *name, *value;
    for (size_t i = 0; i < count; i++)
        if (!read_text(rest, &name) || strcmp(name, members[i].name) != 0 ||
            !read_text(rest, &value) || !read_value(&members[i], value, object))
            return false;
    return true;
}

bool parquet_request_read(struct view bytes, struct arena *arena,
                          struct parquet_request *ret_request)
{
    struct parquet_request request = { 0 };
    struct view rest = bytes;
    const char *name, *value;
    if (!read_members(request_members, TABLE_SIZE(request_members), &rest, &request) ||
        request.work >= PARQUET_WORK_COUNT)
        return false;
    for (struct view inputs = rest; inputs.size > 0; request.input_count++)
        if (!read_text(&inputs, &name) || strcmp(name, INPUT) != 0 ||
            !read_text(&inputs, &value))
            return false;
    request.inputs = arena_take(arena, (request.input_count + 1) * sizeof *request.inputs);
    if (!request.inputs || request.input_count > PARQUET_INPUTS_MAX)
        return false;
    for (uint64_t i = 0; i < request.input_count; i++)
        (void)(read_text(&rest, &name) && read_text(&rest, &request.inputs[i]));
    *ret_request = request;
    return true;
}

bool parquet_report_read(struct view bytes, struct parquet_report *ret_report)
{
    struct parquet_report report = { 0 };
    struct view rest = bytes;
    if (!read_members(report_members, TABLE_SIZE(report_members), &rest, &report) ||
        rest.size > 0 || report.status >= HF_STATUS_COUNT)
        return false;
    *ret_report = report;
    return true;
}
