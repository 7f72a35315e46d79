/* json_scan.h: whether bytes are one JSON object (RFC 8259), and what its members are, at the
 * speed at which they are read. Every byte is checked, but nothing is built of values that are
 * not asked for, and nothing is allocated. base/json.h reads our own documents; this one reads
 * other people's data.
 *
 *     struct json_scan scan;
 *     bool more = json_open(&scan, line);
 *     while (more && (more = json_member(&scan, &name, &value)))
 *         ...
 *     if (scan.fault == ROW_NONE) it was an object, and nothing but blanks around it
 *
 * The bytes have BLOCK_SLACK readable ones behind them. */
#ifndef MERGE_JSON_SCAN_H
#define MERGE_JSON_SCAN_H

#include "base/buffer.h"
#include "merge/batch.h"

#define SCAN_DEPTH_MAX 512 /* objects and arrays within each other, the outermost included */

enum scan_kind { SCAN_STRING, SCAN_NUMBER, SCAN_OTHER };

struct json_text {
    struct view text; /* of a string what stands between the quotes; empty for SCAN_OTHER */
    enum scan_kind kind;
    bool escaped; /* a string with escapes in it */
};

struct json_scan {
    const char *at;
    const char *end;
    bool first;           /* no member yet, so no comma either */
    enum row_fault fault; /* BAD_JSON, TOO_DEEP or NOT_UTF8 */
};

/* False when it is no object. */
bool json_open(struct json_scan *scan, struct view bytes);

/* The next member; false behind the last one, and with a fault. A name may come twice. */
bool json_member(struct json_scan *scan, struct json_text *ret_name,
                 struct json_text *ret_value);

/* Whether a string that was scanned has this value. */
bool json_unescaped_is(struct view string, struct view value);
static inline bool json_text_is(const struct json_text *string, struct view value)
{
    return string->escaped ? json_unescaped_is(string->text, value)
                           : view_equal(string->text, value);
}

/* Appends the value of a string that was scanned, as UTF-8; false when it escapes half of a
 * surrogate pair, which has no UTF-8. Whether there was memory is told by the buffer. */
bool json_unescape(struct view string, struct buffer *buffer);

#endif
