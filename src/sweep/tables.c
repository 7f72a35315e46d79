/* SPDX-License-Identifier: Apache-2.0 */
/* tables.c: clears a lease table for the sweeper, and settles the stages of its key. The sweeper
 * is an ordinary client: it scavenges the table with the same proof that any client needs. This
 * file guards against decreasing tokens when a stub is purged. */
#include "base/layout.h"
#include "base/rule.h"
#include "lock/purge.h"
#include "sweep/sweep_inside.h"

/* How many times a table may be written to clear it: first its leases, then what they left
 * behind. */
#define CLEAR_TURNS_MAX 4

/* ---- Reading tables ------------------------------------------------------------------ */

bool table_key_name(const struct hf_client *client, struct view table_key,
                    struct view *ret_name)
{
    struct view ns = view_of(client_ns(client));
    struct view end = VIEW(".json");
    struct view rest = view_from(table_key, ns.size);
    if (!view_starts_with(table_key, ns) || !view_starts_with(rest, VIEW(LAYOUT_META_FOLDER)) ||
        !view_ends_with(rest, end))
        return false;
    struct view name = view_from(rest, strlen(LAYOUT_META_FOLDER));
    *ret_name = view_first(name, name.size - end.size);
    return true;
}

bool table_lease_over(const struct sweep_run *run, const struct lease_table *table,
                      const struct lease *lease, const struct evidence *evidence)
{
    struct lease_settings settings =
        lease_settings_stricter(&table->settings, client_settings(run->client));
    return lease_judge(&settings, lease, evidence) != PROOF_NONE;
}

/* Whether nothing would be lost with the state: it was never written, or its value was deleted. */
static bool is_state_empty(const struct key_state *state)
{
    bool nothing = state->now.number == 0 || state->now.removed;
    return nothing && !state->lost && !state->staged && state->old_count == 0 &&
           state->unknown.size == 0;
}

/* What table_is_stub would return once the ended leases are cleared. */
static bool would_be_stub(const struct lease_table *table, bool state_empty)
{
    struct lease_table cleared = *table;
    cleared.lease_count = 0;
    for (size_t i = 0; i < table->lease_count; i++)
        if (table->leases[i]->status == LEASE_COMPLETED || table->leases[i]->output.size > 0)
            return false;
    return table_is_stub(&cleared, state_empty);
}

static void summarize_state(const struct sweep_run *run, const struct lease_table *table,
                            const struct evidence *evidence, struct table_summary *summary)
{
    struct key_state state;
    state_init(&state);
    enum hf_status status = state_read(buffer_view(&table->state), &state, NULL);
    bool read = status == HF_OK;
    /* If out of memory, it is unknown whether there is a stage, so there may be one. */
    summary->taken = status == HF_UNAVAILABLE;
    if (read && state.staged) {
        const struct lease *lease = table_find_token(table, state.stage.token);
        bool held = lease && !table_lease_over(run, table, lease, evidence);
        summary->taken = !held && state.stage.txn[0] != '\0';
        summary->loose = !held && state.stage.txn[0] == '\0';
    }
    summary->old = state.old_count;
    if (run->options->dry_run && summary->loose)
        state.staged = false;
    bool empty = read && is_state_empty(&state);
    summary->stub = run->options->dry_run ? summary->held == 0 && would_be_stub(table, empty)
                                          : table_is_stub(table, empty);
    state_release(&state);
}

static void summarize_table(const struct sweep_run *run, const struct lease_table *table,
                            const struct evidence *evidence, struct table_summary *ret_summary)
{
    struct table_summary summary = { .hour = hour_now(run->client, evidence),
                                     .next_token = table->next_token,
                                     .waited = table->waiter_count > 0 };
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *lease = table->leases[i];
        if (lease->status != LEASE_ACTIVE)
            continue;
        if (table_lease_over(run, table, lease, evidence)) {
            summary.over++;
            continue;
        }
        struct hour hour = hour_of_lease(run->client, lease, evidence);
        summary.held++;
        if (hour.number > summary.hour.number)
            summary.hour = hour;
    }
    summarize_state(run, table, evidence, &summary);
    *ret_summary = summary;
}

struct summarizing {
    const struct sweep_run *run;
    struct table_summary *summary;
};

static void summarize_body(void *argument, const void *body, const struct evidence *evidence)
{
    struct summarizing *summarizing = argument;
    summarize_table(summarizing->run, body, evidence, summarizing->summary);
}

enum hf_status table_summarize(struct sweep_run *run, struct table_ref *ref,
                               struct table_summary *ret_summary, struct hf_error *error)
{
    struct table_summary summary;
    struct summarizing summarizing = { .run = run, .summary = &summary };
    enum hf_status status =
        doc_look(ref->doc, run_deadline(run), summarize_body, &summarizing, error);
    if (status != HF_OK)
        return status;
    if (!doc_etag(ref->doc, &summary.etag))
        summary.etag = (struct etag){ 0 };
    *ret_summary = summary;
    return HF_OK;
}

/* ---- Clearing ------------------------------------------------------------------------ */

/* Cleans up the state with the state's own hook, and then summarises the table. */
struct tidy_hook {
    struct table_hook hook; /* must be the first member */
    struct change change;
    const struct sweep_run *run;
    struct evidence evidence; /* of this attempt */
    struct table_summary *summary;
};

