/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_leave.c: the transitions that move keys towards deletion: retire, discard, maintain, and
 * condemn for names that were never added. They guard against deleting an object that a late
 * commit, a reader within the grace period, or an undelete still needs. */
#include "base/check.h"
#include "base/mutant.h"
#include "base/rule.h"
#include "compact/catalog/catalog_inside.h"

#include <stdlib.h>

#define CONDEMNED_AT_ONCE_MAX CATALOG_LIVE_MAX

/* At these limits condemn is refused too, because the document must stay readable. They are twice
 * the limits at which planning pauses, so that leases can still be settled then. */
#define CONDEMN_DEAD_MAX       ((size_t)2 * CATALOG_DEAD_MAX)
#define CONDEMN_DEAD_BYTES_MAX (2 * CATALOG_DEAD_BYTES_MAX)

/* ---- Retire -------------------------------------------------------------------------- */

/* A chunk can be retired only as a whole, so its newest record must be past the cutoff. */
static bool is_past(const struct chunk *chunk, int64_t cutoff_ms)
{
    bool has_newer = RULE(RETIRE_BY_MAX_TIME) && chunk->max_ms >= cutoff_ms;
    return chunk->min_ms < cutoff_ms && !has_newer;
}

/* A chunk that stays may have older records of the keys in a chunk that goes, and they would become
 * the latest. They are older than the cutoff too, so from now on no record before it is shown. The
 * grave says what undelete must set again. */
static void note_expired(struct catalog *catalog, struct grave *grave, int64_t cutoff_ms)
{
    grave->by_age = true;
    grave->had_before = catalog->has_expired;
    grave->before_ms = catalog->expired_ms;
    if (!catalog->has_expired || catalog->expired_ms < cutoff_ms)
        catalog->expired_ms = cutoff_ms;
    catalog->has_expired = true;
    grave->expired_ms = catalog->expired_ms;
}

/* If a wall clock is ahead, it would expire live data. So the retention is counted back from the
 * newest record if that is earlier than the clock's time. */
int64_t catalog_cutoff(const struct catalog *catalog, int64_t now_ms)
{
    int64_t from_ms = INT64_MIN, span_ms = catalog->settings.retention_ms;
    if (span_ms == 0)
        return INT64_MIN;
    for (size_t i = 0; i < catalog->live_count; i++)
        if (catalog->live[i].max_ms > from_ms)
            from_ms = catalog->live[i].max_ms;
    from_ms = now_ms < from_ms ? now_ms : from_ms;
    return from_ms < INT64_MIN + span_ms ? INT64_MIN : from_ms - span_ms;
}

/* The caller made the cutoff from an earlier version. The settings may have been changed since
 * then, and the newest record may have gone. */
static int64_t cutoff_of(const struct catalog *catalog, const struct catalog_op *op)
{
    int64_t cutoff_ms = catalog_cutoff(catalog, INT64_MAX);
    if (op->retention_ms == 0)
        return op->cutoff_ms;
    if (op->retention_ms != catalog->settings.retention_ms)
        return INT64_MIN;
    return op->cutoff_ms < cutoff_ms ? op->cutoff_ms : cutoff_ms;
}

/* Whether the operation retires this chunk. */
static bool is_to_leave(const struct catalog_op *op, const struct chunk *chunk,
                        int64_t cutoff_ms)
{
    return op->kind == CATALOG_DISCARD ? view_equal(chunk->key, op->keys[0])
                                       : is_past(chunk, cutoff_ms);
}

/* Turns chunks that are to leave into tombstones, which were merged into nothing. */
static enum hf_status retire_chunks(struct catalog *catalog, struct catalog_op *op,
                                    int64_t cutoff_ms, size_t count,
                                    const struct evidence *evidence)
{
    struct chunk *chunks = catalog_take(catalog, count * sizeof *chunks);
    if (!chunks || !catalog_room_graves(catalog, 1) || !catalog_reserve_keys(catalog, count))
        return error_no_memory(&op->error);
    for (size_t i = 0; op->moved < count; i++) {
        struct chunk *chunk = &catalog->live[i];
        if (is_to_leave(op, chunk, cutoff_ms)) {
            chunks[op->moved++] = *chunk;
            chunk->leaving = true;
        }
    }
    catalog_sweep_live(catalog);
    struct grave grave = catalog_new_grave(evidence, VIEW(""), chunks, count);
    grave.discarded = op->kind == CATALOG_DISCARD;
    if (!grave.discarded && catalog->settings.key.size > 0)
        note_expired(catalog, &grave, cutoff_ms);
    catalog_push_grave(catalog, &grave);
    op->changed = true;
    return HF_OK;
}

