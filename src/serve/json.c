/* SPDX-License-Identifier: Apache-2.0 */
/* json.c: writes the members of JSON objects. */
#include "serve/json.h"

#include "base/json.h"

#include <inttypes.h>

void json_put_name(struct buffer *json, struct view name)
{
    char last = json->size > 0 ? json->data[json->size - 1] : '{';
    if (!buffer_reserve(json, name.size + 4))
        return;
    char *at = json->data + json->size;
    if (last != '{' && last != '[')
        *at++ = ',';
    *at++ = '"';
    memcpy(at, name.data, name.size);
    at += name.size;
    *at++ = '"';
    *at++ = ':';
    json->size = (size_t)(at - json->data);
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
    json_put_name(json, view_of(name));
    buffer_print(json, "%s%" PRIu64 ".%03" PRIu64, number < 0 ? "-" : "", size / 1000,
                 size % 1000);
}
