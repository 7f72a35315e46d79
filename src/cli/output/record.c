/* SPDX-License-Identifier: Apache-2.0 */
/* record.c: prints records as JSON and as human-readable text, from the same tables of fields. */
#include "cli/output/record.h"

#include "cli/lock/lock.h"

#include <inttypes.h>

/* ---- Values -------------------------------------------------------------------------- */

static int64_t number_at(const struct field *field, const void *value)
{
    const char *at = (const char *)value + field->offset;
    uint64_t wide;
    uint32_t half;
    bool flag;
    switch (field->size) {
    case sizeof wide: memcpy(&wide, at, sizeof wide); return (int64_t)wide;
    case sizeof half: memcpy(&half, at, sizeof half); return half;
    default: memcpy(&flag, at, sizeof flag); return flag;
    }
}

static const void *pointer_at(size_t offset, const void *value)
{
    const void *pointer;
    memcpy(&pointer, (const char *)value + offset, sizeof pointer);
    return pointer;
}

static size_t count_at(const struct field *field, const void *value)
{
    size_t count;
    memcpy(&count, (const char *)value + field->count, sizeof count);
    return count;
}

/* The struct of a record that is part of another record; NULL if it is absent. */
static const void *part_at(const struct field *field, const void *value)
{
    return field->pointed ? pointer_at(field->offset, value)
                          : (const char *)value + field->offset;
}

/* The text of a field; data NULL if the pointer is NULL. */
static struct view text_at(const struct field *field, const void *value)
{
    struct view text;
    const char *data = (const char *)value + field->offset;
    if (field->kind == FIELD_NAME)
        return view_of(field->name_of((unsigned)number_at(field, value)));
    if (field->store == STORED_VIEW) {
        memcpy(&text, data, sizeof text);
        return text;
    }
    if (field->store == STORED_POINTER)
        data = pointer_at(field->offset, value);
    if (field->count)
        return (struct view){ data ? data : "", count_at(field, value) };
    return data ? view_of(data) : (struct view){ NULL, 0 };
}

static const char *const *texts_at(const struct field *field, const void *value)
{
    return pointer_at(field->offset, value);
}

static bool is_number(const struct field *field)
{
    return field->kind >= FIELD_BOOL && field->kind <= FIELD_CRC32C;
}

/* ---- Finding fields ------------------------------------------------------------------ */

/* A field in its record, which may be part of another record. */
struct place {
    const struct field *record;
    const struct field *field;
    const void *value; /* the struct; NULL: the part is absent */
};

static bool is_shown(struct place place);

/* Finds the field of this name, including in parts. "totals.rows_in" is a field inside `totals`. */
static bool find_field(const struct field *record, const void *value, struct view name,
                       struct place *ret_place)
{
    for (const struct field *field = record; field->name; field++) {
        struct place place = { record, field, value };
        struct view start = view_of(field->name);
        bool inside = field->kind == FIELD_OBJECT && view_starts_with(name, start) &&
                      name.size > start.size && name.data[start.size] == '.';
        if (field->kind == FIELD_PART || inside) {
            const void *part = is_shown(place) ? part_at(field, value) : NULL;
            struct view rest = view_from(name, inside ? start.size + 1 : 0);
            if (find_field(field->of, part, rest, ret_place))
                return true;
        } else if (view_equal(start, name)) {
            *ret_place = place;
            return true;
        }
    }
    return false;
}

/* Whether the value is neither zero nor empty. */
static bool is_filled(struct place place)
{
    const struct field *field = place.field;
    if (is_number(field))
        return number_at(field, place.value) > 0;
    if (field->kind == FIELD_TEXTS)
        return count_at(field, place.value) > 0;
    if (field->kind == FIELD_LIST)
        return ((const struct record_list *)part_at(field, place.value))->count > 0;
    if (field->kind == FIELD_OBJECT || field->kind == FIELD_PART)
        return part_at(field, place.value) != NULL;
    if (field->kind == FIELD_HINT && field->append) {
        struct buffer hint = BUFFER_INIT(SIZE_MAX);
        field->append(&hint, place.value);
        bool filled = hint.size > 0;
        buffer_release(&hint);
        return filled;
    }
    return field->kind == FIELD_AGO || text_at(field, place.value).size > 0;
}