/* All in one swap, however many: they share one value of `expired`, so undelete has to find them in
 * one grave. The document does not grow by it. */
enum hf_status catalog_apply_retire(struct catalog *catalog, struct catalog_op *op,
                                    const struct evidence *evidence)
{
    int64_t cutoff_ms = cutoff_of(catalog, op);
    size_t count = 0;
    if (catalog_is_clogged(catalog))
        return HF_OK;
    for (size_t i = 0; i < catalog->live_count; i++)
        count += is_to_leave(op, &catalog->live[i], cutoff_ms);
    return count > 0 ? retire_chunks(catalog, op, cutoff_ms, count, evidence) : HF_OK;
}

/* ---- Discard ------------------------------------------------------------------------- */

/* Only a chunk in quarantine can be given up: its rows are in no other chunk. */
enum hf_status catalog_apply_discard(struct catalog *catalog, struct catalog_op *op,
                                     const struct evidence *evidence)
{
    const struct chunk *chunk = catalog_live_by_key(catalog, op->keys[0]);
    op->already = catalog_state(catalog, op->keys[0]) == CHUNK_TOMBSTONE;
    if (op->already)
        return HF_OK;
    if (!chunk)
        return error_set(&op->error, HF_NOT_FOUND, "no live chunk '%.*s'",
                         VIEW_ARGS(view_first(op->keys[0], 100)));
    if (chunk->quarantine.size == 0)
        return error_set(&op->error, HF_CONFLICT,
                         "only a quarantined chunk can be discarded, and it is not");
    if (catalog_is_clogged(catalog))
        return error_set(&op->error, HF_UNAVAILABLE,
                         "too many chunks are waiting to be deleted; try again later");
    return retire_chunks(catalog, op, /* cutoff_ms */ 0, 1, evidence);
}

/* ---- Maintain ------------------------------------------------------------------------ */

/* Condemned keys were never live, and the objects of a removal that is done are deleted, so nobody
 * reads either. */
static bool removal_lacks_generation(const struct removal *removal)
{
    return removal->how == DELETING_RETIRED && !removal->done && removal->generation == 0;
}

bool catalog_lacks_generations(const struct catalog *catalog)
{
    for (size_t i = 0; i < catalog->removal_count; i++)
        if (removal_lacks_generation(&catalog->removals[i]))
            return true;
    return catalog->child_count > 0 && catalog->split_generation == 0;
}

/* An entry that is not yet known to be in the store counts as not seen, because the swap that
 * writes it may still fail. */
bool catalog_has_stood(const struct catalog *catalog, const struct dead_part *part,
                       int64_t span_ms, const struct evidence *evidence)
{
    return stamp_passed(part->since, part->unwritten ? evidence->now : part->seen,
                        SPAN_MS(span_ms), SPAN_MS(catalog->settings.skew_tolerance_ms),
                        evidence);
}

static bool is_past_grace(const struct catalog *catalog, const struct grave *grave,
                          const struct evidence *evidence)
{
    return catalog_has_stood(catalog, &grave->part, catalog->settings.grace_ms, evidence);
}

/* How many graves to examine, counted from the first: as many as one operation may move. */
static size_t graves_to_look_at(const struct catalog *catalog, const struct catalog_op *op,
                                const struct evidence *evidence, size_t *ret_graves)
{
    size_t most = op->most ? op->most : SIZE_MAX, keys = 0, graves = 0, i = 0;
    for (; i < catalog->grave_count; i++) {
        const struct grave *grave = &catalog->graves[i];
        if (!is_past_grace(catalog, grave, evidence))
            continue;
        if (keys > 0 && grave->count > most - keys)
            break;
        keys += grave->count;
        graves++;
        if (keys >= most) {
            i++;
            break;
        }
    }
    *ret_graves = graves;
    return i;
}

/* Whether the identity outlives the entry: an adopted object that is not ours stays in the bucket,
 * and must not be adopted again. */
