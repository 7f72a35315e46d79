/* SPDX-License-Identifier: Apache-2.0 */
/* epochs.c: while nodes use lock tables, tables are damaged, emptied, replaced by another program's
 * table, or deleted after the epoch has been raised, and the epoch document or its copy is lost.
 * Tokens and the epoch must only increase. If the damage can be detected, no node may be granted a
 * lock that another node still believes it holds. */
#include "base/check.h"
#include "base/checksum.h"
#include "base/json.h"
#include "base/layout.h"
#include "base/rule.h"
#include "sim/checkers/limits_checker.h"
#include "sim/checkers/table_checker.h"
#include "sim/workloads/lock_work.h"

#include <inttypes.h>
#include <stdlib.h>

static const struct lock_wish wishes[] = {
    { "default/meta/door.json", { "named:door" }, 1, HF_EXCLUSIVE, 0 },
    { "default/meta/book.json", { "named:book" }, 1, HF_EXCLUSIVE, 0 },
    { "default/meta/book.json", { "named:book" }, 1, HF_SHARED, 0 },
    { "default/inode/7.json", { "range:7:0-4096" }, 1, HF_EXCLUSIVE, 0 },
    { "default/inode/7.json", { "range:7:100-5000" }, 1, HF_SHARED, 0 },
    { LAYOUT_CHUNK_LEASES, { "chunk:data/x" }, 1, HF_EXCLUSIVE, 0 },
};

enum { WISHES = sizeof wishes / sizeof *wishes };

static const char *const tables[] = { "default/meta/door.json", "default/meta/book.json",
                                      "default/inode/7.json", LAYOUT_CHUNK_LEASES };

#define DAMAGE_GAP_MAX  SPAN_S(25)
#define PURGE_AGAIN_MAX SPAN_MS(1500)
#define PURGE_YOUNG_MAX SPAN_MS(300)

/* Probabilities per million. */
#define PAUSE_AT_CALL_CHANCE 15000
#define PAUSE_HASTY_CHANCE   60000
#define HUGE_BYTES           ((size_t)8 * 1024 * 1024 + 1)

/* The kinds of damage to a table. */
#define HARM_TABLE(ROW)                                      \
    ROW(GARBAGE, "is overwritten")                           \
    ROW(CUT_SHORT, "is cut short")                           \
    ROW(EMPTIED, "is emptied")                               \
    ROW(WRONG_TYPES, "gets wrong types")                     \
    ROW(TOKENLESS, "loses its next token")                   \
    ROW(HUGE, "is bloated")                                  \
    ROW(FOREIGN, "is another program's")                     \
    ROW(PURGED, "is purged")                                 \
    ROW(EPOCH_LOST, "loses its epoch document, or the copy") \
    ROW(BIT_FLIPPED, "has a bit that changed")

#define HARM_ENUM_(name, text) HARM_##name,
enum harm { HARM_TABLE(HARM_ENUM_) HARM_COUNT };
#undef HARM_ENUM_

struct epochs {
    struct run *run;
    struct lock_work *work;
    struct prng prng;
    struct timer next;
    bool hasty; /* tables are purged right after the first grant in them */
    size_t young_wish;
    struct timer young;
    size_t last_wish; /* the lock whose table was damaged last, ... */
    enum harm last;   /* ... how ... */
    bool again;       /* ... and whether to damage it again */
    bool bloated;
    uint64_t serial;
    uint64_t highest; /* the highest epoch in the document so far */
    struct bucket_watch watch;
    struct limits_checker *limits; /* NULL: the world violates the assumptions */
};

/* ---- Kinds of damage ----------------------------------------------------------------- */

#define DOCUMENT LAYOUT_EPOCH_FOLDER LAYOUT_NAMESPACE_DEFAULT ".json"
#define COPY     LAYOUT_EPOCH_COPY_FOLDER LAYOUT_NAMESPACE_DEFAULT ".json"

/* Reads the epoch in an object. Returns false if the object cannot be read, is blank, or is a new
 * copy that was not confirmed. */
