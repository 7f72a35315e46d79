/* SPDX-License-Identifier: Apache-2.0 */
/* store_copy.c: copies objects from one store to another, or within one store, and makes one prefix
 * equal to another (`sync`).
 *
 * Each object passes through an unnamed temporary file. It is read from the source, checksummed,
 * put, read back from the target with the ETag of that put, and checksummed again. If the target
 * already has the same bytes, it is not written. A copy can therefore be restarted: its only state
 * is the two stores. */
#include "api/store_copy_inside.h"

#include "base/hash.h"
#include "base/layout.h"
#include "file/new_file.h"
#include "lock/placement.h"
#include "store/bucket.h"
#include "store/pages.h"
#include "store/stream.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#define PASSES 3 /* read, write, read back */

/* ---- One object ---------------------------------------------------------------------- */

/* Reports the progress of one pass as a fraction of the whole, if the total is known. */
static bool report_copy_progress(void *argument, uint64_t done, uint64_t total)
{
    struct copying *copying = argument;
    struct hf_progress progress = { .struct_size = sizeof progress,
                                    .done_bytes = done,
                                    .total_bytes = total };
    if (!copying->options.progress)
        return true;
    if (copying->total > 0) {
        progress.done_bytes = copying->before + (copying->pass * copying->size + done) / PASSES;
        progress.total_bytes = copying->total;
    }
    return copying->options.progress(copying->options.progress_argument, &progress);
}

static enum hf_status checksum_file(int fd, struct checksum *ret_sum, struct hf_error *error)
{
    char *piece = malloc(STREAM_PIECE);
    if (!piece)
        return error_no_memory(error);
    struct checksum sum = { 0 };
    size_t got = 0;
    enum hf_status status;
    do {
        status = file_read_at(fd, piece, STREAM_PIECE, sum.size, &got, error);
        if (status == HF_OK)
            sum.crc = crc32c(sum.crc, (struct view){ piece, got });
        sum.size += got;
    } while (status == HF_OK && got > 0);
    free(piece);
    *ret_sum = sum;
    return status;
}

/* Streams the object that `get` names into a spool file. */
static enum hf_status spool_object(struct copying *copying, struct store *store,
                                   struct get_call *get, int spool, struct checksum *ret_sum)
{
    enum hf_status status = file_set_size(spool, 0, copying->error);
    if (status != HF_OK)
        return status;
    status = store_get_file(store, get, spool, &copying->progress);
    if (status == HF_OK)
        return checksum_file(spool, ret_sum, copying->error);
    *copying->error = get->error;
    return status;
}

static bool sums_equal(struct checksum a, struct checksum b)
{
    return a.crc == b.crc && a.size == b.size;
}

/* `there` is the object that the write may replace, or NULL. A sync replaces only the version that
 * was listed; a move, only one with the same bytes. */
static struct condition copy_condition(const struct copying *copying, struct view key,
                                       const struct object_info *there, bool equal)
{
    if (equal)
        return if_match(&there->etag);
    if (copying->options.if_absent || (key_is_own(key) && !copying->options.force) ||
        (copying->options.sync && !there))
        return if_absent();
    return copying->options.sync ? if_match(&there->etag) : (struct condition){ 0 };
}

static enum hf_status put_spool(struct copying *copying, struct put_call *put)
{
    enum hf_status status =
        store_put_file(copying->to, put, copying->spool, &copying->progress);
    *copying->error = put->error;
    if (status != HF_CONFLICT && status != HF_NOT_FOUND)
        return status;
    if (copying->options.sync)
        return error_set(copying->error, HF_CONFLICT,
                         "another client has written or deleted the copy meanwhile; sync "
                         "again");
    return copying->options.move ? move_explain_conflict(copying, put) : status;
}

static enum hf_status write_and_verify(struct copying *copying, struct put_call *put,
                                       struct checksum sum)
{
    struct checksum back = { 0 };
    copying->pass = 1;
    enum hf_status status = put_spool(copying, put);
    if (status != HF_OK)
        return status;
    struct get_call get = { .key = put->key, .match = put->etag };
    copying->pass = 2;
    status = spool_object(copying, copying->to, &get, copying->back_spool, &back);
    if (status == HF_NOT_FOUND)
        status = error_set(copying->error, HF_CORRUPT,
                           "the copy was written but cannot be read back: it is gone");
    if (status == HF_OK && !sums_equal(sum, back))
        status = error_set(copying->error, HF_CORRUPT,
                           "the copy reads back as %" PRIu64 " bytes with CRC32C %08" PRIx32
                           ", not %" PRIu64 " with %08" PRIx32,
                           back.size, back.crc, sum.size, sum.crc);
    return status;
}

