/* SPDX-License-Identifier: Apache-2.0 */
/* ndjson.c: one JSON object per line. A JSON object on one line cannot contain a line end, so a
 * record ends at the next LF, even if it is malformed. CRs before the end are part of it. Lines
 * that contain only blanks are not records. */
#include "merge/format.h"

/* The requested members; if a name occurs twice, the last member counts. The kind of a member that
 * is missing is JSON_KIND_NONE. */
struct members {
    struct json_text key[KEY_PARTS_MAX];
    struct json_text time;
    struct json_text deleted;
};

static inline void match_member(const struct field *field, const struct json_text *name,
                                const struct json_text *value, struct json_text *ret_value)
{
    if (field->asked && json_text_is(name, field->name))
        *ret_value = *value;
}

/* The members of long keys and of deletions, which few merges have. */
__attribute__((noinline)) static void match_more(const struct cutter *cutter,
                                                 const struct json_text *name,
                                                 const struct json_text *value,
                                                 struct members *ret_members)
{
    for (size_t i = 1; i < cutter->key.count; i++)
        match_member(&cutter->key.parts[i].field, name, value, &ret_members->key[i]);
    match_member(&cutter->deleted, name, value, &ret_members->deleted);
}

/* Only what is requested is cleared: it happens for each record. */
static inline void clear_members(const struct cutter *cutter, struct members *members)
{
    const struct json_text none = { .kind = JSON_KIND_NONE };
    members->key[0] = members->time = none;
    if (cutter->deleted.asked)
        members->deleted = none;
    for (size_t i = 1; i < cutter->key.count; i++)
        members->key[i] = none;
}

static enum row_fault find_members(const struct cutter *cutter, struct view line,
                                   struct members *ret_members)
{
    struct json_reader reader = json_read_data(line);
    struct json_text name, value;
    bool more = cutter->key.count > 1 || cutter->deleted.asked;
    json_enter_object(&reader);
    while (json_next_pair(&reader, &name, &value)) {
        match_member(&cutter->key.parts[0].field, &name, &value, &ret_members->key[0]);
        match_member(&cutter->time, &name, &value, &ret_members->time);
        if (more)
            match_more(cutter, &name, &value, ret_members);
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
    if (members->time.kind == JSON_KIND_NONE)
        return ROW_NO_TIME;
    if (!is_text_or_number(&members->time) ||
        value_of(cutter, &members->time, &value) != ROW_NONE)
        return ROW_BAD_TIME;
    enum row_fault fault;
    return cut_time(cutter, value, ret_time, &fault) ? ROW_NONE : fault;
}

static unsigned kind_of_key(const struct json_text *value)
{
    return value->kind == JSON_KIND_NUMBER ? MERGE_KEY_NUMBER : MERGE_KEY_STRING;
}

/* The value of one part of the key, which must be a number if the part is one. */
static enum row_fault part_of_key(struct cutter *cutter, const struct key_part *part,
                                  const struct json_text *member, struct view *ret_value)
{
    if (member->kind == JSON_KIND_NONE)
        return ROW_NO_KEY;
    if (part->is_number && member->kind != JSON_KIND_NUMBER)
        return ROW_KEY_NUMBER;
    if (!is_text_or_number(member))
        return ROW_KEY_KIND;
    return value_of(cutter, member, ret_value);
}

static enum row_fault encode_key(struct cutter *cutter, const struct members *members,
                                 struct view *ret_key)
{
    const struct merge_key *key = &cutter->key;
    buffer_clear(&cutter->encoded);
    for (size_t i = 0; i < key->count; i++) {
        struct view value;
        enum row_fault fault = part_of_key(cutter, &key->parts[i], &members->key[i], &value);
        if (fault != ROW_NONE)
            return fault;
        if (!key_append(&cutter->encoded, &key->parts[i], value))
            return ROW_KEY_NUMBER;
    }
    if (cutter->encoded.failed)
        cutter->batch->keys.failed = true;
    *ret_key = buffer_view(&cutter->encoded);
    return ROW_NONE;
}

static enum row_fault ndjson_member_key(struct cutter *cutter, const struct members *members,
                                        struct view *ret_key)
{
    if (cutter->key.is_encoded)
        return encode_key(cutter, members, ret_key);
    if (cutter->key.count == 0)
        return ROW_NONE;
    return part_of_key(cutter, &cutter->key.parts[0], &members->key[0], ret_key);
}

/* true and 1 mark a deletion, as do the strings that do so in other formats. */
static enum row_fault member_deleted(const struct members *members, bool *ret_is_deleted)
{
    const struct json_text *value = &members->deleted;
    *ret_is_deleted = false;
    if (value->kind == JSON_KIND_NONE || value->kind == JSON_KIND_NULL)
        return ROW_NONE;
    bool known = !value->escaped && cut_deleted(value->text, ret_is_deleted);
    return known ? ROW_NONE : ROW_BAD_DELETED;
}

/* False if the row was not added, because it is out of order or there is no memory for it. */
static bool add_line(struct cutter *cutter, struct view line)
{
    struct members members;
    struct instant time = { 0 };
    struct view key = { 0 };
    struct batch *batch = cutter->batch;
    size_t count = batch->row_count;
    bool is_deleted = false;
    clear_members(cutter, &members);
    enum row_fault fault = find_members(cutter, line, &members);
    /* The key comes last, because it stays in scratch until the row is added. */
    enum row_fault time_fault = fault ? fault : member_time(cutter, &members, &time);
    if (!fault)
        fault = ndjson_member_key(cutter, &members, &key);
    if (!fault)
        fault = time_fault;
    if (!fault && cutter->deleted.asked)
        fault = member_deleted(&members, &is_deleted);
    if (batch->keys.failed)
        return false;
    if (fault)
        cut_fault(cutter, line, fault);
    else
        cut_row(cutter, line, key, cutter->key.is_encoded || members.key[0].escaped, &time);
    if (batch->row_count == count)
        return false;
    if (batch->rows[count].fault == ROW_NONE) {
        batch->rows[count].is_deleted = is_deleted;
        for (size_t i = 0; i < cutter->key.count; i++)
            batch->key_kinds |= kind_of_key(&members.key[i]) << MERGE_KEY_KIND_BITS * i;
    }
    return true;
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
        while (line.size > 0 && line.data[line.size - 1] == '\r')
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
