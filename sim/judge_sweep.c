#include "sim/judge_sweep.h"

#include "base/arena.h"
#include "base/check.h"
#include "base/instant.h"
#include "base/json.h"
#include "base/layout.h"
#include "base/map.h"
#include "sim/judge_inside.h"

#include <inttypes.h>
#include <stdlib.h>

#define NS           LAYOUT_NAMESPACE_DEFAULT
#define INDEX_PREFIX NS LAYOUT_EXPIRY_FOLDER
#define EPOCH_KEY    LAYOUT_EPOCH_FOLDER NS ".json"
#define HOUR_DIGITS  10

/* A token is its epoch and a counter. */
#define TOKEN_EPOCH_SHIFT 32

/* By so much of D the clocks that prove that it has passed may be off. */
#define LATE_BOUND_SLACK(bound) ((bound).us / 20)

/* An active lease of a table, and since when it is. */
struct swept_lease {
    uint64_t token;
    int64_t since_us;
};

struct swept_table {
    struct swept_table *next;
    struct view key;
    struct judged_version *version; /* NULL: it is not there */
    int64_t changed_us;
    struct swept_lease *leases; /* those that are active */
    size_t lease_count;
    bool had_entry; /* since it was last without a lease */
};

/* An entry of the index, of a table or of a transaction. */
struct swept_entry {
    struct swept_entry *next;
    struct view key, of;
    int64_t hour;
    bool there;
};

struct judge_sweep {
    struct run *run;
    struct judge_sweep_options options;
    struct arena arena;
    struct bucket_watch watch;
    struct map by_key; /* tables */
    struct swept_table *tables;
    struct map entry_by_key;
    struct swept_entry *entries;
    uint64_t epoch;
    int64_t began_us[NODES_MAX + 1], began_before_us[NODES_MAX + 1];
};

#define SWEEP_FAIL(judge, ...) world_fail((judge)->run->world, __VA_ARGS__)

static int64_t now_us(const struct judge_sweep *judge)
{
    return world_now_us(judge->run->world);
}

static struct view keep(struct judge_sweep *judge, struct view text)
{
    struct view copy = arena_copy(&judge->arena, text);
    check(copy.data);
    return copy;
}

