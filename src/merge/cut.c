/* SPDX-License-Identifier: Apache-2.0 */
/* cut.c: what all formats share when they turn bytes into rows. Every record becomes a row or a
 * rejected row, so the counts add up. */
#include "merge/format.h"

bool cut_key_apart(struct cutter *cutter, struct view key, uint32_t *ret_at)
{
    struct buffer *keys = &cutter->batch->keys;
    if (!buffer_reserve(keys, key.size + KEY_SLACK))
        return false;
    *ret_at = (uint32_t)keys->size;
    return buffer_append(keys, key);
}

/* Copies a record into the batch's `texts`; false if out of memory. */
static bool cut_text(struct cutter *cutter, struct view record, size_t *ret_at)
{
    struct batch *batch = cutter->batch;
    *ret_at = batch->texts.size;
    bool added = buffer_reserve(&batch->texts, record.size + BLOCK_SLACK) &&
                 buffer_append(&batch->texts, record);
    batch->keys.failed = batch->keys.failed || !added;
    return added;
}

void cut_fault(struct cutter *cutter, struct view record, enum row_fault fault)
{
    struct batch *batch = cutter->batch;
    struct row *row = &batch->rows[batch->row_count++];
    /* A record that is too long may have other faults, but they are known only if the block
     * contains all of it. So it is always reported as too long, regardless of the size of the
     * block. */
    if (fault != ROW_PIECE && record.size > cutter->record_bytes_max)
        fault = ROW_TOO_LONG;
    size_t at = (size_t)(record.data - batch->block);
    /* Where records are rewritten, all rows of a batch are in `texts`. */
    if (cutter->map && !cut_text(cutter, record, &at)) {
        batch->row_count--;
        return;
    }
    *row = (struct row){
        .at = (uint32_t)at,
        .size = (uint32_t)record.size,
        .fault = (uint16_t)fault,
    };
}

void cut_row_slowly(struct cutter *cutter, struct view record, struct view key,
                    bool key_is_apart, const struct instant *time, bool is_deleted)
{
    struct batch *batch = cutter->batch;
    size_t count = batch->row_count;
    cut_row(cutter, record, key, key_is_apart, time);
    if (batch->row_count > count && batch->rows[count].fault == ROW_NONE)
        batch->rows[count].is_deleted = is_deleted;
}

enum row_fault cut_local_time(const struct cutter *cutter, struct view text,
                              struct instant *ret_time)
{
    if (!instant_parse_local(text, cutter->zone_east_s, ret_time))
        return ROW_BAD_TIME;
    return cutter->has_zone ? ROW_NONE : ROW_NO_ZONE;
}

size_t format_skip_line(struct view bytes, bool *ret_ended)
{
    size_t at = view_find(bytes, '\n');
    *ret_ended = at < bytes.size;
    return at + *ret_ended;
}

/* Compares ASCII letters in either case; `word` is in lower case. */
static bool is_any_case(struct view text, struct view word)
{
    if (text.size != word.size)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        char byte = text.data[i];
        if (byte >= 'A' && byte <= 'Z')
            byte = (char)(byte - 'A' + 'a');
        if (byte != word.data[i])
            return false;
    }
    return true;
}

bool cut_deleted(struct view value, bool *ret_is_deleted)
{
    *ret_is_deleted = is_any_case(value, VIEW("true")) || is_any_case(value, VIEW("yes")) ||
                      is_any_case(value, VIEW("1"));
    return *ret_is_deleted || value.size == 0 || is_any_case(value, VIEW("false")) ||
           is_any_case(value, VIEW("no")) || is_any_case(value, VIEW("0"));
}
