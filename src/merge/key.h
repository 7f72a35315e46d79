/* SPDX-License-Identifier: Apache-2.0 */
/* key.h: what a merge orders its records by: one field or several.
 *
 *     id               the field `id`, compared as bytes
 *     id:number        compared as a number, exactly, however many digits it has
 *     id:desc          in descending order; also id:number:desc
 *     country,id       by several fields, the first one first
 *     a\,b  a\:b  a\\b names that contain a comma, a colon or a backslash
 *
 * A key that is one field, compared as bytes in ascending order, is the field's value itself. Any
 * other key is encoded: it becomes a string whose byte order is the order that was requested. So
 * the rest of a merge knows only strings, and equal keys are equal strings.
 *
 *     text      its bytes, with 00 replaced by 00 FF, then 00 00
 *     number    as decimal_bytes (base/decimal.h)
 *     descending: the complement of either
 *
 * None of these encodings is the start of another, so several can follow each other. */
#ifndef MERGE_KEY_H
#define MERGE_KEY_H

#include "base/buffer.h"
#include "base/error.h"

/* A requested field: by number, or by name if the format has names. */
struct field {
    bool asked;
    size_t number; /* from 1; 0: by name */
    struct view name;
};

struct key_part {
    struct field field;
    bool is_number;
    bool is_descending;
};

#define KEY_PARTS_MAX 8
#define KEY_TEXT_MAX  2048 /* of the text that describes a key */

/* An encoded key is at most this much longer than twice the values of its fields. */
#define KEY_ENCODING_EXTRA (16 * KEY_PARTS_MAX)

struct merge_key {
    struct key_part parts[KEY_PARTS_MAX];
    size_t count; /* 0: no key was requested */
    bool is_encoded;
};

/* "3" is a field number, unless fields have only names; "name" is a field name. */
enum hf_status field_parse(struct view text, bool by_name, struct field *ret_field,
                           struct hf_error *error);

/* Parses a key. The names point into `space`, which must outlive the key. INVALID: the text is too
 * long, has too many fields or a field twice, or something other than :number and :desc follows a
 * field. */
enum hf_status key_parse(struct view text, bool by_name, char space[KEY_TEXT_MAX],
                         struct merge_key *ret_key, struct hf_error *error);

/* The name of the only field of a key that is compared as bytes, or by the type of its column. As
 * for key_parse; INVALID also if the key is anything else. */
enum hf_status key_parse_name(struct view text, char space[KEY_TEXT_MAX], struct view *ret_name,
                              struct hf_error *error);

/* Appends the name of a field as the text of a key that consists of this field. False if the buffer
 * is full. */
bool key_append_name(struct buffer *text, struct view name);

/* Appends the encoding of one field's value. False if the part is a number and the value is none:
 * a number as in JSON, which may also start with a plus sign and with zeros, and whose exponent has
 * at most nine digits. If memory runs out, the buffer records it. */
bool key_append(struct buffer *to, const struct key_part *part, struct view value);

#endif
