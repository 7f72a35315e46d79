/* SPDX-License-Identifier: Apache-2.0 */
/* maintain.c: one maintenance round: settle leases, retire, reap, drop. Many workers may run a
 * round concurrently, and a round may stop anywhere, because the catalog records what remains to be
 * done. Objects are deleted only after the catalog has moved their names to deleting. */
#include "compact/care/maintain.h"

#include "base/check.h"
#include "base/mutant.h"
#include "base/rule.h"
#include "compact/care/drop.h"
#include "compact/care/pin.h"
#include "compact/care/release.h"
#include "compact/catalog/chunk_object.h"
#include "store/retry.h"

#include <stdlib.h>

/* How many keys are moved in one swap. */
#define MOVE_MAX 512
/* How many swaps are made per catalog and round. */
#define MOVES_MAX 64
/* About how many objects are deleted per catalog and round. The rest is left to the next round. */
#define DELETE_MAX (8 * BATCH_MAX)

/* The work that one catalog needs, as found by walking the tree. */
struct chore {
    struct catalog_ref *ref;
    const struct chore *parent; /* NULL: none */
    uint64_t split_generation;  /* of a catalog with children; 0: unknown */
    bool retire;
    int64_t retention_ms, cutoff_ms;
    bool move; /* a grave is past grace, a stamp is to be renewed, or a merge to be given up */
    bool remove; /* there are objects to delete, or names to drop */
    bool drop;   /* the catalog is marked: the partition is being dropped */
    struct chore *next;
};

struct round {
    struct catalog_tree *tree;
    const struct maintain_options *options;
    struct maintain_report *report;
    struct arena arena;
    struct chore *first, **end;
    bool dropping;     /* the partition is being dropped */
    struct map chores; /* by partition */
    bool no_memory;
    struct hf_error trouble; /* the first error; the round continues */
};

/* If the store does not answer, the round stops instead of waiting for a timeout in each catalog. A
 * later round continues. */
static bool round_goes_on(const struct round *round)
{
    if (round->trouble.status == HF_TIMEOUT || round->trouble.status == HF_UNSURE)
        return false;
    return !round->options->go_on || round->options->go_on(round->options->argument);
}

static void keep_round_error(struct round *round, const struct hf_error *error)
{
    if (round->trouble.status == HF_OK)
        round->trouble = *error;
}

/* ---- Looking ------------------------------------------------------------------------- */

static int64_t now_for_retention(const struct round *round, const struct evidence *evidence)
{
    bool dated = evidence->time_known && round->tree->store->traits.clock == STORE_CLOCK_DATE;
    return (dated ? evidence->earliest.us : evidence->wall.us) / 1000;
}

/* A short-lived process cannot watch an entry for long enough to prove its age. Instead it writes a
 * stamp of the current clock, so that a later process can prove the age. */
static bool needs_restamp(const struct round *round, const struct dead_part *part,
                          const struct evidence *evidence)
{
    return round->options->short_lived && evidence->time_known &&
           part->restamps < STAMP_RESTAMPS_MAX && !stamp_is_readable(part->since, evidence);
}

static bool removal_is_past_d(const struct catalog *catalog, const struct removal *removal,
                              const struct evidence *evidence)
{
    return stamp_passed(removal->part.since, removal->part.seen,
                        SPAN_MS(catalog->settings.late_bound_ms),
                        SPAN_MS(catalog->settings.skew_tolerance_ms), evidence);
}

/* Whether objects of the removal can be deleted now. Those that were deleted once are deleted again
 * after D. If the store has no conditional delete, an adopted object is deleted only after D: by
 * then, no put of its key that was sent before can still take effect. */
static bool removal_is_due(const struct store *store, const struct catalog *catalog,
                           const struct removal *removal, const struct evidence *evidence)
{
    bool waits = removal->done;
    for (size_t i = 0; i < removal->object_count; i++)
        waits |= removal->objects[i].own && !store->traits.delete_conditional;
    return !waits || removal_is_past_d(catalog, removal, evidence);
}

/* Determines which swaps are worth sending. Each swap checks its entries again, so an outdated
 * result does no harm. */
