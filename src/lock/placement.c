/* SPDX-License-Identifier: Apache-2.0 */
/* placement.c: which page a path belongs to, and how the placement of a namespace is recorded. It
 * guards against two clients that look for one path in two tables: the page depends only on the
 * path and on numbers that never change. Pure, except for placement_create. */
#include "lock/placement.h"

#include "base/buffer.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/layout.h"
#include "base/mutant.h"
#include "base/rule.h"
#include "lock/epoch.h"
#include "store/bucket.h"

#include <stdio.h>

/* The mark has the next version of the format of tables, so that programs that know only tables
 * refuse it and leave it alone. */
#define MARK_START           "{\"format\":\"holdfast.leases/2\",\"pages\":"
#define MARK_BYTES           ((size_t)512)
#define CREATE_TIME          SPAN_S(30)
#define CREATE_TRIES         8
#define PLACEMENTS_BYTES_MAX ((size_t)256 * KIB)

/* A namespace gets pages only if the placements recorded so far leave half of the format document
 * to its other members, so that the placement can be recorded once the mark is there. */
#define PLACEMENTS_ROOM ((size_t)128 * KIB)

/* ---- Pages --------------------------------------------------------------------------- */

enum hf_status placement_check(const struct placement *placement, struct hf_error *error)
{
    if (placement->pages < PLACEMENT_PAGES_MIN || placement->pages > PLACEMENT_PAGES_MAX)
        return error_set(error, HF_INVALID, "a namespace must have %d to %d pages, not %u",
                         PLACEMENT_PAGES_MIN, PLACEMENT_PAGES_MAX, placement->pages);
    if (placement->segments < 1 || placement->segments > PLACEMENT_SEGMENTS_MAX)
        return error_set(error, HF_INVALID,
                         "a page must be determined by the first 1 to %d segments, not by %u",
                         PLACEMENT_SEGMENTS_MAX, placement->segments);
    return HF_OK;
}

/* The part of a path up to the end of its first `most` segments: "/a/b" of "/a/b/c". */
static struct view first_segments(struct view path, uint32_t most, uint32_t *ret_count)
{
    struct view rest = view_from(path, 1);
    size_t end = 0;
    uint32_t count = 0;
    while (rest.size > 0 && count < most) {
        end = path.size - view_from(rest, view_find(rest, '/')).size;
        view_cut(&rest, '/');
        count++;
    }
    *ret_count = count;
    return view_first(path, end);
}

static uint32_t page_of(const struct placement *placement, struct view start)
{
    return (uint32_t)(hash_xxh3(start) % placement->pages);
}

enum hf_status placement_page(const struct placement *placement, const struct scope *scope,
                              uint32_t *ret_page, struct hf_error *error)
{
    uint32_t count, segments = placement->segments;
    MUTANT(mutant_hashes_deeper(&segments));
    struct view start = first_segments(scope->name, segments, &count);
    if (RULE(SHORT_TREES_ARE_REFUSED) && scope->kind == SCOPE_TREE &&
        count < placement->segments)
        return error_set(error, HF_INVALID,
                         "'tree:%.*s' is in many pages: in this namespace, a tree must have at "
                         "least %u segment%s; lock smaller trees instead",
                         VIEW_ARGS(view_first(scope->name, 60)), placement->segments,
                         placement->segments == 1 ? "" : "s");
    *ret_page = page_of(placement, start);
    return HF_OK;
}

bool placement_page_of_start(const struct placement *placement, struct view start,
                             uint32_t *ret_page)
{
    uint32_t count;
    struct view first = first_segments(start, placement->segments, &count);
    /* Without a slash after it, the last segment may be the start of a longer one. */
    if (count < placement->segments || first.size == start.size || start.data[0] != '/')
        return false;
    *ret_page = page_of(placement, first);
    return true;
}

/* ---- As JSON ------------------------------------------------------------------------- */

bool placement_is_mark(struct view bytes)
{
    return view_starts_with(bytes, VIEW(MARK_START));
}

enum hf_status placement_refuse(struct hf_error *error)
{
    return error_set(
        error, HF_UNSUPPORTED,
        "the paths of this namespace are in pages, which this client does not know; "
        "open the store again, or repeat 'holdfast namespace create' if %s was lost",
        LAYOUT_BUCKET_KEY);
}

