/* SPDX-License-Identifier: Apache-2.0 */
/* csv.c: records with fields separated by commas or tabs, as in RFC 4180. An unclosed quote must
 * not affect the records after it: only its own line is rejected. */
#include "merge/csv.h"

#include "merge/format.h"
#include "merge/swar.h"

/* A quote at the start of a field opens the field if there is a closing quote. The closing quote is
 * the next quote that is not doubled, and it must be followed by a separator, a line end or the end
 * of the input. It must be among the first record_bytes_max bytes of the record, which limits the
 * search. Separators and line ends within quotes are data. LF ends a record, with all CRs before
 * it, and so does the end of the input; any other CR is data. (A record is written with LF. If a CR
 * before its end were data, the next merge would take it for a part of the end.)
 *
 * Any other quote is stray: it is read as unquoted text, which ends at the next separator or line
 * end, and its record is rejected. */

#define QUOTE '"'

struct scan {
    const char *end;
    char separator;
    uint64_t separators; /* for swar_find */
    size_t key_number;
    size_t time_number;
};

struct record {
    size_t fields;
    bool bad_quotes;
    struct csv_value key;
    struct csv_value time;
};

static struct scan scan_to(const struct cutter *cutter, const char *end)
{
    return (struct scan){ .end = end,
                          .separator = cutter->separator,
                          .separators = EACH_BYTE(cutter->separator),
                          .key_number = cutter->key.parts[0].field.number,
                          .time_number = cutter->time.number };
}

/* After the last byte of a field: skips the CRs before a line end. */
static inline const char *skip_returns(const char *at, const char *end)
{
    while (at < end && *at == '\r')
        at++;
    return at;
}

static inline void strip_returns(struct view *text)
{
    while (text->size > 0 && text->data[text->size - 1] == '\r')
        text->size--;
}

/* The end of the bytes that contain records: the CRs at the end of the input are a part of it. */
static const char *end_of_records(const char *start, const char *end, bool at_end)
{
    while (at_end && end > start && end[-1] == '\r')
        end--;
    return end;
}

/* ---- Well-formed records ------------------------------------------------------------- */

/* Nearly all records are well formed: every quote opens a field at its start or closes it at its
 * end. These functions handle only such records, and are fast. They return where the field or
 * record ends (at a separator, at LF, or at the end of the bytes), or NULL for anything else, which
 * the slower functions below read. Both give the same result for well-formed records. */

static inline const char *sound_plain(const struct scan *scan, const char *at,
                                      struct view *ret_text)
{
    const char *start = at;
    at = swar_find_of_three(at, scan->end, scan->separators, EACH_BYTE('\n'), EACH_BYTE(QUOTE));
    *ret_text = (struct view){ start, (size_t)(at - start) };
    if (at == scan->end)
        return at;
    if (*at == QUOTE)
        return NULL;
    /* There is a byte before it, because no record begins with its terminator. */
    if (*at == '\n' && at[-1] == '\r')
        strip_returns(ret_text);
    return at;
}

/* Starts after an opening quote. */
static inline const char *sound_quoted(const struct scan *scan, const char *at,
                                       struct csv_value *ret_value)
{
    const char *start = at;
    bool doubled = false;
    while ((at = swar_find(at, scan->end, EACH_BYTE(QUOTE))) < scan->end &&
           scan->end - at > 1 && at[1] == QUOTE) {
        doubled = true;
        at += 2;
    }
    *ret_value = (struct csv_value){ { start, (size_t)(at - start) }, doubled };
    if (at++ == scan->end)
        return NULL;
    if (at == scan->end || *at == scan->separator || *at == '\n')
        return at;
    at = skip_returns(at, scan->end);
    return at < scan->end && *at == '\n' ? at : NULL;
}