static enum hf_status tidy_before(struct table_hook *hook, struct lease_table *table,
                                  const struct evidence *evidence, bool *changed,
                                  struct hf_error *error)
{
    struct tidy_hook *tidy = (struct tidy_hook *)(void *)hook;
    struct table_hook *inner = &tidy->change.hook;
    tidy->evidence = *evidence;
    return inner->before ? inner->before(inner, table, evidence, changed, error) : HF_OK;
}

static void tidy_after(struct table_hook *hook, struct lease_table *table,
                       const struct table_op *op, bool *changed)
{
    struct tidy_hook *tidy = (struct tidy_hook *)(void *)hook;
    struct table_hook *inner = &tidy->change.hook;
    if (inner->after)
        inner->after(inner, table, op, changed);
    summarize_table(tidy->run, table, &tidy->evidence, tidy->summary);
}

static enum hf_status scavenge_table(struct sweep_run *run, struct table_ref *ref,
                                     struct table_summary *summary, struct hf_error *error)
{
    struct request request, *one = &request;
    struct tidy_hook tidy = { .hook = { .before = tidy_before, .after = tidy_after },
                              .run = run,
                              .summary = summary };
    change_init(&tidy.change, CHANGE_TIDY);
    request_init(&request, ref, TABLE_SCAVENGE, run_deadline(run));
    request.hook = &tidy.hook;
    request.mode = run->options->mode;
    enum hf_status status = table_ref_ask(ref, &one, 1);
    if (status != HF_OK)
        *error = request.op.error;
    else if (request.op.changed)
        run->report->leases_cleared += request.table.cleared;
    if (status == HF_OK && !doc_etag(ref->doc, &summary->etag))
        summary->etag = (struct etag){ 0 };
    summary->written = status == HF_OK && request.op.changed;
    change_release(&tidy.change);
    return status;
}

/* Applies or discards a key's staged change, according to the transaction's record. */
static enum hf_status settle_table_stage(struct sweep_run *run, struct table_ref *ref,
                                         struct table_summary *summary, struct hf_error *error)
{
    struct view name;
    struct change change;
    if (!table_key_name(run->client, doc_key(ref->doc), &name))
        return HF_OK;
    change_init(&change, CHANGE_SETTLE);
    struct stage_claim none = { VIEW(""), 0, VIEW("") };
    enum hf_status status = stage_settle(ref, name, &none, &change, error);
    change_release(&change);
    run->report->stages_settled += status == HF_OK;
    if (status == HF_OK || status == HF_HELD) /* HELD: a client is using it again */
        status = table_summarize(run, ref, summary, error);
    return status;
}

/* For a dry run: counts what a run would do, and sets the summary that would result. */
static void count_for_dry_run(struct sweep_run *run, struct table_summary *summary)
{
    run->report->leases_cleared += run->again ? 0 : summary->over;
    run->report->stages_settled += summary->taken && !run->again;
    summary->written = summary->over > 0 || summary->taken || summary->loose;
    summary->over = 0;
    summary->taken = summary->loose = false;
}

enum hf_status table_clear(struct sweep_run *run, struct table_ref *ref,
                           struct table_summary *ret_summary, struct hf_error *error)
{
    struct table_summary summary = { 0 };
    bool dry = run->options->dry_run;
    enum hf_status status = table_summarize(run, ref, &summary, error);
    bool damaged = status == HF_CORRUPT; /* the next request to it replaces the table */
    if (status == HF_OK && dry)
        count_for_dry_run(run, &summary);
    else if (damaged ? !dry
                     : status == HF_OK && (summary.over > 0 || summary.loose || summary.waited))
        status = scavenge_table(run, ref, &summary, error);
    for (int i = 0; i < CLEAR_TURNS_MAX; i++) {
        /* There is a stage to settle, or a lease has expired while a stage was being settled. */
        bool needed = !dry && (summary.taken || summary.over > 0);
        if (status != HF_OK || !needed)
            break;
        status = summary.taken ? settle_table_stage(run, ref, &summary, error)
                               : scavenge_table(run, ref, &summary, error);
    }
    if (status == HF_OK)
        *ret_summary = summary;
    return status;
}

/* ---- Purging ------------------------------------------------------------------------- */

/* The epoch is read or raised before the table is deleted, and a new table of the same name reads
 * the epoch after its own stub is in the store. So no new table has tokens below this epoch, and
 * only a table with lower tokens may be purged. */
enum hf_status stub_purge(struct sweep_run *run, struct view table_key,
                          const struct table_summary *summary, const struct etag *known,
                          struct hf_error *error)
{
    uint64_t epoch = 0;
    bool used = RULE(PURGE_UNCHANGED_ONLY) && !etag_equal(&summary->etag, known);
    if (!summary->stub || used)
        return error_set(error, HF_CONFLICT, "the table has since been used");
    if (run->options->dry_run) {
        run->report->tables_purged += !run->again;
        return HF_OK;
    }
    enum hf_status status = run_epoch(run, summary->next_token >> 32, &epoch, error);
    if (RULE(PURGE_RAISES_EPOCH) && status == HF_OK && summary->next_token >> 32 >= epoch)
        status = error_set(error, HF_CONFLICT, "the table has tokens of the current epoch");
    if (status == HF_OK)
        status = table_purge(run->client, table_key, known, error);
    if (status == HF_OK)
        run->report->tables_purged++;
    return status;
}
