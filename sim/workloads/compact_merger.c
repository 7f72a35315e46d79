/* SPDX-License-Identifier: Apache-2.0 */
/* compact_merger.c: the simulator's implementation of compact/work/merger.h. It reads the sources,
 * merges their rows in memory, and puts the output. One kind of chunk crashes every node that
 * merges it. */
#include "base/check.h"
#include "base/hash.h"
#include "base/rule.h"
#include "compact/catalog/chunk_object.h"
#include "sim/workloads/compact_work.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define GET_TRIES_MAX 4
#define PUT_TRIES_MAX 5
#define BYTES_MAX     ((size_t)ROW_BYTES * ROW_MAX)
#define RESTART_S_MAX 20

/* ---- Retried requests ---------------------------------------------------------------- */

static enum hf_status get_part(const struct actor *actor, const struct chunk *chunk,
                               uint64_t start, uint64_t size, struct buffer *bytes,
                               struct hf_error *error)
{
    enum hf_status status = HF_UNAVAILABLE;
    for (int i = 0; i < GET_TRIES_MAX && status == HF_UNAVAILABLE; i++) {
        struct get_call call = chunk_get_call(chunk);
        call.offset = start;
        call.length = size;
        call.body = bytes;
        buffer_clear(bytes);
        if (i > 0)
            actor_rest(actor, SPAN_MS(200 << i));
        store_get(actor->store, &call);
        status = chunk_got(chunk, &call, error);
    }
    return status;
}

static enum hf_status get_object(const struct actor *actor, const struct chunk *chunk,
                                 struct buffer *bytes, struct hf_error *error)
{
    return get_part(actor, chunk, 0, 0, bytes, error);
}

/* The put may have been refused because of this node's own earlier put, or because of another
 * node's put in flight. */
static enum hf_status is_it_ours(const struct actor *actor, struct view key, struct view bytes,
                                 struct hf_error *error)
{
    struct buffer there = BUFFER_INIT(BYTES_MAX);
    const struct chunk chunk = { .key = key };
    enum hf_status status = get_object(actor, &chunk, &there, error);
    if (status == HF_OK && !view_equal(buffer_view(&there), bytes))
        status = error_set(error, HF_CONFLICT, "another object has that name");
    buffer_release(&there);
    return status;
}

enum hf_status compact_put(const struct actor *actor, struct view key, struct view bytes,
                           struct hf_error *error)
{
    bool unsure = false;
    for (int i = 0; i < PUT_TRIES_MAX; i++) {
        struct put_call call = { .key = key, .body = bytes, .condition = if_absent() };
        if (i > 0)
            actor_rest(actor, SPAN_MS(200 << i));
        enum hf_status status = store_put(actor->store, &call);
        *error = call.error;
        unsure |= status == HF_UNSURE;
        if (status == HF_CONFLICT)
            status = is_it_ours(actor, key, bytes, error);
        if (status == HF_OK || status == HF_CONFLICT)
            return status;
    }
    return unsure ? error_set(error, HF_UNSURE, "the object may be there") : error->status;
}

/* ---- Partitions ---------------------------------------------------------------------- */

static void cut_or_connect(void *argument)
{
    struct compact_cut *cut = argument;
    struct world *world = cut->compact->run->world;
    cut->is_cut = !cut->is_cut;
    net_cut(cut->compact->run->net, cut->node, cut->is_cut);
    if (cut->is_cut)
        world_set_timer(world, &cut->timer, world_now_us(world) + cut->length_us,
                        cut_or_connect, cut);
}

/* May start a network partition soon: before the commit is sent, or while it is in flight. The
 * partition lasts longer than the node's timeout. */
static void maybe_be_cut(const struct actor *actor)
{
    const struct run *run = actor->compact->run;
    struct compact_cut *cut = &actor->compact->cuts[node_number(actor->node)];
    int64_t now_us = world_now_us(run->world);
    bool calm =
        run->options->calm || run->options->crash_at.request > 0 || now_us > run->calm_us;
    if (!actor->compact->plan.cuts || calm || timer_is_set(&cut->timer) ||
        !actor_one_in(actor, 6) || !fault_happens(net_faults(run->net), CHAOS_CUT))
        return;
    cut->length_us = SPAN_S(30 + actor_below(actor, 200)).us;
    int64_t soon_us = (int64_t)actor_below(actor, 150000);
    world_set_timer(run->world, &cut->timer, now_us + soon_us, cut_or_connect, cut);
}

