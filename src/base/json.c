/* SPDX-License-Identifier: Apache-2.0 */
/* json.c: a strict JSON reader that returns views of the text, and a writer. Depth and sizes
 * are bounded, so a damaged or hostile document cannot exhaust the stack. */
#include "base/json.h"

#include "base/json_string.h"
#include "base/parse.h"
#include "base/utf8.h"

#include <stdio.h>

struct json_reader json_read(struct view text)
{
    return (struct json_reader){ .text = text };
}

bool json_fail(struct json_reader *reader, const char *why)
{
    if (!reader->why)
        reader->why = why;
    return false;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static void skip_space(struct json_reader *reader)
{
    while (reader->at < reader->text.size && is_space(reader->text.data[reader->at]))
        reader->at++;
}

/* The next byte that is not whitespace; 0 at the end. */
static char next_byte(struct json_reader *reader)
{
    skip_space(reader);
    return reader->at < reader->text.size ? reader->text.data[reader->at] : '\0';
}

static bool is_byte_at(const struct json_reader *reader, char byte)
{
    return reader->at < reader->text.size && reader->text.data[reader->at] == byte;
}

static bool take_byte_behind_space(struct json_reader *reader, char byte, const char *why)
{
    if (reader->why || next_byte(reader) != byte)
        return json_fail(reader, why);
    reader->at++;
    return true;
}

/* Fast path: our own documents have no whitespace between names, colons and commas. */
static inline bool take_byte(struct json_reader *reader, char byte, const char *why)
{
    if (reader->why || !is_byte_at(reader, byte))
        return take_byte_behind_space(reader, byte, why);
    reader->at++;
    return true;
}

enum json_kind json_peek(struct json_reader *reader)
{
    if (reader->why)
        return JSON_KIND_NONE;
    switch (next_byte(reader)) {
    case '{': return JSON_KIND_OBJECT;
    case '[': return JSON_KIND_ARRAY;
    case '"': return JSON_KIND_STRING;
    case 't': return JSON_KIND_TRUE;
    case 'f': return JSON_KIND_FALSE;
    case 'n': return JSON_KIND_NULL;
    case '-': return JSON_KIND_NUMBER;
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9': return JSON_KIND_NUMBER;
    default: return JSON_KIND_NONE;
    }
}

/* ---- Objects and arrays -------------------------------------------------------------- */

static bool enter_container(struct json_reader *reader, char opening, char closing,
                            const char *why)
{
    if (!take_byte(reader, opening, why))
        return false;
    if (reader->depth == JSON_DEPTH_MAX)
        return json_fail(reader, "nested too deeply");
    reader->first[reader->depth] = true;
    reader->closing[reader->depth] = closing;
    reader->depth++;
    return true;
}

bool json_enter_object(struct json_reader *reader)
{
    return enter_container(reader, '{', '}', "expected an object");
}

bool json_enter_array(struct json_reader *reader)
{
    return enter_container(reader, '[', ']', "expected an array");
}

/* True if there is another item before the closing byte. False after the last; the reader then
 * leaves the level. */
static bool more_here(struct json_reader *reader)
{
    if (reader->why || reader->depth == 0)
        return false;
    bool *first = &reader->first[reader->depth - 1];
    if (next_byte(reader) == reader->closing[reader->depth - 1]) {
        reader->at++;
        reader->depth--;
        return false;
    }
    if (!*first && !take_byte(reader, ',', "expected a comma"))
        return false;
    *first = false;
    return true;
}

static bool take_raw_string(struct json_reader *reader, struct view *ret_raw,
                            bool *ret_escapes);

bool json_next_member(struct json_reader *reader, struct view *ret_name)
{
    bool escapes;
    return more_here(reader) && take_raw_string(reader, ret_name, &escapes) &&
           take_byte(reader, ':', "expected a colon");
}

bool json_next_element(struct json_reader *reader)
{
    return more_here(reader);
}

/* ---- Strings ------------------------------------------------------------------------- */

/* Checks one character or escape of a string at reader->at. False if it is invalid. */
static bool step_in_string(struct json_reader *reader, bool *ret_escapes)
{
    struct view rest = view_from(reader->text, reader->at);
    unsigned char c = (unsigned char)rest.data[0];
    uint32_t code;
    size_t size = c < 0x20 ? 0 : c == '\\' ? json_escape_size(rest, &code) : utf8_size(rest);
    if (size == 0)
        return json_fail(reader, "invalid byte or escape in a string");
    *ret_escapes = *ret_escapes || c == '\\';
    reader->at += size;
    return true;
}

/* Whether the byte represents itself in a string: not a control character, quote, backslash or
 * part of a multi-byte character. */
static bool is_plain_byte(char byte)
{
    unsigned char c = (unsigned char)byte;
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* How many of eight bytes are plain, before the first that is not. */
static inline size_t plain_of_eight(const char *eight)
{
    uint64_t marks = json_not_plain(load_little_endian(eight));
    return marks ? (size_t)__builtin_ctzll(marks) / 8 : 8;
}

/* How many plain bytes the text starts with. */
static inline size_t plain_size(struct view text)
{
    size_t size = 0;
    while (text.size - size >= 8) {
        size_t plain = plain_of_eight(text.data + size);
        size += plain;
        if (plain < 8)
            return size;
    }
    while (size < text.size && is_plain_byte(text.data[size]))
        size++;
    return size;
}

/* Finds the end of a string that is not plain; reader->at is then at its closing quote. Not
 * inlined, because most strings are plain. */
__attribute__((noinline)) static bool find_end_of_string(struct json_reader *reader,
                                                         bool *ret_escapes)
{
    while (!is_byte_at(reader, '"')) {
        if (reader->at == reader->text.size)
            return json_fail(reader, "unterminated string");
        if (!step_in_string(reader, ret_escapes))
            return false;
        reader->at += plain_size(view_from(reader->text, reader->at));
    }
    return true;
}

/* Takes a checked string as it appears between its quotes. */
static bool take_raw_string(struct json_reader *reader, struct view *ret_raw, bool *ret_escapes)
{
    if (!take_byte(reader, '"', "expected a string"))
        return false;
    size_t start = reader->at;
    *ret_escapes = false;
    reader->at = start + plain_size(view_from(reader->text, start));
    if (!is_byte_at(reader, '"') && !find_end_of_string(reader, ret_escapes))
        return false;
    *ret_raw = (struct view){ reader->text.data + start, reader->at - start };
    reader->at++;
    return true;
}

bool json_take_plain(struct json_reader *reader, struct view *ret_text)
{
    bool escapes;
    struct view raw;
    if (!take_raw_string(reader, &raw, &escapes))
        return false;
    if (escapes)
        return json_fail(reader, "unexpected escape in a string");
    *ret_text = raw;
    return true;
}

/* Appends a checked string with its escapes decoded. */
static bool append_unescaped(struct json_reader *reader, struct view raw, struct buffer *text)
{
    while (raw.size > 0) {
        size_t plain = view_find(raw, '\\');
        buffer_append(text, view_first(raw, plain));
        raw = view_from(raw, plain);
        uint32_t code;
        if (raw.size > 0) {
            char bytes[UTF8_BYTES_MAX];
            raw = view_from(raw, json_escape_size(raw, &code));
            buffer_append(text, (struct view){ bytes, utf8_encode(code, bytes) });
        }
    }
    return text->failed ? json_fail(reader, "a string is too long") : true;
}

bool json_take_string(struct json_reader *reader, struct buffer *text)
{
    bool escapes;
    struct view raw;
    return take_raw_string(reader, &raw, &escapes) && append_unescaped(reader, raw, text);
}

bool json_take_text(struct json_reader *reader, struct buffer *space, struct view *ret_text)
{
    bool escapes;
    struct view raw;
    if (!take_raw_string(reader, &raw, &escapes))
        return false;
    size_t start = space->size;
    if (escapes && !append_unescaped(reader, raw, space))
        return false;
    *ret_text = escapes ? (struct view){ space->data + start, space->size - start } : raw;
    return true;
}

/* ---- Numbers and words --------------------------------------------------------------- */

static bool is_digit_at(const struct json_reader *reader)
{
    return reader->at < reader->text.size && reader->text.data[reader->at] >= '0' &&
           reader->text.data[reader->at] <= '9';
}

static size_t skip_digits(struct json_reader *reader)
{
    size_t start = reader->at;
    while (is_digit_at(reader))
        reader->at++;
    return reader->at - start;
}

/* Takes a number as text. *ret_whole: it has neither fraction nor exponent. */
static bool take_raw_number(struct json_reader *reader, struct view *ret_raw, bool *ret_whole)
{
    if (json_peek(reader) != JSON_KIND_NUMBER)
        return json_fail(reader, "expected a number");
    size_t start = reader->at;
    *ret_whole = true;
    if (is_byte_at(reader, '-'))
        reader->at++;
    bool zero = is_byte_at(reader, '0');
    size_t digits = skip_digits(reader);
    bool good = digits > 0 && (!zero || digits == 1);
    if (good && is_byte_at(reader, '.')) {
        reader->at++;
        *ret_whole = false;
        good = skip_digits(reader) > 0;
    }
    if (good && (is_byte_at(reader, 'e') || is_byte_at(reader, 'E'))) {
        reader->at++;
        *ret_whole = false;
        if (is_byte_at(reader, '+') || is_byte_at(reader, '-'))
            reader->at++;
        good = skip_digits(reader) > 0;
    }
    if (!good)
        return json_fail(reader, "invalid number");
    *ret_raw = (struct view){ reader->text.data + start, reader->at - start };
    return true;
}

bool json_take_i64(struct json_reader *reader, int64_t *ret_value)
{
    struct view raw;
    bool whole;
    uint64_t value;
    if (!take_raw_number(reader, &raw, &whole))
        return false;
    bool negative = raw.data[0] == '-';
    struct view digits = view_from(raw, negative);
    if (!whole || parse_u64(digits, INT64_MAX, &value, NULL) != HF_OK)
        return json_fail(reader, "expected a whole number");
    *ret_value = negative ? -(int64_t)value : (int64_t)value;
    return true;
}

bool json_take_u64(struct json_reader *reader, uint64_t max, uint64_t *ret_value)
{
    struct view raw;
    bool whole;
    uint64_t value;
    if (!take_raw_number(reader, &raw, &whole))
        return false;
    if (!whole || parse_u64(raw, max, &value, NULL) != HF_OK)
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

static bool take_literal(struct json_reader *reader, struct view word)
{
    skip_space(reader);
    if (reader->why || !view_starts_with(view_from(reader->text, reader->at), word))
        return json_fail(reader, "expected a value");
    reader->at += word.size;
    return true;
}

bool json_take_bool(struct json_reader *reader, bool *ret_value)
{
    enum json_kind kind = json_peek(reader);
    if (kind != JSON_KIND_TRUE && kind != JSON_KIND_FALSE)
        return json_fail(reader, "expected true or false");
    if (!take_literal(reader, kind == JSON_KIND_TRUE ? VIEW("true") : VIEW("false")))
        return false;
    *ret_value = kind == JSON_KIND_TRUE;
    return true;
}

/* ---- Any value ----------------------------------------------------------------------- */

/* Skips one scalar value, or enters an object or array. */
static bool skip_one(struct json_reader *reader)
{
    struct view raw;
    bool flag;
    switch (json_peek(reader)) {
    case JSON_KIND_OBJECT: return json_enter_object(reader);
    case JSON_KIND_ARRAY: return json_enter_array(reader);
    case JSON_KIND_STRING: return take_raw_string(reader, &raw, &flag);
    case JSON_KIND_NUMBER: return take_raw_number(reader, &raw, &flag);
    case JSON_KIND_TRUE: return take_literal(reader, VIEW("true"));
    case JSON_KIND_FALSE: return take_literal(reader, VIEW("false"));
    case JSON_KIND_NULL: return take_literal(reader, VIEW("null"));
    case JSON_KIND_NONE: return json_fail(reader, "expected a value");
    }
    return false;
}

bool json_skip(struct json_reader *reader, struct view *ret_raw)
{
    unsigned outside = reader->depth;
    skip_space(reader);
    size_t start = reader->at;
    bool good = skip_one(reader);
    while (good && reader->depth > outside) {
        struct view name;
        bool in_object = reader->closing[reader->depth - 1] == '}';
        bool more = in_object ? json_next_member(reader, &name) : json_next_element(reader);
        if (more)
            skip_one(reader);
        good = !reader->why;
    }
    if (good)
        *ret_raw = (struct view){ reader->text.data + start, reader->at - start };
    return good;
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
    skip_space(reader);
    if (reader->why || !view_starts_with(view_from(reader->text, reader->at), known))
        return false;
    reader->at += known.size;
    return true;
}

bool json_end(struct json_reader *reader)
{
    skip_space(reader);
    if (!reader->why && (reader->depth > 0 || reader->at < reader->text.size))
        json_fail(reader, "unexpected text after the end");
    return reader->why == NULL;
}

/* ---- Writing ------------------------------------------------------------------------- */

static void write_escaped(struct buffer *buffer, unsigned char c)
{
    static const char letters[] = "\"\\bfnrt";
    static const char meanings[] = "\"\\\b\f\n\r\t";
    const char *meaning = c ? strchr(meanings, c) : NULL;
    if (meaning)
        buffer_print(buffer, "\\%c", letters[meaning - meanings]);
    else
        buffer_print(buffer, "\\u%04x", c);
}

bool json_write_string(struct buffer *buffer, struct view text)
{
    buffer_append_byte(buffer, '"');
    while (text.size > 0) {
        size_t plain = plain_size(text);
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
