/* SPDX-License-Identifier: Apache-2.0 */
/* key.c: parses the description of a key, and encodes keys so that their byte order is the
 * requested order. */
#include "merge/key.h"

#include "base/decimal.h"
#include "base/parse.h"

/* ---- Descriptions -------------------------------------------------------------------- */

#define FIELD_NUMBER_MAX 100000

enum hf_status field_parse(struct view text, bool by_name, struct field *ret_field,
                           struct hf_error *error)
{
    uint64_t number = 0;
    if (text.size == 0 && !by_name)
        return error_set(error, HF_INVALID, "a field must be a number or a name");
    bool digits = !by_name;
    for (size_t i = 0; i < text.size; i++)
        digits = digits && text.data[i] >= '0' && text.data[i] <= '9';
    if (digits && (parse_u64(text, FIELD_NUMBER_MAX, &number, NULL) != HF_OK || number == 0))
        return error_set(error, HF_INVALID, "fields are numbered from 1 to %d, not %.*s",
                         FIELD_NUMBER_MAX, VIEW_ARGS(view_first(text, 40)));
    *ret_field = (struct field){ .asked = true, .number = (size_t)number, .name = text };
    return HF_OK;
}

static bool is_special(char byte)
{
    return byte == ',' || byte == ':' || byte == '\\';
}

/* Takes a name or an option, up to a comma or a colon; escapes are decoded into `to`, which it
 * advances. False if a backslash is followed by anything else. */
static bool take_word(struct view *text, char **to, struct view *ret_word)
{
    char *start = *to;
    while (text->size > 0 && text->data[0] != ',' && text->data[0] != ':') {
        if (text->data[0] == '\\') {
            if (text->size < 2 || !is_special(text->data[1]))
                return false;
            *text = view_from(*text, 1);
        }
        *(*to)++ = text->data[0];
        *text = view_from(*text, 1);
    }
    *ret_word = (struct view){ start, (size_t)(*to - start) };
    return true;
}

static enum hf_status refuse_escape(struct hf_error *error)
{
    return error_set(error, HF_INVALID,
                     "in a key, a backslash must be followed by a comma, a colon or a "
                     "backslash that belongs to the name of a field");
}

/* Takes ":number" and ":desc", in this order. */
static enum hf_status take_key_order(struct view *text, char **to, struct key_part *part,
                                     struct hf_error *error)
{
    while (text->size > 0 && text->data[0] == ':') {
        struct view word;
        *text = view_from(*text, 1);
        if (!take_word(text, to, &word))
            return refuse_escape(error);
        if (view_equal(word, VIEW("number")) && !part->is_number && !part->is_descending)
            part->is_number = true;
        else if (view_equal(word, VIEW("desc")) && !part->is_descending)
            part->is_descending = true;
        else
            return error_set(error, HF_INVALID,
                             "a key field can be followed by :number, :desc or :number:desc, "
                             "not by ':%.*s'; if the colon belongs to the name, write a "
                             "backslash before it",
                             VIEW_ARGS(view_first(word, 40)));
    }
    return HF_OK;
}

static bool is_same_field(const struct field *a, const struct field *b)
{
    return a->number == b->number && (a->number > 0 || view_equal(a->name, b->name));
}

enum hf_status key_parse(struct view text, bool by_name, char space[KEY_TEXT_MAX],
                         struct merge_key *ret_key, struct hf_error *error)
{
    struct merge_key key = { .count = 0 };
    bool more = true;
    if (text.size > KEY_TEXT_MAX)
        return error_set(error, HF_INVALID, "a key must not be longer than %d bytes",
                         KEY_TEXT_MAX);
    while (more) {
        struct view name;
        if (key.count == KEY_PARTS_MAX)
            return error_set(error, HF_INVALID, "a key can have at most %d fields",
                             KEY_PARTS_MAX);
        struct key_part *part = &key.parts[key.count];
        if (!take_word(&text, &space, &name))
            return refuse_escape(error);
        enum hf_status status = field_parse(name, by_name, &part->field, error);
        if (status == HF_OK)
            status = take_key_order(&text, &space, part, error);
        if (status != HF_OK)
            return status;
        for (size_t i = 0; i < key.count; i++)
            if (is_same_field(&key.parts[i].field, &part->field))
                return error_set(error, HF_INVALID, "the key has the field '%.*s' twice",
                                 VIEW_ARGS(view_first(name, 60)));
        key.count++;
        more = text.size > 0;
        if (more)
            text = view_from(text, 1); /* the comma */
    }
    key.is_encoded = key.count > 1 || key.parts[0].is_number || key.parts[0].is_descending;
    *ret_key = key;
    return HF_OK;
}

enum hf_status key_parse_name(struct view text, char space[KEY_TEXT_MAX], struct view *ret_name,
                              struct hf_error *error)
{
    struct merge_key key;
    enum hf_status status = key_parse(text, /* by_name */ true, space, &key, error);
    if (status != HF_OK)
        return status;
    if (key.is_encoded)
        return error_set(error, HF_INVALID,
                         "the key must be one column here, without :number and :desc");
    *ret_name = key.parts[0].field.name;
    return HF_OK;
}

bool key_append_name(struct buffer *text, struct view name)
{
    for (size_t i = 0; i < name.size; i++) {
        if (is_special(name.data[i]))
            buffer_append_byte(text, '\\');
        buffer_append_byte(text, name.data[i]);
    }
    return !text->failed;
}

/* ---- Encoding ------------------------------------------------------------------------ */

static void complement(struct buffer *to, size_t from)
{
    for (size_t i = from; i < to->size; i++)
        to->data[i] = (char)~to->data[i];
}

static void append_key_text(struct buffer *to, struct view value)
{
    const char *zero;
    while (value.size > 0 && (zero = memchr(value.data, 0, value.size)) != NULL) {
        size_t size = (size_t)(zero - value.data) + 1;
        buffer_append(to, view_first(value, size));
        buffer_append_byte(to, (char)0xFF);
        value = view_from(value, size);
    }
    buffer_append(to, value);
    buffer_append(to, (struct view){ "\0\0", 2 });
}

/* Unlike JSON, csv and usv may have a plus sign or zeros before a number. */
static bool parse_number(struct view text, struct decimal *ret_decimal)
{
    bool has_sign = text.size > 0 && (text.data[0] == '-' || text.data[0] == '+');
    bool is_negative = has_sign && text.data[0] == '-';
    text = view_from(text, has_sign);
    while (text.size > 1 && text.data[0] == '0' && text.data[1] >= '0' && text.data[1] <= '9')
        text = view_from(text, 1);
    if (text.size == 0 || text.data[0] == '-' || !decimal_parse(text, ret_decimal))
        return false;
    if (is_negative)
        ret_decimal->sign = -ret_decimal->sign;
    return true;
}

bool key_append(struct buffer *to, const struct key_part *part, struct view value)
{
    size_t start = to->size;
    struct decimal decimal;
    if (!part->is_number)
        append_key_text(to, value);
    else if (parse_number(value, &decimal))
        decimal_bytes(to, &decimal);
    else
        return false;
    if (part->is_descending)
        complement(to, start);
    return true;
}