enum copy_outcome { COPY_EQUAL, COPY_WRITTEN, COPY_DELETED };

/* Counts the object and reports it to the caller. */
static void report_copied(struct copying *copying, struct view from, struct view to,
                          struct checksum sum, enum copy_outcome outcome)
{
    char source[KEY_BYTES_MAX + 1], target[KEY_BYTES_MAX + 1];
    copying->report.equal += outcome == COPY_EQUAL;
    copying->report.copied += outcome == COPY_WRITTEN;
    copying->report.copied_bytes += outcome == COPY_WRITTEN ? sum.size : 0;
    copying->report.deleted += outcome == COPY_DELETED;
    if (!copying->options.each)
        return;
    memcpy(source, from.data, from.size);
    source[from.size] = '\0';
    memcpy(target, to.data, to.size);
    target[to.size] = '\0';
    const struct hf_store_copied copied = {
        .struct_size = sizeof copied,
        .source = source,
        .source_size = from.size,
        .target = target,
        .target_size = to.size,
        .size = sum.size,
        .crc32c = sum.crc,
        .copied = outcome == COPY_WRITTEN,
        .deleted = outcome == COPY_DELETED,
    };
    copying->stopped = !copying->options.each(copying->options.each_argument, &copied);
}

/* Whether the target has the bytes of the spool. If it changes meanwhile, it counts as different,
 * and the condition of the write decides. */
static enum hf_status compare_target(struct copying *copying, struct view key,
                                     const struct object_info *there, struct checksum sum,
                                     bool *ret_equal)
{
    struct get_call get = { .key = key, .match = there->etag };
    struct checksum old = { 0 };
    *ret_equal = false;
    if (there->size != sum.size)
        return HF_OK;
    copying->pass = 1;
    enum hf_status status = spool_object(copying, copying->to, &get, copying->back_spool, &old);
    *ret_equal = status == HF_OK && sums_equal(sum, old);
    return status == HF_NOT_FOUND || status == HF_CONFLICT ? HF_OK : status;
}

/* `there` is the object that the target store already has under that key, or NULL. Only an object
 * that is missing in the source counts as vanished; NOT_FOUND from the target is a failure. */
static enum hf_status copy_object(struct copying *copying, struct view from, struct view to,
                                  const struct object_info *there)
{
    struct get_call get = { .key = from };
    struct checksum sum;
    bool equal = false, moves = copying->options.move;
    copying->pass = 0;
    enum hf_status status = spool_object(copying, copying->from, &get, copying->spool, &sum);
    if (status == HF_NOT_FOUND && copying->many) {
        copying->report.vanished++;
        return HF_OK;
    }
    if (status == HF_OK && there)
        status = compare_target(copying, to, there, sum, &equal);
    if (status == HF_OK && !equal && there)
        status = check_not_own(to, copying->options.force, copying->error);
    if (status == HF_OK && moves)
        status = move_check(copying, to, equal);
    if (status == HF_OK && (!equal || moves) && !copying->options.dry_run) {
        struct put_call put = { .key = to };
        put.condition = copy_condition(copying, to, there, equal);
        status = write_and_verify(copying, &put, sum);
    }
    if (status == HF_OK && moves)
        status = move_delete_source(copying, from, &get.info.etag);
    if (status == HF_OK)
        report_copied(copying, from, to, sum, equal ? COPY_EQUAL : COPY_WRITTEN);
    return status;
}

/* ---- Existing copies ----------------------------------------------------------------- */

static void prefix_key(struct copying *copying, struct view key)
{
    error_prefix(copying->error, "%.*s", VIEW_ARGS(view_first(key, 100)));
}

/* Reads one byte of each object. This is the cheapest call that returns size and ETag, and many
 * such calls run concurrently. Sets the result of each calls[i]; a missing object is not a
 * failure. */
