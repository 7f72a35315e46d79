/* change.c: whether a change of a key's state may happen, and what comes of it, on one body of its
 * document; and asking for it. */
#include "key/key.h"

#include "base/check.h"
#include "base/layout.h"
#include "base/rule.h"

#include <inttypes.h>
#include <stdio.h>

/* What taking a key adds to its state, at most: a stage without changes. */
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

/* ---- Whether it may happen ----------------------------------------------------------- */

static bool is_of(const struct key_state *state, struct view txn)
{
    return state->staged && txn.size > 0 && view_equal(view_of(state->stage.txn), txn);
}

static bool is_local(const struct key_state *state)
{
    return state->staged && state->stage.txn[0] == '\0';
}

bool stage_is_abandoned(const struct lease_table *table, const struct key_state *state)
{
    return state->staged && !table_find_token(table, state->stage.token);
}

/* Whether somebody holds the key who was granted it after this token. */
static bool is_granted_since(const struct lease_table *table, uint64_t token)
{
    for (size_t i = 0; i < table->lease_count; i++)
        if (table->leases[i]->status == LEASE_ACTIVE && table->leases[i]->token > token)
            return true;
    return false;
}

/* The lease stands in the same body that is going to be written: that is the fence. */
static enum hf_key_outcome check_holder(const struct change *change,
                                        const struct lease_table *table,
                                        const struct evidence *evidence)
{
    if (!RULE(PUBLISH_NAMES_THE_LEASE))
        return HF_KEY_NONE;
    if (change->lease.size == 0)
        return HF_KEY_LEASE_REQUIRED;
    const struct lease *lease = table_find(table, change->lease);
    if (lease && lease->token != change->token)
        return HF_KEY_FENCING_MISMATCH;
    if (!lease || lease->status != LEASE_ACTIVE ||
        lease_judge(&table->settings, lease, evidence) != PROOF_NONE)
        return is_granted_since(table, change->token) ? HF_KEY_FENCING_MISMATCH
                                                      : HF_KEY_LEASE_EXPIRED;
    return lease->mode == LEASE_EXCLUSIVE ? HF_KEY_NONE : HF_KEY_LEASE_REQUIRED;
}

/* A key that is taken for a transaction is changed by it alone, until that is decided, or about to
 * be; and a transaction changes only what it has taken. */
static enum hf_key_outcome check_stage(const struct change *change)
{
    const struct state_stage *stage = &change->state.stage;
    bool allowed;
    if (!change->state.staged || is_local(&change->state))
        allowed = change->txn.size == 0 || !RULE(TAKEN_UNTIL_DECIDED);
    else if (stage->token != change->token)
        allowed = !RULE(STAGE_LOCKS_THE_KEY);
    else
        allowed = is_of(&change->state, change->txn) && !stage->sealed;
    return allowed ? HF_KEY_NONE : HF_KEY_TXN_MISMATCH;
}

/* The version as its holder sees it: what it has staged, else what is published. */
static const struct state_version *seen_by_holder(const struct change *change)
{
    bool own = change->state.staged && change->state.stage.token == change->token;
    return state_shown(&change->state, /* committed */ own);
}

static enum hf_key_outcome check_conditions(const struct change *change)
{
    const struct state_version *seen = seen_by_holder(change);
    bool holds_nothing = seen->number == 0 || seen->removed;
    if (change->if_version_set && change->if_version != seen->number &&
        !(change->if_version == 0 && holds_nothing))
        return HF_KEY_VERSION_CONFLICT;
    if (change->if_etag.size > 0 && !view_equal(change->if_etag, view_of(seen->etag)))
        return HF_KEY_ETAG_MISMATCH;
    return HF_KEY_NONE;
}

static enum hf_status refuse(struct change *change, enum hf_key_outcome outcome,
                             struct hf_error *error)
{
    change->outcome = outcome;
    if (outcome == HF_KEY_VERSION_CONFLICT && change->if_version_set)
        return error_set(error, outcomes[outcome].status,
                         "the key has version %" PRIu64 ", not %" PRIu64,
                         seen_by_holder(change)->number, change->if_version);
    return error_set(error, outcomes[outcome].status, "%s", outcomes[outcome].sentence);
}

