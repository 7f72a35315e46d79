/* SPDX-License-Identifier: Apache-2.0 */
/* settle.c: settles the stages of transactions. A stage is promoted or discarded only after a
 * decided record has been read. If a client finds a stage whose lease has ended while the record is
 * pending, it first rolls the transaction back in the record. If a commit came first, the client
 * promotes the stage. See docs/design.md, section 9. */
#include "base/check.h"
#include "base/mutant.h"
#include "base/rule.h"
#include "key/txn_inside.h"

#include <stdio.h>

/* How many times it is tried if other stages keep appearing. */
#define SETTLE_TRIES_MAX 8

/* ---- Reading a document -------------------------------------------------------------- */

struct stage_reading {
    struct table_ref *ref;
    struct stage_info *info;
    struct hf_error error;
};

static void read_stage_body(void *argument, const void *body, const struct evidence *evidence)
{
    struct stage_reading *reading = argument;
    const struct lease_table *table = body;
    struct stage_info *info = reading->info;
    struct key_state state;
    state_init(&state);
    bool read = state_read(buffer_view(&table->state), &state, &reading->error) == HF_OK;
    if (read && state.staged && state.stage.txn[0]) {
        info->there = true;
        memcpy(info->txn, state.stage.txn, sizeof info->txn);
        info->token = state.stage.token;
        info->abandoned = stage_is_abandoned(table, &state);
        const struct lease *lease = table_find_token(table, info->token);
        struct lease_settings settings =
            lease_settings_stricter(&table->settings, &reading->ref->space->settings);
        if (lease && lease->id.size <= LEASE_ID_MAX) {
            memcpy(info->lease, lease->id.data, lease->id.size);
            info->over = lease_judge(&settings, lease, evidence) != PROOF_NONE;
        }
    }
    state_release(&state);
}

enum hf_status stage_read(struct table_ref *ref, struct stage_info *ret_info,
                          struct hf_error *error)
{
    struct stage_reading reading = { .ref = ref, .info = ret_info };
    struct mono_time deadline = client_deadline(ref->client);
    *ret_info = (struct stage_info){ .there = false };
    enum hf_status status = doc_look(ref->doc, deadline, read_stage_body, &reading, error);
    if (status == HF_NOT_FOUND)
        return HF_OK;
    if (status == HF_OK && reading.error.status != HF_OK) {
        *error = reading.error;
        status = reading.error.status;
    }
    return status;
}

/* ---- The decision -------------------------------------------------------------------- */

/* The decision, and the record that contains it, if one was read. */
struct decision {
    enum txn_state state;
    bool read;
    struct txn_record record;
    struct etag etag;
};

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

/* Rolls the transaction back in its record, unless another client has decided it meanwhile. If
 * there is no record, a mark is written, so that a begin that is still in flight fails. Otherwise
 * the begin could take effect after the stage was discarded, and the transaction could commit. */
static enum hf_status record_rollback(struct hf_client *client, struct view txn, bool absent,
                                      enum txn_state *ret_state, struct hf_error *error)
{
    struct record_op op;
    enum hf_status status = absent ? record_announce(client, txn, error) : HF_OK;
    if (status != HF_OK)
        return status;
    record_op_init(&op, RECORD_DECIDE, txn, client_deadline(client));
    op.decision = TXN_ROLLBACK;
    op.mark = true;
    status = record_change(client, &op, error);
    if (status == HF_OK)
        *ret_state = op.recorded;
    return status;
}

/* If the record is missing, another client may have settled this stage after we saw it, and the
 * record may have been purged. CONFLICT: this has happened. */
static enum hf_status check_stage_remains(struct table_ref *ref, const struct stage_info *info,
                                          struct hf_error *error)
{
    struct stage_info now;
    enum hf_status status = stage_read(ref, &now, error);
    if (status != HF_OK)
        return status;
    if (!now.there || strcmp(now.txn, info->txn) != 0)
        return error_set(error, HF_CONFLICT, "the stage has since been settled");
    return HF_OK;
}

/* Finds or makes the decision about a stage. HELD: it is pending, and the stage's lease has not
 * ended. The caller always releases the decision. */
static enum hf_status decide_stage(struct table_ref *ref, const struct stage_info *info,
                                   struct decision *decision, struct hf_error *error)
{
    struct hf_client *client = ref->client;
    struct view txn = view_of(info->txn);
    enum txn_state *state = &decision->state;
    enum hf_status status = read_decision(client, txn, decision, error);
    MUTANT(mutant_takes_pending_for_committed(state));
    bool absent = *state == TXN_ABSENT;
    if (status == HF_OK && absent)
        status = check_stage_remains(ref, info, error);
    /* The rollback is recorded before the stage is discarded. Otherwise a commit that is still in
     * flight could take effect without this key. */
    if (status == HF_OK && (absent || (*state == TXN_PENDING && info->abandoned))) {
        *state = TXN_ROLLBACK;
        if (RULE(ROLLBACK_IS_RECORDED))
            status = record_rollback(client, txn, absent, state, error);
    }
    if (status == HF_OK && *state == TXN_PENDING)
        status = error_set(error, HF_HELD,
                           "the key is taken for transaction %s, which is pending", info->txn);
    return status;
}

