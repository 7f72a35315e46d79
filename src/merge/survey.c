/* SPDX-License-Identifier: Apache-2.0 */
/* survey.c: reads one file as a merge would, and keeps only counts and times. It must accept and
 * reject the same rows as a merge; otherwise ingest would accept chunks that later fail. */
#include "merge/survey.h"

#include "merge/job.h"
#include "merge/parquet.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#define PIECE_BYTES (256 * KIB)

/* The state of a survey. */
struct look {
    struct survey *survey;
    struct instant first, last;
    struct instant last_deletion;
};

static void look_at_time(struct look *look, struct instant time)
{
    if (!look->survey->times_known || instant_compare(time, look->first) < 0)
        look->first = time;
    if (!look->survey->times_known || instant_compare(time, look->last) > 0)
        look->last = time;
    look->survey->times_known = true;
}

static void look_at_deletion(struct look *look, struct instant time)
{
    if (look->survey->deletions == 0 || instant_compare(time, look->last_deletion) > 0)
        look->last_deletion = time;
    look->survey->deletions++;
}

/* In milliseconds, rounded up. */
static int64_t ms_after(struct instant time)
{
    return instant_ms(time) + (time.atto % INSTANT_MS_ATTO > 0);
}

static enum hf_status look_at_batch(void *context, const struct source *source,
                                    const struct batch *batch, struct hf_error *error)
{
    struct look *look = context;
    look->survey->coding = decoder_coding(source->decoder);
    look->survey->key_kinds |= batch->key_kinds;
    for (size_t i = 0; i < batch->row_count; i++) {
        const struct row *row = &batch->rows[i];
        if (row->fault == ROW_NONE && source->cutter.time.asked)
            look_at_time(look, row->time);
        if (row->fault == ROW_NONE && row->is_deleted)
            look_at_deletion(look, row->time);
        if (row->fault == ROW_NONE || row->fault == ROW_PIECE)
            continue;
        if (row->fault == ROW_NO_ZONE)
            return error_set(error, HF_INVALID, "record %" PRIu64 " %s",
                             batch->rows_before + i + 1, row_fault_text(row->fault));
        if (look->survey->malformed++ == 0) {
            look->survey->malformed_first = batch->rows_before + i + 1;
            look->survey->malformed_why = row_fault_text(row->fault);
        }
    }
    return HF_OK;
}

/* Adds the header of the file with which the surveyed one must agree. If it cannot be read, the
 * surveyed file is not to blame. */
static void add_known_header(struct job *job, struct layouts *layouts)
{
    struct buffer header = BUFFER_INIT(HEADER_BYTES_MAX);
    const struct layout *layout;
    struct hf_error ignored;
    struct feed feed;
    bool added =
        feed_init(&feed, job->options->columns_like, &ignored) == HF_OK &&
        records_read_header(job, &feed, &header, &ignored) == HF_OK && header.size > 0 &&
        layouts_add(layouts, &job->asked, buffer_view(&header), &layout, &ignored) == HF_OK;
    if (!added) { /* some of its columns may have been added */
        layouts_release(layouts);
        layouts_init(layouts, &job->budget);
    }
    buffer_release(&header);
}

/* Whether the file can be merged with files that have other columns. */
static enum hf_status check_columns(struct job *job, const struct feed *feed,
                                    struct hf_error *error)
{
    const struct layout *layout;
    struct layouts *layouts = malloc(sizeof *layouts);
    if (!layouts)
        return error_no_memory(error);
    layouts_init(layouts, &job->budget);
    if (job->options->columns_like)
        add_known_header(job, layouts);
    enum hf_status status = layouts_add(layouts, &job->asked, job->header, &layout, error);
    if (status == HF_INVALID)
        error_about(error, feed->name);
    layouts_release(layouts);
    free(layouts);
    return status;
}

