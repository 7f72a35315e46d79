/* SPDX-License-Identifier: Apache-2.0 */
/* json.h: writes JSON replies, member by member, into a buffer. */
#ifndef SERVE_JSON_H
#define SERVE_JSON_H

#include "base/buffer.h"

/* Appends ,"name":value, without the comma at the beginning of an object. */
void json_put_text(struct buffer *json, const char *name, const char *text);
void json_put_u64(struct buffer *json, const char *name, uint64_t number);
void json_put_i64(struct buffer *json, const char *name, int64_t number);
/* 12345 is written as 12.345: microseconds as milliseconds, for example. */
void json_put_thousandths(struct buffer *json, const char *name, int64_t number);
void json_put_bool(struct buffer *json, const char *name, bool value);
/* The value is JSON. */
void json_put_raw(struct buffer *json, const char *name, struct view value);
/* Begins an array or object, and appends what separates one element of it from the next. */
void json_open(struct buffer *json, const char *name, char bracket);
void json_next(struct buffer *json);

#endif
