/* settle.c: leases that are over and whose outputs nobody has settled: each output is
 * condemned, or found to have been committed, in the same swap that counts the try; then the
 * lease is forgotten. */
#include "compact/tend.h"

#include "base/rule.h"
#include "compact/job_note.h"
#include "compact/jobs.h"
#include "lock/chunks.h"

/* One that is over, in memory of our own. */
struct loose {
    struct view id, output, holder;
    bool died; /* nobody ended it */
    unsigned level;
    struct span held;
    struct job_note note;
    struct view *sources;
    size_t source_count;
    bool settled;
    struct loose *next;
};

struct gathering {
    const struct view *keys; /* only those that touch one of these; NULL: all */
    size_t count;
    struct arena arena;
    struct loose *first, **end;
    bool unmarked; /* some are active in the table, and provably over */
    bool no_memory;
};

/* ---- Finding them -------------------------------------------------------------------- */

static bool touches(const struct lease *lease, const struct view *keys, size_t count)
{
    for (size_t i = 0; i < lease->scope_count; i++)
        for (size_t j = 0; j < count; j++)
            if (lease->scopes[i].kind == SCOPE_CHUNK &&
                view_equal(lease->scopes[i].name, keys[j]))
                return true;
    return keys == NULL;
}

#define DIED "the worker that had it died or was cut off"

/* Who just died blames nobody by a word, so the group is: else what kills its workers would be
 * tried for ever. */
static bool read_blame(const struct lease *lease, bool died, struct arena *arena,
                       struct job_note *note)
{
    if (lease->status == LEASE_FAILED)
        return job_note_decode(lease->note, arena, note);
    *note = (struct job_note){ .blame = BLAME_NOBODY };
    if (died && RULE(TRY_COUNTS_WHEN_LEASED))
        *note = (struct job_note){ .blame = BLAME_GROUP, .why = VIEW(DIED) };
    return true;
}

static bool copy_loose(struct gathering *gathering, const struct lease *lease)
{
    struct arena *arena = &gathering->arena;
    struct loose *loose = arena_take(arena, sizeof *loose);
    struct view *sources = arena_take(arena, (lease->scope_count + 1) * sizeof *sources);
    if (!loose || !sources)
        return false;
    *loose =
        (struct loose){ .sources = sources,
                        .died = lease->status == LEASE_EXPIRED || lease->status == LEASE_BROKEN,
                        .level = (unsigned)lease->level,
                        .held = wall_since(lease->expires_at, lease->acquired_at) };
    loose->id = arena_copy(arena, lease->id);
    loose->output = arena_copy(arena, lease->output);
    loose->holder = arena_copy(arena, lease->holder);
    bool good = loose->id.data && loose->output.data && loose->holder.data &&
                read_blame(lease, loose->died, arena, &loose->note);
    for (size_t i = 0; i < lease->scope_count && good; i++)
        if (lease->scopes[i].kind == SCOPE_CHUNK) {
            sources[loose->source_count] = arena_copy(arena, lease->scopes[i].name);
            good = sources[loose->source_count++].data != NULL;
        }
    *gathering->end = loose;
    gathering->end = &loose->next;
    return good;
}

static void gather(void *argument, const struct lease_table *table,
                   const struct evidence *evidence)
{
    struct gathering *gathering = argument;
    for (size_t i = 0; i < table->lease_count && !gathering->no_memory; i++) {
        const struct lease *lease = table->leases[i];
        if (lease->output.size == 0 || lease->status == LEASE_COMPLETED ||
            !chunks_lease_over(table, lease, evidence) ||
            !touches(lease, gathering->keys, gathering->count))
            continue;
        if (lease->status == LEASE_ACTIVE)
            gathering->unmarked = true;
        else
            gathering->no_memory = !copy_loose(gathering, lease);
    }
}

static enum hf_status look(struct shelf *shelf, struct view home, struct gathering *gathering,
                           struct tend_report *report, struct hf_error *error)
{
    arena_release(&gathering->arena);
    gathering->first = NULL;
    gathering->end = &gathering->first;
    gathering->unmarked = false;
    gathering->no_memory = false;
    report->requests++;
    enum hf_status status = chunks_look_mended(shelf->client, home, gather, gathering, error);
    return status == HF_OK && gathering->no_memory ? error_no_memory(error) : status;
}

/* ---- Settling them ------------------------------------------------------------------- */

/* A dead worker cannot tell what became of its job: whoever settles its lease does. Noted once,
 * however many settle it. */