static inline const char *sound_field(const struct scan *scan, const char *at,
                                      struct csv_value *ret_value)
{
    if (at < scan->end && *at == QUOTE)
        return sound_quoted(scan, at + 1, ret_value);
    ret_value->doubled = false;
    return sound_plain(scan, at, &ret_value->text);
}

bool csv_take_field(struct view *record, char separator, struct csv_value *ret_value,
                    bool *ret_more)
{
    const struct scan scan = { .end = record->data + record->size,
                               .separator = separator,
                               .separators = EACH_BYTE(separator) };
    const char *end = sound_field(&scan, record->data, ret_value);
    *ret_more = end && end < scan.end;
    if (*ret_more)
        *record = view_from(*record, (size_t)(end + 1 - record->data));
    return end != NULL;
}

static inline const char *sound_record(const struct scan *scan, const char *at,
                                       struct record *ret_record)
{
    struct csv_value unwanted;
    *ret_record = (struct record){ 0 };
    for (;; at++) {
        struct csv_value *to = &unwanted;
        size_t number = ++ret_record->fields;
        if (number == scan->time_number)
            to = &ret_record->time;
        if (number == scan->key_number)
            to = &ret_record->key;
        at = sound_field(scan, at, to);
        if (!at)
            return NULL;
        if (at == scan->end || *at == '\n')
            break;
    }
    if (scan->key_number == scan->time_number)
        ret_record->time = ret_record->key;
    return at;
}

/* ---- Malformed records --------------------------------------------------------------- */

/* How far to search for closing quotes: to the end of the bytes, or less. */
struct reach {
    const char *limit;
    bool firm; /* false: only the end of the bytes so far; more follow */
    bool at_end;
};

/* The kind of a quote. */
enum closing { CLOSED, STRAY, UNDECIDED };

/* After a quote that is not doubled: whether it closes its field, and where the field ends. */
static enum closing classify_close(const struct scan *scan, struct reach reach, const char *at,
                                   const char **ret_end)
{
    *ret_end = at;
    if (at < scan->end && *at == scan->separator)
        return CLOSED;
    *ret_end = skip_returns(at, scan->end);
    if (*ret_end == scan->end)
        return reach.at_end ? CLOSED : UNDECIDED;
    return **ret_end == '\n' ? CLOSED : STRAY;
}

/* Starts at a quote that may open a field. */
static enum closing pass_quoted(const struct scan *scan, struct reach reach, const char *open,
                                struct csv_value *ret_value, const char **ret_end)
{
    const char *at = open + 1;
    bool doubled = false;
    while ((at = swar_find(at, reach.limit, EACH_BYTE(QUOTE))) < reach.limit &&
           scan->end - at > 1 && at[1] == QUOTE) {
        doubled = true;
        at += 2;
    }
    if (at >= reach.limit)
        return reach.firm ? STRAY : UNDECIDED;
    *ret_value = (struct csv_value){ { open + 1, (size_t)(at - open - 1) }, doubled };
    return classify_close(scan, reach, at + 1, ret_end);
}

/* Unquoted text, with or without stray quotes. */
static const char *pass_unquoted(const struct scan *scan, const char *at, struct record *record,
                                 struct view *ret_text)
{
    const char *start = at, *end;
    while ((end = sound_plain(scan, at, ret_text)) == NULL) {
        record->bad_quotes = true;
        at = ret_text->data + ret_text->size + 1;
    }
    *ret_text = (struct view){ start, (size_t)(ret_text->data + ret_text->size - start) };
    return end;
}

/* Returns where the field ends: at a separator, at LF, or at the end of the bytes. Also returns the
 * end of the bytes if more bytes are needed to decide. */
static const char *pass_field(const struct scan *scan, struct reach reach, const char *at,
                              struct record *record, struct csv_value *ret_value)
{
    const char *end;
    *ret_value = (struct csv_value){ { at, 0 }, false };
    if (at < scan->end && *at == QUOTE) {
        enum closing closing = pass_quoted(scan, reach, at, ret_value, &end);
        if (closing != STRAY)
            return closing == CLOSED ? end : scan->end;
    }
    ret_value->doubled = false;
    return pass_unquoted(scan, at, record, &ret_value->text);
}

