/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c: the union of the columns of csv and tsv files. A header that cannot be merged with
 * others is refused here, with its reason, before a row is read. */
#include "merge/layout.h"

#include "base/hash.h"
#include "merge/csv.h"

#include <stdlib.h>

/* A column of the output. */
struct layout_name {
    struct view value; /* without quotes */
    struct view raw;   /* as in the header in which it appears first */
    size_t last;       /* the number of the last header that has it, from 1 */
};

#define SLOTS (1U << 18)
static_assert(LAYOUT_NAMES_MAX < SLOTS / 2, "a search must end soon");

void layouts_init(struct layouts *layouts, struct budget *budget)
{
    *layouts =
        (struct layouts){ .arena = ARENA_INIT,
                          .budget = budget,
                          .names = BUFFER_INIT(LAYOUT_NAMES_MAX * sizeof(struct layout_name)),
                          .header = BUFFER_INIT(HEADER_BYTES_MAX) };
}

void layouts_release(struct layouts *layouts)
{
    arena_release(&layouts->arena);
    buffer_release(&layouts->names);
    buffer_release(&layouts->header);
    free(layouts->slots);
    if (layouts->budget)
        budget_give(layouts->budget, layouts->charged);
    layouts->charged = 0;
}

static enum hf_status charge_layout(struct layouts *layouts, size_t bytes,
                                    struct hf_error *error)
{
    if (!budget_take(layouts->budget, bytes))
        return error_set(error, HF_UNAVAILABLE,
                         "the memory setting is too small for the headers of these inputs");
    layouts->charged += bytes;
    return HF_OK;
}

/* ---- Columns ------------------------------------------------------------------------- */

static struct layout_name *names_of(const struct layouts *layouts)
{
    return (struct layout_name *)(void *)layouts->names.data;
}

static size_t name_count(const struct layouts *layouts)
{
    return layouts->names.size / sizeof(struct layout_name);
}

/* The place of a column in the output, which is added if it is new. */
static enum hf_status find_layout_column(struct layouts *layouts,
                                         const struct layout_name *name, uint32_t *ret_place,
                                         struct hf_error *error)
{
    uint32_t slot = (uint32_t)hash_xxh3(name->value) & (SLOTS - 1);
    for (; layouts->slots[slot]; slot = (slot + 1) & (SLOTS - 1)) {
        *ret_place = layouts->slots[slot] - 1;
        if (view_equal(names_of(layouts)[*ret_place].value, name->value))
            return HF_OK;
    }
    *ret_place = (uint32_t)name_count(layouts);
    if (*ret_place == LAYOUT_NAMES_MAX)
        return error_set(error, HF_INVALID,
                         "the inputs together have more than %d different columns",
                         LAYOUT_NAMES_MAX);
    if (!buffer_append(&layouts->names, (struct view){ (const char *)name, sizeof *name }))
        return error_no_memory(error);
    layouts->slots[slot] = *ret_place + 1;
    return HF_OK;
}

/* The name of a column without its quotes; it points into the header unless a quote is doubled. */
static bool column_name(struct layouts *layouts, const struct csv_field *field,
                        struct view *ret_name)
{
    *ret_name = field->value.text;
    if (!field->value.doubled)
        return true;
    struct buffer value = BUFFER_INIT(HEADER_BYTES_MAX);
    bool copied = csv_append_value(&value, &field->value);
    if (copied)
        *ret_name = arena_copy(&layouts->arena, buffer_view(&value));
    buffer_release(&value);
    return copied && ret_name->data;
}

static enum hf_status add_layout_columns(struct layouts *layouts, struct layout *layout,
                                         const struct csv_field *fields, size_t count,
                                         struct hf_error *error)
{
    for (size_t i = 0; i < count; i++) {
        struct layout_name name = { .raw = fields[i].raw };
        if (!column_name(layouts, &fields[i], &name.value))
            return error_no_memory(error);
        enum hf_status status = find_layout_column(layouts, &name, &layout->to[i], error);
        if (status != HF_OK)
            return status;
        struct layout_name *column = &names_of(layouts)[layout->to[i]];
        if (column->last == layouts->count + 1)
            return error_set(error, HF_INVALID,
                             "its header has the column '%.*s' twice, so its columns cannot be "
                             "told apart by name",
                             VIEW_ARGS(view_first(name.value, 60)));
        column->last = layouts->count + 1;
    }
    return HF_OK;
}

/* ---- Fields -------------------------------------------------------------------------- */

/* A field that is given by number must be the same column of the output in each file. */
static enum hf_status check_number(const struct layouts *layouts, const struct layout *layout,
                                   const struct field *asked, struct hf_error *error)
{
    size_t number = asked->number;
    if (number == 0 || number > layout->cutter.columns || layout->to[number - 1] == number - 1)
        return HF_OK;
    const struct layout_name *names = names_of(layouts);
    return error_set(
        error, HF_INVALID,
        "its field %zu is '%.*s', but '%.*s' in other files; a field that is given by number "
        "must have the same name in all of them",
        number, VIEW_ARGS(view_first(names[layout->to[number - 1]].value, 60)),
        VIEW_ARGS(view_first(names[number - 1].value, 60)));
}

static enum hf_status check_numbers(const struct layouts *layouts, const struct layout *layout,
                                    const struct cutter *asked, struct hf_error *error)
{
    enum hf_status status = check_number(layouts, layout, &asked->time, error);
    if (status == HF_OK)
        status = check_number(layouts, layout, &asked->deleted, error);
    for (size_t i = 0; i < asked->key.count && status == HF_OK; i++)
        status = check_number(layouts, layout, &asked->key.parts[i].field, error);
    return status;
}

