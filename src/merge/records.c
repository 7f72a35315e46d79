/* SPDX-License-Identifier: Apache-2.0 */
/* records.c: merges formats that consist of records: reads headers, finds the inputs to sort, and
 * chooses the passes. If there is too little memory, it starts again with fewer inputs at a time.
 */
#include "base/check.h"
#include "base/hash.h"
#include "merge/job.h"
#include "merge/run.h"
#include "merge/runs.h"

#include <stdlib.h>

/* The maximum number of inputs that are read at a time. If there are more, groups of adjacent
 * inputs are merged first, and each result takes the place of its group. So the group size does not
 * affect the output. */
#define GROUP_MAX 224

/* The initial share of memory that sorting leaves for reading. */
#define SORT_RESERVE_SHARE 8
#define SORT_RESERVE_MIN   (4 * MIB)

/* The size of the first read of a header. */
#define HEADER_BLOCK_BYTES (64 * KIB)

/* ---- Before the work ----------------------------------------------------------------- */

static enum hf_status init_cutter(struct job *job, struct hf_error *error)
{
    const struct merge_options *options = job->options;
    struct cutter *cutter = &job->asked;
    *cutter = (struct cutter){ .record_bytes_max = job->record_bytes_max,
                               .has_zone = options->has_zone,
                               .zone_east_s = options->zone_east_s };
    cutter->separator = options->format == HF_MERGE_TSV ? '\t' : ',';
    cutter->format = options->format == HF_MERGE_USV      ? &format_usv
                     : options->format == HF_MERGE_NDJSON ? &format_ndjson
                                                          : &format_csv;
    bool by_name = options->format == HF_MERGE_NDJSON;
    enum hf_status status = HF_OK;
    if (options->key.data)
        status = key_parse(options->key, by_name, job->key_space, &cutter->key, error);
    if (status == HF_OK && options->time.data)
        status = field_parse(options->time, by_name, &cutter->time, error);
    if (status == HF_OK && options->deleted.data)
        status = field_parse(options->deleted, by_name, &cutter->deleted, error);
    job->latest_wins = cutter->key.count > 0 && cutter->time.asked;
    job->cutter = *cutter;
    return status;
}

enum hf_status records_read_header(struct job *job, const struct feed *feed,
                                   struct buffer *header, struct hf_error *error)
{
    struct source source;
    const struct source_options options = { .like = &job->asked,
                                            .block_bytes = HEADER_BLOCK_BYTES,
                                            .batch_count = 1,
                                            .budget = &job->budget };
    enum hf_status status = source_init(&source, feed, &options, error);
    if (status == HF_OK)
        status = source_read_header(&source, header, error);
    source_release(&source);
    return status;
}

/* Uses the header of the first non-empty input for all inputs, then resolves the fields given by
 * name. An error about the header names that input. */
static enum hf_status read_common_header(struct job *job, const struct feed *feeds,
                                         size_t count, struct buffer *header,
                                         struct hf_error *error)
{
    if (!job->cutter.format->header || job->options->headless)
        return job->cutter.format->resolve(&job->cutter, job->header, error);
    size_t first = 0; /* whose header is used */
    for (; first < count; first++) {
        enum hf_status status = records_read_header(job, &feeds[first], header, error);
        if (status != HF_OK)
            return status;
        if (header->size > 0)
            break;
    }
    job->header = buffer_view(header);
    if (header->size == 0)
        return HF_OK; /* all are empty: there is nothing to resolve, and nothing to merge */
    enum hf_status status = job->cutter.format->resolve(&job->cutter, job->header, error);
    if (status == HF_INVALID && feeds[first].name)
        error_about(error, feeds[first].name);
    return status;
}

enum hf_status records_prepare(struct job *job, const struct feed *feeds, size_t count,
                               struct buffer *header, struct hf_error *error)
{
    enum hf_status status = init_cutter(job, error);
    return status == HF_OK ? read_common_header(job, feeds, count, header, error) : status;
}

/* How records with equal fields are ordered, once the header of the output is known. If all records
 * are kept and all headers are equal, bytes do: then no merge has to agree with another one. */
