/* settle.c: stages of transactions: what is decided about them, and their end.
 *
 * A stage is promoted or discarded only by a decided record that was read. Who finds a stage
 * whose lease is over, and the record pending, rolls it back there first; if the commit came
 * before that, it promotes. docs/design.md section 9. */
#include "base/check.h"
#include "base/rule.h"
#include "key/txn_inside.h"

#include <stdio.h>

/* How often it is begun anew because another stage stands there by now. */
#define SETTLE_TRIES_MAX 8

/* ---- Looking at a document ----------------------------------------------------------- */

struct seeing {
    struct place *place;
    struct stage_sight *sight;
    struct hf_error error;
};

static void note_lease(struct seeing *seeing, const struct lease_table *table,
                       const struct evidence *evidence)
{
    struct stage_sight *sight = seeing->sight;
    const struct lease *lease = table_find_token(table, sight->token);
    struct lease_settings settings =
        lease_settings_stricter(&table->settings, &seeing->place->space->settings);
    if (!lease || lease->id.size > LEASE_ID_MAX)
        return;
    memcpy(sight->lease, lease->id.data, lease->id.size);
    sight->over = lease_judge(&settings, lease, evidence) != PROOF_NONE;
}

static void see(void *argument, const void *body, const struct evidence *evidence)
{
    struct seeing *seeing = argument;
    const struct lease_table *table = body;
    struct stage_sight *sight = seeing->sight;
    struct key_state state;
    state_init(&state);
    if (state_read(buffer_view(&table->state), &state, &seeing->error) == HF_OK &&
        state.staged && state.stage.txn[0]) {
        sight->there = true;
        memcpy(sight->txn, state.stage.txn, sizeof sight->txn);
        sight->token = state.stage.token;
        sight->changes = state.stage.changes;
        sight->abandoned = stage_is_abandoned(table, &state);
        note_lease(seeing, table, evidence);
    }
    state_release(&state);
}

enum hf_status stage_see(struct place *place, struct stage_sight *ret_sight,
                         struct hf_error *error)
{
    struct seeing seeing = { .place = place, .sight = ret_sight };
    struct mono_time deadline = mono_add(env_now(place->client->env), REQUEST_TIME);
    *ret_sight = (struct stage_sight){ .there = false };
    enum hf_status status = doc_look(place->doc, deadline, see, &seeing, error);
    if (status == HF_NOT_FOUND)
        return HF_OK;
    if (status == HF_OK && seeing.error.status != HF_OK) {
        *error = seeing.error;
        status = seeing.error.status;
    }
    return status;
}

/* ---- What is decided ----------------------------------------------------------------- */

/* What is decided, and the record that says so, if one was read. */
struct decision {
    enum txn_state state;
    bool read;
    struct txn_record record;
    struct etag etag;
};

static void decision_release(struct decision *decision)
{
    if (decision->read)
        record_release(&decision->record);
    decision->read = false;
}

static enum hf_status read_decision(struct hf_client *client, struct view txn,
                                    struct decision *ret_decision, struct hf_error *error)
{
    struct decision decision = { .state = TXN_ABSENT };
    enum hf_status status = record_get(client, txn, &decision.record, &decision.etag, error);
    if (status != HF_OK && status != HF_NOT_FOUND)
        return status;
    decision.read = status == HF_OK;
    if (decision.read)
        decision.state = decision.record.state;
    *ret_decision = decision;
    return HF_OK;
}

/* Rolls it back in its record, unless somebody has decided meanwhile. Where there is none one is
 * written: nobody can begin it late after that. */
static enum hf_status record_rollback(struct hf_client *client, struct view txn,
                                      enum txn_state *state, struct hf_error *error)
{
    struct record_op op;
    enum hf_status status = HF_OK;
    if (!RULE(ROLLBACK_IS_RECORDED)) {
        *state = TXN_ROLLBACK;
        return HF_OK;
    }
    if (*state == TXN_ABSENT)
        status = record_announce(client, txn, error);
    if (status != HF_OK)
        return status;
    record_op_init(&op, RECORD_DECIDE, txn, mono_add(env_now(client->env), REQUEST_TIME));
    op.decision = TXN_ROLLBACK;
    op.mark = true;
    status = record_change(client, &op, error);
    if (status == HF_OK)
        *state = op.recorded;
    return status;
}

