/* SPDX-License-Identifier: Apache-2.0 */
/* merge.c: the entry point: checks the options, and merges formats without records (concat, exec).
 * Prevents a reject file that would overwrite an input or the output, and an incomplete output
 * under its final name. */
#include "merge/merge.h"

#include "base/check.h"
#include "merge/command.h"
#include "merge/job.h"
#include "merge/parquet.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Names --------------------------------------------------------------------------- */

enum hf_status merge_format_parse(struct view text, enum hf_merge_format *ret_format,
                                  struct hf_error *error)
{
    for (int i = 0; i < HF_MERGE_FORMAT_COUNT; i++) {
        enum hf_merge_format format = (enum hf_merge_format)i;
        if (view_equal(text, view_of(hf_merge_format_name(format)))) {
            *ret_format = format;
            return HF_OK;
        }
    }
    return error_set(
        error, HF_INVALID,
        "unknown format '%.*s': use usv, csv, tsv, ndjson, parquet, concat or exec",
        VIEW_ARGS(view_first(text, 40)));
}

enum hf_merge_coding merge_coding_of_name(struct view name)
{
    if (view_ends_with(name, VIEW(".gz")))
        return HF_MERGE_GZIP;
    return view_ends_with(name, VIEW(".zst")) ? HF_MERGE_ZSTD : HF_MERGE_PLAIN;
}

enum hf_status merge_coding_parse(struct view text, enum hf_merge_coding *ret_coding,
                                  struct hf_error *error)
{
    for (int i = HF_MERGE_PLAIN; i < HF_MERGE_CODING_COUNT; i++) {
        enum hf_merge_coding coding = (enum hf_merge_coding)i;
        if (view_equal(text, view_of(hf_merge_coding_name(coding)))) {
            *ret_coding = coding;
            return HF_OK;
        }
    }
    return error_set(error, HF_INVALID, "unknown compression '%.*s': use none, gzip or zstd",
                     VIEW_ARGS(view_first(text, 40)));
}

/* ---- Before the work ----------------------------------------------------------------- */

static enum hf_status check_merge_options(const struct merge_options *options,
                                          const struct merge_paths *paths,
                                          struct hf_error *error)
{
    if (paths->input_count == 0 || paths->input_count > MERGE_INPUTS_MAX)
        return error_set(error, HF_INVALID, "1 to %d inputs can be merged, not %zu",
                         MERGE_INPUTS_MAX, paths->input_count);
    if (options->threads < 1 || options->threads > HF_MERGE_THREADS_MAX)
        return error_set(error, HF_INVALID, "a merge can use 1 to %d threads, not %zu",
                         HF_MERGE_THREADS_MAX, options->threads);
    check(!merge_has_records(options->format) || options->reject_path);
    if (strlen(paths->output) >= PATH_MAX)
        return error_set(error, HF_INVALID, "the output's path is too long");
    if (options->format == HF_MERGE_EXEC && options->coding != HF_MERGE_PLAIN)
        return error_set(error, HF_INVALID,
                         "the output of a command cannot be compressed by holdfast");
    if (options->format == HF_MERGE_PARQUET && options->memory_bytes < PARQUET_MEMORY_MIN)
        return error_set(error, HF_INVALID,
                         "a merge of Parquet files needs at least 128 MiB of "
                         "memory");
    if (options->format == HF_MERGE_PARQUET && options->coding != HF_MERGE_PLAIN)
        return error_set(error, HF_INVALID,
                         "a Parquet file compresses its own columns; it cannot be compressed "
                         "again");
    return job_check(options, error);
}

/* Whether two paths are the same file, now or once it exists. */
static bool is_same_file(const char *a, const char *b)
{
    struct stat info_a, info_b;
    const char *slash_a = strrchr(a, '/'), *slash_b = strrchr(b, '/');
    if (stat(a, &info_a) == 0 && stat(b, &info_b) == 0)
        return info_a.st_dev == info_b.st_dev && info_a.st_ino == info_b.st_ino;
    if (strcmp(slash_a ? slash_a + 1 : a, slash_b ? slash_b + 1 : b) != 0)
        return false;
    char folder_a[PATH_MAX], folder_b[PATH_MAX];
    return stat(folder_of(a, folder_a), &info_a) == 0 &&
           stat(folder_of(b, folder_b), &info_b) == 0 && info_a.st_dev == info_b.st_dev &&
           info_a.st_ino == info_b.st_ino;
}

/* The output may replace an input, because it contains the records of that input. The reject file
 * must not. */
static enum hf_status check_rejects(const struct job *job, const struct feed *feeds,
                                    size_t count, struct hf_error *error)
{
    const char *rejects = job->options->reject_path;
    if (is_same_file(rejects, job->output))
        return error_set(error, HF_INVALID,
                         "the output and the reject file must not be the same");
    for (size_t i = 0; i < count; i++)
        if (is_same_file(rejects, feeds[i].path))
            return error_set(error, HF_INVALID, "the reject file %.*s is one of the inputs",
                             VIEW_ARGS(view_first(view_of(rejects), 120)));
    return HF_OK;
}

