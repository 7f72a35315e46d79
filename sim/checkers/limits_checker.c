/* SPDX-License-Identifier: Apache-2.0 */
/* limits_checker.c: checks that the epoch document records the longest ttl of leases, and that
 * barriers last that long. limits_checker.h lists the reasons to fail a run. */
#include "sim/checkers/limits_checker.h"

#include "base/check.h"
#include "base/json.h"
#include "base/layout.h"
#include "base/parse.h"
#include "sim/checkers/table_checker.h"
#include "sim/world/net.h"

#include <inttypes.h>
#include <stdlib.h>

#define DOCUMENT LAYOUT_EPOCH_FOLDER LAYOUT_NAMESPACE_DEFAULT ".json"
#define COPY     LAYOUT_EPOCH_COPY_FOLDER LAYOUT_NAMESPACE_DEFAULT ".json"
#define MARK     "{\"format\":\"holdfast.leases/1\",\"damaged\":\""
#define BARRIER  "\"holder_id\":\"replaced a damaged table\""

#define SEEN_MAX 32

/* The recorded limits of one kind of table. */
struct recorded {
    bool known;
    size_t count;
    struct {
        uint64_t ttl_ms;
        char until[64];
    } of[SEEN_MAX];
};

struct checked_place {
    const char *key;
    bool marked;
    struct recorded at_mark;
};

struct limits_checker {
    struct run *run;
    struct bucket_watch watch;
    size_t count;
    struct checked_place places[];
};

/* ---- Reading ------------------------------------------------------------------------- */

static struct view kind_of(const char *key)
{
    struct view whole = view_of(key);
    if (view_starts_with(whole, VIEW("metadata/")))
        return VIEW("chunks");
    if (view_starts_with(whole, VIEW("default/inode/")))
        return VIEW("inodes");
    bool of_paths = view_equal(whole, VIEW("default/paths.json")) ||
                    view_starts_with(whole, VIEW("default/paths/"));
    return of_paths ? VIEW("paths") : VIEW("names");
}

static void read_kind(struct json_reader *r, struct recorded *recorded)
{
    struct view name, until;
    for (json_enter_object(r); json_next_member(r, &name);) {
        uint64_t ttl_ms;
        if (!json_take_plain(r, &until) || recorded->count == SEEN_MAX ||
            parse_u64(name, UINT64_MAX, &ttl_ms, NULL) != HF_OK)
            continue;
        recorded->of[recorded->count].ttl_ms = ttl_ms;
        snprintf(recorded->of[recorded->count++].until, sizeof recorded->of[0].until, "%.*s",
                 VIEW_ARGS(until));
    }
}

/* The limits are unknown if the document cannot be read or does not contain them. */
static struct recorded read_recorded(const struct limits_checker *checker, const char *object,
                                     struct view kind)
{
    struct view text = bucket_peek(net_bucket(checker->run->net), view_of(object));
    struct json_reader r = json_read(text);
    struct recorded recorded = { .known = false };
    struct view name, raw;
    bool said = false, fresh = false;
    for (json_enter_object(&r); json_next_member(&r, &name);) {
        fresh = fresh || view_equal(name, VIEW("fresh"));
        if (!view_equal(name, VIEW("longest"))) {
            json_skip(&r, &raw);
            continue;
        }
        said = true;
        for (json_enter_object(&r); json_next_member(&r, &name);)
            if (view_equal(name, kind))
                read_kind(&r, &recorded);
            else
                json_skip(&r, &raw);
    }
    recorded.known = text.data && json_end(&r) && said && !fresh;
    return recorded;
}

static struct recorded recorded_now(const struct limits_checker *checker, const char *key)
{
    struct recorded recorded = read_recorded(checker, DOCUMENT, kind_of(key));
    return recorded.known ? recorded : read_recorded(checker, COPY, kind_of(key));
}

/* ---- Checking ------------------------------------------------------------------------ */

static bool is_recorded(const struct recorded *recorded, uint64_t ttl_ms)
{
    for (size_t i = 0; i < recorded->count; i++)
        if (recorded->of[i].ttl_ms >= ttl_ms)
            return true;
    return false;
}