static bool keeps_file(const struct chunk *chunk)
{
    return RULE(KEEP_ADOPTED_IDS) && chunk_is_adopted(chunk) && !chunk->own;
}

/* The removal keeps the file identities: if an interrupted ingest is repeated a day later, it must
 * not add a file whose chunk was merged and deleted in the meantime. The removal has a stamp of its
 * own, because D is counted from the swap that moves the names to deleting. */
static bool make_removal(struct catalog *catalog, const struct grave *grave,
                         const struct evidence *evidence, struct removal *ret_removal)
{
    size_t count = grave->count;
    struct view *keys = catalog_take(catalog, 2 * count * sizeof *keys);
    struct removal_object *objects = catalog_take(catalog, count * sizeof *objects);
    if (!keys || !objects || !catalog_reserve_keys(catalog, count))
        return false;
    *ret_removal = (struct removal){ .how = DELETING_RETIRED,
                                     .part = catalog_new_part(evidence),
                                     .keys = keys,
                                     .count = count,
                                     .file_ids = keys + count,
                                     .objects = objects };
    for (size_t i = 0; i < count; i++) {
        const struct chunk *chunk = &grave->chunks[i];
        keys[i] = chunk->key;
        if (RULE(DELETING_KNOWS_THE_FILE) && chunk->file_id.size > 0 && !keeps_file(chunk))
            ret_removal->file_ids[ret_removal->file_id_count++] = chunk->file_id;
        if (chunk_is_adopted(chunk))
            objects[ret_removal->object_count++] =
                (struct removal_object){ chunk->key, chunk->object, chunk->etag, chunk->own };
    }
    return true;
}

/* The chunks of a grave leave it, and with them their identities. */
static void forget_or_keep_files(struct catalog *catalog, const struct grave *grave)
{
    for (size_t i = 0; i < grave->count; i++) {
        const struct chunk *chunk = &grave->chunks[i];
        catalog_forget_file(catalog, chunk->file_id, grave->part.serial);
        if (keeps_file(chunk))
            catalog_push_kept_file(catalog, chunk->file_id);
    }
}

static enum hf_status move_graves(struct catalog *catalog, struct catalog_op *op,
                                  const struct evidence *evidence)
{
    size_t graves, prepared = 0;
    size_t end = graves_to_look_at(catalog, op, evidence, &graves);
    if (graves == 0)
        return HF_OK;
    struct removal *removals = malloc(graves * sizeof *removals);
    bool good = removals && catalog_room_removals(catalog, graves);
    size_t adopted = 0;
    for (size_t i = 0; i < end; i++) {
        if (!good || !is_past_grace(catalog, &catalog->graves[i], evidence))
            continue;
        good = make_removal(catalog, &catalog->graves[i], evidence, &removals[prepared++]);
        adopted += good ? removals[prepared - 1].object_count : 0;
    }
    good = good && catalog_room_kept_file_ids(catalog, adopted);
    if (good) { /* nothing below can fail */
        for (size_t i = 0; i < end; i++) {
            struct grave *grave = &catalog->graves[i];
            if (!is_past_grace(catalog, grave, evidence))
                continue;
            grave->part.leaving = true;
            forget_or_keep_files(catalog, grave);
        }
        catalog_sweep_graves(catalog);
        catalog->generation += RULE(MOVE_RAISES_GENERATION);
        for (size_t i = 0; i < prepared; i++) {
            removals[i].generation = catalog->generation;
            op->moved += removals[i].count;
            catalog_push_removal(catalog, &removals[i]);
        }
        op->changed = true;
    }
    free(removals);
    return good ? HF_OK : error_no_memory(&op->error);
}

/* Whether the removal contains adopted objects that are ours. */
static bool clears_objects(const struct removal *removal)
{
    for (size_t i = 0; i < removal->object_count; i++)
        if (removal->objects[i].own)
            return true;
    return false;
}

/* An adopted object is cleared before its identity is forgotten, and D is counted from there: a
 * client that listed the object before may still try to add it (adopt.h). */
