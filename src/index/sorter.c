/* SPDX-License-Identifier: Apache-2.0 */
/* sorter.c: sorts records by a text that is made of the field and the key, and that sorts by its
 * bytes. In a temporary file, a row is this text and the record, escaped as one field, so that any
 * number of rows can be sorted by the merge library as plain USV. */
#include "index/sorter.h"

#include "base/arena.h"
#include "base/decimal.h"
#include "base/limits.h"
#include "file/bytes.h"
#include "file/new_file.h"
#include "index/condition.h"
#include "merge/files.h"

#include <stdlib.h>
#include <unistd.h>

/* A row: the text of a field and of a key, and a record whose every byte may be escaped. */
#define ORDER_TEXT_MAX (2 * (SORT_BYTES_MAX + INDEX_KEY_BYTES_MAX) + 64)
#define ROW_BYTES_MAX  (2 * INDEX_RECORD_BYTES_MAX + ORDER_TEXT_MAX + 2)
#define READ_BYTES     (1 * MIB)

static_assert(ROW_BYTES_MAX <= SORT_MEMORY / 4, "the merge library can read the longest row");

struct sort_row {
    struct view order; /* the text by which rows are sorted */
    struct view bytes;
};

struct record_sorter {
    struct env *env;
    struct sort_order order;
    uint64_t limit; /* 0: none */
    struct arena arena;
    struct sort_row *rows;
    size_t count, capacity;
    uint64_t bytes; /* in memory */
    struct buffer field, text;
    bool sorted;
    uint64_t shown;
    size_t next; /* row in memory */
    /* The file with the rows that did not fit and, once sorted, with all rows. */
    int fd;
    uint64_t file_bytes, file_at;
    struct buffer window;
    struct view rest; /* of the window */
    struct buffer record;
};

enum hf_status sort_order_parse(const struct schema *schema, struct view text,
                                struct sort_order *ret_order, struct hf_error *error)
{
    struct sort_order order = { .field = 0 };
    struct view rest = text;
    bool more = view_find(rest, ':') < rest.size;
    enum hf_status status = schema_pick(schema, view_cut(&rest, ':'), &order.field, error);
    while (status == HF_OK && more) {
        more = view_find(rest, ':') < rest.size;
        struct view word = view_cut(&rest, ':');
        if (view_equal(word, VIEW("number")) && !order.by_number && !order.descending)
            order.by_number = true;
        else if (view_equal(word, VIEW("desc")) && !order.descending)
            order.descending = true;
        else
            status = error_set(error, HF_INVALID, "expected FIELD[:number][:desc], not '%.*s'",
                               VIEW_ARGS(view_first(text, 60)));
    }
    order.by_time = order.field == schema->time;
    if (status == HF_OK)
        *ret_order = order;
    return status;
}

struct record_sorter *record_sorter_new(struct env *env, struct sort_order order,
                                        uint64_t limit)
{
    struct record_sorter *sorter = calloc(1, sizeof *sorter);
    if (!sorter)
        return NULL;
    sorter->env = env;
    sorter->order = order;
    sorter->limit = limit;
    sorter->arena = ARENA_INIT;
    sorter->field = BUFFER_INIT(INDEX_RECORD_BYTES_MAX);
    sorter->text = BUFFER_INIT(ROW_BYTES_MAX);
    sorter->window = BUFFER_INIT(ROW_BYTES_MAX + READ_BYTES);
    sorter->record = BUFFER_INIT(INDEX_RECORD_BYTES_MAX);
    sorter->fd = -1;
    return sorter;
}

void record_sorter_free(struct record_sorter *sorter)
{
    if (!sorter)
        return;
    arena_release(&sorter->arena);
    free(sorter->rows);
    buffer_release(&sorter->field);
    buffer_release(&sorter->text);
    buffer_release(&sorter->window);
    buffer_release(&sorter->record);
    if (sorter->fd >= 0)
        close(sorter->fd);
    free(sorter);
}

/* ---- The order as text --------------------------------------------------------------- */

/* Appends bytes in hexadecimal and an end that is smaller than all digits. `turned`: in the
 * opposite order. */