static enum hf_status visit_for_chores(void *argument, struct catalog_ref *ref,
                                       const struct catalog *catalog,
                                       const struct evidence *evidence,
                                       const struct hf_error *why)
{
    struct round *round = argument;
    round->report->requests++;
    (void)why; /* planning reports it */
    if (!catalog)
        return HF_OK;
    struct chore *chore = arena_take(&round->arena, sizeof *chore);
    void *old;
    if (!chore || !map_put(&round->chores, view_of(ref->partition), chore, &old)) {
        round->no_memory = true;
        return HF_UNAVAILABLE;
    }
    *chore = (struct chore){ .ref = ref,
                             .parent = map_get(&round->chores, catalog->parent),
                             .split_generation = catalog->split_generation,
                             .move = catalog_lacks_generations(catalog),
                             .drop = catalog->is_dropping };
    round->dropping |= catalog->is_dropping;
    chore->move |= catalog->is_dropping && needs_restamp(round, &catalog->dropping, evidence);
    for (size_t i = 0; i < catalog->merge_count; i++)
        chore->move |= catalog_merge_is_broken(catalog, &catalog->merges[i]);
    struct span skew = SPAN_MS(catalog->settings.skew_tolerance_ms);
    chore->retention_ms = catalog->settings.retention_ms;
    chore->cutoff_ms = catalog_cutoff(catalog, now_for_retention(round, evidence));
    for (size_t i = 0; i < catalog->live_count; i++)
        chore->retire |= catalog->live[i].max_ms < chore->cutoff_ms;
    for (size_t i = 0; i < catalog->grave_count; i++) {
        const struct grave *grave = &catalog->graves[i];
        chore->move |= stamp_passed(grave->part.since, grave->part.seen,
                                    SPAN_MS(catalog->settings.grace_ms), skew, evidence) ||
                       needs_restamp(round, &grave->part, evidence);
    }
    for (size_t i = 0; i < catalog->removal_count; i++) {
        const struct removal *removal = &catalog->removals[i];
        chore->remove |= removal_is_due(round->tree->store, catalog, removal, evidence);
        chore->move |= needs_restamp(round, &removal->part, evidence);
    }
    *round->end = chore;
    round->end = &chore->next;
    return HF_OK;
}

/* ---- Moving -------------------------------------------------------------------------- */

static bool apply_and_count(struct round *round, struct catalog_ref *ref, struct catalog_op *op,
                            uint64_t *moved)
{
    round->report->requests++;
    if (catalog_ref_apply(ref, op, (struct mono_time){ 0 }) != HF_OK) {
        keep_round_error(round, &op->error);
        return false;
    }
    *moved += op->moved;
    return true;
}

/* Moves graves until none is left to move, or MOVES_MAX is reached. */
static void move_all_graves(struct round *round, struct catalog_ref *ref)
{
    struct catalog_op op = { .kind = CATALOG_MAINTAIN,
                             .most = MOVE_MAX,
                             .restamp = round->options->short_lived };
    bool more = true;
    for (int i = 0; more && i < MOVES_MAX && round_goes_on(round); i++)
        more = apply_and_count(round, ref, &op, &round->report->reaped) && op.moved >= MOVE_MAX;
}

/* ---- Deleting ------------------------------------------------------------------------ */

/* The keys of one removal, read from the catalog after all moves of this round. */
struct deletion {
    enum deleting_how how;
    uint64_t generation;
    bool last; /* past D: the objects are deleted again, then the names are dropped */
    struct view *keys;
    size_t count;
    struct removal_object *objects; /* of its adopted chunks, in the order of their keys */
    size_t object_count;
    bool left; /* some object is pinned or could not be deleted */
    struct deletion *next;
};

struct deletions {
    struct round *round;
    struct chore *chore;
    struct arena arena;
    struct deletion *first, **end;
    size_t key_count, deletion_count;
    bool no_memory;
};

