/* SPDX-License-Identifier: Apache-2.0 */
/* batch.c: the memory for one block of an input and its rows. */
#include "merge/batch.h"

#include "base/limits.h"

#include <stdlib.h>

/* The rows take as much memory as the block. If records are short, the room for rows is used up
 * first, and the rest of the block is cut later. */
#define BLOCK_BYTES_PER_ROW 64
#define ROWS_MIN            64

const char *row_fault_text(enum row_fault fault)
{
#define ROW_FAULT_TEXT_(name, text) [ROW_##name] = (text),
    static const char *const texts[] = { ROW_FAULT_TABLE(ROW_FAULT_TEXT_) };
#undef ROW_FAULT_TEXT_
    return texts[fault];
}

enum row_fault row_fault_of_json(enum json_fault fault)
{
    switch (fault) {
    case JSON_GOOD: return ROW_NONE;
    case JSON_SYNTAX: return ROW_BAD_JSON;
    case JSON_TOO_DEEP: return ROW_TOO_DEEP;
    case JSON_NOT_UTF8: return ROW_NOT_UTF8;
    }
    return ROW_BAD_JSON;
}

bool batch_init(struct batch *batch, size_t capacity)
{
    size_t rows = capacity / BLOCK_BYTES_PER_ROW;
    if (rows < ROWS_MIN)
        rows = ROWS_MIN;
    *batch = (struct batch){
        .capacity = capacity,
        .row_capacity = rows,
        .keys = BUFFER_INIT(UINT32_MAX),
        .texts = BUFFER_INIT(UINT32_MAX),
    };
    batch->block = malloc(capacity + BLOCK_SLACK);
    batch->text = batch->block;
    batch->rows = aligned_alloc(sizeof *batch->rows, (rows + 1) * sizeof *batch->rows);
    return batch->block && batch->rows;
}

void batch_release(struct batch *batch)
{
    free(batch->block);
    free(batch->rows);
    buffer_release(&batch->keys);
    buffer_release(&batch->texts);
    *batch = (struct batch){ 0 };
}

void batch_clear(struct batch *batch)
{
    batch->row_count = 0;
    batch->unsorted = false;
    batch->key_kinds = 0;
    batch->text = batch->block;
    buffer_clear(&batch->keys);
    buffer_clear(&batch->texts);
}