static void append_ordered(struct buffer *to, struct view bytes, bool turned)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < bytes.size; i++) {
        unsigned char byte = (unsigned char)bytes.data[i] ^ (turned ? 0xff : 0);
        buffer_append_byte(to, digits[byte >> 4]);
        buffer_append_byte(to, digits[byte & 15]);
    }
    buffer_append_byte(to, turned ? '~' : '!');
}

/* Writes the text by which a record is sorted into sorter->text. */
static bool write_order(struct record_sorter *sorter, const struct record *record)
{
    const struct sort_order *order = &sorter->order;
    struct buffer *value = &sorter->field;
    struct view written = record_field(record, order->field);
    struct decimal number;
    char time[INSTANT_BYTES];
    buffer_clear(value);
    buffer_clear(&sorter->text);
    if (order->by_time) {
        instant_bytes(record->time, time);
        buffer_append(value, (struct view){ time, sizeof time });
    } else if (order->by_number && decimal_parse(written, &number)) {
        buffer_append_byte(value, 0);
        decimal_bytes(value, &number);
    } else {
        if (order->by_number)
            buffer_append_byte(value, 1);
        field_read(value, written);
    }
    append_ordered(&sorter->text, view_first(buffer_view(value), SORT_BYTES_MAX),
                   order->descending);
    append_ordered(&sorter->text, record->key, /* turned */ false);
    return !value->failed && !sorter->text.failed;
}

static int compare_sort_rows(const void *a, const void *b)
{
    const struct sort_row *left = a, *right = b;
    return view_compare(left->order, right->order);
}

/* ---- In memory ----------------------------------------------------------------------- */

static void sort_rows(struct record_sorter *sorter)
{
    if (sorter->count > 1)
        qsort(sorter->rows, sorter->count, sizeof *sorter->rows, compare_sort_rows);
}

static bool keep_row(struct record_sorter *sorter, struct view order, struct view bytes)
{
    if (sorter->count == sorter->capacity) {
        size_t capacity = sorter->capacity > 0 ? sorter->capacity * 2 : 256;
        struct sort_row *rows = realloc(sorter->rows, capacity * sizeof *rows);
        if (!rows)
            return false;
        sorter->rows = rows;
        sorter->capacity = capacity;
    }
    struct sort_row row = { .order = arena_copy(&sorter->arena, order),
                            .bytes = arena_copy(&sorter->arena, bytes) };
    if (!row.order.data || !row.bytes.data)
        return false;
    sorter->rows[sorter->count++] = row;
    sorter->bytes += row.order.size + row.bytes.size + 2 * sizeof row;
    return true;
}

/* Drops all rows after the limit, and moves the others to an arena of their own. */
static enum hf_status drop_beyond_limit(struct record_sorter *sorter, struct hf_error *error)
{
    struct arena old = sorter->arena;
    size_t count = sorter->count < sorter->limit ? sorter->count : (size_t)sorter->limit;
    bool kept = true;
    sort_rows(sorter);
    sorter->arena = ARENA_INIT;
    sorter->count = 0;
    sorter->bytes = 0;
    for (size_t i = 0; i < count && kept; i++)
        kept = keep_row(sorter, sorter->rows[i].order, sorter->rows[i].bytes);
    arena_release(&old);
    return kept ? HF_OK : error_no_memory(error);
}

/* ---- In a file ----------------------------------------------------------------------- */

static enum hf_status flush_window(struct record_sorter *sorter, struct hf_error *error)
{
    enum hf_status status =
        file_write_at(sorter->fd, buffer_view(&sorter->window), sorter->file_bytes, error);
    sorter->file_bytes += sorter->window.size;
    buffer_clear(&sorter->window);
    return status;
}

/* Moves the rows in memory to the file. */
static enum hf_status spill_rows(struct record_sorter *sorter, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    if (sorter->fd < 0)
        status = temporary_file(&sorter->fd, error);
    for (size_t i = 0; i < sorter->count && status == HF_OK; i++) {
        buffer_append(&sorter->window, sorter->rows[i].order);
        buffer_append_byte(&sorter->window, '\x1f');
        field_write(&sorter->window, sorter->rows[i].bytes);
        if (!buffer_append(&sorter->window, VIEW(RECORD_END)))
            return error_no_memory(error);
        if (sorter->window.size >= READ_BYTES)
            status = flush_window(sorter, error);
    }
    if (status == HF_OK)
        status = flush_window(sorter, error);
    arena_release(&sorter->arena);
    sorter->arena = ARENA_INIT;
    sorter->count = 0;
    sorter->bytes = 0;
    return status;
}

