/* SPDX-License-Identifier: Apache-2.0 */
/* ndjson.c: one JSON object per line. A JSON object on one line cannot contain a line end, so a
 * record ends at the next LF, even if it is malformed. A CR before the LF is part of the end. Lines
 * that contain only blanks are not records. */
#include "merge/format.h"

/* The requested members; if a name occurs twice, the last member counts. */
struct members {
    bool has_key;
    bool has_time;
    struct json_text key;
    struct json_text time;
};

static inline void match_member(const struct field *field, const struct json_text *name,
                                const struct json_text *value, bool *found,
                                struct json_text *ret_value)
{
    if (field->asked && json_text_is(name, field->name)) {
        *found = true;
        *ret_value = *value;
    }
}

static enum row_fault find_members(const struct cutter *cutter, struct view line,
                                   struct members *ret_members)
{
    struct json_reader reader = json_read_data(line);
    struct json_text name, value;
    json_enter_object(&reader);
    while (json_next_pair(&reader, &name, &value)) {
        match_member(&cutter->key, &name, &value, &ret_members->has_key, &ret_members->key);
        match_member(&cutter->time, &name, &value, &ret_members->has_time, &ret_members->time);
    }
    json_end(&reader);
    return row_fault_of_json(reader.fault);
}

static bool is_text_or_number(const struct json_text *value)
{
    return value->kind == JSON_KIND_STRING || value->kind == JSON_KIND_NUMBER;
}

/* The value of a string or number. It is in the record or, if it had escapes, in scratch. */
static enum row_fault value_of(struct cutter *cutter, const struct json_text *text,
                               struct view *ret_value)
{
    *ret_value = text->text;
    if (!text->escaped)
        return ROW_NONE;
    buffer_clear(&cutter->scratch);
    bool whole = json_unescape(text->text, &cutter->scratch);
    if (cutter->scratch.failed)
        cutter->batch->keys.failed = true;
    *ret_value = buffer_view(&cutter->scratch);
    return whole ? ROW_NONE : ROW_NOT_UTF8;
}

static enum row_fault member_time(struct cutter *cutter, const struct members *members,
                                  struct instant *ret_time)
{
    struct view value;
    if (!cutter->time.asked)
        return ROW_NONE;
    if (!members->has_time)
        return ROW_NO_TIME;
    if (!is_text_or_number(&members->time) ||
        value_of(cutter, &members->time, &value) != ROW_NONE)
        return ROW_BAD_TIME;
    enum row_fault fault;
    return cut_time(cutter, value, ret_time, &fault) ? ROW_NONE : fault;
}

static enum row_fault ndjson_member_key(struct cutter *cutter, const struct members *members,
                                        struct view *ret_key)
{
    if (!cutter->key.asked)
        return ROW_NONE;
    if (!members->has_key)
        return ROW_NO_KEY;
    if (!is_text_or_number(&members->key))
        return ROW_KEY_KIND;
    return value_of(cutter, &members->key, ret_key);
}

/* False if the row was not added, because it is out of order or there is no memory for it. */
static bool add_line(struct cutter *cutter, struct view line)
{
    struct members members = { 0 };
    struct instant time = { 0 };
    struct view key = { 0 };
    size_t count = cutter->batch->row_count;
    enum row_fault fault = find_members(cutter, line, &members);
    /* The key comes last, because it stays in scratch until the row is added. */
    enum row_fault time_fault = fault ? fault : member_time(cutter, &members, &time);
    if (!fault)
        fault = ndjson_member_key(cutter, &members, &key);
    if (!fault)
        fault = time_fault;
    if (cutter->batch->keys.failed)
        return false;
    if (fault)
        cut_fault(cutter, line, fault);
    else
        cut_row(cutter, line, key, members.key.escaped, &time);
    return cutter->batch->row_count > count;
}

static inline bool is_blank_line(struct view line)
{
    for (size_t i = 0; i < line.size; i++)
        if (line.data[i] != ' ' && line.data[i] != '\t' && line.data[i] != '\r')
            return false;
    return true;
}

static size_t ndjson_cut(struct cutter *cutter, size_t at, size_t size, bool at_end)
{
    const char *start = cutter->batch->block + at;
    const char *end = start + size;
    const char *here = start;
    while (here < end && !batch_full(cutter->batch)) {
        const char *stop = memchr(here, '\n', (size_t)(end - here));
        if (!stop && !at_end)
            break;
        struct view line = { here, (size_t)((stop ? stop : end) - here) };
        if (stop && line.size > 0 && stop[-1] == '\r')
            line.size--;
        /* A long line that contains only blanks is rejected like any other long line, because the
         * result must not depend on how much of it was in memory. */
        bool counts = line.size > cutter->record_bytes_max || !is_blank_line(line);
        if (counts && !add_line(cutter, line))
            break;
        here = stop ? stop + 1 : end;
    }
    return (size_t)(here - start);
}

/* Members are found by name, even if the name looks like a number. */
static enum hf_status ndjson_resolve(struct cutter *cutter, struct view header,
                                     struct hf_error *error)
{
    (void)cutter;
    (void)header;
    return error_clear(error);
}

const struct format format_ndjson = {
    .is_text = true,
    .cut = ndjson_cut,
    .skip = format_skip_line,
    .resolve = ndjson_resolve,
};
