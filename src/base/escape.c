/* SPDX-License-Identifier: Apache-2.0 */
/* escape.c: makes any bytes fit for a terminal. */
#include "base/escape.h"

#include "base/utf8.h"

/* Control bytes are C0, DEL, and C1 in its two-byte form, which some terminals also interpret. */
bool escape_append(struct buffer *to, struct view text)
{
    while (text.size > 0) {
        unsigned char first = (unsigned char)text.data[0];
        size_t size = utf8_size(text);
        bool control = first < 0x20 || first == 0x7f ||
                       (first == 0xc2 && text.size > 1 && (unsigned char)text.data[1] < 0xa0);
        if (size > 0 && !control && first != '\\') {
            buffer_append(to, view_first(text, size));
        } else {
            size = 1;
            if (first == '\n' || first == '\t' || first == '\\')
                buffer_append(to, first == '\n'   ? VIEW("\\n")
                                  : first == '\t' ? VIEW("\\t")
                                                  : VIEW("\\\\"));
            else
                buffer_print(to, "\\x%02x", first);
        }
        text = view_from(text, size);
    }
    return !to->failed;
}

size_t text_width(struct view text)
{
    size_t width = 0;
    for (size_t i = 0; i < text.size; i++)
        width += ((unsigned char)text.data[i] & 0xc0) != 0x80;
    return width;
}

struct view text_first(struct view text, size_t columns)
{
    size_t end = 0, width = 0;
    while (end < text.size) {
        bool begins = ((unsigned char)text.data[end] & 0xc0) != 0x80;
        if (begins && width++ == columns)
            break;
        end++;
    }
    return view_first(text, end);
}