static void *make(struct judge_sweep *judge, size_t size)
{
    void *space = arena_take(&judge->arena, size);
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

static struct swept_table *table_of(struct judge_sweep *judge, struct view key)
{
    struct swept_table *table = map_get(&judge->by_key, key);
    void *old;
    if (table)
        return table;
    table = make(judge, sizeof *table);
    table->key = keep(judge, key);
    table->next = judge->tables;
    judge->tables = table;
    check(map_put(&judge->by_key, table->key, table, &old));
    return table;
}

static int64_t since_of(const struct swept_table *table, uint64_t token, int64_t otherwise_us)
{
    for (size_t i = 0; i < table->lease_count; i++)
        if (table->leases[i].token == token)
            return table->leases[i].since_us;
    return otherwise_us;
}

static void note_leases(struct judge_sweep *judge, struct swept_table *table)
{
    struct swept_lease *leases = NULL;
    size_t count = 0;
    for (size_t i = 0; table->version && i < table->version->lease_count; i++) {
        const struct judged_entry *lease = &table->version->leases[i];
        if (!lease->active)
            continue;
        leases = judge_grow(leases, count, sizeof *leases);
        leases[count++] =
            (struct swept_lease){ lease->token, since_of(table, lease->token, now_us(judge)) };
    }
    free(table->leases);
    table->leases = leases;
    table->lease_count = count;
    if (count == 0)
        table->had_entry = false;
}

static void table_gone(struct judge_sweep *judge, const struct swept_table *table)
{
    struct span bound = judge->options.late_bound;
    int64_t age_us = now_us(judge) - table->changed_us;
    if (table->lease_count > 0)
        SWEEP_FAIL(judge, "%.*s is purged, and has a lease", VIEW_ARGS(table->key));
    if (table->version && table->version->waiter_count > 0)
        SWEEP_FAIL(judge, "%.*s is purged, and somebody waits there", VIEW_ARGS(table->key));
    if (age_us < bound.us - LATE_BOUND_SLACK(bound))
        SWEEP_FAIL(judge, "%.*s is purged %" PRId64 " us after it was used",
                   VIEW_ARGS(table->key), age_us);
    if (table->version->next_token >> TOKEN_EPOCH_SHIFT >= judge->epoch)
        SWEEP_FAIL(judge, "%.*s is purged, and the epoch is not above its tokens",
                   VIEW_ARGS(table->key));
}

static void table_changed(struct judge_sweep *judge, const struct bucket_change *change)
{
    struct swept_table *table = table_of(judge, change->key);
    if (!change->body.data && table->version)
        table_gone(judge, table);
    struct judged_version *now =
        change->body.data ? judged_version_read(change->body, table->version) : NULL;
    judged_version_free(table->version);
    table->version = now;
    table->changed_us = now_us(judge);
    note_leases(judge, table);
}

static void epoch_changed(struct judge_sweep *judge, const struct bucket_change *change)
{
    struct json_reader r = json_read(change->body);
    struct view name, raw;
    uint64_t epoch = 0;
    for (json_enter_object(&r); json_next_member(&r, &name);)
        if (view_equal(name, VIEW("epoch")))
            json_take_u64(&r, UINT64_MAX, &epoch);
        else
            json_skip(&r, &raw);
    if (!json_end(&r) || epoch < judge->epoch)
        SWEEP_FAIL(judge, "the epoch is %" PRIu64 ", and was %" PRIu64, epoch, judge->epoch);
    judge->epoch = epoch;
}

/* ---- The index ------------------------------------------------------------------------- */

/* "YYYYMMDDHH", of hours as long as they are here. */
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

/* By the store's clock, or by the calendar of the node where the store has none. */
static int64_t hour_at(const struct judge_sweep *judge, struct node *node)
{
    const struct bucket *bucket = net_bucket(judge->run->net);
    int64_t us = bucket_traits(bucket).clock == STORE_CLOCK_DATE
                     ? bucket_date(bucket, SPAN_US(0)).us
                     : env_wall(node_env(node)).us;
    return us / judge->options.hour.us;
}

static bool has_other(const struct judge_sweep *judge, const struct swept_entry *gone)
{
    for (const struct swept_entry *entry = judge->entries; entry; entry = entry->next)
        if (entry->there && entry != gone && view_equal(entry->of, gone->of))
            return true;
    return false;
}

/* Who deletes it has looked at the table since it began to sweep. */
static void entry_gone(struct judge_sweep *judge, const struct swept_entry *entry)
{
    struct net_sender sender = net_sender(judge->run->net);
    const struct swept_table *table = map_get(&judge->by_key, entry->of);
    int64_t began_us = sender.node ? judge->began_us[node_number(sender.node)] : now_us(judge);
    bool earlier = sender.node && sender.sent_us < began_us; /* of a sweep before this one */
    if (!table || earlier || has_other(judge, entry))
        return;
    for (size_t i = 0; i < table->lease_count; i++)
        if (table->leases[i].since_us < began_us)
            SWEEP_FAIL(judge, "the last entry of %.*s goes, where token %" PRIu64 " is active",
                       VIEW_ARGS(table->key), table->leases[i].token);
}

static struct swept_entry *entry_of(struct judge_sweep *judge, struct view key,
                                    struct view hour, struct view of)
{
    struct swept_entry *entry = map_get(&judge->entry_by_key, key);
    void *old;
    if (entry)
        return entry;
    entry = make(judge, sizeof *entry);
    entry->key = keep(judge, key);
    entry->of = keep(judge, of);
    entry->next = judge->entries;
    judge->entries = entry;
    if (!read_hour(hour, &entry->hour))
        SWEEP_FAIL(judge, "%.*s is of no hour", VIEW_ARGS(key));
    check(map_put(&judge->entry_by_key, entry->key, entry, &old));
    return entry;
}

/* `rest` is "<hour>/<what>". */
static void entry_changed(struct judge_sweep *judge, struct view rest, bool of_table,
                          const struct bucket_change *change)
{
    struct view hour = view_cut(&rest, '/');
    char of[KEY_BYTES_MAX + 1];
    snprintf(of, sizeof of, "%s%.*s", of_table ? NS "/" : "", VIEW_ARGS(rest));
    struct swept_entry *entry = entry_of(judge, change->key, hour, view_of(of));
    bool was_there = entry->there;
    entry->there = change->body.data != NULL;
    if (of_table && was_there && !entry->there)
        entry_gone(judge, entry);
    struct swept_table *table = map_get(&judge->by_key, entry->of);
    if (of_table && entry->there && table && table->lease_count > 0)
        table->had_entry = true;
}

static void note_change(struct judge_sweep *judge, const struct bucket_change *change)
{
    struct view key = change->key;
    if (is_table(key))
        table_changed(judge, change);
    else if (view_equal(key, VIEW(EPOCH_KEY)))
        epoch_changed(judge, change);
    else if (view_starts_with(key, VIEW(INDEX_PREFIX)))
        entry_changed(judge, view_from(key, strlen(INDEX_PREFIX)), /* of_table */ true, change);
    else if (view_starts_with(key, VIEW(LAYOUT_TXN_EXPIRY_FOLDER)))
        entry_changed(judge, view_from(key, strlen(LAYOUT_TXN_EXPIRY_FOLDER)),
                      /* of_table */ false, change);
}

static void changed(void *argument, const struct bucket_change *change)
{
    struct heap *before = heap_enter(NULL);
    note_change(argument, change);
    heap_enter(before);
}

/* ---- What nodes are told --------------------------------------------------------------- */

void judge_sweep_begins(struct judge_sweep *judge, const struct node *node)
{
    unsigned number = node_number(node);
    judge->began_before_us[number] = judge->began_us[number];
    judge->began_us[number] = now_us(judge);
}

void judge_sweep_told(struct judge_sweep *judge, const struct node *node,
                      const struct sweep_options *options, enum hf_status status,
                      const struct sweep_report *report)
{
    bool may_be = status == HF_OK || status == HF_UNAVAILABLE || status == HF_TIMEOUT ||
                  status == HF_UNSURE;
    if (report->stop == HF_SWEEP_STOP_BUSY) /* another of its process goes on */
        judge->began_us[node_number(node)] = judge->began_before_us[node_number(node)];
    if (!may_be)
        SWEEP_FAIL(judge, "node %u sweeps, and is told %s", node_number(node),
                   hf_status_name(status));
    if (report->ops > options->settings.ops_max)
        SWEEP_FAIL(judge, "node %u looks at %" PRIu64 " entries, and may at %" PRIu64,
                   node_number(node), report->ops, options->settings.ops_max);
}

void judge_sweep_held(struct judge_sweep *judge, struct node *node, struct view table)
{
    int64_t hour = hour_at(judge, node);
    if (judge->options.wild_calendars)
        return;
    for (const struct swept_entry *entry = judge->entries; entry; entry = entry->next)
        if (entry->there && view_equal(entry->of, table) && entry->hour >= hour - 1)
            return;
    SWEEP_FAIL(judge, "node %u has held %.*s for hours, and no entry tells of it",
               node_number(node), VIEW_ARGS(table));
}

void judge_sweep_end(struct judge_sweep *judge, struct node *node)
{
    int64_t hour = hour_at(judge, node);
    if (judge->options.wild_calendars)
        return;
    for (const struct swept_entry *entry = judge->entries; entry; entry = entry->next)
        if (entry->there && entry->hour < hour - 1)
            SWEEP_FAIL(judge, "in the end %.*s is left, of an hour that is over",
                       VIEW_ARGS(entry->key));
    for (const struct swept_table *table = judge->tables; table; table = table->next)
        if (table->lease_count > 0 && table->had_entry)
            SWEEP_FAIL(judge, "in the end %.*s is leased, and had an entry",
                       VIEW_ARGS(table->key));
}

/* ---- Beginning and end ----------------------------------------------------------------- */

struct judge_sweep *judge_sweep_new(struct run *run, const struct judge_sweep_options *options)
{
    struct judge_sweep *judge = calloc(1, sizeof *judge);
    check(judge);
    judge->run = run;
    judge->options = *options;
    judge->watch = (struct bucket_watch){ .changed = changed, .argument = judge };
    bucket_add_watch(net_bucket(run->net), &judge->watch);
    return judge;
}

void judge_sweep_free(struct judge_sweep *judge)
{
    for (struct swept_table *table = judge->tables; table; table = table->next) {
        judged_version_free(table->version);
        free(table->leases);
    }
    map_release(&judge->by_key);
    map_release(&judge->entry_by_key);
    arena_release(&judge->arena);
    free(judge);
}
