/* SPDX-License-Identifier: Apache-2.0 */
/* file_merger.c: the real merger: fetches the sources into files, checks them, merges them into one
 * file, and puts that file. The files are always removed. A chunk is blamed only for a failure that
 * it is known to have caused, because blame leads to quarantine. */
#include "base/buffer.h"
#include "base/hash.h"
#include "base/layout.h"
#include "base/parse.h"
#include "base/rule.h"
#include "compact/work/merger_inside.h"
#include "merge/parquet.h"
#include "merge/parquet_footer.h"
#include "merge/survey.h"
#include "store/retry.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Whether to go on ---------------------------------------------------------------- */

bool merge_goes_on(struct merge_run *run, uint64_t done)
{
    const struct merge_order *order = run->order;
    if (done > run->shown)
        run->shown = done; /* less if a source is read again */
    if (!atomic_load(&run->stop) && order->go_on &&
        !order->go_on(order->argument, run->shown, 2 * run->bytes))
        atomic_store(&run->stop, true);
    return !atomic_load(&run->stop);
}

static bool merge_step(void *argument, uint64_t done, uint64_t total)
{
    struct merge_run *run = argument;
    double share = total > 0 ? (double)done / (double)total : 0; /* 0: a process is at work */
    return merge_goes_on(run,
                         run->bytes + (uint64_t)((double)run->bytes * (share < 1 ? share : 1)));
}

static bool put_progress(void *argument, uint64_t done, uint64_t total)
{
    struct merge_run *run = argument;
    (void)done;
    (void)total;
    return merge_goes_on(run, 2 * run->bytes);
}

enum hf_status merge_cancelled(struct hf_error *error)
{
    return error_set(error, HF_CANCELLED, "stopped by the caller");
}

/* ---- Files --------------------------------------------------------------------------- */

enum hf_status merge_local_failure(struct hf_error *error, int errno_value, const char *what)
{
    error_from_errno(error, errno_value, what);
    error->status = HF_UNAVAILABLE;
    return HF_UNAVAILABLE;
}

const char *merge_scratch_path(struct merge_run *run, const char *name)
{
    char path[PATH_MAX];
    int size = snprintf(path, sizeof path, "%s/%s", run->folder, name);
    if (size < 0 || size >= (int)sizeof path)
        return NULL;
    return arena_copy(&run->arena, (struct view){ path, (size_t)size }).data;
}

/* A disk with less free space than this counts as full. */
#define DISK_FULL_BYTES (1 * MIB)

bool merge_disk_is_full(struct merge_run *run)
{
    if (scratch_room(run->folder).free >= DISK_FULL_BYTES)
        return false;
    atomic_store(&run->disk_full, true);
    return true;
}

enum hf_status file_checksum(int fd, const char *what, uint64_t *ret_size, uint32_t *ret_crc,
                             struct hf_error *error)
{
    char *block = malloc(STREAM_PIECE);
    uint64_t size = 0;
    uint32_t crc = 0;
    ssize_t got;
    if (!block)
        return error_no_memory(error);
    do {
        do
            got = pread(fd, block, STREAM_PIECE, (off_t)size);
        while (got < 0 && errno == EINTR);
        if (got > 0) {
            crc = crc32c(crc, (struct view){ block, (size_t)got });
            size += (uint64_t)got;
        }
    } while (got > 0);
    int failed = errno;
    free(block);
    if (got < 0)
        return merge_local_failure(error, failed, what);
    *ret_size = size;
    *ret_crc = crc;
    return HF_OK;
}

/* ---- Merging ------------------------------------------------------------------------- */

static struct merge_options record_options(const struct merge_run *run)
{
    struct merge_options options = compact_chunk_options(run->order->settings);
    options.memory_bytes = run->order->memory_bytes;
    if (options.format == HF_MERGE_PARQUET && options.memory_bytes < PARQUET_MEMORY_MIN)
        options.memory_bytes = PARQUET_MEMORY_MIN;
    return options;
}