static void mark_done(struct catalog *catalog, struct catalog_op *op,
                      const struct evidence *evidence)
{
    for (size_t i = 0; i < op->done_count; i++) {
        struct removal *removal = catalog_removal_by_key(catalog, op->done[i]);
        if (!removal)
            continue;
        op->changed = op->changed || !removal->done;
        if (!removal->done && clears_objects(removal)) {
            removal->part.since = stamp_now(evidence);
            removal->part.seen = evidence->now;
            removal->part.restamps = 0;
            removal->part.unwritten = catalog->inside->unwritten = true;
        }
        removal->part.raw = removal->done ? removal->part.raw : VIEW("");
        removal->done = true;
    }
}

/* D is checked again, because an entry may have been restamped since the caller read the catalog. A
 * name must not be dropped before D has passed: until then, an abandoned put of its object may
 * still take effect. */
static void drop_gone(struct catalog *catalog, struct catalog_op *op,
                      const struct evidence *evidence)
{
    for (size_t i = 0; i < op->gone_count; i++) {
        struct removal *removal = catalog_removal_by_key(catalog, op->gone[i]);
        if (!removal || !removal->done ||
            !catalog_has_stood(catalog, &removal->part, catalog->settings.late_bound_ms,
                               evidence))
            continue;
        for (size_t k = 0; k < removal->count; k++)
            key_index_drop(&catalog->inside->index, removal->keys[k]);
        for (size_t k = 0; k < removal->file_id_count; k++)
            catalog_forget_file(catalog, removal->file_ids[k], removal->part.serial);
        removal->part.leaving = true;
        op->changed = true;
    }
}

/* A reader that pins the new generation reads the catalog afterwards, and sees that these keys are
 * deleting or that the catalog has children. An earlier pin still protects what its reader may have
 * seen. */
static void set_lacking_generations(struct catalog *catalog, struct catalog_op *op)
{
    if (!catalog_lacks_generations(catalog))
        return;
    catalog->generation++;
    op->changed = true;
    for (size_t i = 0; i < catalog->removal_count; i++) {
        struct removal *removal = &catalog->removals[i];
        if (!removal_lacks_generation(removal))
            continue;
        removal->generation = catalog->generation;
        removal->part.raw = VIEW("");
    }
    if (catalog->child_count > 0 && catalog->split_generation == 0)
        catalog->split_generation = catalog->generation;
}

/* Gives a new stamp to entries whose stamp cannot be compared with our clock, such as one from an
 * earlier boot. The span then starts again, so an entry is deleted late but never early. The limit
 * is for two machines that share a folder, which would otherwise restamp each other's entries
 * forever. */
static void restamp_all(struct catalog *catalog, struct catalog_op *op,
                        const struct evidence *evidence)
{
    struct stamp now = stamp_now(evidence);
    if (now.clock == 0)
        return;
    for (size_t i = 0; i < catalog_dead_parts(catalog); i++) {
        struct dead_part *part = catalog_dead_part(catalog, i);
        if (stamp_is_readable(part->since, evidence) || part->restamps >= STAMP_RESTAMPS_MAX)
            continue;
        part->since = now;
        part->restamps++;
        part->unwritten = op->changed = catalog->inside->unwritten = true;
        part->raw = VIEW("");
    }
}

enum hf_status catalog_apply_maintain(struct catalog *catalog, struct catalog_op *op,
                                      const struct evidence *evidence)
{
    enum hf_status status = move_graves(catalog, op, evidence);
    if (status == HF_OK)
        status = divided_drop_broken(catalog, op, evidence);
    if (status != HF_OK)
        return status;
    mark_done(catalog, op, evidence);
    MUTANT(mutant_drops_deleted_names(catalog, op));
    drop_gone(catalog, op, evidence);
    catalog_sweep_removals(catalog);
    set_lacking_generations(catalog, op);
    if (op->restamp)
        restamp_all(catalog, op, evidence);
    return HF_OK;
}

/* ---- Condemn ------------------------------------------------------------------------- */

/* Whether the name is or was live: then its commit or add has happened, and condemn does nothing.
 * A moved name may be live in a child. If it were condemned here, the object of a live chunk would
 * be deleted. */
static bool is_spared(enum chunk_state state)
{
    switch (state) {
    case CHUNK_LIVE: return RULE(CONDEMN_SPARES_LIVE);
    case CHUNK_TOMBSTONE: return RULE(CONDEMN_SPARES_TOMBSTONES);
    case CHUNK_MOVED: return RULE(CONDEMN_KNOWS_MOVED);
    case CHUNK_RETIRED: return true;
    case CHUNK_PENDING: return RULE(CONDEMN_SPARES_PENDING);
    case CHUNK_CONDEMNED:
    case CHUNK_UNKNOWN: return false;
    }
    return false;
}