/* ---- Merging ------------------------------------------------------------------------- */

struct merging {
    const struct actor *actor;
    const struct merge_order *order;
    struct merge_product *product;
    struct row *rows;
    size_t count;
};

static void restart(void *argument)
{
    struct compact_restart *after = argument;
    struct world *world = after->compact->run->world;
    if (node_is_suspended(after->node))
        world_set_timer(world, &after->timer, world_now_us(world) + SPAN_S(60).us, restart,
                        after);
    else if (!node_is_up(after->node))
        node_restart(after->node);
}

/* Crashes its own process. */
static void be_killed(const struct actor *actor)
{
    struct world *world = actor->compact->run->world;
    struct compact_restart *after = &actor->compact->restarts[node_number(actor->node)];
    int64_t down_us = SPAN_S(1 + actor_below(actor, RESTART_S_MAX)).us;
    trace_line(world_trace(world), "node %u: is killed by what it merges",
               node_number(actor->node));
    world_set_timer(world, &after->timer, world_now_us(world) + down_us, restart, after);
    node_crash(actor->node);
}

static bool is_as_the_catalog_says(const struct chunk *source, struct view bytes)
{
    return !RULE(CHECKSUM_ON_READ) ||
           (bytes.size == source->size && crc32c(0, bytes) == source->crc32c);
}

/* An outside writer may rewrite an object such that neither size nor checksum shows it, so here
 * only the ETag protects an adopted object. */
static bool is_as_adopted(const struct chunk *source, struct view bytes)
{
    return chunk_is_adopted(source) || is_as_the_catalog_says(source, bytes);
}

/* Reads the part of a source that belongs to a range. The catalog checks the checksums of all
 * ranges together. */
static enum hf_status fetch_part(struct merging *merging, size_t index, struct buffer *bytes,
                                 struct hf_error *error)
{
    const struct merge_parts *parts = merging->order->parts;
    const struct chunk *source = &merging->order->sources[index];
    enum hf_status status = HF_OK;
    if (parts->sizes[index] > 0)
        status = get_part(merging->actor, source, parts->starts[index], parts->sizes[index],
                          bytes, error);
    if (status == HF_OK && bytes->size != parts->sizes[index]) {
        merging->product->group_fault = true;
        status = error_set(error, HF_CORRUPT, "it is shorter than the catalog says");
    }
    if (status == HF_NOT_FOUND)
        merging->product->culprit = index;
    parts->ret_crcs[index] = crc32c(0, buffer_view(bytes));
    merging->product->bytes_read += bytes->size;
    return status;
}

/* Reads one source, and reads it again if its contents are wrong. */
static enum hf_status fetch(struct merging *merging, size_t index, struct buffer *bytes,
                            struct hf_error *error)
{
    const struct chunk *source = &merging->order->sources[index];
    if (merging->order->parts)
        return fetch_part(merging, index, bytes, error);
    enum hf_status status = get_object(merging->actor, source, bytes, error);
    if (status == HF_OK && !is_as_adopted(source, buffer_view(bytes)))
        status = get_object(merging->actor, source, bytes, error);
    if (status == HF_OK && !is_as_adopted(source, buffer_view(bytes)))
        status = error_set(error, HF_CORRUPT, "it is not what the catalog says");
    if (status == HF_CORRUPT || status == HF_NOT_FOUND)
        merging->product->culprit = index;
    merging->product->bytes_read += bytes->size;
    return status;
}

/* A key in hexadecimal, as divide() writes it; `none` if there is none. */
static unsigned key_of_hex(struct view hex, unsigned none)
{
    return hex.size > 0 ? (unsigned)(hex.data[hex.size - 1] - '0') : none;
}

