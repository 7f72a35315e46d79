/* SPDX-License-Identifier: Apache-2.0 */
/* drop.c: marks the catalogs of a partition that is being dropped, and counts what is left of it.
 * The mark guards against clients that do not know of the drop: their adds and commits are refused
 * by their own swaps. */
#include "compact/care/drop.h"

#include "compact/care/maintain.h"
#include "compact/care/release.h"

/* A mark ends splitting. So each walk marks a level of the tree that the one before could not see,
 * or finds everything marked. */
#define WALKS_MAX (CATALOG_TREE_DEPTH_MAX + 3)

/* ---- Marking ------------------------------------------------------------------------- */

struct marking {
    bool begins;   /* the partition's own catalog is marked, too */
    bool unmarked; /* the catalog that is being visited */
    bool all;      /* every catalog of this walk was marked before */
    struct hf_error error;
};

static enum hf_status visit_for_mark(void *argument, struct catalog_ref *ref,
                                     const struct catalog *catalog,
                                     const struct evidence *evidence,
                                     const struct hf_error *why)
{
    struct marking *marking = argument;
    (void)ref;
    (void)evidence;
    marking->unmarked = catalog && !catalog->is_dropping;
    if (marking->unmarked && !marking->begins && catalog->depth == 0)
        return error_set(&marking->error, HF_NOT_FOUND, "the partition was dropped meanwhile");
    if (catalog || why->status == HF_NOT_FOUND) /* a child that was removed before */
        return HF_OK;
    marking->error = *why; /* its chunks cannot be dropped, so nothing is removed */
    return why->status;
}

static enum hf_status mark_catalog(void *argument, struct catalog_ref *ref)
{
    struct marking *marking = argument;
    struct catalog_op op = { .kind = CATALOG_DROP };
    if (!marking->unmarked)
        return HF_OK;
    marking->all = false;
    enum hf_status status = catalog_ref_apply(ref, &op, (struct mono_time){ 0 });
    marking->error = op.error;
    return status;
}

enum hf_status drop_mark(struct catalog_tree *tree, bool begins, struct hf_error *error)
{
    struct marking marking = { .begins = begins };
    client_active(tree->client);
    for (int i = 0; i < WALKS_MAX; i++) {
        if (marking.all)
            break;
        marking.all = true;
        enum hf_status status =
            catalog_tree_walk_slowly(tree, visit_for_mark, mark_catalog, &marking, error);
        if (status != HF_OK) {
            if (marking.error.status != HF_OK)
                *error = marking.error;
            return error->status;
        }
    }
    return marking.all
               ? HF_OK
               : error_set(error, HF_UNAVAILABLE,
                           "the catalogs of %s change too fast to be marked", tree->partition);
}

/* ---- Counting ------------------------------------------------------------------------ */

/* How much of this span is left, at least, since the stamp. If its clock cannot be read, all of
 * it. */
static int64_t left_ms(struct stamp since, int64_t span_ms, const struct evidence *evidence)
{
    int64_t age_ms = stamp_age(since, SPAN_US(0), evidence).us / 1000;
    return age_ms < span_ms ? span_ms - age_ms : 0;
}

static void wait_longer(struct drop_report *report, int64_t wait_ms)
{
    if (wait_ms > report->wait_ms)
        report->wait_ms = wait_ms;
}

/* D is counted from the deletion of an owned object, which a store without conditional deletes
 * delays by another D. */
static int64_t removal_wait_ms(const struct removal *removal, int64_t late_ms, bool conditional,
                               const struct evidence *evidence)
{
    int64_t left = left_ms(removal->part.since, late_ms, evidence);
    bool owned = false;
    for (size_t i = 0; i < removal->object_count; i++)
        owned |= removal->objects[i].own;
    if (!owned || removal->done)
        return left;
    return late_ms + (conditional ? 0 : left);
}