/* { "pages": 1024, "segments": 1 }, or a mark, which has the same members. */
static bool decode_placement(struct view text, struct placement *ret_placement)
{
    struct json_reader reader = json_read(text);
    struct view name, raw;
    uint64_t pages = 0, segments = 0;
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (view_equal(name, VIEW("pages")))
            json_take_u64(&reader, PLACEMENT_PAGES_MAX, &pages);
        else if (view_equal(name, VIEW("segments")))
            json_take_u64(&reader, PLACEMENT_SEGMENTS_MAX, &segments);
        else if (view_equal(name, VIEW("format")))
            json_skip(&reader, &raw);
        else
            json_fail(&reader, "unknown member");
    }
    *ret_placement = (struct placement){ (uint32_t)pages, (uint32_t)segments };
    return json_end(&reader) && placement_check(ret_placement, NULL) == HF_OK;
}

static bool same_placement(const struct placement *a, const struct placement *b)
{
    return a->pages == b->pages && a->segments == b->segments;
}

/* A client that is already open would not notice that the placement has changed. */
static bool must_refuse(const struct placement *found, const struct placement *wanted)
{
    return RULE(PLACEMENT_NEVER_CHANGES) && !same_placement(found, wanted);
}

enum hf_status placement_find(struct view placements, struct view ns,
                              struct placement *ret_placement, struct hf_error *error)
{
    struct json_reader reader = json_read(placements);
    struct view name, raw;
    *ret_placement = (struct placement){ 0 };
    if (placements.size == 0)
        return HF_OK;
    for (json_enter_object(&reader); json_next_member(&reader, &name);)
        if (json_skip(&reader, &raw) && view_equal(name, ns) &&
            !decode_placement(raw, ret_placement))
            json_fail(&reader, "not a placement");
    if (json_end(&reader))
        return HF_OK;
    return error_set(error, HF_UNSUPPORTED,
                     "this version does not know the placement of namespace '%.*s' in %s; "
                     "upgrade Holdfast",
                     VIEW_ARGS(view_first(ns, 40)), LAYOUT_BUCKET_KEY);
}

/* ---- Creating ------------------------------------------------------------------------ */

struct creation {
    struct store *store;
    struct view ns;
    const struct placement *wanted;
    struct mono_time deadline;
    char key[KEY_BYTES_MAX + 1]; /* of the mark */
};

static enum hf_status refuse_other(const struct creation *creation,
                                   const struct placement *found, struct hf_error *error)
{
    return error_set(
        error, HF_MISMATCH,
        "namespace '%.*s' has %u pages, determined by %u segment%s; a placement never "
        "changes, so create another namespace",
        VIEW_ARGS(view_first(creation->ns, 40)), found->pages, found->segments,
        found->segments == 1 ? "" : "s");
}

/* Reads the object that decides about the placement: NOT_FOUND if it is absent, MISMATCH if it is
 * not a mark. */
static enum hf_status read_placement_mark(const struct creation *creation,
                                          struct placement *ret_placement,
                                          struct hf_error *error)
{
    struct buffer text = BUFFER_INIT(MARK_BYTES);
    struct get_call get = { .key = view_of(creation->key),
                            .length = MARK_BYTES,
                            .body = &text,
                            .deadline = creation->deadline };
    enum hf_status status = store_get(creation->store, &get);
    struct view bytes = buffer_view(&text);
    if (status != HF_OK)
        *error = get.error;
    else if (!placement_is_mark(bytes))
        status = error_set(error, HF_MISMATCH,
                           "namespace '%.*s' keeps its paths in one table; a placement never "
                           "changes, so create another namespace",
                           VIEW_ARGS(view_first(creation->ns, 40)));
    else if (!decode_placement(bytes, ret_placement))
        status =
            error_set(error, HF_UNSUPPORTED,
                      "this version does not know the placement in %.80s; upgrade Holdfast",
                      creation->key);
    buffer_release(&text);
    return status;
}

/* The same; also MISMATCH if it is not the wanted mark. */
static enum hf_status check_mark(const struct creation *creation, struct hf_error *error)
{
    struct placement found;
    enum hf_status status = read_placement_mark(creation, &found, error);
    if (status == HF_OK && must_refuse(&found, creation->wanted))
        return refuse_other(creation, &found, error);
    return status;
}

/* A namespace with tokens is in use. Its table of paths may have been purged, and fenced objects
 * may still refer to it. This is only a courtesy: the mark alone decides. */
static enum hf_status check_new(const struct creation *creation, struct hf_error *error)
{
    uint64_t epoch;
    enum hf_status status =
        epoch_read(creation->store, creation->ns, creation->deadline, &epoch, error);
    if (status == HF_NOT_FOUND)
        return HF_OK;
    if (status != HF_OK && status != HF_CORRUPT)
        return status;
    return error_set(error, HF_MISMATCH,
                     "namespace '%.*s' is already in use; only a new namespace can have pages",
                     VIEW_ARGS(view_first(creation->ns, 40)));
}