/* Like the real merger, checks that a part has only keys of its range. */
static bool keys_are_in_range(const struct merge_parts *parts, const struct row *rows,
                              size_t count)
{
    unsigned from = key_of_hex(parts->from, 0), to = key_of_hex(parts->to, UINT_MAX);
    for (size_t i = 0; i < count; i++)
        if (RULE(PARTS_HAVE_THEIR_KEYS) && (rows[i].key < from || rows[i].key >= to))
            return false;
    return true;
}

static enum hf_status take_in(struct merging *merging, size_t index, struct hf_error *error)
{
    struct buffer bytes = BUFFER_INIT(BYTES_MAX);
    enum hf_status status = fetch(merging, index, &bytes, error);
    size_t count = rows_in(buffer_view(&bytes));
    if (status == HF_OK && (merging->count + count > ROW_MAX ||
                            !rows_read(buffer_view(&bytes), merging->rows + merging->count))) {
        merging->product->group_fault = merging->order->parts != NULL;
        status = error_set(error, HF_CORRUPT, "these are no rows");
    }
    if (status == HF_OK && merging->order->parts &&
        !keys_are_in_range(merging->order->parts, merging->rows + merging->count, count)) {
        merging->product->group_fault = true;
        status = error_set(error, HF_CORRUPT, "a source is not sorted by key");
    }
    buffer_release(&bytes);
    if (status != HF_OK)
        return status;
    for (size_t i = merging->count; i < merging->count + count; i++)
        if (merging->rows[i].key == ROW_KEY_KILLER)
            be_killed(merging->actor);
    merging->count += count;
    return HF_OK;
}

static bool goes_on(const struct merging *merging, struct hf_error *error)
{
    const struct merge_order *order = merging->order;
    if (!order->go_on || order->go_on(order->argument, merging->product->bytes_read,
                                      2 * merging->product->bytes_read))
        return true;
    error_set(error, HF_CANCELLED, "told to stop");
    return false;
}

static enum hf_status put_output(struct merging *merging, struct hf_error *error)
{
    struct merge_product *product = merging->product;
    const struct compact_plan *plan = &merging->actor->compact->plan;
    rows_sort(merging->rows, merging->count, plan->deletes);
    product->rows_known = true;
    product->rows_in = merging->count;
    product->rows_out =
        plan->latest_wins ? rows_latest(merging->rows, merging->count) : merging->count;
    product->rows_superseded = product->rows_in - product->rows_out;
    if (merging->order->drops_markers) {
        uint64_t kept = rows_without_markers(merging->rows, (size_t)product->rows_out);
        product->rows_deleted = product->rows_out - kept;
        product->rows_out = kept;
        product->markers_dropped = true;
    }
    product->markers_counted = plan->deletes;
    for (size_t i = 0; i < product->rows_out && plan->deletes; i++)
        product->markers_kept += row_is_marker(&merging->rows[i]);
    char *bytes = malloc((size_t)product->rows_out * ROW_BYTES + 1);
    if (!bytes)
        return error_no_memory(error);
    rows_write(merging->rows, (size_t)product->rows_out, bytes);
    if (merging->order->test) {
        free(bytes);
        return HF_OK;
    }
    struct view body = { bytes, (size_t)product->rows_out * ROW_BYTES };
    product->size = body.size;
    product->crc32c = crc32c(0, body);
    product->put_sent = true;
    enum hf_status status = compact_put(merging->actor, merging->order->output, body, error);
    free(bytes);
    if (status == HF_OK)
        maybe_be_cut(merging->actor);
    return status;
}

static enum hf_status merge(struct merging *merging, struct hf_error *error)
{
    const struct actor *actor = merging->actor;
    const struct compact_settings *settings = &actor->compact->plan.settings;
    for (size_t i = 0; i < merging->order->source_count; i++) {
        enum hf_status status = take_in(merging, i, error);
        if (status != HF_OK)
            return status;
        if (!goes_on(merging, error))
            return HF_CANCELLED;
    }
    if (actor->compact->plan.mergers_fail && actor_one_in(actor, 6)) {
        merging->product->group_fault = actor_one_in(actor, 2);
        return error_set(error, HF_UNAVAILABLE, "it does not work");
    }
    actor_rest(actor, SPAN_MS(actor_one_in(actor, 4) ? settings->ttl_ms : 200));
    return goes_on(merging, error) ? put_output(merging, error) : HF_CANCELLED;
}