static bool read_epoch(struct view text, uint64_t *ret_epoch)
{
    struct json_reader r = json_read(text);
    struct view name, raw;
    bool found = false, fresh = false;
    for (json_enter_object(&r); json_next_member(&r, &name);) {
        if (view_equal(name, VIEW("epoch")))
            found = json_take_u64(&r, UINT64_MAX, ret_epoch);
        else if (view_equal(name, VIEW("fresh")))
            fresh = json_skip(&r, &raw);
        else
            json_skip(&r, &raw);
    }
    return text.data && json_end(&r) && found && !fresh;
}

static bool peek_epoch(const struct epochs *epochs, const char *key, uint64_t *ret_epoch)
{
    return read_epoch(bucket_peek(net_bucket(epochs->run->net), view_of(key)), ret_epoch);
}

/* The epoch that a reader gets. */
static bool epoch_now(const struct epochs *epochs, uint64_t *ret_epoch)
{
    return peek_epoch(epochs, DOCUMENT, ret_epoch) || peek_epoch(epochs, COPY, ret_epoch);
}

/* Rewrites an object with this epoch, keeping its other members. */
static void write_epoch(struct epochs *epochs, const char *key, uint64_t epoch)
{
    struct bucket *bucket = net_bucket(epochs->run->net);
    struct view text = bucket_peek(bucket, view_of(key)), name, raw;
    struct buffer body = BUFFER_INIT(64 * KIB);
    struct json_reader r = json_read(text);
    uint64_t ignored;
    buffer_print(&body,
                 "{\"format\":\"%s\",\"epoch\":%" PRIu64 ",\"write\":\"sweeper %" PRIu64 "\"",
                 LAYOUT_EPOCH_FORMAT, epoch, epochs->serial);
    if (read_epoch(text, &ignored))
        for (json_enter_object(&r); json_next_member(&r, &name);)
            if (json_skip(&r, &raw) && !view_equal(name, VIEW("format")) &&
                !view_equal(name, VIEW("epoch")) && !view_equal(name, VIEW("write")))
                buffer_print(&body, ",\"%.*s\":%.*s", VIEW_ARGS(name), VIEW_ARGS(raw));
    check(buffer_append(&body, VIEW("}")));
    struct put_call put = { .key = view_of(key), .body = buffer_view(&body) };
    bucket_put(bucket, &put);
    buffer_release(&body);
}

/* Raises the epoch, as the sweeper does before it purges. */
static void raise_epoch(struct epochs *epochs)
{
    uint64_t epoch = 0, copy = 0;
    epoch_now(epochs, &epoch);
    peek_epoch(epochs, COPY, &copy);
    epoch = 1 + (copy > epoch ? copy : epoch);
    write_epoch(epochs, COPY, epoch);
    write_epoch(epochs, DOCUMENT, epoch);
}

/* Deletes or damages the document or its copy, but never both. */
static void lose_epoch(struct epochs *epochs)
{
    struct bucket *bucket = net_bucket(epochs->run->net);
    uint64_t copy, document;
    bool both = peek_epoch(epochs, COPY, &copy) && peek_epoch(epochs, DOCUMENT, &document);
    uint64_t how = prng_below(&epochs->prng, 6);
    const char *key = how % 3 == 0 ? COPY : DOCUMENT;
    struct put_call put = { .key = view_of(key), .body = how < 2 ? VIEW("") : VIEW("{\"a\":") };
    struct delete_call remove = { .key = view_of(key) };
    if (!both)
        return;
    if (how >= 4)
        bucket_delete(bucket, &remove);
    else
        bucket_put(bucket, &put);
}

/* A value in the document is never lost: the document or its copy has at least that value. No
 * client uses a value that is only in the copy until the document has it too. */
static void epoch_changed(struct epochs *epochs, const struct bucket_change *change)
{
    uint64_t epoch;
    if (!view_starts_with(change->key, VIEW(".holdfast/epoch")))
        return;
    if (epoch_now(epochs, &epoch) && epoch < epochs->highest)
        world_fail(epochs->run->world, "the epoch is %" PRIu64 ", and was %" PRIu64, epoch,
                   epochs->highest);
    if (peek_epoch(epochs, DOCUMENT, &epoch) && epoch > epochs->highest)
        epochs->highest = epoch;
}

