/* SPDX-License-Identifier: Apache-2.0 */
/* run.h: a run: sorted rows in a scratch file of this process, written by a sort or by a pass for
 * the next pass. Keys and times are stored beside the records, so they need not be parsed again. No
 * other process reads a run, so it is in the machine's byte order.
 *
 *     RUN_MARK, then for each row: struct run_row, the record, the key if it is apart, zeros up to
 *     a multiple of eight */
#ifndef MERGE_RUN_H
#define MERGE_RUN_H

#include "merge/format.h"
#include "merge/sink.h"

struct run_row {
    uint32_t size;
    uint32_t key_at; /* within the record, or RUN_KEY_APART */
    uint32_t key_size;
    uint32_t is_deleted; /* 0 or 1 */
    struct instant time; /* zero if none was requested */
};

#define RUN_KEY_APART UINT32_MAX
#define RUN_MARK      VIEW("HOLDFAST-RUN-001")

/* The cutter that reads runs of rows cut by `like`. */
struct cutter run_cutter(const struct cutter *like);

/* The size of the row in a run, and its bytes. */
size_t run_row_bytes(const struct row *row);
void run_row_write(const struct batch *batch, const struct row *row, char *to);

/* The parts of a row at `bytes`. */
static inline struct view run_record(const char *bytes)
{
    const struct run_row *head = (const void *)bytes;
    return (struct view){ bytes + sizeof *head, head->size };
}

static inline struct view run_key(const char *bytes)
{
    const struct run_row *head = (const void *)bytes;
    size_t at = head->key_at == RUN_KEY_APART ? head->size : head->key_at;
    return (struct view){ bytes + sizeof *head + at, head->key_size };
}

static inline size_t run_row_size(const struct run_row *head)
{
    size_t size = sizeof *head + head->size;
    if (head->key_at == RUN_KEY_APART)
        size += head->key_size;
    return (size + 7) & ~(size_t)7;
}

/* Like sink_offer, for a sink that is a run. */
bool run_offer(struct sink *sink, const struct batch *batch, const struct row *row);

#endif
