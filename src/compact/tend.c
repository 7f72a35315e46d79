/* tend.c: one round of clearing away: settle, retire, reap, drop. Each step is safe to be
 * done by many at once, and to be left at any point: the catalog says what is still to be
 * done. */
#include "compact/tend.h"

#include "base/check.h"
#include "base/rule.h"
#include "compact/pin.h"

#include <stdlib.h>

/* So many keys are moved in one swap, ... */
#define MOVE_MAX 512
/* ... in so many swaps of one catalog and round, ... */
#define MOVES_MAX 64
/* ... and so many are deleted: the rest is for the next round. */
#define DELETE_MAX (8 * BATCH_MAX)

/* What one catalog needs, as the walk saw it. */
struct chore {
    struct slot *slot;
    bool retire;
    int64_t cutoff_ms;
    bool move;          /* graves past grace, or stamps that only a watcher could prove */
    bool remove;        /* there are objects to delete, or names to drop */
    struct view *early; /* only where pins are read too early: what could be moved */
    size_t early_count;
    bool *early_pinned;
    struct chore *next;
};

struct round {
    struct shelf *shelf;
    const struct tend_options *options;
    struct tend_report *report;
    struct arena arena;
    struct chore *first, **end;
    bool no_memory;
    struct hf_error trouble; /* the first; the rest goes on */
};

/* A store that does not answer is not asked for each catalog in turn: there will be another
 * round. */
static bool goes_on(const struct round *round)
{
    if (round->trouble.status == HF_TIMEOUT || round->trouble.status == HF_UNSURE)
        return false;
    return !round->options->go_on || round->options->go_on(round->options->argument);
}

static void note_trouble(struct round *round, const struct hf_error *error)
{
    if (round->trouble.status == HF_OK)
        round->trouble = *error;
}

/* ---- Looking ------------------------------------------------------------------------- */

/* The calendar of a machine may be wrong, so nothing is older than the newest record tells. */
static int64_t retention_cutoff(const struct round *round, const struct catalog *catalog,
                                const struct evidence *evidence)
{
    bool dated = evidence->time_known && round->shelf->store->traits.clock == STORE_CLOCK_DATE;
    int64_t now_ms = (dated ? evidence->earliest.us : evidence->wall.us) / 1000;
    int64_t newest_ms = INT64_MIN;
    for (size_t i = 0; i < catalog->live_count; i++)
        if (catalog->live[i].max_ms > newest_ms)
            newest_ms = catalog->live[i].max_ms;
    int64_t from_ms = now_ms < newest_ms ? now_ms : newest_ms;
    int64_t span_ms = catalog->settings.retention_ms;
    return from_ms < INT64_MIN + span_ms ? INT64_MIN : from_ms - span_ms;
}

static bool has_expired(const struct catalog *catalog, int64_t cutoff_ms)
{
    for (size_t i = 0; i < catalog->live_count; i++)
        if (catalog->live[i].max_ms < cutoff_ms)
            return true;
    return false;
}

/* Whether one who does not live long should stamp it anew, for whoever comes next. */
static bool needs_restamp(const struct round *round, struct stamp since, unsigned restamps,
                          const struct evidence *evidence)
{
    return round->options->short_lived && evidence->time_known &&
           restamps < STAMP_RESTAMPS_MAX && !stamp_is_readable(since, evidence);
}

static bool is_past_d(const struct catalog *catalog, const struct removal *removal,
                      const struct evidence *evidence)
{
    return stamp_passed(removal->since, removal->seen, SPAN_MS(catalog->settings.late_bound_ms),
                        SPAN_MS(catalog->settings.skew_tolerance_ms), evidence);
}

static void judge(const struct round *round, const struct catalog *catalog,
                  const struct evidence *evidence, struct chore *chore)
{
    struct span skew = SPAN_MS(catalog->settings.skew_tolerance_ms);
    if (catalog->settings.retention_ms > 0 && catalog->live_count > 0) {
        chore->cutoff_ms = retention_cutoff(round, catalog, evidence);
        chore->retire = has_expired(catalog, chore->cutoff_ms);
    }
    for (size_t i = 0; i < catalog->grave_count; i++) {
        const struct grave *grave = &catalog->graves[i];
        chore->move |= stamp_passed(grave->since, grave->seen,
                                    SPAN_MS(catalog->settings.grace_ms), skew, evidence) ||
                       needs_restamp(round, grave->since, grave->restamps, evidence);
    }
    for (size_t i = 0; i < catalog->removal_count; i++) {
        const struct removal *removal = &catalog->removals[i];
        chore->remove |= !removal->done || is_past_d(catalog, removal, evidence);
        chore->move |= needs_restamp(round, removal->since, removal->restamps, evidence);
    }
}