__attribute__((noinline)) static const char *pass_record(const struct scan *scan,
                                                         struct reach reach, const char *at,
                                                         struct record *ret_record)
{
    *ret_record = (struct record){ 0 };
    for (;; at++) {
        struct csv_value value;
        ret_record->fields++;
        at = pass_field(scan, reach, at, ret_record, &value);
        if (ret_record->fields == scan->key_number)
            ret_record->key = value;
        if (ret_record->fields == scan->time_number)
            ret_record->time = value;
        if (at == scan->end || *at == '\n')
            return at;
    }
}

/* ---- Rows ---------------------------------------------------------------------------- */

bool csv_append_value(struct buffer *to, const struct csv_value *value)
{
    struct view rest = value->text;
    while (value->doubled && rest.size > 0) {
        size_t run = view_find(rest, QUOTE);
        buffer_append(to, view_first(rest, run + 1));
        rest = view_from(rest, run + 2);
    }
    return buffer_append(to, rest);
}

bool csv_take(struct view *record, char separator, struct csv_field *ret_field, bool *ret_more)
{
    ret_field->raw = *record;
    if (!csv_take_field(record, separator, &ret_field->value, ret_more))
        return false;
    if (*ret_more)
        ret_field->raw.size = (size_t)(record->data - 1 - ret_field->raw.data);
    return true;
}

bool csv_split(struct view record, char separator, size_t most, struct buffer *fields,
               size_t *ret_count)
{
    bool more = true;
    buffer_clear(fields);
    for (*ret_count = 0; more && *ret_count < most; ++*ret_count) {
        struct csv_field field;
        if (!csv_take(&record, separator, &field, &more))
            return false;
        if (!buffer_append(fields, (struct view){ (const char *)&field, sizeof field }))
            return false;
    }
    return true;
}

/* ---- Rows whose key is encoded, that can be deletions, or that are rewritten ----------- */

/* All fields of a record. */
struct csv_fields {
    const struct csv_field *fields;
    size_t count;
};

static bool plain_value(struct cutter *cutter, const struct csv_value *value,
                        struct view *ret_text)
{
    *ret_text = value->text;
    if (!value->doubled)
        return true;
    buffer_clear(&cutter->scratch);
    bool copied = csv_append_value(&cutter->scratch, value);
    *ret_text = buffer_view(&cutter->scratch);
    return copied;
}

static enum row_fault take_csv_key(struct cutter *cutter, struct csv_fields record,
                                   struct view *ret_key)
{
    const struct merge_key *key = &cutter->key;
    bool copied = true;
    *ret_key = VIEW("");
    buffer_clear(&cutter->encoded);
    for (size_t i = 0; i < key->count && copied; i++) {
        const struct key_part *part = &key->parts[i];
        struct view value;
        if (part->field.number > record.count)
            return ROW_NO_KEY;
        copied = plain_value(cutter, &record.fields[part->field.number - 1].value, &value);
        if (!key->is_encoded)
            *ret_key = value;
        else if (copied && !key_append(&cutter->encoded, part, value))
            return ROW_KEY_NUMBER;
    }
    if (key->is_encoded)
        *ret_key = buffer_view(&cutter->encoded);
    if (!copied || cutter->encoded.failed)
        cutter->batch->keys.failed = true;
    return ROW_NONE;
}

static enum row_fault take_csv_deleted(struct cutter *cutter, struct csv_fields record,
                                       bool *ret_is_deleted)
{
    size_t number = cutter->deleted.number;
    *ret_is_deleted = false;
    if (number == 0 || number > record.count)
        return ROW_NONE;
    bool good = cut_deleted(record.fields[number - 1].value.text, ret_is_deleted);
    return good ? ROW_NONE : ROW_BAD_DELETED;
}

