/* SPDX-License-Identifier: Apache-2.0 */
/* change.c: decides whether a change to a key's state is allowed, given one body of the key's
 * document, which also contains the lease. It guards against a writer that was paused: the swap
 * that publishes is refused if the lease is no longer active, regardless of the clocks. */
#include "key/key.h"

#include "base/check.h"
#include "base/layout.h"
#include "base/mutant.h"
#include "base/rule.h"

#include <inttypes.h>
#include <stdio.h>

/* The maximum number of bytes that taking a key adds to its state: a stage without changes. */
#define TAKEN_BYTES_MAX ((size_t)128)

/* ---- Outcomes ------------------------------------------------------------------------ */

static const struct {
    enum hf_status status;
    const char *sentence;
} outcomes[HF_KEY_OUTCOME_COUNT] = {
#define OUTCOME_ROW_(name, status, sentence) [HF_KEY_##name] = { HF_##status, sentence },
    HF_KEY_OUTCOME_TABLE(OUTCOME_ROW_)
#undef OUTCOME_ROW_
};

const char *hf_key_outcome_name(enum hf_key_outcome outcome)
{
    static const char *const names[] = {
        [HF_KEY_NONE] = "none",
        [HF_KEY_LEASE_REQUIRED] = "lease_required",
        [HF_KEY_LEASE_EXPIRED] = "lease_expired",
        [HF_KEY_FENCING_MISMATCH] = "fencing_mismatch",
        [HF_KEY_VERSION_CONFLICT] = "version_conflict",
        [HF_KEY_ETAG_MISMATCH] = "etag_mismatch",
        [HF_KEY_TXN_MISMATCH] = "txn_mismatch",
        [HF_KEY_WAITING] = "waiting",
    };
    static_assert(sizeof names / sizeof *names == HF_KEY_OUTCOME_COUNT, "each has a name");
    return (unsigned)outcome < HF_KEY_OUTCOME_COUNT ? names[outcome] : "unknown";
}

enum hf_status outcome_status(enum hf_key_outcome outcome)
{
    check((unsigned)outcome < HF_KEY_OUTCOME_COUNT);
    return outcomes[outcome].status;
}

const char *outcome_sentence(enum hf_key_outcome outcome)
{
    check((unsigned)outcome < HF_KEY_OUTCOME_COUNT);
    return outcomes[outcome].sentence;
}

/* ---- Checks -------------------------------------------------------------------------- */

static bool has_stage_of(const struct key_state *state, struct view txn)
{
    return state->staged && txn.size > 0 && view_equal(view_of(state->stage.txn), txn);
}

static bool has_local_stage(const struct key_state *state)
{
    return state->staged && state->stage.txn[0] == '\0';
}

bool stage_is_abandoned(const struct lease_table *table, const struct key_state *state)
{
    return state->staged && !table_find_token(table, state->stage.token);
}

/* Whether the key was granted to another holder after this token was issued. */
static bool is_granted_since(const struct lease_table *table, uint64_t token)
{
    for (size_t i = 0; i < table->lease_count; i++)
        if (table->leases[i]->status == LEASE_ACTIVE && table->leases[i]->token > token)
            return true;
    return false;
}

/* Checks the lease in the very body that is about to be replaced. If the key has been granted to
 * another client since, that swap makes ours fail. So this check is the fence. */
static enum hf_key_outcome check_holder(const struct change *change,
                                        const struct lease_table *table,
                                        const struct evidence *evidence)
{
    if (change->lease.size == 0)
        return HF_KEY_LEASE_REQUIRED;
    const struct lease *lease = table_find(table, change->lease);
    bool over = !lease || lease->status != LEASE_ACTIVE ||
                lease_judge(&table->settings, lease, evidence) != PROOF_NONE;
    bool shared = lease && lease->wish.mode != LEASE_EXCLUSIVE;
    if (lease && lease->token != change->token)
        return HF_KEY_FENCING_MISMATCH;
    if (RULE(PUBLISH_NAMES_THE_LEASE) && over)
        return is_granted_since(table, change->token) ? HF_KEY_FENCING_MISMATCH
                                                      : HF_KEY_LEASE_EXPIRED;
    return shared ? HF_KEY_LEASE_REQUIRED : HF_KEY_NONE;
}