static struct merge_options make_merge_options(struct merge_run *run)
{
    const struct compact_settings *settings = run->order->settings;
    uint64_t sources = run->order->source_count;
    struct merge_options options = record_options(run);
    options.coding = settings->coding;
    options.drop_deleted = options.inputs_are_all = run->order->drops_markers;
    /* The limit applies per source, so a merge of accepted chunks never exceeds it. If a merge does
     * exceed it, one of the sources is to blame. */
    options.rejects_max = settings->rejects_max > HF_MERGE_REJECTS_ANY / sources
                              ? HF_MERGE_REJECTS_ANY
                              : settings->rejects_max * sources;
    options.threads = run->files->threads;
    options.reject_path = run->rejects;
    options.scratch_folder = run->folder;
    options.intermediate = true;
    options.input_sums = run->sums;
    /* A store that lends files also takes ownership of the output file, and syncs it. */
    for (size_t i = 0; i < sources; i++)
        options.synced_later |= run->lent[i].fd >= 0;
    options.progress.step = merge_step;
    options.progress.context = run;
    options.command.time_limit = SPAN_MS(settings->command_limit_ms);
    if (settings->command.size > 0) {
        options.format = HF_MERGE_EXEC;
        options.key = options.time = (struct view){ NULL, 0 };
        options.coding = HF_MERGE_PLAIN;
        options.command.line = settings->command;
        options.command.program = run->program;
        options.command.memory_bytes_max = run->files->exec.memory_bytes_max;
        options.command.file_bytes_max = run->files->exec.file_bytes_max;
        options.command.cpu_limit = run->files->exec.cpu_limit;
    }
    return options;
}

static void name_keys(const struct merge_run *run, struct hf_error *error)
{
    for (size_t i = 0; i < run->order->source_count; i++)
        scratch_rename(error, run->paths[i], run->order->sources[i].key);
    scratch_rename(error, run->output, run->order->output);
}

static size_t source_with_most_rows(const struct merge_order *order)
{
    size_t most = 0;
    for (size_t i = 1; i < order->source_count; i++)
        if (order->sources[i].rows > order->sources[most].rows)
            most = i;
    return most;
}

/* After a failed merge, or a wrong number of rows: checks the sources one by one to find the
 * culprit. Whether their bytes match the catalog is checked after this; if they do, a faulty source
 * was already faulty when it was put. Sources that are fine by themselves may disagree about a
 * field that is given by number, if they were ingested at the same time: then the one with the most
 * rows is right, as for ingest, and the error becomes that of the culprit. */
static void find_culprit(struct merge_run *run, struct hf_error *error)
{
    const struct merge_order *order = run->order;
    struct merge_options options = record_options(run);
    struct survey survey;
    struct hf_error found;
    bool has_header = options.format == HF_MERGE_CSV || options.format == HF_MERGE_TSV;
    size_t usual = source_with_most_rows(order);
    if (!merge_has_records(options.format) || order->parts)
        return; /* nothing is known about a part of a source */
    for (size_t i = 0; i < order->source_count; i++) {
        if (!merge_goes_on(run, 2 * run->bytes))
            return;
        options.columns_like = has_header && i != usual ? run->paths[usual] : NULL;
        enum hf_status status =
            merge_survey(run->files->env, &options, run->paths[i], &survey, &found);
        bool unreadable = status == HF_CORRUPT || status == HF_INVALID;
        bool other = status == HF_OK && survey.rows_counted &&
                     ((order->sources[i].rows_known && survey.rows != order->sources[i].rows) ||
                      survey.malformed > order->settings->rejects_max);
        if (unreadable || other) {
            run->product->culprit = i;
            if (status == HF_INVALID && options.columns_like) {
                name_keys(run, &found);
                *error = found;
            }
            return;
        }
    }
}

/* A missing program or a full disk is a failure of this machine, so nobody is blamed. If a command
 * or Parquet's helper fails, its input may be the cause. */