/* Puts the mark on condition that nothing is there, until it is known who came first. */
static enum hf_status write_mark(const struct creation *creation, struct hf_error *error)
{
    struct buffer text = BUFFER_INIT(MARK_BYTES);
    buffer_print(&text, MARK_START "%u,\"segments\":%u}\n", creation->wanted->pages,
                 creation->wanted->segments);
    if (text.failed) {
        buffer_release(&text);
        return error_no_memory(error);
    }
    enum hf_status status = HF_NOT_FOUND;
    for (int i = 0; i < CREATE_TRIES && status == HF_NOT_FOUND; i++) {
        struct put_call put = { .key = view_of(creation->key),
                                .body = buffer_view(&text),
                                .deadline = creation->deadline };
        if (RULE(MARK_ONLY_IF_ABSENT))
            put.condition = if_absent();
        status = store_put(creation->store, &put);
        if (status == HF_CONFLICT || status == HF_UNSURE)
            status = check_mark(creation, error);
        else if (status != HF_OK)
            *error = put.error;
    }
    buffer_release(&text);
    return status == HF_NOT_FOUND ? error_set(error, HF_UNSURE, "no reply to the creation")
                                  : status;
}

/* Records a placement that the mark is known to show. */
static enum hf_status record_placement(const struct creation *creation,
                                       const struct placement *placement,
                                       struct hf_error *error)
{
    char text[64];
    snprintf(text, sizeof text, "{ \"pages\": %u, \"segments\": %u }", placement->pages,
             placement->segments);
    return bucket_record_placement(creation->store, creation->ns, view_of(text), error);
}

static enum hf_status create_placed(const struct creation *creation, struct hf_error *error)
{
    struct buffer recorded = BUFFER_INIT(PLACEMENTS_BYTES_MAX);
    struct placement found = { 0 };
    enum hf_status status = bucket_read_placements(creation->store, &recorded, error);
    if (status == HF_OK)
        status = placement_find(buffer_view(&recorded), creation->ns, &found, error);
    if (status == HF_OK && found.pages == 0 && recorded.size > PLACEMENTS_ROOM)
        status = error_set(error, HF_UNAVAILABLE,
                           "this bucket has no room for another namespace with pages");
    buffer_release(&recorded);
    if (status == HF_OK && found.pages > 0 && must_refuse(&found, creation->wanted))
        status = refuse_other(creation, &found, error);
    if (status != HF_OK)
        return status;
    status = check_mark(creation, error);
    if (status == HF_NOT_FOUND) {
        status = found.pages > 0 ? HF_OK : check_new(creation, error);
        if (status == HF_OK)
            status = bucket_use_feature(creation->store, BUCKET_PATH_PAGES, error);
        if (status == HF_OK)
            status = write_mark(creation, error);
    }
    if (status != HF_OK || same_placement(&found, creation->wanted))
        return status;
    return record_placement(creation, creation->wanted, error);
}

static struct creation begin_creation(struct store *store, struct view ns,
                                      const struct placement *wanted)
{
    struct creation creation = { .store = store,
                                 .ns = ns,
                                 .wanted = wanted,
                                 .deadline = mono_add(env_now(store->env), CREATE_TIME) };
    snprintf(creation.key, sizeof creation.key, "%.*s" LAYOUT_PATHS,
             VIEW_ARGS(view_first(ns, NAME_BYTES_MAX)));
    return creation;
}

enum hf_status placement_create(struct store *store, struct view ns,
                                const struct placement *placement, struct hf_error *error)
{
    enum hf_status status = placement_check(placement, error);
    if (status == HF_OK)
        status = namespace_check(ns, error);
    if (status != HF_OK)
        return status;
    struct creation creation = begin_creation(store, ns, placement);
    return create_placed(&creation, error);
}

enum hf_status placement_record_copied(struct store *store, struct view key,
                                       struct hf_error *error)
{
    struct placement found;
    struct view rest = key, ns = view_cut(&rest, '/');
    if (!view_equal(view_from(key, ns.size), VIEW(LAYOUT_PATHS)) ||
        namespace_check(ns, NULL) != HF_OK)
        return HF_OK;
    struct creation creation = begin_creation(store, ns, /* wanted */ NULL);
    enum hf_status status = read_placement_mark(&creation, &found, error);
    if (status == HF_MISMATCH || status == HF_NOT_FOUND)
        return HF_OK;
    return status == HF_OK ? record_placement(&creation, &found, error) : status;
}