/* A key that is taken for a transaction can be changed only by that transaction, and only until a
 * commit is about to be sent. A transaction can change only keys that it has taken. Otherwise a
 * change could become visible after other clients have seen the commit without it. */
static enum hf_key_outcome check_stage(const struct change *change)
{
    const struct state_stage *stage = &change->state.stage;
    bool refused;
    if (!change->state.staged || has_local_stage(&change->state))
        refused = RULE(TAKEN_UNTIL_DECIDED) && change->txn.size > 0;
    else if (stage->token != change->token)
        refused = RULE(STAGE_LOCKS_THE_KEY);
    else
        refused = !has_stage_of(&change->state, change->txn) || stage->sealed;
    return refused ? HF_KEY_TXN_MISMATCH : HF_KEY_NONE;
}

/* The version that the key's holder sees: the staged version or, if there is none, the published
 * one. */
static const struct state_version *seen_by_holder(const struct change *change)
{
    bool own = change->state.staged && change->state.stage.token == change->token;
    return state_shown(&change->state, /* committed */ own);
}

static enum hf_status refuse_change(struct change *change, enum hf_key_outcome outcome,
                                    struct hf_error *error)
{
    uint64_t number = seen_by_holder(change)->number;
    change->outcome = outcome;
    if (outcome == HF_KEY_VERSION_CONFLICT && change->if_version_set && number == 0)
        return error_set(error, outcomes[outcome].status,
                         "the key was never written, so it does not have version %" PRIu64,
                         change->if_version);
    if (outcome == HF_KEY_VERSION_CONFLICT && change->if_version_set)
        return error_set(error, outcomes[outcome].status,
                         "the key has version %" PRIu64 ", not %" PRIu64, number,
                         change->if_version);
    return error_set(error, outcomes[outcome].status, "%s", outcomes[outcome].sentence);
}

/* Checks the caller's conditions on the version that it sees. */
static enum hf_status check_conditions(struct change *change, struct hf_error *error)
{
    enum hf_key_outcome outcome = HF_KEY_NONE;
    const struct state_version *seen = seen_by_holder(change);
    bool conditional = change->if_version_set || change->if_etag.size > 0;
    /* If the state was lost, no condition on it can be checked. */
    if (conditional && change->state.lost && seen == &change->state.now)
        return error_set(error, HF_CORRUPT,
                         "the document of this key was damaged, so its version is unknown; a "
                         "copy is kept under " LAYOUT_KEPT_FOLDER);
    bool holds_nothing = seen->number == 0 || seen->removed;
    bool same_version =
        change->if_version == seen->number || (change->if_version == 0 && holds_nothing);
    if (change->if_version_set && !same_version)
        outcome = HF_KEY_VERSION_CONFLICT;
    else if (change->if_etag.size > 0 && !view_equal(change->if_etag, view_of(seen->etag)))
        outcome = HF_KEY_ETAG_MISMATCH;
    return outcome == HF_KEY_NONE ? HF_OK : refuse_change(change, outcome, error);
}

/* The checks that publishing and staging have in common. */
static enum hf_status check_change(struct change *change, const struct lease_table *table,
                                   const struct evidence *evidence, struct hf_error *error)
{
    enum hf_key_outcome outcome = check_holder(change, table, evidence);
    if (outcome == HF_KEY_NONE)
        outcome = check_stage(change);
    return outcome == HF_KEY_NONE ? check_conditions(change, error)
                                  : refuse_change(change, outcome, error);
}

/* So many waiters are looked at. If there are more, the key is acquired, which removes the dead. */
#define DEAD_WAITERS_MAX 16

