/* records.c: formats of records: headers, which inputs must be sorted, which passes it takes. */
#include "base/check.h"
#include "base/hash.h"
#include "merge/job.h"
#include "merge/run.h"
#include "merge/runs.h"

#include <stdlib.h>

/* Inputs that are read at once. More are merged in groups first. Each group is of inputs that
 * follow each other in their order, and what it becomes takes their place: so it does not matter
 * for the result how large groups are. */
#define GROUP_MAX 224

/* What sorting leaves of the memory for reading, at first. */
#define SORT_RESERVE_SHARE 8
#define SORT_RESERVE_MIN   (4 * MIB)

/* ---- Before the work ----------------------------------------------------------------- */

static enum hf_status init_cutter(struct job *job, struct hf_error *error)
{
    const struct merge_options *options = job->options;
    struct cutter *cutter = &job->cutter;
    *cutter = (struct cutter){ .record_bytes_max = job->record_bytes_max,
                               .has_zone = options->has_zone,
                               .zone_east_s = options->zone_east_s };
    cutter->separator = options->format == MERGE_TSV ? '\t' : ',';
    cutter->format = options->format == MERGE_USV      ? &format_usv
                     : options->format == MERGE_NDJSON ? &format_ndjson
                                                       : &format_csv;
    bool by_name = options->format == MERGE_NDJSON;
    enum hf_status status = HF_OK;
    if (options->key.data)
        status = field_parse(options->key, by_name, &cutter->key, error);
    if (status == HF_OK && options->time.data)
        status = field_parse(options->time, by_name, &cutter->time, error);
    job->latest_wins = cutter->key.asked && cutter->time.asked;
    return status;
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

enum hf_status records_prepare(struct job *job, const struct feed *feeds, size_t count,
                               struct buffer *header, struct hf_error *error)
{
    enum hf_status status = init_cutter(job, error);
    return status == HF_OK ? read_header(job, feeds, count, header, error) : status;
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
    job->bytes_total += feed->size;
    enum hf_status status = job_read(job, feed, hash_bytes, &hash, error);
    feed->hash = hash_stream_xxh3(&hash);
    return status;
}

/* By size, and by content where sizes are equal: an order that the inputs bring with them. */
static enum hf_status order_feeds(struct job *job, struct feed *feeds, size_t count,
                                  struct hf_error *error)
{
    enum hf_status status = HF_OK;
    qsort(feeds, count, sizeof *feeds, compare_feeds);
    for (size_t i = 0; status == HF_OK && i < count; i++)
        if ((i > 0 && feeds[i - 1].size == feeds[i].size) ||
            (i + 1 < count && feeds[i + 1].size == feeds[i].size))
            status = hash_feed(job, &feeds[i], error);
    qsort(feeds, count, sizeof *feeds, compare_feeds);
    return status;
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

/* Looks which inputs are in order, once it is known that some are not. Those that are not tell
 * it soon, as a rule. */
static enum hf_status find_unsorted(struct job *job, struct feed *feeds, size_t count,
                                    struct hf_error *error)
{
    enum hf_status status = HF_OK;
    struct scan_end end;
    job->bytes_total += job->result.bytes_in;
    for (size_t i = 0; status == HF_OK && i < count; i++)
        status = job_scan(job, &feeds[i], &job->cutter, check_batch, &feeds[i], &end, error);
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
    return runs_reduce(attempt->merged, job, job_width(job) - attempt->sorted->count,
                       &attempt->end, attempt->error);
}

static void add_last(struct attempt *attempt, const struct feed *feeds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        attempt->last[attempt->last_count++] = feeds[i];
}

/* Collects what the last pass reads: sorted runs, then inputs, or the runs of their groups. */
static enum hf_status gather(struct attempt *attempt)
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
        job->refused = job_overrun(job);
        status = job->refused ? HF_INVALID : job_keep(job, &sink, attempt->error);
    }
    job_release(job, JOB_OUTPUT, &sink);
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
    job_release(job, JOB_REJECTS, &job->rejects);
    job->refused = false;
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

/* Another way, when memory did not suffice in this one: more room for reading while it sorts,
 * nothing read ahead, fewer inputs at once. False when there is none. */
static bool narrow(struct job *job, const struct pass_end *end)
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
        } else if (!narrow(attempt->job, &attempt->end)) {
            return status;
        }
    }
}

enum hf_status records_merge(struct job *job, struct feed *feeds, size_t count,
                             struct hf_error *error)
{
    struct buffer header = BUFFER_INIT(MERGE_RECORD_MAX);
    struct attempt attempt = { .job = job, .feeds = feeds, .count = count, .error = error };
    size_t reserve = job->budget.limit / SORT_RESERVE_SHARE;
    job->group = GROUP_MAX;
    job->sort_reserve = reserve > SORT_RESERVE_MIN ? reserve : SORT_RESERVE_MIN;
    attempt.last = calloc(count + 2 * RUNS_MAX, sizeof *attempt.last);
    attempt.sorted = calloc(1, sizeof *attempt.sorted);
    attempt.merged = calloc(1, sizeof *attempt.merged);
    enum hf_status status = HF_OK;
    if (!attempt.last || !attempt.sorted || !attempt.merged)
        status = error_no_memory(error);
    if (status == HF_OK)
        status = records_prepare(job, feeds, count, &header, error);
    if (status == HF_OK && !job->latest_wins)
        status = order_feeds(job, feeds, count, error);
    if (status == HF_OK)
        status = run_attempts(&attempt);
    if (job->refused)
        status = job_refuse(job, error);
    job_release(job, JOB_REJECTS, &job->rejects);
    free(attempt.last);
    free(attempt.sorted);
    free(attempt.merged);
    buffer_release(&header);
    return status;
}