/* Of what was lost nobody can say that it is what a condition names. */
static bool is_condition_lost(const struct change *change)
{
    bool own = change->state.staged && change->state.stage.token == change->token;
    return change->state.lost && !(own && change->state.stage.changes) &&
           (change->if_version_set || change->if_etag.size > 0);
}

/* What both ways to change the state need. */
static enum hf_status check_change(struct change *change, const struct lease_table *table,
                                   const struct evidence *evidence, struct hf_error *error)
{
    enum hf_key_outcome outcome = check_holder(change, table, evidence);
    if (outcome == HF_KEY_NONE)
        outcome = check_stage(change);
    if (outcome == HF_KEY_NONE && is_condition_lost(change))
        return error_set(error, HF_CORRUPT,
                         "the document of this key was damaged, so its version is not known; "
                         "its bytes are kept under " LAYOUT_KEPT_FOLDER);
    if (outcome == HF_KEY_NONE)
        outcome = check_conditions(change);
    return outcome == HF_KEY_NONE ? HF_OK : refuse(change, outcome, error);
}

/* ---- What comes of it ---------------------------------------------------------------- */

/* Each applies to change->state and notes in *moved whether that is to be written. */

static struct state_version version_of(const struct change *change,
                                       const struct evidence *evidence)
{
    struct state_version version = *change->version;
    check(version.token == change->token);
    if (version.at.us == 0)
        version.at = evidence->wall;
    return version;
}

/* An attempt without an answer may have been published, and superseded by whoever shares the lease,
 * who has deleted its body then: as long as the number tells that it was not, it is made again. */
