/* SPDX-License-Identifier: Apache-2.0 */
/* record.c: records, their fields and the separator rule. Every record is checked here before it is
 * folded or read, because an unescaped separator would change its fields. Plain ASCII is checked
 * eight bytes at a time. */
#include "index/record.h"

#include "base/check.h"
#include "base/mutant.h"
#include "base/rule.h"
#include "base/utf8.h"
#include "base/word.h"

#include <stdio.h>

#define UNIT_SEPARATOR   '\x1f'
#define RECORD_SEPARATOR '\x1e'
#define ESCAPE           '\x1b'

/* ESC is followed by the character with this bit set. */
#define ESCAPE_BIT 0x40

/* ---- Bytes --------------------------------------------------------------------------- */

/* NUL, LF, ESC, FS, GS, RS, US: these are escaped in a value. */
static inline bool needs_escape(char byte)
{
    const uint32_t set = UINT32_C(1) << 0 | UINT32_C(1) << '\n' | UINT32_C(0x1f) << 0x1b;
    unsigned char code = (unsigned char)byte;
    return code < 0x20 && (set >> code & 1);
}

/* Whether an ESC before this byte is an escape. */
static inline bool ends_escape(char byte)
{
    return (byte & ESCAPE_BIT) && needs_escape((char)(byte ^ ESCAPE_BIT));
}

/* Marks, by setting the highest bit, each of eight bytes that is a control character or not ASCII.
 * The lowest mark is exact; the marks above it may be wrong. */
static inline uint64_t not_plain(uint64_t word)
{
    return ((word - EACH_BYTE(0x20)) | word) & EACH_BYTE(0x80);
}

static inline bool is_plain_ascii(char byte)
{
    return (unsigned char)byte >= 0x20 && (unsigned char)byte < 0x80;
}

/* The first byte at or after `at` that is not plain, or the end. */
static inline size_t skip_plain(struct view bytes, size_t at)
{
    for (; bytes.size - at >= 8; at += 8) {
        uint64_t marks = not_plain(load_little_endian(bytes.data + at));
        if (marks)
            return at + (size_t)__builtin_ctzll(marks) / 8;
    }
    while (at < bytes.size && is_plain_ascii(bytes.data[at]))
        at++;
    return at;
}

/* The first byte at or after `at` that does not begin a multibyte character, or the end. */
static inline size_t skip_wide(struct view bytes, size_t at)
{
    while (at < bytes.size && (unsigned char)bytes.data[at] >= 0x80) {
        size_t size = utf8_size(view_from(bytes, at));
        if (size == 0)
            break;
        at += size;
    }
    return at;
}

/* The first byte at or after `at` that is escaped or must be escaped, or the end. */
static size_t find_escaped(struct view bytes, size_t at)
{
    at = skip_plain(bytes, at);
    while (at < bytes.size && !needs_escape(bytes.data[at]))
        at = skip_plain(bytes, at + 1);
    return at;
}

/* ---- Fields -------------------------------------------------------------------------- */

static inline bool ends_record(char byte)
{
    return byte == '\n' || byte == RECORD_SEPARATOR;
}

/* Marks LF and RS; only the lowest mark is exact. */
static inline uint64_t record_ends(uint64_t word)
{
    uint64_t from_lf = word ^ EACH_BYTE('\n'), from_rs = word ^ EACH_BYTE(RECORD_SEPARATOR);
    return (((from_lf - EACH_BYTE(1)) & ~from_lf) | ((from_rs - EACH_BYTE(1)) & ~from_rs)) &
           EACH_BYTE(0x80);
}

static inline size_t find_record_end(struct view bytes, size_t at)
{
    for (; bytes.size - at >= 8; at += 8) {
        uint64_t marks = record_ends(load_little_endian(bytes.data + at));
        if (marks)
            return at + (size_t)__builtin_ctzll(marks) / 8;
    }
    while (at < bytes.size && !ends_record(bytes.data[at]))
        at++;
    return at;
}

bool record_cut(struct view *rest, struct view *ret_bytes)
{
    size_t start = 0;
    while (start < rest->size && ends_record(rest->data[start]))
        start++;
    size_t end = find_record_end(*rest, start);
    struct view bytes = view_from(view_first(*rest, end), start);
    *rest = view_from(*rest, end + 1);
    if (bytes.size > 0)
        *ret_bytes = bytes;
    return bytes.size > 0;
}

struct view field_cut(struct view *rest, bool *more)
{
    *more = view_find(*rest, UNIT_SEPARATOR) < rest->size;
    return view_cut(rest, UNIT_SEPARATOR);
}

