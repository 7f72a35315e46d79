/* SPDX-License-Identifier: Apache-2.0 */
/* pass.c: one pass: merges many sources in order, through a tree, into one sink. A row that is out
 * of order ends the pass, so unsorted input is never merged in the wrong order. */
#include "base/check.h"
#include "merge/job.h"
#include "merge/pump.h"
#include "merge/run.h"
#include "merge/tree.h"

#include <stdlib.h>

/* All blocks together should fit into the caches; larger blocks save calls. */
#define BLOCKS_BYTES      (8 * MIB)
#define BLOCK_BYTES_LEAST (4 * KIB)
#define BLOCK_BYTES_MOST  (256 * KIB)

/* The position in a source: its current row. */
struct head {
    const struct row *row;
    const struct batch *batch;
    uint64_t position; /* of the previous batch, for progress */
};

struct pass {
    struct job *job;
    struct source *sources;
    struct head *heads;
    struct player *players;
    size_t count;
    struct tree tree;
    struct pump pump;
    struct sink *to;
    bool unsorted;
    struct hf_error *error;
    enum hf_status status;
};

/* ---- Moving on ----------------------------------------------------------------------- */

static struct view head_key(const struct pass *pass, size_t input)
{
    return batch_key(pass->heads[input].batch, pass->heads[input].row);
}

static struct view head_record(const struct pass *pass, size_t input)
{
    return batch_record(pass->heads[input].batch, pass->heads[input].row);
}

/* Moves to the first row of the next batch; false at the end, or after an error. */
static bool next_batch(struct pass *pass, size_t input)
{
    struct head *head = &pass->heads[input];
    struct source *source = &pass->sources[input];
    if (head->batch && head->batch->unsorted) {
        pass->unsorted = true;
        pass->status = error_set(pass->error, HF_INVALID, "an input is not in order");
        return false;
    }
    const struct batch *batch = pump_next(&pass->pump, source);
    if (!batch) {
        pass->status = source->error.status;
        if (pass->status != HF_OK)
            *pass->error = source->error;
        return false;
    }
    pass->status = job_progress(pass->job, batch->position - head->position, pass->error);
    pass->job->result.key_kinds |= batch->key_kinds;
    *head = (struct head){ batch->rows, batch, batch->position };
    return pass->status == HF_OK;
}

/* Skips rejected rows and ends of batches; returns the code of the next good row. */
static order_code find_next_row(struct pass *pass, size_t input)
{
    struct head *head = &pass->heads[input];
    while (!head->row || head->row->fault) {
        if (!head->row || head->row->fault == ROW_END) {
            if (!next_batch(pass, input))
                return CODE_END;
            continue;
        }
        pass->status =
            job_reject(pass->job, &pass->sources[input], head->batch, head->row, pass->error);
        if (pass->status != HF_OK)
            return CODE_END;
        head->row++;
    }
    return head->row->code;
}

static inline order_code advance(struct pass *pass, size_t input)
{
    struct head *head = &pass->heads[input];
    head->row++;
    if (head->row->fault)
        return find_next_row(pass, input);
    /* Prefetches what is needed when this input wins, and when it advances. */
    const char *record = head->batch->text + head->row->at;
    __builtin_prefetch(record);
    __builtin_prefetch(record + 64);
    __builtin_prefetch(record + head->row->size);
    __builtin_prefetch(head->row + 1);
    return head->row->code;
}

/* ---- Deciding ------------------------------------------------------------------------ */

/* Among rows with equal keys the smaller record comes first; among equal records, the one from the
 * earlier input. In latest-wins merges their order does not matter. */
static bool first_of_two(void *context, struct player *a, struct player *b)
{
    struct pass *pass = context;
    if (a->code != CODE_EQUAL) {
        struct view key_a = head_key(pass, a->input), key_b = head_key(pass, b->input);
        size_t from = order_offset(a->code);
        order_code code = CODE_EQUAL;
        if (!order_against(key_a, key_b, from, &code))
            return !order_against(key_b, key_a, from, &a->code);
        if (code != CODE_EQUAL) {
            b->code = code;
            return true;
        }
    }
    int order = 0;
    if (!pass->job->latest_wins)
        order = ties_compare(&pass->job->ties, head_record(pass, a->input),
                             head_record(pass, b->input));
    bool first = order < 0 || (order == 0 && a->input < b->input);
    *(first ? &b->code : &a->code) = CODE_EQUAL;
    return first;
}

static inline bool offer_row(struct pass *pass, const struct head *head)
{
    if (pass->to->is_run)
        return run_offer(pass->to, head->batch, head->row);
    return sink_offer(pass->to, batch_record(head->batch, head->row));
}

/* The last record of a key is known: it becomes final, or is dropped if it is a deletion. */
static inline void end_key(struct pass *pass, bool is_deletion, bool drops, uint64_t *deletions)
{
    *deletions += is_deletion;
    if (is_deletion && drops)
        sink_withdraw(pass->to);
    sink_settle(pass->to);
}

/* Merges with latest wins: the offered row becomes final when the next key arrives. A deletion that
 * wins is dropped only from the output: in a run, it must still win against records that are
 * elsewhere. */