/* Records are counted in any order. Nothing is compared or kept. */
static enum hf_status survey_records(struct job *job, const struct feed *feed,
                                     struct survey *survey, struct hf_error *error)
{
    struct buffer header = BUFFER_INIT(HF_MERGE_RECORD_MAX);
    struct look look = { .survey = survey };
    struct job_scan scan = { /* any_order */ true, look_at_batch, .context = &look };
    enum hf_status status = records_prepare(job, feed, 1, &header, error);
    if (status == HF_OK && job->options->distinct_columns && job->header.size > 0)
        status = check_columns(job, feed, error);
    if (status == HF_OK)
        status = job_scan(job, feed, &scan, error);
    buffer_release(&header);
    survey->rows_counted = true;
    survey->rows = scan.rows;
    if (survey->times_known) {
        survey->min_ms = instant_ms(look.first);
        survey->max_ms = ms_after(look.last);
    }
    if (survey->deletions > 0)
        survey->deletion_ms = ms_after(look.last_deletion);
    return status;
}

/* ---- The file on disk ---------------------------------------------------------------- */

static enum hf_status sum_bytes(struct job *job, int fd, char *piece, struct survey *survey,
                                struct hf_error *error)
{
    struct hash_sha256_stream sha256;
    uint64_t size = 0;
    hash_sha256_init(&sha256);
    for (;;) {
        ssize_t got = read(fd, piece, PIECE_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_from_errno(error, errno, "read");
        if (got == 0)
            break;
        size += (uint64_t)got;
        if (size > survey->size)
            break;
        struct view bytes = { piece, (size_t)got };
        survey->crc32c = crc32c(survey->crc32c, bytes);
        hash_sha256_add(&sha256, bytes);
        enum hf_status status = job_progress(job, (uint64_t)got, error);
        if (status != HF_OK)
            return status;
    }
    if (size != survey->size)
        return error_set(error, HF_UNAVAILABLE, "the file changed while it was being read");
    hash_sha256_end(&sha256, survey->sha256);
    return HF_OK;
}

static enum hf_status sum_file(struct job *job, const char *path, struct survey *survey,
                               struct hf_error *error)
{
    char *piece = malloc(PIECE_BYTES);
    if (!piece)
        return error_no_memory(error);
    enum hf_status status = HF_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        status = error_from_errno(error, errno, "open");
    else
        status = sum_bytes(job, fd, piece, survey, error);
    if (status != HF_OK && status != HF_CANCELLED)
        error_about(error, path);
    if (fd >= 0)
        close(fd);
    free(piece);
    return status;
}

/* ---- Entry points -------------------------------------------------------------------- */

enum hf_status merge_survey(struct env *env, const struct merge_options *options,
                            const char *path, struct survey *ret_survey, struct hf_error *error)
{
    struct survey survey = { .coding = merge_coding_of_name(view_of(path)) };
    struct job job;
    struct feed feed;
    enum hf_status status = job_check(options, error);
    if (status == HF_OK)
        status = feed_init(&feed, path, error);
    if (status != HF_OK)
        return status;
    survey.size = feed.size;
    job_init(&job, env, options);
    bool has_records = merge_has_records(options->format);
    job_expect(&job, has_records ? 2 * survey.size : survey.size, /* done before */ 0);
    if (options->format == HF_MERGE_PARQUET)
        status = parquet_survey(&job, path, &survey, error);
    else if (has_records)
        status = survey_records(&job, &feed, &survey, error);
    if (status == HF_OK)
        status = sum_file(&job, path, &survey, error);
    if (status == HF_OK)
        *ret_survey = survey;
    return status;
}

static enum hf_status add_size(void *context, struct view bytes, struct hf_error *error)
{
    uint64_t *size = context;
    (void)error;
    *size += bytes.size;
    return HF_OK;
}

enum hf_status merge_plain_size(struct env *env, const struct merge_options *options,
                                const char *path, uint64_t *ret_size, struct hf_error *error)
{
    struct job job;
    struct feed feed;
    uint64_t size = 0;
    enum hf_status status = feed_init(&feed, path, error);
    if (status != HF_OK)
        return status;
    job_init(&job, env, options);
    job_expect(&job, feed.size, /* done before */ 0);
    status = job_read(&job, &feed, add_size, &size, error);
    if (status == HF_OK)
        *ret_size = size;
    return status;
}
