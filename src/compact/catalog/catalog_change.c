/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_change.c: the transitions that change live chunks without adding or merging any (blame,
 * quarantine, undelete, split), and the transition that changes the settings. A failure must not
 * lose or duplicate a chunk, so each transition does everything that can fail before it changes the
 * catalog. */
#include "base/check.h"
#include "base/layout.h"
#include "base/rule.h"
#include "compact/catalog/catalog_inside.h"

#include <stdlib.h>

/* ---- Blame and quarantine ------------------------------------------------------------ */

/* Appends a copy of a chunk whose tries or quarantine were changed, with a new stamp. */
static enum hf_status prepare_change(struct catalog *catalog, struct catalog_op *op,
                                     const struct evidence *evidence,
                                     const struct chunk *changed, struct blamed *blamed)
{
    struct chunk chunk = *changed;
    chunk.since = stamp_now(evidence);
    chunk.quarantine = catalog_keep(catalog, chunk.quarantine);
    if (!chunk.quarantine.data)
        return error_no_memory(&op->error);
    enum hf_status status = chunk_seal(catalog, &chunk, CHUNK_BYTES_READ_MAX, &op->error);
    if (status == HF_OK)
        blamed->chunks[blamed->count++] = chunk;
    return status;
}

static bool blamed_room(struct blamed *blamed, size_t count)
{
    blamed->chunks = malloc((count ? count : 1) * sizeof *blamed->chunks);
    return blamed->chunks != NULL;
}

static enum hf_status blame_culprit(struct catalog *catalog, struct catalog_op *op,
                                    const struct evidence *evidence, struct blamed *blamed)
{
    const struct chunk *chunk = catalog_live_by_key(catalog, op->culprit);
    if (!chunk || chunk->quarantine.size > 0)
        return HF_OK;
    struct chunk changed = *chunk;
    struct reason reason = reason_make(0, op->reason);
    changed.quarantine = (struct view){ reason.text, reason.size };
    return prepare_change(catalog, op, evidence, &changed, blamed);
}