void csv_append_raw(struct buffer *to, struct view raw)
{
    bool needs_quotes = raw.size > 0 && raw.data[raw.size - 1] == '\r';
    if (needs_quotes)
        buffer_append_byte(to, QUOTE);
    buffer_append(to, raw);
    if (needs_quotes)
        buffer_append_byte(to, QUOTE);
}

/* Writes a record with the columns of the output into `texts`. */
static void rewrite(struct cutter *cutter, struct view text, struct csv_fields record)
{
    const struct column_map *map = cutter->map;
    struct buffer *to = &cutter->batch->texts;
    buffer_reserve(to, text.size + map->count + BLOCK_SLACK);
    if (map->empty_after > 0)
        buffer_append(to, text);
    for (size_t i = 0; i < map->empty_after; i++)
        buffer_append_byte(to, cutter->separator);
    for (size_t i = 0; i < map->count && map->empty_after == 0; i++) {
        if (i > 0)
            buffer_append_byte(to, cutter->separator);
        if (map->from[i] > 0)
            csv_append_raw(to, record.fields[map->from[i] - 1].raw);
    }
    buffer_reserve(to, BLOCK_SLACK);
    if (to->failed)
        cutter->batch->keys.failed = true;
}

/* A row that is good in itself: its key, whether it is a deletion, and its record. */
struct special {
    struct view key;
    bool is_deleted;
    size_t start; /* of the record in `texts`, if it is rewritten */
};

/* Adds the row, then replaces its record by the one that was written to `texts`. */
static void add_rewritten(struct cutter *cutter, struct view text, const struct special *row,
                          const struct instant *time)
{
    struct batch *batch = cutter->batch;
    size_t count = batch->row_count, size = batch->texts.size - row->start;
    if (size > cutter->record_bytes_max) {
        batch->texts.size = row->start;
        cut_fault(cutter, text, ROW_TOO_LONG);
        return;
    }
    cut_row_slowly(cutter, text, row->key, /* apart */ true, time, row->is_deleted);
    if (batch->row_count == count) {
        batch->texts.size = row->start;
        return;
    }
    batch->rows[count].at = (uint32_t)row->start;
    batch->rows[count].size = (uint32_t)size;
}

/* How many fields of a record are needed: all, if it is rewritten. Otherwise a record with very
 * many fields would take many times its size. */
static size_t fields_needed(const struct cutter *cutter)
{
    size_t most = cutter->deleted.number;
    if (cutter->map)
        return SIZE_MAX;
    for (size_t i = 0; i < cutter->key.count; i++)
        if (cutter->key.parts[i].field.number > most)
            most = cutter->key.parts[i].field.number;
    return most;
}

__attribute__((noinline)) static void add_special(struct cutter *cutter, struct view text,
                                                  const struct instant *time)
{
    struct batch *batch = cutter->batch;
    struct special row = { .start = batch->texts.size };
    struct csv_fields record;
    if (!csv_split(text, cutter->separator, fields_needed(cutter), &cutter->fields,
                   &record.count)) {
        batch->keys.failed = true; /* the quotes are right, so there was no memory */
        return;
    }
    record.fields = (const struct csv_field *)(const void *)cutter->fields.data;
    enum row_fault fault = take_csv_key(cutter, record, &row.key);
    if (fault == ROW_NONE)
        fault = take_csv_deleted(cutter, record, &row.is_deleted);
    if (fault == ROW_NONE && text.size > cutter->record_bytes_max)
        fault = ROW_TOO_LONG;
    if (fault == ROW_NONE && cutter->map)
        rewrite(cutter, text, record);
    if (batch->keys.failed)
        return;
    if (fault != ROW_NONE)
        cut_fault(cutter, text, fault);
    else if (cutter->map)
        add_rewritten(cutter, text, &row, time);
    else
        cut_row_slowly(cutter, text, row.key, /* apart */ true, time, row.is_deleted);
}