static enum hf_status order_ties(struct job *job, bool headers_differ, struct hf_error *error)
{
    bool has_columns = job->cutter.format == &format_csv && job->header.size > 0;
    if (!has_columns || !(job->latest_wins || headers_differ))
        return HF_OK;
    return ties_set_header(&job->ties, job->header, job->cutter.separator, &job->budget, error);
}

/* ---- Headers that differ ------------------------------------------------------------- */

/* Reads the header of one input; its layout stays NULL if the input is empty. */
static enum hf_status read_layout(struct job *job, struct feed *feed, struct layouts *layouts,
                                  struct buffer *header, struct hf_error *error)
{
    buffer_clear(header);
    enum hf_status status = records_read_header(job, feed, header, error);
    if (status != HF_OK || header->size == 0)
        return status;
    status = layouts_add(layouts, &job->asked, buffer_view(header), &feed->layout, error);
    if (status == HF_INVALID)
        error_about(error, feed->name);
    return status;
}

/* Reads the headers of all inputs in the order in which the inputs were given, which is the order
 * of the columns. Called only once it is known that headers differ. */
static enum hf_status read_layouts(struct job *job, struct feed *feeds, size_t count,
                                   struct layouts *layouts, struct hf_error *error)
{
    struct buffer header = BUFFER_INIT(HF_MERGE_RECORD_MAX);
    size_t *order = calloc(count, sizeof *order);
    if (!order)
        return error_no_memory(error);
    for (size_t i = 0; i < count; i++)
        order[feeds[i].given] = i;
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < count && status == HF_OK; i++)
        status = read_layout(job, &feeds[order[i]], layouts, &header, error);
    if (status == HF_OK)
        status = layouts_end(layouts, error);
    if (status == HF_OK)
        job->header = buffer_view(&layouts->header);
    free(order);
    buffer_release(&header);
    return status;
}

/* ---- The order of the inputs --------------------------------------------------------- */

static int compare_feeds(const void *a, const void *b)
{
    const struct feed *feed_a = a, *feed_b = b;
    if (feed_a->size != feed_b->size)
        return feed_a->size < feed_b->size ? -1 : 1;
    return feed_a->hash < feed_b->hash ? -1 : feed_a->hash > feed_b->hash;
}

static enum hf_status hash_bytes(void *context, struct view bytes, struct hf_error *error)
{
    (void)error;
    hash_stream_add(context, bytes);
    return HF_OK;
}

static enum hf_status hash_feed(struct job *job, struct feed *feed, struct hf_error *error)
{
    struct hash_stream hash;
    hash_stream_init(&hash);
    job->bytes_left += feed->size;
    enum hf_status status = job_read(job, feed, hash_bytes, &hash, error);
    feed->hash = hash_stream_xxh3(&hash);
    return status;
}

/* Orders the inputs by size, then by content, so the order of the arguments does not matter. */
static enum hf_status order_feeds(struct job *job, struct feed *feeds, size_t count,
                                  struct hf_error *error)
{
    qsort(feeds, count, sizeof *feeds, compare_feeds);
    for (size_t i = 0; i < count; i++) {
        bool is_tied = (i > 0 && feeds[i - 1].size == feeds[i].size) ||
                       (i + 1 < count && feeds[i + 1].size == feeds[i].size);
        if (is_tied && hash_feed(job, &feeds[i], error) != HF_OK)
            return error->status;
    }
    qsort(feeds, count, sizeof *feeds, compare_feeds);
    return HF_OK;
}

/* ---- Sorting ------------------------------------------------------------------------- */

static enum hf_status check_batch(void *context, const struct source *source,
                                  const struct batch *batch, struct hf_error *error)
{
    struct feed *feed = context;
    (void)source;
    (void)error;
    feed->unsorted = batch->unsorted;
    return HF_OK;
}

/* Checks which inputs are sorted. Called only once it is known that some are not. Unsorted inputs
 * are usually detected after a few rows. */