/* ---- Headers ------------------------------------------------------------------------- */

static const struct layout *find_layout(const struct layouts *layouts, struct view header,
                                        uint64_t hash)
{
    for (size_t i = 0; i < layouts->count; i++)
        if (layouts->items[i]->hash == hash && view_equal(layouts->items[i]->header, header))
            return layouts->items[i];
    return NULL;
}

/* Copies the header, with slack after it, because it is parsed again. */
static bool copy_header(struct layouts *layouts, struct view header, struct layout *layout)
{
    char *copy = arena_take(&layouts->arena, header.size + BLOCK_SLACK);
    if (!copy)
        return false;
    memset(copy + header.size, 0, BLOCK_SLACK);
    memcpy(copy, header.data, header.size);
    layout->header = (struct view){ copy, header.size };
    return true;
}

static enum hf_status fill_layout(struct layouts *layouts, struct layout *layout,
                                  const struct cutter *like, struct hf_error *error)
{
    struct buffer fields = BUFFER_INIT((HEADER_BYTES_MAX + 1) * sizeof(struct csv_field));
    size_t count = 0;
    layout->cutter = *like;
    enum hf_status status = like->format->resolve(&layout->cutter, layout->header, error);
    if (status == HF_OK &&
        !csv_split(layout->header, like->separator, SIZE_MAX, &fields, &count))
        status = error_no_memory(error);
    if (status == HF_OK)
        status =
            charge_layout(layouts, count * (2 * sizeof(uint32_t) + sizeof(struct layout_name)),
                          error);
    if (status == HF_OK) {
        layout->to = arena_take(&layouts->arena, count * sizeof *layout->to);
        status = layout->to ? HF_OK : error_no_memory(error);
    }
    if (status == HF_OK)
        status = add_layout_columns(layouts, layout,
                                    (const struct csv_field *)(const void *)fields.data, count,
                                    error);
    if (status == HF_OK)
        status = check_numbers(layouts, layout, like, error);
    buffer_release(&fields);
    return status;
}

enum hf_status layouts_add(struct layouts *layouts, const struct cutter *like,
                           struct view header, const struct layout **ret_layout,
                           struct hf_error *error)
{
    uint64_t hash = hash_xxh3(header);
    enum hf_status status = HF_OK;
    *ret_layout = find_layout(layouts, header, hash);
    if (*ret_layout)
        return HF_OK;
    if (layouts->count == LAYOUTS_MAX)
        return error_set(error, HF_INVALID, "the inputs have more than %d different headers",
                         LAYOUTS_MAX);
    if (!layouts->slots) {
        status = charge_layout(layouts, SLOTS * sizeof *layouts->slots, error);
        layouts->slots = status == HF_OK ? calloc(SLOTS, sizeof *layouts->slots) : NULL;
        if (status == HF_OK && !layouts->slots)
            status = error_no_memory(error);
    }
    struct layout *layout = NULL;
    if (status == HF_OK)
        status = charge_layout(layouts, header.size + sizeof *layout, error);
    if (status != HF_OK)
        return status;
    layout = arena_take(&layouts->arena, sizeof *layout);
    if (!layout)
        return error_no_memory(error);
    *layout = (struct layout){ .hash = hash };
    status = copy_header(layouts, header, layout) ? fill_layout(layouts, layout, like, error)
                                                  : error_no_memory(error);
    if (status != HF_OK)
        return status;
    layouts->items[layouts->count++] = layout;
    *ret_layout = layout;
    return HF_OK;
}

/* ---- The output ---------------------------------------------------------------------- */

static enum hf_status fill_map(struct layouts *layouts, struct layout *layout,
                               struct hf_error *error)
{
    size_t count = name_count(layouts), columns = layout->cutter.columns;
    bool in_place = true;
    for (size_t i = 0; i < columns; i++)
        in_place = in_place && layout->to[i] == i;
    if (in_place && columns == count)
        return HF_OK; /* its records are written unchanged */
    enum hf_status status = charge_layout(layouts, count * sizeof(uint32_t), error);
    if (status != HF_OK)
        return status;
    uint32_t *from = arena_take(&layouts->arena, count * sizeof *from);
    if (!from)
        return error_no_memory(error);
    memset(from, 0, count * sizeof *from);
    for (size_t i = 0; i < columns; i++)
        from[layout->to[i]] = (uint32_t)i + 1;
    layout->map = (struct column_map){ .count = count,
                                       .from = from,
                                       .empty_after = in_place ? count - columns : 0 };
    layout->cutter.map = &layout->map;
    return HF_OK;
}

enum hf_status layouts_end(struct layouts *layouts, struct hf_error *error)
{
    struct buffer *header = &layouts->header;
    size_t count = name_count(layouts);
    buffer_clear(header);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buffer_append_byte(header, layouts->items[0]->cutter.separator);
        csv_append_raw(header, names_of(layouts)[i].raw);
    }
    if (header->failed && header->size < HEADER_BYTES_MAX / 2)
        return error_no_memory(error);
    if (header->failed)
        return error_set(error, HF_INVALID,
                         "the header with the columns of all inputs is longer than 1 MiB");
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < layouts->count && status == HF_OK; i++)
        status = fill_map(layouts, layouts->items[i], error);
    return status;
}
