/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_checker.c: checks the expiry index, the purging of tables, and epochs.
 * sweep_checker.h lists the reasons to fail a run. */
#include "sim/checkers/sweep_checker.h"

#include "base/arena.h"
#include "base/check.h"
#include "base/instant.h"
#include "base/json.h"
#include "base/layout.h"
#include "base/map.h"
#include "sim/checkers/checker_inside.h"

#include <inttypes.h>
#include <stdlib.h>

#define NS           LAYOUT_NAMESPACE_DEFAULT
#define INDEX_PREFIX NS LAYOUT_EXPIRY_FOLDER
#define EPOCH_KEY    LAYOUT_EPOCH_FOLDER NS ".json"
#define HOUR_DIGITS  10

/* A token consists of its epoch and a counter. */
#define TOKEN_EPOCH_SHIFT 32

/* The possible error of the clocks that prove that D has passed, as a fraction of D. */
#define LATE_BOUND_SLACK(bound) ((bound).us / 20)

/* An active lease in a table, and the time at which it became active. */
struct swept_lease {
    uint64_t token;
    int64_t since_us;
};

struct swept_table {
    struct swept_table *next;
    struct view key;
    struct checked_version *version; /* NULL: the table does not exist */
    int64_t changed_us;
    struct swept_lease *leases; /* the active ones */
    size_t lease_count;
    bool had_entry; /* since it last had no lease */
};

/* An index entry for a table or a transaction. */
struct swept_entry {
    struct swept_entry *next;
    struct view key, of;
    int64_t hour;
    bool there;
};

struct sweep_checker {
    struct run *run;
    struct sweep_checker_options options;
    struct arena arena;
    struct bucket_watch watch;
    struct map by_key; /* tables */
    struct swept_table *tables;
    struct map entry_by_key;
    struct swept_entry *entries;
    uint64_t epoch;
    int64_t began_us[NODES_MAX + 1], began_before_us[NODES_MAX + 1];
};

#define SWEEP_FAIL(checker, ...) world_fail((checker)->run->world, __VA_ARGS__)

static int64_t now_us(const struct sweep_checker *checker)
{
    return world_now_us(checker->run->world);
}

static struct view keep(struct sweep_checker *checker, struct view text)
{
    struct view copy = arena_copy(&checker->arena, text);
    check(copy.data);
    return copy;
}

static void *make(struct sweep_checker *checker, size_t size)
{
    void *space = arena_take(&checker->arena, size);
    check(space);
    return memset(space, 0, size);
}

/* ---- Tables ---------------------------------------------------------------------------- */

static bool is_table(struct view key)
{
    return view_starts_with(key, VIEW(NS LAYOUT_META_FOLDER)) ||
           view_starts_with(key, VIEW(NS LAYOUT_INODE_FOLDER)) ||
           view_equal(key, VIEW(NS LAYOUT_PATHS));
}

static struct swept_table *table_of(struct sweep_checker *checker, struct view key)
{
    struct swept_table *table = map_get(&checker->by_key, key);
    void *old;
    if (table)
        return table;
    table = make(checker, sizeof *table);
    table->key = keep(checker, key);
    table->next = checker->tables;
    checker->tables = table;
    check(map_put(&checker->by_key, table->key, table, &old));
    return table;
}

static int64_t since_of(const struct swept_table *table, uint64_t token, int64_t otherwise_us)
{
    for (size_t i = 0; i < table->lease_count; i++)
        if (table->leases[i].token == token)
            return table->leases[i].since_us;
    return otherwise_us;
}

static void note_leases(struct sweep_checker *checker, struct swept_table *table)
{
    struct swept_lease *leases = NULL;
    size_t count = 0;
    for (size_t i = 0; table->version && i < table->version->lease_count; i++) {
        const struct checked_entry *lease = &table->version->leases[i];
        if (!lease->active)
            continue;
        leases = checker_grow(leases, count, sizeof *leases);
        leases[count++] = (struct swept_lease){ lease->token, since_of(table, lease->token,
                                                                       now_us(checker)) };
    }
    free(table->leases);
    table->leases = leases;
    table->lease_count = count;
    if (count == 0)
        table->had_entry = false;
}

static void table_gone(struct sweep_checker *checker, const struct swept_table *table)
{
    struct span bound = checker->options.late_bound;
    int64_t age_us = now_us(checker) - table->changed_us;
    if (table->lease_count > 0)
        SWEEP_FAIL(checker, "%.*s is purged, and has a lease", VIEW_ARGS(table->key));
    if (table->version && table->version->waiter_count > 0)
        SWEEP_FAIL(checker, "%.*s is purged, and somebody waits there", VIEW_ARGS(table->key));
    if (age_us < bound.us - LATE_BOUND_SLACK(bound))
        SWEEP_FAIL(checker, "%.*s is purged %" PRId64 " us after it was used",
                   VIEW_ARGS(table->key), age_us);
    if (table->version->next_token >> TOKEN_EPOCH_SHIFT >= checker->epoch)
        SWEEP_FAIL(checker, "%.*s is purged, and the epoch is not above its tokens",
                   VIEW_ARGS(table->key));
}

