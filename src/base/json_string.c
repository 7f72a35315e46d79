/* SPDX-License-Identifier: Apache-2.0 */
/* json_string.c: decodes the escapes of JSON strings. A surrogate without its pair is invalid. */
#include "base/json_string.h"

#include "base/parse.h"

/* The value of the four digits after "\u"; negative if they are not hex digits. */
static inline int32_t hex4(struct view digits)
{
    if (digits.size < 4)
        return -1;
    /* A byte that is not a digit gives -1, which makes the whole negative. */
    const char *at = digits.data;
    return hex_digit(at[0]) * 0x1000 | hex_digit(at[1]) * 0x100 | hex_digit(at[2]) * 0x10 |
           hex_digit(at[3]);
}

/* The size of "\n" and similar escapes; 0 if the letter after the backslash is not valid. */
static inline size_t letter_size(char letter, uint32_t *ret_code)
{
    switch (letter) {
    case '"':
    case '\\':
    case '/': *ret_code = (unsigned char)letter; return 2;
    case 'b': *ret_code = '\b'; return 2;
    case 'f': *ret_code = '\f'; return 2;
    case 'n': *ret_code = '\n'; return 2;
    case 'r': *ret_code = '\r'; return 2;
    case 't': *ret_code = '\t'; return 2;
    default: return 0;
    }
}

size_t json_escape_size(struct view text, uint32_t *ret_code)
{
    if (text.size < 2)
        return 0;
    if (text.data[1] != 'u')
        return letter_size(text.data[1], ret_code);
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
