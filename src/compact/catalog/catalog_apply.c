/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_apply.c: add and commit, the transitions that add live chunks, and the code that all
 * transitions share. The other transitions are in catalog_leave.c and catalog_change.c. Each
 * transition checks and allocates before it changes anything, so a refusal or a lack of memory
 * leaves the catalog unchanged. */
#include "base/check.h"
#include "base/parse.h"
#include "base/rule.h"
#include "base/utf8.h"
#include "compact/catalog/catalog_inside.h"

#include <stdio.h>
#include <stdlib.h>

/* How much memory transitions may allocate, beyond twice the size of the entries, before the
 * catalog is renewed. */
#define GARBAGE_MAX ((size_t)1024 * 1024)

/* The maximum number of keys in one operation. */
#define OP_KEYS_MAX CATALOG_LIVE_MAX

/* ---- Shared by transitions ----------------------------------------------------------- */

bool chunk_was_live(enum chunk_state state)
{
    return state == CHUNK_LIVE || state == CHUNK_TOMBSTONE || state == CHUNK_RETIRED ||
           state == CHUNK_MOVED;
}

/* A client may be suspended for longer than D. By then another client may have condemned its name,
 * deleted its object and dropped the name, so the catalog would no longer recognise the name as
 * condemned. If D has been raised since then, the smaller one was in force. */
enum hf_status catalog_name_age(const struct catalog *catalog, struct catalog_op *op,
                                const struct evidence *evidence)
{
    int64_t late_ms = catalog->settings.late_bound_ms;
    if (op->late_bound_ms > 0 && op->late_bound_ms < late_ms)
        late_ms = op->late_bound_ms;
    struct span half = SPAN_MS(late_ms / 2);
    if (RULE(NAMES_EXPIRE) && mono_since(evidence->now, op->drawn).us >= half.us)
        return error_set(
            &op->error, HF_EXPIRED,
            "the name is too old: it was generated more than half the late bound ago");
    return HF_OK;
}

enum hf_status catalog_check_twice(const struct view *keys, size_t count,
                                   struct hf_error *error)
{
    struct key_index seen = { 0 };
    if (!key_index_reserve(&seen, count))
        return error_no_memory(error);
    bool twice = false;
    for (size_t i = 0; i < count; i++) {
        if (keys[i].size == 0)
            continue;
        twice |= key_index_get(&seen, keys[i]) != NULL;
        key_index_put(&seen, keys[i], CHUNK_UNKNOWN, 0);
    }
    key_index_release(&seen);
    return twice ? error_set(error, HF_INVALID, "a key is named twice in the request") : HF_OK;
}

struct dead_part catalog_new_part(const struct evidence *evidence)
{
    return (struct dead_part){ .since = stamp_now(evidence),
                               .seen = evidence->now,
                               .unwritten = true,
                               .unknown = VIEW("") };
}

struct grave catalog_new_grave(const struct evidence *evidence, struct view into,
                               struct chunk *chunks, size_t count)
{
    return (struct grave){
        .part = catalog_new_part(evidence), .into = into, .chunks = chunks, .count = count
    };
}

unsigned catalog_cascade(const struct catalog *catalog)
{
    return cascade_target(&catalog->cascade, catalog->settings.cascade_base);
}

void catalog_set_due(struct catalog *catalog, unsigned target, const struct evidence *evidence)
{
    unsigned now = catalog_cascade(catalog);
    if (now == 0)
        catalog->due = (struct stamp){ 0, 0 };
    else if (target == 0)
        catalog->due = stamp_now(evidence);
}

struct reason reason_make(unsigned tries, struct view why)
{
    struct reason reason = { .size = 0 };
    char start[64] = "";
    if (tries > 0)
        snprintf(start, sizeof start, "tried %u time%s: ", tries, plural(tries));
    reason.size = strlen(start);
    memcpy(reason.text, start, reason.size);
    if (why.size == 0)
        why = VIEW("no reason was given");
    while (why.size > 0) {
        size_t size = utf8_size(why);
        bool printable = size > 0 && (unsigned char)why.data[0] >= ' ';
        size_t taken = size > 0 ? size : 1, put = printable ? size : 1;
        if (reason.size + put > sizeof reason.text)
            break;
        memcpy(reason.text + reason.size, printable ? why.data : " ", put);
        reason.size += put;
        why = view_from(why, taken);
    }
    return reason;
}