static enum hf_status blame_merge(struct merge_run *run, enum hf_status status,
                                  const struct merge_result *result, struct hf_error *error)
{
    bool command = run->order->settings->command.size > 0;
    bool in_data = status == HF_INVALID || status == HF_CORRUPT || status == HF_UNSUPPORTED;
    if (status == HF_CANCELLED)
        return status;
    bool missing = status == HF_UNSUPPORTED && run->order->settings->format == HF_MERGE_PARQUET;
    if (missing && !command)
        return status;
    if (result->culprit > 0)
        run->product->culprit = result->culprit - 1;
    else if (in_data && !command)
        find_culprit(run, error);
    bool by_command = result->command_ended && !result->disk_full;
    run->product->group_fault = by_command || (in_data && !command);
    return status;
}

/* The number of rows of all sources together; false if it is not known for all of them. */
static bool rows_of_sources(const struct merge_order *order, uint64_t *ret_rows)
{
    *ret_rows = 0;
    for (size_t i = 0; i < order->source_count; i++) {
        if (!order->sources[i].rows_known)
            return false;
        *ret_rows += order->sources[i].rows;
    }
    return true;
}

static enum hf_status check_merged_rows(struct merge_run *run,
                                        const struct merge_result *result,
                                        struct hf_error *error)
{
    struct merge_product *product = run->product;
    uint64_t expected;
    product->rows_known = result->rows_counted;
    product->rows_in = result->rows_in;
    product->rows_out = result->rows_out;
    product->rows_superseded = result->rows_superseded;
    product->rows_rejected = result->rows_rejected;
    product->key_kinds = result->key_kinds;
    product->rows_deleted = result->rows_deleted;
    product->markers_counted = result->rows_counted;
    product->markers_kept = result->deletions_kept;
    product->markers_dropped = run->order->drops_markers && result->rows_counted;
    if (run->order->parts || !result->rows_counted || !rows_of_sources(run->order, &expected) ||
        expected == result->rows_in)
        return HF_OK;
    find_culprit(run, error);
    product->group_fault = true;
    return error_set(error, HF_CORRUPT,
                     "%" PRIu64 " rows were read, but the catalog records %" PRIu64,
                     result->rows_in, expected);
}

/* ---- Commands ------------------------------------------------------------------------ */

