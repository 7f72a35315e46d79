/* SPDX-License-Identifier: Apache-2.0 */
/* encode.c: percent-encoding, sorted queries and Content-MD5, as signatures need them. */
#include "store/remote/encode.h"

#include "base/base64.h"
#include "base/parse.h"
#include "store/remote/crypto.h"

static bool is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '-' || c == '.' || c == '_' || c == '~';
}

bool http_encode(struct buffer *to, struct view text, bool keep_slash)
{
    static const char digits[] = "0123456789ABCDEF";
    if (!buffer_reserve(to, 3 * text.size))
        return false;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if (is_unreserved(c) || (c == '/' && keep_slash)) {
            to->data[to->size++] = c;
            continue;
        }
        to->data[to->size++] = '%';
        to->data[to->size++] = digits[(unsigned char)c >> 4];
        to->data[to->size++] = digits[(unsigned char)c & 15];
    }
    return true;
}

void http_sort_pairs(const struct http_pair *pairs, size_t count, struct http_pair *sorted)
{
    for (size_t i = 0; i < count; i++) {
        size_t at = i;
        for (; at > 0; at--) {
            int order = view_compare(pairs[i].name, sorted[at - 1].name);
            if (order == 0)
                order = view_compare(pairs[i].value, sorted[at - 1].value);
            if (order >= 0)
                break;
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = pairs[i];
    }
}

bool http_query(struct buffer *to, const struct http_pair *parameters, size_t count)
{
    struct http_pair sorted[HTTP_QUERY_PARAMETERS_MAX];
    if (count > HTTP_QUERY_PARAMETERS_MAX)
        return false;
    http_sort_pairs(parameters, count, sorted);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buffer_append_byte(to, '&');
        http_encode(to, sorted[i].name, /* keep_slash */ false);
        buffer_append_byte(to, '=');
        http_encode(to, sorted[i].value, /* keep_slash */ false);
    }
    return !to->failed;
}

bool http_decode(struct view *text, bool plus_is_space)
{
    char *to = (char *)(size_t)text->data;
    size_t size = 0;
    for (size_t i = 0; i < text->size; i++, size++) {
        char c = text->data[i];
        if (c == '%') {
            int high = i + 2 < text->size ? hex_digit(text->data[i + 1]) : -1;
            int low = i + 2 < text->size ? hex_digit(text->data[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        to[size] = c;
    }
    text->size = size;
    return true;
}

bool http_content_md5(struct view body, char text[HTTP_MD5_TEXT_SIZE])
{
    unsigned char digest[MD5_SIZE];
    if (!md5(body, digest))
        return false;
    base64_encode((struct view){ (const char *)digest, sizeof digest }, text);
    return true;
}
