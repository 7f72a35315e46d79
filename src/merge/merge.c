/* merge.c: what is to be done in which order: options, headers, sorting, passes, the end. */
#include "merge/merge.h"

#include "base/check.h"
#include "base/parse.h"
#include "merge/command.h"
#include "merge/job.h"
#include "merge/run.h"
#include "merge/runs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the program itself takes of the memory setting. */
#define PROGRAM_BYTES_MAX (8 * MIB)
#define PROGRAM_SHARE     8

/* Inputs that are read at once. More are merged in groups first; these must not depend on how
 * much memory there is, or equal inputs would not give equal bytes. */
#define GROUP_MAX 224
#define GROUP_MIN 2

/* What sorting leaves of the memory for reading, at first. */
#define SORT_RESERVE_SHARE 8
#define SORT_RESERVE_MIN   (4 * MIB)

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
                     "'%.*s' is no format; there are usv, csv, tsv, ndjson, concat and exec",
                     VIEW_ARGS(view_first(text, 40)));
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

/* ---- What passes share --------------------------------------------------------------- */

enum hf_status job_progress(struct job *job, uint64_t bytes, struct hf_error *error)
{
    const struct merge_progress *progress = &job->options->progress;
    job->bytes_done += bytes;
    if (!progress->step || job->bytes_done - job->bytes_told < MIB)
        return HF_OK;
    job->bytes_told = job->bytes_done;
    if (progress->step(progress->context, job->bytes_done, job->bytes_total))
        return HF_OK;
    return error_set(error, HF_CANCELLED, "stopped on the way; nothing was written");
}

static const char *reject_path(const struct job *job, char path[PATH_MAX])
{
    if (job->options->reject_path)
        return job->options->reject_path;
    snprintf(path, PATH_MAX, "%s.rejects", job->output);
    return path;
}

static void remember_reason(struct job *job, const struct source *source,
                            const struct batch *batch, const struct row *row)
{
    struct merge_result *result = &job->result;
    if (result->reason_count == MERGE_REASONS_MAX)
        return;
    uint64_t number = batch->rows_before + (uint64_t)(row - batch->rows) + 1;
    snprintf(result->reasons[result->reason_count++], HF_WHY_MAX, "%.*s: record %" PRIu64 " %s",
             VIEW_ARGS(view_first(view_of(source->feed->path), 120)), number,
             row_fault_text(row->fault));
}

enum hf_status job_reject(struct job *job, const struct source *source,
                          const struct batch *batch, const struct row *row,
                          struct hf_error *error)
{
    if (!job->rejecting) {
        char path[PATH_MAX];
        enum hf_status status =
            sink_create(&job->rejects, job->env, reject_path(job, path), MERGE_PLAIN, error);
        if (status != HF_OK)
            return status;
        job->rejecting = true;
    }
    sink_add(&job->rejects, batch_record(batch, row));
    if (row->fault == ROW_PIECE)
        return HF_OK;
    sink_add(&job->rejects, VIEW("\n"));
    job->result.rows_rejected++;
    remember_reason(job, source, batch, row);
    if (job->rejects.error.status != HF_OK) {
        *error = job->rejects.error;
        return error->status;
    }
    if (job->result.rows_rejected <= job->options->rejects_max)
        return HF_OK;
    return error_set(error, HF_INVALID,
                     "more than %" PRIu64 " rows cannot be merged; the first: %.150s",
                     job->options->rejects_max, job->result.reasons[0]);
}

/* ---- Before the work ----------------------------------------------------------------- */

static bool has_records(enum merge_format format)
{
    return format != MERGE_CONCAT && format != MERGE_EXEC;
}

static size_t record_bytes_max(const struct merge_options *options)
{
    if (options->record_bytes_max)
        return options->record_bytes_max;
    size_t quarter = options->memory_bytes / 4;
    return quarter < MERGE_RECORD_DEFAULT ? quarter : MERGE_RECORD_DEFAULT;
}

