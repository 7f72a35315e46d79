/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.c: checks and encodes UTF-8. Overlong forms and surrogates are refused, so each text has
 * only one encoding. */
#include "base/utf8.h"

size_t utf8_size(struct view text)
{
    const unsigned char *s = (const unsigned char *)text.data;
    unsigned char c = s[0];
    size_t size = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
    if (size == 0 || size > text.size)
        return 0;
    for (size_t i = 1; i < size; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (c == 0xe0 && s[1] < 0xa0) || (c == 0xf0 && s[1] < 0x90);
    bool outside = (c == 0xed && s[1] >= 0xa0) || (c == 0xf4 && s[1] >= 0x90);
    return overlong || outside ? 0 : size;
}

size_t utf8_write(uint32_t code, char bytes[UTF8_BYTES_MAX])
{
    static const unsigned char leads[] = { 0, 0x00, 0xc0, 0xe0, 0xf0 };
    size_t size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = size - 1; i > 0; i--, code >>= 6)
        bytes[i] = (char)(0x80 | (code & 0x3f));
    bytes[0] = (char)(leads[size] | code);
    return size;
}

bool utf8_is_valid(struct view text)
{
    while (text.size > 0) {
        size_t size = utf8_size(text);
        if (size == 0)
            return false;
        text = view_from(text, size);
    }
    return true;
}

bool utf8_is_text(struct view text)
{
    return utf8_is_valid(text) && view_find(text, '\0') == text.size;
}