/* ---- Add ----------------------------------------------------------------------------- */

/* Whether the chunk must be added: neither its key nor its file is known. */
static bool is_fresh(const struct catalog *catalog, const struct chunk *chunk, bool *ret_known)
{
    bool was_added = RULE(ADD_ONCE) && chunk_was_live(catalog_state(catalog, chunk->key));
    *ret_known =
        RULE(ADD_KNOWS_THE_FILE) && !was_added && catalog_knows_file(catalog, chunk->file_id);
    return !was_added && !*ret_known;
}

/* A prepared add; the catalog is unchanged so far. */
struct adding {
    struct chunk *chunks; /* the new chunks */
    size_t count;
    size_t bytes;
    struct writer *writers; /* the new state vector */
    size_t writer_count;
};

static enum hf_status check_added(const struct catalog *catalog, struct catalog_op *op)
{
    if (op->chunk_count == 0 || op->chunk_count > OP_KEYS_MAX)
        return error_set(&op->error, HF_INVALID, "1 to %d chunks can be added at once",
                         OP_KEYS_MAX);
    struct view *keys = malloc(2 * op->chunk_count * sizeof *keys);
    if (!keys)
        return error_no_memory(&op->error);
    struct view *file_ids = keys + op->chunk_count;
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < op->chunk_count; i++) {
        const struct chunk *chunk = &op->chunks[i];
        keys[i] = chunk->key;
        file_ids[i] = chunk->file_id;
        status = chunk_check(chunk, &op->error);
        if (status == HF_OK)
            status = catalog_check_key(catalog, chunk->key, &op->error);
        if (status == HF_OK && chunk->writer.size == 0)
            status = error_set(&op->error, HF_INVALID, "a chunk to be added needs a writer");
        if (status != HF_OK)
            break;
    }
    if (status == HF_OK)
        status = catalog_check_twice(keys, op->chunk_count, &op->error);
    if (status == HF_OK)
        status = catalog_check_twice(file_ids, op->chunk_count, &op->error);
    free(keys);
    return status;
}

/* Whether some chunk is an object that the partition does not own: one whose identity this catalog
 * will keep. */
static bool adopts_for_others(const struct catalog_op *op)
{
    for (size_t i = 0; i < op->chunk_count; i++)
        if (chunk_is_adopted(&op->chunks[i]) && !op->chunks[i].own)
            return true;
    return false;
}

/* The file may have been surveyed before the floor rose, so the swap that adds it checks the floor
 * again. */
static enum hf_status check_added_floor(const struct catalog *catalog, struct catalog_op *op)
{
    bool known;
    for (size_t i = 0; i < op->chunk_count; i++)
        if (RULE(FLOOR_IS_CHECKED) && is_fresh(catalog, &op->chunks[i], &known) &&
            catalog_check_floor(catalog, &op->chunks[i], &op->error) != HF_OK) {
            op->below_floor = true;
            return op->error.status;
        }
    return HF_OK;
}

/* Makes all checks of an add that need no memory. `ret_fresh`: how many chunks are new; 0 means
 * that the add has already happened. Such an add succeeds even if the catalog has been split or
 * the names have become too old since then. */