/* Whether a client may be waiting for the key. */
static bool has_waiter(const struct change *change, const struct lease_table *table)
{
    if (!change->gone || table->waiter_count > DEAD_WAITERS_MAX)
        return table->waiter_count > 0;
    for (size_t i = 0; i < table->waiter_count; i++)
        if (!change->gone(change->gone_argument, &table->waiters[i].wanted->asked))
            return true;
    return false;
}

/* Whether a change without a lease may take effect in this body. A lease that has ended counts as
 * long as it is marked active: only a swap that ends it fences its holder, and the next client that
 * acquires the key makes that swap. A client in the queue comes first. */
static enum hf_key_outcome check_free(const struct change *change,
                                      const struct lease_table *table)
{
    bool leased = false;
    for (size_t i = 0; i < table->lease_count; i++)
        leased = leased || table->leases[i]->status == LEASE_ACTIVE;
    if (RULE(ONCE_NEEDS_NO_HOLDER) && leased)
        return HF_KEY_WAITING;
    if (RULE(ONCE_LETS_WAITERS_FIRST) && has_waiter(change, table))
        return HF_KEY_WAITING;
    if (RULE(ONCE_SPARES_STAGES) && change->state.staged)
        return HF_KEY_WAITING;
    /* A table that is new or of another program, or whose tokens are exhausted, is prepared by the
     * next acquire. */
    bool has_token = !table->adopted && !table->damaged && table->next_token > 0 &&
                     (table->next_token & UINT32_MAX) != UINT32_MAX;
    return has_token ? HF_KEY_NONE : HF_KEY_WAITING;
}

/* ---- Applying it --------------------------------------------------------------------- */

/* Each of these functions changes change->state, and sets *moved if the state must be written. */

static struct state_version version_of(const struct change *change,
                                       const struct evidence *evidence)
{
    struct state_version version = *change->version;
    check(version.token == change->token);
    if (version.at.us == 0)
        version.at = evidence->wall;
    return version;
}

/* An attempt that got no reply may have been published, and then superseded by another process
 * with the same lease, which deleted its body. If it were repeated, an overwritten version would
 * come back without its body. So it is repeated only if the version number shows that it was not
 * published. */
static enum hf_status publish_version(struct change *change, const struct lease_table *table,
                                      const struct evidence *evidence, bool *moved,
                                      struct hf_error *error)
{
    struct key_state *state = &change->state;
    struct state_version version = version_of(change, evidence);
    change->already = strcmp(state->now.etag, version.etag) == 0;
    if (change->already)
        return HF_OK;
    enum hf_status status = check_change(change, table, evidence, error);
    if (status == HF_OK && change->number > 0 && state->now.number > change->number)
        status = refuse_change(change, HF_KEY_VERSION_CONFLICT, error);
    if (status != HF_OK)
        return status;
    if (state->staged) /* staged earlier under the same lease, and replaced by this version */
        state_discard(state);
    state_publish(state, &version);
    *moved = true;
    return HF_OK;
}

/* The same without a lease. The version takes the table's next token, so it is fenced like any
 * other: a client that was granted the key earlier has a lower token. */
static enum hf_status publish_once(struct change *change, const struct lease_table *table,
                                   const struct evidence *evidence, bool *moved,
                                   struct hf_error *error)
{
    struct key_state *state = &change->state;
    struct state_version version = *change->version;
    change->already = strcmp(state->now.etag, version.etag) == 0;
    if (change->already)
        return HF_OK;
    enum hf_key_outcome outcome = check_free(change, table);
    /* The name of a body contains the token that its writer expected. Under any other token, the
     * sweeper may have deleted the body. */
    bool other_token = version.has_body && version.token != table->next_token;
    if (RULE(ONCE_BODY_HAS_THE_TOKEN) && other_token)
        outcome = HF_KEY_WAITING;
    if (outcome != HF_KEY_NONE)
        return refuse_change(change, outcome, error);
    enum hf_status status = check_conditions(change, error);
    bool may_be_gone = change->number > 0 && state->now.number > change->number &&
                       !state_shows_other(state, change->number, version.etag);
    if (status == HF_OK && RULE(ONCE_IS_NOT_REPEATED) && may_be_gone)
        status = refuse_change(change, HF_KEY_VERSION_CONFLICT, error);
    if (status != HF_OK)
        return status;
    if (!version.has_body)
        version.token = table->next_token;
    if (version.at.us == 0)
        version.at = evidence->wall;
    if (change->remembers)
        state_remember(state);
    state_publish(state, &version);
    *moved = true;
    return HF_OK;
}

