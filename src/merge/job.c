/* SPDX-License-Identifier: Apache-2.0 */
/* job.c: what all passes of a merge share: progress, rejected rows, reading an input from start to
 * end, creating and keeping files. The output and the reject file get their names together, once
 * the row counts add up. */
#include "merge/job.h"

#include "base/parse.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/statvfs.h>

/* ---- Starting it --------------------------------------------------------------------- */

/* The memory of the program itself, which the memory setting includes. */
#define PROGRAM_BYTES_MAX (8 * MIB)
#define PROGRAM_SHARE     8

static size_t record_bytes_max(const struct merge_options *options)
{
    if (options->record_bytes_max)
        return options->record_bytes_max;
    size_t quarter = options->memory_bytes / 4;
    return quarter < MERGE_RECORD_DEFAULT ? quarter : MERGE_RECORD_DEFAULT;
}

/* Without a key and a time, no record replaces another, so a deletion has nothing to delete. */
static enum hf_status check_deleted_field(const struct merge_options *options,
                                          struct hf_error *error)
{
    if (options->deleted.data && !(options->key.data && options->time.data))
        return error_set(error, HF_INVALID,
                         "a deleted field needs both a key and a time: a deletion replaces the "
                         "earlier records of its key");
    if (options->drop_deleted && !options->deleted.data)
        return error_set(error, HF_INVALID,
                         "deletions can be dropped only if the deleted field is given");
    if (options->drop_deleted && !options->inputs_are_all)
        return error_set(error, HF_INVALID,
                         "deletions can be dropped only if the inputs are all files there are: "
                         "otherwise, an earlier record in another file would come back");
    return HF_OK;
}

enum hf_status job_check(const struct merge_options *options, struct hf_error *error)
{
    char text[SIZE_TEXT_MAX];
    bool has_records = merge_has_records(options->format);
    bool has_fields = options->key.data || options->time.data;
    if (options->memory_bytes < HF_MERGE_MEMORY_MIN ||
        options->memory_bytes > HF_MERGE_MEMORY_MAX)
        return error_set(error, HF_INVALID, "a merge needs 8 MiB to 16 GiB of memory, not %s",
                         size_text(options->memory_bytes, text));
    bool fits =
        options->record_max_is_fixed || record_bytes_max(options) <= options->memory_bytes / 4;
    if (!fits || record_bytes_max(options) > HF_MERGE_RECORD_MAX)
        return error_set(error, HF_INVALID,
                         "the longest record must be at most a quarter of the memory and at "
                         "most 1 GiB, not %s",
                         size_text(record_bytes_max(options), text));
    if (has_records && !has_fields)
        return error_set(error, HF_INVALID,
                         "no field to merge by: set the key field, the time field, or both to "
                         "keep the latest record of each key");
    if (!has_records && (has_fields || options->deleted.data))
        return error_set(error, HF_INVALID,
                         "%s has no fields, so it cannot have a key or a time",
                         hf_merge_format_name(options->format));
    return check_deleted_field(options, error);
}

void job_init(struct job *job, struct env *env, const struct merge_options *options)
{
    size_t program = options->memory_bytes / PROGRAM_SHARE;
    *job = (struct job){
        .env = env,
        .options = options,
        .record_bytes_max = record_bytes_max(options),
        .budget = { .limit = options->memory_bytes -
                             (program < PROGRAM_BYTES_MAX ? program : PROGRAM_BYTES_MAX) },
    };
}

/* ---- Progress ------------------------------------------------------------------------ */

/* Progress is reported after a number of bytes, or after this many steps if few bytes expand to
 * many. */
#define STEPS_UNTOLD_MAX 16

/* This part of the total is shown as done only at the end, because a pass may have to be repeated
 * when nearly everything was read. */
#define RESERVE_SHARE 64

void job_expect(struct job *job, uint64_t bytes, uint64_t done_before)
{
    job->bytes_left = bytes;
    job->bytes_total = bytes + done_before;
    job->bytes_shown = (double)done_before;
}

static enum hf_status tell_progress(struct job *job, struct hf_error *error)
{
    const struct merge_progress *progress = &job->options->progress;
    uint64_t shown = (uint64_t)job->bytes_shown;
    job->bytes_untold = 0;
    job->steps_untold = 0;
    if (!progress->step ||
        progress->step(progress->context, shown < job->bytes_total ? shown : job->bytes_total,
                       job->bytes_total))
        return HF_OK;
    return error_set(error, HF_CANCELLED, "stopped by the caller; nothing was written");
}