static bool copy_removal(struct deletions *deletions, const struct removal *removal)
{
    struct arena *arena = &deletions->arena;
    struct deletion *deletion = arena_take(arena, sizeof *deletion);
    struct view *keys = arena_take(arena, (removal->count + 1) * sizeof *keys);
    struct removal_object *objects =
        arena_take(arena, (removal->object_count + 1) * sizeof *objects);
    if (!deletion || !keys || !objects)
        return false;
    *deletion = (struct deletion){ .how = removal->how,
                                   .generation = removal->generation,
                                   .last = removal->done,
                                   .keys = keys,
                                   .objects = objects,
                                   .object_count = removal->object_count };
    for (size_t i = 0; i < removal->count; i++) {
        keys[i] = arena_copy(arena, removal->keys[i]);
        if (!keys[i].data)
            return false;
    }
    for (size_t i = 0; i < removal->object_count; i++) {
        const struct removal_object *from = &removal->objects[i];
        objects[i] = (struct removal_object){ arena_copy(arena, from->key),
                                              arena_copy(arena, from->object),
                                              arena_copy(arena, from->etag), from->own };
        if (!objects[i].key.data || !objects[i].object.data || !objects[i].etag.data)
            return false;
    }
    deletion->count = removal->count;
    *deletions->end = deletion;
    deletions->end = &deletion->next;
    deletions->key_count += removal->count;
    deletions->deletion_count++;
    return true;
}

static bool removal_has_work(const struct deletions *deletions, const struct catalog *catalog,
                             const struct removal *removal, const struct evidence *evidence)
{
    return removal->count > 0 &&
           removal_is_due(deletions->round->tree->store, catalog, removal, evidence);
}

/* If there is more than a round deletes, it starts anywhere: otherwise a few removals with objects
 * that are pinned, or that cannot be deleted, would keep all others waiting. */
static size_t first_removal(const struct deletions *deletions, const struct catalog *catalog,
                            const struct evidence *evidence)
{
    size_t keys = 0;
    for (size_t i = 0; i < catalog->removal_count; i++)
        if (removal_has_work(deletions, catalog, &catalog->removals[i], evidence))
            keys += catalog->removals[i].count;
    return keys <= DELETE_MAX
               ? 0
               : (size_t)env_random_below(deletions->round->tree->env, catalog->removal_count);
}

/* Lists the removals with something to delete. A removal whose objects were deleted once waits
 * until D has passed, and is then deleted again. */
static void list_removals(void *argument, const struct catalog *catalog,
                          const struct evidence *evidence)
{
    struct deletions *deletions = argument;
    size_t first = first_removal(deletions, catalog, evidence);
    for (size_t i = 0; i < catalog->removal_count; i++) {
        const struct removal *removal =
            &catalog->removals[(first + i) % catalog->removal_count];
        if (deletions->key_count >= DELETE_MAX ||
            !removal_has_work(deletions, catalog, removal, evidence))
            continue;
        if (!copy_removal(deletions, removal)) {
            deletions->no_memory = true;
            return;
        }
    }
}

static uint64_t known_generation(uint64_t generation)
{
    return generation > 0 ? generation : PIN_GENERATION_UNKNOWN;
}

/* The catalog of the removal and all catalogs above it. A reader that pinned an ancestor before its
 * split has no pin in the catalogs below, which did not exist. */
static size_t levels_of(const struct deletions *deletions, const struct deletion *deletion,
                        struct pin_level levels[CATALOG_TREE_DEPTH_MAX + 1])
{
    const struct chore *chore = deletions->chore;
    size_t count = 0;
    levels[count++] = (struct pin_level){ view_of(chore->ref->partition),
                                          known_generation(deletion->generation) };
    for (chore = chore->parent; chore; chore = chore->parent) {
        check(count <= CATALOG_TREE_DEPTH_MAX);
        if (RULE(PINS_ABOVE_COUNT))
            levels[count++] = (struct pin_level){ view_of(chore->ref->partition),
                                                  known_generation(chore->split_generation) };
    }
    return count;
}

/* Reads the pins after the names have been seen in deleting: a reader that pins a chunk later also
 * reads the catalog later, and then finds the names in deleting. Condemned names were never live,
 * so nobody reads them. Objects in their last round are already deleted. */