static void merge_latest(struct pass *pass)
{
    struct tree *tree = &pass->tree;
    struct instant kept = { 0 };
    bool drops = pass->job->options->drop_deleted && !pass->to->is_run, is_deletion = false;
    uint64_t out = 0, superseded = 0, deletions = 0;
    while (tree->winner.code != CODE_END) {
        const struct head *head = &pass->heads[tree->winner.input];
        struct instant time = head->row->time;
        bool again = tree->winner.code == CODE_EQUAL && out;
        if (!again) {
            end_key(pass, is_deletion, drops, &deletions);
            out++;
        } else {
            superseded++;
        }
        if (!again || job_is_later(pass->job, time, batch_record(head->batch, head->row), kept,
                                   sink_offered_record(pass->to))) {
            kept = time;
            is_deletion = head->row->is_deleted;
            if (!offer_row(pass, head))
                break;
        }
        tree_replay(tree, advance(pass, tree->winner.input));
        if (pass->status != HF_OK)
            break;
    }
    end_key(pass, is_deletion, drops, &deletions);
    pass->job->result.rows_deleted = drops ? deletions : 0;
    pass->job->result.deletions_kept = drops ? 0 : deletions;
    pass->job->result.rows_out = out - pass->job->result.rows_deleted;
    pass->job->result.rows_superseded += superseded;
}

static void merge_plain(struct pass *pass)
{
    struct tree *tree = &pass->tree;
    uint64_t out = 0;
    while (tree->winner.code != CODE_END) {
        if (!offer_row(pass, &pass->heads[tree->winner.input]))
            break;
        sink_settle(pass->to);
        out++;
        tree_replay(tree, advance(pass, tree->winner.input));
        if (pass->status != HF_OK)
            break;
    }
    pass->job->result.rows_out = out;
}

/* ---- The pass ------------------------------------------------------------------------ */

static size_t block_bytes(const struct job *job, size_t count, size_t batch_count)
{
    size_t left = budget_left(&job->budget) / 8;
    size_t all = left < BLOCKS_BYTES ? left : BLOCKS_BYTES;
    size_t block = all / source_memory(count * batch_count);
    if (block > BLOCK_BYTES_MOST)
        return BLOCK_BYTES_MOST;
    return block < BLOCK_BYTES_LEAST ? BLOCK_BYTES_LEAST : block / KIB * KIB;
}

static void open_sources(struct pass *pass, const struct feed *feeds, size_t batch_count)
{
    struct job *job = pass->job;
    struct cutter of_run = run_cutter(&job->cutter);
    struct source_options options = { .batch_count = batch_count, .budget = &job->budget };
    if (pass->count > 0)
        options.block_bytes = block_bytes(job, pass->count, batch_count);
    for (size_t i = 0; i < pass->count; i++) {
        bool is_run = feeds[i].run >= 0;
        options.like = is_run ? &of_run : job_cutter_of(job, &feeds[i]);
        options.header = is_run ? RUN_MARK : job_header_of(job, &feeds[i]);
        pass->status = source_init(&pass->sources[i], &feeds[i], &options, pass->error);
        if (pass->status != HF_OK)
            return;
    }
}

static void build_tree(struct pass *pass)
{
    pass->tree.first = first_of_two;
    pass->tree.context = pass;
    for (size_t i = 0; i < pass->count; i++) {
        pass->players[pass->count + i] = (struct player){ find_next_row(pass, i), i };
        if (pass->status != HF_OK)
            return;
    }
    tree_build(&pass->tree, pass->players, pass->count);
}

static void end_pass(struct pass *pass, struct pass_end *ret_end)
{
    pump_stop(&pass->pump);
    *ret_end = (struct pass_end){ .unsorted = pass->unsorted, .too_wide = pass->to->too_wide };
    for (size_t i = 0; i < pass->count; i++) {
        ret_end->too_wide = ret_end->too_wide || pass->sources[i].too_wide;
        pass->job->headers_differ |= pass->sources[i].other_header;
        if (pass->sources[i].feed && pass->sources[i].feed->run < 0)
            pass->job->result.rows_in += pass->sources[i].rows;
        source_release(&pass->sources[i]);
    }
    free(pass->sources);
    free(pass->heads);
    free(pass->players);
}

enum hf_status pass_run(struct job *job, const struct feed *feeds, size_t count,
                        struct sink *to, struct pass_end *ret_end, struct hf_error *error)
{
    size_t threads = job->options->threads - 1;
    struct pass pass = { .job = job, .count = count, .to = to };
    pass.error = error;
    pass.sources = calloc(count + 1, sizeof *pass.sources);
    pass.heads = calloc(count + 1, sizeof *pass.heads);
    pass.players = calloc(2 * count + 1, sizeof *pass.players);
    if (!pass.sources || !pass.heads || !pass.players) {
        pass.count = 0;
        pass.status = error_no_memory(error);
    }
    open_sources(&pass, feeds, threads && !job->without_spares ? SOURCE_BATCHES_MAX : 1);
    if (pass.status == HF_OK)
        pass.status = pump_start(&pass.pump, job->env, pass.sources, count, threads, error);
    if (pass.status == HF_OK && count)
        build_tree(&pass);
    if (pass.status == HF_OK && count && job->latest_wins)
        merge_latest(&pass);
    else if (pass.status == HF_OK && count)
        merge_plain(&pass);
    if (pass.status == HF_OK)
        pass.status = sink_status(to, error);
    end_pass(&pass, ret_end);
    return pass.status;
}