enum hf_status job_progress(struct job *job, uint64_t bytes, struct hf_error *error)
{
    if (bytes > job->bytes_left)
        job->bytes_left = bytes;
    double left = (double)job->bytes_left + (double)job->bytes_total / RESERVE_SHARE;
    if (left > 0)
        job->bytes_shown +=
            ((double)job->bytes_total - job->bytes_shown) * (double)bytes / left;
    job->bytes_left -= bytes;
    job->bytes_untold += bytes;
    job->steps_untold++;
    if (job->bytes_untold < MIB && job->steps_untold < STEPS_UNTOLD_MAX)
        return HF_OK;
    return tell_progress(job, error);
}

enum hf_status job_progress_end(struct job *job, struct hf_error *error)
{
    job->bytes_left = 0;
    job->bytes_shown = (double)job->bytes_total;
    return tell_progress(job, error);
}

/* ---- Files --------------------------------------------------------------------------- */

struct file_watch job_watch(const struct job *job, enum job_file which)
{
    const struct merge_progress *progress = &job->options->progress;
    return (struct file_watch){ progress->writes, progress->context, (int)which };
}

enum hf_status job_create(struct job *job, enum job_file which, struct sink *ret_sink,
                          struct hf_error *error)
{
    bool output = which == JOB_OUTPUT;
    const struct sink_options options = {
        .path = output ? job->output : job->options->reject_path,
        .watch = job_watch(job, which),
        .coding = output ? job->options->coding : HF_MERGE_PLAIN,
        .encode_aside = job->options->threads > 1 && job->group != 1,
        .budget = &job->budget,
    };
    enum hf_status status = sink_create(ret_sink, job->env, &options, error);
    if (status == HF_OK) {
        ret_sink->disk_full = &job->result.disk_full;
        ret_sink->intermediate = output && job->options->intermediate;
        ret_sink->doubles_mark = output && job->cutter.format && job->cutter.format->is_text;
        ret_sink->ahead = !ret_sink->intermediate || job->options->synced_later;
    }
    return status;
}

void job_release(struct job *job, enum job_file which, struct sink *sink)
{
    bool rejects = which == JOB_REJECTS;
    if (rejects && !job->rejecting)
        return;
    sink_release(sink);
    if (rejects)
        job->rejecting = false;
}

enum hf_status job_keep(struct job *job, struct sink *output, struct hf_error *error)
{
    enum hf_status status = sink_end(output, error);
    job->result.bytes_out = output->size;
    job->result.crc32c = output->crc32c;
    if (status == HF_OK && job->rejecting)
        status = sink_end(&job->rejects, error);
    if (status == HF_OK && job->rejecting)
        status = sink_keep(&job->rejects, error);
    if (status == HF_OK)
        status = sink_keep(output, error);
    /* Rejected rows are kept only together with their output. */
    if (status != HF_OK && !output->file.kept && job->rejecting)
        new_file_take_back(&job->rejects.file);
    return status;
}

/* ---- Rejected rows ------------------------------------------------------------------- */

static uint64_t number_of_row(const struct batch *batch, const struct row *row)
{
    return batch->rows_before + (uint64_t)(row - batch->rows) + 1;
}

/* Fails the merge instead of rejecting the row, because the time can be read once the user
 * specifies the zone. */
static enum hf_status refuse_time(struct job *job, const struct source *source,
                                  const struct batch *batch, const struct row *row,
                                  struct hf_error *error)
{
    job->result.zone_missing = true;
    error_set(error, HF_INVALID, "record %" PRIu64 " %s", number_of_row(batch, row),
              row_fault_text(row->fault));
    error_about(error, source->feed->name);
    return HF_INVALID;
}