bool field_write(struct buffer *to, struct view value)
{
    for (size_t at = 0, end; at < value.size; at = end + 1) {
        end = find_escaped(value, at);
        buffer_append(to, view_from(view_first(value, end), at));
        if (end < value.size) {
            buffer_append_byte(to, ESCAPE);
            buffer_append_byte(to, (char)(value.data[end] | ESCAPE_BIT));
        }
    }
    return !to->failed;
}

bool field_read(struct buffer *to, struct view written)
{
    size_t size_before = to->size;
    while (written.size > 0) {
        size_t end = view_find(written, ESCAPE);
        buffer_append(to, view_first(written, end));
        written = view_from(written, end);
        if (written.size == 0)
            break;
        if (written.size < 2 || !ends_escape(written.data[1])) {
            to->size = size_before;
            return false;
        }
        buffer_append_byte(to, (char)(written.data[1] ^ ESCAPE_BIT));
        written = view_from(written, 2);
    }
    return !to->failed;
}

int field_compare(struct view written, struct view value)
{
    size_t at = 0;
    for (size_t i = 0; i < written.size; i++, at++) {
        char byte = written.data[i];
        if (byte == ESCAPE && i + 1 < written.size)
            byte = (char)(written.data[++i] ^ ESCAPE_BIT);
        if (at == value.size)
            return 1;
        if (byte != value.data[at])
            return (unsigned char)byte < (unsigned char)value.data[at] ? -1 : 1;
    }
    return at < value.size ? -1 : 0;
}

bool record_write(struct buffer *to, const struct view *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buffer_append_byte(to, UNIT_SEPARATOR);
        field_write(to, values[i]);
    }
    return !to->failed;
}

/* ---- Reading ------------------------------------------------------------------------- */

/* The result of one pass over the bytes. */
struct scan {
    struct view key; /* as written; empty if the record does not have this field */
    struct view time;
    bool key_escaped;
    size_t field_count;
};

static inline void note_field(const struct schema *schema, struct scan *scan, struct view field,
                              bool escaped)
{
    if (scan->field_count == schema->key) {
        scan->key = field;
        scan->key_escaped = escaped;
    }
    if (scan->field_count == schema->time)
        scan->time = field;
    scan->field_count++;
}

static enum hf_status refuse_byte(struct view bytes, size_t at, struct hf_error *error)
{
    unsigned char byte = (unsigned char)bytes.data[at];
    if (byte >= 0x80)
        return error_set(error, HF_INVALID,
                         "the record is not UTF-8: byte 0x%02x at offset %zu", byte, at);
    if (byte != ESCAPE)
        return error_set(error, HF_INVALID,
                         "the byte 0x%02x at offset %zu must be escaped with ESC", byte, at);
    if (at + 1 == bytes.size)
        return error_set(error, HF_INVALID, "the record ends with ESC, which escapes nothing");
    return error_set(error, HF_INVALID,
                     "ESC at offset %zu is followed by 0x%02x, which is not an escape", at,
                     (unsigned char)bytes.data[at + 1]);
}

/* The byte at `at` is not plain. Returns how many bytes, starting there, are valid; 0: none. */
static inline size_t odd_size(struct view bytes, size_t at, bool *escaped)
{
    char byte = bytes.data[at];
    if (byte == ESCAPE) {
        *escaped = true;
        return at + 1 < bytes.size && ends_escape(bytes.data[at + 1]) ? 2 : 0;
    }
    if ((unsigned char)byte >= 0x80)
        return skip_wide(bytes, at) - at;
    return !needs_escape(byte);
}

static enum hf_status scan_record(const struct schema *schema, struct view bytes,
                                  struct scan *scan, struct hf_error *error)
{
    size_t field = 0, at;
    bool escaped = false;
    for (at = skip_plain(bytes, 0); at < bytes.size; at = skip_plain(bytes, at)) {
        if (bytes.data[at] == UNIT_SEPARATOR) {
            note_field(schema, scan, (struct view){ bytes.data + field, at - field }, escaped);
            field = ++at;
            escaped = false;
            continue;
        }
        size_t size = odd_size(bytes, at, &escaped);
        if (size == 0)
            return refuse_byte(bytes, at, error);
        at += size;
    }
    note_field(schema, scan, view_from(bytes, field), escaped);
    return HF_OK;
}

/* Checks and unescapes the key. */
static enum hf_status check_key(const struct scan *scan, struct buffer *space,
                                struct view *ret_key, struct hf_error *error)
{
    size_t size = scan->key.size;
    if (scan->key_escaped)
        for (size_t i = 0; i < scan->key.size; i++)
            size -= scan->key.data[i] == ESCAPE;
    if (size == 0)
        return error_set(error, HF_INVALID, "the record has no key");
    if (size > INDEX_KEY_BYTES_MAX)
        return error_set(error, HF_INVALID, "the key has %zu bytes; at most %d are allowed",
                         size, INDEX_KEY_BYTES_MAX);
    if (scan->key_escaped && !field_read(space, scan->key))
        return error_no_memory(error);
    *ret_key = scan->key_escaped ? buffer_view(space) : scan->key;
    return HF_OK;
}