/* Writes a file as older programs do, with a lease that does not block any lock used here. Without
 * a ttl, it would block for an hour. */
static int write_foreign(struct epochs *epochs, char *body, size_t room)
{
    bool active = epochs->serial % 2 == 0;
    return snprintf(body, room,
                    "{\"leases\":{\"lease-%" PRIu64 "\":{\"lease_id\":\"lease-%" PRIu64
                    "\",\"holder_id\":\"compactor-node-1\",\"chunks\":[\"data/%s\"],"
                    "\"acquired_at\":\"2026-02-06T10:00:00Z\","
                    "\"expires_at\":\"2026-02-06T10:05:00Z\",\"level\":0,\"status\":\"%s\"}}}",
                    epochs->serial, epochs->serial, active ? "other" : "x",
                    active ? "active" : "completed");
}

static void harm_with(struct epochs *epochs, struct view key, const char *body, int size,
                      enum checker_damage damage)
{
    checker_damage(lock_work_checker(epochs->work), key, (struct view){ body, (size_t)size },
                   damage);
}

/* Truncates a table by more than its final newline. */
static void cut_short(struct epochs *epochs, struct view key, struct view before)
{
    char *copy = malloc(before.size);
    check(copy);
    memcpy(copy, before.data, before.size);
    size_t size = 1 + prng_below(&epochs->prng, before.size - 3);
    harm_with(epochs, key, copy, (int)size, DAMAGE_VISIBLE);
    free(copy);
}

/* Most of these tables can still be parsed, and only their checksum shows the damage. */
static void flip_bit(struct epochs *epochs, struct view key, struct view before)
{
    char *copy = malloc(before.size);
    check(copy);
    memcpy(copy, before.data, before.size);
    uint64_t bit = prng_below(&epochs->prng, 8 * before.size);
    copy[bit / 8] = (char)(copy[bit / 8] ^ 1 << bit % 8);
    harm_with(epochs, key, copy, (int)before.size, DAMAGE_VISIBLE);
    free(copy);
}

static void bloat(struct epochs *epochs, struct view key)
{
    char *body = malloc(HUGE_BYTES);
    check(body);
    memset(body, ' ', HUGE_BYTES);
    snprintf(body, 32, "{}%" PRIu64, epochs->serial);
    harm_with(epochs, key, body, (int)HUGE_BYTES, DAMAGE_VISIBLE);
    free(body);
}

static void harm(struct epochs *epochs, size_t wish, enum harm harm, struct view before)
{
    struct view key = view_of(wishes[wish].key);
    uint64_t serial = ++epochs->serial;
    char body[512];
    int size = 0;
    switch (harm) {
    case HARM_GARBAGE: harm_with(epochs, key, "\x01garbage", 8, DAMAGE_VISIBLE); return;
    case HARM_CUT_SHORT: cut_short(epochs, key, before); return;
    case HARM_EMPTIED: harm_with(epochs, key, "", 0, DAMAGE_VISIBLE); return;
    case HARM_WRONG_TYPES:
        size = snprintf(body, sizeof body, "{\"leases\":[%" PRIu64 "],\"waiters\":{}}", serial);
        break;
    case HARM_TOKENLESS:
        size = snprintf(body, sizeof body,
                        "{\"format\":\"holdfast.leases/1\",\"write\":\"%" PRIu64
                        "\",\"leases\":{}}",
                        serial);
        break;
    case HARM_HUGE:
        epochs->bloated = true;
        bloat(epochs, key);
        return;
    case HARM_FOREIGN:
        harm_with(epochs, key, body, write_foreign(epochs, body, sizeof body), DAMAGE_HIDDEN);
        return;
    case HARM_PURGED:
        if (RULE(PURGE_RAISES_EPOCH))
            raise_epoch(epochs);
        checker_damage(lock_work_checker(epochs->work), key, (struct view){ 0 }, DAMAGE_HIDDEN);
        return;
    case HARM_EPOCH_LOST: lose_epoch(epochs); return;
    case HARM_BIT_FLIPPED: flip_bit(epochs, key, before); return;
    case HARM_COUNT:
    default: check_unreachable();
    }
    harm_with(epochs, key, body, size, DAMAGE_VISIBLE);
}