/* Whether it is up to whoever meets the stage. */
static bool is_ours_to_decide(enum txn_state state, bool abandoned)
{
    return state == TXN_ABSENT || (state == TXN_PENDING && abandoned);
}

/* A missing record may be one that was purged after somebody had settled this stage, which we saw
 * before that. CONFLICT: so it is. */
static enum hf_status see_again(struct place *place, const struct stage_sight *sight,
                                struct hf_error *error)
{
    struct stage_sight now;
    enum hf_status status = stage_see(place, &now, error);
    if (status != HF_OK)
        return status;
    if (!now.there || strcmp(now.txn, sight->txn) != 0)
        return error_set(error, HF_CONFLICT, "it was settled meanwhile");
    return HF_OK;
}

/* What is decided about a stage that stands there. HELD: nothing, and its lease is not over. The
 * caller releases the decision, whatever comes of this. */
static enum hf_status decide(struct place *place, const struct stage_sight *sight,
                             struct decision *decision, struct hf_error *error)
{
    struct hf_client *client = place->client;
    struct view txn = view_of(sight->txn);
    enum txn_state *state = &decision->state;
    enum hf_status status = HF_OK;
    bool let_go = !RULE(TAKEN_UNTIL_DECIDED) && sight->abandoned && !sight->changes;
    if (!let_go)
        status = read_decision(client, txn, decision, error);
    if (status == HF_OK && *state == TXN_PENDING && !RULE(SETTLED_BY_THE_RECORD))
        *state = TXN_COMMIT;
    if (status == HF_OK && *state == TXN_ABSENT)
        status = see_again(place, sight, error);
    if (status == HF_OK && is_ours_to_decide(*state, sight->abandoned))
        status = record_rollback(client, txn, state, error);
    if (status == HF_OK && *state == TXN_PENDING)
        status = error_set(error, HF_HELD, "it is taken for transaction %s, which is pending",
                           sight->txn);
    return status;
}

/* ---- Clearing what is decided -------------------------------------------------------- */

/* Of a commit with more participants, or on a store that takes longer to tell, it is left to the
 * sweeper to look at all of them: whoever settles a stage waits for something else. */
#define CLEAR_KEYS_MAX 16
#define CLEAR_TIME     SPAN_S(1)

static enum hf_status stage_is_gone(struct hf_client *client, const struct txn_key *key,
                                    struct view txn, bool *ret_gone);

static bool all_are_gone(struct hf_client *client, const struct txn_record *record)
{
    struct mono_time until = mono_add(env_now(client->env), CLEAR_TIME);
    bool gone = record->key_count <= CLEAR_KEYS_MAX;
    for (size_t i = 0; i < record->key_count && gone; i++)
        if (!mono_before(env_now(client->env), until) ||
            stage_is_gone(client, &record->keys[i], view_of(record->id), &gone) != HF_OK)
            return false;
    return gone;
}

/* The stage that it was read for is settled: so the record may be of no more use. */
static void clear_decision(struct hf_client *client, const struct decision *decision)
{
    const struct txn_record *record = &decision->record;
    if (!decision->read || !record_is_due(client, record))
        return;
    bool look = record->state == TXN_COMMIT && !record->applied;
    record_clear_read(client, record, &decision->etag, look && all_are_gone(client, record));
}

/* ---- Settling ------------------------------------------------------------------------ */

static void delete_old(struct hf_client *client, struct view ns, struct view name,
                       const struct key_state *state)
{
    struct body_name old[STATE_OLD_MAX];
    size_t gone;
    if (state->old_count == 0)
        return;
    memcpy(old, state->old, state->old_count * sizeof *old);
    bodies_delete(client, ns, name, old, state->old_count, &gone);
}

