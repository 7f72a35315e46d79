/* SPDX-License-Identifier: Apache-2.0 */
/* json.h: JSON read in one pass, without a tree, and written directly into a buffer.
 *
 * Documents are read often, and a change affects only a small part of one. A reader that returns
 * views of the text suits them better than a tree: an entry that does not change keeps its bytes,
 * including unknown members. The reader is strict: RFC 8259, UTF-8, bounded depth. Integers are
 * never converted to doubles. User data (NDJSON) is read by the same reader, one member at a time:
 * every byte is checked, but only the requested values are decoded, and nothing is allocated.
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
 * After the first error every call returns false and leaves its outputs unchanged, so a caller may
 * check a long series of calls once, at the end. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/buffer.h"
#include "base/moment.h"
#include "base/view.h"

#include <stdint.h>

#define JSON_DEPTH_MAX      32  /* nested objects and arrays in a document */
#define JSON_DATA_DEPTH_MAX 512 /* and in user data */

enum json_fault { JSON_GOOD, JSON_SYNTAX, JSON_TOO_DEEP, JSON_NOT_UTF8 };

struct json_reader {
    struct view text;
    const char *at, *end;
    const char *why; /* NULL: no error so far */
    enum json_fault fault;
    bool is_data;
    bool first; /* nothing has been read at this level */
    unsigned depth, depth_max;
    uint64_t arrays[JSON_DATA_DEPTH_MAX / 64]; /* one bit per open level: an array */
};

/* Reads one of our own documents. */
struct json_reader json_read(struct view text);

/* Reads user data, which may be nested more deeply. An unpaired surrogate is an error only if it is
 * decoded. */
struct json_reader json_read_data(struct view text);

enum json_kind {
    JSON_KIND_NONE, /* there is no value here, or an earlier error */
    JSON_KIND_OBJECT,
    JSON_KIND_ARRAY,
    JSON_KIND_STRING,
    JSON_KIND_NUMBER,
    JSON_KIND_TRUE,
    JSON_KIND_FALSE,
    JSON_KIND_NULL,
};

/* The kind of the next value. Nothing is consumed. */
enum json_kind json_peek(struct json_reader *reader);

bool json_enter_object(struct json_reader *reader);
bool json_enter_array(struct json_reader *reader);

/* Returns the name of the next member, as it appears between its quotes. (Escapes in names are not
 * decoded, because our names have none.) The caller must then take its value. After the last
 * member, the reader leaves the object and the function returns false. */
bool json_next_member(struct json_reader *reader, struct view *ret_name);

/* A scanned value: a string as it appears between its quotes, or the text of any other value. */
struct json_text {
    struct view text;
    enum json_kind kind;
    bool escaped; /* a string that contains escapes */
};

/* Returns the next member with its value, in one call. A name may occur twice. After the last
 * member, the reader leaves the object and the function returns false. After an error, the name may
 * have been set. */
bool json_next_pair(struct json_reader *reader, struct json_text *ret_name,
                    struct json_text *ret_value);

/* Whether a scanned string has this value. */
bool json_unescaped_is(struct view string, struct view value);
static inline bool json_text_is(const struct json_text *string, struct view value)
{
    return string->escaped ? json_unescaped_is(string->text, value)
                           : view_equal(string->text, value);
}

/* Appends the value of a scanned string as UTF-8. Returns false for an unpaired surrogate, which
 * has no UTF-8 form. If memory runs out, the buffer records it. */
bool json_unescape(struct view string, struct buffer *buffer);

/* Returns true if there is another element, which the caller must then take. After the last
 * element, the reader leaves the array and the function returns false. */
bool json_next_element(struct json_reader *reader);

/* Takes a string as it appears between its quotes. Fails if it contains an escape; most of our
 * strings (ids, times, names) never do. */
bool json_take_plain(struct json_reader *reader, struct view *ret_text);

/* Takes a string, and appends it to the buffer with its escapes decoded. */
bool json_take_string(struct json_reader *reader, struct buffer *text);

/* Takes a string with or without escapes. The result is a view of the text if there is no escape.
 * Otherwise it is a view of the decoded bytes, which are appended to `space`; `space` must be large
 * enough that it is not reallocated. */
bool json_take_text(struct json_reader *reader, struct buffer *space, struct view *ret_text);

/* Takes an integer from 0 to max. */
bool json_take_u64(struct json_reader *reader, uint64_t max, uint64_t *ret_value);

/* Takes an integer number of milliseconds. */
bool json_take_span_ms(struct json_reader *reader, struct span *ret_span);

/* Takes an integer of either sign, without a fraction or an exponent. */
bool json_take_i64(struct json_reader *reader, int64_t *ret_value);

bool json_take_bool(struct json_reader *reader, bool *ret_value);

/* Takes any value, checks its syntax, and returns its text. */
bool json_skip(struct json_reader *reader, struct view *ret_raw);

/* Takes the value of an unknown member, and appends the name and the value as ,"name":value. A lack
 * of memory also counts as an error. */
bool json_keep_member(struct json_reader *reader, struct view name, struct buffer *unknown);

/* Takes the next value if it has the same bytes as `known`, an object, array or string that was
 * read before. Otherwise takes nothing and returns false, which does not count as an error. */
bool json_take_same(struct json_reader *reader, struct view known);

/* Returns true if there was no error and nothing follows. */
bool json_end(struct json_reader *reader);

/* Lets a caller report an invalid value. Always returns false. */
bool json_fail(struct json_reader *reader, const char *why);

/* Appends a string in quotes; bytes that are not UTF-8 are replaced by U+FFFD. */
bool json_write_string(struct buffer *buffer, struct view text);

#endif
