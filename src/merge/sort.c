/* SPDX-License-Identifier: Apache-2.0 */
/* sort.c: sorts inputs that are not in order into runs, in bounded memory. */
#include "base/check.h"
#include "merge/run.h"
#include "merge/runs.h"

#include <stdlib.h>

/* While a run is built, it is in one piece of memory: rows in their final form from the front, and
 * an entry for each row from the back. The free part between them always has room for a second copy
 * of the entries, which sorting needs.
 *
 *     | rows ...        |        free        | entries |
 *
 * Entries are sorted with a radix sort by eight bytes of their keys, which follow the prefix that
 * all keys have in common. Whole keys are compared only if these bytes are equal. */

#define PREFETCH_AHEAD 8

struct entry {
    uint64_t prefix;
    uint32_t at; /* offset of the row, in units of eight bytes */
    uint32_t unused;
};

struct sorter {
    struct job *job;
    struct runs *runs;
    char *memory;
    size_t size;   /* total, a multiple of sizeof(struct entry) */
    size_t rows;   /* bytes of rows */
    size_t count;  /* number of entries */
    size_t common; /* bytes that all keys have in common */
    struct pass_end *end;
    struct hf_error *error;
};

static struct entry *entries(const struct sorter *sorter)
{
    return (struct entry *)(void *)(sorter->memory + sorter->size) - sorter->count;
}

static const char *entry_row(const struct sorter *sorter, struct entry entry)
{
    return sorter->memory + (size_t)entry.at * 8;
}

/* ---- Order --------------------------------------------------------------------------- */

static uint64_t key_prefix(struct view key, size_t at)
{
    if (at >= key.size)
        return 0;
    uint64_t bytes = load_big_endian(key.data + at);
    size_t left = key.size - at;
    return left < 8 ? bytes & (~UINT64_C(0) << (8 * (8 - left))) : bytes;
}

/* A counting sort by one digit, from one array into the other. */
static void scatter(const struct entry *from, struct entry *to, size_t count, unsigned shift,
                    const uint32_t counts[256])
{
    size_t starts[256], sum = 0;
    for (size_t digit = 0; digit < 256; digit++) {
        starts[digit] = sum;
        sum += counts[digit];
    }
    for (size_t i = 0; i < count; i++)
        to[starts[from[i].prefix >> shift & 255]++] = from[i];
}

static void sort_by_prefix(struct entry *entry, struct entry *other, size_t count)
{
    uint32_t counts[8][256] = { { 0 } };
    struct entry *home = entry;
    for (size_t i = 0; i < count; i++)
        for (unsigned digit = 0; digit < 8; digit++)
            counts[digit][entry[i].prefix >> (8 * digit) & 255]++;
    for (unsigned digit = 0; digit < 8; digit++) {
        if (counts[digit][entry[0].prefix >> (8 * digit) & 255] == count)
            continue; /* all keys have the same digit */
        scatter(entry, other, count, 8 * digit, counts[digit]);
        struct entry *swap = entry;
        entry = other;
        other = swap;
    }
    if (entry != home)
        memcpy(home, entry, count * sizeof *entry);
}

/* Compares by key, then by time if the latest wins, then by record. */
static int compare_rows(const void *a, const void *b, void *context)
{
    const struct sorter *sorter = context;
    const char *row_a = entry_row(sorter, *(const struct entry *)a);
    const char *row_b = entry_row(sorter, *(const struct entry *)b);
    int order = view_compare(run_key(row_a), run_key(row_b));
    if (order == 0 && sorter->job->latest_wins)
        order = instant_compare(((const struct run_row *)(const void *)row_a)->time,
                                ((const struct run_row *)(const void *)row_b)->time);
    return order ? order
                 : ties_compare(&sorter->job->ties, run_record(row_a), run_record(row_b));
}

static void sort_entries(struct sorter *sorter)
{
    struct entry *entry = entries(sorter);
    for (size_t i = 0; i < sorter->count; i++)
        entry[i].prefix = key_prefix(run_key(entry_row(sorter, entry[i])), sorter->common);
    sort_by_prefix(entry, entry - sorter->count, sorter->count);
    for (size_t from = 0, to; from < sorter->count; from = to) {
        to = from + 1;
        while (to < sorter->count && entry[to].prefix == entry[from].prefix)
            to++;
        if (to - from > 1)
            qsort_r(entry + from, to - from, sizeof *entry, compare_rows, sorter);
    }
}

/* ---- Writing ------------------------------------------------------------------------- */

static bool superseded_by_next(const struct sorter *sorter, const struct entry *entry)
{
    return sorter->job->latest_wins && entry[0].prefix == entry[1].prefix &&
           view_equal(run_key(entry_row(sorter, entry[0])),
                      run_key(entry_row(sorter, entry[1])));
}