static void note_lost(struct shelf *shelf, const struct loose *loose,
                      struct tend_report *report)
{
    struct hf_error ignored;
    struct job_record record = { .id = loose->output,
                                 .worker = loose->holder,
                                 .end = view_of(job_end_name(JOB_LOST)),
                                 .why = VIEW(DIED),
                                 .level = loose->level,
                                 .sources = loose->source_count,
                                 .took_ms = loose->held.us > 0 ? loose->held.us / 1000 : 0 };
    report->requests++;
    jobs_note(shelf, &record, &ignored);
}

static enum hf_status settle_one(struct shelf *shelf, const struct loose *loose,
                                 struct tend_report *report, struct hf_error *error)
{
    enum condemned answer = CONDEMN_DONE;
    struct slot *slot;
    if (loose->note.unsent)
        return HF_OK; /* there is no such object, and no commit of it */
    if (!RULE(CONDEMN_BEFORE_DELETE)) {
        struct delete_call call = { .key = loose->output };
        store_delete(shelf->store, &call);
        *error = call.error;
        return error->status;
    }
    enum hf_status status = shelf_slot(shelf, layout_home(loose->output), &slot, error);
    if (status != HF_OK)
        return status;
    struct catalog_op op = { .kind = CATALOG_CONDEMN,
                             .keys = &loose->output,
                             .key_count = 1,
                             .blame = loose->note.blame,
                             .sources = loose->sources,
                             .source_count = loose->source_count,
                             .culprit = loose->note.culprit,
                             .reason = loose->note.why,
                             .ret_condemned = &answer };
    report->requests++;
    status = slot_apply(slot, &op, (struct mono_time){ 0 });
    if (status != HF_OK)
        *error = op.error;
    else if (answer == CONDEMN_DONE)
        report->condemned++;
    if (status == HF_OK && answer == CONDEMN_DONE && loose->died)
        note_lost(shelf, loose, report);
    return status;
}

/* One that cannot be settled stays for somebody else; the rest goes on. */
static enum hf_status settle_all(struct shelf *shelf, struct gathering *gathering,
                                 struct tend_report *report, struct hf_error *error)
{
    enum hf_status first = HF_OK;
    struct hf_error why;
    for (struct loose *loose = gathering->first; loose; loose = loose->next) {
        loose->settled = settle_one(shelf, loose, report, &why) == HF_OK;
        if (loose->settled)
            report->settled++;
        else if (first == HF_OK) {
            *error = why;
            first = why.status;
        }
        if (first == HF_UNSURE || first == HF_TIMEOUT || first == HF_UNAVAILABLE)
            break; /* the store does not answer: a thousand of them would take for ever */
    }
    return first;
}

static enum hf_status forget_all(struct shelf *shelf, struct view home,
                                 const struct gathering *gathering, bool whatever,
                                 struct tend_report *report, struct hf_error *error)
{
    struct view ids[CHUNKS_FORGET_MAX];
    enum hf_status status = HF_OK;
    const struct loose *loose = gathering->first;
    while (loose && status == HF_OK) {
        size_t count = 0;
        for (; loose && count < CHUNKS_FORGET_MAX; loose = loose->next)
            if (loose->settled || whatever)
                ids[count++] = loose->id;
        if (count == 0)
            break;
        report->requests++;
        status = chunks_tidy(shelf->client, home, ids, count, error);
    }
    return status;
}

enum hf_status tend_settle(struct shelf *shelf, struct view home, const struct view *keys,
                           size_t count, struct tend_report *report, struct hf_error *error)
{
    struct gathering gathering = { .keys = keys, .count = count, .arena = ARENA_INIT };
    struct hf_error why = { .status = HF_OK };
    enum hf_status status = look(shelf, home, &gathering, report, &why);
    if (status == HF_OK && gathering.unmarked) {
        report->requests++;
        status = chunks_tidy(shelf->client, home, NULL, 0, &why);
        if (status == HF_OK)
            status = look(shelf, home, &gathering, report, &why);
    }
    if (status == HF_OK && !RULE(SETTLE_BEFORE_FORGET))
        status = forget_all(shelf, home, &gathering, /* whatever */ true, report, &why);
    if (status == HF_OK && gathering.first) {
        status = settle_all(shelf, &gathering, report, &why);
        struct hf_error forgot;
        if (forget_all(shelf, home, &gathering, /* whatever */ false, report, &forgot) !=
                HF_OK &&
            status == HF_OK) {
            why = forgot;
            status = forgot.status;
        }
    }
    arena_release(&gathering.arena);
    if (error)
        *error = why;
    return status;
}