static void copy_txn(struct state_stage *stage, struct view txn)
{
    check(txn.size == 0 || txn.size == TXN_ID_SIZE);
    if (txn.size > 0)
        memcpy(stage->txn, txn.data, txn.size);
}

/* As in publish_version, an attempt that may have been staged, and then replaced or published, is
 * not repeated. */
static enum hf_status stage_version(struct change *change, const struct lease_table *table,
                                    const struct evidence *evidence, bool *moved,
                                    struct hf_error *error)
{
    struct key_state *state = &change->state;
    struct state_stage put = { .token = change->token,
                               .changes = true,
                               .next = version_of(change, evidence) };
    change->already = state->staged && state->stage.changes &&
                      strcmp(state->stage.next.etag, put.next.etag) == 0;
    if (change->already)
        return HF_OK;
    const char *over = state->staged && state->stage.changes ? state->stage.next.etag : "";
    enum hf_status status = check_change(change, table, evidence, error);
    bool same = strcmp(over, change->over) == 0 && state->now.number < change->number;
    if (status == HF_OK && change->number > 0 && !same)
        status = refuse_change(change, HF_KEY_VERSION_CONFLICT, error);
    if (status != HF_OK)
        return status;
    snprintf(change->over, sizeof change->over, "%s", over);
    copy_txn(&put, change->txn);
    if (has_stage_of(state, change->txn))
        put.unknown = state->stage.unknown;
    state_set_stage(state, &put);
    *moved = true;
    return HF_OK;
}

/* When a process commits for others, this swap makes their pending changes fail. So the process
 * commits exactly the stages that it has seen here. */
static enum hf_status seal_stage(struct change *change, const struct lease_table *table,
                                 const struct evidence *evidence, bool *moved,
                                 struct hf_error *error)
{
    struct key_state *state = &change->state;
    change->found = has_stage_of(state, change->txn);
    const struct lease *lease =
        change->found ? table_find_token(table, state->stage.token) : NULL;
    if (!lease || lease_judge(&table->settings, lease, evidence) != PROOF_NONE)
        return refuse_change(change, HF_KEY_LEASE_EXPIRED, error);
    change->already = state->stage.sealed;
    *moved = !state->stage.sealed;
    state->stage.sealed = true;
    return HF_OK;
}

/* Takes the key for a transaction: a stage without changes. */
static void take_for_txn(struct key_state *state, struct view txn, uint64_t token)
{
    struct state_stage put = { .token = token };
    copy_txn(&put, txn);
    state_set_stage(state, &put);
}

/* Nobody was told that the key is taken, so nobody relies on its stage. */
static void undo_taking(struct change *change, const struct lease_table *table, bool *moved)
{
    struct key_state *state = &change->state;
    const struct lease *lease = table_find(table, change->lease);
    change->found = has_stage_of(state, change->txn) && !state->stage.changes &&
                    !state->stage.sealed && lease && lease->token == state->stage.token;
    if (!change->found)
        return;
    state_discard(state);
    *moved = true;
}