/* Whether this kind of damage is possible for a table with these contents. */
static bool may_harm(const struct epochs *epochs, enum harm harm, struct view before)
{
    struct store_traits traits = bucket_traits(net_bucket(epochs->run->net));
    uint64_t epoch;
    if (!epoch_now(epochs,
                   &epoch)) /* with a damaged table and no epoch, the epoch would be lost */
        return false;
    switch (harm) {
    case HARM_HUGE: return !epochs->bloated && epochs->serial % 16 == 7;
    case HARM_CUT_SHORT: return before.size > 8;
    case HARM_BIT_FLIPPED: return checksum_check(before) == CHECKSUM_RIGHT;
    case HARM_PURGED: /* not while a copy of a write is in flight: a sweeper waits for D */
        return !net_repeats_write(epochs->run->net) && traits.delete_conditional &&
               before.data && peek_epoch(epochs, COPY, &epoch) &&
               peek_epoch(epochs, DOCUMENT, &epoch);
    case HARM_GARBAGE: /* these two leave the same bytes, and so the same ETag, each time */
    case HARM_EMPTIED:
    case HARM_WRONG_TYPES:
    case HARM_TOKENLESS:
    case HARM_EPOCH_LOST:
    case HARM_FOREIGN: return true;
    case HARM_COUNT:
    default: check_unreachable();
    }
}

static void ring(void *argument);

static void set_next(struct epochs *epochs)
{
    struct world *world = epochs->run->world;
    bool at_once = epochs->again && epochs->last == HARM_PURGED;
    struct span most = at_once ? PURGE_AGAIN_MAX : DAMAGE_GAP_MAX;
    uint64_t gap = 1 + prng_below(&epochs->prng, (uint64_t)most.us);
    int64_t due = world_now_us(world) + (int64_t)gap;
    if (due < epochs->run->calm_us)
        world_set_timer(world, &epochs->next, due, ring, epochs);
}

/* Several nodes may be creating a table that was just purged; in that case it is sometimes
 * purged again. A node that replaces an emptied table may be so slow that the table is
 * emptied once more. */
static void draw_harm(struct epochs *epochs, size_t *ret_wish, enum harm *ret_harm)
{
    size_t wish = prng_below(&epochs->prng, WISHES);
    enum harm harm = (enum harm)prng_below(&epochs->prng, HARM_COUNT);
    *ret_wish = epochs->again ? epochs->last_wish : wish;
    *ret_harm = epochs->again ? epochs->last : harm;
    epochs->last_wish = *ret_wish;
    epochs->last = *ret_harm;
    epochs->again = (*ret_harm == HARM_PURGED || *ret_harm == HARM_EMPTIED) &&
                    prng_below(&epochs->prng, 2) == 0;
}

static void ring(void *argument)
{
#define HARM_TEXT_(name, text) text,
    static const char *const texts[] = { HARM_TABLE(HARM_TEXT_) };
#undef HARM_TEXT_
    struct epochs *epochs = argument;
    struct world *world = epochs->run->world;
    size_t wish;
    enum harm what;
    draw_harm(epochs, &wish, &what);
    struct view before = bucket_peek(net_bucket(epochs->run->net), view_of(wishes[wish].key));
    if (may_harm(epochs, what, before)) {
        trace_line(world_trace(world), "store: %s %s", wishes[wish].key, texts[what]);
        harm(epochs, wish, what, before);
    }
    set_next(epochs);
}

/* ---- Tables that are purged immediately ---------------------------------------------- */

/* In one of this many seeds, all nodes use the same table, and it is purged right after its
 * first grant, while other nodes are still creating it. */
#define HASTY_EVERY  4
#define HASTY_WISHES 1

