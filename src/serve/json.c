/* SPDX-License-Identifier: Apache-2.0 */
/* json.c: writes the members of JSON objects. */
#include "serve/json.h"

#include "base/json.h"

#include <inttypes.h>

static void put_member_name(struct buffer *json, const char *name)
{
    char last = json->size > 0 ? json->data[json->size - 1] : '{';
    if (last != '{' && last != '[')
        buffer_append_byte(json, ',');
    buffer_append_byte(json, '"');
    buffer_append(json, view_of(name));
    buffer_append(json, VIEW("\":"));
}

void json_put_text(struct buffer *json, const char *name, const char *text)
{
    put_member_name(json, name);
    json_write_string(json, view_of(text ? text : ""));
}

void json_put_u64(struct buffer *json, const char *name, uint64_t number)
{
    put_member_name(json, name);
    buffer_append_u64(json, number);
}

void json_put_i64(struct buffer *json, const char *name, int64_t number)
{
    put_member_name(json, name);
    buffer_append_i64(json, number);
}

void json_put_bool(struct buffer *json, const char *name, bool value)
{
    put_member_name(json, name);
    buffer_append(json, value ? VIEW("true") : VIEW("false"));
}

void json_put_raw(struct buffer *json, const char *name, struct view value)
{
    put_member_name(json, name);
    buffer_append(json, value);
}

void json_open(struct buffer *json, const char *name, char bracket)
{
    put_member_name(json, name);
    buffer_append_byte(json, bracket);
}

void json_next(struct buffer *json)
{
    char last = json->size > 0 ? json->data[json->size - 1] : '[';
    if (last != '[')
        buffer_append_byte(json, ',');
}

void json_put_thousandths(struct buffer *json, const char *name, int64_t number)
{
    uint64_t size = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    put_member_name(json, name);
    buffer_print(json, "%s%" PRIu64 ".%03" PRIu64, number < 0 ? "-" : "", size / 1000,
                 size % 1000);
}