static enum hf_status check_add_state(struct catalog *catalog, struct catalog_op *op,
                                      const struct evidence *evidence, size_t *ret_fresh)
{
    size_t fresh = 0;
    for (size_t i = 0; i < op->chunk_count; i++) {
        enum chunk_state state = catalog_state(catalog, op->chunks[i].key);
        bool known;
        if (RULE(ADD_REFUSES_CONDEMNED) && state == CHUNK_CONDEMNED)
            return error_set(&op->error, HF_CONFLICT,
                             "a chunk with this name was condemned: put it under a new name");
        fresh += is_fresh(catalog, &op->chunks[i], &known);
        if (op->ret_known)
            op->ret_known[i] = known;
    }
    *ret_fresh = fresh;
    if (fresh == 0)
        return HF_OK;
    enum hf_status status = catalog_check_dropping(catalog, &op->error);
    if (status != HF_OK)
        return status;
    if (catalog->child_count > 0)
        return error_set(&op->error, HF_MISMATCH,
                         "the catalog was split: add the chunk to one of its children");
    op->other_settings =
        op->settings && catalog_reads_otherwise(op->settings, &catalog->settings);
    if (op->other_settings)
        return error_set(&op->error, HF_MISMATCH,
                         "the format, key, time, deleted field or header of the partition was "
                         "changed meanwhile; try again");
    status = catalog_name_age(catalog, op, evidence);
    if (status == HF_OK)
        status = check_added_floor(catalog, op);
    if (status != HF_OK)
        return status;
    op->full =
        catalog->live_count + fresh > CATALOG_LIVE_MAX ||
        (adopts_for_others(op) && catalog->kept_file_id_count + fresh > CATALOG_KEPT_FILES_MAX);
    return op->full
               ? error_set(&op->error, HF_UNAVAILABLE, "the catalog is full and must be split")
               : HF_OK;
}

/* Returns the writer's next number; adds the writer if it is new. */
static enum hf_status next_sequence(struct catalog *catalog, struct adding *adding,
                                    struct view name, uint64_t *ret_sequence,
                                    struct hf_error *error)
{
    size_t place = writer_place(adding->writers, adding->writer_count, name);
    bool known = place < adding->writer_count && view_equal(adding->writers[place].name, name);
    bool is_rest = view_equal(name, VIEW(CATALOG_WRITERS_REST));
    if (!known && !is_rest && adding->writer_count >= CATALOG_WRITERS_MAX)
        return next_sequence(catalog, adding, VIEW(CATALOG_WRITERS_REST), ret_sequence, error);
    if (!known) {
        struct view kept = catalog_keep(catalog, name);
        if (!kept.data)
            return error_no_memory(error);
        memmove(&adding->writers[place + 1], &adding->writers[place],
                (adding->writer_count - place) * sizeof *adding->writers);
        adding->writers[place] = (struct writer){ kept, 0 };
        adding->writer_count++;
    }
    *ret_sequence = ++adding->writers[place].sequence;
    return HF_OK;
}

static enum hf_status prepare_add(struct catalog *catalog, struct catalog_op *op, size_t fresh,
                                  struct adding *adding, const struct evidence *evidence)
{
    size_t writers = catalog->writer_count + fresh + 1;
    adding->chunks = malloc(fresh * sizeof *adding->chunks);
    adding->writers = malloc(writers * sizeof *adding->writers);
    if (!adding->chunks || !adding->writers || !catalog_room_live(catalog, fresh) ||
        !catalog_reserve_keys(catalog, fresh))
        return error_no_memory(&op->error);
    if (catalog->writer_count > 0)
        memcpy(adding->writers, catalog->writers,
               catalog->writer_count * sizeof *adding->writers);
    adding->writer_count = catalog->writer_count;
    for (size_t i = 0; i < op->chunk_count; i++) {
        bool known;
        if (!is_fresh(catalog, &op->chunks[i], &known))
            continue;
        struct chunk chunk = op->chunks[i];
        chunk.since = stamp_now(evidence);
        if (chunk.markers.count > 0)
            chunk.markers.since = stamp_now(evidence);
        chunk.tries = chunk.tested = 0;
        chunk.mark_begin = false;
        chunk.quarantine = VIEW("");
        enum hf_status status =
            next_sequence(catalog, adding, chunk.writer, &chunk.sequence, &op->error);
        if (status == HF_OK)
            status = chunk_keep(catalog, &chunk, &op->error);
        if (status != HF_OK)
            return status;
        adding->chunks[adding->count++] = chunk;
        adding->bytes += chunk_bytes(&chunk);
    }
    op->full = catalog->live_bytes + adding->bytes > CATALOG_LIVE_BYTES_MAX;
    /* A split of an empty catalog would not help. */
    if (op->full && catalog->live_count == 0)
        return error_set(&op->error, HF_INVALID, "too much data in one add");
    return op->full
               ? error_set(&op->error, HF_UNAVAILABLE, "the catalog is full and must be split")
               : HF_OK;
}