static enum hf_status check_options(const struct merge_options *options, size_t input_count,
                                    struct hf_error *error)
{
    char text[SIZE_TEXT_MAX];
    if (input_count == 0 || input_count > MERGE_INPUTS_MAX)
        return error_set(error, HF_INVALID, "1 to %d inputs can be merged, not %zu",
                         MERGE_INPUTS_MAX, input_count);
    if (options->threads < 1 || options->threads > MERGE_THREADS_MAX)
        return error_set(error, HF_INVALID, "1 to %d threads can merge, not %zu",
                         MERGE_THREADS_MAX, options->threads);
    if (options->memory_bytes < MERGE_MEMORY_MIN || options->memory_bytes > MERGE_MEMORY_MAX)
        return error_set(error, HF_INVALID, "a merge needs 8 MiB to 16 GiB of memory, not %s",
                         size_text(options->memory_bytes, text));
    if (record_bytes_max(options) > options->memory_bytes / 4)
        return error_set(error, HF_INVALID,
                         "the longest record may be a quarter of the memory, not %s",
                         size_text(record_bytes_max(options), text));
    if (has_records(options->format) && !options->key.data && !options->time.data)
        return error_set(error, HF_INVALID,
                         "name the key field, for its order, the time field, or both, to keep "
                         "the latest of each key");
    if (!has_records(options->format) && (options->key.data || options->time.data))
        return error_set(error, HF_INVALID, "%s knows no fields, so no key and no time",
                         merge_format_name(options->format));
    if (options->format == MERGE_EXEC && options->coding != MERGE_PLAIN)
        return error_set(error, HF_INVALID, "what a command writes is not compressed for it");
    return HF_OK;
}

static enum hf_status init_cutter(struct job *job, struct hf_error *error)
{
    const struct merge_options *options = job->options;
    struct cutter *cutter = &job->cutter;
    *cutter = (struct cutter){ .record_bytes_max = record_bytes_max(options) };
    cutter->separator = options->format == MERGE_TSV ? '\t' : ',';
    cutter->format = options->format == MERGE_USV      ? &format_usv
                     : options->format == MERGE_NDJSON ? &format_ndjson
                                                       : &format_csv;
    enum hf_status status = HF_OK;
    if (options->key.data)
        status = field_parse(options->key, &cutter->key, error);
    if (status == HF_OK && options->time.data)
        status = field_parse(options->time, &cutter->time, error);
    job->latest_wins = cutter->key.asked && cutter->time.asked;
    return status;
}

static enum hf_status stat_inputs(struct job *job, const char *const *inputs, size_t count,
                                  struct feed *feeds, struct hf_error *error)
{
    for (size_t i = 0; i < count; i++) {
        struct stat info;
        enum hf_status status = HF_OK;
        if (stat(inputs[i], &info) != 0)
            status = error_from_errno(error, errno, "look at it");
        else if (!S_ISREG(info.st_mode))
            status = error_set(error, HF_INVALID, "it is not a regular file");
        if (status != HF_OK) {
            error_prefix(error, "%.*s", VIEW_ARGS(view_first(view_of(inputs[i]), 120)));
            return status;
        }
        feeds[i] = (struct feed){ .path = inputs[i], .run = -1 };
        feeds[i].size = (uint64_t)info.st_size;
        job->result.bytes_in += feeds[i].size;
    }
    return HF_OK;
}

/* The header of the first input that is not empty, for all; then the fields that were named. */
static enum hf_status read_header(struct job *job, const struct feed *feeds, size_t count,
                                  struct buffer *header, struct hf_error *error)
{
    bool with_header = job->cutter.format->header && !job->options->headless;
    for (size_t i = 0; with_header && header->size == 0 && i < count; i++) {
        struct source source;
        enum hf_status status =
            source_init(&source, &feeds[i], &job->cutter, (struct view){ NULL, 0 }, 64 * KIB, 1,
                        &job->budget, error);
        if (status == HF_OK)
            status = source_read_header(&source, header, error);
        source_release(&source);
        if (status != HF_OK)
            return status;
    }
    if (with_header)
        job->header = buffer_view(header);
    if (with_header && header->size == 0)
        return HF_OK; /* all are empty: there is nothing to resolve, and nothing to merge */
    return job->cutter.format->resolve(&job->cutter, job->header, error);
}