/* What pins are looked for before the move by one who has not read the rule. */
static void note_early(struct round *round, const struct catalog *catalog, struct chore *chore)
{
    chore->early = arena_take(&round->arena, (catalog->dead_count + 1) * sizeof(struct view));
    chore->early_pinned = arena_take(&round->arena, catalog->dead_count + 1);
    for (size_t i = 0; i < catalog->grave_count && chore->early && chore->early_pinned; i++)
        for (size_t j = 0; j < catalog->graves[i].count; j++)
            chore->early[chore->early_count++] =
                arena_copy(&round->arena, catalog->graves[i].chunks[j].key);
}

static enum hf_status visit(void *argument, struct slot *slot, const struct catalog *catalog,
                            const struct evidence *evidence, const struct hf_error *why)
{
    struct round *round = argument;
    round->report->requests++;
    (void)why; /* whoever plans tells of it */
    if (!catalog)
        return HF_OK;
    struct chore *chore = arena_take(&round->arena, sizeof *chore);
    if (!chore) {
        round->no_memory = true;
        return HF_UNAVAILABLE;
    }
    *chore = (struct chore){ .slot = slot };
    judge(round, catalog, evidence, chore);
    if (!RULE(PINS_AFTER_THE_MOVE))
        note_early(round, catalog, chore);
    *round->end = chore;
    round->end = &chore->next;
    return HF_OK;
}

/* ---- Moving -------------------------------------------------------------------------- */

/* Applies the same operation until there is nothing more to move. */
static enum hf_status move(struct round *round, struct slot *slot, struct catalog_op *op,
                           uint64_t *moved, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    for (int i = 0; i < MOVES_MAX && status == HF_OK && goes_on(round); i++) {
        op->most = MOVE_MAX;
        round->report->requests++;
        status = slot_apply(slot, op, (struct mono_time){ 0 });
        if (status == HF_OK)
            *moved += op->moved;
        if (op->moved < MOVE_MAX)
            break;
    }
    if (status != HF_OK)
        *error = op->error;
    return status;
}

static enum hf_status retire(struct round *round, struct chore *chore, struct hf_error *error)
{
    struct catalog_op op = { .kind = CATALOG_RETIRE, .cutoff_ms = chore->cutoff_ms };
    return move(round, chore->slot, &op, &round->report->retired, error);
}

static enum hf_status reap(struct round *round, struct chore *chore, struct hf_error *error)
{
    struct catalog_op op = { .kind = CATALOG_TEND, .restamp = round->options->short_lived };
    if (!RULE(PINS_AFTER_THE_MOVE) && chore->early_count > 0)
        pin_find(round->shelf, chore->early, chore->early_count, chore->early_pinned, error);
    return move(round, chore->slot, &op, &round->report->reaped, error);
}

/* ---- Deleting ------------------------------------------------------------------------ */

/* The keys of one removal, as they stood in the catalog after every move of this round. */
struct doomed {
    enum deleting_how how;
    bool last; /* past D: they are deleted once more, then dropped */
    struct view *keys;
    size_t count;
    bool left; /* something of it is pinned or could not be deleted */
    struct doomed *next;
};

struct execution {
    struct round *round;
    struct chore *chore;
    struct arena arena;
    struct doomed *first, **end;
    size_t key_count, doomed_count;
    bool no_memory;
};

static bool copy_removal(struct execution *execution, const struct removal *removal)
{
    struct arena *arena = &execution->arena;
    struct doomed *doomed = arena_take(arena, sizeof *doomed);
    struct view *keys = arena_take(arena, (removal->count + 1) * sizeof *keys);
    if (!doomed || !keys)
        return false;
    *doomed = (struct doomed){ .how = removal->how, .last = removal->done, .keys = keys };
    for (size_t i = 0; i < removal->count; i++) {
        keys[i] = arena_copy(arena, removal->keys[i]);
        if (!keys[i].data)
            return false;
    }
    doomed->count = removal->count;
    *execution->end = doomed;
    execution->end = &doomed->next;
    execution->key_count += removal->count;
    execution->doomed_count++;
    return true;
}