void catalog_count_entry(struct catalog *catalog, unsigned level)
{
    if (level == 0)
        cascade_added(&catalog->cascade, 1);
    else if (level + 1 < CASCADE_LEVELS_MAX)
        catalog->cascade.counts[level + 1]++;
}

enum hf_status catalog_apply_add(struct catalog *catalog, struct catalog_op *op,
                                 const struct evidence *evidence)
{
    size_t fresh = 0;
    enum hf_status status = check_added(catalog, op);
    if (status == HF_OK)
        status = check_add_state(catalog, op, evidence, &fresh);
    if (status != HF_OK)
        return status;
    if (fresh == 0) {
        op->already = true;
        return HF_OK;
    }
    struct adding adding = { 0 };
    status = prepare_add(catalog, op, fresh, &adding, evidence);
    if (status == HF_OK) {
        unsigned target = catalog_cascade(catalog);
        for (size_t i = 0; i < adding.count; i++) {
            catalog_push_live(catalog, &adding.chunks[i]);
            catalog_count_entry(catalog, adding.chunks[i].level);
        }
        free(catalog->writers);
        catalog->writers = adding.writers;
        catalog->writer_count = adding.writer_count;
        catalog->inside->writer_room = adding.writer_count;
        adding.writers = NULL;
        catalog_set_due(catalog, target, evidence);
        op->changed = true;
    }
    free(adding.chunks);
    free(adding.writers);
    return status;
}

/* ---- Commit -------------------------------------------------------------------------- */

static enum hf_status check_commit(const struct catalog *catalog, struct catalog_op *op)
{
    if (op->key_count == 0 || op->key_count > OP_KEYS_MAX)
        return error_set(&op->error, HF_INVALID, "a merge must have 1 to %d sources",
                         OP_KEYS_MAX);
    enum hf_status status = chunk_check(&op->target, &op->error);
    if (status == HF_OK)
        status = catalog_check_key(catalog, op->target.key, &op->error);
    if (status != HF_OK)
        return status;
    if (op->target.level == 0)
        return error_set(&op->error, HF_INVALID,
                         "the level of a merged chunk must be at least 1");
    for (size_t i = 0; i < op->key_count; i++)
        if (view_equal(op->keys[i], op->target.key))
            return error_set(&op->error, HF_INVALID, "a chunk cannot be merged into itself");
    return catalog_check_twice(op->keys, op->key_count, &op->error);
}

/* The target is checked before the sources. If an earlier attempt landed and its reply was lost,
 * its sources are tombstones now, and this attempt must report success. */
static enum hf_status check_commit_state(const struct catalog *catalog, struct catalog_op *op,
                                         const struct evidence *evidence)
{
    enum chunk_state state = catalog_state(catalog, op->target.key);
    if (chunk_was_live(state)) {
        op->already = RULE(COMMIT_ONCE);
        return HF_OK;
    }
    if (RULE(COMMIT_REFUSES_CONDEMNED) && state == CHUNK_CONDEMNED)
        return error_set(&op->error, HF_CONFLICT,
                         "the output was marked for deletion after its lease had expired");
    for (size_t i = 0; i < op->key_count; i++) {
        state = catalog_state(catalog, op->keys[i]);
        if (RULE(COMMIT_NEEDS_LIVE_SOURCES) && state != CHUNK_LIVE)
            return error_set(&op->error, HF_CONFLICT, "a source is no longer live: it is %s",
                             chunk_state_name(state));
    }
    enum hf_status status = catalog_name_age(catalog, op, evidence);
    if (status != HF_OK || !op->drops_markers)
        return status;
    status = catalog_check_markers(catalog, op->keys, op->key_count, evidence, &op->error);
    if (status == HF_NOT_FOUND)
        status = error_clear(&op->error);
    op->needs_markers = status == HF_CONFLICT;
    return status;
}