/* ---- The order of the inputs --------------------------------------------------------- */

#define COMPARE_BYTES (32 * KIB)

/* By their bytes; files that cannot be read are told of when they are merged. */
static int compare_contents(const char *path_a, const char *path_b)
{
    char bytes_a[COMPARE_BYTES], bytes_b[COMPARE_BYTES];
    int a = open(path_a, O_RDONLY | O_CLOEXEC), b = open(path_b, O_RDONLY | O_CLOEXEC);
    int order = 0;
    while (order == 0) {
        ssize_t size_a = a < 0 ? -1 : read(a, bytes_a, sizeof bytes_a);
        ssize_t size_b = b < 0 ? -1 : read(b, bytes_b, sizeof bytes_b);
        if (size_a <= 0 || size_b <= 0)
            break;
        order = view_compare((struct view){ bytes_a, (size_t)size_a },
                             (struct view){ bytes_b, (size_t)size_b });
    }
    if (a >= 0)
        close(a);
    if (b >= 0)
        close(b);
    return order;
}

static int compare_feeds(const void *a, const void *b)
{
    const struct feed *feed_a = a, *feed_b = b;
    if (feed_a->size != feed_b->size)
        return feed_a->size < feed_b->size ? -1 : 1;
    return compare_contents(feed_a->path, feed_b->path);
}

/* ---- Sorting ------------------------------------------------------------------------- */

static enum hf_status check_feed(struct job *job, struct feed *feed, struct hf_error *error)
{
    struct source source;
    enum hf_status status = source_init(&source, feed, &job->cutter, job->header, 256 * KIB, 1,
                                        &job->budget, error);
    struct batch *batch = &source.batches[0];
    uint64_t position = 0;
    while (status == HF_OK && !feed->unsorted) {
        status = source_fill(&source, batch, error);
        feed->unsorted = batch->unsorted;
        if (status != HF_OK || batch->row_count == 0)
            break;
        status = job_progress(job, batch->position - position, error);
        position = batch->position;
    }
    source_release(&source);
    return status;
}

/* Looks which inputs are in order, once it is known that some are not. Those that are not tell
 * it soon, as a rule. */
static enum hf_status find_unsorted(struct job *job, struct feed *feeds, size_t count,
                                    struct hf_error *error)
{
    enum hf_status status = HF_OK;
    for (size_t i = 0; status == HF_OK && i < count; i++)
        status = check_feed(job, &feeds[i], error);
    return status;
}

/* ---- Passes -------------------------------------------------------------------------- */

/* What one attempt works with. */
struct attempt {
    struct job *job;
    struct feed *feeds; /* the inputs, in an order of their own */
    size_t count;
    struct runs *sorted; /* what the unsorted ones became */
    struct runs *merged; /* what groups of inputs became */
    struct feed *last;   /* what the last pass reads */
    size_t last_count;
    struct pass_end end;
    struct hf_error *error;
};

static enum hf_status merge_group(struct attempt *attempt, const struct feed *feeds,
                                  size_t count)
{
    struct sink sink;
    enum hf_status status = runs_begin(attempt->job, &sink, attempt->error);
    if (status != HF_OK)
        return status;
    status = pass_run(attempt->job, feeds, count, &sink, /* as run */ true, &attempt->end,
                      attempt->error);
    if (status == HF_OK)
        return runs_add(attempt->merged, attempt->job, &sink, &attempt->end, attempt->error);
    sink_release(&sink);
    return status;
}

/* All inputs that are in order, group by group, into runs: no more than fit beside the sorted
 * ones. */