/* Whether the stage of another transaction stands there. */
static bool is_taken(const struct key_state *state, struct view enlist)
{
    return state->staged && state->stage.txn[0] &&
           !view_equal(view_of(state->stage.txn), enlist);
}

/* One try. CONFLICT: another stage stands there by now. A stage of `enlist` itself under another
 * lease than ours is as good as anybody's: that lease is over, so it is rolled back. */
static enum hf_status settle_as(struct place *place, struct view enlist, struct change *change,
                                struct decision *decision, struct hf_error *error)
{
    struct stage_sight sight;
    enum hf_status status = stage_see(place, &sight, error);
    bool own = view_equal(view_of(sight.txn), enlist);
    bool foreign =
        sight.there && (!own || (sight.token != change->token && RULE(OVER_FOR_ITS_OWN_TOO)));
    bool over = foreign && own; /* what the key was to be taken for is decided */
    if (status == HF_OK && foreign)
        status = decide(place, &sight, decision, error);
    if (status != HF_OK)
        return status;
    change->txn = foreign ? view_of(sight.txn) : VIEW("");
    change->commit = decision->state == TXN_COMMIT;
    change->enlist = over ? VIEW("") : enlist;
    status = change_ask(place, change, (struct mono_time){ 0 }, error);
    change->txn = VIEW(""); /* it was ours */
    bool again = (status == HF_OK && is_taken(&change->state, enlist)) ||
                 (status == HF_HELD && change->outcome == HF_KEY_WAITING);
    if (again)
        return error_set(error, HF_CONFLICT, "other transactions take the key");
    if (status == HF_OK)
        clear_decision(place->client, decision);
    if (status == HF_OK && over)
        return error_set(error, HF_MISMATCH,
                         "an earlier lease of the transaction was over here: it is decided: %s",
                         txn_state_name(decision->state));
    return status;
}

static enum hf_status settle_once(struct place *place, struct view enlist,
                                  struct change *change, struct hf_error *error)
{
    struct decision decision = { .state = TXN_ROLLBACK };
    enum hf_status status = settle_as(place, enlist, change, &decision, error);
    decision_release(&decision);
    return status;
}

enum hf_status stage_settle(struct place *place, struct view ns, struct view name,
                            struct view lease, uint64_t token, struct view enlist,
                            struct change *ret_change, struct hf_error *error)
{
    struct hf_error why;
    enum hf_status status = HF_CONFLICT;
    change_init(ret_change, CHANGE_SETTLE);
    for (int tries = 0; status == HF_CONFLICT && tries < SETTLE_TRIES_MAX; tries++) {
        change_release(ret_change);
        change_init(ret_change, CHANGE_SETTLE);
        ret_change->lease = lease;
        ret_change->token = token;
        status = settle_once(place, enlist, ret_change, &why);
    }
    if (status == HF_HELD)
        ret_change->outcome = HF_KEY_WAITING;
    if (status == HF_OK)
        delete_old(place->client, ns, name, &ret_change->state);
    else if (error)
        *error = why;
    return status == HF_OK ? error_clear(error) : status;
}

/* ---- By the name that a record has --------------------------------------------------- */

/* A key of a record, at its place. Tokens and settings are those of its namespace, so that of
 * another one takes a client of that. */
struct reach {
    struct hf_client *client, *made; /* made: for this only, or NULL */
    struct place *place;
    struct view ns, name;
};

static enum hf_status client_of(struct hf_client *client, struct reach *reach,
                                struct hf_error *error)
{
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    char ns[NAME_BYTES_MAX + 1];
    reach->client = client;
    if (view_equal(reach->ns, view_of(client->space.ns)))
        return HF_OK;
    snprintf(ns, sizeof ns, "%.*s", VIEW_ARGS(reach->ns));
    options.ns = ns;
    options.holder = client->holder;
    enum hf_status status = client_new(client->store, &options, &reach->made, error);
    if (status != HF_OK)
        return status;
    reach->made->space.settings = client->space.settings;
    reach->made->hour = client->hour;
    reach->client = reach->made;
    return HF_OK;
}

