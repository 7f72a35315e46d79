/* SPDX-License-Identifier: Apache-2.0 */
/* ties.c: compares csv records by the values of their columns, in the order of the columns' names.
 * Both records have their columns in the same places, so one walk over both finds, among the
 * columns that differ, the one whose name comes first. Nothing is allocated for a comparison. */
#include "merge/ties.h"

#include "base/check.h"
#include "merge/csv.h"
#include "merge/layout.h"

#include <stdlib.h>

/* ---- The order of the columns -------------------------------------------------------- */

struct named_column {
    struct view name; /* without quotes */
    uint32_t place;
};

/* A header may have a name twice, if all inputs have the same header. */
static int compare_named_columns(const void *a, const void *b)
{
    const struct named_column *one = a, *other = b;
    int order = view_compare(one->name, other->name);
    return order ? order : one->place < other->place ? -1 : one->place > other->place;
}

/* The names of the columns, sorted; those with doubled quotes are copied to `space`. */
static bool sort_columns(const struct csv_field *fields, size_t count, struct buffer *space,
                         struct named_column *names)
{
    for (size_t i = 0; i < count; i++) {
        size_t start = space->size;
        names[i] = (struct named_column){ fields[i].value.text, (uint32_t)i };
        if (!fields[i].value.doubled)
            continue;
        if (!csv_append_value(space, &fields[i].value))
            return false;
        names[i].name = view_from(buffer_view(space), start);
    }
    qsort(names, count, sizeof *names, compare_named_columns);
    return true;
}

static enum hf_status set_ranks(struct ties *ties, const struct csv_field *fields, size_t count,
                                struct budget *budget, struct hf_error *error)
{
    if (!budget_take(budget, count * sizeof *ties->ranks))
        return error_set(error, HF_UNAVAILABLE,
                         "the memory setting is too small for the columns of these inputs");
    ties->budget = budget;
    ties->count = count;
    struct buffer space = BUFFER_INIT(HEADER_BYTES_MAX);
    struct named_column *names = malloc(count * sizeof *names);
    ties->ranks = malloc(count * sizeof *ties->ranks);
    /* All of the space is reserved first, because names point into it. */
    bool good = names && ties->ranks && buffer_reserve(&space, HEADER_BYTES_MAX) &&
                sort_columns(fields, count, &space, names);
    for (size_t i = 0; good && i < count; i++)
        ties->ranks[names[i].place] = (uint32_t)i;
    free(names);
    buffer_release(&space);
    return good ? HF_OK : error_no_memory(error);
}

#define FIELDS_BYTES_MAX (LAYOUT_NAMES_MAX * sizeof(struct csv_field))

enum hf_status ties_set_header(struct ties *ties, struct view header, char separator,
                               struct budget *budget, struct hf_error *error)
{
    struct buffer copy = BUFFER_INIT(HEADER_BYTES_MAX + BLOCK_SLACK);
    struct buffer fields = BUFFER_INIT(FIELDS_BYTES_MAX);
    size_t count = 0;
    enum hf_status status = HF_OK;
    ties_release(ties);
    ties->separator = separator;
    if (header.size > HEADER_BYTES_MAX)
        return HF_OK;
    if (!buffer_append(&copy, header) || !buffer_reserve(&copy, BLOCK_SLACK))
        status = error_no_memory(error);
    else if (csv_split(buffer_view(&copy), separator, SIZE_MAX, &fields, &count))
        status = set_ranks(ties, (const struct csv_field *)(const void *)fields.data, count,
                           budget, error);
    else if (fields.size < FIELDS_BYTES_MAX) /* otherwise it has too many columns */
        status = error_no_memory(error);
    if (status != HF_OK)
        ties_release(ties);
    buffer_release(&fields);
    buffer_release(&copy);
    return status;
}

void ties_release(struct ties *ties)
{
    free(ties->ranks);
    if (ties->budget)
        budget_give(ties->budget, ties->count * sizeof *ties->ranks);
    *ties = (struct ties){ .ranks = NULL };
}

/* ---- Two records --------------------------------------------------------------------- */

/* The next byte of a value, in which a doubled quote stands for one. -1: the end. */
static int next_byte(struct view *text, bool doubled)
{
    if (text->size == 0)
        return -1;
    unsigned char byte = (unsigned char)text->data[0];
    *text = view_from(*text, doubled && byte == '"' ? 2 : 1);
    return byte;
}

static int compare_values(const struct csv_value *a, const struct csv_value *b)
{
    struct view rest_a = a->text, rest_b = b->text;
    int byte_a, byte_b;
    if (!a->doubled && !b->doubled)
        return view_compare(a->text, b->text);
    do {
        byte_a = next_byte(&rest_a, a->doubled);
        byte_b = next_byte(&rest_b, b->doubled);
    } while (byte_a == byte_b && byte_a >= 0);
    return byte_a - byte_b;
}

/* Whether a field has quotes, or gets them when it is moved (csv_append_raw). */
static bool counts_as_quoted(struct view raw)
{
    return raw.size > 0 && (raw.data[0] == '"' || raw.data[raw.size - 1] == '\r');
}

/* Of the columns that differ so far, the one whose name comes first. */
struct first_difference {
    uint32_t rank;
    int order;
};

static void note_difference(struct first_difference *first, uint32_t rank, int order)
{
    if (order != 0 && rank <= first->rank)
        *first = (struct first_difference){ rank, order };
}

int ties_compare_columns(const struct ties *ties, struct view a, struct view b)
{
    struct first_difference values = { UINT32_MAX, 0 }, quotes = values;
    struct view whole_a = a, whole_b = b;
    bool more_a = true, more_b = true;
    for (size_t i = 0; more_a && more_b; i++) {
        struct csv_field field_a, field_b;
        check(i < ties->count);
        bool good = csv_take(&a, ties->separator, &field_a, &more_a) &&
                    csv_take(&b, ties->separator, &field_b, &more_b);
        check(good && more_a == more_b); /* a record with other fields was rejected */
        note_difference(&values, ties->ranks[i],
                        compare_values(&field_a.value, &field_b.value));
        note_difference(&quotes, ties->ranks[i],
                        counts_as_quoted(field_a.raw) - counts_as_quoted(field_b.raw));
    }
    if (values.order != 0)
        return values.order;
    return quotes.order != 0 ? quotes.order : view_compare(whole_a, whole_b);
}
