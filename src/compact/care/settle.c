/* SPDX-License-Identifier: Apache-2.0 */
/* settle.c: settles leases that ended without `complete`. One swap of the catalog condemns the
 * output and counts the try, or finds that the output was committed. Only then is the lease
 * forgotten. So a dead worker's commit that arrives late finds its output condemned. */
#include "compact/care/maintain.h"

#include "base/mutant.h"
#include "base/rule.h"
#include "compact/work/job_note.h"
#include "compact/work/jobs.h"
#include "lock/chunks.h"

/* A copy of an ended lease whose output has not been condemned yet. */
struct ended_lease {
    struct view id, output, holder;
    bool died;      /* expired or broken: its holder did not end it */
    bool uncertain; /* ... and whether its merge had begun is not known */
    unsigned level;
    struct span held;
    struct job_note note;
    struct view *sources;
    size_t source_count;
    bool settled;
    struct ended_lease *next;
};

struct ended_leases {
    struct view home;        /* whose table is read */
    const struct view *keys; /* only leases on one of these chunks; NULL: all */
    size_t count;
    struct arena arena;
    struct ended_lease *first, **end;
    bool unmarked; /* some leases have provably expired but are still active in the table */
    bool no_memory;
};

/* ---- Finding ended leases ------------------------------------------------------------ */

static bool touches(const struct lease *lease, const struct view *keys, size_t count)
{
    for (size_t i = 0; i < lease->wish.scope_count; i++)
        for (size_t j = 0; j < count; j++)
            if (lease->wish.scopes[i].kind == SCOPE_CHUNK &&
                view_equal(lease->wish.scopes[i].name, keys[j]))
                return true;
    return keys == NULL;
}

#define DIED "the worker died or lost its connection to the store"

/* If a worker died in its merge, its whole group is blamed. Otherwise a chunk that kills its
 * workers would be retried forever. If the lease does not say that the merge had begun, nobody is
 * blamed, but from now on the workers of these chunks write that they begin before they do. So the
 * next death is certain. */
static bool read_blame(const struct lease *lease, struct arena *arena,
                       struct ended_lease *ended)
{
    if (lease->status == LEASE_FAILED)
        return job_note_decode(lease->note, arena, &ended->note);
    ended->note = (struct job_note){ .blame = HF_COMPACT_BLAME_NOBODY };
    ended->uncertain =
        ended->died && RULE(TRY_NEEDS_A_BEGIN) && job_note_says_claimed(lease->note);
    if (ended->died && !ended->uncertain && RULE(TRY_COUNTS_WHEN_LEASED))
        ended->note = (struct job_note){ .blame = HF_COMPACT_BLAME_GROUP, .why = VIEW(DIED) };
    return true;
}

static bool copy_ended_lease(struct ended_leases *leases, const struct lease *lease)
{
    struct arena *arena = &leases->arena;
    struct ended_lease *ended = arena_take(arena, sizeof *ended);
    struct view *sources = arena_take(arena, (lease->wish.scope_count + 1) * sizeof *sources);
    if (!ended || !sources)
        return false;
    *ended = (struct ended_lease){ .sources = sources,
                                   .died = lease->status == LEASE_EXPIRED ||
                                           lease->status == LEASE_BROKEN,
                                   .level = (unsigned)lease->wish.level,
                                   .held = wall_since(lease->expires_at, lease->acquired_at) };
    ended->id = arena_copy(arena, lease->id);
    ended->output = arena_copy(arena, lease->output);
    ended->holder = arena_copy(arena, lease->holder);
    bool good = ended->id.data && ended->output.data && ended->holder.data &&
                read_blame(lease, arena, ended);
    for (size_t i = 0; i < lease->wish.scope_count; i++)
        if (lease->wish.scopes[i].kind == SCOPE_CHUNK) {
            sources[ended->source_count] = arena_copy(arena, lease->wish.scopes[i].name);
            good = good && sources[ended->source_count++].data;
        }
    *leases->end = ended;
    leases->end = &ended->next;
    return good;
}

/* Only a lease that the table marks as ended is settled. A proof of expiry alone is not enough,
 * because an active lease could still be renewed; a swap must mark the lease first. */
static void list_ended_leases(void *argument, const struct lease_table *table,
                              const struct evidence *evidence)
{
    struct ended_leases *leases = argument;
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *lease = table->leases[i];
        if (lease->output.size == 0 || lease->status == LEASE_COMPLETED ||
            !chunks_lease_over(table, lease, evidence) ||
            !touches(lease, leases->keys, leases->count))
            continue;
        if (lease->status == LEASE_ACTIVE)
            leases->unmarked = true;
        else
            leases->no_memory |= !copy_ended_lease(leases, lease);
    }
}

static enum hf_status read_ended_leases(struct catalog_tree *tree, struct ended_leases *leases,
                                        struct maintain_report *report, struct hf_error *error)
{
    arena_release(&leases->arena);
    leases->first = NULL;
    leases->end = &leases->first;
    leases->unmarked = false;
    leases->no_memory = false;
    report->requests++;
    enum hf_status status =
        chunks_look_mended(tree->client, leases->home, list_ended_leases, leases, error);
    return status == HF_OK && leases->no_memory ? error_no_memory(error) : status;
}

/* ---- Settling ------------------------------------------------------------------------ */

