/* catalog_leave.c: the transitions by which chunks leave a catalog: retire, tend, and condemn
 * for what never came in. */
#include "base/check.h"
#include "base/rule.h"
#include "compact/catalog_inside.h"

#include <stdlib.h>

#define CONDEMNED_AT_ONCE_MAX CATALOG_LIVE_MAX

/* Beyond these nothing more is condemned: the document must stay one that can be read. */
#define CONDEMN_DEAD_MAX       ((size_t)2 * CATALOG_DEAD_MAX)
#define CONDEMN_DEAD_BYTES_MAX (2 * CATALOG_DEAD_BYTES_MAX)

/* ---- Retire -------------------------------------------------------------------------- */

static bool is_past(const struct chunk *chunk, int64_t cutoff_ms)
{
    return (RULE(RETIRE_BY_MAX_TIME) ? chunk->max_ms : chunk->min_ms) < cutoff_ms;
}

enum hf_status catalog_apply_retire(struct catalog *catalog, struct catalog_op *op,
                                    const struct evidence *evidence)
{
    size_t most = op->most ? op->most : SIZE_MAX, count = 0;
    if (catalog_is_clogged(catalog))
        return HF_OK;
    for (size_t i = 0; i < catalog->live_count && count < most; i++)
        count += is_past(&catalog->live[i], op->cutoff_ms);
    if (count == 0)
        return HF_OK;
    struct chunk *chunks = catalog_take(catalog, count * sizeof *chunks);
    if (!chunks || !catalog_room_graves(catalog, 1) || !catalog_reserve_keys(catalog, count))
        return error_no_memory(&op->error);
    for (size_t i = 0; op->moved < count; i++) {
        struct chunk *chunk = &catalog->live[i];
        if (is_past(chunk, op->cutoff_ms)) {
            chunks[op->moved++] = *chunk;
            chunk->leaving = true;
        }
    }
    catalog_sweep_live(catalog);
    struct grave grave = catalog_new_grave(evidence, VIEW(""), chunks, count);
    catalog_push_grave(catalog, &grave);
    op->changed = true;
    return HF_OK;
}

/* ---- Tend ---------------------------------------------------------------------------- */

/* Whether it has certainly stood here for so long. What is not known to be written was not
 * seen. */
static bool has_stood(const struct catalog *catalog, struct stamp since, struct mono_time seen,
                      bool unwritten, int64_t span_ms, const struct evidence *evidence)
{
    return stamp_passed(since, unwritten ? evidence->now : seen, SPAN_MS(span_ms),
                        SPAN_MS(catalog->settings.skew_tolerance_ms), evidence);
}

static bool is_past_grace(const struct catalog *catalog, const struct grave *grave,
                          const struct evidence *evidence)
{
    return has_stood(catalog, grave->since, grave->seen, grave->unwritten,
                     catalog->settings.grace_ms, evidence);
}

static bool is_past_late(const struct catalog *catalog, const struct removal *removal,
                         const struct evidence *evidence)
{
    return has_stood(catalog, removal->since, removal->seen, removal->unwritten,
                     catalog->settings.late_bound_ms, evidence);
}

/* How many graves, from the first, hold what may be moved at once. */
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

/* A file must not come in a second time as soon as its chunk was merged: who was interrupted may
 * ask again the next day. */
static bool make_removal(struct catalog *catalog, const struct grave *grave,
                         const struct evidence *evidence, struct removal *ret_removal)
{
    struct view *keys = catalog_take(catalog, 2 * grave->count * sizeof *keys);
    size_t file_id_count = 0;
    if (!keys || !catalog_reserve_keys(catalog, grave->count))
        return false;
    struct view *file_ids = keys + grave->count;
    for (size_t i = 0; i < grave->count; i++) {
        const struct chunk *chunk = &grave->chunks[i];
        keys[i] = chunk->key;
        if (chunk->file_id.size > 0 && RULE(DELETING_KNOWS_THE_FILE))
            file_ids[file_id_count++] = chunk->file_id;
    }
    *ret_removal = (struct removal){ .how = DELETING_RETIRED,
                                     .since = stamp_now(evidence),
                                     .seen = evidence->now,
                                     .unwritten = true,
                                     .keys = keys,
                                     .count = grave->count,
                                     .file_ids = file_ids,
                                     .file_id_count = file_id_count,
                                     .unknown = VIEW("") };
    return true;
}

static void leave_grave(struct catalog *catalog, struct grave *grave)
{
    for (size_t i = 0; i < grave->count; i++)
        catalog_forget_file(catalog, grave->chunks[i].file_id, grave->serial);
    grave->leaving = true;
}

