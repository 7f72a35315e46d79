/* merge.c: the door: options, formats without records, and what every merge needs at its start and
 * end. */
#include "merge/merge.h"

#include "base/check.h"
#include "merge/command.h"
#include "merge/job.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- Names --------------------------------------------------------------------------- */

static const char *const format_names[] = {
    [MERGE_USV] = "usv",       [MERGE_CSV] = "csv",       [MERGE_TSV] = "tsv",
    [MERGE_NDJSON] = "ndjson", [MERGE_CONCAT] = "concat", [MERGE_EXEC] = "exec",
};

static const char *const coding_names[] = {
    [MERGE_PLAIN] = "none",
    [MERGE_GZIP] = "gzip",
    [MERGE_ZSTD] = "zstd",
};

const char *merge_format_name(enum merge_format format)
{
    return format_names[format];
}

const char *merge_coding_name(enum merge_coding coding)
{
    return coding_names[coding];
}

enum hf_status merge_format_parse(struct view text, enum merge_format *ret_format,
                                  struct hf_error *error)
{
    for (int i = 0; i < MERGE_FORMAT_COUNT; i++)
        if (view_equal(text, view_of(format_names[i]))) {
            *ret_format = (enum merge_format)i;
            return HF_OK;
        }
    return error_set(error, HF_INVALID,
                     "'%.*s' is not a format; there are usv, csv, tsv, ndjson, concat and exec",
                     VIEW_ARGS(view_first(text, 40)));
}

enum merge_coding merge_coding_of_name(struct view name)
{
    if (view_ends_with(name, VIEW(".gz")))
        return MERGE_GZIP;
    return view_ends_with(name, VIEW(".zst")) ? MERGE_ZSTD : MERGE_PLAIN;
}

enum hf_status merge_coding_parse(struct view text, enum merge_coding *ret_coding,
                                  struct hf_error *error)
{
    for (int i = 0; i < MERGE_CODING_COUNT; i++)
        if (view_equal(text, view_of(coding_names[i]))) {
            *ret_coding = (enum merge_coding)i;
            return HF_OK;
        }
    return error_set(error, HF_INVALID, "'%.*s' is no compression; there are none, gzip, zstd",
                     VIEW_ARGS(view_first(text, 40)));
}

/* ---- Before the work ----------------------------------------------------------------- */

static enum hf_status check_options(const struct merge_options *options, size_t input_count,
                                    const char *output, struct hf_error *error)
{
    if (input_count == 0 || input_count > MERGE_INPUTS_MAX)
        return error_set(error, HF_INVALID, "1 to %d inputs can be merged, not %zu",
                         MERGE_INPUTS_MAX, input_count);
    if (options->threads < 1 || options->threads > MERGE_THREADS_MAX)
        return error_set(error, HF_INVALID, "1 to %d threads can merge, not %zu",
                         MERGE_THREADS_MAX, options->threads);
    check(!job_has_records(options->format) || options->reject_path);
    if (strlen(output) >= PATH_MAX)
        return error_set(error, HF_INVALID, "the output's path is too long");
    if (options->format == MERGE_EXEC && options->coding != MERGE_PLAIN)
        return error_set(error, HF_INVALID, "what a command writes is not compressed for it");
    return job_check(options, error);
}

static enum hf_status stat_inputs(struct job *job, const char *const *inputs, size_t count,
                                  struct feed *feeds, struct hf_error *error)
{
    for (size_t i = 0; i < count; i++) {
        struct stat info;
        enum hf_status status = HF_OK;
        if (stat(inputs[i], &info) != 0)
            status = error_cannot_open(error, errno, inputs[i]);
        else if (!S_ISREG(info.st_mode))
            status = error_set(error, HF_INVALID, "'%.*s' is %s", ERROR_PATH_MAX, inputs[i],
                               S_ISDIR(info.st_mode) ? "a folder, not a file"
                                                     : "not a regular file");
        if (status != HF_OK)
            return status;
        feeds[i] = (struct feed){ .path = inputs[i], .run = -1 };
        feeds[i].size = (uint64_t)info.st_size;
        job->result.bytes_in += feeds[i].size;
    }
    return HF_OK;
}

/* Whether two names stand for one file, now or once it is there. */
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