static enum hf_status publish(struct change *change, const struct lease_table *table,
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
        status = refuse(change, HF_KEY_VERSION_CONFLICT, error);
    if (status != HF_OK)
        return status;
    if (state->staged) /* an earlier one of the same lease, which this supersedes */
        state_discard(state);
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

/* As above, an attempt that may have been staged, and staged or published over, is not made
 * again. */
static enum hf_status stage(struct change *change, const struct lease_table *table,
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
        status = refuse(change, HF_KEY_VERSION_CONFLICT, error);
    if (status != HF_OK)
        return status;
    snprintf(change->over, sizeof change->over, "%s", over);
    copy_txn(&put, change->txn);
    if (is_of(state, change->txn))
        put.unknown = state->stage.unknown;
    state_set_stage(state, &put);
    *moved = true;
    return HF_OK;
}

/* By this swap who commits for others shuts out what they may still have under way: what it commits
 * is what it has seen here. */
static enum hf_status seal(struct change *change, const struct lease_table *table,
                           const struct evidence *evidence, bool *moved, struct hf_error *error)
{
    struct key_state *state = &change->state;
    change->found = is_of(state, change->txn);
    const struct lease *lease =
        change->found ? table_find_token(table, state->stage.token) : NULL;
    if (!lease || lease_judge(&table->settings, lease, evidence) != PROOF_NONE)
        return refuse(change, HF_KEY_LEASE_EXPIRED, error);
    change->already = state->stage.sealed;
    *moved = !state->stage.sealed;
    state->stage.sealed = true;
    return HF_OK;
}

/* Takes the key for a transaction, unless it has it. */
static bool take_for(struct key_state *state, struct view txn, uint64_t token)
{
    struct state_stage put = { .token = token };
    if (!RULE(TAKEN_UNTIL_DECIDED) || (is_of(state, txn) && state->stage.token == token))
        return false;
    if (is_of(state, txn) && !RULE(OVER_FOR_ITS_OWN_TOO)) {
        state->stage.token = token;
        return true;
    }
    copy_txn(&put, txn);
    state_set_stage(state, &put);
    return true;
}

static enum hf_status settle(struct change *change, const struct lease_table *table,
                             const struct evidence *evidence, bool *moved,
                             struct hf_error *error)
{
    struct key_state *state = &change->state;
    bool enlists = change->enlist.size > 0;
    /* While it is pending: what is sealed is left to the decision, which counts on it. */
    bool own = state->stage.token == change->under && !state->stage.sealed;
    bool meant = change->under == 0 || own || !RULE(GIVES_BACK_ITS_OWN);
    bool named = is_of(state, change->txn) ||
                 (!RULE(SETTLE_NAMES_THE_TXN) && state->staged && change->txn.size > 0);
    change->found = named && meant;
    change->already = !change->found;
    enum hf_key_outcome outcome = enlists ? check_holder(change, table, evidence) : HF_KEY_NONE;
    bool of_others = state->staged && !change->found && !is_local(state);
    bool ours = is_of(state, change->enlist) &&
                (state->stage.token == change->token || !RULE(OVER_FOR_ITS_OWN_TOO));
    if (outcome == HF_KEY_NONE && enlists && of_others && !ours)
        outcome = HF_KEY_WAITING;
    if (outcome != HF_KEY_NONE)
        return refuse(change, outcome, error);
    if (change->found && change->commit)
        state_promote(state);
    else if (change->found)
        state_discard(state);
    *moved = change->found;
    if (enlists && take_for(state, change->enlist, change->token))
        *moved = true;
    return HF_OK;
}

/* The lease ends whatever comes of what it has staged, so this never refuses. What an attempt has
 * found staged is remembered: another who shares the lease may have ended it before that landed. */
static void finish(struct change *change, const struct lease_table *table,
                   const struct evidence *evidence, bool *moved)
{
    struct key_state *state = &change->state;
    change->found = is_local(state) && state->stage.token == change->token;
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

/* ---- As a guest of the table --------------------------------------------------------- */

static void note(struct change *change, const struct lease_table *table)
{
    change->abandoned = stage_is_abandoned(table, &change->state);
    change->blocker = 0;
    for (size_t i = 0; i < table->lease_count && change->blocker == 0; i++)
        if (table->leases[i]->status == LEASE_ACTIVE)
            change->blocker = table->leases[i]->token;
}

/* A failure is not the table's: that may go on as it is. */
static bool reserve_in_table(struct lease_table *table, size_t size)
{
    struct buffer *state = &table->state;
    if (size <= state->size || buffer_reserve(state, size - state->size))
        return true;
    state->failed = false;
    return false;
}

/* Writes it into change->text, and makes sure that the table, and that text, have room for so much
 * more. Nothing is changed yet. */
static enum hf_status write_state(struct change *change, struct lease_table *table,
                                  size_t extra, struct hf_error *error)
{
    struct buffer *text = &change->text;
    buffer_clear(text);
    if (state_write(&change->state, text) && buffer_reserve(text, extra) &&
        reserve_in_table(table, text->size + extra))
        return HF_OK;
    return error_set(error, HF_UNAVAILABLE,
                     "out of memory, or the state does not fit into its document");
}

/* What comes after the leases have moved cannot fail: what it will need is made sure of before. */
static size_t room_for_after(const struct change *change)
{
    bool takes = change->kind == CHANGE_ENLIST && change->txn.size > 0;
    bool clears = change->kind == CHANGE_ENLIST || change->kind == CHANGE_TIDY;
    return takes || (clears && is_local(&change->state)) ? TAKEN_BYTES_MAX : 0;
}

static enum hf_status apply_kind(struct change *change, struct lease_table *table,
                                 const struct evidence *evidence, bool *moved,
                                 struct hf_error *error)
{
    switch (change->kind) {
    case CHANGE_PUBLISH: return publish(change, table, evidence, moved, error);
    case CHANGE_STAGE: return stage(change, table, evidence, moved, error);
    case CHANGE_SEAL: return seal(change, table, evidence, moved, error);
    case CHANGE_SETTLE: return settle(change, table, evidence, moved, error);
    case CHANGE_FINISH: finish(change, table, evidence, moved); return HF_OK;
    case CHANGE_LOOK:
    case CHANGE_ENLIST:
    case CHANGE_TIDY:
    case CHANGE_FORGET:
    case CHANGE_MEND: return HF_OK;
    }
    check_unreachable();
}

/* The number that its version has if this body is written. */
static uint64_t number_of(const struct change *change)
{
    return change->kind == CHANGE_STAGE ? change->state.stage.next.number
                                        : change->state.now.number;
}

static enum hf_status apply_change(struct change *change, struct lease_table *table,
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
        change->number = number_of(change);
    /* One that finds itself there must have nothing more to do. */
    bool again = change->already && !*moved && (change->version || change->over[0]);
    if (!again && state_forget_old(&change->state, change->old, change->old_count))
        *moved = true;
    size_t extra = room_for_after(change);
    if (*moved || extra > 0)
        status = write_state(change, table, extra, error);
    if (status == HF_OK && *moved)
        table_set_state(table, buffer_view(&change->text));
    return status;
}

static enum hf_status before(struct table_guest *guest, struct lease_table *table,
                             const struct evidence *evidence, bool *changed,
                             struct hf_error *error)
{
    struct change *change = (struct change *)(void *)guest;
    bool moved = false;
    change->outcome = HF_KEY_NONE;
    change->already = change->found = false;
    enum hf_status status = apply_change(change, table, evidence, &moved, error);
    change->refused = status != HF_OK;
    note(change, table);
    *changed = moved && status == HF_OK;
    return status;
}

static void after(struct table_guest *guest, struct lease_table *table,
                  const struct table_op *op, bool *changed)
{
    struct change *change = (struct change *)(void *)guest;
    struct key_state *state = &change->state;
    bool granted = change->kind == CHANGE_ENLIST && op->outcome == TABLE_GRANTED;
    bool moved = false;
    if ((granted || change->kind == CHANGE_TIDY) && is_local(state) &&
        stage_is_abandoned(table, state)) {
        state_discard(state);
        moved = true;
    }
    /* What its own transaction has here, under a lease that is over, is not taken up again: whoever
     * had that lease may have a commit under way that counts on it. */
    bool free = !state->staged || (is_of(state, change->txn) && !RULE(OVER_FOR_ITS_OWN_TOO));
    if (granted && change->txn.size > 0 && free && take_for(state, change->txn, op->granted))
        moved = true;
    if (moved) {
        check(write_state(change, table, /* extra */ 0, NULL) == HF_OK);
        table_set_state(table, buffer_view(&change->text));
        *changed = true;
    }
    note(change, table);
}

void change_init(struct change *change, enum change_kind kind)
{
    *change = (struct change){ .guest = { .before = before, .after = after },
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

/* Whether none of its attempts has been published, nor will be: the body is not the one that they
 * were based on, and has not come further than the number that the last would have had, with
 * another version. What was only staged and is dropped since was never seen. */
static bool is_not_done(const struct change *change)
{
    bool numbered = change->kind == CHANGE_PUBLISH || change->kind == CHANGE_STAGE;
    return numbered && !change->state.lost && change->state.now.number <= change->number &&
           strcmp(change->state.now.etag, change->version->etag) != 0;
}

enum hf_status change_ask(struct place *place, struct change *change, struct mono_time deadline,
                          struct hf_error *error)
{
    struct request request;
    request_init(&request, place, TABLE_KEEP, deadline);
    request.guest = &change->guest;
    enum hf_status status = place_ask(place, (struct request *[]){ &request }, 1);
    if (status == HF_OK)
        return HF_OK;
    bool judged = status != HF_UNAVAILABLE; /* else it was refused for want of memory alone */
    if (change->refused && request.op.doubt != DOC_DOUBT_NONE &&
        !(judged && is_not_done(change)))
        status = error_set(error, HF_UNSURE, "it may have been done before this: %s",
                           request.op.error.why);
    else if (error)
        *error = request.op.error;
    return status;
}

/* ---- Where things are ---------------------------------------------------------------- */

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