static enum hf_status reap(struct catalog *catalog, struct catalog_op *op,
                           const struct evidence *evidence)
{
    size_t graves, prepared = 0;
    size_t end = graves_to_look_at(catalog, op, evidence, &graves);
    if (graves == 0)
        return HF_OK;
    struct removal *removals = malloc(graves * sizeof *removals);
    bool good = removals && catalog_room_removals(catalog, graves);
    for (size_t i = 0; i < end && good; i++)
        if (is_past_grace(catalog, &catalog->graves[i], evidence))
            good = make_removal(catalog, &catalog->graves[i], evidence, &removals[prepared++]);
    if (good) {
        for (size_t i = 0; i < end; i++)
            if (is_past_grace(catalog, &catalog->graves[i], evidence))
                leave_grave(catalog, &catalog->graves[i]);
        catalog_sweep_graves(catalog);
        for (size_t i = 0; i < prepared; i++) {
            op->moved += removals[i].count;
            catalog_push_removal(catalog, &removals[i]);
        }
        op->changed = true;
    }
    free(removals);
    return good ? HF_OK : error_no_memory(&op->error);
}

static struct removal *removal_by_key(const struct catalog *catalog, struct view key)
{
    const struct key_slot *slot = key_index_get(&catalog->inside->index, key);
    bool deleting = slot && (slot->state == CHUNK_RETIRED || slot->state == CHUNK_CONDEMNED);
    return deleting ? catalog_removal_of(catalog, slot->serial) : NULL;
}

static void drop_removal(struct catalog *catalog, struct removal *removal)
{
    for (size_t i = 0; i < removal->count; i++)
        key_index_drop(&catalog->inside->index, removal->keys[i]);
    for (size_t i = 0; i < removal->file_id_count; i++)
        catalog_forget_file(catalog, removal->file_ids[i], removal->serial);
    removal->leaving = true;
}

static void mark_done(struct catalog *catalog, struct catalog_op *op)
{
    for (size_t i = 0; i < op->done_count; i++) {
        struct removal *removal = removal_by_key(catalog, op->done[i]);
        if (!removal)
            continue;
        op->changed = op->changed || !removal->done;
        removal->raw = removal->done ? removal->raw : VIEW("");
        removal->done = true;
        if (!RULE(DELETING_STAYS_FOR_D)) {
            drop_removal(catalog, removal);
            op->changed = true;
        }
    }
}

static void drop_gone(struct catalog *catalog, struct catalog_op *op,
                      const struct evidence *evidence)
{
    for (size_t i = 0; i < op->gone_count; i++) {
        struct removal *removal = removal_by_key(catalog, op->gone[i]);
        if (removal && removal->done && is_past_late(catalog, removal, evidence)) {
            drop_removal(catalog, removal);
            op->changed = true;
        }
    }
}

/* What no clock of ours can read starts anew, by ours. */
static bool wants_restamp(struct stamp since, unsigned restamps,
                          const struct evidence *evidence)
{
    return !stamp_is_readable(since, evidence) && restamps < STAMP_RESTAMPS_MAX;
}

static void restamp_all(struct catalog *catalog, struct catalog_op *op,
                        const struct evidence *evidence)
{
    struct stamp now = stamp_now(evidence);
    if (now.clock == 0)
        return;
    for (size_t i = 0; i < catalog->grave_count; i++) {
        struct grave *grave = &catalog->graves[i];
        if (!wants_restamp(grave->since, grave->restamps, evidence))
            continue;
        grave->since = now;
        grave->restamps++;
        grave->unwritten = op->changed = catalog->inside->unwritten = true;
        grave->raw = VIEW("");
    }
    for (size_t i = 0; i < catalog->removal_count; i++) {
        struct removal *removal = &catalog->removals[i];
        if (!wants_restamp(removal->since, removal->restamps, evidence))
            continue;
        removal->since = now;
        removal->restamps++;
        removal->unwritten = op->changed = catalog->inside->unwritten = true;
        removal->raw = VIEW("");
    }
}

enum hf_status catalog_apply_tend(struct catalog *catalog, struct catalog_op *op,
                                  const struct evidence *evidence)
{
    enum hf_status status = reap(catalog, op, evidence);
    if (status != HF_OK)
        return status;
    mark_done(catalog, op);
    drop_gone(catalog, op, evidence);
    catalog_sweep_removals(catalog);
    if (op->restamp)
        restamp_all(catalog, op, evidence);
    return HF_OK;
}

/* ---- Condemn ------------------------------------------------------------------------- */

