/* ndjson.c: one JSON object a line.
 *
 * No line end can stand within JSON that is on one line, so a record ends at the next LF
 * whatever it holds. A CR before it belongs to the end. Lines of blanks are no records. */
#include "merge/format.h"
#include "merge/json_scan.h"

/* What the line has of the fields that were asked for; the last of two with one name counts. */
struct members {
    bool has_key;
    bool has_time;
    struct json_text key;
    struct json_text time;
};

static inline void find_member(const struct field *field, const struct json_text *name,
                               const struct json_text *value, bool *found,
                               struct json_text *ret_value)
{
    if (field->asked && json_text_is(name, field->name)) {
        *found = true;
        *ret_value = *value;
    }
}

static enum row_fault read_members(const struct cutter *cutter, struct view line,
                                   struct members *ret_members)
{
    struct json_scan scan;
    struct json_text name, value;
    if (!json_open(&scan, line))
        return scan.fault;
    while (json_member(&scan, &name, &value)) {
        find_member(&cutter->key, &name, &value, &ret_members->has_key, &ret_members->key);
        find_member(&cutter->time, &name, &value, &ret_members->has_time, &ret_members->time);
    }
    return scan.fault;
}

/* The value of a string or number. It stands in the record, or in scratch if it was escaped. */
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

static enum row_fault read_time(struct cutter *cutter, const struct members *members,
                                struct instant *ret_time)
{
    struct view value;
    if (!cutter->time.asked)
        return ROW_NONE;
    if (!members->has_time)
        return ROW_NO_TIME;
    if (members->time.kind == SCAN_OTHER ||
        value_of(cutter, &members->time, &value) != ROW_NONE)
        return ROW_BAD_TIME;
    enum row_fault fault;
    return cut_time(cutter, value, ret_time, &fault) ? ROW_NONE : fault;
}

static enum row_fault read_key(struct cutter *cutter, const struct members *members,
                               struct view *ret_key)
{
    if (!cutter->key.asked)
        return ROW_NONE;
    if (!members->has_key)
        return ROW_NO_KEY;
    if (members->key.kind == SCAN_OTHER)
        return ROW_KEY_KIND;
    return value_of(cutter, &members->key, ret_key);
}

/* False when the row was not taken: it is out of order, or there is no memory. */
static bool add_line(struct cutter *cutter, struct view line)
{
    struct members members = { 0 };
    struct instant time = { 0 };
    struct view key = { 0 };
    size_t count = cutter->batch->row_count;
    enum row_fault fault = read_members(cutter, line, &members);
    /* The key last: it stays in scratch until the row has it. */
    enum row_fault time_fault = fault ? fault : read_time(cutter, &members, &time);
    if (!fault)
        fault = read_key(cutter, &members, &key);
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

static inline bool is_blank(struct view line)
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
        /* A long line of blanks is no better than another long line: what a row is must not
         * depend on how much of it was seen at once. */
        bool counts = line.size > cutter->record_bytes_max || !is_blank(line);
        if (counts && !add_line(cutter, line))
            break;
        here = stop ? stop + 1 : end;
    }
    return (size_t)(here - start);
}

/* Members are found by name, whatever it looks like. */
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