static enum hf_status settle_stage(struct change *change, const struct lease_table *table,
                                   const struct evidence *evidence, bool *moved,
                                   struct hf_error *error)
{
    struct key_state *state = &change->state;
    bool enlists = change->enlist.size > 0;
    MUTANT(mutant_takes_up_own_stage(state, change->enlist, change->token, moved));
    bool of_other_txn = RULE(SETTLE_NAMES_THE_TXN) && !has_stage_of(state, change->txn);
    /* While the transaction is pending, `under` is set. A sealed stage is then left alone, because
     * a commit may rely on it. So is a stage with another token: after a lost reply, another
     * process of the transaction may have taken the key. */
    bool own = state->stage.token == change->under && !state->stage.sealed;
    bool of_other_process = RULE(GIVES_BACK_ITS_OWN) && change->under != 0 && !own;
    change->found = state->staged && change->txn.size > 0 && !of_other_txn && !of_other_process;
    change->already = !change->found;
    enum hf_key_outcome outcome = enlists ? check_holder(change, table, evidence) : HF_KEY_NONE;
    bool of_others = state->staged && !change->found && !has_local_stage(state);
    bool ours = has_stage_of(state, change->enlist) && state->stage.token == change->token;
    if (outcome == HF_KEY_NONE && enlists && of_others && !ours)
        outcome = HF_KEY_WAITING;
    if (outcome != HF_KEY_NONE)
        return refuse_change(change, outcome, error);
    if (change->found && change->commit)
        state_promote(state);
    else if (change->found)
        state_discard(state);
    bool takes = RULE(TAKEN_UNTIL_DECIDED) && enlists && !has_stage_of(state, change->enlist);
    if (takes)
        take_for_txn(state, change->enlist, change->token);
    *moved = *moved || change->found || takes;
    return HF_OK;
}

/* Commits the stage in the step that decides the transaction. Nobody can have settled it, because
 * the record is pending in the same step. */
static enum hf_status commit_stage(struct change *change, const struct lease_table *table,
                                   const struct evidence *evidence, bool *moved,
                                   struct hf_error *error)
{
    struct key_state *state = &change->state;
    enum hf_key_outcome outcome = check_holder(change, table, evidence);
    change->found = has_stage_of(state, change->txn) && state->stage.token == change->token;
    if (outcome == HF_KEY_NONE && !change->found)
        outcome = HF_KEY_TXN_MISMATCH;
    if (outcome != HF_KEY_NONE)
        return refuse_change(change, outcome, error);
    if (change->version) {
        struct state_stage put = state->stage;
        put.changes = true;
        put.next = version_of(change, evidence);
        state_set_stage(state, &put);
    }
    state_promote(state);
    *moved = true;
    return HF_OK;
}

/* The lease ends regardless of what happens to its stage, so this never refuses. The stage that an
 * attempt found is remembered in `over`, because another process with the same lease may end the
 * lease before that attempt takes effect. */
static void finish_stage(struct change *change, const struct lease_table *table,
                         const struct evidence *evidence, bool *moved)
{
    struct key_state *state = &change->state;
    change->found = has_local_stage(state) && state->stage.token == change->token;
    const char *own = change->version ? change->version->etag : change->over;
    change->already = !change->found && own[0] && strcmp(state->now.etag, own) == 0;
    if (change->found && state->stage.changes)
        snprintf(change->over, sizeof change->over, "%s", state->stage.next.etag);
    if (change->found || (change->version && !change->already))
        change->outcome = change->commit ? check_holder(change, table, evidence) : HF_KEY_NONE;
    if (!change->found)
        return;
    if (change->commit && change->outcome == HF_KEY_NONE)
        state_promote(state);
    else
        state_discard(state);
    *moved = true;
}

/* ---- As a hook of the table ---------------------------------------------------------- */

static void note_active_lease(struct change *change, const struct lease_table *table)
{
    change->abandoned = stage_is_abandoned(table, &change->state);
    change->blocker = 0;
    for (size_t i = 0; i < table->lease_count; i++)
        if (table->leases[i]->status == LEASE_ACTIVE) {
            change->blocker = table->leases[i]->token;
            break;
        }
}

/* Writes the state into change->text, and ensures that both the table and the text have room for
 * `extra` more bytes. Changes nothing else. */