static enum hf_status check_condemn(const struct catalog *catalog, struct catalog_op *op)
{
    if (op->key_count == 0 || op->key_count > CONDEMNED_AT_ONCE_MAX ||
        op->source_count > CONDEMNED_AT_ONCE_MAX)
        return error_set(&op->error, HF_INVALID, "1 to %d keys can be condemned at once",
                         CONDEMNED_AT_ONCE_MAX);
    for (size_t i = 0; i < op->key_count; i++) {
        /* A key that a split moved here has its home in another catalog. */
        if (catalog_state(catalog, op->keys[i]) != CHUNK_UNKNOWN)
            continue;
        enum hf_status status = catalog_check_key(catalog, op->keys[i], &op->error);
        if (status != HF_OK)
            return status;
    }
    return catalog_check_twice(op->keys, op->key_count, &op->error);
}

/* Prepares a removal of the names that this operation condemns; there is room for the outputs of a
 * divided merge, too. */
static enum hf_status prepare_condemn(struct catalog *catalog, struct catalog_op *op,
                                      const struct evidence *evidence,
                                      struct removal *ret_removal)
{
    struct view *keys =
        catalog_take(catalog, (op->key_count + MERGE_RANGES_MAX) * sizeof *keys);
    size_t count = 0;
    if (!keys)
        return error_no_memory(&op->error);
    for (size_t i = 0; i < op->key_count; i++) {
        enum chunk_state state = catalog_state(catalog, op->keys[i]);
        if (is_spared(state) || state == CHUNK_CONDEMNED)
            continue;
        keys[count] = catalog_keep(catalog, op->keys[i]);
        if (!keys[count++].data)
            return error_no_memory(&op->error);
    }
    if (!catalog_room_removals(catalog, 1) ||
        !key_index_reserve(&catalog->inside->index, count + MERGE_RANGES_MAX))
        return error_no_memory(&op->error);
    bool fits = catalog->dead_count + count <= CONDEMN_DEAD_MAX &&
                catalog->dead_bytes <= CONDEMN_DEAD_BYTES_MAX;
    if (count > 0 && !fits)
        return error_set(
            &op->error, HF_UNAVAILABLE,
            "too many names are waiting to be deleted; retry after the next maintenance round");
    *ret_removal = (struct removal){ .how = DELETING_CONDEMNED,
                                     .part = catalog_new_part(evidence),
                                     .keys = keys,
                                     .count = count };
    return HF_OK;
}

enum hf_status catalog_apply_condemn(struct catalog *catalog, struct catalog_op *op,
                                     const struct evidence *evidence)
{
    struct removal removal = { 0 };
    struct blamed blamed = { 0 };
    struct range_blame range = { 0 };
    enum hf_status status = check_condemn(catalog, op);
    if (status == HF_OK)
        status = prepare_condemn(catalog, op, evidence, &removal);
    /* A name that is already condemned shows that its try was counted. So a lease that is settled
     * twice, after a crash or by two clients, counts one try. */
    bool settled_before = RULE(TRY_COUNTS_ONCE) && removal.count == 0;
    if (status == HF_OK && !settled_before) {
        struct catalog_op counted = *op;
        range = divided_blame(catalog, &counted);
        status = blame_prepare(catalog, &counted, evidence, &blamed);
        op->error = counted.error;
    }
    if (status == HF_OK) {
        for (size_t i = 0; i < op->key_count; i++) {
            bool spared = is_spared(catalog_state(catalog, op->keys[i]));
            if (op->ret_condemned)
                op->ret_condemned[i] = spared ? CONDEMN_HAPPENED : CONDEMN_DONE;
        }
        blame_apply(catalog, &blamed);
        divided_count_try(catalog, &range, &removal);
        MUTANT(mutant_condemns_known_names(catalog, &removal));
        if (removal.count > 0)
            catalog_push_removal(catalog, &removal);
        op->changed = removal.count > 0 || blamed.count > 0;
    }
    free(blamed.chunks);
    return status;
}
