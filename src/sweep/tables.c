/* tables.c: a lease table as a sweeper deals with it: one more client that asks it to scavenge,
 * with the same proof as anybody needs; and the stages that its key was left with. */
#include "base/layout.h"
#include "base/rule.h"
#include "lock/purge.h"
#include "sweep/sweep_inside.h"

/* How often a table is written in order to clear it: its leases, then what they have left. */
#define CLEAR_TURNS_MAX 4

/* ---- Looking ------------------------------------------------------------------------- */

bool table_key_name(const struct hf_client *client, struct view table_key,
                    struct view *ret_name)
{
    struct view ns = view_of(client->space.ns);
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
        lease_settings_stricter(&table->settings, &run->client->space.settings);
    return lease_judge(&settings, lease, evidence) != PROOF_NONE;
}

/* Whether nothing is lost with the state: it was never written, or what it held was removed. */
static bool is_state_empty(const struct key_state *state)
{
    bool nothing = state->now.number == 0 || state->now.removed;
    return nothing && !state->lost && !state->staged && state->old_count == 0 &&
           state->unknown.size == 0;
}

/* What table_is_stub would say once the leases that are over are cleared. */
static bool would_be_stub(const struct lease_table *table, bool state_empty)
{
    struct lease_table cleared = *table;
    cleared.lease_count = 0;
    for (size_t i = 0; i < table->lease_count; i++)
        if (table->leases[i]->status == LEASE_COMPLETED || table->leases[i]->output.size > 0)
            return false;
    return table_is_stub(&cleared, state_empty);
}

static void see_state(const struct sweep_run *run, const struct lease_table *table,
                      const struct evidence *evidence, struct table_sight *sight)
{
    struct key_state state;
    state_init(&state);
    enum hf_status status = state_read(buffer_view(&table->state), &state, NULL);
    bool read = status == HF_OK;
    sight->taken = status == HF_UNAVAILABLE; /* without memory nobody knows: it may be */
    if (read && state.staged) {
        const struct lease *lease = table_find_token(table, state.stage.token);
        bool held = lease && !table_lease_over(run, table, lease, evidence);
        sight->taken = !held && state.stage.txn[0] != '\0';
        sight->loose = !held && state.stage.txn[0] == '\0';
    }
    sight->old = state.old_count;
    if (run->options->dry_run && sight->loose)
        state.staged = false;
    bool empty = read && is_state_empty(&state);
    sight->stub = run->options->dry_run ? sight->held == 0 && would_be_stub(table, empty)
                                        : table_is_stub(table, empty);
    state_release(&state);
}

static void see(const struct sweep_run *run, const struct lease_table *table,
                const struct evidence *evidence, struct table_sight *ret_sight)
{
    struct table_sight sight = { .hour = hour_now(run->client, evidence),
                                 .next_token = table->next_token,
                                 .waited = table->waiter_count > 0 };
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *lease = table->leases[i];
        if (lease->status != LEASE_ACTIVE)
            continue;
        if (table_lease_over(run, table, lease, evidence)) {
            sight.over++;
            continue;
        }
        struct hour hour = hour_of_lease(run->client, lease, evidence);
        sight.held++;
        if (hour.number > sight.hour.number)
            sight.hour = hour;
    }
    see_state(run, table, evidence, &sight);
    *ret_sight = sight;
}

struct looking {
    const struct sweep_run *run;
    struct table_sight *sight;
};

static void look(void *argument, const void *body, const struct evidence *evidence)
{
    struct looking *looking = argument;
    see(looking->run, body, evidence, looking->sight);
}

enum hf_status table_see(struct sweep_run *run, struct place *place,
                         struct table_sight *ret_sight, struct hf_error *error)
{
    struct table_sight sight;
    struct looking looking = { .run = run, .sight = &sight };
    enum hf_status status = doc_look(place->doc, run_deadline(run), look, &looking, error);
    if (status != HF_OK)
        return status;
    if (!doc_etag(place->doc, &sight.etag))
        sight.etag = (struct etag){ 0 };
    *ret_sight = sight;
    return HF_OK;
}

/* ---- Clearing ------------------------------------------------------------------------ */

/* Tidies the state, as its own guest does, and looks at the table as it stands then. */
struct tidying {
    struct table_guest guest; /* first */
    struct change change;
    const struct sweep_run *run;
    struct evidence evidence; /* of this attempt */
    struct table_sight *sight;
};

static enum hf_status before(struct table_guest *guest, struct lease_table *table,
                             const struct evidence *evidence, bool *changed,
                             struct hf_error *error)
{
    struct tidying *tidying = (struct tidying *)(void *)guest;
    struct table_guest *inner = &tidying->change.guest;
    tidying->evidence = *evidence;
    return inner->before ? inner->before(inner, table, evidence, changed, error) : HF_OK;
}