static void table_changed(struct sweep_checker *checker, const struct bucket_change *change)
{
    struct swept_table *table = table_of(checker, change->key);
    if (!change->body.data && table->version)
        table_gone(checker, table);
    struct checked_version *now =
        change->body.data ? checked_version_read(change->body, table->version) : NULL;
    checked_version_free(table->version);
    table->version = now;
    table->changed_us = now_us(checker);
    note_leases(checker, table);
}

static void epoch_changed(struct sweep_checker *checker, const struct bucket_change *change)
{
    struct json_reader r = json_read(change->body);
    struct view name, raw;
    uint64_t epoch = 0;
    for (json_enter_object(&r); json_next_member(&r, &name);)
        if (view_equal(name, VIEW("epoch")))
            json_take_u64(&r, UINT64_MAX, &epoch);
        else
            json_skip(&r, &raw);
    if (!json_end(&r) || epoch < checker->epoch)
        SWEEP_FAIL(checker, "the epoch is %" PRIu64 ", and was %" PRIu64, epoch,
                   checker->epoch);
    checker->epoch = epoch;
}

/* ---- The index ------------------------------------------------------------------------- */

/* Parses "YYYYMMDDHH". An hour has the length that this run gives it. */
static bool read_hour(struct view text, int64_t *ret_hour)
{
    uint32_t parts[4] = { 0 };
    static const size_t sizes[4] = { 4, 2, 2, 2 };
    size_t at = 0;
    if (text.size != HOUR_DIGITS)
        return false;
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < sizes[i]; k++, at++) {
            if (text.data[at] < '0' || text.data[at] > '9')
                return false;
            parts[i] = parts[i] * 10 + (uint32_t)(text.data[at] - '0');
        }
    struct date date = { parts[0], parts[1], parts[2] };
    *ret_hour = days_of_date(date) * 24 + parts[3];
    return true;
}

/* The current hour by the store's clock, or by the node's wall clock if the store has none. */
static int64_t hour_at(const struct sweep_checker *checker, struct node *node)
{
    const struct bucket *bucket = net_bucket(checker->run->net);
    int64_t us = bucket_traits(bucket).clock == STORE_CLOCK_DATE
                     ? bucket_date(bucket, SPAN_US(0)).us
                     : env_wall(node_env(node)).us;
    return us / checker->options.hour.us;
}

static bool has_other(const struct sweep_checker *checker, const struct swept_entry *gone)
{
    for (const struct swept_entry *entry = checker->entries; entry; entry = entry->next)
        if (entry->there && entry != gone && view_equal(entry->of, gone->of))
            return true;
    return false;
}

/* The node that deletes an entry must have read its table since its sweep began. */
static void entry_gone(struct sweep_checker *checker, const struct swept_entry *entry)
{
    struct net_sender sender = net_sender(checker->run->net);
    const struct swept_table *table = map_get(&checker->by_key, entry->of);
    int64_t began_us =
        sender.node ? checker->began_us[node_number(sender.node)] : now_us(checker);
    bool earlier = sender.node && sender.sent_us < began_us; /* from an earlier sweep */
    if (!table || earlier || has_other(checker, entry))
        return;
    for (size_t i = 0; i < table->lease_count; i++)
        if (table->leases[i].since_us < began_us)
            SWEEP_FAIL(checker,
                       "the last entry of %.*s goes, where token %" PRIu64 " is active",
                       VIEW_ARGS(table->key), table->leases[i].token);
}

static struct swept_entry *entry_of(struct sweep_checker *checker, struct view key,
                                    struct view hour, struct view of)
{
    struct swept_entry *entry = map_get(&checker->entry_by_key, key);
    void *old;
    if (entry)
        return entry;
    entry = make(checker, sizeof *entry);
    entry->key = keep(checker, key);
    entry->of = keep(checker, of);
    entry->next = checker->entries;
    checker->entries = entry;
    if (!read_hour(hour, &entry->hour))
        SWEEP_FAIL(checker, "%.*s is of no hour", VIEW_ARGS(key));
    check(map_put(&checker->entry_by_key, entry->key, entry, &old));
    return entry;
}