/* ---- Clearing records ---------------------------------------------------------------- */

/* A commit with more participants, or on a slower store, is left to the sweeper, because the
 * caller that settles a stage is waiting for something else. */
#define CLEAR_KEYS_MAX 16
#define CLEAR_TIME     SPAN_S(1)

static bool stage_is_gone(struct hf_client *client, const struct txn_key *key, struct view txn);

static bool are_stages_gone(struct hf_client *client, const struct txn_record *record)
{
    struct mono_time until = mono_add(client_now(client), CLEAR_TIME);
    if (record->key_count > CLEAR_KEYS_MAX)
        return false;
    for (size_t i = 0; i < record->key_count; i++)
        if (!mono_before(client_now(client), until) ||
            !stage_is_gone(client, &record->keys[i], view_of(record->id)))
            return false;
    return true;
}

/* Deletes the record if it is no longer needed, now that the stage for which it was read is
 * settled. */
static void clear_decision(struct hf_client *client, const struct decision *decision)
{
    const struct txn_record *record = &decision->record;
    if (!decision->read || !record_is_due(client, record))
        return;
    bool look = record->state == TXN_COMMIT && !record->applied;
    record_clear_read(client, record, &decision->etag, look && are_stages_gone(client, record));
}

/* ---- Settling ------------------------------------------------------------------------ */

static void delete_old_bodies(struct hf_client *client, struct view name,
                              const struct key_state *state)
{
    struct body_name old[STATE_OLD_MAX];
    size_t gone;
    if (state->old_count == 0)
        return;
    memcpy(old, state->old, state->old_count * sizeof *old);
    bodies_delete(client, name, old, state->old_count, &gone);
}

/* One try. CONFLICT: there is another stage by now. A stage of `enlist` itself under a lease other
 * than ours is treated like any other stage: that lease has ended, so the transaction is rolled
 * back. */
static enum hf_status settle_once(struct table_ref *ref, struct view enlist,
                                  struct change *change, struct decision *decision,
                                  struct hf_error *error)
{
    struct stage_info info;
    enum hf_status status = stage_read(ref, &info, error);
    bool own = view_equal(view_of(info.txn), enlist);
    /* In this case, the very transaction that wants the key is rolled back. Another process in it
     * may have sent a commit that relies on this stage. */
    bool over = RULE(OVER_FOR_ITS_OWN_TOO) && info.there && own && info.token != change->token;
    bool foreign = info.there && (!own || over);
    if (status == HF_OK && foreign)
        status = decide_stage(ref, &info, decision, error);
    if (status != HF_OK)
        return status;
    change->txn = foreign ? view_of(info.txn) : VIEW("");
    change->commit = decision->state == TXN_COMMIT;
    change->enlist = over ? VIEW("") : enlist;
    status = change_ask(ref, change, (struct mono_time){ 0 }, error);
    change->txn = VIEW(""); /* it pointed to our local `info` */
    struct view staged_for = view_of(change->state.staged ? change->state.stage.txn : "");
    bool taken = staged_for.size > 0 && !view_equal(staged_for, enlist);
    if ((status == HF_OK && taken) || (status == HF_HELD && change->outcome == HF_KEY_WAITING))
        return error_set(error, HF_CONFLICT, "other transactions keep taking the key");
    if (status == HF_OK)
        clear_decision(ref->client, decision);
    if (status == HF_OK && over)
        return error_set(error, HF_MISMATCH,
                         "the transaction's earlier lease on this key had ended, so the "
                         "transaction was decided: %s",
                         txn_state_name(decision->state));
    return status;
}

enum hf_status stage_settle(struct table_ref *ref, struct view name,
                            const struct stage_claim *claim, struct change *ret_change,
                            struct hf_error *error)
{
    struct hf_error why;
    enum hf_status status = HF_CONFLICT;
    change_init(ret_change, CHANGE_SETTLE);
    for (int tries = 0; tries < SETTLE_TRIES_MAX; tries++) {
        struct decision decision = { .state = TXN_ROLLBACK };
        change_release(ret_change);
        change_init(ret_change, CHANGE_SETTLE);
        ret_change->lease = claim->lease;
        ret_change->token = claim->token;
        status = settle_once(ref, claim->enlist, ret_change, &decision, &why);
        if (decision.read)
            record_release(&decision.record);
        if (status != HF_CONFLICT)
            break;
    }
    if (status == HF_HELD)
        ret_change->outcome = HF_KEY_WAITING;
    if (status == HF_OK)
        delete_old_bodies(ref->client, name, &ret_change->state);
    else if (error)
        *error = why;
    return status == HF_OK ? error_clear(error) : status;
}