static void after(struct table_guest *guest, struct lease_table *table,
                  const struct table_op *op, bool *changed)
{
    struct tidying *tidying = (struct tidying *)(void *)guest;
    struct table_guest *inner = &tidying->change.guest;
    if (inner->after)
        inner->after(inner, table, op, changed);
    see(tidying->run, table, &tidying->evidence, tidying->sight);
}

static enum hf_status scavenge(struct sweep_run *run, struct place *place,
                               struct table_sight *sight, struct hf_error *error)
{
    struct request request, *one = &request;
    struct tidying tidying = { .guest = { before, after }, .run = run, .sight = sight };
    change_init(&tidying.change, CHANGE_TIDY);
    request_init(&request, place, TABLE_SCAVENGE, run_deadline(run));
    request.guest = &tidying.guest;
    request.mode = run->options->mode;
    enum hf_status status = place_ask(place, &one, 1);
    if (status != HF_OK)
        *error = request.op.error;
    else if (request.op.changed)
        run->report->leases_cleared += request.table.cleared;
    if (status == HF_OK && !doc_etag(place->doc, &sight->etag))
        sight->etag = (struct etag){ 0 };
    sight->written = status == HF_OK && request.op.changed;
    change_release(&tidying.change);
    return status;
}

/* What a transaction has left: settled as its record says. */
static enum hf_status settle(struct sweep_run *run, struct place *place,
                             struct table_sight *sight, struct hf_error *error)
{
    struct view name;
    struct change change;
    if (!table_key_name(run->client, doc_key(place->doc), &name))
        return HF_OK;
    change_init(&change, CHANGE_SETTLE);
    enum hf_status status = stage_settle(place, view_of(run->client->space.ns), name, VIEW(""),
                                         0, VIEW(""), &change, error);
    change_release(&change);
    run->report->stages_settled += status == HF_OK;
    if (status == HF_OK || status == HF_HELD) /* or somebody has taken it up again */
        status = table_see(run, place, sight, error);
    return status;
}

/* And how it would stand then. */
static void count_what_would_be(struct sweep_run *run, struct table_sight *sight)
{
    run->report->leases_cleared += run->again ? 0 : sight->over;
    run->report->stages_settled += sight->taken && !run->again;
    sight->written = sight->over > 0 || sight->taken || sight->loose;
    sight->over = 0;
    sight->taken = sight->loose = false;
}

/* A stage to be settled; or a lease that came to its end while one was. */
static bool needs_another_turn(const struct sweep_run *run, const struct table_sight *sight)
{
    return !run->options->dry_run && (sight->taken || sight->over > 0);
}

enum hf_status table_clear(struct sweep_run *run, struct place *place,
                           struct table_sight *ret_sight, struct hf_error *error)
{
    struct table_sight sight = { 0 };
    enum hf_status status = table_see(run, place, &sight, error);
    bool damaged = status == HF_CORRUPT; /* it is replaced by whoever asks it for something */
    if (status == HF_OK && run->options->dry_run)
        count_what_would_be(run, &sight);
    else if (damaged ? !run->options->dry_run
                     : status == HF_OK && (sight.over > 0 || sight.loose || sight.waited))
        status = scavenge(run, place, &sight, error);
    for (int i = 0; i < CLEAR_TURNS_MAX && status == HF_OK && needs_another_turn(run, &sight);
         i++)
        status = sight.taken ? settle(run, place, &sight, error)
                             : scavenge(run, place, &sight, error);
    if (status == HF_OK)
        *ret_sight = sight;
    return status;
}

/* ---- Purging ------------------------------------------------------------------------- */

/* No table is born with tokens below those of the epoch: it has been read or raised before, and a
 * table that is born reads it after its stub has landed. So what is purged must have lower ones. */
enum hf_status stub_purge(struct sweep_run *run, struct view table_key,
                          const struct table_sight *sight, const struct etag *known,
                          struct hf_error *error)
{
    uint64_t epoch = 0;
    if (!sight->stub || (!etag_equal(&sight->etag, known) && RULE(PURGE_UNCHANGED_ONLY)))
        return error_set(error, HF_CONFLICT, "it was used meanwhile");
    if (run->options->dry_run) {
        run->report->tables_purged += !run->again;
        return HF_OK;
    }
    enum hf_status status = run_epoch(run, sight->next_token >> 32, &epoch, error);
    if (status == HF_OK && sight->next_token >> 32 >= epoch && RULE(PURGE_RAISES_EPOCH))
        status = error_set(error, HF_CONFLICT, "its tokens are of the epoch of now");
    if (status == HF_OK)
        status = table_purge(run->client, table_key, known, error);
    if (status == HF_OK)
        run->report->tables_purged++;
    return status;
}
