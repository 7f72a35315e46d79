/* SPDX-License-Identifier: Apache-2.0 */
/* json_scan.h: checks that bytes are one JSON object (RFC 8259), and finds its members, about as
 * fast as they are read. Every byte is checked, but values that are not requested are not decoded,
 * and nothing is allocated. base/json.h reads our own documents; this scanner reads other people's
 * data.
 *
 *     struct json_scan scan;
 *     bool more = json_open(&scan, line);
 *     while (more && (more = json_member(&scan, &name, &value)))
 *         ...
 *     if (scan.fault == ROW_NONE) it was an object, and nothing but blanks around it
 *
 * The bytes must be followed by BLOCK_SLACK readable ones. */
#ifndef MERGE_JSON_SCAN_H
#define MERGE_JSON_SCAN_H

#include "base/buffer.h"
#include "merge/batch.h"

#define SCAN_DEPTH_MAX 512 /* nested objects and arrays, including the outermost */

enum scan_kind { SCAN_STRING, SCAN_NUMBER, SCAN_OTHER };

struct json_text {
    struct view text; /* a string without its quotes; empty for SCAN_OTHER */
    enum scan_kind kind;
    bool escaped; /* a string that contains escapes */
};

struct json_scan {
    const char *at;
    const char *end;
    bool first;           /* no member yet, so no comma either */
    enum row_fault fault; /* BAD_JSON, TOO_DEEP or NOT_UTF8 */
};

/* False if it is not an object. */
bool json_open(struct json_scan *scan, struct view bytes);

/* The next member; false after the last one, or with a fault. A name may occur twice. */
bool json_member(struct json_scan *scan, struct json_text *ret_name,
                 struct json_text *ret_value);

/* Whether a scanned string has this value. */
bool json_unescaped_is(struct view string, struct view value);
static inline bool json_text_is(const struct json_text *string, struct view value)
{
    return string->escaped ? json_unescaped_is(string->text, value)
                           : view_equal(string->text, value);
}

/* Appends the value of a scanned string as UTF-8; false for half a surrogate pair, which has no
 * UTF-8 form. If memory runs out, the buffer records it. */
bool json_unescape(struct view string, struct buffer *buffer);

#endif