static void add_good(struct cutter *cutter, struct view text, const struct record *record,
                     const struct instant *time)
{
    struct buffer *scratch = &cutter->scratch;
    if (cutter->key.is_encoded || cutter->deleted.number || cutter->map) {
        add_special(cutter, text, time);
        return;
    }
    if (!record->key.doubled) {
        cut_row(cutter, text, record->key.text, /* apart */ false, time);
        return;
    }
    buffer_clear(scratch);
    if (csv_append_value(scratch, &record->key))
        cut_row(cutter, text, buffer_view(scratch), /* apart */ true, time);
    else
        cutter->batch->keys.failed = true;
}

/* False if the row was not added, because it is out of order or there is no memory for it. */
static inline bool add_csv_row(struct cutter *cutter, struct view text,
                               const struct record *record)
{
    size_t count = cutter->batch->row_count;
    struct instant time = { 0 };
    enum row_fault fault;
    if (record->bad_quotes)
        cut_fault(cutter, text, ROW_QUOTES);
    else if (cutter->columns && record->fields != cutter->columns)
        cut_fault(cutter, text, ROW_COLUMNS);
    else if (cutter->key.count > 0 && record->fields < cutter->key.parts[0].field.number)
        cut_fault(cutter, text, ROW_NO_KEY);
    else if (cutter->time.asked && record->fields < cutter->time.number)
        cut_fault(cutter, text, ROW_NO_TIME);
    else if (cutter->time.asked && !cut_time(cutter, record->time.text, &time, &fault))
        cut_fault(cutter, text, fault);
    else
        add_good(cutter, text, record, &time);
    return cutter->batch->row_count > count;
}

/* The size of an empty line at `at`, including its end; 0 if there is none. */
static inline size_t empty_line(const char *at, const char *end)
{
    const char *stop = skip_returns(at, end);
    return stop < end && *stop == '\n' ? (size_t)(stop + 1 - at) : 0;
}

/* The text of a record that ends at `stop`, without the CRs before its LF. */
static inline struct view record_text(const char *start, const char *stop, const char *end)
{
    struct view text = { start, (size_t)(stop - start) };
    if (stop < end)
        strip_returns(&text);
    return text;
}

/* Reads a record that is malformed or too long. Only quotes that are closed within its first
 * record_bytes_max bytes count. */
__attribute__((noinline)) static const char *read_odd(const struct cutter *cutter,
                                                      const char *here, const char *end,
                                                      bool at_end, struct record *ret_record)
{
    struct scan scan = scan_to(cutter, end);
    struct reach reach = { end, at_end, at_end };
    if ((size_t)(end - here) >= cutter->record_bytes_max) {
        reach.limit = here + cutter->record_bytes_max;
        reach.firm = true;
    }
    return pass_record(&scan, reach, here, ret_record);
}

static size_t csv_cut(struct cutter *cutter, size_t at, size_t size, bool at_end)
{
    const char *start = cutter->batch->block + at;
    const char *whole = start + size, *end = end_of_records(start, whole, at_end);
    const char *here = start;
    struct scan scan = scan_to(cutter, end);
    while (here < end && !batch_full(cutter->batch)) {
        struct record record;
        size_t empty = empty_line(here, end);
        if (empty) {
            here += empty;
            continue;
        }
        const char *stop = sound_record(&scan, here, &record);
        if (!stop || (size_t)(stop - here) > cutter->record_bytes_max)
            stop = read_odd(cutter, here, end, at_end, &record);
        if (stop == end && !at_end)
            break;
        if (!add_csv_row(cutter, record_text(here, stop, end), &record))
            break;
        here = stop < end ? stop + 1 : end;
    }
    return (size_t)((here == end ? whole : here) - start);
}

/* ---- The header ---------------------------------------------------------------------- */