static bool draw_hasty(const struct world *world)
{
    struct prng prng = world_stream(world, STREAM_WORKLOAD + 2);
    return prng_below(&prng, HASTY_EVERY) == 0;
}

static void purge_young(void *argument)
{
    struct epochs *epochs = argument;
    struct world *world = epochs->run->world;
    const char *key = wishes[epochs->young_wish].key;
    struct view before = bucket_peek(net_bucket(epochs->run->net), view_of(key));
    if (!may_harm(epochs, HARM_PURGED, before))
        return;
    trace_line(world_trace(world), "store: %s is purged after its first grant", key);
    harm(epochs, epochs->young_wish, HARM_PURGED, before);
}

/* Whether the table has granted only one lease so far. */
static bool is_young(struct view body)
{
    struct checked_version *version = body.data ? checked_version_read(body, NULL) : NULL;
    bool young = version && (version->next_token & UINT32_MAX) == 2;
    checked_version_free(version);
    return young;
}

static void look_for_young(struct epochs *epochs, const struct bucket_change *change)
{
    struct world *world = epochs->run->world;
    size_t wish = 0;
    while (wish < WISHES && !view_equal(change->key, view_of(wishes[wish].key)))
        wish++;
    if (!epochs->hasty || epochs->run->options->calm || wish == WISHES ||
        timer_is_set(&epochs->young) || !net_sender(epochs->run->net).node ||
        !is_young(change->body))
        return;
    int64_t due = world_now_us(world) + 1 +
                  (int64_t)prng_below(&epochs->prng, (uint64_t)PURGE_YOUNG_MAX.us);
    epochs->young_wish = wish;
    if (due < epochs->run->calm_us)
        world_set_timer(world, &epochs->young, due, purge_young, epochs);
}

static void changed(void *argument, const struct bucket_change *change)
{
    epoch_changed(argument, change);
    look_for_young(argument, change);
}

/* ---- The workload -------------------------------------------------------------------- */

/* The events between the two writes that create a table matter most here. */
static void tune(struct run *run, struct plans *plans)
{
    bool hasty = draw_hasty(run->world);
    lock_work_tune(run, plans);
    if (hasty)
        plans->net.bucket.delete_conditional = true;
    if (plans->chaos.until.us > 0)
        plans->chaos.pause_at_call_chance = hasty ? PAUSE_HASTY_CHANCE : PAUSE_AT_CALL_CHANCE;
}

static void *start(struct run *run)
{
    struct epochs *epochs = calloc(1, sizeof *epochs);
    check(epochs);
    epochs->run = run;
    epochs->prng = world_stream(run->world, STREAM_WORKLOAD + 1);
    epochs->hasty = draw_hasty(run->world);
    epochs->work = lock_work_new(run, wishes, epochs->hasty ? HASTY_WISHES : WISHES,
                                 /* once_per */ false);
    lock_work_mix_ttls(epochs->work);
    struct lock_plan plan = lock_plan_draw(run->world);
    if (plan.exclusion && plan.store_time)
        epochs->limits = limits_checker_new(run, tables, sizeof tables / sizeof *tables);
    epochs->watch = (struct bucket_watch){ .changed = changed, .argument = epochs };
    bucket_add_watch(net_bucket(run->net), &epochs->watch);
    if (!run->options->calm)
        set_next(epochs);
    return epochs;
}

static void checker(struct run *run, void *state)
{
    struct epochs *epochs = state;
    (void)run;
    lock_work_end(epochs->work);
}

static void free_state(void *state)
{
    struct epochs *epochs = state;
    world_cancel_timer(epochs->run->world, &epochs->next);
    world_cancel_timer(epochs->run->world, &epochs->young);
    lock_work_free(epochs->work);
    limits_checker_free(epochs->limits);
    free(epochs);
}

const struct workload workload_epochs = {
    .name = "epochs",
    .about = "tables are damaged and purged while nodes use them; tokens rise for ever",
    .tune = tune,
    .start = start,
    .check_at_end = checker,
    .free = free_state,
};
