/* SPDX-License-Identifier: Apache-2.0 */
/* json.c: a strict JSON reader that returns views of the text, and a writer. Nothing recurses,
 * and depth and sizes are bounded, so damaged or hostile text cannot exhaust the stack. */
#include "base/json.h"

#include "base/parse.h"
#include "base/utf8.h"
#include "base/word.h"

#include <stdio.h>

struct json_reader json_read(struct view text)
{
    struct json_reader reader; /* `arrays` is set level by level */
    if (!text.data)
        text = VIEW(""); /* NULL would mean an earlier error */
    reader.text = text;
    reader.at = text.data;
    reader.end = text.data + text.size;
    reader.why = NULL;
    reader.fault = JSON_GOOD;
    reader.is_data = false;
    reader.first = true;
    reader.depth = 0;
    reader.depth_max = JSON_DEPTH_MAX;
    return reader;
}

struct json_reader json_read_data(struct view text)
{
    struct json_reader reader = json_read(text);
    reader.is_data = true;
    reader.depth_max = JSON_DATA_DEPTH_MAX;
    return reader;
}

/* ---- Passing over text --------------------------------------------------------------- */

/* Each of these functions returns the end of the text it has checked, or NULL after an error. */

static const char *mistake(struct json_reader *reader, enum json_fault fault, const char *why)
{
    if (!reader->why) {
        reader->why = why;
        reader->fault = fault;
    }
    return NULL;
}

bool json_fail(struct json_reader *reader, const char *why)
{
    mistake(reader, JSON_SYNTAX, why);
    return false;
}

/* The byte at this position, or NUL at the end of the text. A NUL cannot occur outside a string. */
static inline char peek(const struct json_reader *reader, const char *at)
{
    return at < reader->end ? *at : '\0';
}