static enum hf_status check_sources_unchanged(struct merge_run *run, struct hf_error *error)
{
    for (size_t i = 0; i < run->order->source_count; i++) {
        const struct chunk *source = &run->order->sources[i];
        uint64_t size = 0;
        uint32_t crc = 0;
        int fd = open(run->paths[i], O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        enum hf_status status = fd < 0
                                    ? merge_local_failure(error, errno, "open a source again")
                                    : file_checksum(fd, "read back", &size, &crc, error);
        if (fd >= 0)
            close(fd);
        bool same = size == source->size && crc == source->crc32c;
        if (status != HF_OK || (RULE(CHECKSUM_ON_READ) && !same))
            return error_set(error, HF_CORRUPT, "it changed or removed its input %.*s",
                             VIEW_ARGS(view_first(source->key, 120)));
    }
    return HF_OK;
}

/* A program with a merger of its own for Parquet need not have DuckDB: then only the footer of the
 * output is read. */
static enum hf_status survey_output(const struct merge_run *run,
                                    const struct merge_options *options,
                                    struct survey *ret_survey, struct hf_error *error)
{
    struct parquet_footer footer;
    enum hf_status status =
        merge_survey(run->files->env, options, run->output, ret_survey, error);
    if (status != HF_UNSUPPORTED || options->format != HF_MERGE_PARQUET)
        return status;
    status = parquet_footer_of(run->output, run->output, &footer, error);
    if (status == HF_OK)
        *ret_survey = (struct survey){ .rows_counted = true, .rows = footer.rows };
    return status;
}

/* Counts the rows that a command wrote. A command must not write more rows than it read, and must
 * write at least one if it read any. */
static enum hf_status check_command_rows(struct merge_run *run, struct hf_error *error)
{
    struct merge_product *product = run->product;
    struct merge_options options = record_options(run);
    struct survey survey;
    uint64_t rows_in;
    if (!merge_has_records(options.format) || !rows_of_sources(run->order, &rows_in))
        return HF_OK;
    enum hf_status status = survey_output(run, &options, &survey, error);
    if (status == HF_CORRUPT || status == HF_INVALID)
        return error_set(error, HF_CORRUPT, "its output cannot be read as %s",
                         hf_merge_format_name(options.format));
    if (status != HF_OK || !survey.rows_counted)
        return status;
    if (survey.rows > rows_in || (survey.rows == 0 && rows_in > 0))
        return error_set(error, HF_CORRUPT, "it wrote %" PRIu64 " rows from %" PRIu64,
                         survey.rows, rows_in);
    if (survey.malformed > run->order->settings->rejects_max)
        return error_set(error, HF_CORRUPT, "%" PRIu64 " rows in its output cannot be read",
                         survey.malformed);
    product->rows_known = true;
    product->rows_in = rows_in;
    product->rows_out = survey.rows;
    product->rows_superseded = rows_in - survey.rows;
    return HF_OK;
}

/* Checks the output of a command or of the caller's merger. If the format has rows, they are
 * counted here, because the merger's own count is not trusted. */
static enum hf_status check_made(struct merge_run *run, struct hf_error *error)
{
    struct stat info;
    enum hf_status status = check_sources_unchanged(run, error);
    if (status == HF_OK && (lstat(run->output, &info) != 0 || !S_ISREG(info.st_mode)))
        status = error_set(error, HF_CORRUPT, "it wrote no output file");
    else if (status == HF_OK && info.st_size == 0 && run->bytes > 0)
        status = error_set(error, HF_CORRUPT, "its output file is empty");
    if (status == HF_OK)
        status = check_command_rows(run, error);
    if (status != HF_CORRUPT)
        return status;
    run->product->group_fault = true;
    error_prefix(error, "the %s succeeded, but",
                 run->files->callback.merge ? "merger" : "command");
    return status;
}

/* A command may write this many bytes more than its sources contain when decompressed. */
#define COMMAND_BYTES_MORE (16 * MIB)

/* The largest file that a command may write; 0: unknown, because the decompressed size of a source
 * is unknown. */
static uint64_t command_bytes_max(struct merge_run *run)
{
    struct merge_options options = record_options(run);
    uint64_t all = 0, size = 0;
    struct hf_error error;
    for (size_t i = 0; i < run->order->source_count; i++) {
        if (!merge_is_text(options.format) || !merge_goes_on(run, run->bytes) ||
            merge_plain_size(run->files->env, &options, run->paths[i], &size, &error) != HF_OK)
            return 0;
        all += size;
    }
    return all + COMMAND_BYTES_MORE;
}

/* ---- The caller's merger ------------------------------------------------------------- */

static bool task_goes_on(void *argument, uint64_t done)
{
    struct merge_run *run = argument;
    return merge_goes_on(run, run->bytes + (done < run->bytes ? done : run->bytes));
}

/* The caller's merger knows its own data, so its blame is accepted. If it fails for any reason
 * other than the data, nobody is blamed. */
static enum hf_status merge_by_merger(struct merge_run *run, struct hf_error *error)
{
    const struct merge_callback *callback = &run->files->callback;
    const struct merge_task task = { .order = run->order,
                                     .paths = run->paths,
                                     .output = run->output,
                                     .folder = run->folder,
                                     .goes_on = task_goes_on,
                                     .argument = run };
    struct merge_product *product = run->product;
    error_clear(error);
    enum hf_status status = callback->merge(callback->argument, &task, product, error);
    bool in_data = status == HF_CORRUPT || status == HF_INVALID;
    if (!in_data || product->culprit >= run->order->source_count)
        product->culprit = MERGE_NO_CULPRIT;
    if (status == HF_OK)
        return check_made(run, error);
    if (error->status != status)
        error_set(error, status, "the merger failed without giving a reason");
    name_keys(run, error);
    product->group_fault = in_data;
    merge_disk_is_full(run);
    return status;
}

static enum hf_status merge_sources(struct merge_run *run, uint32_t *ret_crc,
                                    struct hf_error *error)
{
    struct merge_options options = make_merge_options(run);
    struct merge_result result;
    if (run->files->callback.merge)
        return merge_by_merger(run, error);
    if (options.format == HF_MERGE_EXEC) {
        uint64_t *limit = &options.command.file_bytes_max, most = command_bytes_max(run);
        if (*limit == 0 || (most > 0 && most < *limit))
            *limit = most;
    }
    enum hf_status status =
        merge_files(run->files->env, &options,
                    &(struct merge_paths){ run->paths, run->order->source_count, run->output },
                    &result, error);
    if (status != HF_OK) {
        if (result.disk_full)
            atomic_store(&run->disk_full, true);
        name_keys(run, error);
        return blame_merge(run, status, &result, error);
    }
    *ret_crc = result.crc32c;
    if (merge_check_sums(run, error) != HF_OK)
        return error->status;
    if (run->order->parts && result.inputs_unsorted > 0) {
        run->product->group_fault = true;
        return error_set(error, HF_CORRUPT, "a source is not sorted by key");
    }
    if (options.format == HF_MERGE_EXEC)
        return check_made(run, error);
    return check_merged_rows(run, &result, error);
}

/* ---- Putting ------------------------------------------------------------------------- */

/* The put was refused because an object exists. It may be ours: an earlier attempt may have landed
 * although its reply was lost. CONFLICT: the object differs from the output. */
static enum hf_status compare_output(struct merge_run *run, struct hf_error *error)
{
    const struct progress progress = { put_progress, run };
    const char *path = merge_scratch_path(run, "compare");
    uint64_t size = 0;
    uint32_t crc = 0;
    int fd = path ? open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    if (fd < 0)
        return merge_local_failure(error, path ? errno : ENOMEM, "create a scratch file");
    const struct chunk output = { .key = run->order->output };
    enum hf_status status = merge_get_object(run, &output, fd, &progress, error);
    if (status == HF_OK)
        status = file_checksum(fd, "read back", &size, &crc, error);
    close(fd);
    if (status == HF_OK && (size != run->product->size || crc != run->product->crc32c))
        status =
            error_set(error, HF_CONFLICT, "another object exists under the name of the output");
    return status;
}

/* Repeats the put until it is answered. Nobody else uses this name, so repeating the put is
 * harmless. */
static enum hf_status put_until_answered(struct merge_run *run, struct view key, int fd,
                                         enum condition_kind kind, struct hf_error *error)
{
    /* A file that another process has written may still be open for writing there, so it is
     * copied. */
    bool give = !merge_by_callback(run);
    struct file_merger *files = run->files;
    const struct progress progress = { put_progress, run };
    enum hf_status status = HF_OK;
    struct retry retry = {
        .store = files->store, .pause = TRY_WAIT, .left = TRIES_MAX - 1, .progress = &progress
    };
    do {
        struct put_call call = {
            .key = key, .condition.kind = kind, .quiet = true, .give = give
        };
        status = store_put_file(files->store, &call, fd, &progress);
        *error = call.error;
    } while (retry_after(&retry, status));
    return status;
}

/* Rejected rows are stored before the output can be committed. Otherwise a crash after the commit
 * would lose them. */
static enum hf_status put_rejects(struct merge_run *run, struct hf_error *error)
{
    struct merge_product *product = run->product;
    if (product->rows_rejected == 0)
        return HF_OK;
    int size = snprintf(product->rejects, sizeof product->rejects, "%s%.*s%s",
                        LAYOUT_KEPT_FOLDER, VIEW_ARGS(run->order->output), LAYOUT_REJECTS);
    if (size < 0 || size >= (int)sizeof product->rejects)
        return error_set(error, HF_INVALID, "the output's name is too long");
    int fd = open(run->rejects, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return merge_local_failure(error, errno, "open the rejected rows");
    enum hf_status status =
        put_until_answered(run, view_of(product->rejects), fd, CONDITION_ALWAYS, error);
    close(fd);
    return status;
}

static enum hf_status put_output(struct merge_run *run, uint32_t crc, struct hf_error *error)
{
    struct merge_product *product = run->product;
    struct stat info;
    int fd = open(run->output, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &info) != 0) {
        merge_local_failure(error, errno, "open the merged file");
        if (fd >= 0)
            close(fd);
        return error->status;
    }
    product->size = (uint64_t)info.st_size;
    product->crc32c = crc;
    enum hf_status status = HF_OK;
    if (merge_by_callback(run))
        status = file_checksum(fd, "read back", &product->size, &product->crc32c, error);
    if (status == HF_OK)
        status = put_rejects(run, error);
    if (status == HF_OK && !merge_goes_on(run, 2 * run->bytes))
        status = merge_cancelled(error);
    if (status == HF_OK) {
        /* From here on the object may exist, so a job that fails must condemn its name. */
        product->put_sent = true;
        status = put_until_answered(run, run->order->output, fd, CONDITION_ABSENT, error);
        if (status == HF_UNSUPPORTED) /* too large for a condition; as in an ingest */
            status = put_until_answered(run, run->order->output, fd, CONDITION_ALWAYS, error);
        if (status == HF_CONFLICT)
            status = compare_output(run, error);
    }
    close(fd);
    return status;
}

/* ---- The merger ----------------------------------------------------------------------- */

static enum hf_status name_files(struct merge_run *run, struct hf_error *error)
{
    const struct merge_order *order = run->order;
    size_t count = order->source_count;
    struct lent *lent = arena_take(&run->arena, count * sizeof *lent);
    run->paths = arena_take(&run->arena, count * sizeof *run->paths);
    run->copies = arena_take(&run->arena, count * sizeof *run->copies);
    run->output = merge_scratch_path(run, "output");
    run->rejects = merge_scratch_path(run, "rejects");
    bool has_memory = lent && run->paths && run->copies && run->output && run->rejects;
    if (!has_memory)
        return error_no_memory(error);
    run->lent = lent;
    for (size_t i = 0; i < count; i++) {
        lent[i].fd = -1;
        /* File names are numbered and keep the extension of the key, because a command may rely on
         * it. */
        char name[80];
        struct view end = scratch_name_end(order->sources[i].key);
        snprintf(name, sizeof name, "%06zu%.*s", i, VIEW_ARGS(end));
        run->paths[i] = run->copies[i] = merge_scratch_path(run, name);
        run->bytes += order->parts ? order->parts->sizes[i] : order->sources[i].size;
        has_memory = has_memory && run->paths[i];
    }
    return has_memory ? HF_OK : error_no_memory(error);
}

static enum hf_status make_job_folder(struct merge_run *run, struct hf_error *error)
{
    struct file_merger *files = run->files;
    snprintf(run->name, sizeof run->name, "%" PRIuFAST64, atomic_fetch_add(&files->jobs, 1));
    int size =
        snprintf(run->folder, sizeof run->folder, "%s/%s", files->scratch.path, run->name);
    if (size < 0 || size >= (int)sizeof run->folder - 32)
        return error_set(error, HF_INVALID, "the path of the scratch folder is too long");
    if (!scratch_make(&files->scratch, run->name))
        return merge_local_failure(error, errno, "create a scratch folder");
    return HF_OK;
}

/* Determines who is to blame for a full disk. The group is too large if the disk was fit for the
 * job (it was half empty, or had more free space than the job was expected to need) and the job
 * itself took at least half of the free space. Such a group is blamed and halved, until a chunk
 * that is too large by itself is quarantined. Otherwise this machine is to blame: if chunks were
 * blamed for every full disk, one faulty machine could quarantine a whole partition. Must be called
 * after the job's files were removed, because the free space then shows how much the job took. */
static void blame_full_disk(struct merge_run *run, struct hf_error *error)
{
    struct scratch_room before = run->room, after = scratch_room(run->files->scratch.path);
    char size[SIZE_TEXT_MAX];
    /* The expected need: copies of the sources, as much again for sorting, and the output. */
    uint64_t expected = 3 * run->bytes + 16 * MIB;
    bool fit = before.free >= before.total / 2 || before.free >= expected;
    if (before.free == 0 || !fit || after.free < before.free / 2)
        return;
    run->product->group_fault = true;
    error_prefix(error, "the merge needs more scratch space than the %s that was free",
                 size_text(before.free, size));
}

/* Every command is checked here before it is run. If the caller supplies a merger, the first word
 * of the partition's command must be the name of that merger. */
static enum hf_status resolve_program(const struct file_merger *files,
                                      const struct compact_settings *settings,
                                      const char **ret_program, struct hf_error *error)
{
    *ret_program = NULL;
    if (!files->callback.merge && settings->command.size > 0)
        return allow_exec_find(&files->exec, settings->command, ret_program, error);
    const char *here = files->callback.merge ? files->callback.name : NULL;
    struct view rest = settings->command, name = VIEW("");
    while (rest.size > 0 && name.size == 0)
        name = view_cut(&rest, ' ');
    if (!here || view_equal(name, view_of(here)))
        return HF_OK;
    if (name.size == 0)
        return error_set(error, HF_DENIED, "names no merger, but the merger here is '%.60s'",
                         here);
    return error_set(error, HF_DENIED,
                     "needs the merger '%.*s', but the merger here is '%.60s'",
                     VIEW_ARGS(view_first(name, 60)), here);
}

static enum hf_status allows_settings(struct merger *merger,
                                      const struct compact_settings *settings,
                                      struct hf_error *error)
{
    struct file_merger *files = (struct file_merger *)(void *)merger;
    const char *program;
    enum hf_status status = resolve_program(files, settings, &program, error);
    bool by_helper = settings->format == HF_MERGE_PARQUET && settings->command.size == 0 &&
                     !files->callback.merge;
    if (status != HF_OK || !by_helper || atomic_load(&files->parquet_works))
        return status;
    if (parquet_probe(files->env, error) != HF_OK)
        return error->status = HF_DENIED;
    atomic_store(&files->parquet_works, true);
    return HF_OK;
}

enum hf_status merge_run_begin(struct merge_run *run, struct hf_error *error)
{
    enum hf_status status = make_job_folder(run, error);
    if (status != HF_OK)
        return status;
    run->room = scratch_room(run->folder);
    env_mutex_init(run->files->env, &run->shared.mutex);
    env_cond_init(run->files->env, &run->shared.changed);
    status = name_files(run, error);
    if (status != HF_OK)
        merge_run_end(run);
    return status;
}

void merge_drop_sources(struct merge_run *run)
{
    for (size_t i = 0; i < run->order->source_count; i++)
        if (run->lent[i].fd < 0)
            unlink(run->paths[i]);
}

void merge_run_end(struct merge_run *run)
{
    merge_give_back(run);
    env_cond_release(&run->shared.changed);
    env_mutex_release(&run->shared.mutex);
    scratch_remove(&run->files->scratch, run->name);
}

/* Lets the merge compute the checksums of the sources if it reads them itself. */
static enum hf_status prepare_sums(struct merge_run *run, struct hf_error *error)
{
    size_t size = run->order->source_count * sizeof *run->sums;
    if (merge_by_callback(run) || run->order->settings->format == HF_MERGE_PARQUET)
        return HF_OK;
    run->sums = arena_take(&run->arena, size);
    if (!run->sums)
        return error_no_memory(error);
    memset(run->sums, 0, size);
    return HF_OK;
}

/* Fetches and merges the sources. If that fails, it may be because of damaged bytes, so the sources
 * are checked: then one of them is blamed, or was only damaged on its way and is merged anew. */
static enum hf_status fetch_and_merge(struct merge_run *run, uint32_t *ret_crc,
                                      struct hf_error *error)
{
    struct merge_product *product = run->product, failed;
    struct hf_error recheck;
    enum hf_status status = merge_fetch_all(run, error);
    if (status != HF_OK)
        return status;
    status = merge_sources(run, ret_crc, error);
    if (status == HF_OK || status == HF_CANCELLED || !run->sums || run->order->parts ||
        atomic_load(&run->disk_full))
        return status;
    failed = *product;
    *product =
        (struct merge_product){ .culprit = MERGE_NO_CULPRIT, .bytes_read = failed.bytes_read };
    if (merge_recheck_all(run, &recheck) != HF_OK) {
        *error = recheck;
        return recheck.status;
    }
    if (atomic_load(&run->replaced))
        return merge_sources(run, ret_crc, error);
    failed.bytes_read = product->bytes_read;
    *product = failed;
    return status;
}

static enum hf_status make_output(struct merger *merger, const struct merge_order *order,
                                  struct merge_product *ret_product, struct hf_error *error)
{
    struct file_merger *files = (struct file_merger *)(void *)merger;
    struct merge_run run = { .files = files,
                             .order = order,
                             .product = ret_product,
                             .arena = ARENA_INIT,
                             .shared = { .culprit = MERGE_NO_CULPRIT } };
    *ret_product = (struct merge_product){ .culprit = MERGE_NO_CULPRIT };
    if (order->memory_bytes < HF_MERGE_MEMORY_MIN || order->source_count == 0)
        return error_set(error, HF_INVALID,
                         "a merge needs at least one source and %zu MiB of memory",
                         HF_MERGE_MEMORY_MIN / MIB);
    enum hf_status status = resolve_program(files, order->settings, &run.program, error);
    if (status == HF_OK && order->parts && merge_by_callback(&run)) {
        /* The merge was divided before the partition had a command, which merges whole chunks. */
        ret_product->group_fault = order->settings->command.size > 0;
        status = error_set(error, HF_DENIED, "a range cannot be merged by a command or merger");
    }
    if (status == HF_OK)
        status = merge_run_begin(&run, error);
    if (status != HF_OK) {
        arena_release(&run.arena);
        return status;
    }
    uint32_t crc = 0;
    status = prepare_sums(&run, error);
    if (status == HF_OK)
        status = fetch_and_merge(&run, &crc, error);
    if (status == HF_OK && !order->test)
        status = put_output(&run, crc, error);
    merge_run_end(&run);
    if (status != HF_OK && atomic_load(&run.disk_full))
        blame_full_disk(&run, error);
    arena_release(&run.arena);
    return status;
}

struct merger *file_merger_new(struct env *env, struct store *store, const char *scratch,
                               size_t threads, struct hf_error *error)
{
    struct file_merger *files = calloc(1, sizeof *files);
    if (!files) {
        error_no_memory(error);
        return NULL;
    }
    files->merger.make = make_output;
    files->merger.allows = allows_settings;
    files->merger.divide = merge_divide;
    files->env = env;
    files->store = store;
    files->threads = threads;
    if (scratch_open(&files->scratch, env, scratch, error) != HF_OK) {
        free(files);
        return NULL;
    }
    return &files->merger;
}

void file_merger_allow(struct merger *merger, const struct allow_exec *allowed)
{
    struct file_merger *files = (struct file_merger *)(void *)merger;
    files->exec = *allowed;
}

void file_merger_use(struct merger *merger, const struct merge_callback *callback)
{
    struct file_merger *files = (struct file_merger *)(void *)merger;
    files->callback = *callback;
}

void file_merger_free(struct merger *merger)
{
    struct file_merger *files = (struct file_merger *)(void *)merger;
    if (!files)
        return;
    scratch_close(&files->scratch);
    free(files);
}