static void count_tombstones(struct drop_report *report, const struct catalog *catalog,
                             bool conditional, const struct evidence *evidence)
{
    int64_t grace_ms = catalog->settings.grace_ms, late_ms = catalog->settings.late_bound_ms;
    for (size_t i = 0; i < catalog->grave_count; i++) {
        const struct grave *grave = &catalog->graves[i];
        bool delayed = false;
        report->tombstones += grave->count;
        for (size_t k = 0; k < grave->count; k++) {
            report->tombstone_bytes += grave->chunks[k].size;
            delayed |= grave->chunks[k].own && !conditional;
        }
        wait_longer(report, left_ms(grave->part.since, grace_ms, evidence) + late_ms +
                                (delayed ? late_ms : 0));
    }
    for (size_t i = 0; i < catalog->removal_count; i++) {
        const struct removal *removal = &catalog->removals[i];
        report->deleting += removal->count;
        wait_longer(report, removal_wait_ms(removal, late_ms, conditional, evidence));
    }
}

struct drop_counting {
    struct drop_report report;
    int64_t late_bound_ms; /* of the partition's own catalog */
};

static enum hf_status count_dropped(void *argument, struct catalog_ref *ref,
                                    const struct catalog *catalog,
                                    const struct evidence *evidence, const struct hf_error *why)
{
    struct drop_counting *counting = argument;
    struct drop_report *report = &counting->report;
    bool conditional = ref->tree->store->traits.delete_conditional, delayed = false;
    (void)why;
    if (!catalog)
        return HF_OK;
    report->catalogs++;
    report->marked |= catalog->is_dropping;
    report->chunks += catalog->live_count;
    for (size_t i = 0; i < catalog->live_count; i++) {
        report->bytes += catalog->live[i].size;
        delayed |= catalog->live[i].own && !conditional;
    }
    count_tombstones(report, catalog, conditional, evidence);
    int64_t late_ms = catalog->settings.late_bound_ms;
    if (catalog->depth == 0)
        counting->late_bound_ms = late_ms;
    int64_t grace_ms = catalog->live_count ? catalog->settings.grace_ms : 0;
    if (catalog->is_dropping)
        wait_longer(report, left_ms(catalog->dropping.since, late_ms, evidence));
    else
        wait_longer(report, grace_ms + late_ms + (delayed ? late_ms : 0));
    return HF_OK;
}

enum hf_status drop_count(struct catalog_tree *tree, struct drop_report *ret_report,
                          struct hf_error *error)
{
    struct drop_counting counting = { .report = { .gone = false } };
    int64_t wait_ms = 0;
    enum hf_status status = catalog_tree_walk(tree, count_dropped, &counting, error);
    if (status == HF_OK)
        status = release_wait(tree, counting.late_bound_ms, &wait_ms, error);
    if (status != HF_OK)
        return status;
    wait_longer(&counting.report, wait_ms);
    *ret_report = counting.report;
    return HF_OK;
}

/* ---- One step ------------------------------------------------------------------------ */

enum hf_status drop_step(struct catalog_tree *tree, const struct drop_options *options,
                         struct drop_report *ret_report, struct hf_error *error)
{
    struct maintain_options maintain = { .short_lived = true,
                                         .go_on = options->go_on,
                                         .argument = options->argument };
    struct maintain_report maintained = { 0 };
    struct drop_report before = { .gone = false }, after = { .gone = false };
    enum hf_status status = drop_count(tree, &before, error);
    if (status == HF_OK)
        status = drop_mark(tree, /* begins */ true, error);
    if (status == HF_OK)
        status = maintain_round(tree, &maintain, &maintained, error);
    if (status == HF_OK)
        status = drop_count(tree, &after, error);
    if (status == HF_NOT_FOUND && before.catalogs > 0) {
        after.gone = true;
        status = error_clear(error);
    }
    after.chunks = before.chunks;
    after.bytes = before.bytes;
    after.deleted = maintained.deleted;
    after.pinned = maintained.pinned;
    *ret_report = after;
    return status;
}