/* Empty lines before the header are skipped. If the input has only empty lines, it has no header:
 * all of it is consumed, and ret_record->data is NULL. */
static size_t csv_header(struct cutter *cutter, struct view bytes, bool at_end,
                         struct view *ret_record)
{
    const char *end = end_of_records(bytes.data, bytes.data + bytes.size, at_end);
    const char *here = bytes.data + format_mark_size(bytes);
    struct scan scan = scan_to(cutter, end);
    struct record record;
    size_t empty;
    while (here < end && (empty = empty_line(here, end)) > 0)
        here += empty;
    const char *stop = end;
    if (here < end)
        stop = pass_record(&scan, (struct reach){ end, at_end, at_end }, here, &record);
    if (stop == end && !at_end)
        return 0;
    *ret_record = (struct view){ NULL, 0 };
    if (stop > here)
        *ret_record = record_text(here, stop, end);
    return stop < end ? (size_t)(stop + 1 - bytes.data) : bytes.size;
}

/* ---- Names --------------------------------------------------------------------------- */

#define NAMES_SHOWN_BYTES 120

/* A requested field, and what the header has by its name. */
struct wanted {
    struct field *field;
    bool is_optional;
    size_t matches;
    size_t number; /* of the last match */
};

#define WANTED_MAX (KEY_PARTS_MAX + 2)

struct names {
    struct wanted wanted[WANTED_MAX];
    size_t wanted_count;
    size_t count;
    size_t shown; /* bytes of `text` */
    bool more;    /* there are more than fit into `text` */
    char text[NAMES_SHOWN_BYTES];
};

static bool value_is(const struct csv_value *value, struct view name)
{
    size_t at = 0;
    for (size_t i = 0; i < value->text.size; i++, at++) {
        if (at == name.size || value->text.data[i] != name.data[at])
            return false;
        i += value->doubled && value->text.data[i] == QUOTE;
    }
    return at == name.size;
}

/* Adds whole names while there is room; each control character is shown as a mark. */
static void show_name(struct names *names, struct view name)
{
    size_t comma = names->shown ? 2 : 0;
    if (names->more || name.size + comma > sizeof names->text - names->shown) {
        names->more = true;
        return;
    }
    memcpy(names->text + names->shown, ", ", comma);
    names->shown += comma;
    for (size_t i = 0; i < name.size; i++) {
        unsigned char byte = (unsigned char)name.data[i];
        names->text[names->shown++] = byte < 0x20 || byte == 0x7f ? '?' : name.data[i];
    }
}

static void want_field(struct names *names, struct field *field, bool is_optional)
{
    if (field->asked)
        names->wanted[names->wanted_count++] = (struct wanted){ field, is_optional, 0, 0 };
}

static void match_names(struct names *names, const struct csv_value *value, size_t number)
{
    for (size_t i = 0; i < names->wanted_count; i++) {
        struct wanted *wanted = &names->wanted[i];
        if (value_is(value, wanted->field->name)) {
            wanted->matches++;
            wanted->number = number;
        }
    }
}

/* Finds the fields given by name; `bytes` is the header, with slack after it. */
static bool read_header_names(struct cutter *cutter, struct view bytes, struct names *names)
{
    struct scan scan = scan_to(cutter, bytes.data + bytes.size);
    struct reach reach = { scan.end, true, true };
    struct record record = { 0 };
    for (const char *at = bytes.data;; at++) {
        struct csv_value value;
        record.fields++;
        at = pass_field(&scan, reach, at, &record, &value);
        show_name(names, value.text);
        match_names(names, &value, record.fields);
        if (at == scan.end || *at == '\n')
            break;
    }
    names->count = record.fields;
    return !record.bad_quotes;
}