static inline const char *pass_blanks(const struct json_reader *reader, const char *at)
{
    while (at < reader->end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at++;
    return at;
}

/* Marks each of the eight bytes that does not represent itself in a string: quotes, backslashes,
 * control characters, and bytes of multi-byte characters. A byte is marked by its highest bit. The
 * lowest mark is exact. Higher marks may be wrong, because a marked byte borrows from the bytes
 * above it.
 *
 * The second bit of each byte is flipped, which swaps the quote (0x22) with the space (0x20). The
 * quote and the control characters then have values up to 0x20. */
static inline uint64_t unplain_bytes(uint64_t word)
{
    uint64_t low = (word ^ EACH_BYTE(0x02)) - EACH_BYTE(0x21);
    uint64_t backslash = (word ^ EACH_BYTE('\\')) - EACH_BYTE(1);
    return (low | backslash | word) & EACH_BYTE(0x80);
}

static inline bool is_plain_byte(char byte)
{
    unsigned char c = (unsigned char)byte;
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

static inline const char *pass_plain(const char *at, const char *end)
{
    for (; end - at >= 8; at += 8) {
        uint64_t marks = unplain_bytes(load_little_endian(at));
        if (marks)
            return at + __builtin_ctzll(marks) / 8;
    }
    while (at < end && is_plain_byte(*at))
        at++;
    return at;
}

/* The value of the four digits after "\u"; negative if they are not hex digits. */
static inline int32_t hex4(struct view digits)
{
    if (digits.size < 4)
        return -1;
    /* A byte that is not a digit gives -1, which makes the whole result negative. */
    const char *at = digits.data;
    return hex_digit(at[0]) * 0x1000 | hex_digit(at[1]) * 0x100 | hex_digit(at[2]) * 0x10 |
           hex_digit(at[3]);
}

static size_t escape_size(struct view text, uint32_t *ret_code);

/* Starts at the backslash. */
static const char *pass_escape(struct json_reader *reader, const char *at)
{
    uint32_t code;
    struct view rest = { at, (size_t)(reader->end - at) };
    size_t size = escape_size(rest, &code);
    bool is_half = size == 0 && reader->is_data && view_starts_with(rest, VIEW("\\u")) &&
                   hex4(view_from(rest, 2)) >= 0;
    if (size == 0 && !is_half)
        return mistake(reader, JSON_SYNTAX, "invalid escape in a string");
    return at + (is_half ? 6 : size);
}

static const char *pass_characters(struct json_reader *reader, const char *at)
{
    while (at < reader->end && (unsigned char)*at >= 0x80) {
        size_t size = utf8_size((struct view){ at, (size_t)(reader->end - at) });
        if (size == 0)
            return mistake(reader, JSON_NOT_UTF8, "a string is not UTF-8");
        at += size;
    }
    return at;
}

/* Finds the closing quote of a string from a byte that is not plain. Not inlined, because most
 * strings are plain. */
__attribute__((noinline)) static const char *pass_unusual(struct json_reader *reader,
                                                          const char *at, bool *ret_escaped)
{
    while (at && at < reader->end && *at != '"') {
        if ((unsigned char)*at < 0x20)
            return mistake(reader, JSON_SYNTAX, "a control character in a string");
        *ret_escaped = *ret_escaped || *at == '\\';
        at = *at == '\\' ? pass_escape(reader, at) : pass_characters(reader, at);
        if (at)
            at = pass_plain(at, reader->end);
    }
    return !at || at < reader->end ? at : mistake(reader, JSON_SYNTAX, "unterminated string");
}

static inline const char *pass_string(struct json_reader *reader, const char *at,
                                      struct json_text *ret_text)
{
    if (peek(reader, at) != '"')
        return mistake(reader, JSON_SYNTAX, "expected a string");
    const char *start = at + 1;
    bool escaped = false;
    at = pass_plain(start, reader->end);
    if (peek(reader, at) != '"')
        at = pass_unusual(reader, at, &escaped);
    if (!at)
        return NULL;
    *ret_text =
        (struct json_text){ { start, (size_t)(at - start) }, JSON_KIND_STRING, escaped };
    return at + 1;
}

static inline bool is_number_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* One or more digits. */
static inline const char *pass_digits(struct json_reader *reader, const char *at)
{
    if (!is_number_digit(peek(reader, at)))
        return mistake(reader, JSON_SYNTAX, "invalid number");
    do
        at++;
    while (is_number_digit(peek(reader, at)));
    return at;
}

static inline const char *pass_number(struct json_reader *reader, const char *at,
                                      struct json_text *ret_text)
{
    const char *start = at;
    at += peek(reader, at) == '-';
    at = peek(reader, at) == '0' ? at + 1 : pass_digits(reader, at);
    if (at && peek(reader, at) == '.')
        at = pass_digits(reader, at + 1);
    if (at && (peek(reader, at) | 0x20) == 'e') {
        at++;
        at += peek(reader, at) == '+' || peek(reader, at) == '-';
        at = pass_digits(reader, at);
    }
    if (at)
        *ret_text =
            (struct json_text){ { start, (size_t)(at - start) }, JSON_KIND_NUMBER, false };
    return at;
}

static const char *pass_literal(struct json_reader *reader, const char *at,
                                struct json_text *ret_text)
{
    static const struct json_text literals[] = {
        { { "true", 4 }, JSON_KIND_TRUE, false },
        { { "false", 5 }, JSON_KIND_FALSE, false },
        { { "null", 4 }, JSON_KIND_NULL, false },
    };
    struct view rest = { at, (size_t)(reader->end - at) };
    for (size_t i = 0; i < 3; i++) {
        if (view_starts_with(rest, literals[i].text)) {
            *ret_text = literals[i];
            return at + literals[i].text.size;
        }
    }
    return mistake(reader, JSON_SYNTAX, "expected a value");
}

static inline const char *pass_scalar(struct json_reader *reader, const char *at,
                                      struct json_text *ret_text)
{
    char byte = peek(reader, at);
    if (byte == '"')
        return pass_string(reader, at, ret_text);
    if (byte == '-' || is_number_digit(byte))
        return pass_number(reader, at, ret_text);
    return pass_literal(reader, at, ret_text);
}

/* ---- Levels -------------------------------------------------------------------------- */

static inline bool in_array(const struct json_reader *reader)
{
    unsigned level = reader->depth - 1;
    return reader->arrays[level / 64] >> level % 64 & 1;
}

static inline char closing_byte(const struct json_reader *reader)
{
    return in_array(reader) ? ']' : '}';
}

static inline bool enter_level(struct json_reader *reader, bool is_array)
{
    unsigned level = reader->depth;
    uint64_t bit = UINT64_C(1) << level % 64;
    if (reader->depth == reader->depth_max)
        return mistake(reader, JSON_TOO_DEEP, "nested too deeply");
    if (is_array)
        reader->arrays[level / 64] |= bit;
    else
        reader->arrays[level / 64] &= ~bit;
    reader->depth++;
    reader->first = true;
    return true;
}

static inline void leave_level(struct json_reader *reader)
{
    reader->depth--;
    reader->first = false;
}

/* Passes a member's name and colon, up to its value. */
static inline const char *pass_name(struct json_reader *reader, const char *at,
                                    struct json_text *ret_name)
{
    at = pass_string(reader, at, ret_name);
    if (!at)
        return NULL;
    at = pass_blanks(reader, at);
    return peek(reader, at) == ':' ? pass_blanks(reader, at + 1)
                                   : mistake(reader, JSON_SYNTAX, "expected a colon");
}

/* Leaves the levels that are closed here, except those outside. */
static const char *pass_closings(struct json_reader *reader, const char *at, unsigned outside)
{
    while (reader->depth > outside) {
        at = pass_blanks(reader, at);
        if (peek(reader, at) != closing_byte(reader))
            break;
        leave_level(reader);
        at++;
    }
    return at;
}

/* Starts at the bracket of an object or array. Each iteration goes from the start of one value to
 * the start of the next. */
static const char *pass_nested(struct json_reader *reader, const char *at)
{
    unsigned outside = reader->depth;
    struct json_text ignored;
    do {
        char byte = peek(reader, at);
        if (byte != '[' && byte != '{')
            at = pass_scalar(reader, at, &ignored);
        else
            at = enter_level(reader, byte == '[') ? at + 1 : NULL;
        if (!at)
            return NULL;
        if (byte != '[' && byte != '{')
            reader->first = false;
        at = pass_closings(reader, at, outside);
        if (reader->depth > outside && !reader->first) {
            if (peek(reader, at) != ',')
                return mistake(reader, JSON_SYNTAX, "expected a comma");
            at = pass_blanks(reader, at + 1);
        }
        if (reader->depth > outside && !in_array(reader))
            at = pass_name(reader, at, &ignored);
    } while (at && reader->depth > outside);
    return at;
}

static inline const char *pass_value(struct json_reader *reader, const char *at,
                                     struct json_text *ret_text)
{
    char byte = peek(reader, at);
    if (byte != '{' && byte != '[')
        return pass_scalar(reader, at, ret_text);
    const char *start = at;
    at = pass_nested(reader, at);
    if (at)
        *ret_text = (struct json_text){ { start, (size_t)(at - start) },
                                        byte == '{' ? JSON_KIND_OBJECT : JSON_KIND_ARRAY,
                                        false };
    return at;
}

/* ---- Objects and arrays -------------------------------------------------------------- */

/* Where the next value starts, or NULL after an error. */
static inline const char *value_start(const struct json_reader *reader)
{
    return reader->why ? NULL : pass_blanks(reader, reader->at);
}

/* Ends a call: advances the reader to `at`, unless `at` is NULL. */
static inline bool move_to(struct json_reader *reader, const char *at)
{
    if (at)
        reader->at = at;
    return at != NULL;
}

enum json_kind json_peek(struct json_reader *reader)
{
    if (!move_to(reader, value_start(reader)))
        return JSON_KIND_NONE;
    char byte = peek(reader, reader->at);
    switch (byte) {
    case '{': return JSON_KIND_OBJECT;
    case '[': return JSON_KIND_ARRAY;
    case '"': return JSON_KIND_STRING;
    case 't': return JSON_KIND_TRUE;
    case 'f': return JSON_KIND_FALSE;
    case 'n': return JSON_KIND_NULL;
    default: return byte == '-' || is_number_digit(byte) ? JSON_KIND_NUMBER : JSON_KIND_NONE;
    }
}

static bool enter_container(struct json_reader *reader, char opening, const char *why)
{
    const char *at = value_start(reader);
    if (!at || peek(reader, at) != opening)
        return json_fail(reader, why);
    return enter_level(reader, opening == '[') && move_to(reader, at + 1);
}

bool json_enter_object(struct json_reader *reader)
{
    return enter_container(reader, '{', "expected an object");
}

bool json_enter_array(struct json_reader *reader)
{
    return enter_container(reader, '[', "expected an array");
}

/* Where the next item of this level starts. NULL after an error, or after the last item, where the
 * reader leaves the level. */
static inline const char *next_item(struct json_reader *reader)
{
    if (reader->depth == 0)
        return NULL;
    const char *at = value_start(reader);
    if (!at)
        return NULL;
    if (peek(reader, at) == closing_byte(reader)) {
        leave_level(reader);
        reader->at = at + 1;
        return NULL;
    }
    if (!reader->first) {
        if (peek(reader, at) != ',')
            return mistake(reader, JSON_SYNTAX, "expected a comma");
        at = pass_blanks(reader, at + 1);
    }
    reader->first = false;
    return at;
}

bool json_next_member(struct json_reader *reader, struct view *ret_name)
{
    struct json_text name;
    const char *at = next_item(reader);
    if (at)
        at = pass_name(reader, at, &name);
    if (at)
        *ret_name = name.text;
    return move_to(reader, at);
}

bool json_next_pair(struct json_reader *reader, struct json_text *ret_name,
                    struct json_text *ret_value)
{
    const char *at = next_item(reader);
    if (at)
        at = pass_name(reader, at, ret_name);
    if (at)
        at = pass_value(reader, at, ret_value);
    return move_to(reader, at);
}

bool json_next_element(struct json_reader *reader)
{
    return move_to(reader, next_item(reader));
}

/* ---- Strings ------------------------------------------------------------------------- */

static bool take_raw_string(struct json_reader *reader, struct json_text *ret_text)
{
    const char *at = value_start(reader);
    return move_to(reader, at ? pass_string(reader, at, ret_text) : NULL);
}

bool json_take_plain(struct json_reader *reader, struct view *ret_text)
{
    struct json_text text;
    if (!take_raw_string(reader, &text))
        return false;
    if (text.escaped)
        return json_fail(reader, "unexpected escape in a string");
    *ret_text = text.text;
    return true;
}

static bool append_unescaped(struct json_reader *reader, struct view raw, struct buffer *text)
{
    if (!json_unescape(raw, text))
        return json_fail(reader, "unpaired surrogate in a string");
    return text->failed ? json_fail(reader, "a string is too long") : true;
}

bool json_take_string(struct json_reader *reader, struct buffer *text)
{
    struct json_text raw;
    return take_raw_string(reader, &raw) && append_unescaped(reader, raw.text, text);
}

bool json_take_text(struct json_reader *reader, struct buffer *space, struct view *ret_text)
{
    struct json_text raw;
    if (!take_raw_string(reader, &raw))
        return false;
    size_t start = space->size;
    if (raw.escaped && !append_unescaped(reader, raw.text, space))
        return false;
    *ret_text =
        raw.escaped ? (struct view){ space->data + start, space->size - start } : raw.text;
    return true;
}

static const char escape_letters[] = "\"\\/bfnrt";
static const char escape_meanings[] = "\"\\/\b\f\n\r\t";

/* The size of the escape at the start of the text, which starts with a backslash; 0 if the escape
 * is invalid. *ret_code is the character. A high surrogate must be followed by a low surrogate, and
 * a low surrogate must not appear alone. */
static size_t escape_size(struct view text, uint32_t *ret_code)
{
    if (text.size < 2)
        return 0;
    if (text.data[1] != 'u') {
        const char *letter = text.data[1] ? strchr(escape_letters, text.data[1]) : NULL;
        *ret_code = letter ? (unsigned char)escape_meanings[letter - escape_letters] : 0;
        return letter ? 2 : 0;
    }
    int32_t code = hex4(view_from(text, 2));
    if (code < 0 || (code >= 0xdc00 && code < 0xe000))
        return 0;
    *ret_code = (uint32_t)code;
    if (code < 0xd800 || code >= 0xe000)
        return 6;
    struct view next = view_from(text, 6);
    int32_t low = view_starts_with(next, VIEW("\\u")) ? hex4(view_from(next, 2)) : -1;
    if (low < 0xdc00 || low >= 0xe000)
        return 0;
    *ret_code = 0x10000 + ((uint32_t)(code - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
    return 12;
}

/* Decodes the escape at the start of `rest` and removes it. Returns the number of bytes, or 0 for
 * an unpaired surrogate. */
static size_t unescape_next(struct view *rest, char bytes[UTF8_BYTES_MAX])
{
    uint32_t code;
    size_t size = escape_size(*rest, &code);
    *rest = view_from(*rest, size);
    return size ? utf8_write(code, bytes) : 0;
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

bool json_unescaped_is(struct view string, struct view value)
{
    while (string.size > 0) {
        char bytes[UTF8_BYTES_MAX];
        size_t plain = view_find(string, '\\');
        if (!view_starts_with(value, view_first(string, plain)))
            return false;
        string = view_from(string, plain);
        value = view_from(value, plain);
        if (string.size == 0)
            break;
        size_t size = unescape_next(&string, bytes);
        if (size == 0 || !view_starts_with(value, (struct view){ bytes, size }))
            return false;
        value = view_from(value, size);
    }
    return value.size == 0;
}

/* ---- Numbers and words --------------------------------------------------------------- */

static bool take_raw_number(struct json_reader *reader, struct view *ret_raw)
{
    struct json_text text;
    if (json_peek(reader) != JSON_KIND_NUMBER)
        return json_fail(reader, "expected a number");
    bool good = move_to(reader, pass_number(reader, reader->at, &text));
    if (good)
        *ret_raw = text.text;
    return good;
}

bool json_take_i64(struct json_reader *reader, int64_t *ret_value)
{
    struct view raw;
    uint64_t value;
    if (!take_raw_number(reader, &raw))
        return false;
    bool negative = raw.data[0] == '-';
    if (parse_u64(view_from(raw, negative), INT64_MAX, &value, NULL) != HF_OK)
        return json_fail(reader, "expected a whole number");
    *ret_value = negative ? -(int64_t)value : (int64_t)value;
    return true;
}

bool json_take_u64(struct json_reader *reader, uint64_t max, uint64_t *ret_value)
{
    struct view raw;
    uint64_t value;
    if (!take_raw_number(reader, &raw))
        return false;
    if (parse_u64(raw, max, &value, NULL) != HF_OK)
        return json_fail(reader, "a whole number is out of range");
    *ret_value = value;
    return true;
}

bool json_take_span_ms(struct json_reader *reader, struct span *ret_span)
{
    uint64_t ms;
    if (!json_take_u64(reader, INT64_MAX / 4000, &ms)) /* sums with it do not overflow */
        return false;
    *ret_span = SPAN_MS(ms);
    return true;
}

bool json_take_bool(struct json_reader *reader, bool *ret_value)
{
    struct json_text text;
    enum json_kind kind = json_peek(reader);
    if (kind != JSON_KIND_TRUE && kind != JSON_KIND_FALSE)
        return json_fail(reader, "expected true or false");
    if (!move_to(reader, pass_literal(reader, reader->at, &text)))
        return false;
    *ret_value = kind == JSON_KIND_TRUE;
    return true;
}

/* ---- Any value ----------------------------------------------------------------------- */

bool json_skip(struct json_reader *reader, struct view *ret_raw)
{
    struct json_text text = { 0 };
    const char *at = value_start(reader);
    if (!at || !move_to(reader, pass_value(reader, at, &text)))
        return false;
    *ret_raw = (struct view){ at, (size_t)(reader->at - at) };
    return true;
}

bool json_keep_member(struct json_reader *reader, struct view name, struct buffer *unknown)
{
    struct view raw;
    if (!json_skip(reader, &raw))
        return false;
    buffer_append(unknown, VIEW(",\""));
    buffer_append(unknown, name);
    buffer_append(unknown, VIEW("\":"));
    return buffer_append(unknown, raw) || json_fail(reader, "out of memory");
}

bool json_take_same(struct json_reader *reader, struct view known)
{
    const char *at = value_start(reader);
    if (!at || !view_starts_with((struct view){ at, (size_t)(reader->end - at) }, known))
        return false;
    return move_to(reader, at + known.size);
}

bool json_end(struct json_reader *reader)
{
    const char *at = value_start(reader);
    if (at && (reader->depth > 0 || at < reader->end))
        json_fail(reader, "unexpected text after the end");
    return reader->why == NULL;
}

/* ---- Writing ------------------------------------------------------------------------- */

static void write_escaped(struct buffer *buffer, unsigned char c)
{
    const char *meaning = c && c != '/' ? strchr(escape_meanings, c) : NULL;
    if (meaning)
        buffer_print(buffer, "\\%c", escape_letters[meaning - escape_meanings]);
    else
        buffer_print(buffer, "\\u%04x", c);
}

/* Appends a text in which every byte represents itself. */
static bool write_plain_string(struct buffer *buffer, struct view text)
{
    if (!buffer_reserve(buffer, text.size + 2))
        return false;
    char *at = buffer->data + buffer->size;
    *at = '"';
    if (text.size > 0)
        memcpy(at + 1, text.data, text.size);
    at[text.size + 1] = '"';
    buffer->size += text.size + 2;
    return true;
}

bool json_write_string(struct buffer *buffer, struct view text)
{
    if (text.size == 0 || pass_plain(text.data, text.data + text.size) == text.data + text.size)
        return write_plain_string(buffer, text);
    buffer_append_byte(buffer, '"');
    while (text.size > 0) {
        const char *stop = pass_plain(text.data, text.data + text.size);
        size_t plain = (size_t)(stop - text.data);
        buffer_append(buffer, view_first(text, plain));
        text = view_from(text, plain);
        if (text.size == 0)
            break;
        unsigned char c = (unsigned char)text.data[0];
        size_t size = utf8_size(text);
        if (c < 0x80)
            write_escaped(buffer, c);
        else
            buffer_append(buffer, size ? view_first(text, size) : VIEW("\xef\xbf\xbd"));
        text = view_from(text, size ? size : 1);
    }
    return buffer_append_byte(buffer, '"');
}