/* Shows an invalid time on one line that is safe for a terminal: control characters are written as
 * %XX, and a long time is truncated. */
#define SHOWN_BYTES    40
#define SHOWN_TEXT_MAX (3 * SHOWN_BYTES + sizeof "...")
static const char *printable_time(struct view text, char shown[SHOWN_TEXT_MAX])
{
    size_t size = 0, at = 0, next;
    for (; at < text.size; at = next) {
        unsigned char byte = (unsigned char)text.data[at];
        next = at + (byte < 0x80 ? 1 : utf8_size(view_from(text, at)));
        check(next > at); /* it was already checked to be UTF-8 */
        if (next > SHOWN_BYTES)
            break;
        if (byte < 0x20 || byte == 0x7f) {
            size += (size_t)snprintf(shown + size, SHOWN_TEXT_MAX - size, "%%%02X", byte);
        } else {
            memcpy(shown + size, text.data + at, next - at);
            size += next - at;
        }
    }
    snprintf(shown + size, SHOWN_TEXT_MAX - size, "%s", at < text.size ? "..." : "");
    return shown;
}

/* The names of entries have room only for the years 1 to 9999. */
static enum hf_status check_time(const struct schema *schema, struct view text,
                                 struct instant *ret_time, struct hf_error *error)
{
    struct instant time;
    char shown[SHOWN_TEXT_MAX];
    if (text.size == 0)
        return error_set(error, HF_INVALID, "the record has no time");
    if (!schema_parse_time(schema, text, &time))
        return error_set(error, HF_INVALID,
                         "'%s' is not a time; expected RFC 3339%s, or a number since 1970",
                         printable_time(text, shown), schema->has_zone ? "" : " with a zone");
    if (time.s < INSTANT_S_MIN || time.s > INSTANT_S_MAX)
        return error_set(error, HF_INVALID, "the time %.*s is outside the years 1 to 9999",
                         VIEW_ARGS(view_first(text, 40)));
    *ret_time = time;
    return HF_OK;
}

enum hf_status record_read(const struct schema *schema, struct view bytes, struct buffer *space,
                           struct record *ret_record, bool *ret_too_many_fields,
                           struct hf_error *error)
{
    struct record record = { .bytes = bytes };
    struct scan scan = { .field_count = 0 };
    buffer_clear(space);
    if (ret_too_many_fields)
        *ret_too_many_fields = false;
    if (bytes.size > INDEX_RECORD_BYTES_MAX)
        return error_set(error, HF_INVALID, "the record has %zu bytes; at most %zu are allowed",
                         bytes.size, INDEX_RECORD_BYTES_MAX);
    enum hf_status status = scan_record(schema, bytes, &scan, error);
    if (status == HF_OK)
        status = check_key(&scan, space, &record.key, error);
    if (status == HF_OK)
        status = check_time(schema, scan.time, &record.time, error);
    if (status != HF_OK)
        return status;
    if (scan.field_count > schema->field_count) {
        if (ret_too_many_fields)
            *ret_too_many_fields = true;
        return error_set(error, HF_INVALID, "the record has %zu fields, but the index has %zu",
                         scan.field_count, schema->field_count);
    }
    *ret_record = record;
    return HF_OK;
}

enum hf_status record_read_stored(const struct schema *schema, struct view bytes,
                                  struct buffer *space, struct record *ret_record,
                                  bool *ret_too_many_fields, struct hf_error *error)
{
    bool deleted = schema->deletes && view_starts_with(bytes, VIEW(RECORD_DELETED));
    struct view rest = view_from(bytes, deleted ? strlen(RECORD_DELETED) : 0);
    enum hf_status status =
        record_read(schema, rest, space, ret_record, ret_too_many_fields, error);
    if (status == HF_OK) {
        ret_record->bytes = bytes;
        ret_record->deleted = deleted;
    }
    return status;
}

struct record *record_latest(struct record *records, size_t first, size_t count,
                             size_t *ret_behind)
{
    struct record *latest = &records[first];
    size_t behind = first + 1;
    while (behind < count && view_equal(records[behind].key, latest->key)) {
        struct record *next = &records[behind++];
        if (record_compare(latest, next) < 0)
            latest = next;
    }
    *ret_behind = behind;
    return latest;
}

int record_compare(const struct record *a, const struct record *b)
{
    int order = instant_compare(a->time, b->time);
    if (RULE(TIES_BY_BYTES) && order == 0)
        order = view_compare(a->bytes, b->bytes);
    MUTANT(mutant_takes_last_read(&order));
    return order;
}