static enum hf_status read_targets(struct copying *copying, struct get_call *calls,
                                   size_t count)
{
    store_get_many(copying->to, calls, count);
    for (size_t i = 0; i < count; i++) {
        enum hf_status status = calls[i].error.status;
        if (status != HF_OK && status != HF_NOT_FOUND) {
            *copying->error = calls[i].error;
            if (count > 1)
                prefix_key(copying, calls[i].key);
            return status;
        }
    }
    return HF_OK;
}

static const struct object_info *found(const struct get_call *call)
{
    return call->error.status == HF_OK ? &call->info : NULL;
}

static enum hf_status copy_single(struct copying *copying)
{
    struct buffer byte = BUFFER_INIT(1);
    struct get_call call = { .key = copying->target, .length = 1, .body = &byte };
    enum hf_status status = read_targets(copying, &call, 1);
    if (status == HF_OK)
        status = copy_object(copying, copying->source, copying->target, found(&call));
    buffer_release(&byte);
    return status;
}

/* ---- Many objects -------------------------------------------------------------------- */

/* A page of the source listing: the entries that the caller chose, with one get call for the copy
 * of each. */
struct copied_page {
    struct list_call *list;
    const struct list_entry **entries;
    size_t count;
    struct get_call *calls;
    struct buffer *bodies;
};

/* Whether the caller wants this key of the source. */
static bool copy_is_chosen(const struct copying *copying, struct view key)
{
    char text[KEY_BYTES_MAX + 1];
    if (!copying->options.choose)
        return true;
    memcpy(text, key.data, key.size);
    text[key.size] = '\0';
    return copying->options.choose(copying->options.choose_argument, text, key.size);
}

static void choose_entries(const struct copying *copying, struct copied_page *page)
{
    page->count = 0;
    for (size_t i = 0; i < page->list->count; i++)
        if (copy_is_chosen(copying, page->list->entries[i].key))
            page->entries[page->count++] = &page->list->entries[i];
}

/* Replaces the prefix `old` of a key by `new`. The new key is in the arena. */
static enum hf_status replace_prefix(struct copying *copying, struct arena *arena,
                                     struct view key, struct view old, struct view new,
                                     struct view *ret_key)
{
    struct view rest = view_from(key, old.size);
    size_t size = new.size + rest.size;
    if (size > KEY_BYTES_MAX) {
        error_set(copying->error, HF_INVALID,
                  "its new key would have %zu bytes, more than the limit of %d", size,
                  KEY_BYTES_MAX);
        prefix_key(copying, key);
        return HF_INVALID;
    }
    char *text = arena_take(arena, size + 1);
    if (!text)
        return error_no_memory(copying->error);
    memcpy(text, new.data, new.size);
    memcpy(text + new.size, rest.data, rest.size);
    *ret_key = (struct view){ text, size };
    return HF_OK;
}

