/* SPDX-License-Identifier: Apache-2.0 */
/* checksum.c: finds, computes and compares the checksum of a document. It notices bytes that a
 * store, a disk or a network has changed, before anything is decided by them. */
#include "base/checksum.h"

#include "base/check.h"
#include "base/evidence.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/rule.h"

#define MARK         '~'
#define DIGITS       8
#define BLANK_DIGITS "00000000"
#define SEALED_SIZE  ((size_t)NONCE_SIZE + 1 + DIGITS) /* of the string, without its quotes */
#define WRITE_NAME   VIEW("\"write\":")

void checksum_append_write(struct buffer *text, struct view nonce)
{
    buffer_append_byte(text, '"');
    buffer_append(text, nonce);
    if (nonce.size == NONCE_SIZE) {
        buffer_append_byte(text, MARK);
        buffer_append(text, VIEW(BLANK_DIGITS));
    }
    buffer_append_byte(text, '"');
}

/* The bytes of the text that follow `wanted`, which must be in the head; empty if it is not. */
static struct view find_in_head(struct view text, struct view wanted)
{
    struct view head = view_first(text, CHECKSUM_HEAD);
    for (size_t at = view_find(head, wanted.data[0]); at < head.size;
         at += 1 + view_find(view_from(head, at + 1), wanted.data[0]))
        if (view_starts_with(view_from(head, at), wanted))
            return view_from(text, at + wanted.size);
    return VIEW("");
}

/* The value of `write`, without its quotes; empty if it is not a string. */
static struct view find_write(struct view text)
{
    struct view value = find_in_head(text, WRITE_NAME);
    value = view_from(value, view_starts_with(value, VIEW(" ")));
    if (!view_starts_with(value, VIEW("\"")))
        return VIEW("");
    value = view_from(value, 1);
    return view_first(value, view_find(value, '"'));
}

static bool has_form(struct view value)
{
    return value.size == SEALED_SIZE && value.data[NONCE_SIZE] == MARK &&
           text_is_hex(view_first(value, NONCE_SIZE), NONCE_SIZE) &&
           text_is_hex(view_from(value, NONCE_SIZE + 1), DIGITS);
}

/* Whether the head has a string with a checksum, as the value of a member whose name is as long as
 * `write`. No other member of that length can have such a value. */
static bool has_lost_its_name(struct view text)
{
    const size_t before = WRITE_NAME.size + 2; /* and a space, and a quote */
    struct view head = view_first(text, CHECKSUM_HEAD);
    for (size_t at = view_find(head, MARK); at < head.size;
         at += 1 + view_find(view_from(head, at + 1), MARK)) {
        if (at < NONCE_SIZE + before)
            continue;
        size_t start = at - NONCE_SIZE, space = text.data[start - 2] == ' ';
        const char *name = text.data + start - 1 - space - WRITE_NAME.size;
        bool named = name[0] == '"' && name[WRITE_NAME.size - 2] == '"' &&
                     name[WRITE_NAME.size - 1] == ':';
        if (named && has_form(view_first(view_from(text, start), SEALED_SIZE)))
            return true;
    }
    return false;
}

static uint32_t compute(struct view text, size_t digits)
{
    return crc32c(crc32c(0, view_first(text, digits)), view_from(text, digits + DIGITS));
}

static void print_digits(uint32_t crc, char ret_text[DIGITS + 1])
{
    const unsigned char bytes[4] = { (unsigned char)(crc >> 24), (unsigned char)(crc >> 16),
                                     (unsigned char)(crc >> 8), (unsigned char)crc };
    hex_encode(bytes, sizeof bytes, ret_text);
}

bool checksum_finish(struct buffer *text)
{
    char digits[DIGITS + 1];
    if (text->failed)
        return false;
    struct view value = find_write(buffer_view(text));
    if (!has_form(value))
        return true; /* a nonce of another length */
    size_t at = (size_t)(value.data - text->data) + NONCE_SIZE + 1;
    check(memcmp(text->data + at, BLANK_DIGITS, DIGITS) == 0);
    print_digits(compute(buffer_view(text), at), digits);
    memcpy(text->data + at, digits, DIGITS);
    return true;
}

enum checksum_state checksum_check(struct view text)
{
    char digits[DIGITS + 1];
    struct view value = find_write(text);
    if (value.size == 0)
        return has_lost_its_name(text) ? CHECKSUM_WRONG : CHECKSUM_NONE;
    if (value.size != SEALED_SIZE)
        return CHECKSUM_NONE;
    struct view found = view_from(value, NONCE_SIZE + 1);
    print_digits(compute(text, (size_t)(found.data - text.data)), digits);
    bool wrong = !has_form(value) || memcmp(found.data, digits, DIGITS) != 0;
    return RULE(CHECKSUM_IS_COMPARED) && wrong ? CHECKSUM_WRONG : CHECKSUM_RIGHT;
}

/* Earlier versions wrote some documents with `write` at their end. It moves to the head, after
 * `format`, and all other members stay as they are. */
bool checksum_seal(struct view text, struct view nonce, struct buffer *sealed)
{
    struct json_reader reader = json_read(text);
    struct view name, raw;
    size_t done = 0;
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (!json_skip(&reader, &raw) || (done == 0 && !view_equal(name, VIEW("format"))))
            return false;
        size_t end = (size_t)(raw.data - text.data) + raw.size;
        if (!view_equal(name, VIEW("write")))
            buffer_append(sealed, view_first(view_from(text, done), end - done));
        if (done == 0) {
            buffer_append(sealed, VIEW(","));
            buffer_append(sealed, WRITE_NAME);
            checksum_append_write(sealed, nonce);
        }
        done = end;
    }
    buffer_append(sealed, view_from(text, done));
    return done > 0 && json_end(&reader) && checksum_finish(sealed) &&
           checksum_check(buffer_view(sealed)) == CHECKSUM_RIGHT;
}