static enum hf_status write_state(struct change *change, struct lease_table *table,
                                  size_t extra, struct hf_error *error)
{
    struct buffer *text = &change->text, *kept = &table->state;
    buffer_clear(text);
    if (state_write(&change->state, text) && buffer_reserve(text, extra)) {
        size_t size = text->size + extra;
        if (size <= kept->size || buffer_reserve(kept, size - kept->size))
            return HF_OK;
        kept->failed = false; /* the table stays usable */
    }
    return error_set(error, HF_UNAVAILABLE,
                     "out of memory, or the state is too large for its document");
}

/* The step after the leases have changed must not fail, because the leases could not be changed
 * back. So its memory is reserved in advance. */
static size_t room_for_after(const struct change *change)
{
    bool takes = change->kind == CHANGE_ENLIST && change->txn.size > 0;
    bool clears = change->kind == CHANGE_ENLIST || change->kind == CHANGE_TIDY;
    return takes || (clears && has_local_stage(&change->state)) ? TAKEN_BYTES_MAX : 0;
}

static enum hf_status apply_kind(struct change *change, const struct lease_table *table,
                                 const struct evidence *evidence, bool *moved,
                                 struct hf_error *error)
{
    switch (change->kind) {
    case CHANGE_PUBLISH: return publish_version(change, table, evidence, moved, error);
    case CHANGE_ONCE: return publish_once(change, table, evidence, moved, error);
    case CHANGE_STAGE: return stage_version(change, table, evidence, moved, error);
    case CHANGE_SEAL: return seal_stage(change, table, evidence, moved, error);
    case CHANGE_SETTLE: return settle_stage(change, table, evidence, moved, error);
    case CHANGE_UNDO: undo_taking(change, table, moved); return HF_OK;
    case CHANGE_COMMIT: return commit_stage(change, table, evidence, moved, error);
    case CHANGE_FINISH: finish_stage(change, table, evidence, moved); return HF_OK;
    case CHANGE_LOOK:
    case CHANGE_ENLIST:
    case CHANGE_TIDY:
    case CHANGE_FORGET:
    case CHANGE_MEND: return HF_OK;
    }
    check_unreachable();
}

static enum hf_status apply_to_state(struct change *change, struct lease_table *table,
                                     const struct evidence *evidence, bool *moved,
                                     struct hf_error *error)
{
    enum hf_status status = state_read(buffer_view(&table->state), &change->state, error);
    if (status == HF_CORRUPT && change->kind == CHANGE_MEND) {
        change->state.lost = *moved = true;
        status = HF_OK;
    }
    if (status == HF_OK)
        status = apply_kind(change, table, evidence, moved, error);
    if (status != HF_OK)
        return status;
    if (*moved)
        change->number = change->kind == CHANGE_STAGE ? change->state.stage.next.number
                                                      : change->state.now.number;
    /* An operation that finds its own effect must not change anything else, because it would then
     * need another write and could fail. */
    bool again = change->already && !*moved && (change->version || change->over[0]);
    if (!again && state_forget_old(&change->state, change->old, change->old_count))
        *moved = true;
    size_t extra = room_for_after(change);
    if (*moved || extra > 0)
        status = write_state(change, table, extra, error);
    if (status == HF_OK && *moved)
        table_set_state(table, buffer_view(&change->text));
    if (RULE(ONCE_TAKES_A_TOKEN) && status == HF_OK && *moved && change->kind == CHANGE_ONCE &&
        !change->already)
        table->next_token++;
    return status;
}

static enum hf_status change_before(struct table_hook *hook, struct lease_table *table,
                                    const struct evidence *evidence, bool *changed,
                                    struct hf_error *error)
{
    struct change *change = (struct change *)(void *)hook;
    bool moved = false;
    change->before.number = change->number;
    memcpy(change->before.over, change->over, sizeof change->over);
    change->outcome = HF_KEY_NONE;
    change->already = change->found = false;
    enum hf_status status = apply_to_state(change, table, evidence, &moved, error);
    change->refused = status != HF_OK;
    note_active_lease(change, table);
    *changed = moved && status == HF_OK;
    return status;
}