/* Fills in the call for the copy of each entry. */
static enum hf_status fill_calls(struct copying *copying, struct copied_page *page)
{
    for (size_t i = 0; i < page->count; i++) {
        page->bodies[i] = BUFFER_INIT(1);
        page->calls[i] = (struct get_call){ .length = 1, .body = &page->bodies[i] };
        enum hf_status status =
            replace_prefix(copying, &page->list->arena, page->entries[i]->key, copying->source,
                           copying->target, &page->calls[i].key);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

/* The target must be probed separately, so the source's probe verdict is not copied. The placement
 * of a namespace is recorded anew, and so is the feature of buckets with adopted objects, before
 * anything uses it. */
static enum hf_status copy_entry(struct copying *copying, const struct list_entry *entry,
                                 struct view target, const struct object_info *there)
{
    bool writes = !copying->options.dry_run;
    if (view_equal(target, VIEW(LAYOUT_BUCKET_KEY)))
        return HF_OK;
    if (copying->source_in_target.data && view_starts_with(target, copying->source_in_target)) {
        error_set(copying->error, HF_INVALID,
                  "its copy would be '%.*s', which is part of the source", VIEW_ARGS(target));
        prefix_key(copying, entry->key);
        return HF_INVALID;
    }
    copying->pass = 0;
    copying->size = entry->info.size;
    if (!progress_step(&copying->progress, 0, entry->info.size, copying->error))
        return copying->error->status;
    enum hf_status status = HF_OK;
    if (writes && view_equal(target, VIEW(LAYOUT_ADOPTED_KEY)))
        status = bucket_use_feature(copying->to, BUCKET_ADOPTED_OBJECTS, copying->error);
    if (status == HF_OK)
        status = copy_object(copying, entry->key, target, there);
    if (status == HF_OK && writes)
        status = placement_record_copied(copying->to, target, copying->error);
    copying->before += entry->info.size;
    if (status != HF_OK)
        prefix_key(copying, entry->key);
    return status;
}

static enum hf_status copy_page(struct copying *copying, struct copied_page *page)
{
    memset(page->bodies, 0, LIST_PAGE_MAX * sizeof *page->bodies);
    choose_entries(copying, page);
    enum hf_status status = fill_calls(copying, page);
    if (status == HF_OK)
        status = read_targets(copying, page->calls, page->count);
    for (size_t i = 0; i < page->count; i++) {
        if (status != HF_OK || copying->stopped)
            break;
        status =
            copy_entry(copying, page->entries[i], page->calls[i].key, found(&page->calls[i]));
    }
    for (size_t i = 0; i < page->count; i++)
        buffer_release(&page->bodies[i]);
    return status;
}

static enum hf_status count_page(struct copying *copying, struct copied_page *page)
{
    uint64_t total = copying->total;
    choose_entries(copying, page);
    for (size_t i = 0; i < page->count; i++)
        total += page->entries[i]->info.size;
    copying->total = 0; /* unknown until the last page has been counted */
    bool go_on = progress_step(&copying->progress, 0, 0, copying->error);
    copying->total = total;
    return go_on ? HF_OK : copying->error->status;
}

/* Calls `visit` for each page of the source listing. */
static enum hf_status each_page(struct copying *copying, struct copied_page *page,
                                enum hf_status (*visit)(struct copying *, struct copied_page *))
{
    struct pages pages = { .list = { .prefix = copying->source, .after = VIEW("") } };
    enum hf_status status = HF_OK;
    page->list = &pages.list;
    while (status == HF_OK && !copying->stopped && pages_next(&pages, copying->from))
        status = visit(copying, page);
    return pages_end(&pages, status, copying->error);
}

/* ---- Sync ---------------------------------------------------------------------------- */

/* Both listings are walked at the same time, in the order of the keys after their prefixes, so
 * only one page of each is in memory. The first walk copies; the second deletes what only the
 * target has. */

struct extras;

struct sync_side {
    struct store *store;
    struct view prefix;
    struct pages pages;
    const struct list_entry *entry; /* or NULL: the listing has ended */
    char last[KEY_BYTES_MAX];
    size_t last_size;
};

/* A listing out of order would make objects look as if the other side did not have them. */
static enum hf_status side_next(struct copying *copying, struct sync_side *side)
{
    if (side->entry) {
        side->last_size = side->entry->key.size;
        memcpy(side->last, side->entry->key.data, side->last_size);
    }
    struct view last = { side->last, side->last_size };
    side->entry = pages_next_entry(&side->pages, side->store);
    if (side->entry && last.size > 0 && view_compare(last, side->entry->key) >= 0)
        return error_set(copying->error, HF_UNSUPPORTED,
                         "the store does not list its objects in order, so it cannot be "
                         "synced; use cp");
    return HF_OK;
}

typedef enum hf_status sync_visit_fn(struct copying *copying, struct extras *extras,
                                     const struct list_entry *source,
                                     const struct list_entry *target);

/* Calls `visit` for each key that one side or both have; the other entry is NULL. */
static enum hf_status walk_sides(struct copying *copying, struct extras *extras,
                                 sync_visit_fn *visit)
{
    struct sync_side from = { .store = copying->from, .prefix = copying->source };
    struct sync_side to = { .store = copying->to, .prefix = copying->target };
    from.pages.list = (struct list_call){ .prefix = from.prefix, .after = VIEW("") };
    to.pages.list = (struct list_call){ .prefix = to.prefix, .after = VIEW("") };
    enum hf_status status = side_next(copying, &from);
    if (status == HF_OK)
        status = side_next(copying, &to);
    while (status == HF_OK && !copying->stopped && (from.entry || to.entry)) {
        int order = !from.entry ? 1
                    : !to.entry ? -1
                                : view_compare(view_from(from.entry->key, from.prefix.size),
                                               view_from(to.entry->key, to.prefix.size));
        /* If a listing failed, its rest only seems to be missing. */
        if (from.pages.list.error.status != HF_OK || to.pages.list.error.status != HF_OK)
            break;
        status = visit(copying, extras, order <= 0 ? from.entry : NULL,
                       order >= 0 ? to.entry : NULL);
        if (status == HF_OK && order <= 0)
            status = side_next(copying, &from);
        if (status == HF_OK && order >= 0)
            status = side_next(copying, &to);
    }
    status = pages_end(&from.pages, status, copying->error);
    return pages_end(&to.pages, status, copying->error);
}

/* Whether equal sizes and ETags mean equal bytes. */
static bool surely_equal(const struct copying *copying, const struct object_info *a,
                         const struct object_info *b)
{
    return a->size == b->size && etag_equal(&a->etag, &b->etag) &&
           store_etag_is_md5(copying->from, &a->etag) &&
           store_etag_is_md5(copying->to, &b->etag);
}

/* ---- Sync: copies -------------------------------------------------------------------- */

static enum hf_status sync_source(struct copying *copying, const struct list_entry *source,
                                  const struct list_entry *target)
{
    struct arena arena = ARENA_INIT;
    struct view key;
    enum hf_status status =
        replace_prefix(copying, &arena, source->key, copying->source, copying->target, &key);
    if (status == HF_OK && target && surely_equal(copying, &source->info, &target->info)) {
        copying->before += source->info.size;
        report_copied(copying, source->key, key, (struct checksum){ .size = source->info.size },
                      COPY_EQUAL);
    } else if (status == HF_OK) {
        status = copy_entry(copying, source, key, target ? &target->info : NULL);
    }
    arena_release(&arena);
    return status;
}

/* Finds the key that the source of this object would have. False: it is not to be deleted. */
static bool is_extra(struct copying *copying, struct arena *arena,
                     const struct list_entry *target, struct view *ret_source,
                     enum hf_status *ret_status)
{
    *ret_status = HF_OK;
    if (!copying->options.delete_extra || view_equal(target->key, VIEW(LAYOUT_BUCKET_KEY)))
        return false;
    *ret_status = replace_prefix(copying, arena, target->key, copying->target, copying->source,
                                 ret_source);
    return *ret_status == HF_OK && copy_is_chosen(copying, *ret_source);
}

/* What must not be deleted is refused by the walk that copies, before anything is deleted. The walk
 * that deletes refuses what has appeared since. */
static enum hf_status sync_copy(struct copying *copying, struct extras *extras,
                                const struct list_entry *source,
                                const struct list_entry *target)
{
    enum hf_status status = HF_OK;
    struct view key;
    (void)extras;
    if (source)
        return copy_is_chosen(copying, source->key) ? sync_source(copying, source, target)
                                                    : HF_OK;
    struct arena arena = ARENA_INIT;
    if (is_extra(copying, &arena, target, &key, &status))
        status = check_not_own(target->key, copying->options.force, copying->error);
    arena_release(&arena);
    return status;
}

/* ---- Sync: deletes ------------------------------------------------------------------- */

/* Objects that only the target has. They are deleted in batches. */
struct extras {
    struct arena arena;
    struct get_call *sources; /* the object may have been written since the source was listed */
    struct buffer *bodies;
    struct delete_call *targets;
    uint64_t *sizes;
    size_t count;
};

static void report_deleted(struct copying *copying, const struct extras *extras, size_t i)
{
    if (!copying->stopped)
        report_copied(copying, extras->sources[i].key, extras->targets[i].key,
                      (struct checksum){ .size = extras->sizes[i] }, COPY_DELETED);
}

static enum hf_status delete_failed(struct copying *copying, const struct delete_call *call)
{
    enum hf_status status = call->error.status;
    *copying->error = call->error;
    if (status == HF_CONFLICT)
        error_set(copying->error, status,
                  "another client has written it meanwhile, so it was not deleted; sync again");
    prefix_key(copying, call->key);
    return status;
}

/* Drops the objects that the source has after all. */
static enum hf_status drop_found_sources(struct copying *copying, struct extras *extras)
{
    size_t left = 0;
    store_get_many(copying->from, extras->sources, extras->count);
    for (size_t i = 0; i < extras->count; i++)
        buffer_release(&extras->bodies[i]);
    for (size_t i = 0; i < extras->count; i++) {
        enum hf_status status = extras->sources[i].error.status;
        if (status != HF_OK && status != HF_NOT_FOUND) {
            *copying->error = extras->sources[i].error;
            prefix_key(copying, extras->sources[i].key);
            return status;
        }
        if (status == HF_OK)
            continue;
        extras->sources[left] = extras->sources[i];
        extras->targets[left] = extras->targets[i];
        extras->sizes[left++] = extras->sizes[i];
    }
    extras->count = left;
    return HF_OK;
}

/* All deletes of a batch are sent; the first failure is the status. */
static enum hf_status delete_extras(struct copying *copying, struct extras *extras)
{
    if (!progress_step(&copying->progress, 0, 0, copying->error))
        return copying->error->status;
    enum hf_status status = drop_found_sources(copying, extras);
    if (status == HF_OK && !copying->options.dry_run)
        store_delete_many(copying->to, extras->targets, extras->count);
    for (size_t i = 0; status == HF_OK && i < extras->count; i++) {
        enum hf_status one = extras->targets[i].error.status;
        if (copying->options.dry_run || one == HF_OK || one == HF_NOT_FOUND)
            report_deleted(copying, extras, i);
        else
            status = delete_failed(copying, &extras->targets[i]);
    }
    arena_release(&extras->arena);
    extras->arena = ARENA_INIT;
    extras->count = 0;
    return status;
}

static enum hf_status sync_delete(struct copying *copying, struct extras *extras,
                                  const struct list_entry *source,
                                  const struct list_entry *target)
{
    enum hf_status status = HF_OK;
    struct view key;
    if (source || !is_extra(copying, &extras->arena, target, &key, &status))
        return status;
    status = check_not_own(target->key, copying->options.force, copying->error);
    if (status != HF_OK)
        return status;
    size_t i = extras->count++;
    struct view copy = arena_copy(&extras->arena, target->key);
    extras->bodies[i] = BUFFER_INIT(1);
    extras->sources[i] =
        (struct get_call){ .key = key, .length = 1, .body = &extras->bodies[i] };
    extras->targets[i] =
        (struct delete_call){ .key = copy, .condition = if_match(&target->info.etag) };
    extras->sizes[i] = target->info.size;
    if (!copy.data)
        return error_no_memory(copying->error);
    return extras->count == BATCH_MAX ? delete_extras(copying, extras) : HF_OK;
}

static enum hf_status delete_all_extras(struct copying *copying)
{
    struct extras extras = {
        .arena = ARENA_INIT,
        .sources = calloc(BATCH_MAX, sizeof *extras.sources),
        .bodies = calloc(BATCH_MAX, sizeof *extras.bodies),
        .targets = calloc(BATCH_MAX, sizeof *extras.targets),
        .sizes = calloc(BATCH_MAX, sizeof *extras.sizes),
    };
    enum hf_status status = HF_OK;
    if (!extras.sources || !extras.bodies || !extras.targets || !extras.sizes)
        status = error_no_memory(copying->error);
    if (status == HF_OK)
        status = walk_sides(copying, &extras, sync_delete);
    if (status == HF_OK && extras.count > 0 && !copying->stopped)
        status = delete_extras(copying, &extras);
    arena_release(&extras.arena);
    free(extras.sources);
    free(extras.bodies);
    free(extras.targets);
    free(extras.sizes);
    return status;
}

static enum hf_status sync_everything(struct copying *copying)
{
    bool deletes = copying->options.delete_extra && !copying->options.dry_run;
    if (deletes && !copying->to->traits.delete_conditional)
        return error_set(copying->error, HF_UNSUPPORTED,
                         "the target has no conditional delete that is known, so what another "
                         "client writes meanwhile could be deleted; nothing was changed");
    enum hf_status status = walk_sides(copying, /* extras */ NULL, sync_copy);
    if (status == HF_OK && !copying->stopped && copying->options.delete_extra)
        status = delete_all_extras(copying);
    return status;
}

static enum hf_status copy_many(struct copying *copying)
{
    struct copied_page page = {
        .entries = calloc(LIST_PAGE_MAX, sizeof *page.entries),
        .calls = calloc(LIST_PAGE_MAX, sizeof *page.calls),
        .bodies = calloc(LIST_PAGE_MAX, sizeof *page.bodies),
    };
    enum hf_status status = HF_OK;
    if (!page.entries || !page.calls || !page.bodies)
        status = error_no_memory(copying->error);
    if (status == HF_OK && copying->options.count_first)
        status = each_page(copying, &page, count_page);
    if (status == HF_OK)
        status = copying->options.sync ? sync_everything(copying)
                                       : each_page(copying, &page, copy_page);
    free(page.entries);
    free(page.calls);
    free(page.bodies);
    return status;
}

/* ---- The calls ----------------------------------------------------------------------- */

static enum hf_status copy_with_spools(struct copying *copying)
{
    enum hf_status status = temporary_file(&copying->spool, copying->error);
    if (status != HF_OK)
        return status;
    status = temporary_file(&copying->back_spool, copying->error);
    if (status == HF_OK) {
        status = copying->many ? copy_many(copying) : copy_single(copying);
        close(copying->back_spool);
    }
    close(copying->spool);
    return status;
}

static enum hf_status check_names(const struct copying *copying, struct hf_error *error)
{
    bool same = copying->from == copying->to, sync = copying->options.sync;
    if (!copying->many && (sync || copying->options.dry_run || copying->options.choose ||
                           copying->options.source_in_target))
        return error_set(error, HF_INVALID,
                         "sync, dry_run, choose and source_in_target are for copy_all");
    if (copying->many && copying->options.move)
        return error_set(error, HF_INVALID, "move is for hf_store_copy");
    if (copying->options.delete_extra && !sync)
        return error_set(error, HF_INVALID, "delete_extra needs sync");
    if (same && view_equal(copying->source, copying->target))
        return error_set(error, HF_INVALID, "source and target are the same");
    if (same && copying->many && view_starts_with(copying->target, copying->source))
        return error_set(error, HF_INVALID,
                         "target starts with source, so the copies would be copied again");
    if (same && sync && view_starts_with(copying->source, copying->target))
        return error_set(error, HF_INVALID,
                         "source starts with target, so the source would be changed");
    if (copying->options.move &&
        check_written_key(copying->source, copying->options.force, error) != HF_OK)
        return error->status;
    return copying->many ? HF_OK
                         : check_written_key(copying->target, copying->options.force, error);
}

/* What a call copies, as the caller specified it. */
struct copy_request {
    struct hf_store *from;
    const char *source;
    struct hf_store *to;
    const char *target;
    bool many;
};

static enum hf_status run_copy_request(const struct copy_request *request,
                                       const struct hf_store_copy_options *options,
                                       struct hf_store_copy_report *ret_report,
                                       struct hf_error *error)
{
    struct hf_store *from = request->from, *to = request->to;
    const char *source = request->source, *target = request->target;
    struct hf_error why;
    struct copying copying = { .many = request->many,
                               .options = HF_STORE_COPY_OPTIONS,
                               .report = HF_STORE_COPY_REPORT,
                               .error = &why };
    if (ERROR_IF_NULL(&why, from, source, to, target) != HF_OK ||
        READ_OPTIONS(HF_STORE_COPY_OPTIONS, options, &copying.options, &why) != HF_OK ||
        CHECK_REPORT(HF_STORE_COPY_REPORT, ret_report, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    copying.from = from->store;
    copying.to = to->store;
    copying.source = caller_view(source, copying.options.source_size);
    copying.target = caller_view(target, copying.options.target_size);
    if (from == to)
        copying.source_in_target = copying.source;
    else if (copying.options.source_in_target)
        copying.source_in_target = caller_view(copying.options.source_in_target,
                                               copying.options.source_in_target_size);
    copying.progress = (struct progress){ report_copy_progress, &copying };
    copying.options.if_absent |= copying.options.move;
    enum hf_status status = check_names(&copying, &why);
    if (status == HF_OK)
        status = copy_with_spools(&copying);
    if (status == HF_OK)
        write_caller_report(ret_report, &copying.report, sizeof copying.report);
    return error_tell(error, status, &why);
}

enum hf_status hf_store_copy(struct hf_store *from, const char *source, struct hf_store *to,
                             const char *target, const struct hf_store_copy_options *options,
                             struct hf_store_copy_report *ret_report, struct hf_error *error)
{
    const struct copy_request request = { from, source, to, target, .many = false };
    return run_copy_request(&request, options, ret_report, error);
}

enum hf_status hf_store_copy_all(struct hf_store *from, const char *source, struct hf_store *to,
                                 const char *target,
                                 const struct hf_store_copy_options *options,
                                 struct hf_store_copy_report *ret_report,
                                 struct hf_error *error)
{
    const struct copy_request request = { from, source, to, target, .many = true };
    return run_copy_request(&request, options, ret_report, error);
}