/* ---- Keys named by a record ---------------------------------------------------------- */

/* A key that a record names, with its table. Tokens and settings belong to a namespace, so a key
 * in another namespace needs a client for that namespace. */
struct opened_key {
    struct hf_client *client, *made; /* `made`: created only for this key, or NULL */
    struct table_ref *ref;
    struct view name;
};

static void close_recorded_key(struct opened_key *opened)
{
    if (opened->ref)
        table_ref_drop(opened->ref);
    hf_client_close(opened->made);
}

static enum hf_status open_recorded_key(struct hf_client *client, const struct txn_key *key,
                                        struct opened_key *ret_key, struct hf_error *error)
{
    struct opened_key opened = { .client = client, .name = view_of(key->name) };
    char document[KEY_BYTES_MAX + 1];
    struct view ns = view_cut(&opened.name, '/');
    enum hf_status status = key_document(ns, opened.name, document, error);
    if (status == HF_OK && !view_equal(ns, view_of(client_ns(client)))) {
        status = client_new_beside(client, ns, &opened.made, error);
        opened.client = opened.made;
    }
    if (status == HF_OK)
        status = table_ref_take(opened.client, view_of(document), &opened.ref, error);
    if (status == HF_OK)
        *ret_key = opened;
    else
        close_recorded_key(&opened);
    return status;
}

/* Whether the key was observed to have no stage of the transaction. */
static bool stage_is_gone(struct hf_client *client, const struct txn_key *key, struct view txn)
{
    struct opened_key opened;
    struct stage_info info;
    struct hf_error ignored;
    if (open_recorded_key(client, key, &opened, &ignored) != HF_OK)
        return false;
    enum hf_status status = stage_read(opened.ref, &info, &ignored);
    close_recorded_key(&opened);
    return status == HF_OK && !(info.there && view_equal(view_of(info.txn), txn));
}

static enum hf_status seal_key(struct hf_client *client, const struct txn_key *key,
                               struct view txn, struct hf_error *error)
{
    struct opened_key opened;
    struct stage_info info;
    struct change change;
    enum hf_status status = open_recorded_key(client, key, &opened, error);
    if (status != HF_OK)
        return status;
    change_init(&change, CHANGE_SEAL);
    change.txn = txn;
    status = stage_read(opened.ref, &info, error);
    bool stands = status == HF_OK && info.there && view_equal(view_of(info.txn), txn) &&
                  !info.abandoned && !info.over;
    if (status == HF_OK && !stands)
        status =
            error_set(error, HF_EXPIRED, "%s is no longer held for the transaction", key->name);
    if (status == HF_OK && RULE(SEALED_BEFORE_THE_COMMIT))
        status = change_ask(opened.ref, &change, (struct mono_time){ 0 }, error);
    if (status == HF_UNSURE) /* an unknown seal decides nothing, so the commit is not sent */
        error->status = status = HF_UNAVAILABLE;
    change_release(&change);
    close_recorded_key(&opened);
    return status;
}

enum hf_status stages_seal(struct hf_client *client, const struct txn_key *keys, size_t count,
                           struct view txn, struct hf_error *error)
{
    for (size_t i = 0; i < count; i++) {
        enum hf_status status = seal_key(client, &keys[i], txn, error);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

/* Settles the stage and ends its lease, if it still has one, in one write. */
static enum hf_status end_stage_and_lease(struct opened_key *opened,
                                          const struct stage_info *info, bool commit,
                                          struct hf_error *error)
{
    struct request request, *requests[] = { &request };
    struct change change;
    bool leased = info->lease[0] != '\0';
    change_init(&change, CHANGE_SETTLE);
    change.txn = view_of(info->txn);
    change.commit = commit;
    request_init(&request, opened->ref, leased ? TABLE_RELEASE : TABLE_KEEP,
                 (struct mono_time){ 0 });
    request.table.id = view_of(info->lease);
    request.table.token = info->token;
    request.hook = &change.hook;
    enum hf_status status = table_ref_ask(opened->ref, requests, 1);
    if (status == HF_OK)
        delete_old_bodies(opened->client, opened->name, &change.state);
    else
        *error = request.op.error;
    change_release(&change);
    return status;
}

enum hf_status stage_end(struct hf_client *client, const struct txn_key *key, struct view txn,
                         bool commit, struct hf_error *error)
{
    struct opened_key opened;
    struct stage_info info;
    enum hf_status status = open_recorded_key(client, key, &opened, error);
    if (status != HF_OK)
        return status;
    status = stage_read(opened.ref, &info, error);
    if (status == HF_OK && info.there && view_equal(view_of(info.txn), txn))
        status = end_stage_and_lease(&opened, &info, commit, error);
    if (status != HF_OK)
        error_prefix(error, "%s", key->name);
    close_recorded_key(&opened);
    return status;
}