static enum hf_status find_pins(struct deletions *deletions, const struct deletion *deletion,
                                bool *pinned, struct hf_error *error)
{
    struct round *round = deletions->round;
    struct pin_level levels[CATALOG_TREE_DEPTH_MAX + 1];
    struct pin_query query = { .keys = deletion->keys,
                               .count = deletion->count,
                               .levels = levels,
                               .level_count = levels_of(deletions, deletion, levels) };
    memset(pinned, 0, deletion->count * sizeof *pinned);
    if (deletion->how == DELETING_CONDEMNED || deletion->last)
        return HF_OK;
    round->report->requests++;
    enum hf_status status = pin_find(round->tree, &query, pinned, error);
    MUTANT(mutant_trusts_early_pins(deletions->chore->ref, deletion->keys, deletion->count,
                                    pinned));
    MUTANT(mutant_drops_pinned_chunks(deletions->chore->drop, deletion->count, pinned));
    return status;
}

/* The key of the object with the rejected rows of a merge. If the output is condemned, its sources
 * still contain these rows, so this object can be deleted too. */
static struct view kept_rows_of(struct arena *arena, struct view key)
{
    size_t size = sizeof LAYOUT_KEPT_FOLDER - 1 + key.size + sizeof LAYOUT_REJECTS - 1;
    char *text = size <= KEY_BYTES_MAX ? arena_take(arena, size) : NULL;
    if (!text)
        return (struct view){ NULL, 0 };
    memcpy(text, LAYOUT_KEPT_FOLDER, sizeof LAYOUT_KEPT_FOLDER - 1);
    memcpy(text + sizeof LAYOUT_KEPT_FOLDER - 1, key.data, key.size);
    memcpy(text + size - (sizeof LAYOUT_REJECTS - 1), LAYOUT_REJECTS,
           sizeof LAYOUT_REJECTS - 1);
    return (struct view){ text, size };
}

static enum hf_status delete_objects(struct deletions *deletions, struct deletion *deletion,
                                     struct delete_call *calls, size_t count,
                                     struct hf_error *error)
{
    struct maintain_report *report = deletions->round->report;
    enum hf_status status = HF_OK;
    if (count == 0)
        return HF_OK;
    report->requests += count;
    store_delete_many(deletions->round->tree->store, calls, count);
    for (size_t i = 0; i < count; i++) {
        /* NOT_FOUND: another worker has deleted the object, or it was never put. CONFLICT: its
         * owner has rewritten an adopted object, and the new version is not ours. */
        bool rewritten =
            calls[i].condition.kind == CONDITION_MATCH && calls[i].error.status == HF_CONFLICT;
        bool gone = calls[i].error.status == HF_OK || calls[i].error.status == HF_NOT_FOUND ||
                    rewritten;
        bool beside = view_starts_with(calls[i].key, VIEW(LAYOUT_KEPT_FOLDER));
        if (gone && !deletion->last && !beside)
            report->deleted++;
        if (!gone && status == HF_OK) {
            deletion->left = true;
            *error = calls[i].error;
            status = error->status;
        }
    }
    return status;
}

/* Sets *ret_match: whether the object still is the version that was adopted. For a store without
 * conditional deletes; the writers of an owned prefix promise never to reuse a name, so nobody
 * rewrites the object after this read. */
static enum hf_status still_matches(struct deletions *deletions,
                                    const struct removal_object *object, bool *ret_match,
                                    struct hf_error *error)
{
    const struct chunk chunk = { .object = object->object, .etag = object->etag };
    struct buffer body = BUFFER_INIT(1);
    struct get_call call = chunk_get_call(&chunk);
    call.length = 1;
    call.body = &body;
    deletions->round->report->requests++;
    enum hf_status status = store_get(deletions->round->tree->store, &call);
    buffer_release(&body);
    *error = call.error;
    *ret_match = status == HF_OK;
    return status == HF_NOT_FOUND || status == HF_CONFLICT ? error_clear(error) : status;
}

/* How the object of an adopted chunk is deleted: only if it is ours, and only in the version that
 * was adopted. Sets *ret_any to false if there is nothing to delete. */
static enum hf_status delete_adopted(struct deletions *deletions,
                                     const struct removal_object *object,
                                     struct delete_call *ret_call, bool *ret_any,
                                     struct hf_error *error)
{
    struct store *store = deletions->round->tree->store;
    *ret_call = (struct delete_call){ .key = object->object };
    *ret_any = true;
    if (RULE(DELETE_ONLY_OWNED) && !object->own) {
        *ret_any = false;
        return HF_OK;
    }
    bool by_etag = store->traits.delete_conditional;
    if (RULE(DELETE_ADOPTED_BY_ETAG) && !by_etag)
        return still_matches(deletions, object, ret_any, error);
    if (RULE(DELETE_ADOPTED_BY_ETAG) && by_etag) {
        ret_call->condition.kind = CONDITION_MATCH;
        check(etag_set(&ret_call->condition.etag, object->etag));
    }
    return HF_OK;
}

