/* SPDX-License-Identifier: Apache-2.0 */
/* merge_cut.c: cuts one input into records in several ways, and compares the results. */
#include "merge_cut.h"

#include "base/check.h"

struct cut_rows {
    size_t count;
    struct kept_row rows[CUT_ROWS_MAX];
    char keys[16 * CUT_ROWS_MAX];
    size_t keys_used;
};

/* One way to offer the bytes. */
struct way {
    size_t step; /* bytes that each call has more than the one before */
    size_t rows; /* that a batch has room for */
    int behind;  /* the byte after those offered */
};

static void keep_rows(const struct batch *batch, bool timed, struct cut_rows *all)
{
    for (size_t i = 0; i < batch->row_count; i++) {
        const struct row *row = &batch->rows[i];
        check(all->count < CUT_ROWS_MAX);
        struct kept_row *kept = &all->rows[all->count++];
        *kept = (struct kept_row){ .at = row->at, .size = row->size, .fault = row->fault };
        if (row->fault)
            continue;
        struct view key = batch_key(batch, row);
        check(all->keys_used + key.size <= sizeof all->keys);
        kept->key = (struct view){ all->keys + all->keys_used, key.size };
        memcpy(all->keys + all->keys_used, key.data, key.size);
        all->keys_used += key.size;
        if (timed)
            kept->time = row->time;
    }
}

static struct cutter cutter_of(const struct cut_setup *setup, struct batch *batch)
{
    return (struct cutter){ .format = setup->format,
                            .separator = setup->separator,
                            .key = { .parts = { { .field = setup->key } },
                                     .count = setup->key.asked },
                            .time = setup->time,
                            .columns = setup->columns,
                            .record_bytes_max = CUT_ROWS_MAX,
                            .any_order = true,
                            .batch = batch,
                            .last_key = BUFFER_INIT(CUT_ROWS_MAX),
                            .scratch = BUFFER_INIT(CUT_ROWS_MAX) };
}

/* Cuts the offered bytes, with a new batch whenever one is full. Returns where it stopped. */
static size_t cut_offered(struct cutter *cutter, size_t at, bool at_end, struct cut_rows *all)
{
    struct batch *batch = cutter->batch;
    bool full;
    do {
        batch_clear(batch);
        cutter->last_good = 0;
        size_t used = cutter->format->cut(cutter, at, batch->filled - at, at_end);
        check(used <= batch->filled - at);
        check(!batch->unsorted && !batch->keys.failed);
        check(batch->row_count <= batch->row_capacity);
        full = batch_full(batch);
        check(used > 0 || batch->row_count == 0);
        at += used;
        keep_rows(batch, cutter->time.asked, all);
    } while (full);
    return at;
}

static void cut_input(const struct cut_setup *setup, struct view input, struct way way,
                      struct cut_rows *all)
{
    struct batch batch;
    check(batch_init(&batch, input.size));
    check(way.rows <= batch.row_capacity);
    batch.row_capacity = way.rows;
    struct cutter cutter = cutter_of(setup, &batch);
    all->count = all->keys_used = 0;
    size_t at = 0;
    do {
        size_t left = input.size - batch.filled;
        size_t more = left < way.step ? left : way.step;
        if (more > 0)
            memcpy(batch.block + batch.filled, input.data + batch.filled, more);
        batch.filled += more;
        memset(batch.block + batch.filled, way.behind, BLOCK_SLACK);
        at = cut_offered(&cutter, at, batch.filled == input.size, all);
    } while (batch.filled < input.size);
    check(at == input.size);
    buffer_release(&cutter.last_key);
    buffer_release(&cutter.scratch);
    batch_release(&batch);
}

static void same_rows(const struct cut_rows *a, const struct cut_rows *b)
{
    check(a->count == b->count);
    for (size_t i = 0; i < a->count; i++) {
        check(a->rows[i].at == b->rows[i].at && a->rows[i].size == b->rows[i].size);
        check(a->rows[i].fault == b->rows[i].fault);
        check(view_equal(a->rows[i].key, b->rows[i].key));
        check(instant_compare(a->rows[i].time, b->rows[i].time) == 0);
    }
}

static void gaps_hold(const struct cut_setup *setup, struct view input,
                      const struct cut_rows *all)
{
    size_t at = 0;
    for (size_t i = 0; i < all->count; i++) {
        check(all->rows[i].at >= at && all->rows[i].size > 0);
        struct view gap = { input.data + at, all->rows[i].at - at };
        check(setup->gap_is_fine(gap, i > 0, false));
        at = all->rows[i].at + all->rows[i].size;
    }
    check(at <= input.size);
    struct view gap = { input.data + at, input.size - at };
    check(setup->gap_is_fine(gap, all->count > 0, true));
}

static void skip_holds(const struct cut_setup *setup, struct view input,
                       const struct kept_row *row, size_t step)
{
    size_t at = row->at, end = row->at + row->size;
    bool ended = false;
    for (size_t i = at; i < end; i++)
        if (input.data[i] == '\n')
            at = i + 1;
    while (at < input.size && !ended) {
        struct view piece = view_first(view_from(input, at), step);
        size_t used = setup->format->skip(piece, &ended);
        check(used <= piece.size && (used == piece.size || ended));
        at += used;
    }
    check(at >= end);
    struct view rest = { input.data + end, at - end };
    size_t returns = setup->format->is_text ? leading_returns(rest) : 0;
    check(ended ? setup->is_end(rest) : returns == rest.size);
}

void cut_holds(const struct cut_setup *setup, struct view input, size_t step)
{
    static struct cut_rows whole, pieces;
    input = view_first(input, CUT_ROWS_MAX);
    cut_input(setup, input, (struct way){ input.size, 64, 0 }, &whole);
    cut_input(setup, input, (struct way){ 1 + step, 3, '"' }, &pieces);
    same_rows(&whole, &pieces);
    cut_input(setup, input, (struct way){ input.size / 2 + 1, 1, '\n' }, &pieces);
    same_rows(&whole, &pieces);
    gaps_hold(setup, input, &whole);
    for (size_t i = 0; i < whole.count && i < 64; i++) {
        skip_holds(setup, input, &whole.rows[i], 1 + step);
        skip_holds(setup, input, &whole.rows[i], input.size);
    }
    for (size_t i = 0; i < whole.count; i++) {
        const struct kept_row *row = &whole.rows[i];
        setup->row_holds(setup, (struct view){ input.data + row->at, row->size }, row);
    }
}

size_t leading_returns(struct view bytes)
{
    size_t count = 0;
    while (count < bytes.size && bytes.data[count] == '\r')
        count++;
    return count;
}

bool is_line_end(struct view bytes)
{
    return view_equal(view_from(bytes, leading_returns(bytes)), VIEW("\n"));
}