/* Replaces the file with a sorted one. */
static enum hf_status sort_file(struct record_sorter *sorter, struct hf_error *error)
{
    struct merge_options options = MERGE_OPTIONS;
    struct merge_result result;
    int sorted = -1;
    enum hf_status status = spill_rows(sorter, error);
    if (status == HF_OK)
        status = temporary_file(&sorted, error);
    if (status != HF_OK)
        return status;
    const struct hf_merge_file input = { .fd = sorter->fd }, output = { .fd = sorted };
    const struct merge_handles files = { .inputs = &input,
                                         .input_count = 1,
                                         .output = &output };
    options.key = VIEW("1");
    options.memory_bytes = SORT_MEMORY;
    options.record_bytes_max = ROW_BYTES_MAX;
    options.intermediate = true;
    status = merge_any_files(sorter->env, &options, &files, &result, error);
    close(sorter->fd);
    sorter->fd = sorted;
    sorter->file_bytes = result.bytes_out;
    return status;
}

/* Takes the next row of the sorted file. */
static enum hf_status read_sorted_row(struct record_sorter *sorter, struct view *ret_row,
                                      struct hf_error *error)
{
    while (view_find(sorter->rest, '\n') == sorter->rest.size) {
        struct buffer *window = &sorter->window;
        size_t kept = sorter->rest.size, got = 0;
        if (sorter->file_at == sorter->file_bytes)
            return HF_NOT_FOUND;
        if (kept > 0)
            memmove(window->data, sorter->rest.data, kept);
        window->size = kept;
        if (!buffer_reserve(window, READ_BYTES))
            return error_no_memory(error);
        enum hf_status status = file_read_at(sorter->fd, window->data + kept, READ_BYTES,
                                             sorter->file_at, &got, error);
        if (status != HF_OK)
            return status;
        if (got == 0)
            return error_set(error, HF_UNAVAILABLE, "a temporary file was truncated");
        window->size += got;
        sorter->file_at += got;
        sorter->rest = buffer_view(window);
    }
    *ret_row = view_cut(&sorter->rest, '\n');
    return HF_OK;
}

/* ---- Records ------------------------------------------------------------------------- */

enum hf_status record_sorter_add(struct record_sorter *sorter, const struct record *record,
                                 struct hf_error *error)
{
    enum hf_status status = HF_OK;
    if (!write_order(sorter, record) ||
        !keep_row(sorter, buffer_view(&sorter->text), record->bytes))
        return error_no_memory(error);
    if (sorter->bytes < SORT_MEMORY)
        return HF_OK;
    if (sorter->limit > 0)
        status = drop_beyond_limit(sorter, error);
    if (status == HF_OK && sorter->bytes >= SORT_MEMORY / 2)
        status = spill_rows(sorter, error);
    return status;
}

static enum hf_status sort_all(struct record_sorter *sorter, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    sorter->sorted = true;
    if (sorter->fd >= 0)
        status = sort_file(sorter, error);
    else
        sort_rows(sorter);
    buffer_clear(&sorter->window);
    return status;
}

enum hf_status record_sorter_next(struct record_sorter *sorter, struct view *ret_bytes,
                                  struct hf_error *error)
{
    struct view row;
    enum hf_status status = sorter->sorted ? HF_OK : sort_all(sorter, error);
    if (status != HF_OK)
        return status;
    if (sorter->limit > 0 && sorter->shown == sorter->limit)
        return HF_NOT_FOUND;
    sorter->shown++;
    if (sorter->fd < 0) {
        if (sorter->next == sorter->count)
            return HF_NOT_FOUND;
        *ret_bytes = sorter->rows[sorter->next++].bytes;
        return HF_OK;
    }
    status = read_sorted_row(sorter, &row, error);
    if (status != HF_OK)
        return status;
    view_cut(&row, '\x1f');
    buffer_clear(&sorter->record);
    if (!field_read(&sorter->record, row))
        return error_no_memory(error);
    *ret_bytes = buffer_view(&sorter->record);
    return HF_OK;
}