static enum hf_status merge_groups(struct attempt *attempt, const struct feed *files,
                                   size_t count)
{
    struct job *job = attempt->job;
    enum hf_status status = HF_OK;
    for (size_t i = 0; status == HF_OK && i < count; i += job->group)
        status =
            merge_group(attempt, files + i, count - i < job->group ? count - i : job->group);
    if (status != HF_OK)
        return status;
    return runs_reduce(attempt->merged, job, job->group - attempt->sorted->count, &attempt->end,
                       attempt->error);
}

static void add_last(struct attempt *attempt, const struct feed *feeds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        attempt->last[attempt->last_count++] = feeds[i];
}

/* Collects what the last pass reads: sorted runs, then inputs, or the runs of their groups. How
 * inputs are grouped must not depend on how many runs memory made of the unsorted ones. */
static enum hf_status gather(struct attempt *attempt)
{
    size_t group = attempt->job->group;
    enum hf_status status = HF_OK;
    size_t count = 0;
    struct feed *files = attempt->last + 2 * RUNS_MAX;
    for (size_t i = 0; i < attempt->count; i++)
        if (!attempt->feeds[i].unsorted)
            files[count++] = attempt->feeds[i];
    if (attempt->sorted->count + count > group && attempt->sorted->count > 1)
        status = runs_reduce(attempt->sorted, attempt->job, 1, &attempt->end, attempt->error);
    bool in_groups = attempt->sorted->count + count > group;
    if (status == HF_OK && in_groups)
        status = merge_groups(attempt, files, count);
    if (status != HF_OK)
        return status;
    add_last(attempt, attempt->sorted->feeds, attempt->sorted->count);
    add_last(attempt, attempt->merged->feeds, attempt->merged->count);
    if (!in_groups)
        add_last(attempt, files, count);
    return HF_OK;
}

/* Both files get their names, or neither does. */
static enum hf_status keep_files(struct job *job, struct sink *sink, struct hf_error *error)
{
    char path[PATH_MAX];
    bool rejecting = job->rejecting;
    enum hf_status status = sink_end(sink, error);
    job->result.bytes_out = sink->size;
    if (status == HF_OK && rejecting)
        status = sink_end(&job->rejects, error);
    if (status == HF_OK && rejecting) {
        status = sink_keep(&job->rejects, error);
        job->rejecting = false;
    }
    if (status == HF_OK)
        status = sink_keep(sink, error);
    if (status != HF_OK && rejecting && !job->rejecting)
        unlink(reject_path(job, path));
    return status;
}

static enum hf_status last_pass(struct attempt *attempt)
{
    struct job *job = attempt->job;
    struct sink sink;
    enum hf_status status =
        sink_create(&sink, job->env, job->output, job->options->coding, attempt->error);
    if (status != HF_OK)
        return status;
    if (job->header.size) {
        sink_add(&sink, job->header);
        sink_add(&sink, VIEW("\n"));
    }
    status = pass_run(job, attempt->last, attempt->last_count, &sink, /* as run */ false,
                      &attempt->end, attempt->error);
    if (status == HF_OK) {
        const struct merge_result *result = &job->result;
        check(result->rows_in ==
              result->rows_out + result->rows_superseded + result->rows_rejected);
        status = keep_files(job, &sink, attempt->error);
    }
    sink_release(&sink);
    return status;
}

/* Starts from the beginning: nothing of an earlier attempt counts. */
static void start_anew(struct attempt *attempt)
{
    struct job *job = attempt->job;
    struct merge_result *result = &job->result;
    *result = (struct merge_result){ .rows_counted = true, .bytes_in = result->bytes_in };
    job->bytes_done = job->bytes_told = 0;
    job->bytes_total = result->bytes_in;
    for (size_t i = 0; i < attempt->count; i++)
        result->inputs_unsorted += attempt->feeds[i].unsorted;
    if (job->rejecting)
        sink_release(&job->rejects);
    job->rejecting = false;
    attempt->last_count = 0;
    attempt->end = (struct pass_end){ 0 };
}