static void checker_leases(struct limits_checker *checker, const char *key,
                           const struct checked_version *version)
{
    struct recorded recorded = recorded_now(checker, key);
    int64_t now_us = bucket_date(net_bucket(checker->run->net), SPAN_US(0)).us;
    for (size_t i = 0; recorded.known && i < version->lease_count; i++) {
        const struct checked_entry *lease = &version->leases[i];
        bool of_nodes = lease->note.data != NULL; /* not a barrier or another program's lease */
        if (lease->active && of_nodes && lease->expires_us > now_us &&
            !is_recorded(&recorded, lease->ttl_ms))
            world_fail(checker->run->world,
                       "token %" PRIu64 " of %s has a ttl of %" PRIu64
                       " ms, and it is not recorded that leases can be so long",
                       lease->token, key, lease->ttl_ms);
    }
}

/* Whether a lease that was granted under this limit may still be valid. */
static bool may_be_alive(const struct limits_checker *checker, uint64_t ttl_ms,
                         const char *until)
{
    struct view rest = view_of(until);
    struct view clock = view_cut(&rest, ':');
    int64_t now_us = bucket_date(net_bucket(checker->run->net), SPAN_US(0)).us;
    uint64_t us;
    if (view_equal(clock, VIEW("0000000000000000")) ||
        parse_u64(rest, INT64_MAX, &us, NULL) != HF_OK)
        return true;
    return (int64_t)us + (int64_t)ttl_ms * 1000 > now_us;
}

static void checker_barrier(struct limits_checker *checker, const struct checked_place *place,
                            uint64_t barrier_ms)
{
    struct recorded now = recorded_now(checker, place->key);
    for (size_t i = 0; now.known && place->at_mark.known && i < now.count; i++)
        for (size_t j = 0; j < place->at_mark.count; j++)
            if (now.of[i].ttl_ms == place->at_mark.of[j].ttl_ms &&
                view_equal(view_of(now.of[i].until), view_of(place->at_mark.of[j].until)) &&
                barrier_ms < now.of[i].ttl_ms &&
                may_be_alive(checker, now.of[i].ttl_ms, now.of[i].until))
                world_fail(checker->run->world,
                           "the barrier of %s is of %" PRIu64
                           " ms, and leases can be of %" PRIu64,
                           place->key, barrier_ms, now.of[i].ttl_ms);
}

static bool contains(struct view text, struct view piece)
{
    for (size_t i = 0; i + piece.size <= text.size; i++)
        if (view_starts_with(view_from(text, i), piece))
            return true;
    return false;
}

static void table_changed(struct limits_checker *checker, struct checked_place *place,
                          struct view body)
{
    if (view_starts_with(body, VIEW(MARK))) {
        place->marked = true;
        place->at_mark = recorded_now(checker, place->key);
        return;
    }
    struct checked_version *version = body.data ? checked_version_read(body, NULL) : NULL;
    if (version && place->marked && version->lease_count == 1 &&
        contains(version->leases[0].bytes, VIEW(BARRIER)))
        checker_barrier(checker, place, version->leases[0].ttl_ms);
    if (version)
        checker_leases(checker, place->key, version);
    place->marked = false;
    checked_version_free(version);
}

static void changed(void *argument, const struct bucket_change *change)
{
    struct limits_checker *checker = argument;
    bool of_epoch = view_starts_with(change->key, VIEW(".holdfast/epoch"));
    for (size_t i = 0; i < checker->count; i++) {
        struct checked_place *place = &checker->places[i];
        if (view_equal(change->key, view_of(place->key)))
            table_changed(checker, place, change->body);
        if (!of_epoch)
            continue;
        struct view text = bucket_peek(net_bucket(checker->run->net), view_of(place->key));
        struct checked_version *version = text.data ? checked_version_read(text, NULL) : NULL;
        if (version)
            checker_leases(checker, place->key, version);
        checked_version_free(version);
    }
}

struct limits_checker *limits_checker_new(struct run *run, const char *const *keys,
                                          size_t count)
{
    struct limits_checker *checker =
        calloc(1, sizeof *checker + count * sizeof checker->places[0]);
    check(checker);
    checker->run = run;
    checker->count = count;
    for (size_t i = 0; i < count; i++)
        checker->places[i].key = keys[i];
    checker->watch = (struct bucket_watch){ .changed = changed, .argument = checker };
    struct bucket *bucket = net_bucket(run->net);
    if (bucket_traits(bucket).clock == STORE_CLOCK_DATE)
        bucket_add_watch(bucket, &checker->watch);
    return checker;
}

void limits_checker_free(struct limits_checker *checker)
{
    free(checker);
}