/* Records a dead worker's job as lost, because the worker cannot do so itself. Several clients may
 * settle the same lease, but they all use the key of its output as the record's id, so the jobs
 * document keeps only one record. */
static void record_lost_job(struct catalog_tree *tree, const struct ended_lease *ended,
                            struct maintain_report *report)
{
    struct hf_error ignored;
    struct job_record record = { .id = ended->output,
                                 .worker = ended->holder,
                                 .end = view_of(hf_compact_end_name(HF_COMPACT_END_LOST)),
                                 .why = VIEW(DIED),
                                 .level = ended->level,
                                 .sources = ended->source_count,
                                 .took_ms = ended->held.us > 0 ? ended->held.us / 1000 : 0 };
    report->requests++;
    jobs_note(tree, &record, &ignored);
}

static enum hf_status settle_lease(struct catalog_tree *tree, const struct ended_lease *ended,
                                   struct maintain_report *report, struct hf_error *error)
{
    enum condemned answer = CONDEMN_DONE;
    struct catalog_ref *ref;
    if (ended->note.unsent)
        return HF_OK; /* no output was put, so no commit of it exists */
    MUTANT(mutant_deletes_uncondemned_output(tree->store, ended->output));
    /* Only the output's home, which its path names, can condemn it. A split of the catalog may have
     * moved the sources, but it does not change the home. */
    enum hf_status status = catalog_tree_ref(tree, layout_home(ended->output), &ref, error);
    if (status != HF_OK)
        return status;
    struct catalog_op op = { .kind = CATALOG_CONDEMN,
                             .keys = &ended->output,
                             .key_count = 1,
                             .blame = ended->note.blame,
                             .mark_begin = ended->uncertain && RULE(UNCERTAIN_IS_MARKED),
                             .sources = ended->sources,
                             .source_count = ended->source_count,
                             .culprit = ended->note.culprit,
                             .reason = ended->note.why,
                             .ret_condemned = &answer };
    report->requests++;
    if (RULE(CONDEMN_BEFORE_DELETE))
        status = catalog_ref_apply(ref, &op, (struct mono_time){ 0 });
    if (status != HF_OK)
        *error = op.error;
    else if (answer == CONDEMN_DONE)
        report->condemned++;
    if (status == HF_OK && answer == CONDEMN_DONE && ended->died)
        record_lost_job(tree, ended, report);
    return status;
}

/* A lease that cannot be settled now is left to another client. The remaining leases are still
 * settled. */
static enum hf_status settle_leases(struct catalog_tree *tree, struct ended_leases *leases,
                                    struct maintain_report *report, struct hf_error *error)
{
    enum hf_status first = HF_OK;
    struct hf_error why;
    for (struct ended_lease *ended = leases->first; ended; ended = ended->next) {
        MUTANT(mutant_forgets_before_settling(tree->client, leases->home, ended->id));
        ended->settled = settle_lease(tree, ended, report, &why) == HF_OK;
        if (ended->settled)
            report->settled++;
        else if (first == HF_OK) {
            *error = why;
            first = why.status;
        }
        if (first == HF_UNSURE || first == HF_TIMEOUT || first == HF_UNAVAILABLE)
            break; /* the store does not answer; trying each lease would take too long */
    }
    return first;
}

/* Only settled leases are forgotten. Until then the lease is the only record of an output that
 * could still be committed. A crash before this point does no harm: settling the lease again counts
 * nothing twice. */
static enum hf_status forget_leases(struct catalog_tree *tree,
                                    const struct ended_leases *leases,
                                    struct maintain_report *report, struct hf_error *error)
{
    struct view ids[CHUNKS_FORGET_MAX];
    enum hf_status status = HF_OK;
    const struct ended_lease *ended = leases->first;
    while (ended && status == HF_OK) {
        size_t count = 0;
        while (ended && count < CHUNKS_FORGET_MAX) {
            if (ended->settled)
                ids[count++] = ended->id;
            ended = ended->next;
        }
        if (count == 0)
            break;
        report->requests++;
        status = chunks_tidy(tree->client, leases->home, ids, count, error);
    }
    return status;
}

enum hf_status maintain_settle(struct catalog_tree *tree, struct view home,
                               const struct view *keys, size_t count,
                               struct maintain_report *report, struct hf_error *error)
{
    struct ended_leases leases = {
        .home = home, .keys = keys, .count = count, .arena = ARENA_INIT
    };
    struct hf_error why = { .status = HF_OK };
    enum hf_status status = read_ended_leases(tree, &leases, report, &why);
    /* A swap marks expired leases as ended. A renewal in the meantime would conflict with this
     * swap, and the renewed lease would stay active. */
    if (status == HF_OK && leases.unmarked) {
        report->requests++;
        status = chunks_tidy(tree->client, home, NULL, 0, &why);
        if (status == HF_OK)
            status = read_ended_leases(tree, &leases, report, &why);
    }
    if (status == HF_OK && leases.first) {
        status = settle_leases(tree, &leases, report, &why);
        struct hf_error forgot;
        if (forget_leases(tree, &leases, report, &forgot) != HF_OK && status == HF_OK) {
            why = forgot;
            status = forgot.status;
        }
    }
    arena_release(&leases.arena);
    if (error)
        *error = why;
    return status;
}