static bool has_something(const struct field *record, const void *value, const char *name)
{
    struct place place;
    return find_field(record, value, view_of(name), &place) && is_shown(place) &&
           is_filled(place);
}

/* Whether the field is printed at all. */
static bool is_shown(struct place place)
{
    const struct field *field = place.field;
    bool not = field->needs && field->needs[0] == '!';
    if (!place.value)
        return false;
    if (field->needs && has_something(place.record, place.value, field->needs + not ) == not )
        return false;
    return !field->optional || is_filled(place);
}

/* ---- JSON ---------------------------------------------------------------------------- */

static void append_field(struct buffer *to, bool raw, const struct field *field,
                         const void *value);

static void add_value(json_t **object, const struct field *field, const void *value)
{
    const char *name = field->name;
    const struct record_list *list = part_at(field, value);
    struct buffer text = BUFFER_INIT(SIZE_MAX);
    json_t *array;
    switch (field->kind) {
    case FIELD_HINT:
    case FIELD_AGO:
    case FIELD_PART: break;
    case FIELD_TEXT:
        if (text_at(field, value).data && text_at(field, value).size == 0)
            json_add(object, name, json_string(""));
        else
            json_add_words(object, name, text_at(field, value));
        break;
    case FIELD_NAME:
    case FIELD_WORDS: json_add_words(object, name, text_at(field, value)); break;
    case FIELD_KEY:
        if (text_at(field, value).data)
            json_add_key(object, name, text_at(field, value));
        else
            json_add(object, name, json_null());
        break;
    case FIELD_JSON: json_add(object, name, json_raw(text_at(field, value))); break;
    case FIELD_BOOL: json_add(object, name, json_boolean(number_at(field, value))); break;
    case FIELD_NOT: json_add(object, name, json_boolean(!number_at(field, value))); break;
    case FIELD_COUNT:
    case FIELD_BYTES:
    case FIELD_SPAN:
    case FIELD_LENGTH: json_add(object, name, json_integer(number_at(field, value))); break;
    case FIELD_MICROS:
        json_add(object, name, json_integer(number_at(field, value) / 1000));
        break;
    case FIELD_FRACTION:
        json_add(object, name, json_real((double)number_at(field, value) / 1000));
        break;
    case FIELD_TIME:
    case FIELD_CRC32C: /* the same text as for people */
        append_field(&text, /* raw */ false, field, value);
        json_add_words(object, name, buffer_view(&text));
        buffer_release(&text);
        break;
    case FIELD_TEXTS:
        array = json_array();
        for (size_t i = 0; i < count_at(field, value); i++)
            json_push(&array, json_string(texts_at(field, value)[i]));
        json_add(object, name, array);
        break;
    case FIELD_OBJECT:
        json_add(object, name, record_json(field->of, part_at(field, value)));
        break;
    case FIELD_LIST:
        json_add(object, name, list->count > 0 ? json_incref(list->items) : json_array());
        break;
    }
}

static void add_fields(json_t **object, const struct field *record, const void *value)
{
    for (const struct field *field = record; field->name; field++) {
        if (field->hidden || !is_shown((struct place){ record, field, value }))
            continue;
        if (field->null_unless && !has_something(record, value, field->null_unless))
            json_add(object, field->name, json_null());
        else if (field->kind == FIELD_PART)
            add_fields(object, field->of, part_at(field, value));
        else
            add_value(object, field, value);
    }
}

json_t *record_json(const struct field *record, const void *value)
{
    json_t *object = json_object();
    add_fields(&object, record, value);
    return object;
}

/* ---- Texts --------------------------------------------------------------------------- */

/* Appends a sentence, reworded for users of the program (own_words). */
static void append_sentence(struct buffer *to, struct view words)
{
    struct buffer space = BUFFER_INIT(8 * KEY_BYTES_MAX);
    escape_append(to, own_words(words, &space));
    buffer_release(&space);
}