static void look_at_removals(void *argument, const struct catalog *catalog,
                             const struct evidence *evidence)
{
    struct execution *execution = argument;
    for (size_t i = 0; i < catalog->removal_count && !execution->no_memory; i++) {
        const struct removal *removal = &catalog->removals[i];
        if (removal->count == 0 || execution->key_count >= DELETE_MAX ||
            (removal->done && !is_past_d(catalog, removal, evidence)))
            continue;
        execution->no_memory = !copy_removal(execution, removal);
    }
}

static bool was_pinned_early(const struct chore *chore, struct view key)
{
    for (size_t i = 0; i < chore->early_count; i++)
        if (view_equal(chore->early[i], key))
            return chore->early_pinned[i];
    return false;
}

/* Reads the pins of a removal afresh: we have seen its names in deleting, so whoever pins
 * from now on finds them there. What was never live nobody reads, and what is done is gone. */
static enum hf_status find_pins(struct execution *execution, const struct doomed *doomed,
                                bool *pinned, struct hf_error *error)
{
    struct round *round = execution->round;
    memset(pinned, 0, doomed->count * sizeof *pinned);
    if (doomed->how == DELETING_CONDEMNED || doomed->last)
        return HF_OK;
    for (size_t i = 0; i < doomed->count && !RULE(PINS_AFTER_THE_MOVE); i++)
        pinned[i] = was_pinned_early(execution->chore, doomed->keys[i]);
    if (!RULE(PINS_AFTER_THE_MOVE))
        return HF_OK;
    round->report->requests++;
    return pin_find(round->shelf, doomed->keys, doomed->count, pinned, error);
}

/* Where a merge keeps the rows that it could not read; of an output that never was, its
 * sources have them still. */
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

static enum hf_status delete_batch(struct execution *execution, struct doomed *doomed,
                                   struct delete_call *calls, size_t count,
                                   struct hf_error *error)
{
    struct tend_report *report = execution->round->report;
    enum hf_status status = HF_OK;
    if (count == 0)
        return HF_OK;
    report->requests += count;
    store_delete_many(execution->round->shelf->store, calls, count);
    for (size_t i = 0; i < count; i++) {
        bool gone = calls[i].error.status == HF_OK || calls[i].error.status == HF_NOT_FOUND;
        bool beside = view_starts_with(calls[i].key, VIEW(LAYOUT_KEPT_FOLDER));
        if (gone && !doomed->last && !beside)
            report->deleted++;
        if (!gone && status == HF_OK) {
            doomed->left = true;
            *error = calls[i].error;
            status = error->status;
        }
    }
    return status;
}

static enum hf_status delete_doomed(struct execution *execution, struct doomed *doomed,
                                    struct delete_call *calls, const bool *pinned,
                                    struct hf_error *error)
{
    enum hf_status status = HF_OK;
    size_t count = 0;
    for (size_t i = 0; i < doomed->count && status == HF_OK; i++) {
        if (pinned[i]) {
            doomed->left = true;
            execution->round->report->pinned++;
            continue;
        }
        calls[count++] = (struct delete_call){ .key = doomed->keys[i] };
        struct view kept = { NULL, 0 };
        if (doomed->how == DELETING_CONDEMNED)
            kept = kept_rows_of(&execution->arena, doomed->keys[i]);
        if (kept.data)
            calls[count++] = (struct delete_call){ .key = kept };
        if (count + 2 > BATCH_MAX) {
            status = delete_batch(execution, doomed, calls, count, error);
            count = 0;
        }
    }
    if (status == HF_OK)
        status = delete_batch(execution, doomed, calls, count, error);
    return status;
}

