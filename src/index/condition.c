/* SPDX-License-Identifier: Apache-2.0 */
/* condition.c: parses and evaluates conditions. Fields are compared as they are written, with their
 * escapes, so that no memory is needed for a record. */
#include "index/condition.h"

#define ESCAPE '\x1b'

/* ---- Parsing ------------------------------------------------------------------------- */

struct operator_text {
    const char *text;
    unsigned accepted; /* 0: a pattern */
};

/* An operator that starts with another one comes first. */
static const struct operator_text operators[] = {
    { "!=", FIELD_LESS | FIELD_GREATER },
    { "<=", FIELD_LESS | FIELD_EQUAL },
    { ">=", FIELD_GREATER | FIELD_EQUAL },
    { "=", FIELD_EQUAL },
    { "<", FIELD_LESS },
    { ">", FIELD_GREATER },
    { "~", 0 },
};

static const struct operator_text *find_operator(struct view text)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (view_starts_with(text, view_of(operators[i].text)))
            return &operators[i];
    return NULL;
}

static struct view skip_blanks(struct view text)
{
    while (text.size > 0 && text.data[0] == ' ')
        text = view_from(text, 1);
    return text;
}

/* Splits the text. Field names contain neither blanks nor operators. */
static enum hf_status split_condition(struct view text, struct view *ret_field,
                                      const struct operator_text **ret_operator,
                                      struct view *ret_value, struct hf_error *error)
{
    size_t end = 0;
    while (end < text.size && !memchr(" =!<>~", text.data[end], 6))
        end++;
    struct view behind = view_from(text, end), rest = skip_blanks(behind);
    const struct operator_text *op = find_operator(rest);
    if (!op || end == 0)
        return error_set(error, HF_INVALID,
                         "expected FIELD OP VALUE with one of = != < <= > >= ~, not '%.*s'",
                         VIEW_ARGS(view_first(text, 60)));
    bool blanks = rest.size < behind.size;
    rest = view_from(rest, strlen(op->text));
    /* An operator of another language (==, <>, =>, =~) would otherwise be ours and a part of the
     * value, and the answer would be wrong. */
    if (rest.size > 0 && memchr("=<>~", rest.data[0], 4))
        return error_set(error, HF_INVALID,
                         "unknown operator '%s%c' in '%.*s': expected one of = != < <= > >= ~; "
                         "if the value starts with %c, put blanks around the operator",
                         op->text, rest.data[0], VIEW_ARGS(view_first(text, 60)), rest.data[0]);
    *ret_field = view_first(text, end);
    *ret_operator = op;
    *ret_value = blanks ? skip_blanks(rest) : rest;
    return HF_OK;
}

static enum hf_status check_pattern(struct view pattern, struct hf_error *error)
{
    if (pattern.size > FIELD_PATTERN_MAX)
        return error_set(error, HF_INVALID, "a pattern can have at most %d bytes, not %zu",
                         FIELD_PATTERN_MAX, pattern.size);
    for (size_t i = 0; i < pattern.size; i++)
        if (pattern.data[i] == '\\' && ++i == pattern.size)
            return error_set(error, HF_INVALID, "the pattern ends with \\; write \\\\ for one");
    return HF_OK;
}

enum hf_status condition_parse(const struct schema *schema, struct view text,
                               struct condition_on_field *ret_condition, struct hf_error *error)
{
    struct condition_on_field condition = { .kind = FIELD_ORDER };
    const struct operator_text *op = NULL;
    struct view field;
    enum hf_status status = split_condition(text, &field, &op, &condition.value, error);
    if (status == HF_OK)
        status = schema_pick(schema, field, &condition.field, error);
    if (status != HF_OK)
        return status;
    condition.accepted = op->accepted;
    if (op->accepted == 0) {
        condition.kind = FIELD_PATTERN;
        status = check_pattern(condition.value, error);
    } else if (condition.field == schema->time) {
        condition.kind = FIELD_TIME;
        if (!schema_parse_time(schema, condition.value, &condition.time))
            status =
                error_set(error, HF_INVALID,
                          "'%.*s' is not a time; expected RFC 3339%s, or a number since 1970",
                          VIEW_ARGS(view_first(condition.value, 40)),
                          schema->has_zone ? "" : " with a zone");
    } else {
        condition.is_number = decimal_parse(condition.value, &condition.number);
    }
    if (status == HF_OK)
        *ret_condition = condition;
    return status;
}

/* ---- Patterns ------------------------------------------------------------------------ */

/* Takes the next byte of a field, without its escape. */
static char take_field_byte(struct view written, size_t *at)
{
    char byte = written.data[(*at)++];
    if (byte == ESCAPE && *at < written.size)
        byte = (char)(written.data[(*at)++] ^ 0x40);
    return byte;
}

static bool continues_character(struct view written, size_t at)
{
    return at < written.size && ((unsigned char)written.data[at] & 0xc0) == 0x80;
}

/* Matches one step of the pattern, which is not *, with one character, and moves behind both. */
static bool match_step(struct view pattern, size_t *at_pattern, struct view written, size_t *at)
{
    char step = pattern.data[(*at_pattern)++];
    if (step == '?') {
        take_field_byte(written, at);
        while (continues_character(written, *at))
            ++*at;
        return true;
    }
    if (step == '\\')
        step = pattern.data[(*at_pattern)++];
    return take_field_byte(written, at) == step;
}

/* If a step does not match, the last * takes one more byte. Earlier ones need not be tried
 * again. */
static bool field_matches(struct view written, struct view pattern)
{
    size_t step = 0, at = 0, star = 0, resume = 0;
    bool starred = false;
    while (at < written.size) {
        size_t next_step = step, next = at;
        if (step < pattern.size && pattern.data[step] == '*') {
            starred = true;
            star = ++step;
            resume = at;
        } else if (step < pattern.size && match_step(pattern, &next_step, written, &next)) {
            step = next_step;
            at = next;
        } else if (starred) {
            take_field_byte(written, &resume);
            step = star;
            at = resume;
        } else {
            return false;
        }
    }
    while (step < pattern.size && pattern.data[step] == '*')
        step++;
    return step == pattern.size;
}

/* ---- Evaluating ---------------------------------------------------------------------- */

struct view record_field(const struct record *record, size_t field)
{
    struct view rest = record->bytes, written = VIEW("");
    bool more = true;
    for (size_t i = 0; i <= field; i++)
        written = more ? field_cut(&rest, &more) : VIEW("");
    return written;
}

static bool is_accepted(const struct condition_on_field *condition, int order)
{
    unsigned result = order < 0 ? FIELD_LESS : order > 0 ? FIELD_GREATER : FIELD_EQUAL;
    return (condition->accepted & result) != 0;
}

bool condition_holds(const struct condition_on_field *condition, const struct record *record)
{
    struct decimal number;
    if (condition->kind == FIELD_TIME)
        return is_accepted(condition, instant_compare(record->time, condition->time));
    struct view written = record_field(record, condition->field);
    if (condition->kind == FIELD_IS)
        return field_is(written, condition->value) != condition->differs;
    if (condition->kind == FIELD_PATTERN)
        return field_matches(written, condition->value);
    if (condition->is_number && decimal_parse(written, &number))
        return is_accepted(condition, decimal_compare(&number, &condition->number));
    return is_accepted(condition, field_compare(written, condition->value));
}
