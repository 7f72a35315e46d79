/* records.c: formats of records: headers, which inputs must be sorted, which passes it takes. */
#include "base/check.h"
#include "merge/job.h"
#include "merge/run.h"
#include "merge/runs.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* Inputs that are read at once. More are merged in groups first; these must not depend on how
 * much memory there is, or equal inputs would not give equal bytes. */
#define GROUP_MAX 224
#define GROUP_MIN 2

/* What sorting leaves of the memory for reading, at first. */
#define SORT_RESERVE_SHARE 8
#define SORT_RESERVE_MIN   (4 * MIB)

/* ---- Before the work ----------------------------------------------------------------- */

static enum hf_status init_cutter(struct job *job, struct hf_error *error)
{
    const struct merge_options *options = job->options;
    struct cutter *cutter = &job->cutter;
    *cutter = (struct cutter){ .record_bytes_max = job->record_bytes_max };
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
        status = job_keep(job, &sink, attempt->error);
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
        status = init_cutter(job, error);
    if (status == HF_OK)
        status = read_header(job, feeds, count, &header, error);
    if (status == HF_OK && !job->latest_wins)
        qsort(feeds, count, sizeof *feeds, compare_feeds);
    if (status == HF_OK)
        status = run_attempts(&attempt);
    if (job->rejecting)
        sink_release(&job->rejects);
    free(attempt.last);
    free(attempt.sorted);
    free(attempt.merged);
    buffer_release(&header);
    return status;
}