/* Deletes all that may be deleted; what could not be is left for the next round. */
static void execute(struct execution *execution)
{
    struct round *round = execution->round;
    struct delete_call *calls = malloc(BATCH_MAX * sizeof *calls);
    bool *pinned = malloc((execution->key_count + 1) * sizeof *pinned);
    struct hf_error error = { .status = HF_OK };
    if (!calls || !pinned) {
        error_no_memory(&error);
        note_trouble(round, &error);
    }
    for (struct doomed *doomed = execution->first; doomed; doomed = doomed->next) {
        bool skipped = doomed->last && !RULE(DELETE_ONCE_MORE);
        if (!calls || !pinned || !goes_on(round))
            doomed->left = true;
        else if (!skipped &&
                 (find_pins(execution, doomed, pinned, &error) != HF_OK ||
                  delete_doomed(execution, doomed, calls, pinned, &error) != HF_OK)) {
            doomed->left = true;
            note_trouble(round, &error);
        }
    }
    free(pinned);
    free(calls);
}

/* Tells the catalog what is deleted, and drops what has been deleted once more. */
static enum hf_status tell_catalog(struct execution *execution, struct hf_error *error)
{
    struct tend_report *report = execution->round->report;
    size_t room = (execution->doomed_count + 1) * sizeof(struct view);
    struct view *done = arena_take(&execution->arena, room);
    struct view *gone = arena_take(&execution->arena, room);
    struct catalog_op op = { .kind = CATALOG_TEND, .done = done, .gone = gone };
    uint64_t dropped = 0;
    if (!done || !gone)
        return error_no_memory(error);
    for (const struct doomed *doomed = execution->first; doomed; doomed = doomed->next) {
        if (doomed->left)
            continue;
        if (doomed->last)
            gone[op.gone_count++] = doomed->keys[0];
        else
            done[op.done_count++] = doomed->keys[0];
        dropped += doomed->last ? doomed->count : 0;
    }
    if (op.done_count + op.gone_count == 0)
        return HF_OK;
    report->requests++;
    enum hf_status status = slot_apply(execution->chore->slot, &op, (struct mono_time){ 0 });
    if (status != HF_OK)
        *error = op.error;
    else
        report->dropped += dropped;
    return status;
}

static enum hf_status remove_objects(struct round *round, struct chore *chore,
                                     struct hf_error *error)
{
    struct execution execution = { .round = round, .chore = chore, .arena = ARENA_INIT };
    execution.end = &execution.first;
    round->report->requests++;
    enum hf_status status = slot_show(chore->slot, look_at_removals, &execution, error);
    if (status == HF_OK && execution.no_memory)
        status = error_no_memory(error);
    if (status == HF_OK && execution.first) {
        execute(&execution);
        status = tell_catalog(&execution, error);
    }
    arena_release(&execution.arena);
    return status;
}

/* ---- The round ----------------------------------------------------------------------- */

static void tend_catalog(struct round *round, struct chore *chore)
{
    struct hf_error error;
    struct view home = view_of(chore->slot->partition);
    uint64_t condemned = round->report->condemned;
    if (tend_settle(round->shelf, home, NULL, 0, round->report, &error) != HF_OK)
        note_trouble(round, &error);
    chore->remove |= round->report->condemned > condemned;
    if (chore->retire && goes_on(round) && retire(round, chore, &error) != HF_OK)
        note_trouble(round, &error);
    if (chore->move && goes_on(round) && reap(round, chore, &error) != HF_OK)
        note_trouble(round, &error);
    if ((chore->move || chore->remove) && goes_on(round) &&
        remove_objects(round, chore, &error) != HF_OK)
        note_trouble(round, &error);
}

enum hf_status tend_round(struct shelf *shelf, const struct tend_options *options,
                          struct tend_report *report, struct hf_error *error)
{
    struct round round = { .shelf = shelf,
                           .options = options,
                           .report = report,
                           .arena = ARENA_INIT,
                           .trouble = { .status = HF_OK } };
    struct hf_error why = { .status = HF_OK };
    round.end = &round.first;
    enum hf_status status = shelf_walk(shelf, visit, &round, &why);
    if (round.no_memory)
        status = error_no_memory(&why);
    if (status != HF_OK)
        note_trouble(&round, &why);
    for (struct chore *chore = round.first; chore && goes_on(&round); chore = chore->next)
        tend_catalog(&round, chore);
    arena_release(&round.arena);
    if (error)
        *error = round.trouble;
    return round.trouble.status;
}
