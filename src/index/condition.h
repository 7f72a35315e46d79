/* SPDX-License-Identifier: Apache-2.0 */
/* condition.h: a condition on one field of a record, such as "size >= 10". Pure.
 *
 *     FIELD OP VALUE     OP is one of = != < <= > >= ~
 *
 * The time field is compared as an instant. Otherwise, if the field and VALUE are both numbers
 * (RFC 8259), they are compared as numbers, exactly; if not, as bytes. With ~, VALUE is a pattern
 * that the whole field must match: * stands for any characters, ? for one character, and \ makes
 * the next character literal. A record is compared in time proportional to its size and, for a
 * pattern, to the size of the pattern, which is at most FIELD_PATTERN_MAX bytes long. */
#ifndef INDEX_CONDITION_H
#define INDEX_CONDITION_H

#include "base/decimal.h"
#include "index/record.h"

#define FIELD_PATTERN_MAX 256

enum field_test {
    FIELD_IS,      /* the bytes of the field are those of the value */
    FIELD_ORDER,   /* numbers if both are, otherwise bytes */
    FIELD_TIME,    /* the record's time */
    FIELD_PATTERN, /* the field matches */
};

/* The results of a comparison that satisfy a condition: field < value, and so on. */
#define FIELD_LESS    1U
#define FIELD_EQUAL   2U
#define FIELD_GREATER 4U

struct condition_on_field {
    size_t field;
    struct view value; /* unescaped */
    bool differs;      /* FIELD_IS: match records whose value differs */
    enum field_test kind;
    unsigned accepted; /* FIELD_ORDER, FIELD_TIME */
    bool is_number;    /* FIELD_ORDER: the value is this number */
    struct decimal number;
    struct instant time; /* FIELD_TIME */
};

/* Parses a condition. Blanks before the operator, and then also those after it, are ignored;
 * otherwise everything after the operator is the value. The views point into the text, which must
 * stay. INVALID: no operator, an unknown field, a value for the time field that is not a time, or a
 * pattern that is too long or ends with \. */
enum hf_status condition_parse(const struct schema *schema, struct view text,
                               struct condition_on_field *ret_condition,
                               struct hf_error *error);

/* Whether a valid record satisfies the condition. A field that the record omits is empty. */
bool condition_holds(const struct condition_on_field *condition, const struct record *record);

/* The field with this number, as written; empty if the record omits it. */
struct view record_field(const struct record *record, size_t field);

#endif