static enum hf_status run_attempt(struct attempt *attempt)
{
    struct job *job = attempt->job;
    enum hf_status status = HF_OK;
    start_anew(attempt);
    runs_init(attempt->sorted);
    runs_init(attempt->merged);
    if (job->result.inputs_unsorted)
        status = sort_feeds(job, attempt->feeds, attempt->count, attempt->sorted, &attempt->end,
                            attempt->error);
    if (status == HF_OK)
        status = gather(attempt);
    for (size_t i = 0; status == HF_OK && i < attempt->last_count; i++)
        if (attempt->last[i].run >= 0)
            job->bytes_total += attempt->last[i].size;
    if (status == HF_OK)
        status = last_pass(attempt);
    runs_release(attempt->sorted);
    runs_release(attempt->merged);
    return status;
}

/* Fewer inputs at once, and more room for reading while sorting; false when that is done. */
static bool narrow(struct job *job)
{
    size_t reserve_max = job->budget.limit / 4 * 3;
    if (job->group == GROUP_MIN && job->sort_reserve == reserve_max)
        return false;
    job->group = (job->group + 1) / 2 > GROUP_MIN ? (job->group + 1) / 2 : GROUP_MIN;
    job->sort_reserve *= 2;
    if (job->sort_reserve > reserve_max)
        job->sort_reserve = reserve_max;
    return true;
}

/* Inputs are taken to be in order, and all at once, until it shows that they are not, or that
 * memory does not suffice. Either happens once, or a few times. */
static enum hf_status run_attempts(struct attempt *attempt)
{
    bool looked = false;
    for (;;) {
        enum hf_status status = run_attempt(attempt);
        if (status == HF_OK || status == HF_CANCELLED)
            return status;
        if (attempt->end.unsorted && !looked) {
            status =
                find_unsorted(attempt->job, attempt->feeds, attempt->count, attempt->error);
            if (status != HF_OK)
                return status;
            looked = true;
        } else if (attempt->end.unsorted) {
            return error_set(attempt->error, HF_UNAVAILABLE,
                             "an input changed while it was read");
        } else if (!attempt->end.too_wide || !narrow(attempt->job)) {
            return status;
        }
    }
}

static enum hf_status merge_records(struct job *job, const char *const *inputs, size_t count,
                                    struct hf_error *error)
{
    struct buffer header = BUFFER_INIT(MERGE_RECORD_MAX);
    struct attempt attempt = { .job = job, .count = count };
    attempt.error = error;
    attempt.feeds = calloc(count, sizeof *attempt.feeds);
    attempt.last = calloc(count + 2 * RUNS_MAX, sizeof *attempt.last);
    attempt.sorted = calloc(1, sizeof *attempt.sorted);
    attempt.merged = calloc(1, sizeof *attempt.merged);
    enum hf_status status = HF_OK;
    if (!attempt.feeds || !attempt.last || !attempt.sorted || !attempt.merged)
        status = error_no_memory(error);
    if (status == HF_OK)
        status = init_cutter(job, error);
    if (status == HF_OK)
        status = stat_inputs(job, inputs, count, attempt.feeds, error);
    if (status == HF_OK)
        status = read_header(job, attempt.feeds, count, &header, error);
    if (status == HF_OK && !job->latest_wins)
        qsort(attempt.feeds, count, sizeof *attempt.feeds, compare_feeds);
    if (status == HF_OK)
        status = run_attempts(&attempt);
    if (job->rejecting)
        sink_release(&job->rejects);
    free(attempt.feeds);
    free(attempt.last);
    free(attempt.sorted);
    free(attempt.merged);
    buffer_release(&header);
    return status;
}

/* ---- Formats without records --------------------------------------------------------- */

static enum hf_status copy_input(struct job *job, const struct feed *feed, struct sink *sink,
                                 struct hf_error *error)
{
    struct source source;
    struct cutter none = { .record_bytes_max = 1 };
    uint64_t position = 0;
    enum hf_status status = source_init(&source, feed, &none, (struct view){ NULL, 0 },
                                        256 * KIB, 1, &job->budget, error);
    while (status == HF_OK) {
        struct batch *batch = &source.batches[0];
        size_t size;
        status = decoder_read(source.decoder, batch->block, batch->capacity, &size, error);
        if (status != HF_OK || size == 0)
            break;
        status = job_progress(job, decoder_position(source.decoder) - position, error);
        position = decoder_position(source.decoder);
        if (status == HF_OK && !sink_add(sink, (struct view){ batch->block, size })) {
            *error = sink->error;
            status = error->status;
        }
    }
    source_release(&source);
    return status;
}