enum hf_status job_reject(struct job *job, const struct source *source,
                          const struct batch *batch, const struct row *row,
                          struct hf_error *error)
{
    enum hf_status status = HF_OK;
    if (row->fault == ROW_NO_ZONE)
        return refuse_time(job, source, batch, row, error);
    if (!job->rejecting) {
        status = job_create(job, JOB_REJECTS, &job->rejects, error);
        if (status != HF_OK)
            return status;
        job->rejecting = true;
    }
    sink_add(&job->rejects, batch_record(batch, row));
    if (row->fault == ROW_PIECE)
        return sink_status(&job->rejects, error);
    sink_add(&job->rejects, VIEW("\n"));
    job->result.rows_rejected++;
    struct merge_result *result = &job->result;
    if (result->reason_count < HF_MERGE_REASONS_MAX)
        snprintf(result->reasons[result->reason_count++], HF_WHY_MAX,
                 "%.*s: record %" PRIu64 " %s",
                 VIEW_ARGS(view_first(view_of(source->feed->name), 120)),
                 number_of_row(batch, row), row_fault_text(row->fault));
    job->refused = job_overrun(job) &&
                   job->result.rows_rejected - job->options->rejects_max > MERGE_REJECTS_BEYOND;
    return job->refused ? HF_INVALID : sink_status(&job->rejects, error);
}

/* "3 rows cannot be merged, 2 may be rejected; the first: a.csv: record 7 has no key field" */
static enum hf_status tell_rejects(const struct job *job, struct hf_error *error)
{
    const struct merge_result *result = &job->result;
    uint64_t most = job->options->rejects_max;
    bool stopped = result->rows_rejected - most > MERGE_REJECTS_BEYOND;
    char allowed[48] = "";
    if (most > 0)
        snprintf(allowed, sizeof allowed, ", %" PRIu64 " may be rejected", most);
    return error_set(error, HF_INVALID,
                     "%s%" PRIu64 " row%s cannot be merged%s; the first: %.150s",
                     stopped ? "at least " : "", result->rows_rejected,
                     result->rows_rejected == 1 ? "" : "s", allowed, result->reasons[0]);
}

/* A disk with less free space than this counts as full. */
#define DISK_FULL_BYTES (1 * MIB)

static bool is_full(const char *folder)
{
    struct statvfs info;
    return statvfs(folder, &info) == 0 &&
           (uint64_t)info.f_bavail * info.f_frsize < DISK_FULL_BYTES;
}

bool job_disk_is_full(const struct job *job)
{
    char folder[PATH_MAX];
    return is_full(folder_of(job->output, folder)) || is_full(job->scratch_folder);
}

enum hf_status job_refuse(struct job *job, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    if (!job->options->intermediate)
        status = sink_end(&job->rejects, error);
    if (status == HF_OK && !job->options->intermediate)
        status = sink_keep(&job->rejects, error);
    job->result.rejects_kept = job->rejects.file.kept;
    return status == HF_OK ? tell_rejects(job, error) : status;
}

/* ---- One input from start to end ----------------------------------------------------- */

#define SCAN_BLOCK_BYTES (256 * KIB)

enum hf_status job_scan(struct job *job, const struct feed *feed, struct job_scan *scan,
                        struct hf_error *error)
{
    struct source source;
    struct cutter cutter = *job_cutter_of(job, feed);
    cutter.any_order = scan->any_order;
    const struct source_options options = { &cutter, job_header_of(job, feed), SCAN_BLOCK_BYTES,
                                            /* batches */ 1, &job->budget };
    enum hf_status status = source_init(&source, feed, &options, error);
    struct batch *batch = &source.batches[0];
    uint64_t position = 0;
    while (status == HF_OK) {
        status = source_fill(&source, batch, error);
        if (status == HF_OK && (batch->row_count || batch->unsorted))
            status = scan->use(scan->context, &source, batch, error);
        if (status != HF_OK || batch->row_count == 0 || batch->unsorted)
            break;
        status = job_progress(job, batch->position - position, error);
        position = batch->position;
    }
    scan->rows = source.rows;
    scan->too_wide = source.too_wide;
    job->headers_differ |= source.other_header;
    source_release(&source);
    return status;
}

enum hf_status job_read(struct job *job, const struct feed *feed, job_use_bytes *use,
                        void *context, struct hf_error *error)
{
    struct source source;
    struct cutter none = { .record_bytes_max = 1 };
    struct view bytes = { NULL, 0 };
    uint64_t position = 0;
    const struct source_options options = {
        .like = &none, .block_bytes = SCAN_BLOCK_BYTES, .batch_count = 1, .budget = &job->budget
    };
    enum hf_status status = source_init(&source, feed, &options, error);
    while (status == HF_OK) {
        status = source_read(&source, &bytes, error);
        if (status != HF_OK || bytes.size == 0)
            break;
        status = use(context, bytes, error);
        if (status == HF_OK)
            status = job_progress(job, source.batches[0].position - position, error);
        position = source.batches[0].position;
    }
    source_release(&source);
    return status;
}