static void change_after(struct table_hook *hook, struct lease_table *table,
                         const struct table_op *op, bool *changed)
{
    struct change *change = (struct change *)(void *)hook;
    struct key_state *state = &change->state;
    /* A request that got no reply may find a grant of its own that has ended since. */
    bool granted = change->kind == CHANGE_ENLIST && op->outcome == TABLE_GRANTED &&
                   table_find_token(table, op->granted);
    bool moved = false;
    if ((granted || change->kind == CHANGE_TIDY) && has_local_stage(state) &&
        stage_is_abandoned(table, state)) {
        state_discard(state);
        moved = true;
    }
    /* A stage of the same transaction under a lease that has ended is not taken over. The process
     * that held that lease may have sent a commit that relies on the stage. */
    if (granted)
        MUTANT(mutant_takes_up_own_stage(state, change->txn, op->granted, &moved));
    if (RULE(TAKEN_UNTIL_DECIDED) && granted && change->txn.size > 0 && !state->staged) {
        take_for_txn(state, change->txn, op->granted);
        moved = true;
    }
    if (moved) {
        check(write_state(change, table, /* extra */ 0, NULL) == HF_OK);
        table_set_state(table, buffer_view(&change->text));
        *changed = true;
    }
    note_active_lease(change, table);
}

static void change_unsent(struct table_hook *hook)
{
    struct change *change = (struct change *)(void *)hook;
    change->number = change->before.number;
    memcpy(change->over, change->before.over, sizeof change->over);
}

/* A server has granted the key, and says which version it has. */
static void change_granted(struct table_hook *hook, const struct server_grant *grant)
{
    struct change *change = (struct change *)(void *)hook;
    struct state_version now = { .number = grant->version };
    struct view etag = view_first(grant->etag, NONCE_SIZE);
    memcpy(now.etag, etag.data, etag.size);
    change->state.now = now;
    if (change->txn.size > 0)
        take_for_txn(&change->state, change->txn, grant->token);
}

void change_init(struct change *change, enum change_kind kind)
{
    *change = (struct change){ .hook = { .before = change_before,
                                         .after = change_after,
                                         .unsent = change_unsent,
                                         .granted = change_granted },
                               .kind = kind,
                               .text = BUFFER_INIT(TABLE_STATE_MAX) };
    state_init(&change->state);
}

void change_release(struct change *change)
{
    state_release(&change->state);
    buffer_release(&change->text);
}

/* ---- Asking -------------------------------------------------------------------------- */

/* Whether none of the change's attempts was or will be published. This is so if the body differs
 * from the one that they were based on, and its version number is not beyond the number that the
 * last attempt would have had, or another version has that number. A dropped stage was never
 * visible. */
static bool is_not_done(const struct change *change)
{
    const struct key_state *state = &change->state;
    bool numbered = change->kind == CHANGE_PUBLISH || change->kind == CHANGE_ONCE ||
                    change->kind == CHANGE_STAGE;
    if (!numbered || state->lost || strcmp(state->now.etag, change->version->etag) == 0)
        return false;
    bool may_be_its_own = RULE(ONCE_REFUSED_IF_NOT_MADE) &&
                          !state_shows_other(state, change->number, change->version->etag);
    return state->now.number <= change->number ||
           (change->kind == CHANGE_ONCE && change->number > 0 && !may_be_its_own);
}