static enum hf_status blame_group(struct catalog *catalog, struct catalog_op *op,
                                  const struct evidence *evidence, struct blamed *blamed)
{
    enum hf_status status = catalog_check_twice(op->sources, op->source_count, &op->error);
    if (status != HF_OK)
        return status;
    /* In a larger group, any of the chunks may have caused the failure. A chunk is quarantined only
     * if it also fails when merged by itself; otherwise one bad chunk would quarantine its healthy
     * neighbours. */
    bool has_others = RULE(QUARANTINE_ALONE) && op->source_count > 1;
    for (size_t i = 0; i < op->source_count; i++) {
        const struct chunk *chunk = catalog_live_by_key(catalog, op->sources[i]);
        if (!chunk)
            continue;
        struct chunk changed = *chunk;
        if (changed.tries < CHUNK_TRIES_MAX)
            changed.tries++;
        struct reason reason = reason_make(changed.tries, op->reason);
        if (!has_others && changed.tries >= catalog->settings.tries_max &&
            changed.quarantine.size == 0)
            changed.quarantine = (struct view){ reason.text, reason.size };
        status = prepare_change(catalog, op, evidence, &changed, blamed);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

/* Keeps the stamps: nothing was tried, so the chunks are due as before. */
static enum hf_status mark_sources(struct catalog *catalog, struct catalog_op *op,
                                   struct blamed *blamed)
{
    enum hf_status status = catalog_check_twice(op->sources, op->source_count, &op->error);
    for (size_t i = 0; status == HF_OK && i < op->source_count; i++) {
        const struct chunk *chunk = catalog_live_by_key(catalog, op->sources[i]);
        if (!chunk || chunk->mark_begin)
            continue;
        struct chunk changed = *chunk;
        changed.mark_begin = true;
        status = chunk_seal(catalog, &changed, CHUNK_BYTES_READ_MAX, &op->error);
        if (status == HF_OK)
            blamed->chunks[blamed->count++] = changed;
    }
    return status;
}

enum hf_status blame_prepare(struct catalog *catalog, struct catalog_op *op,
                             const struct evidence *evidence, struct blamed *blamed)
{
    bool nobody = op->blame == HF_COMPACT_BLAME_NOBODY;
    if (nobody && !op->mark_begin)
        return HF_OK;
    if (!blamed_room(blamed, op->source_count))
        return error_no_memory(&op->error);
    if (nobody)
        return mark_sources(catalog, op, blamed);
    return op->blame == HF_COMPACT_BLAME_CHUNK ? blame_culprit(catalog, op, evidence, blamed)
                                               : blame_group(catalog, op, evidence, blamed);
}

void blame_apply(struct catalog *catalog, const struct blamed *blamed)
{
    for (size_t i = 0; i < blamed->count; i++) {
        struct chunk *live = catalog_live_by_key(catalog, blamed->chunks[i].key);
        catalog->live_bytes += chunk_bytes(&blamed->chunks[i]);
        catalog->live_bytes -= chunk_bytes(live);
        *live = blamed->chunks[i];
    }
}

static enum hf_status prepare_quarantine(struct catalog *catalog, struct catalog_op *op,
                                         const struct evidence *evidence, struct blamed *blamed)
{
    bool back = op->reason.size == 0;
    struct reason reason = reason_make(0, op->reason);
    struct view why = back ? VIEW("") : (struct view){ reason.text, reason.size };
    for (size_t i = 0; i < op->key_count; i++) {
        const struct chunk *chunk = catalog_live_by_key(catalog, op->keys[i]);
        if (!chunk)
            return error_set(&op->error, HF_NOT_FOUND, "no live chunk '%.*s'",
                             VIEW_ARGS(view_first(op->keys[i], 100)));
        struct chunk changed = *chunk;
        changed.tries = back ? 0 : chunk->tries;
        changed.tested = back ? 0 : chunk->tested;
        changed.quarantine = why;
        if (view_equal(chunk->quarantine, why) && chunk->tries == changed.tries &&
            chunk->tested == changed.tested)
            continue;
        enum hf_status status = prepare_change(catalog, op, evidence, &changed, blamed);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

enum hf_status catalog_apply_quarantine(struct catalog *catalog, struct catalog_op *op,
                                        const struct evidence *evidence)
{
    struct blamed blamed = { 0 };
    if (op->key_count == 0 || op->key_count > CATALOG_LIVE_MAX)
        return error_set(&op->error, HF_INVALID, "1 to %d chunks must be named",
                         CATALOG_LIVE_MAX);
    enum hf_status status = catalog_check_twice(op->keys, op->key_count, &op->error);
    if (status == HF_OK && !blamed_room(&blamed, op->key_count))
        status = error_no_memory(&op->error);
    if (status == HF_OK)
        status = prepare_quarantine(catalog, op, evidence, &blamed);
    if (status == HF_OK) {
        blame_apply(catalog, &blamed);
        op->changed = blamed.count > 0;
    }
    free(blamed.chunks);
    return status;
}

/* A chunk without tries has passed already, in an earlier attempt of this swap or in another job.
 * Only the last try counts as a test: before it, a chunk is alone because no other was left over
 * for its group. */
enum hf_status catalog_apply_pass(struct catalog *catalog, struct catalog_op *op,
                                  const struct evidence *evidence)
{
    struct blamed blamed = { 0 };
    if (op->key_count != 1)
        return error_set(&op->error, HF_INVALID, "only one chunk can pass a test at a time");
    const struct chunk *chunk = catalog_live_by_key(catalog, op->keys[0]);
    if (!chunk || chunk->tries == 0 || chunk->quarantine.size > 0)
        return HF_OK;
    struct chunk changed = *chunk;
    struct reason reason =
        reason_make(0, VIEW("it can be merged by itself, but its merges with "
                            "other chunks keep failing"));
    changed.tested += chunk->tries + 1 >= catalog->settings.tries_max;
    changed.tries = 0;
    if (changed.tested >= CHUNK_TESTED_MAX)
        changed.quarantine = (struct view){ reason.text, reason.size };
    if (!blamed_room(&blamed, 1))
        return error_no_memory(&op->error);
    enum hf_status status = prepare_change(catalog, op, evidence, &changed, &blamed);
    if (status == HF_OK) {
        blame_apply(catalog, &blamed);
        op->changed = true;
    }
    free(blamed.chunks);
    return status;
}

/* ---- Undelete ------------------------------------------------------------------------ */

void catalog_exhume(struct catalog *catalog, struct grave *grave, struct view key)
{
    for (size_t i = 0; i < grave->count; i++) {
        if (!view_equal(grave->chunks[i].key, key))
            continue;
        catalog->dead_bytes -= chunk_bytes(&grave->chunks[i]);
        catalog->dead_count--;
        memmove(&grave->chunks[i], &grave->chunks[i + 1],
                (grave->count - i - 1) * sizeof *grave->chunks);
        grave->count--;
        grave->part.raw = VIEW("");
        grave->part.leaving = grave->count == 0;
        return;
    }
}

/* The chunks that a grave was merged into: none, one, or all outputs of a divided merge. */
static size_t targets_of(const struct grave *grave)
{
    if (RULE(UNDELETE_TAKES_ALL_TARGETS) && grave->target_count > 0)
        return grave->target_count;
    return grave->into.size > 0;
}

static struct view target_of(const struct grave *grave, size_t index)
{
    return grave->target_count > 0 ? grave->targets[index] : grave->into;
}

/* Chunks that were retired by age come back only together with the value of `expired` before. A
 * chunk that was retired after them could hide records of theirs, and of the chunks that stayed:
 * with a lower value, these would be shown without it. */
static enum hf_status check_by_age(const struct catalog *catalog, struct catalog_op *op,
                                   const struct grave *grave)
{
    const struct grave *last = grave;
    if (catalog->parent.size > 0)
        return error_set(&op->error, HF_CONFLICT,
                         "the chunk was retired by age, and the partition was split: its other "
                         "catalogs would still hide the records");
    for (size_t i = 0; i < catalog->grave_count; i++)
        if (catalog->graves[i].by_age && catalog->graves[i].part.serial > last->part.serial)
            last = &catalog->graves[i];
    if (last != grave)
        return error_set(&op->error, HF_CONFLICT,
                         "other chunks were retired by age later: undelete %.*s first",
                         VIEW_ARGS(view_first(last->chunks[0].key, 120)));
    if (catalog->expired_ms != grave->expired_ms)
        return error_set(&op->error, HF_CONFLICT,
                         "other chunks were retired by age later, and are deleted");
    return HF_OK;
}

/* Shows the records of chunks that are about to come back. A version that did not record why a
 * chunk was retired has left a grave that says nothing; then the chunk was retired by age only if
 * all of it is before the time of expiry. */
static void show_expired(struct catalog *catalog, const struct grave *grave,
                         const struct chunk *back)
{
    if (grave->by_age) {
        catalog->has_expired = grave->had_before;
        catalog->expired_ms = grave->had_before ? grave->before_ms : 0;
        return;
    }
    bool unsaid = grave->into.size == 0 && !grave->discarded && catalog->has_expired;
    if (unsaid && back->max_ms < catalog->expired_ms && back->min_ms < catalog->expired_ms)
        catalog->expired_ms = back->min_ms;
}

static enum hf_status check_undelete(const struct catalog *catalog, struct catalog_op *op,
                                     const struct grave *grave)
{
    if (!grave)
        return error_set(&op->error, HF_NOT_FOUND, "the chunk is not a tombstone but %s",
                         chunk_state_name(catalog_state(catalog, op->keys[0])));
    if (catalog->child_count > 0)
        return error_set(
            &op->error, HF_CONFLICT,
            "the catalog has been split since the merge, so the merge can no longer be undone");
    if (grave->undone)
        return error_set(&op->error, HF_CONFLICT,
                         "this chunk is the output of a merge that was undone");
    if (grave->by_age)
        return check_by_age(catalog, op, grave);
    for (size_t i = 0; i < targets_of(grave); i++)
        if (!catalog_live_by_key(catalog, target_of(grave, i)))
            return error_set(&op->error, HF_CONFLICT,
                             "the chunk it was merged into is no longer live, so the merge "
                             "cannot be undone");
    return HF_OK;
}

static void do_undelete(struct catalog *catalog, struct grave *grave, const struct blamed *back,
                        struct chunk *place, const struct evidence *evidence)
{
    struct grave undone = *grave;
    unsigned target = catalog_cascade(catalog);
    show_expired(catalog, grave, &back->chunks[0]);
    if (place || grave->by_age)
        grave->part.leaving = true;
    else
        catalog_exhume(catalog, grave, back->chunks[0].key);
    catalog_sweep_graves(catalog);
    if (place) { /* the targets of the undone merge move to a grave of their own */
        for (size_t i = 0; i < targets_of(&undone); i++) {
            struct chunk *live = catalog_live_by_key(catalog, target_of(&undone, i));
            place[i] = *live;
            live->leaving = true;
        }
        catalog_sweep_live(catalog);
        struct grave target_grave =
            catalog_new_grave(evidence, VIEW(""), place, targets_of(&undone));
        target_grave.undone = true;
        catalog_push_grave(catalog, &target_grave);
    }
    for (size_t i = 0; i < back->count; i++) {
        catalog_push_live(catalog, &back->chunks[i]);
        catalog_count_entry(catalog, back->chunks[i].level);
    }
    catalog_set_due(catalog, target, evidence);
}

/* Does everything that can fail: finds the chunks that come back (all sources of a merge, all
 * chunks that were retired with the requested one, or that one alone) and the target's place, and
 * allocates memory. */
static enum hf_status prepare_undelete(struct catalog *catalog, struct catalog_op *op,
                                       const struct grave *grave,
                                       const struct evidence *evidence, struct blamed *back,
                                       struct chunk **ret_place)
{
    bool undo = RULE(UNDELETE_UNDOES_ALL) && grave->into.size > 0;
    size_t targets = targets_of(grave); /* room for graves may move this one */
    if (!blamed_room(back, grave->count))
        return error_no_memory(&op->error);
    for (size_t i = 0; i < grave->count; i++) {
        const struct chunk *chunk = &grave->chunks[i];
        if (!undo && !grave->by_age && !view_equal(chunk->key, op->keys[0]))
            continue;
        enum hf_status status = prepare_change(catalog, op, evidence, chunk, back);
        if (status != HF_OK)
            return status;
    }
    if (undo) {
        *ret_place = catalog_take(catalog, targets * sizeof **ret_place);
        if (!*ret_place)
            return error_no_memory(&op->error);
    }
    bool room = catalog_room_live(catalog, back->count) && catalog_room_graves(catalog, 1) &&
                catalog_reserve_keys(catalog, back->count + targets);
    return room ? HF_OK : error_no_memory(&op->error);
}

enum hf_status catalog_apply_undelete(struct catalog *catalog, struct catalog_op *op,
                                      const struct evidence *evidence)
{
    struct blamed back = { 0 };
    struct chunk *place = NULL;
    if (op->key_count != 1)
        return error_set(&op->error, HF_INVALID, "only one chunk can be undeleted at a time");
    if (catalog_live_by_key(catalog, op->keys[0])) {
        op->already = true;
        return HF_OK;
    }
    struct grave *grave = catalog_grave_by_key(catalog, op->keys[0]);
    enum hf_status status = check_undelete(catalog, op, grave);
    if (status == HF_OK && grave)
        status = prepare_undelete(catalog, op, grave, evidence, &back, &place);
    /* Making room may have moved the graves in memory. */
    grave = catalog_grave_by_key(catalog, op->keys[0]);
    if (status == HF_OK && grave) {
        do_undelete(catalog, grave, &back, place, evidence);
        op->moved = back.count;
        op->changed = true;
    }
    free(back.chunks);
    return status;
}

/* ---- Split --------------------------------------------------------------------------- */

static enum hf_status check_split(const struct catalog *catalog, struct catalog_op *op,
                                  const struct evidence *evidence)
{
    for (size_t i = 0; i < CATALOG_CHILDREN; i++)
        if (!layout_partition_valid(op->children[i]) ||
            view_equal(op->children[i], catalog->partition))
            return error_set(&op->error, HF_INVALID, "invalid child partition name");
    if (catalog->depth >= CATALOG_DEPTH_MAX)
        return error_set(&op->error, HF_INVALID, "the partition cannot be split any further");
    enum hf_status status = catalog_check_twice(op->children, CATALOG_CHILDREN, &op->error);
    if (status != HF_OK)
        return status;
    if (catalog->child_count > 0) {
        op->already = catalog->split_by == op->split_by;
        for (size_t i = 0; i < CATALOG_CHILDREN; i++)
            op->already = op->already && view_equal(catalog->children[i], op->children[i]);
        return op->already
                   ? HF_OK
                   : error_set(&op->error, HF_MISMATCH, "the catalog was already split");
    }
    /* The children were made from an earlier version of this catalog. They would lack a chunk that
     * was added since then, keep one that was merged, or have outdated settings. */
    if (RULE(SPLIT_CHECKS_LIVE) && catalog_live_hash(catalog) != op->live_hash)
        return error_set(&op->error, HF_CONFLICT,
                         "live chunks changed while the catalog was being split");
    return catalog_name_age(catalog, op, evidence);
}

/* References are grouped by child, because they are encoded that way. */
static void refer_to_children(struct catalog *catalog)
{
    for (unsigned child = 0; child < CATALOG_CHILDREN; child++)
        for (size_t i = 0; i < catalog->live_count; i++) {
            const struct chunk *chunk = &catalog->live[i];
            if (split_route(catalog->partition, catalog->split_by, chunk->key, chunk->min_ms) ==
                child)
                catalog_push_reference(catalog, chunk->key, child);
        }
}

/* If a moved file is ingested again, it may be routed to another child, so the parent remembers the
 * identities of all files that it moved. */
static void remember_moved_files(struct catalog *catalog)
{
    for (size_t i = 0; i < catalog->live_count; i++) {
        const struct chunk *chunk = &catalog->live[i];
        catalog_forget_file(catalog, chunk->file_id, chunk->serial);
        if (RULE(SPLIT_KNOWS_THE_FILE) && chunk->file_id.size > 0)
            catalog_push_moved_file(catalog, chunk->file_id);
    }
}

enum hf_status catalog_apply_split(struct catalog *catalog, struct catalog_op *op,
                                   const struct evidence *evidence)
{
    struct view children[CATALOG_CHILDREN];
    enum hf_status status = check_split(catalog, op, evidence);
    if (status != HF_OK || op->already)
        return status;
    for (size_t i = 0; i < CATALOG_CHILDREN; i++) {
        children[i] = catalog_keep(catalog, op->children[i]);
        if (!children[i].data)
            return error_no_memory(&op->error);
    }
    if (!catalog_room_references(catalog, catalog->live_count) ||
        !catalog_room_moved_file_ids(catalog, catalog->live_count) ||
        !catalog_reserve_keys(catalog, catalog->live_count))
        return error_no_memory(&op->error);
    memcpy(catalog->children, children, sizeof children);
    catalog->child_count = CATALOG_CHILDREN;
    catalog->split_by = op->split_by;
    catalog->generation += RULE(SPLIT_RAISES_GENERATION);
    catalog->split_generation = catalog->generation;
    op->moved = catalog->live_count;
    refer_to_children(catalog);
    remember_moved_files(catalog);
    catalog->live_count = 0;
    catalog->live_bytes = 0;
    catalog->cascade = (struct hf_cascade){ 0 };
    catalog->due = (struct stamp){ 0, 0 };
    op->changed = true;
    return HF_OK;
}

/* The first stamp stays: the time since then is what proves that no split can name this catalog any
 * more. */
enum hf_status catalog_apply_stray(struct catalog *catalog, struct catalog_op *op,
                                   const struct evidence *evidence)
{
    struct stamp now = stamp_now(evidence);
    op->already = stamp_is_readable(catalog->stray, evidence);
    if (op->already)
        return HF_OK;
    if (now.clock == 0)
        return error_set(&op->error, HF_UNAVAILABLE, "the time of the store is unknown");
    catalog->stray = now;
    op->changed = true;
    return HF_OK;
}

/* ---- Settings ------------------------------------------------------------------------ */

bool catalog_reads_otherwise(const struct compact_settings *a, const struct compact_settings *b)
{
    return a->format != b->format || !view_equal(a->key, b->key) ||
           !view_equal(a->time, b->time) || !view_equal(a->deleted, b->deleted) ||
           a->headless != b->headless;
}

enum hf_status catalog_apply_set(struct catalog *catalog, struct catalog_op *op,
                                 const struct evidence *evidence)
{
    struct compact_settings wanted, kept;
    check(op->settings != NULL);
    wanted = op->before ? compact_settings_change(&catalog->settings, op->before, op->settings)
                        : *op->settings;
    bool used = catalog->live_count + catalog->dead_count + catalog->reference_count > 0;
    enum hf_status status = compact_settings_check(&wanted, &op->error);
    if (status != HF_OK || compact_settings_equal(&wanted, &catalog->settings))
        return status;
    if (used && catalog_reads_otherwise(&wanted, &catalog->settings))
        return error_set(
            &op->error, HF_INVALID,
            "format, key, time, deleted field and header cannot be changed once there are "
            "chunks");
    status = catalog_keep_settings(catalog, &wanted, &kept, &op->error);
    if (status != HF_OK)
        return status;
    unsigned target = catalog_cascade(catalog);
    catalog->settings = kept;
    catalog_set_due(catalog, target, evidence);
    op->changed = true;
    return HF_OK;
}