/* `rest` is "<hour>/<what>". */
static void entry_changed(struct sweep_checker *checker, struct view rest, bool of_table,
                          const struct bucket_change *change)
{
    struct view hour = view_cut(&rest, '/');
    char of[KEY_BYTES_MAX + 1];
    snprintf(of, sizeof of, "%s%.*s", of_table ? NS "/" : "", VIEW_ARGS(rest));
    struct swept_entry *entry = entry_of(checker, change->key, hour, view_of(of));
    bool was_there = entry->there;
    entry->there = change->body.data != NULL;
    if (of_table && was_there && !entry->there)
        entry_gone(checker, entry);
    struct swept_table *table = map_get(&checker->by_key, entry->of);
    if (of_table && entry->there && table && table->lease_count > 0)
        table->had_entry = true;
}

static void note_change(struct sweep_checker *checker, const struct bucket_change *change)
{
    struct view key = change->key;
    if (is_table(key))
        table_changed(checker, change);
    else if (view_equal(key, VIEW(EPOCH_KEY)))
        epoch_changed(checker, change);
    else if (view_starts_with(key, VIEW(INDEX_PREFIX)))
        entry_changed(checker, view_from(key, strlen(INDEX_PREFIX)), /* of_table */ true,
                      change);
    else if (view_starts_with(key, VIEW(LAYOUT_TXN_EXPIRY_FOLDER)))
        entry_changed(checker, view_from(key, strlen(LAYOUT_TXN_EXPIRY_FOLDER)),
                      /* of_table */ false, change);
}

static void changed(void *argument, const struct bucket_change *change)
{
    struct heap *before = heap_enter(NULL);
    note_change(argument, change);
    heap_enter(before);
}

/* ---- Results that nodes get ------------------------------------------------------------ */

void sweep_checker_begins(struct sweep_checker *checker, const struct node *node)
{
    unsigned number = node_number(node);
    checker->began_before_us[number] = checker->began_us[number];
    checker->began_us[number] = now_us(checker);
}

void sweep_checker_told(struct sweep_checker *checker, const struct node *node,
                        const struct sweep_options *options, enum hf_status status,
                        const struct sweep_report *report)
{
    bool may_be = status == HF_OK || status == HF_UNAVAILABLE || status == HF_TIMEOUT ||
                  status == HF_UNSURE;
    if (report->stop == HF_SWEEP_STOP_BUSY) /* the process is already running a sweep */
        checker->began_us[node_number(node)] = checker->began_before_us[node_number(node)];
    if (!may_be)
        SWEEP_FAIL(checker, "node %u sweeps, and is told %s", node_number(node),
                   hf_status_name(status));
    if (report->ops > options->settings.ops_max)
        SWEEP_FAIL(checker, "node %u looks at %" PRIu64 " entries, and may at %" PRIu64,
                   node_number(node), report->ops, options->settings.ops_max);
}

void sweep_checker_held(struct sweep_checker *checker, struct node *node, struct view table)
{
    int64_t hour = hour_at(checker, node);
    if (checker->options.wild_calendars)
        return;
    for (const struct swept_entry *entry = checker->entries; entry; entry = entry->next)
        if (entry->there && view_equal(entry->of, table) && entry->hour >= hour - 1)
            return;
    SWEEP_FAIL(checker, "node %u has held %.*s for hours, and no entry tells of it",
               node_number(node), VIEW_ARGS(table));
}

void sweep_checker_end(struct sweep_checker *checker, struct node *node)
{
    int64_t hour = hour_at(checker, node);
    if (checker->options.wild_calendars)
        return;
    for (const struct swept_entry *entry = checker->entries; entry; entry = entry->next)
        if (entry->there && entry->hour < hour - 1)
            SWEEP_FAIL(checker, "in the end %.*s is left, of an hour that is over",
                       VIEW_ARGS(entry->key));
    for (const struct swept_table *table = checker->tables; table; table = table->next)
        if (table->lease_count > 0 && table->had_entry)
            SWEEP_FAIL(checker, "in the end %.*s is leased, and had an entry",
                       VIEW_ARGS(table->key));
}

/* ---- Start and end --------------------------------------------------------------------- */

struct sweep_checker *sweep_checker_new(struct run *run,
                                        const struct sweep_checker_options *options)
{
    struct sweep_checker *checker = calloc(1, sizeof *checker);
    check(checker);
    checker->run = run;
    checker->options = *options;
    checker->watch = (struct bucket_watch){ .changed = changed, .argument = checker };
    bucket_add_watch(net_bucket(run->net), &checker->watch);
    return checker;
}

void sweep_checker_free(struct sweep_checker *checker)
{
    for (struct swept_table *table = checker->tables; table; table = table->next) {
        checked_version_free(table->version);
        free(table->leases);
    }
    map_release(&checker->by_key);
    map_release(&checker->entry_by_key);
    arena_release(&checker->arena);
    free(checker);
}
