/* json.h: JSON read in one pass, without a tree, and written straight into a buffer.
 *
 * Documents are read often and changed in one place, so a reader that hands out views of the
 * text serves them better than a tree: an entry that does not change keeps its bytes as they
 * stood, unknown members included. The reader is strict: RFC 8259, UTF-8, bounded depth. Whole
 * numbers are integers, never doubles.
 *
 *     struct json_reader r = json_read(text);
 *     for (json_enter_object(&r); json_next_member(&r, &name);) {
 *         if (view_equal(name, VIEW("token")))
 *             json_take_u64(&r, UINT64_MAX, &token);
 *         else
 *             json_skip(&r, &raw);
 *     }
 *     if (!json_end(&r)) ... r.why says what was wrong
 *
 * After the first mistake every call returns false and leaves its outputs alone, so a long run
 * of calls may be checked once at its end. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/buffer.h"
#include "base/view.h"

#include <stdint.h>

#define JSON_DEPTH_MAX 32

struct json_reader {
    struct view text;
    size_t at;
    const char *why; /* NULL while all is well */
    unsigned depth;
    bool first[JSON_DEPTH_MAX]; /* no member or element of this level was read yet */
    char closing[JSON_DEPTH_MAX];
};

struct json_reader json_read(struct view text);

enum json_kind {
    JSON_KIND_NONE, /* there is no value here, or a mistake was made before */
    JSON_KIND_OBJECT,
    JSON_KIND_ARRAY,
    JSON_KIND_STRING,
    JSON_KIND_NUMBER,
    JSON_KIND_TRUE,
    JSON_KIND_FALSE,
    JSON_KIND_NULL,
};

/* What kind of value comes next; nothing is read. */
enum json_kind json_peek(struct json_reader *reader);

bool json_enter_object(struct json_reader *reader);
bool json_enter_array(struct json_reader *reader);

/* The next member's name, as it stands between its quotes (names with escapes are left as they
 * are; ours have none); its value must then be taken. False behind the last, which also leaves
 * the object. */
bool json_next_member(struct json_reader *reader, struct view *ret_name);

/* True when there is a further element, which must then be taken. False behind the last, which
 * also leaves the array. */
bool json_next_element(struct json_reader *reader);

/* A string as it stands between its quotes; fails when it holds an escape. Most strings of ours
 * (ids, times, names) cannot. */
bool json_take_plain(struct json_reader *reader, struct view *ret_text);

/* A string with its escapes undone, appended to the buffer. */
bool json_take_string(struct json_reader *reader, struct buffer *text);

/* Either: a view of the text where there is no escape, else of what was appended to `space`, which
 * must have room enough not to move. */
bool json_take_text(struct json_reader *reader, struct buffer *space, struct view *ret_text);

/* A whole number from 0 to max. */
bool json_take_u64(struct json_reader *reader, uint64_t max, uint64_t *ret_value);

/* A whole number of either sign, without fraction or exponent. */
bool json_take_i64(struct json_reader *reader, int64_t *ret_value);

bool json_take_bool(struct json_reader *reader, bool *ret_value);

/* Any value, checked, as it stands. */
bool json_skip(struct json_reader *reader, struct view *ret_raw);

/* Takes the next value if it stands there byte for byte like this object, array or string, which
 * was read before; else takes nothing, and returns false without calling it a mistake. */
bool json_take_same(struct json_reader *reader, struct view known);

/* True when all was well and nothing follows. */
bool json_end(struct json_reader *reader);

/* Lets a caller note that a value is not what it should be. Always false. */
bool json_fail(struct json_reader *reader, const char *why);

/* Appends a string in quotes; bytes that are not UTF-8 are replaced by U+FFFD. */
bool json_write_string(struct buffer *buffer, struct view text);

#endif
