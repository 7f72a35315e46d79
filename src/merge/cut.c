/* SPDX-License-Identifier: Apache-2.0 */
/* cut.c: what all formats share when they turn bytes into rows. Every record becomes a row or a
 * rejected row, so the counts add up. */
#include "base/parse.h"
#include "merge/format.h"

bool cut_key_apart(struct cutter *cutter, struct view key, uint32_t *ret_at)
{
    struct buffer *keys = &cutter->batch->keys;
    if (!buffer_reserve(keys, key.size + KEY_SLACK))
        return false;
    *ret_at = (uint32_t)keys->size;
    return buffer_append(keys, key);
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
    *row = (struct row){
        .at = (uint32_t)(record.data - batch->block),
        .size = (uint32_t)record.size,
        .fault = (uint16_t)fault,
    };
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
