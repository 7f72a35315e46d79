/* SPDX-License-Identifier: Apache-2.0 */
/* json.h: writes JSON replies, member by member, into a buffer. */
#ifndef SERVE_JSON_H
#define SERVE_JSON_H

#include "base/buffer.h"
#include "base/json.h"

/* Appends ,"name": without the comma at the beginning of an object. */
void json_put_name(struct buffer *json, struct view name);

/* Each appends a member. Inline, because the compiler knows the sizes of most names. */
static inline void json_put_text(struct buffer *json, const char *name, const char *text)
{
    json_put_name(json, view_of(name));
    json_write_string(json, view_of(text ? text : ""));
}

static inline void json_put_u64(struct buffer *json, const char *name, uint64_t number)
{
    json_put_name(json, view_of(name));
    buffer_append_u64(json, number);
}

static inline void json_put_i64(struct buffer *json, const char *name, int64_t number)
{
    json_put_name(json, view_of(name));
    buffer_append_i64(json, number);
}

static inline void json_put_bool(struct buffer *json, const char *name, bool value)
{
    json_put_name(json, view_of(name));
    buffer_append(json, value ? VIEW("true") : VIEW("false"));
}

/* The value is JSON. */
static inline void json_put_raw(struct buffer *json, const char *name, struct view value)
{
    json_put_name(json, view_of(name));
    buffer_append(json, value);
}

/* 12345 is written as 12.345: microseconds as milliseconds, for example. */
void json_put_thousandths(struct buffer *json, const char *name, int64_t number);

/* Begins an array or object, and appends what separates one element of it from the next. */
static inline void json_open(struct buffer *json, const char *name, char bracket)
{
    json_put_name(json, view_of(name));
    buffer_append_byte(json, bracket);
}
void json_next(struct buffer *json);

#endif