static enum hf_status make(struct merger *merger, const struct merge_order *order,
                           struct merge_product *ret_product, struct hf_error *error)
{
    struct sim_merger *own = (struct sim_merger *)merger;
    struct merging merging = { .actor = own->actor, .order = order, .product = ret_product };
    *ret_product = (struct merge_product){ .culprit = MERGE_NO_CULPRIT };
    checker_merge_begins(own->actor->compact->checker, order->output);
    merging.rows = malloc(ROW_MAX * sizeof *merging.rows);
    if (!merging.rows)
        return error_no_memory(error);
    enum hf_status status = merge(&merging, error);
    free(merging.rows);
    return status;
}

/* ---- Dividing ------------------------------------------------------------------------ */

/* Where the rows with this key or a greater one start. The rows of a merged chunk are sorted. If
 * `wrong`, it finds the end of the rows with that key, as it may in a source that is not. */
static enum hf_status find_starts(const struct actor *actor, const struct merge_order *order,
                                  size_t index, bool wrong, uint64_t *starts,
                                  const unsigned *first_keys, size_t count,
                                  struct hf_error *error)
{
    struct buffer bytes = BUFFER_INIT(BYTES_MAX);
    struct row *rows = malloc(ROW_MAX * sizeof *rows);
    enum hf_status status = get_object(actor, &order->sources[index], &bytes, error);
    size_t row_count = rows_in(buffer_view(&bytes));
    check(rows);
    if (status == HF_OK && (bytes.size != order->sources[index].size || row_count > ROW_MAX ||
                            !rows_read(buffer_view(&bytes), rows)))
        status = error_set(error, HF_CORRUPT, "these are no rows");
    for (size_t r = 0; status == HF_OK && r < count; r++) {
        size_t before = 0;
        while (r > 0 && before < row_count && rows[before].key < first_keys[r] + wrong)
            before++;
        starts[r * order->source_count + index] = before * ROW_BYTES;
    }
    free(rows);
    buffer_release(&bytes);
    return status;
}

/* Any keys will do. A source that cannot be read is left to a merge of the whole group. */
static enum hf_status divide(struct merger *merger, const struct merge_order *order,
                             struct arena *arena, struct range **ret_ranges, size_t *ret_count,
                             struct hf_error *error)
{
    const struct actor *actor = ((struct sim_merger *)merger)->actor;
    unsigned first_keys[ROW_KEYS] = { 0 };
    size_t count = 1;
    checker_merge_begins(actor->compact->checker, order->output);
    for (unsigned key = 1; key < ROW_KEYS; key++)
        if (actor_one_in(actor, 3))
            first_keys[count++] = key;
    struct range *ranges = arena_take(arena, count * sizeof *ranges);
    uint64_t *starts = arena_take(arena, count * order->source_count * sizeof *starts);
    check(ranges && starts);
    for (size_t r = 0; r < count; r++) {
        static const char digits[] = "0123456789";
        const char from[] = { '3', '0', '3', digits[first_keys[r]] }; /* "0" and the digit */
        ranges[r] = (struct range){
            .from = r > 0 ? arena_copy(arena, (struct view){ from, sizeof from }) : VIEW(""),
            .starts = starts + r * order->source_count,
        };
        check(ranges[r].from.data);
    }
    enum hf_status status = HF_OK;
    bool wrong = actor_one_in(actor, 8);
    for (size_t i = 0; status == HF_OK && i < order->source_count; i++)
        status =
            find_starts(actor, order, i, wrong && i == 0, starts, first_keys, count, error);
    *ret_ranges = ranges;
    *ret_count = count;
    if (status == HF_CORRUPT || status == HF_NOT_FOUND) {
        *ret_count = 1;
        status = HF_OK;
    }
    return status;
}

void compact_merger_init(struct actor *actor)
{
    actor->merger =
        (struct sim_merger){ .merger = { .make = make, .divide = divide }, .actor = actor };
}