enum hf_status change_ask(struct table_ref *ref, struct change *change,
                          struct mono_time deadline, struct hf_error *error)
{
    struct request request;
    if (client_server(ref->client))
        return client_server(ref->client)->change(ref, change, deadline, error);
    request_init(&request, ref, TABLE_KEEP, deadline);
    request.hook = &change->hook;
    enum hf_status status = table_ref_ask(ref, (struct request *[]){ &request }, 1);
    if (status == HF_OK)
        return HF_OK;
    bool judged = status != HF_UNAVAILABLE; /* UNAVAILABLE: refused only for lack of memory */
    /* The refusal says nothing about an earlier attempt that may have taken effect. */
    if (change->refused && request.op.doubt != DOC_DOUBT_NONE &&
        !(judged && is_not_done(change)))
        status = error_set(error, HF_UNSURE,
                           "the change may have taken effect before this failure: %s",
                           request.op.error.why);
    else if (error)
        *error = request.op.error;
    return status;
}

/* ---- Checking only ------------------------------------------------------------------- */

/* A change is checked in the document that this process has just read or written, if that was no
 * longer ago. While the lease is active, nobody else changes what the answer depends on; a lease
 * that was broken since is noticed when the change is written. */
#define CHECK_AGE_MAX SPAN_MS(10)

struct checking {
    struct change *change;
    const struct state_version *kept;
    struct hf_error error;
};

/* Like change_before, without changing the table. */
static void check_in_body(void *argument, const void *body, const struct evidence *evidence)
{
    struct checking *checking = argument;
    struct change *change = checking->change;
    const struct lease_table *table = body;
    struct hf_error *error = &checking->error;
    bool moved = false;
    change->outcome = HF_KEY_NONE;
    change->already = change->found = false;
    enum hf_status status = state_read(buffer_view(&table->state), &change->state, error);
    if (status == HF_OK && checking->kept && has_stage_of(&change->state, change->txn)) {
        struct state_stage put = change->state.stage;
        put.changes = true;
        put.next = *checking->kept;
        state_set_stage(&change->state, &put);
    }
    if (status == HF_OK)
        status = apply_kind(change, table, evidence, &moved, error);
    buffer_clear(&change->text);
    if (status == HF_OK && !state_write(&change->state, &change->text))
        status = error_set(error, HF_UNAVAILABLE,
                           "out of memory, or the state is too large for its document");
    change->refused = status != HF_OK;
    note_active_lease(change, table);
}

enum hf_status change_check(struct table_ref *ref, struct change *change,
                            const struct state_version *kept, struct hf_error *error)
{
    struct checking checking = { .change = change, .kept = kept };
    if (doc_recall(ref->doc, CHECK_AGE_MAX, check_in_body, &checking) &&
        checking.error.status == HF_OK)
        return HF_OK;
    /* A refusal must not be based on what may be outdated. */
    state_release(&change->state);
    checking.error = (struct hf_error){ HF_OK, "" };
    enum hf_status status =
        doc_look(ref->doc, client_deadline(ref->client), check_in_body, &checking, error);
    if (status == HF_OK && checking.error.status != HF_OK) {
        *error = checking.error;
        status = checking.error.status;
    }
    return status;
}

/* ---- Keys ---------------------------------------------------------------------------- */

enum hf_status key_document(struct view ns, struct view name, char ret_key[KEY_BYTES_MAX + 1],
                            struct hf_error *error)
{
    enum hf_status status = name_check(name, error);
    if (status != HF_OK)
        return status;
    int size = snprintf(ret_key, KEY_BYTES_MAX + 1, "%.*s" LAYOUT_META_FOLDER "%.*s.json",
                        VIEW_ARGS(ns), VIEW_ARGS(name));
    if (size < 0 || size > KEY_BYTES_MAX)
        return error_set(error, HF_INVALID, "the name is too long for a key");
    return HF_OK;
}

bool key_body_key(struct view ns, struct view name, const struct body_name *body,
                  char ret_key[KEY_BYTES_MAX + 1])
{
    char text[BODY_NAME_MAX + 1];
    int size = snprintf(ret_key, KEY_BYTES_MAX + 1, "%.*s" LAYOUT_STATE_FOLDER "%.*s/%s",
                        VIEW_ARGS(ns), VIEW_ARGS(name), body_name_text(body, text));
    return size > 0 && size <= KEY_BYTES_MAX;
}