/* Whether the name is taken by something that was live: then what was asked has happened. */
static bool is_spared(enum chunk_state state)
{
    switch (state) {
    case CHUNK_LIVE: return RULE(CONDEMN_SPARES_LIVE);
    case CHUNK_TOMBSTONE: return RULE(CONDEMN_SPARES_TOMBSTONES);
    case CHUNK_MOVED: return RULE(CONDEMN_KNOWS_MOVED);
    case CHUNK_RETIRED: return true;
    case CHUNK_CONDEMNED:
    case CHUNK_UNKNOWN: return false;
    }
    return false;
}

/* Only a broken rule leads here: what stands elsewhere under the name is taken out. */
static void take_out(struct catalog *catalog, struct view key)
{
    struct chunk *live = catalog_live_by_key(catalog, key);
    if (live)
        live->leaving = true;
    catalog_sweep_live(catalog);
    for (size_t i = 0; i < catalog->grave_count; i++)
        catalog_exhume(catalog, &catalog->graves[i], key);
    catalog_sweep_graves(catalog);
    size_t kept = 0;
    for (size_t i = 0; i < catalog->reference_count; i++)
        if (!view_equal(catalog->references[i].key, key))
            catalog->references[kept++] = catalog->references[i];
    catalog->reference_count = kept;
}

static enum hf_status check_condemn(const struct catalog *catalog, struct catalog_op *op)
{
    if (op->key_count == 0 || op->key_count > CONDEMNED_AT_ONCE_MAX ||
        op->source_count > CONDEMNED_AT_ONCE_MAX)
        return error_set(&op->error, HF_INVALID, "1 to %d keys can be condemned at once",
                         CONDEMNED_AT_ONCE_MAX);
    for (size_t i = 0; i < op->key_count; i++) {
        if (catalog_state(catalog, op->keys[i]) != CHUNK_UNKNOWN)
            continue;
        enum hf_status status = catalog_check_key(catalog, op->keys[i], &op->error);
        if (status != HF_OK)
            return status;
    }
    return catalog_check_twice(op->keys, op->key_count, &op->error);
}

/* The names that are condemned now, as a removal in the catalog's memory. */
static enum hf_status prepare_condemn(struct catalog *catalog, struct catalog_op *op,
                                      const struct evidence *evidence,
                                      struct removal *ret_removal)
{
    struct view *keys = catalog_take(catalog, op->key_count * sizeof *keys);
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
        !key_index_reserve(&catalog->inside->index, count))
        return error_no_memory(&op->error);
    bool fits = catalog->dead_count + count <= CONDEMN_DEAD_MAX &&
                catalog->dead_bytes <= CONDEMN_DEAD_BYTES_MAX;
    if (count > 0 && !fits)
        return error_set(&op->error, HF_UNAVAILABLE,
                         "too many names wait to be deleted: no more can be condemned");
    *ret_removal = (struct removal){ .how = DELETING_CONDEMNED,
                                     .since = stamp_now(evidence),
                                     .seen = evidence->now,
                                     .unwritten = true,
                                     .keys = keys,
                                     .count = count,
                                     .unknown = VIEW("") };
    return HF_OK;
}

static void tell_condemned(const struct catalog *catalog, struct catalog_op *op)
{
    for (size_t i = 0; op->ret_condemned && i < op->key_count; i++)
        op->ret_condemned[i] =
            is_spared(catalog_state(catalog, op->keys[i])) ? CONDEMN_HAPPENED : CONDEMN_DONE;
}

enum hf_status catalog_apply_condemn(struct catalog *catalog, struct catalog_op *op,
                                     const struct evidence *evidence)
{
    struct removal removal = { 0 };
    struct blamed blamed = { 0 };
    enum hf_status status = check_condemn(catalog, op);
    if (status == HF_OK)
        status = prepare_condemn(catalog, op, evidence, &removal);
    bool settled_before = removal.count == 0;
    bool condemned_before = false;
    for (size_t i = 0; i < op->key_count && status == HF_OK; i++)
        condemned_before |= catalog_state(catalog, op->keys[i]) == CHUNK_CONDEMNED;
    bool counts = !settled_before || (!RULE(TRY_COUNTS_ONCE) && condemned_before);
    if (status == HF_OK && counts)
        status = blame_prepare(catalog, op, evidence, &blamed);
    if (status == HF_OK) {
        tell_condemned(catalog, op);
        for (size_t i = 0; i < removal.count; i++)
            if (catalog_state(catalog, removal.keys[i]) != CHUNK_UNKNOWN)
                take_out(catalog, removal.keys[i]);
        if (removal.count > 0)
            catalog_push_removal(catalog, &removal);
        blame_apply(catalog, &blamed);
        op->changed = removal.count > 0 || blamed.count > 0;
    }
    free(blamed.chunks);
    return status;
}
