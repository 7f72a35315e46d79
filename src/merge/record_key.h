/* SPDX-License-Identifier: Apache-2.0 */
/* record_key.h: the key of a single record, as a merge compares it. For formats in which every
 * record is a line, so that a reader can find one in the middle of a file. */
#ifndef MERGE_RECORD_KEY_H
#define MERGE_RECORD_KEY_H

#include "base/buffer.h"
#include "merge/merge.h"

/* Whether each record of the format is a line. A field of csv or tsv may contain a line end. */
static inline bool merge_records_are_lines(enum hf_merge_format format)
{
    return format == HF_MERGE_USV || format == HF_MERGE_NDJSON;
}

/* Sets `ret_key` to the key of the line, which may end with LF. Keys compare bytewise. CORRUPT: the
 * line is not one valid record. Other statuses as for merge_files. */
enum hf_status merge_record_key(struct env *env, const struct merge_options *options,
                                struct view line, struct buffer *ret_key,
                                struct hf_error *error);

#endif