/* An input may be replaced by the output, which has all of it; by its rejects never. */
static enum hf_status check_rejects(const struct job *job, const struct feed *feeds,
                                    size_t count, struct hf_error *error)
{
    const char *rejects = job->options->reject_path;
    if (is_same_file(rejects, job->output))
        return error_set(error, HF_INVALID, "output and reject file are the same");
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
    for (size_t i = 0; status == HF_OK && i < count; i++)
        status = job_read(job, &feeds[i], copy_bytes, &sink, error);
    if (status == HF_OK)
        status = job_keep(job, &sink, error);
    job_release(job, JOB_OUTPUT, &sink);
    return status;
}

/* With less room than this a disk is full. */
#define DISK_FULL_BYTES (1 * MIB)

/* Of what a command wrote nobody else knows; to be asked before it is removed. */
static bool is_disk_full(const char *path)
{
    struct statvfs info;
    char folder[PATH_MAX];
    return statvfs(folder_of(path, folder), &info) == 0 &&
           (uint64_t)info.f_bavail * info.f_frsize < DISK_FULL_BYTES;
}

static enum hf_status run_command(struct job *job, const char *const *inputs, size_t count,
                                  struct new_file *file, struct hf_error *error)
{
    const struct merge_command *command = &job->options->command;
    struct arena arena = ARENA_INIT;
    char **words;
    enum hf_status status =
        command_words(command->line, inputs, count, file->scratch, &arena, &words, error);
    if (status == HF_OK && command->program) {
        size_t size = strlen(command->program) + 1;
        words[0] = arena_take(&arena, size);
        if (words[0])
            memcpy(words[0], command->program, size);
        else
            status = error_no_memory(error);
    }
    if (status == HF_OK)
        status = command_try(job->env, words, command, &job->options->progress,
                             &job->result.command_ended, error);
    job->result.disk_full = status != HF_OK && is_disk_full(job->output);
    arena_release(&arena);
    if (status != HF_OK)
        return status;
    struct stat info = { 0 };
    status = new_file_take(file, error);
    bool durable = !job->options->intermediate;
    if (status == HF_OK && ((durable && fsync(file->fd) != 0) || fstat(file->fd, &info) != 0))
        status = error_from_errno(error, errno, "sync its output");
    if (status != HF_OK)
        error_prefix(error, "the command ended well, but");
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
        status = run_command(job, inputs, count, &file, error);
    if (status == HF_OK)
        status = new_file_keep(&file, error);
    new_file_release(&file);
    return status;
}

/* ---- The door ------------------------------------------------------------------------ */

static enum hf_status run_job(struct job *job, const char *const *inputs, size_t count,
                              struct hf_error *error)
{
    struct feed *feeds = calloc(count, sizeof *feeds);
    if (!feeds)
        return error_no_memory(error);
    enum hf_status status = stat_inputs(job, inputs, count, feeds, error);
    job->bytes_total = job->result.bytes_in;
    if (status == HF_OK && job_has_records(job->options->format)) {
        status = check_rejects(job, feeds, count, error);
        if (status == HF_OK)
            status = records_merge(job, feeds, count, error);
    } else if (status == HF_OK && job->options->format == MERGE_CONCAT) {
        status = merge_concat(job, feeds, count, error);
    } else if (status == HF_OK) {
        status = merge_exec(job, inputs, count, error);
    }
    free(feeds);
    return status;
}

enum hf_status merge_files(struct env *env, const struct merge_options *options,
                           const char *const *inputs, size_t input_count, const char *output,
                           struct merge_result *ret_result, struct hf_error *error)
{
    struct hf_error unasked;
    char folder[PATH_MAX];
    if (!error)
        error = &unasked;
    error_clear(error);
    *ret_result = (struct merge_result){ 0 };
    enum hf_status status = check_options(options, input_count, output, error);
    if (status != HF_OK)
        return status;
    struct job job;
    job_init(&job, env, options);
    job.output = output;
    job.scratch_folder = options->scratch_folder;
    if (!job.scratch_folder)
        job.scratch_folder = folder_of(output, folder);
    status = run_job(&job, inputs, input_count, error);
    *ret_result = job.result;
    return status;
}