static enum hf_status merge_concat(struct job *job, const struct feed *feeds, size_t count,
                                   struct hf_error *error)
{
    struct sink sink;
    enum hf_status status =
        sink_create(&sink, job->env, job->output, job->options->coding, error);
    if (status != HF_OK)
        return status;
    for (size_t i = 0; status == HF_OK && i < count; i++)
        status = copy_input(job, &feeds[i], &sink, error);
    if (status == HF_OK)
        status = keep_files(job, &sink, error);
    sink_release(&sink);
    return status;
}

static enum hf_status merge_exec(struct job *job, const char *const *inputs, size_t count,
                                 struct hf_error *error)
{
    const struct merge_command *command = &job->options->command;
    struct arena arena = ARENA_INIT;
    struct sink sink;
    char **words;
    enum hf_status status = sink_reserve(&sink, job->env, job->output, error);
    if (status != HF_OK)
        return status;
    status =
        command_words(command->line, inputs, count, sink.scratch_path, &arena, &words, error);
    if (status == HF_OK)
        status = command_run(job->env, words, command, &job->options->progress, error);
    if (status == HF_OK) {
        status = sink_written(&sink, error);
        if (status != HF_OK)
            error_prefix(error, "the command ended well, but");
    }
    if (status == HF_OK)
        status = keep_files(job, &sink, error);
    sink_release(&sink);
    arena_release(&arena);
    return status;
}

static enum hf_status merge_bytes(struct job *job, const char *const *inputs, size_t count,
                                  struct hf_error *error)
{
    struct feed *feeds = calloc(count, sizeof *feeds);
    if (!feeds)
        return error_no_memory(error);
    enum hf_status status = stat_inputs(job, inputs, count, feeds, error);
    job->bytes_total = job->result.bytes_in;
    if (status == HF_OK && job->options->format == MERGE_CONCAT)
        status = merge_concat(job, feeds, count, error);
    else if (status == HF_OK)
        status = merge_exec(job, inputs, count, error);
    free(feeds);
    return status;
}

/* ---- The door ------------------------------------------------------------------------ */

/* The folder of the output, in `folder`, unless another is named. */
static const char *scratch_folder(const struct merge_options *options, const char *output,
                                  char folder[PATH_MAX])
{
    if (options->scratch_folder)
        return options->scratch_folder;
    const char *slash = strrchr(output, '/');
    if (!slash)
        return ".";
    snprintf(folder, PATH_MAX, "%.*s", slash == output ? 1 : (int)(slash - output), output);
    return folder;
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
    enum hf_status status = check_options(options, input_count, error);
    if (status == HF_OK && strlen(output) + sizeof ".rejects.part-0123456789abcdef" > PATH_MAX)
        status = error_set(error, HF_INVALID, "the output's path is too long");
    if (status != HF_OK)
        return status;
    size_t program = options->memory_bytes / PROGRAM_SHARE;
    struct job job = {
        .env = env,
        .options = options,
        .output = output,
        .group = GROUP_MAX,
        .scratch_folder = scratch_folder(options, output, folder),
        .budget = { .limit = options->memory_bytes -
                             (program < PROGRAM_BYTES_MAX ? program : PROGRAM_BYTES_MAX) },
    };
    size_t reserve = job.budget.limit / SORT_RESERVE_SHARE;
    job.sort_reserve = reserve > SORT_RESERVE_MIN ? reserve : SORT_RESERVE_MIN;
    if (has_records(options->format))
        status = merge_records(&job, inputs, input_count, error);
    else
        status = merge_bytes(&job, inputs, input_count, error);
    *ret_result = job.result;
    return status;
}