static void append_field(struct buffer *to, bool raw, const struct field *field,
                         const void *value)
{
    char text[AGO_TEXT_MAX];
    struct buffer hint = BUFFER_INIT(SIZE_MAX);
    int64_t number = is_number(field) || field->kind == FIELD_AGO ? number_at(field, value) : 0;
    switch (field->kind) {
    case FIELD_BOOL:
    case FIELD_NOT:
    case FIELD_OBJECT:
    case FIELD_PART: break;
    case FIELD_KEY:
        if (raw)
            buffer_append(to, text_at(field, value));
        else
            escape_append(to, text_at(field, value));
        break;
    case FIELD_HINT:
        if (field->append)
            field->append(&hint, value);
        append_sentence(to, field->append ? buffer_view(&hint) : text_at(field, value));
        to->failed = to->failed || hint.failed;
        buffer_release(&hint);
        break;
    case FIELD_TEXT:
    case FIELD_WORDS: append_sentence(to, text_at(field, value)); break;
    case FIELD_NAME:
    case FIELD_JSON: escape_append(to, text_at(field, value)); break;
    case FIELD_COUNT: buffer_append_i64(to, number); break;
    case FIELD_BYTES: buffer_append(to, view_of(size_text((uint64_t)number, text))); break;
    case FIELD_SPAN: buffer_append(to, view_of(brief_text(SPAN_MS(number), text))); break;
    case FIELD_LENGTH: buffer_append(to, view_of(span_text(SPAN_MS(number), text))); break;
    case FIELD_MICROS: buffer_append(to, view_of(brief_text(SPAN_US(number), text))); break;
    case FIELD_FRACTION: buffer_append(to, view_of(span_text(SPAN_US(number), text))); break;
    case FIELD_AGO: buffer_append(to, view_of(ago_text(SPAN_MS(-number), text))); break;
    case FIELD_TIME:
        buffer_append(to, view_of(time_text((struct wall_time){ number * 1000 }, text)));
        break;
    case FIELD_CRC32C: buffer_print(to, "%08" PRIx32, (uint32_t)number); break;
    case FIELD_TEXTS:
        for (size_t i = 0; i < count_at(field, value); i++) {
            buffer_append(to, i > 0 ? VIEW(", ") : VIEW(""));
            escape_append(to, view_of(texts_at(field, value)[i]));
        }
        break;
    case FIELD_LIST:
        buffer_append(to,
                      buffer_view(&((const struct record_list *)part_at(field, value))->lines));
        break;
    }
}

/* Appends "chunk", "chunks" or "entries". */
static void append_noun(struct buffer *to, struct view noun, bool many)
{
    bool in_y = view_ends_with(noun, VIEW("ry")) || view_ends_with(noun, VIEW("dy"));
    buffer_append_byte(to, ' ');
    buffer_append(to, view_first(noun, many && in_y ? noun.size - 1 : noun.size));
    if (many)
        buffer_append(to, in_y ? VIEW("ies") : VIEW("s"));
}

/* The text that is being expanded. */
struct expansion {
    struct buffer *to;
    bool raw;
    const struct field *record;
    const void *value;
    const char *at; /* the rest of the text */
};

/* Whether all fields of a piece of text are set, and whether all its conditions are met. */
struct outcome {
    bool fields, conditions, has_conditions;
};

/* Pads the bytes appended since `start` with spaces, on the left for '>'. */
static void fill_up(struct buffer *to, size_t start, char side, struct view columns)
{
    uint64_t wanted = 0;
    parse_u64(columns, 255, &wanted, /* error */ NULL);
    size_t size = to->size - start, used = text_width(view_from(buffer_view(to), start));
    size_t blanks = wanted > used ? wanted - used : 0;
    for (size_t i = 0; i < blanks; i++)
        buffer_append_byte(to, ' ');
    if (side == '>' && !to->failed && blanks > 0) {
        memmove(to->data + start + blanks, to->data + start, size);
        memset(to->data + start, ' ', blanks);
    }
}