/* A merge may leave chunks of lower levels behind: some were tried before, have another home, or
 * did not fit. They must still count towards the next merge; otherwise they would wait until as
 * many new chunks have arrived. */
static void count_left_behind(struct catalog *catalog, unsigned level)
{
    for (size_t i = 0; i < catalog->live_count; i++) {
        const struct chunk *chunk = &catalog->live[i];
        if (chunk->level < level && chunk->quarantine.size == 0)
            catalog_count_entry(catalog, chunk->level);
    }
}

/* Seals the targets, and makes room for everything that a commit adds. */
static enum hf_status prepare_commit(struct catalog *catalog, struct catalog_op *op,
                                     size_t source_count, struct chunk *targets,
                                     size_t target_count, const struct evidence *evidence)
{
    if (!catalog_room_live(catalog, target_count) || !catalog_room_graves(catalog, 1) ||
        !catalog_reserve_keys(catalog, source_count + target_count))
        return error_no_memory(&op->error);
    for (size_t i = 0; i < target_count; i++) {
        struct chunk *target = &targets[i];
        target->since = stamp_now(evidence);
        target->sequence = 0;
        target->file_id = VIEW("");
        target->tries = target->tested = 0;
        target->mark_begin = false;
        target->quarantine = target->object = target->etag = VIEW("");
        target->own = false;
        enum hf_status status = chunk_keep(catalog, target, &op->error);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

enum hf_status catalog_commit(struct catalog *catalog, struct catalog_op *op,
                              const struct grave *into, const struct view *sources,
                              size_t source_count, struct chunk *targets, size_t target_count,
                              const struct evidence *evidence)
{
    struct chunk *dead = catalog_take(catalog, source_count * sizeof *dead);
    if (!dead)
        return error_no_memory(&op->error);
    enum hf_status status =
        prepare_commit(catalog, op, source_count, targets, target_count, evidence);
    if (status != HF_OK)
        return status;
    unsigned before = catalog_cascade(catalog);
    struct grave grave = catalog_new_grave(evidence, into->into, dead, 0);
    grave.targets = into->targets;
    grave.target_count = into->target_count;
    for (size_t i = 0; i < source_count; i++) {
        struct chunk *source = catalog_live_by_key(catalog, sources[i]);
        if (source && !source->leaving) {
            dead[grave.count++] = *source;
            source->leaving = true;
        }
    }
    catalog_sweep_live(catalog);
    if (grave.count > 0)
        catalog_push_grave(catalog, &grave);
    for (size_t i = 0; i < target_count; i++)
        catalog_push_live(catalog, &targets[i]);
    cascade_completed(&catalog->cascade, targets[0].level);
    count_left_behind(catalog, targets[0].level);
    catalog_set_due(catalog, before, evidence);
    op->changed = true;
    return HF_OK;
}

enum hf_status catalog_apply_commit(struct catalog *catalog, struct catalog_op *op,
                                    const struct evidence *evidence)
{
    enum hf_status status = check_commit(catalog, op);
    if (status == HF_OK)
        status = check_commit_state(catalog, op, evidence);
    if (status != HF_OK || op->already)
        return status;
    struct chunk target = op->target;
    struct chunk_markers markers =
        catalog_markers_of(catalog, op->keys, op->key_count, evidence);
    target.run = VIEW("");
    target.markers = catalog_markers_left(op, markers);
    struct grave into = { .into = catalog_keep(catalog, target.key) };
    if (!into.into.data)
        return error_no_memory(&op->error);
    status = catalog_commit(catalog, op, &into, op->keys, op->key_count, &target, 1, evidence);
    if (status == HF_OK && op->drops_markers && markers.count > 0)
        catalog_raise_floor(catalog, markers.ms);
    return status;
}

/* ---- All transitions ----------------------------------------------------------------- */

/* Encodes the catalog and decodes it again, which frees the unused memory. The contents stay the
 * same, including the times at which entries were first seen: if these were lost, watching an entry
 * would have to start again. */
static enum hf_status catalog_renew(struct catalog *catalog, struct hf_error *error)
{
    struct buffer text = BUFFER_INIT(2 * CATALOG_BYTES_READ_MAX);
    struct catalog *fresh = NULL;
    enum hf_status status = HF_UNAVAILABLE;
    if (catalog_encode(catalog, VIEW(""), &text))
        status =
            catalog_decode(buffer_view(&text), (struct mono_time){ 0 }, NULL, &fresh, error);
    else
        error_no_memory(error);
    buffer_release(&text);
    if (status != HF_OK)
        return status;
    for (size_t i = 0; i < catalog_dead_parts(catalog); i++) {
        catalog_dead_part(fresh, i)->seen = catalog_dead_part(catalog, i)->seen;
        catalog_dead_part(fresh, i)->unwritten = catalog_dead_part(catalog, i)->unwritten;
    }
    fresh->inside->unwritten = catalog->inside->unwritten;
    struct catalog old = *catalog;
    *catalog = *fresh;
    *fresh = old;
    catalog_free(fresh);
    return HF_OK;
}

/* Whether a catalog that is being dropped refuses this operation as a whole. An add and a commit
 * may have happened before the drop, so they check that first. */
static bool changes_live_chunks(enum catalog_op_kind kind)
{
    return kind == CATALOG_UNDELETE || kind == CATALOG_QUARANTINE || kind == CATALOG_DISCARD ||
           kind == CATALOG_SPLIT || kind == CATALOG_SET;
}

enum hf_status catalog_apply(struct catalog *catalog, struct catalog_op *op,
                             const struct evidence *evidence)
{
    static catalog_transition *const transitions[] = {
        [CATALOG_ADD] = catalog_apply_add,
        [CATALOG_COMMIT] = catalog_apply_commit,
        [CATALOG_CONDEMN] = catalog_apply_condemn,
        [CATALOG_RETIRE] = catalog_apply_retire,
        [CATALOG_MAINTAIN] = catalog_apply_maintain,
        [CATALOG_UNDELETE] = catalog_apply_undelete,
        [CATALOG_QUARANTINE] = catalog_apply_quarantine,
        [CATALOG_SPLIT] = catalog_apply_split,
        [CATALOG_SET] = catalog_apply_set,
        [CATALOG_DISCARD] = catalog_apply_discard,
        [CATALOG_PASS] = catalog_apply_pass,
        [CATALOG_DROP] = catalog_apply_drop,
        [CATALOG_DROPPED] = catalog_apply_dropped,
        [CATALOG_DIVIDE] = catalog_apply_divide,
        [CATALOG_RANGE] = catalog_apply_range,
        [CATALOG_STRAY] = catalog_apply_stray,
    };
    op->changed = op->already = op->full = op->committed = false;
    op->other_settings = false;
    op->below_floor = op->needs_markers = op->wrong_sum = false;
    op->moved = 0;
    error_clear(&op->error);
    size_t used = catalog->live_bytes + catalog->dead_bytes;
    if (catalog->inside->spent > 2 * used + GARBAGE_MAX) {
        enum hf_status status = catalog_renew(catalog, &op->error);
        if (status == HF_UNAVAILABLE)
            return status;
        error_clear(&op->error);
    }
    check((size_t)op->kind < sizeof transitions / sizeof transitions[0]);
    if (changes_live_chunks(op->kind) && catalog_check_dropping(catalog, &op->error) != HF_OK)
        return op->error.status;
    return transitions[op->kind](catalog, op, evidence);
}
