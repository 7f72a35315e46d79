/* SPDX-License-Identifier: Apache-2.0 */
/* run.c: writes and reads runs: sorted rows in a scratch file of this process. */
#include "merge/run.h"

/* The header of a row. If the row itself was read from a run, its key may be after its record. */
static struct run_row head_of(const struct row *row)
{
    bool inside = !row->key_is_apart && row->key_at >= row->at &&
                  row->key_at + row->key_size <= row->at + row->size;
    return (struct run_row){
        .size = row->size,
        .key_at = inside ? row->key_at - row->at : RUN_KEY_APART,
        .key_size = row->key_size,
        .is_deleted = row->is_deleted,
        .time = row->time,
    };
}

size_t run_row_bytes(const struct row *row)
{
    struct run_row head = head_of(row);
    return run_row_size(&head);
}

void run_row_write(const struct batch *batch, const struct row *row, char *to)
{
    struct view record = batch_record(batch, row);
    struct view key = batch_key(batch, row);
    struct run_row head = head_of(row);
    memset(to + run_row_size(&head) - 8, 0, 8);
    memcpy(to, &head, sizeof head);
    memcpy(to + sizeof head, record.data, record.size);
    if (head.key_at == RUN_KEY_APART)
        memcpy(to + sizeof head + record.size, key.data, key.size);
}

bool run_offer(struct sink *sink, const struct batch *batch, const struct row *row)
{
    size_t size = run_row_bytes(row);
    if (size > sink->capacity - sink->settled && !sink_room(sink, size))
        return false;
    run_row_write(batch, row, sink->bytes + sink->settled);
    sink->offered = size;
    sink->record_at = sizeof(struct run_row);
    sink->record_size = row->size;
    return true;
}

static size_t run_cut(struct cutter *cutter, size_t at, size_t size, bool at_end)
{
    struct batch *batch = cutter->batch;
    size_t used = 0;
    (void)at_end;
    cutter->wanted = 0;
    while (!batch_full(batch) && size - used >= sizeof(struct run_row)) {
        const char *bytes = batch->block + at + used;
        const struct run_row *head = (const void *)bytes; /* rows begin at multiples of eight */
        size_t row_size = run_row_size(head);
        if (row_size > size - used) {
            cutter->wanted = row_size;
            break;
        }
        size_t count = batch->row_count;
        cut_row(cutter, run_record(bytes), run_key(bytes), /* apart */ false, &head->time);
        if (batch->row_count > count)
            batch->rows[count].is_deleted = head->is_deleted;
        used += row_size;
    }
    return used;
}

static size_t run_header(struct cutter *cutter, struct view bytes, bool at_end,
                         struct view *ret_record)
{
    (void)cutter;
    (void)at_end;
    *ret_record = view_first(bytes, RUN_MARK.size);
    return ret_record->size;
}

static const struct format format_run = { .cut = run_cut, .header = run_header };

struct cutter run_cutter(const struct cutter *like)
{
    struct cutter cutter = *like;
    cutter.format = &format_run;
    cutter.key.count = 1; /* even if it is the time */
    /* The longest record, with its header and its key, which can take twice as much: an encoded key
     * has two bytes for each zero. */
    cutter.record_bytes_max =
        3 * like->record_bytes_max + sizeof(struct run_row) + KEY_ENCODING_EXTRA;
    return cutter;
}
