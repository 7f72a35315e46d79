/* SPDX-License-Identifier: Apache-2.0 */
/* json_scan.c: a JSON scanner without recursion, so nested input cannot exhaust the
 * stack: each open object or array takes one bit. */
#include "merge/json_scan.h"

#include "base/json_string.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "merge/swar.h"

/* Each function returns where its piece of the text ends, or NULL with scan->fault set. */

static const char *broken(struct json_scan *scan, enum row_fault fault)
{
    scan->fault = fault;
    return NULL;
}

/* The byte, or NUL at the end; neither can occur outside a string. */
static inline char peek(const struct json_scan *scan, const char *at)
{
    return at < scan->end ? *at : '\0';
}

static const char *pass_more_blanks(const struct json_scan *scan, const char *at)
{
    while (at < scan->end && (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n'))
        at++;
    return at;
}

/* Usually there are no blanks. A predicted branch does not wait for the byte. */
static inline const char *pass_blanks(const struct json_scan *scan, const char *at)
{
    return (unsigned char)*at > ' ' ? at : pass_more_blanks(scan, at);
}

/* ---- Strings ------------------------------------------------------------------------- */

/* Starts at the byte after the backslash. */
static const char *pass_escape(struct json_scan *scan, const char *at)
{
    switch (peek(scan, at)) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't': return at + 1;
    case 'u': break;
    default: return broken(scan, ROW_BAD_JSON);
    }
    for (size_t i = 1; i <= 4; i++)
        if (hex_digit(peek(scan, at + i)) < 0)
            return broken(scan, ROW_BAD_JSON);
    return at + 5;
}

static const char *pass_characters(struct json_scan *scan, const char *at)
{
    while (at < scan->end && (unsigned char)*at >= 0x80) {
        size_t size = utf8_size((struct view){ at, (size_t)(scan->end - at) });
        if (size == 0)
            return broken(scan, ROW_NOT_UTF8);
        at += size;
    }
    return at;
}

static inline const char *pass_plain(const struct json_scan *scan, const char *at)
{
    for (; at < scan->end; at += SWAR_BYTES) {
        uint64_t marks = json_not_plain(load_little_endian(at));
        if (marks)
            return at + swar_first(marks);
    }
    return at;
}

/* Scans the rest of a string, starting at a byte that is not plain. Returns its closing quote. */
static const char *pass_unusual(struct json_scan *scan, const char *at, bool *ret_escaped)
{
    *ret_escaped = false;
    while (at && at < scan->end && *at != '"') {
        if ((unsigned char)*at < 0x20)
            return broken(scan, ROW_BAD_JSON);
        *ret_escaped = *ret_escaped || *at == '\\';
        at = *at == '\\' ? pass_escape(scan, at + 1) : pass_characters(scan, at);
        if (at)
            at = pass_plain(scan, at);
    }
    return !at || at < scan->end ? at : broken(scan, ROW_BAD_JSON);
}

/* Starts at the opening quote. */
static inline const char *pass_string(struct json_scan *scan, const char *at,
                                      struct json_text *ret_text)
{
    const char *start = at + 1;
    if (peek(scan, at) != '"')
        return broken(scan, ROW_BAD_JSON);
    at = pass_plain(scan, start);
    ret_text->kind = SCAN_STRING;
    ret_text->escaped = false;
    if (peek(scan, at) != '"') {
        at = pass_unusual(scan, at, &ret_text->escaped);
        if (!at)
            return NULL;
    }
    ret_text->text = (struct view){ start, (size_t)(at - start) };
    return at + 1;
}

/* ---- Numbers and words --------------------------------------------------------------- */

static inline bool is_number_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* One or more digits. */
static inline const char *pass_digits(struct json_scan *scan, const char *at)
{
    if (!is_number_digit(peek(scan, at)))
        return broken(scan, ROW_BAD_JSON);
    do
        at++;
    while (is_number_digit(peek(scan, at)));
    return at;
}

static inline const char *pass_number(struct json_scan *scan, const char *at,
                                      struct json_text *ret_text)
{
    const char *start = at;
    at += peek(scan, at) == '-';
    at = peek(scan, at) == '0' ? at + 1 : pass_digits(scan, at);
    if (at && peek(scan, at) == '.')
        at = pass_digits(scan, at + 1);
    if (at && (peek(scan, at) | 0x20) == 'e') {
        at++;
        at += peek(scan, at) == '+' || peek(scan, at) == '-';
        at = pass_digits(scan, at);
    }
    if (at)
        *ret_text = (struct json_text){ { start, (size_t)(at - start) }, SCAN_NUMBER, false };
    return at;
}

static inline const char *pass_word(struct json_scan *scan, const char *at,
                                    struct json_text *ret_text)
{
    struct view rest = { at, (size_t)(scan->end - at) };
    *ret_text = (struct json_text){ { at, 0 }, SCAN_OTHER, false };
    if (view_starts_with(rest, VIEW("true")) || view_starts_with(rest, VIEW("null")))
        return at + 4;
    return view_starts_with(rest, VIEW("false")) ? at + 5 : broken(scan, ROW_BAD_JSON);
}

static inline const char *pass_scalar(struct json_scan *scan, const char *at,
                                      struct json_text *ret_text)
{
    char byte = peek(scan, at);
    if (byte == '"')
        return pass_string(scan, at, ret_text);
    if (byte == '-' || is_number_digit(byte))
        return pass_number(scan, at, ret_text);
    return pass_word(scan, at, ret_text);
}

/* ---- Objects and arrays -------------------------------------------------------------- */

/* The open objects and arrays at the current position, without the outermost object. */
struct nest {
    size_t depth;
    uint64_t arrays[SCAN_DEPTH_MAX / 64]; /* one bit each: set for an array */
};

static inline bool in_array(const struct nest *nest)
{
    size_t level = nest->depth - 1;
    return nest->arrays[level / 64] >> level % 64 & 1;
}

static bool nest_enter(struct nest *nest, bool array)
{
    size_t level = nest->depth;
    uint64_t bit = UINT64_C(1) << level % 64;
    if (nest->depth + 1 == SCAN_DEPTH_MAX)
        return false;
    if (array)
        nest->arrays[level / 64] |= bit;
    else
        nest->arrays[level / 64] &= ~bit;
    nest->depth++;
    return true;
}

/* Scans a member's name and colon, up to its value. */
static inline const char *pass_name(struct json_scan *scan, const char *at,
                                    struct json_text *ret_name)
{
    at = pass_string(scan, at, ret_name);
    if (!at)
        return NULL;
    at = pass_blanks(scan, at);
    return peek(scan, at) == ':' ? pass_blanks(scan, at + 1) : broken(scan, ROW_BAD_JSON);
}

/* Leaves the objects and arrays that are closed here; `at` is after a value or an opening
 * bracket. */
static const char *pass_closings(const struct json_scan *scan, const char *at,
                                 struct nest *nest, bool *empty)
{
    at = pass_blanks(scan, at);
    while (nest->depth > 0 && peek(scan, at) == (in_array(nest) ? ']' : '}')) {
        nest->depth--;
        *empty = false;
        at = pass_blanks(scan, at + 1);
    }
    return at;
}

/* Starts at the bracket of an object or array that is a member of the outermost object. Each
 * iteration goes from the start of one value to the start of the next. */
static const char *pass_nested(struct json_scan *scan, const char *at)
{
    struct nest nest = { 0 };
    struct json_text ignored;
    do {
        char byte = peek(scan, at);
        bool empty = byte == '[' || byte == '{';
        if (!empty)
            at = pass_scalar(scan, at, &ignored);
        else if (nest_enter(&nest, byte == '['))
            at++;
        else
            return broken(scan, ROW_TOO_DEEP);
        if (!at)
            return NULL;
        at = pass_closings(scan, at, &nest, &empty);
        if (nest.depth > 0 && !empty) {
            if (peek(scan, at) != ',')
                return broken(scan, ROW_BAD_JSON);
            at = pass_blanks(scan, at + 1);
        }
        if (nest.depth > 0 && !in_array(&nest))
            at = pass_name(scan, at, &ignored);
    } while (at && nest.depth > 0);
    return at;
}

static inline const char *pass_value(struct json_scan *scan, const char *at,
                                     struct json_text *ret_text)
{
    char byte = peek(scan, at);
    if (byte != '{' && byte != '[')
        return pass_scalar(scan, at, ret_text);
    *ret_text = (struct json_text){ { at, 0 }, SCAN_OTHER, false };
    return pass_nested(scan, at);
}

/* ---- The outermost object ------------------------------------------------------------ */

bool json_open(struct json_scan *scan, struct view bytes)
{
    *scan = (struct json_scan){ bytes.data, bytes.data + bytes.size, true, ROW_NONE };
    scan->at = pass_blanks(scan, scan->at);
    if (peek(scan, scan->at) != '{') {
        scan->fault = ROW_BAD_JSON;
        return false;
    }
    scan->at = pass_blanks(scan, scan->at + 1);
    return true;
}

bool json_member(struct json_scan *scan, struct json_text *ret_name,
                 struct json_text *ret_value)
{
    const char *at = scan->at;
    if (peek(scan, at) == '}') {
        if (pass_blanks(scan, at + 1) != scan->end)
            scan->fault = ROW_BAD_JSON;
        return false;
    }
    if (!scan->first && peek(scan, at) != ',')
        return broken(scan, ROW_BAD_JSON);
    if (!scan->first)
        at = pass_blanks(scan, at + 1);
    scan->first = false;
    at = pass_name(scan, at, ret_name);
    if (at)
        at = pass_value(scan, at, ret_value);
    if (!at)
        return false;
    scan->at = pass_blanks(scan, at);
    return true;
}

/* ---- Values of strings --------------------------------------------------------------- */

/* Decodes one escaped character, or one byte of an unescaped one. Returns the number of bytes, or 0
 * for half a surrogate pair. */
static size_t unescape_next(struct view *rest, char bytes[UTF8_BYTES_MAX])
{
    bytes[0] = rest->data[0];
    if (bytes[0] != '\\') {
        *rest = view_from(*rest, 1);
        return 1;
    }
    uint32_t code;
    size_t size = json_escape_size(*rest, &code);
    *rest = view_from(*rest, size);
    return size ? utf8_encode(code, bytes) : 0;
}

bool json_unescaped_is(struct view string, struct view value)
{
    struct view rest = string;
    char bytes[UTF8_BYTES_MAX];
    while (rest.size > 0) {
        size_t size = unescape_next(&rest, bytes);
        if (size == 0 || !view_starts_with(value, (struct view){ bytes, size }))
            return false;
        value = view_from(value, size);
    }
    return value.size == 0;
}

bool json_unescape(struct view string, struct buffer *buffer)
{
    for (;;) {
        char bytes[UTF8_BYTES_MAX];
        size_t plain = view_find(string, '\\');
        buffer_append(buffer, view_first(string, plain));
        string = view_from(string, plain);
        if (string.size == 0)
            return true;
        size_t size = unescape_next(&string, bytes);
        if (size == 0)
            return false;
        buffer_append(buffer, (struct view){ bytes, size });
    }
}