/* One refused object must not keep the others; a store that does not answer keeps all. */
static bool deleting_goes_on(struct deletions *deletions, struct deletion *deletion,
                             enum hf_status status, const struct hf_error *error)
{
    if (status == HF_OK)
        return true;
    deletion->left = true;
    keep_round_error(deletions->round, error);
    return retry_is_answered(status);
}

static enum hf_status delete_unpinned(struct deletions *deletions, struct deletion *deletion,
                                      struct delete_call *calls, const bool *pinned,
                                      struct hf_error *error)
{
    size_t count = 0, next = 0;
    for (size_t i = 0; i < deletion->count; i++) {
        bool adopted = next < deletion->object_count &&
                       view_equal(deletion->objects[next].key, deletion->keys[i]);
        const struct removal_object *object = adopted ? &deletion->objects[next++] : NULL;
        if (pinned[i]) {
            deletion->left = true;
            deletions->round->report->pinned++;
            continue;
        }
        bool any = true;
        calls[count] = (struct delete_call){ .key = deletion->keys[i] };
        enum hf_status status =
            object ? delete_adopted(deletions, object, &calls[count], &any, error) : HF_OK;
        if (!deleting_goes_on(deletions, deletion, status, error))
            return status;
        if (status != HF_OK)
            continue;
        count += any;
        struct view kept = { NULL, 0 };
        if (deletion->how == DELETING_CONDEMNED)
            kept = kept_rows_of(&deletions->arena, deletion->keys[i]);
        if (kept.data)
            calls[count++] = (struct delete_call){ .key = kept };
        if (count + 2 > BATCH_MAX) { /* the next key may need two calls */
            status = delete_objects(deletions, deletion, calls, count, error);
            if (!deleting_goes_on(deletions, deletion, status, error))
                return status;
            count = 0;
        }
    }
    return delete_objects(deletions, deletion, calls, count, error);
}

/* Deletes the objects that may be deleted and leaves the rest to the next round. */
static void delete_all(struct deletions *deletions)
{
    struct round *round = deletions->round;
    struct delete_call *calls = malloc(BATCH_MAX * sizeof *calls);
    bool *pinned = malloc((deletions->key_count + 1) * sizeof *pinned);
    struct hf_error error = { .status = HF_OK };
    if (!calls || !pinned) {
        error_no_memory(&error);
        keep_round_error(round, &error);
    }
    for (struct deletion *deletion = deletions->first; deletion; deletion = deletion->next) {
        bool to_delete = !deletion->last || RULE(DELETE_ONCE_MORE);
        if (!calls || !pinned || !round_goes_on(round))
            deletion->left = true;
        else if (to_delete &&
                 (find_pins(deletions, deletion, pinned, &error) != HF_OK ||
                  delete_unpinned(deletions, deletion, calls, pinned, &error) != HF_OK)) {
            deletion->left = true;
            keep_round_error(round, &error);
        }
    }
    free(pinned);
    free(calls);
}

/* Records in the catalog which objects are deleted. A name is dropped only after its object has
 * been deleted again, after D, because an abandoned put may take effect until then. If this worker
 * dies before the swap, another one deletes the objects again, which changes nothing. */
static enum hf_status record_deletions(struct deletions *deletions, struct hf_error *error)
{
    struct maintain_report *report = deletions->round->report;
    size_t room = (deletions->deletion_count + 1) * sizeof(struct view);
    struct view *done = arena_take(&deletions->arena, room);
    struct view *gone = arena_take(&deletions->arena, room);
    struct catalog_op op = { .kind = CATALOG_MAINTAIN, .done = done, .gone = gone };
    uint64_t dropped = 0;
    if (!done || !gone)
        return error_no_memory(error);
    for (const struct deletion *deletion = deletions->first; deletion;
         deletion = deletion->next) {
        if (RULE(CLEAR_BEFORE_FORGET) && deletion->left)
            continue;
        if (deletion->last)
            gone[op.gone_count++] = deletion->keys[0];
        else
            done[op.done_count++] = deletion->keys[0];
        dropped += deletion->last ? deletion->count : 0;
    }
    if (op.done_count + op.gone_count == 0)
        return HF_OK;
    report->requests++;
    enum hf_status status =
        catalog_ref_apply(deletions->chore->ref, &op, (struct mono_time){ 0 });
    if (status != HF_OK)
        *error = op.error;
    else
        report->dropped += dropped;
    return status;
}

