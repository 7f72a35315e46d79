/* SPDX-License-Identifier: Apache-2.0 */
/* cut_kit.c: cuts an input into rows in every possible way, and compares the results. */
#include "cut_kit.h"

#include "alloc.h"

#include "base/check.h"
#include "test.h"

#include <inttypes.h>
#include <stdlib.h>

#define TEXT_MAX ((size_t)1 << 20)

static const char *fault_name(enum row_fault fault)
{
#define FAULT_NAME_(name, text) [ROW_##name] = #name,
    static const char *const names[] = { ROW_FAULT_TABLE(FAULT_NAME_) };
#undef FAULT_NAME_
    return names[fault];
}

static struct merge_key key_named(const struct cut_setup *setup, char space[KEY_TEXT_MAX])
{
    struct merge_key key = { .count = 0 };
    struct hf_error error;
    bool by_name = setup->format == &format_ndjson;
    if (setup->key)
        assert_status(HF_OK, key_parse(view_of(setup->key), by_name, space, &key, &error),
                      &error);
    return key;
}

static struct field field_named(const struct cut_setup *setup, const char *text)
{
    struct field field = { 0 };
    struct hf_error error;
    bool by_name = setup->format == &format_ndjson;
    if (text)
        assert_status(HF_OK, field_parse(view_of(text), by_name, &field, &error), &error);
    return field;
}

void cut_open(struct cut *cut, const struct cut_setup *setup, struct view input)
{
    assert_true(batch_init(&cut->batch, input.size));
    if (input.size)
        memcpy(cut->batch.block, input.data, input.size);
    memset(cut->batch.block + input.size, '"', BLOCK_SLACK);
    cut->batch.filled = input.size;
    cut->cutter =
        (struct cutter){ .format = setup->format,
                         .separator = setup->separator ? setup->separator : ',',
                         .key = key_named(setup, cut->key_space),
                         .time = field_named(setup, setup->time),
                         .columns = setup->columns,
                         .record_bytes_max =
                             setup->record_bytes_max ? setup->record_bytes_max : TEXT_MAX,
                         .any_order = true,
                         .batch = &cut->batch,
                         .last_key = BUFFER_INIT(TEXT_MAX),
                         .scratch = BUFFER_INIT(TEXT_MAX),
                         .encoded = BUFFER_INIT(TEXT_MAX),
                         .fields = BUFFER_INIT(TEXT_MAX) };
}

void cut_close(struct cut *cut)
{
    buffer_release(&cut->cutter.last_key);
    buffer_release(&cut->cutter.scratch);
    buffer_release(&cut->cutter.encoded);
    buffer_release(&cut->cutter.fields);
    batch_release(&cut->batch);
}

static void show_row(const struct cut *cut, size_t i, struct buffer *text)
{
    const struct batch *batch = &cut->batch;
    const struct row *row = &batch->rows[i];
    if (row->fault)
        buffer_print(text, "!%s", fault_name(row->fault));
    else if (!cut->cutter.key.count)
        buffer_print(text, "@%" PRId64, row->time.s);
    else
        buffer_append(text, batch_key(batch, row));
    buffer_append(text, VIEW("|"));
    buffer_append(text, batch_record(batch, row));
    if (!row->fault && cut->cutter.key.count && cut->cutter.time.asked)
        buffer_print(text, "|%" PRId64, row->time.s);
    buffer_append(text, VIEW("\n"));
}

/* Cuts [at, end), with a new batch whenever one is full. Returns where it stopped. */
static size_t cut_to(struct cut *cut, size_t at, size_t end, struct buffer *text)
{
    bool at_end = end == cut->batch.filled, full;
    do {
        batch_clear(&cut->batch);
        cut->cutter.last_good = 0;
        size_t used = cut->cutter.format->cut(&cut->cutter, at, end - at, at_end);
        assert_true(used <= end - at);
        for (size_t i = 0; i < cut->batch.row_count; i++)
            show_row(cut, i, text);
        full = batch_full(&cut->batch);
        assert_true(used > 0 || !full);
        at += used;
    } while (full);
    return at;
}

static void assert_one_way(const struct cut_setup *setup, struct view input, size_t middle,
                           size_t rows, const char *expected)
{
    struct cut cut;
    struct buffer text = BUFFER_INIT(2 * TEXT_MAX);
    cut_open(&cut, setup, input);
    cut.batch.row_capacity = rows;
    size_t at = middle < input.size ? cut_to(&cut, 0, middle, &text) : 0;
    assert_int_equal(cut_to(&cut, at, input.size, &text), input.size);
    assert_false(text.failed);
    if (!view_equal(buffer_view(&text), view_of(expected)))
        fail_msg("met at byte %zu, %zu rows at once:\n%s\nexpected:\n%s", middle, rows,
                 buffer_text(&text), expected);
    buffer_release(&text);
    cut_close(&cut);
}

void assert_rows_of(const struct cut_setup *setup, struct view input, const char *expected)
{
    assert_one_way(setup, input, input.size, 64, expected);
    assert_one_way(setup, input, input.size, 1, expected);
    for (size_t i = 0; i < input.size; i++)
        assert_one_way(setup, input, i, 64, expected);
}

size_t cut_skip(const struct format *format, struct view bytes, size_t piece, bool *ret_ended)
{
    size_t at = 0;
    *ret_ended = false;
    /* In parentheses, because cmocka has a macro of this name. */
    while (at < bytes.size && !*ret_ended)
        at += (format->skip)(view_first(view_from(bytes, at), piece), ret_ended);
    return at;
}

void assert_disorder_is_noticed(const struct cut_setup *setup, struct view input, size_t last)
{
    struct cut cut;
    cut_open(&cut, setup, input);
    cut.cutter.any_order = false;
    size_t used = setup->format->cut(&cut.cutter, 0, input.size, true);
    assert_int_equal(used, input.size - last);
    assert_true(cut.batch.unsorted);
    assert_true(cut.batch.row_count >= 2);
    assert_true(cut.batch.rows[cut.batch.row_count - 1].code == CODE_EQUAL);
    cut_close(&cut);
}

void assert_key_needs_memory(const struct cut_setup *setup, struct view input, size_t first)
{
    bool failed = true;
    for (long n = 0; failed; n++) {
        struct cut cut;
        assert_true(n < 8);
        cut_open(&cut, setup, input);
        alloc_fail_after(n);
        size_t used = setup->format->cut(&cut.cutter, 0, input.size, true);
        failed = alloc_stop();
        assert_int_equal(cut.batch.keys.failed, failed);
        assert_int_equal(used, failed ? first : input.size);
        assert_int_equal(cut.batch.row_count, failed ? 1 : 2);
        cut_close(&cut);
    }
}