static enum hf_status find_unsorted(struct job *job, struct feed *feeds, size_t count,
                                    struct hf_error *error)
{
    job->bytes_left = 3 * job->result.bytes_in; /* now, while sorting, and in the last pass */
    for (size_t i = 0; i < count; i++) {
        struct job_scan scan = { /* any_order */ false, check_batch, .context = &feeds[i] };
        enum hf_status status = job_scan(job, &feeds[i], &scan, error);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

/* ---- Passes -------------------------------------------------------------------------- */

/* The state of one attempt. */
struct attempt {
    struct job *job;
    struct feed *feeds; /* the inputs, in an order independent of the arguments */
    size_t count;
    bool looked;             /* it is known which inputs are unsorted */
    struct runs *sorted;     /* runs of the unsorted inputs */
    struct runs *merged;     /* runs of merged groups */
    struct layouts *layouts; /* of inputs whose headers differ */
    struct feed *last;       /* inputs of the last pass */
    size_t last_count;
    struct pass_end end;
    struct hf_error *error;
};

/* Merges the inputs that are in order into runs, group by group, so that these runs and the sorted
 * runs fit into one pass. */
static enum hf_status merge_groups(struct attempt *attempt, const struct feed *files,
                                   size_t count)
{
    struct job *job = attempt->job;
    for (size_t i = 0; i < count; i++)
        job->bytes_left += files[i].size; /* their runs are read too */
    for (size_t i = 0; i < count; i += job->group) {
        size_t size = count - i < job->group ? count - i : job->group;
        struct sink sink;
        enum hf_status status = runs_begin(job, &sink, attempt->error);
        if (status != HF_OK)
            return status;
        status = pass_run(job, files + i, size, &sink, &attempt->end, attempt->error);
        if (status == HF_OK)
            status = runs_add(attempt->merged, job, &sink, &attempt->end, attempt->error);
        else
            sink_release(&sink);
        if (status != HF_OK)
            return status;
    }
    return runs_reduce(attempt->merged, job, job_width(job) - attempt->sorted->count,
                       &attempt->end, attempt->error);
}

static void add_last(struct attempt *attempt, const struct feed *feeds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        attempt->last[attempt->last_count++] = feeds[i];
}

/* Collects the inputs of the last pass: the sorted runs, then the other inputs or the runs of their
 * groups. */
static enum hf_status collect_inputs(struct attempt *attempt)
{
    size_t count = 0;
    struct feed *files = attempt->last + 2 * RUNS_MAX;
    for (size_t i = 0; i < attempt->count; i++)
        if (!attempt->feeds[i].unsorted)
            files[count++] = attempt->feeds[i];
    size_t group = attempt->job->group;
    size_t sorted_max = job_width(attempt->job) / (count ? 2 : 1);
    enum hf_status status = HF_OK;
    if (attempt->sorted->count > sorted_max)
        status = runs_reduce(attempt->sorted, attempt->job, sorted_max, &attempt->end,
                             attempt->error);
    bool in_groups = count && attempt->sorted->count + count > group;
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

static enum hf_status last_pass(struct attempt *attempt)
{
    struct job *job = attempt->job;
    struct sink sink;
    enum hf_status status = job_create(job, JOB_OUTPUT, &sink, attempt->error);
    if (status != HF_OK)
        return status;
    job->bytes_left = 0;
    for (size_t i = 0; i < attempt->last_count; i++)
        job->bytes_left += attempt->last[i].size;
    if (job->header.size) {
        sink_add(&sink, job->header);
        sink_add(&sink, VIEW("\n"));
    }
    status =
        pass_run(job, attempt->last, attempt->last_count, &sink, &attempt->end, attempt->error);
    if (status == HF_OK) {
        const struct merge_result *result = &job->result;
        check(result->rows_in == result->rows_out + result->rows_superseded +
                                     result->rows_rejected + result->rows_deleted);
        job->refused = job_overrun(job);
        status = job->refused ? HF_INVALID : job_progress_end(job, attempt->error);
        if (status == HF_OK)
            status = job_keep(job, &sink, attempt->error);
    }
    job_release(job, JOB_OUTPUT, &sink);
    return status;
}

/* Prepares another attempt. Nothing of the earlier attempt is kept. */
static void start_anew(struct attempt *attempt)
{
    struct job *job = attempt->job;
    struct merge_result *result = &job->result;
    *result = (struct merge_result){ .rows_counted = true, .bytes_in = result->bytes_in };
    job->bytes_left = result->bytes_in;
    for (size_t i = 0; i < attempt->count; i++) {
        result->inputs_unsorted += attempt->feeds[i].unsorted;
        if (attempt->feeds[i].unsorted)
            job->bytes_left += attempt->feeds[i].size; /* its runs are read too */
    }
    job_release(job, JOB_REJECTS, &job->rejects);
    job->refused = false;
    job->headers_differ = false;
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
        status = collect_inputs(attempt);
    if (status == HF_OK)
        status = last_pass(attempt);
    runs_release(attempt->sorted);
    runs_release(attempt->merged);
    return status;
}

/* Chooses another strategy after the budget was too small: more room for reading while sorting, no
 * reading ahead, or fewer inputs at a time. False if no strategy is left. */
static bool reduce_memory(struct job *job, const struct pass_end *end)
{
    size_t reserve_max = job->budget.limit / 4 * 3;
    if (end->sort_reading && job->sort_reserve < reserve_max) {
        job->sort_reserve *= 2;
        if (job->sort_reserve > reserve_max)
            job->sort_reserve = reserve_max;
        return true;
    }
    if (end->too_wide && !job->without_spares) {
        job->without_spares = true;
        return true;
    }
    if (end->too_wide && job->group > 1) {
        job->group /= 2;
        return true;
    }
    return false;
}

static enum hf_status input_changed(struct hf_error *error)
{
    return error_set(error, HF_UNAVAILABLE, "an input changed while it was being read");
}

/* After an attempt failed with `status`: prepares another one, and returns OK. */
static enum hf_status change_strategy(struct attempt *attempt, enum hf_status status)
{
    struct job *job = attempt->job;
    struct hf_error *error = attempt->error;
    if (!job->headers_differ && attempt->end.unsorted) {
        if (attempt->looked)
            return input_changed(error);
        status = find_unsorted(job, attempt->feeds, attempt->count, error);
        attempt->looked = status == HF_OK;
    } else if (!job->headers_differ) {
        return reduce_memory(job, &attempt->end) ? HF_OK : status;
    }
    if (!job->headers_differ)
        return status;
    if (attempt->layouts->count > 0)
        return input_changed(error);
    status = read_layouts(job, attempt->feeds, attempt->count, attempt->layouts, error);
    return status == HF_OK ? order_ties(job, /* headers_differ */ true, error) : status;
}

/* The first attempt assumes that all inputs have the same header, are sorted, and fit into memory
 * together. If that is wrong, the merge starts again with another strategy, at most a few times. */
static enum hf_status run_attempts(struct attempt *attempt)
{
    for (;;) {
        enum hf_status status = run_attempt(attempt);
        if (status == HF_OK || status == HF_CANCELLED)
            return status;
        status = change_strategy(attempt, status);
        if (status != HF_OK)
            return status;
    }
}

enum hf_status records_merge(struct job *job, struct feed *feeds, size_t count,
                             struct hf_error *error)
{
    struct buffer header = BUFFER_INIT(HF_MERGE_RECORD_MAX);
    struct attempt attempt = { .job = job, .feeds = feeds, .count = count, .error = error };
    size_t reserve = job->budget.limit / SORT_RESERVE_SHARE;
    job->group = GROUP_MAX;
    job->sort_reserve = reserve > SORT_RESERVE_MIN ? reserve : SORT_RESERVE_MIN;
    attempt.last = calloc(count + 2 * RUNS_MAX, sizeof *attempt.last);
    attempt.sorted = calloc(1, sizeof *attempt.sorted);
    attempt.merged = calloc(1, sizeof *attempt.merged);
    attempt.layouts = calloc(1, sizeof *attempt.layouts);
    enum hf_status status = HF_OK;
    if (!attempt.last || !attempt.sorted || !attempt.merged || !attempt.layouts)
        status = error_no_memory(error);
    else
        layouts_init(attempt.layouts, &job->budget);
    if (status == HF_OK)
        status = records_prepare(job, feeds, count, &header, error);
    if (status == HF_OK)
        status = order_ties(job, /* headers_differ */ false, error);
    if (status == HF_OK && !job->latest_wins)
        status = order_feeds(job, feeds, count, error);
    if (status == HF_OK)
        status = run_attempts(&attempt);
    if (job->refused)
        status = job_refuse(job, error);
    job_release(job, JOB_REJECTS, &job->rejects);
    ties_release(&job->ties);
    free(attempt.last);
    free(attempt.sorted);
    free(attempt.merged);
    if (attempt.layouts)
        layouts_release(attempt.layouts);
    free(attempt.layouts);
    buffer_release(&header);
    return status;
}
