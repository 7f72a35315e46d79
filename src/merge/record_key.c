/* SPDX-License-Identifier: Apache-2.0 */
/* record_key.c: cuts one record as a merge does, and returns its key. */
#include "merge/record_key.h"

#include "merge/job.h"

static enum hf_status cut_one(struct job *job, struct batch *batch, struct view line,
                              struct buffer *ret_key, struct hf_error *error)
{
    struct cutter *cutter = &job->cutter;
    cutter->batch = batch;
    cutter->any_order = true;
    cutter->last_key = BUFFER_INIT(HF_MERGE_RECORD_MAX);
    cutter->scratch = BUFFER_INIT(HF_MERGE_RECORD_MAX);
    cutter->encoded = BUFFER_INIT(UINT32_MAX);
    cutter->fields = BUFFER_INIT(HF_MERGE_RECORD_MAX);
    memcpy(batch->block, line.data, line.size);
    memset(batch->block + line.size, 0, BLOCK_SLACK);
    batch->filled = line.size;
    size_t used = cutter->format->cut(cutter, 0, line.size, /* at_end */ true);
    bool whole = used == line.size && batch->row_count == 1;
    enum hf_status status = HF_OK;
    buffer_clear(ret_key);
    if (batch->keys.failed || cutter->scratch.failed || cutter->encoded.failed)
        status = error_no_memory(error);
    else if (!whole || batch->rows[0].fault != ROW_NONE)
        status = error_set(error, HF_CORRUPT, "a line is not one valid record");
    else if (!buffer_append(ret_key, batch_key(batch, &batch->rows[0])))
        status = error_no_memory(error);
    buffer_release(&cutter->last_key);
    buffer_release(&cutter->scratch);
    buffer_release(&cutter->encoded);
    buffer_release(&cutter->fields);
    return status;
}

enum hf_status merge_record_key(struct env *env, const struct merge_options *options,
                                struct view line, struct buffer *ret_key,
                                struct hf_error *error)
{
    struct buffer header = BUFFER_INIT(HF_MERGE_RECORD_MAX);
    struct batch batch;
    struct job job;
    enum hf_status status = job_check(options, error);
    if (status != HF_OK)
        return status;
    job_init(&job, env, options);
    status = records_prepare(&job, NULL, 0, &header, error);
    if (status == HF_OK) {
        status = batch_init(&batch, line.size) ? cut_one(&job, &batch, line, ret_key, error)
                                               : error_no_memory(error);
        batch_release(&batch);
    }
    buffer_release(&header);
    return status;
}