static enum hf_status remove_objects(struct round *round, struct chore *chore,
                                     struct hf_error *error)
{
    struct deletions deletions = { .round = round, .chore = chore, .arena = ARENA_INIT };
    deletions.end = &deletions.first;
    round->report->requests++;
    enum hf_status status = catalog_ref_show(chore->ref, list_removals, &deletions, error);
    if (status == HF_OK && deletions.no_memory)
        status = error_no_memory(error);
    if (status == HF_OK && deletions.first) {
        delete_all(&deletions);
        status = record_deletions(&deletions, error);
    }
    arena_release(&deletions.arena);
    return status;
}

/* ---- The round ----------------------------------------------------------------------- */

/* The order matters at the end: names are moved to deleting first, and only then does
 * remove_objects() read the pins and delete objects (pin.h). */
static void maintain_catalog(struct round *round, struct chore *chore)
{
    struct hf_error error;
    struct view home = view_of(chore->ref->partition);
    uint64_t condemned = round->report->condemned;
    if (maintain_settle(round->tree, home, NULL, 0, round->report, &error) != HF_OK)
        keep_round_error(round, &error);
    /* Outputs that were condemned just now can be deleted in this round. */
    chore->remove |= round->report->condemned > condemned;
    if (chore->retire && round_goes_on(round)) {
        struct catalog_op op = { .kind = CATALOG_RETIRE,
                                 .retention_ms = chore->retention_ms,
                                 .cutoff_ms = chore->cutoff_ms };
        apply_and_count(round, chore->ref, &op, &round->report->retired);
    }
    if (chore->move && round_goes_on(round)) {
        MUTANT(mutant_reads_pins_early(chore->ref));
        move_all_graves(round, chore->ref);
    }
    if ((chore->move || chore->remove) && round_goes_on(round) &&
        remove_objects(round, chore, &error) != HF_OK)
        keep_round_error(round, &error);
}

/* Finishes the mark that another client began, marks the paths that the partition has registered,
 * and removes the catalogs that are ready for it. */
static void maintain_drop(struct round *round)
{
    struct drop_options options = { .go_on = round->options->go_on,
                                    .argument = round->options->argument };
    struct hf_error error;
    size_t left;
    enum hf_status status = drop_mark(round->tree, /* begins */ false, &error);
    if (status == HF_OK)
        status = release_all(round->tree, /* unused */ false, &left, &error);
    if (status == HF_OK)
        status = drop_remove(round->tree, &options, &round->report->deleted, &error);
    if (status != HF_OK && status != HF_NOT_FOUND) /* another client has finished the drop */
        keep_round_error(round, &error);
}

enum hf_status maintain_round(struct catalog_tree *tree, const struct maintain_options *options,
                              struct maintain_report *report, struct hf_error *error)
{
    struct round round = { .tree = tree,
                           .options = options,
                           .report = report,
                           .arena = ARENA_INIT,
                           .chores = MAP_INIT,
                           .trouble = { .status = HF_OK } };
    struct hf_error why = { .status = HF_OK };
    round.end = &round.first;
    enum hf_status status = catalog_tree_walk(tree, visit_for_chores, &round, &why);
    if (round.no_memory)
        status = error_no_memory(&why);
    if (status != HF_OK)
        keep_round_error(&round, &why);
    for (struct chore *chore = round.first; chore; chore = chore->next) {
        if (!round_goes_on(&round))
            break;
        maintain_catalog(&round, chore);
    }
    if (round.dropping && round_goes_on(&round))
        maintain_drop(&round);
    map_release(&round.chores);
    arena_release(&round.arena);
    if (error)
        *error = round.trouble;
    return round.trouble.status;
}