static void write_sorted_rows(struct sorter *sorter, struct sink *sink)
{
    const struct entry *entry = entries(sorter);
    for (size_t i = 0; i < sorter->count; i++) {
        if (i + PREFETCH_AHEAD < sorter->count) {
            const char *ahead = entry_row(sorter, entry[i + PREFETCH_AHEAD]);
            __builtin_prefetch(ahead);
            __builtin_prefetch(ahead + 64);
        }
        if (i + 1 < sorter->count && superseded_by_next(sorter, &entry[i])) {
            sorter->job->result.rows_superseded++;
            continue;
        }
        const char *row = entry_row(sorter, entry[i]);
        size_t size = run_row_size((const struct run_row *)(const void *)row);
        if (!sink_add(sink, (struct view){ row, size }))
            return;
    }
}

static enum hf_status sorter_take_memory(struct sorter *sorter)
{
    struct job *job = sorter->job;
    sorter->size = (job->budget.limit - job->sort_reserve) & ~(sizeof(struct entry) - 1);
    if (!budget_take(&job->budget, sorter->size)) {
        sorter->size = 0;
        sorter->end->sort_reading = true;
        return error_set(sorter->error, HF_UNAVAILABLE, "the memory setting is too small");
    }
    sorter->memory = malloc(sorter->size);
    return sorter->memory ? HF_OK : error_no_memory(sorter->error);
}

static void sorter_give_memory(struct sorter *sorter)
{
    free(sorter->memory);
    budget_give(&sorter->job->budget, sorter->size);
    sorter->memory = NULL;
    sorter->size = 0;
}

/* Writes the rows as a run and releases their memory, because runs may have to be merged next,
 * which needs the memory. */
static enum hf_status write_run(struct sorter *sorter)
{
    struct sink sink;
    if (!sorter->count)
        return HF_OK;
    sort_entries(sorter);
    enum hf_status status = runs_begin(sorter->job, &sink, sorter->error);
    if (status != HF_OK)
        return status;
    write_sorted_rows(sorter, &sink);
    sorter->count = 0;
    sorter->rows = 0;
    bool may_merge = sorter->runs->count + 1 >= RUNS_OF_LEVEL;
    if (may_merge)
        sorter_give_memory(sorter);
    status = runs_add(sorter->runs, sorter->job, &sink, sorter->end, sorter->error);
    return status == HF_OK && may_merge ? sorter_take_memory(sorter) : status;
}

/* ---- Reading ------------------------------------------------------------------------- */

static enum hf_status sorter_add(struct sorter *sorter, const struct batch *batch,
                                 const struct row *row)
{
    size_t size = run_row_bytes(row);
    size_t needed = size + 2 * (sorter->count + 1) * sizeof(struct entry) + KEY_SLACK;
    if (needed > sorter->size - sorter->rows) {
        enum hf_status status = write_run(sorter);
        if (status != HF_OK)
            return status;
        if (size + 2 * sizeof(struct entry) + KEY_SLACK > sorter->size)
            return error_set(sorter->error, HF_UNAVAILABLE,
                             "the memory setting is too small to sort records of this size");
    }
    char *to = sorter->memory + sorter->rows;
    run_row_write(batch, row, to);
    sorter->count++;
    *entries(sorter) = (struct entry){ .at = (uint32_t)(sorter->rows / 8) };
    sorter->rows += size;
    struct view key = run_key(to);
    if (sorter->count == 1)
        sorter->common = key.size;
    else
        sorter->common =
            common_prefix(view_first(run_key(sorter->memory), sorter->common), key, 0);
    return HF_OK;
}

static enum hf_status add_batch(void *context, const struct source *source,
                                const struct batch *batch, struct hf_error *error)
{
    struct sorter *sorter = context;
    sorter->job->result.key_kinds |= batch->key_kinds;
    for (size_t i = 0; i < batch->row_count; i++) {
        const struct row *row = &batch->rows[i];
        enum hf_status status = row->fault ? job_reject(sorter->job, source, batch, row, error)
                                           : sorter_add(sorter, batch, row);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

enum hf_status sort_feeds(struct job *job, const struct feed *feeds, size_t count,
                          struct runs *runs, struct pass_end *ret_end, struct hf_error *error)
{
    struct sorter sorter = { .job = job, .runs = runs, .end = ret_end, .error = error };
    *ret_end = (struct pass_end){ 0 };
    enum hf_status status = sorter_take_memory(&sorter);
    for (size_t i = 0; i < count; i++) {
        struct job_scan scan = { /* any_order */ true, add_batch, .context = &sorter };
        if (status != HF_OK || !feeds[i].unsorted)
            continue;
        status = job_scan(job, &feeds[i], &scan, error);
        job->result.rows_in += scan.rows;
        ret_end->sort_reading = ret_end->sort_reading || scan.too_wide;
    }
    if (status == HF_OK)
        status = write_run(&sorter);
    sorter_give_memory(&sorter);
    return status;
}