/* Sets the number of the field: the requested number, or the number found by name. */
static enum hf_status resolve_field(const struct wanted *wanted, const struct names *names,
                                    struct hf_error *error)
{
    struct field *field = wanted->field;
    struct view name = view_first(field->name, 60);
    if (wanted->is_optional && field->number == 0 && wanted->matches == 0)
        return HF_OK;
    if (field->number > names->count && !wanted->is_optional)
        return error_set(error, HF_INVALID, "there is no field %zu; the header has %zu: %.*s%s",
                         field->number, names->count, (int)names->shown, names->text,
                         names->more ? ", ..." : "");
    if (field->number)
        return HF_OK;
    if (wanted->matches == 0)
        return error_set(error, HF_INVALID,
                         "the header has no field '%.*s'; its fields are %.*s%s",
                         VIEW_ARGS(name), (int)names->shown, names->text,
                         names->more ? ", ..." : "");
    if (wanted->matches > 1)
        return error_set(
            error, HF_INVALID,
            "the header has %zu fields named \"%.*s\"; give the field's number, counted from 1",
            wanted->matches, VIEW_ARGS(name));
    field->number = wanted->number;
    return HF_OK;
}

static enum hf_status needs_numbers(const struct field *field, struct hf_error *error)
{
    if (!field->asked || field->number)
        return HF_OK;
    return error_set(
        error, HF_INVALID,
        "without a header, no field is named \"%.*s\"; give the field's number, counted from 1",
        VIEW_ARGS(view_first(field->name, 60)));
}

static enum hf_status resolve_names(struct cutter *cutter, struct view header,
                                    struct hf_error *error)
{
    struct names names = { .count = 0 };
    for (size_t i = 0; i < cutter->key.count; i++)
        want_field(&names, &cutter->key.parts[i].field, /* optional */ false);
    want_field(&names, &cutter->time, /* optional */ false);
    want_field(&names, &cutter->deleted, /* optional */ true);
    if (!read_header_names(cutter, header, &names))
        return error_set(error, HF_INVALID, "the header %s", row_fault_text(ROW_QUOTES));
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < names.wanted_count && status == HF_OK; i++)
        status = resolve_field(&names.wanted[i], &names, error);
    if (status == HF_OK)
        cutter->columns = names.count;
    return status;
}

static enum hf_status csv_resolve(struct cutter *cutter, struct view header,
                                  struct hf_error *error)
{
    if (!header.data) {
        enum hf_status status = HF_OK;
        for (size_t i = 0; i < cutter->key.count && status == HF_OK; i++)
            status = needs_numbers(&cutter->key.parts[i].field, error);
        if (status == HF_OK)
            status = needs_numbers(&cutter->time, error);
        cutter->columns = 0;
        return status == HF_OK ? needs_numbers(&cutter->deleted, error) : status;
    }
    struct buffer copy =
        BUFFER_INIT(header.size + BLOCK_SLACK); /* the header may have no slack */
    if (!buffer_reserve(&copy, header.size + BLOCK_SLACK))
        return error_no_memory(error);
    buffer_append(&copy, header);
    enum hf_status status = resolve_names(cutter, buffer_view(&copy), error);
    buffer_release(&copy);
    return status;
}

/* ---- Writing ------------------------------------------------------------------------- */

void csv_write_value(struct buffer *to, struct view value, char separator)
{
    size_t plain = 0;
    while (plain < value.size && value.data[plain] != separator &&
           !strchr("\"\r\n", value.data[plain]))
        plain++;
    if (plain == value.size) {
        buffer_append(to, value);
        return;
    }
    buffer_append_byte(to, '"');
    for (size_t i = 0; i < value.size; i++) {
        if (value.data[i] == '"')
            buffer_append_byte(to, '"');
        buffer_append_byte(to, value.data[i]);
    }
    buffer_append_byte(to, '"');
}

const struct format format_csv = {
    .is_text = true,
    .cut = csv_cut,
    .skip = format_skip_line,
    .header = csv_header,
    .resolve = csv_resolve,
};