/* ---- Formats without records --------------------------------------------------------- */

static enum hf_status copy_bytes(void *context, struct view bytes, struct hf_error *error)
{
    struct sink *sink = context;
    return sink_add(sink, bytes) ? HF_OK : sink_status(sink, error);
}

static enum hf_status merge_concat(struct job *job, const struct feed *feeds, size_t count,
                                   struct hf_error *error)
{
    struct sink sink;
    enum hf_status status = job_create(job, JOB_OUTPUT, &sink, error);
    if (status != HF_OK)
        return status;
    for (size_t i = 0; i < count; i++) {
        status = job_read(job, &feeds[i], copy_bytes, &sink, error);
        if (status != HF_OK)
            break;
    }
    if (status == HF_OK)
        status = job_progress_end(job, error);
    if (status == HF_OK)
        status = job_keep(job, &sink, error);
    job_release(job, JOB_OUTPUT, &sink);
    return status;
}

static enum hf_status merge_by_command(struct job *job, const char *const *inputs, size_t count,
                                       struct new_file *file, struct hf_error *error)
{
    const struct merge_command *command = &job->options->command;
    struct arena arena = ARENA_INIT;
    char **words;
    enum hf_status status =
        command_words(command->line, &(struct merge_paths){ inputs, count, file->scratch },
                      &arena, &words, error);
    if (status == HF_OK && command->program) {
        size_t size = strlen(command->program) + 1;
        words[0] = arena_take(&arena, size);
        if (words[0])
            memcpy(words[0], command->program, size);
        else
            status = error_no_memory(error);
    }
    if (status == HF_OK)
        status = command_run(job->env, words, command, &job->options->progress,
                             &job->result.command_ended, error);
    job->result.disk_full = status != HF_OK && job_disk_is_full(job);
    arena_release(&arena);
    if (status != HF_OK)
        return status;
    struct stat info = { 0 };
    status = new_file_take(file, error);
    bool durable = !job->options->intermediate;
    if (status == HF_OK && ((durable && fsync(file->fd) != 0) || fstat(file->fd, &info) != 0))
        status = error_from_errno(error, errno, "sync its output");
    if (status != HF_OK)
        error_prefix(error, "the command succeeded, but");
    job->result.bytes_out = (uint64_t)info.st_size;
    return status;
}

static enum hf_status merge_exec(struct job *job, const char *const *inputs, size_t count,
                                 struct hf_error *error)
{
    struct new_file file;
    enum hf_status status =
        new_file_reserve(&file, job->env, job->output, job_watch(job, JOB_OUTPUT), error);
    if (status != HF_OK)
        error_about(error, job->output);
    if (status == HF_OK)
        status = merge_by_command(job, inputs, count, &file, error);
    if (status == HF_OK)
        status = new_file_keep(&file, error);
    new_file_release(&file);
    return status;
}

/* ---- Entry points -------------------------------------------------------------------- */

static enum hf_status merge_inputs(struct job *job, const char *const *inputs, size_t count,
                                   struct hf_error *error)
{
    struct feed *feeds = calloc(count, sizeof *feeds);
    if (!feeds)
        return error_no_memory(error);
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < count; i++) {
        status = feed_init(&feeds[i], inputs[i], error);
        if (status != HF_OK)
            break;
        if (job->options->input_names)
            feeds[i].name = job->options->input_names[i];
        feeds[i].given = i;
        if (job->options->input_sums)
            feeds[i].sum = &job->options->input_sums[i];
        job->result.bytes_in += feeds[i].size;
    }
    job_expect(job, job->result.bytes_in, job->options->progress.done_before);
    if (status == HF_OK && merge_has_records(job->options->format)) {
        status = check_rejects(job, feeds, count, error);
        if (status == HF_OK && merge_is_text(job->options->format))
            status = records_merge(job, feeds, count, error);
        else if (status == HF_OK)
            status = parquet_merge(job, inputs, count, error);
    } else if (status == HF_OK && job->options->format == HF_MERGE_CONCAT) {
        status = merge_concat(job, feeds, count, error);
    } else if (status == HF_OK) {
        status = merge_exec(job, inputs, count, error);
    }
    free(feeds);
    return status;
}

enum hf_status merge_files(struct env *env, const struct merge_options *options,
                           const struct merge_paths *paths, struct merge_result *ret_result,
                           struct hf_error *error)
{
    struct hf_error unasked;
    char folder[PATH_MAX];
    if (!error)
        error = &unasked;
    error_clear(error);
    *ret_result = (struct merge_result){ 0 };
    enum hf_status status = check_merge_options(options, paths, error);
    if (status != HF_OK)
        return status;
    struct job job;
    job_init(&job, env, options);
    job.output = paths->output;
    job.scratch_folder = options->scratch_folder;
    if (!job.scratch_folder)
        job.scratch_folder = folder_of(paths->output, folder);
    status = merge_inputs(&job, paths->inputs, paths->input_count, error);
    *ret_result = job.result;
    return status;
}
