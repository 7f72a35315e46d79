/* SPDX-License-Identifier: Apache-2.0 */
/* target.c: decodes the path and the query of a request into one block of memory. The number
 * of parts is counted first, and a decoded text is never longer than what it came from. */
#include "serve/http/target.h"

#include "base/check.h"
#include "base/parse.h"
#include "base/utf8.h"

#include <stdlib.h>

void target_release(struct target *target)
{
    free(target->segments);
    *target = (struct target){ .path = VIEW("") };
}

/* RFC 3986: pchar, "/" and "?"; "%" is checked when it is decoded. */
static bool target_has_only_legal(struct view text)
{
    static const char others[] = "-._~!$&'()*+,;=:@/?%";
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        bool plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
        if (!plain && (c == '\0' || !strchr(others, c)))
            return false;
    }
    return true;
}

static size_t target_count(struct view text, char byte)
{
    size_t count = 0;
    for (size_t i = 0; i < text.size; i++)
        count += text.data[i] == byte;
    return count;
}

/* Decodes into *free_space, which moves on. Returns false if it is not text. */
static bool target_decode(struct view coded, bool plus_is_space, char **free_space,
                          struct view *ret_text)
{
    char *out = *free_space;
    for (size_t i = 0; i < coded.size; i++) {
        char c = coded.data[i];
        if (c == '%') {
            int high = i + 2 < coded.size ? hex_digit(coded.data[i + 1]) : -1;
            int low = i + 2 < coded.size ? hex_digit(coded.data[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        *out++ = c;
    }
    *ret_text = (struct view){ *free_space, (size_t)(out - *free_space) };
    *free_space = out;
    return utf8_is_text(*ret_text);
}

static const char *target_segments(struct target *target, char **free_space)
{
    struct view rest = view_from(target->path, 1);
    for (size_t i = 0; i < target->segment_count; i++) {
        struct view *segment = &target->segments[i];
        if (!target_decode(view_cut(&rest, '/'), false, free_space, segment))
            return "the path is not valid UTF-8 in percent encoding";
        if (view_equal(*segment, VIEW(".")) || view_equal(*segment, VIEW("..")))
            return "the path must not contain the segments '.' and '..'";
    }
    return NULL;
}

static const char *target_parameters(struct target *target, struct view query,
                                     char **free_space)
{
    while (query.size > 0) {
        struct view value = view_cut(&query, '&');
        if (value.size == 0)
            continue;
        struct view name = view_cut(&value, '=');
        struct http_pair *pair = &target->parameters[target->parameter_count++];
        if (!target_decode(name, true, free_space, &pair->name) ||
            !target_decode(value, true, free_space, &pair->value))
            return "the query is not valid UTF-8 in percent encoding";
    }
    return NULL;
}

int target_parse(struct view path, struct view query, struct target *ret_target,
                 const char **ret_why)
{
    check(path.size > 0 && path.data[0] == '/');
    size_t segments = target_count(path, '/');
    size_t parameters = query.size ? target_count(query, '&') + 1 : 0;
    *ret_why = !target_has_only_legal(path) || !target_has_only_legal(query)
                   ? "the path or the query contains a character that must be percent-encoded"
               : segments > HTTP_SEGMENTS_MAX     ? "the path has too many segments"
               : parameters > HTTP_PARAMETERS_MAX ? "the query has too many parameters"
                                                  : NULL;
    if (*ret_why)
        return 400;
    struct target target = { .path = path, .segment_count = segments };
    target.bytes = segments * sizeof *target.segments + parameters * sizeof *target.parameters +
                   path.size + query.size;
    target.segments = malloc(target.bytes);
    if (!target.segments) {
        *ret_why = "the server is out of memory";
        return 503;
    }
    target.parameters = (struct http_pair *)(void *)(target.segments + segments);
    char *free_space = (char *)(target.parameters + parameters);
    *ret_why = target_segments(&target, &free_space);
    if (!*ret_why)
        *ret_why = target_parameters(&target, query, &free_space);
    if (*ret_why) {
        target_release(&target);
        return 400;
    }
    *ret_target = target;
    return 0;
}
