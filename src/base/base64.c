/* SPDX-License-Identifier: Apache-2.0 */
/* base64.c: Base64 with padding. Decoding accepts only the exact text that encoding writes. */
#include "base/base64.h"

#include <stdint.h>

static const char letters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(struct view bytes, char *text)
{
    for (; bytes.size > 0; bytes = view_from(bytes, 3)) {
        uint32_t three = 0;
        for (size_t i = 0; i < 3; i++)
            three = three << 8 | (i < bytes.size ? (unsigned char)bytes.data[i] : 0);
        for (size_t i = 0; i < 4; i++)
            *text++ = i <= bytes.size ? letters[three >> (18 - 6 * i) & 63] : '=';
    }
    *text = '\0';
}

/* The value of a letter, or -1. */
static int letter_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decodes 4 letters, of which the last `padding` are "=", into 3 bytes. */
static bool decode_four(const char *four, size_t padding, uint32_t *ret_three)
{
    uint32_t three = 0;
    for (size_t i = 0; i < 4; i++) {
        int value = i < 4 - padding ? letter_value(four[i]) : 0;
        if (value < 0)
            return false;
        three = three << 6 | (uint32_t)value;
    }
    *ret_three = three;
    return (three & ((UINT32_C(1) << 8 * padding) - 1)) == 0;
}

bool base64_decode(struct view text, char *bytes, size_t *ret_size)
{
    size_t size = 0;
    if (text.size % 4 != 0)
        return false;
    for (size_t at = 0; at < text.size; at += 4) {
        const char *four = text.data + at;
        bool last = at + 4 == text.size;
        size_t padding = !last || four[3] != '=' ? 0 : four[2] != '=' ? 1 : 2;
        uint32_t three;
        if (!decode_four(four, padding, &three))
            return false;
        for (size_t i = 0; i < 3 - padding; i++)
            bytes[size++] = (char)(three >> (16 - 8 * i) & 0xff);
    }
    *ret_size = size;
    return true;
}