static void reach_end(struct reach *reach)
{
    if (reach->place)
        place_drop(reach->place);
    hf_client_close(reach->made);
}

static enum hf_status reach_key(struct hf_client *client, const struct txn_key *key,
                                struct reach *ret_reach, struct hf_error *error)
{
    struct reach reach = { .name = view_of(key->name) };
    char document[KEY_BYTES_MAX + 1];
    reach.ns = view_cut(&reach.name, '/');
    enum hf_status status = key_document(reach.ns, reach.name, document, error);
    if (status == HF_OK)
        status = client_of(client, &reach, error);
    if (status == HF_OK)
        status = place_take(reach.client, view_of(document), &reach.place, error);
    if (status == HF_OK)
        *ret_reach = reach;
    else
        reach_end(&reach);
    return status;
}

static enum hf_status stage_is_gone(struct hf_client *client, const struct txn_key *key,
                                    struct view txn, bool *ret_gone)
{
    struct reach reach;
    struct stage_sight sight;
    struct hf_error ignored;
    enum hf_status status = reach_key(client, key, &reach, &ignored);
    if (status != HF_OK)
        return status;
    status = stage_see(reach.place, &sight, &ignored);
    *ret_gone = status == HF_OK && !(sight.there && view_equal(view_of(sight.txn), txn));
    reach_end(&reach);
    return status;
}

enum hf_status stage_seal(struct hf_client *client, const struct txn_key *key, struct view txn,
                          struct hf_error *error)
{
    struct reach reach;
    struct stage_sight sight;
    struct change change;
    enum hf_status status = reach_key(client, key, &reach, error);
    if (status != HF_OK)
        return status;
    change_init(&change, CHANGE_SEAL);
    change.txn = txn;
    status = stage_see(reach.place, &sight, error);
    bool stands = status == HF_OK && sight.there && view_equal(view_of(sight.txn), txn) &&
                  !sight.abandoned && !sight.over;
    if (status == HF_OK && !stands)
        status = error_set(error, HF_EXPIRED, "%s is not held for it any more", key->name);
    if (status == HF_OK && RULE(SEALED_BEFORE_THE_COMMIT))
        status = change_ask(reach.place, &change, (struct mono_time){ 0 }, error);
    if (status == HF_UNSURE) /* whether it is sealed decides nothing */
        error->status = status = HF_UNAVAILABLE;
    change_release(&change);
    reach_end(&reach);
    return status;
}

/* The lease goes with the stage. */
static enum hf_status end_at(struct reach *reach, const struct stage_sight *sight, bool commit,
                             struct hf_error *error)
{
    struct request request, *requests[] = { &request };
    struct change change;
    bool leased = sight->lease[0] != '\0';
    change_init(&change, CHANGE_SETTLE);
    change.txn = view_of(sight->txn);
    change.commit = commit;
    request_init(&request, reach->place, leased ? TABLE_RELEASE : TABLE_KEEP,
                 (struct mono_time){ 0 });
    request.table.id = view_of(sight->lease);
    request.table.token = sight->token;
    request.guest = &change.guest;
    enum hf_status status = place_ask(reach->place, requests, 1);
    if (status == HF_OK)
        delete_old(reach->client, reach->ns, reach->name, &change.state);
    else
        *error = request.op.error;
    change_release(&change);
    return status;
}

enum hf_status stage_end(struct hf_client *client, const struct txn_key *key, struct view txn,
                         bool commit, struct hf_error *error)
{
    struct reach reach;
    struct stage_sight sight;
    enum hf_status status = reach_key(client, key, &reach, error);
    if (status != HF_OK)
        return status;
    status = stage_see(reach.place, &sight, error);
    if (status == HF_OK && sight.there && view_equal(view_of(sight.txn), txn))
        status = end_at(&reach, &sight, commit, error);
    if (status != HF_OK)
        error_prefix(error, "%s", key->name);
    reach_end(&reach);
    return status;
}