/* Expands {name}, {name noun}, {name:one/many}, {name<columns} or {name?}. */
static void expand_name(struct expansion *e, struct outcome *outcome)
{
    struct view rest = view_of(e->at + 1), how = view_cut(&rest, '}');
    size_t size = strcspn(how.data, " :<>?}"), start = e->to->size;
    struct view name = view_first(how, size);
    struct place place;
    char sign = how.data[size];
    how = view_from(how, size + 1);
    e->at = rest.data;
    if (!find_field(e->record, e->value, name, &place)) {
        buffer_print(e->to, "{%.*s}", VIEW_ARGS(name)); /* a mistake in the text */
        return;
    }
    bool there = is_shown(place), filled = there && is_filled(place);
    if (sign == '?') {
        outcome->has_conditions = true;
        outcome->conditions = outcome->conditions && filled;
        return;
    }
    if (sign == ':') {
        struct view one = view_cut(&how, '/');
        buffer_append(e->to, there && number_at(place.field, place.value) == 1 ? one : how);
        return;
    }
    outcome->fields = outcome->fields && filled;
    if (there)
        append_field(e->to, e->raw, place.field, place.value);
    if (there && sign == ' ')
        append_noun(e->to, how, number_at(place.field, place.value) != 1);
    else if (sign == '<' || sign == '>')
        fill_up(e->to, start, sign, how);
}

static void expand_choice(struct expansion *e);

/* Expands up to ], | or the end of the text. Returns whether the piece is to be shown. */
static bool expand(struct expansion *e)
{
    struct outcome outcome = { .fields = true, .conditions = true };
    while (e->at[0] && e->at[0] != ']' && e->at[0] != '|') {
        size_t plain = strcspn(e->at, "{[]|");
        buffer_append(e->to, (struct view){ e->at, plain });
        e->at += plain;
        if (e->at[0] == '{')
            expand_name(e, &outcome);
        else if (e->at[0] == '[')
            expand_choice(e);
    }
    return outcome.has_conditions ? outcome.conditions : outcome.fields;
}

/* Expands [some|else]. */
static void expand_choice(struct expansion *e)
{
    size_t start = e->to->size;
    e->at++;
    if (e->at[0] == ',' && view_ends_with(buffer_view(e->to), VIEW(":")))
        e->at++;
    bool shown = expand(e);
    if (!shown)
        e->to->size = start;
    start = e->to->size;
    if (e->at[0] == '|') {
        e->at++;
        expand(e);
        if (shown)
            e->to->size = start;
    }
    e->at += e->at[0] == ']';
}

void record_append(struct buffer *to, bool raw, const struct field *record, const void *value,
                   const char *text)
{
    struct expansion expansion = { to, raw, record, value, text };
    expand(&expansion);
}

void record_show(struct cli *cli, const struct field *record, const void *value,
                 const char *text)
{
    struct output *out = &cli->out;
    struct buffer line = BUFFER_INIT(SIZE_MAX);
    if (cli->json)
        output_json(out, record_json(record, value));
    else if (text)
        record_append(&line, !out->terminal, record, value, text);
    out->pending.failed = out->pending.failed || line.failed;
    output_bytes(out, buffer_view(&line));
    buffer_release(&line);
}

void record_tell(struct cli *cli, const struct field *record, const void *value,
                 const char *text)
{
    record_show(cli, record, value, cli->quiet ? NULL : text);
}

/* ---- Lists --------------------------------------------------------------------------- */

struct buffer *record_list_line(struct record_list *list)
{
    list->count++;
    list->lines.max = SIZE_MAX;
    return &list->lines;
}

void record_list_push(struct record_list *list, json_t *item)
{
    if (list->count++ == 0)
        list->items = json_array();
    json_push(&list->items, item);
}

void record_list_add(struct cli *cli, struct record_list *list, const struct field *record,
                     const void *value, const char *text)
{
    if (cli->json)
        record_list_push(list, record_json(record, value));
    else
        record_append(record_list_line(list), !cli->out.terminal, record, value, text);
}

void record_list_release(struct record_list *list)
{
    json_decref(list->items);
    buffer_release(&list->lines);
}
