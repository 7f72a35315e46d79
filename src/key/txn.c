/* txn.c: transactions as their processes have them: begin, take keys in order, decide.
 *
 * All hangs on the order of writes: the entry, the record, the keys with their leases, what is
 * staged, the decision with the names of all keys, the keys' settling, and that all are settled.
 * docs/design.md section 9; src/key/README.md says what a crash leaves after each. */
#include "base/check.h"
#include "base/rule.h"
#include "key/txn_inside.h"

#include <stdio.h>
#include <stdlib.h>

/* How often a commit is begun anew because somebody has taken a further key meanwhile. */
#define COMMIT_TRIES_MAX 8

static struct view id_of(const struct hf_txn *txn)
{
    return view_of(txn->id);
}

/* ---- Beginning ----------------------------------------------------------------------- */

static enum hf_status ask_record(struct hf_txn *txn, struct record_op *op,
                                 struct hf_error *error)
{
    enum hf_status status = doc_update(txn->doc, &op->op);
    if (status != HF_OK && error) {
        *error = op->op.error;
        error_prefix(error, "transaction %s", txn->id);
    }
    return status;
}

static enum hf_status begin_record(struct hf_txn *txn, struct hf_error *error)
{
    struct record_op op;
    record_op_init(&op, RECORD_BEGIN, id_of(txn), soon(txn->client));
    op.owner = view_of(txn->owner);
    op.holder = view_of(txn->client->holder);
    op.open = txn->open;
    return ask_record(txn, &op, error);
}

/* When this succeeds the record is known to stand: before that nobody may take a key for it. */
static enum hf_status begin_new(struct hf_txn *txn, struct hf_error *error)
{
    enum hf_status status = record_announce(txn->client, id_of(txn), error);
    if (status == HF_OK && RULE(RECORD_BEFORE_STAGE))
        status = begin_record(txn, error);
    return status;
}

static enum hf_status join(struct hf_txn *txn, struct hf_error *error)
{
    struct txn_record record;
    txn->joined = true;
    enum hf_status status = record_get(txn->client, id_of(txn), &record, NULL, error);
    if (status == HF_NOT_FOUND)
        return error_set(error, status, "there is no such transaction, or it is over for long");
    if (status != HF_OK)
        return status;
    txn->open = record.open;
    if (record.state != TXN_PENDING)
        status = error_set(error, HF_MISMATCH, "the transaction is decided: %s",
                           txn_state_name(record.state));
    record_release(&record);
    return status;
}

static void free_handle(struct hf_txn *txn)
{
    env_mutex_release(&txn->mutex);
    doc_free(txn->doc);
    free(txn->keys);
    free(txn->others);
    free(txn);
}

static enum hf_status new_handle(struct hf_client *client, const char *id,
                                 struct hf_txn **ret_txn, struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    struct hf_txn *txn = calloc(1, sizeof *txn);
    if (!txn)
        return error_no_memory(error);
    txn->client = client;
    txn->known = TXN_PENDING;
    env_random_hex(client->env, NONCE_SIZE, txn->owner);
    if (id)
        snprintf(txn->id, sizeof txn->id, "%s", id);
    else
        env_random_hex(client->env, TXN_ID_SIZE, txn->id);
    record_key(id_of(txn), key);
    enum hf_status status = doc_new(client->store, &client->clock, view_of(key),
                                    &record_doc_type, NULL, &txn->doc, error);
    if (status != HF_OK) {
        free(txn);
        return status;
    }
    env_mutex_init(client->env, &txn->mutex);
    *ret_txn = txn;
    return HF_OK;
}

enum hf_status hf_txn_begin(struct hf_client *client, const struct hf_txn_options *options,
                            struct hf_txn **ret_txn, struct hf_error *error)
{
    const char *id = options ? options->id : NULL;
    struct hf_txn *txn;
    struct hf_error why;
    client_active(client);
    if (id && !txn_id_valid(view_of(id)))
        return error_set(error, HF_INVALID, "the id of a transaction is %d hexadecimal digits",
                         TXN_ID_SIZE);
    enum hf_status status = new_handle(client, id, &txn, error);
    if (status != HF_OK)
        return status;
    status = id ? join(txn, &why) : begin_new(txn, &why);
    if (status == HF_OK) {
        *ret_txn = txn;
        return error_clear(error);
    }
    free_handle(txn);
    if (error)
        *error = why;
    return status;
}

enum hf_status txn_open(struct hf_client *client, char ret_id[TXN_ID_SIZE + 1],
                        struct hf_error *error)
{
    struct hf_txn *txn;
    client_active(client);
    enum hf_status status = new_handle(client, NULL, &txn, error);
    if (status != HF_OK)
        return status;
    txn->open = true;
    status = begin_new(txn, error);
    if (status == HF_OK)
        memcpy(ret_id, txn->id, sizeof txn->id);
    free_handle(txn);
    return status;
}

const char *hf_txn_id(const struct hf_txn *txn)
{
    return txn->id;
}

/* ---- Taking keys --------------------------------------------------------------------- */

/* A name and where it stands among those that were given. */
struct wish {
    const char *name;
    size_t index;
};

static int compare_wishes(const void *a, const void *b)
{
    return strcmp(((const struct wish *)a)->name, ((const struct wish *)b)->name);
}

static struct hf_key *find_key(const struct hf_txn *txn, const char *name)
{
    for (size_t i = 0; i < txn->key_count; i++)
        if (strcmp(txn->keys[i]->name, name) == 0)
            return txn->keys[i];
    return NULL;
}

static void name_key(const struct hf_client *client, const char *key, struct txn_key *ret_name)
{
    snprintf(ret_name->name, sizeof ret_name->name, "%s/%s", client->space.ns, key);
}

/* Who waits for a name while it has a later one could wait for somebody who waits for it. What
 * others have taken for the same transaction counts, as far as its record told. */
static bool is_in_order(const struct hf_txn *txn, const char *name)
{
    struct txn_key whole;
    for (size_t i = 0; i < txn->key_count; i++)
        if (strcmp(txn->keys[i]->name, name) > 0)
            return false;
    name_key(txn->client, name, &whole);
    for (size_t i = 0; i < txn->other_count; i++)
        if (strcmp(txn->others[i].name, whole.name) > 0)
            return false;
    return true;
}

static int64_t wait_left(struct hf_txn *txn, const char *name, struct mono_time deadline)
{
    int64_t left = mono_since(deadline, env_now(txn->client->env)).us / 1000;
    return left > 0 && is_in_order(txn, name) ? left : 0;
}

/* Takes one, or finds that it has it. */
static enum hf_status take_key(struct hf_txn *txn, const char *name,
                               const struct hf_key_options *options, struct mono_time deadline,
                               struct hf_key **ret_key, struct hf_error *error)
{
    struct hf_key *key = find_key(txn, name);
    enum hf_status status;
    if (key) {
        status = hf_lock_check(key->lock, error);
    } else {
        status = key_new_for(txn->client, name, options, txn, &key, error);
        if (status != HF_OK)
            return status;
        status = hf_key_acquire(key, wait_left(txn, name, deadline), /* info */ NULL, error);
        if (status == HF_OK)
            txn->keys[txn->key_count++] = key;
        else
            hf_key_free(key);
    }
    if (status == HF_OK)
        *ret_key = key;
    else
        error_prefix(error, "%s", name);
    return status;
}

/* Gives the keys from `first` on back, of which nothing was changed. When that has no answer one
 * of them may keep its stage: then whoever wants it rolls the transaction back. */
static void give_back(struct hf_txn *txn, size_t first)
{
    for (size_t i = first; i < txn->key_count; i++) {
        key_end(txn->keys[i], /* commit */ false, NULL);
        hf_key_free(txn->keys[i]);
    }
    txn->key_count = first;
}

/* The names of the keys from `first` on, then of those that others have taken. NULL without
 * memory. */
static struct txn_key *names_of(const struct hf_txn *txn, size_t first, size_t *ret_count)
{
    size_t own = txn->key_count - first;
    struct txn_key *names = calloc(own + txn->other_count + 1, sizeof *names);
    if (!names)
        return NULL;
    for (size_t i = 0; i < own; i++)
        name_key(txn->client, txn->keys[first + i]->name, &names[i]);
    for (size_t i = 0; i < txn->other_count; i++)
        names[own + i] = txn->others[i];
    *ret_count = own + txn->other_count;
    return names;
}

static bool is_own(const struct hf_txn *txn, const struct txn_key *key)
{
    struct txn_key own;
    for (size_t i = 0; i < txn->key_count; i++) {
        name_key(txn->client, txn->keys[i]->name, &own);
        if (strcmp(own.name, key->name) == 0)
            return true;
    }
    return false;
}

/* Learns from the record which keys others have taken, and what is decided. */
static enum hf_status learn_others(struct hf_txn *txn, enum txn_state *ret_state,
                                   struct hf_error *error)
{
    struct txn_record record;
    enum hf_status status = record_get(txn->client, id_of(txn), &record, NULL, error);
    *ret_state = TXN_ABSENT;
    if (status != HF_OK)
        return status == HF_NOT_FOUND ? HF_OK : status;
    *ret_state = record.state;
    struct txn_key *others = calloc(record.key_count + 1, sizeof *others);
    size_t count = 0;
    for (size_t i = 0; others && i < record.key_count; i++)
        if (!is_own(txn, &record.keys[i]))
            others[count++] = record.keys[i];
    record_release(&record);
    if (!others)
        return error_no_memory(error);
    free(txn->others);
    txn->others = others;
    txn->other_count = count;
    return HF_OK;
}

/* Names the new keys of a transaction that several processes share, so that whoever decides it
 * knows them. Nothing is staged before that. */
static enum hf_status enlist(struct hf_txn *txn, size_t first, struct hf_error *error)
{
    struct record_op op;
    if (!txn->joined || first == txn->key_count)
        return HF_OK;
    record_op_init(&op, RECORD_ENLIST, id_of(txn), soon(txn->client));
    struct txn_key *names = names_of(txn, first, &op.key_count);
    if (!names)
        return error_no_memory(error);
    op.keys = names;
    op.key_count = txn->key_count - first;
    enum hf_status status = ask_record(txn, &op, error);
    free(names);
    return status;
}

static enum hf_status take_all(struct hf_txn *txn, const struct wish *wishes, size_t count,
                               const struct hf_key_options *options, struct mono_time deadline,
                               struct hf_key **taken, struct hf_error *error)
{
    size_t first = txn->key_count;
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < count && status == HF_OK; i++)
        status =
            take_key(txn, wishes[i].name, options, deadline, &taken[wishes[i].index], error);
    if (status == HF_OK)
        status = enlist(txn, first, error);
    if (status != HF_OK)
        give_back(txn, first);
    return status;
}

/* Whether it can take so many more keys; makes room for them. A commit that may be done has named
 * its participants: it gets no more. */
static enum hf_status have_room(struct hf_txn *txn, size_t count, struct hf_error *error)
{
    if (txn->known == TXN_PENDING && txn->asked)
        return error_set(error, HF_UNSURE, "a commit had no answer: ask for that again");
    if (txn->known != TXN_PENDING)
        return error_set(error, HF_MISMATCH, "the transaction is decided: %s",
                         txn_state_name(txn->known));
    if (count == 0 || count > TXN_KEYS_MAX - txn->key_count)
        return error_set(error, HF_INVALID, "a transaction has 1 to %d keys", TXN_KEYS_MAX);
    struct hf_key **keys = realloc(txn->keys, (txn->key_count + count) * sizeof *keys);
    if (!keys)
        return error_no_memory(error);
    txn->keys = keys;
    return HF_OK;
}

static struct mono_time deadline_after(struct hf_client *client, int64_t wait_ms)
{
    struct mono_time now = env_now(client->env);
    bool far = wait_ms >= (MOMENT_FAR - now.us) / 1000;
    return far ? (struct mono_time){ MOMENT_FAR } : mono_add(now, SPAN_MS(wait_ms));
}

static enum hf_status acquire_locked(struct hf_txn *txn, const char *const *names, size_t count,
                                     const struct hf_key_options *options,
                                     struct mono_time deadline, struct hf_key **ret_keys,
                                     struct hf_error *error)
{
    struct wish wishes[TXN_KEYS_MAX];
    struct hf_key *taken[TXN_KEYS_MAX];
    enum txn_state decided;
    enum hf_status status = have_room(txn, count, error);
    if (status == HF_OK && txn->joined)
        status = learn_others(txn, &decided, error);
    if (status != HF_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        wishes[i] = (struct wish){ names[i], i };
    qsort(wishes, count, sizeof *wishes, compare_wishes);
    status = take_all(txn, wishes, count, options, deadline, taken, error);
    if (status == HF_OK)
        memcpy(ret_keys, taken, count * sizeof(struct hf_key *));
    return status;
}

enum hf_status hf_txn_acquire(struct hf_txn *txn, const char *const *names, size_t count,
                              const struct hf_key_options *options, int64_t wait_ms,
                              struct hf_key **ret_keys, struct hf_error *error)
{
    struct hf_error why;
    if (wait_ms < 0)
        return error_set(error, HF_INVALID, "a wait is not less than nothing");
    client_active(txn->client);
    struct mono_time deadline = deadline_after(txn->client, wait_ms);
    env_mutex_lock(&txn->mutex);
    enum hf_status status =
        acquire_locked(txn, names, count, options, deadline, ret_keys, &why);
    env_mutex_unlock(&txn->mutex);
    if (status == HF_OK)
        return error_clear(error);
    if (error)
        *error = why;
    return status;
}

/* ---- Deciding ------------------------------------------------------------------------ */

/* A record that is missing was rolled back; unless a commit of ours, or of those who share it, may
 * have landed so long ago that it may be purged: then nobody can tell. Half of D is well before
 * anybody purges, however clocks drift. */
static bool may_be_purged(const struct hf_txn *txn)
{
    struct span since = mono_since(env_now(txn->client->env), txn->asked_at);
    struct span half = SPAN_US(txn->client->space.settings.late_bound.us / 2);
    return txn->joined || (txn->asked && since.us >= half.us);
}

static enum hf_status read_answer(struct hf_txn *txn, const struct record_op *op,
                                  struct hf_error *error)
{
    txn->asked = txn->asked || (op->decision == TXN_COMMIT && op->op.maybe_own);
    bool missing = op->recorded == TXN_ABSENT || op->marked;
    bool given_up =
        op->marked && txn->asked; /* as damaged, by a person: it may have said commit */
    if (given_up || (missing && may_be_purged(txn)))
        return error_set(error, HF_UNSURE,
                         "transaction %s: it may have been committed, and its record is gone",
                         txn->id);
    txn->known = op->recorded == TXN_ABSENT ? TXN_ROLLBACK : op->recorded;
    return HF_OK;
}

/* When the participants are named only after the decision, a crash in between leaves a commit
 * that nobody knows the keys of. */
static enum hf_status name_late(struct hf_txn *txn, const struct txn_key *names, size_t count,
                                struct hf_error *error)
{
    struct record_op op;
    record_op_init(&op, RECORD_ENLIST, id_of(txn), soon(txn->client));
    op.keys = names;
    op.key_count = count;
    return ask_record(txn, &op, error);
}

/* Asks the record. CONFLICT: it is to be committed, and names keys that we do not know. */
static enum hf_status decide(struct hf_txn *txn, enum txn_state decision,
                             struct hf_error *error)
{
    struct record_op op;
    size_t count = 0;
    struct txn_key *names = names_of(txn, 0, &count);
    if (!names)
        return error_no_memory(error);
    bool together = decision != TXN_COMMIT || RULE(PARTICIPANTS_WITH_THE_DECISION);
    record_op_init(&op, RECORD_DECIDE, id_of(txn), soon(txn->client));
    op.decision = decision;
    op.keys = names;
    op.key_count = together ? count : 0;
    if (!RULE(RECORD_BEFORE_STAGE) && !txn->joined)
        begin_record(txn, NULL);
    if (decision == TXN_COMMIT && !txn->asked)
        txn->asked_at = env_now(txn->client->env);
    enum hf_status status = ask_record(txn, &op, error);
    txn->asked = txn->asked || (decision == TXN_COMMIT && status == HF_UNSURE);
    if (status == HF_OK)
        status = read_answer(txn, &op, error);
    if (status == HF_OK && !together && txn->known == TXN_COMMIT)
        name_late(txn, names, count, NULL);
    free(names);
    return status;
}

/* Notes in the record of a commit that all keys that we know are settled. */
static void note_applied(struct hf_txn *txn)
{
    struct record_op op;
    record_op_init(&op, RECORD_APPLIED, id_of(txn), soon(txn->client));
    struct txn_key *names = names_of(txn, 0, &op.key_count);
    op.keys = names;
    if (names)
        ask_record(txn, &op, NULL);
    free(names);
}

/* While its commit is under way, or may be done, and when it is decided, a key of it is not
 * changed any more: what is committed is what was staged when that was asked for. */
static void seal(struct hf_txn *txn, bool sealed)
{
    for (size_t i = 0; i < txn->key_count; i++) {
        env_mutex_lock(&txn->keys[i]->calls);
        txn->keys[i]->sealed = sealed;
        env_mutex_unlock(&txn->keys[i]->calls);
    }
}

/* It was decided as it is known: the keys are settled and given back. What fails here is done by
 * whoever touches the key, or by the purge; a commit notes in its record when nothing has. */
static void settle_keys(struct hf_txn *txn)
{
    struct hf_error why;
    bool commit = txn->known == TXN_COMMIT, all = true;
    seal(txn, true);
    for (size_t i = 0; i < txn->key_count; i++)
        if (key_end(txn->keys[i], commit, &why) != HF_OK)
            all = false;
    keys_clear_up(txn->keys, txn->key_count);
    for (size_t i = 0; i < txn->other_count; i++)
        if (stage_end(txn->client, &txn->others[i], id_of(txn), commit, &why) != HF_OK)
            all = false;
    if (commit && all)
        note_applied(txn);
}

/* Whether every lease of ours is good: OK, EXPIRED or LOST. */
static enum hf_status check_leases(struct hf_txn *txn, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < txn->key_count && status == HF_OK; i++) {
        status = hf_lock_check(txn->keys[i]->lock, error);
        if (status == HF_NOT_FOUND)
            status = error_set(error, HF_LOST, "it is not held any more");
        if (status != HF_OK)
            error_prefix(error, "%s", txn->keys[i]->name);
    }
    return status;
}

/* What others have staged is sealed in the store, if their leases are good: OK or EXPIRED. So is
 * our own if we have joined: somebody may have adopted its lease. */
static enum hf_status seal_in_store(struct hf_txn *txn, struct hf_error *error)
{
    size_t count = 0;
    struct txn_key *names = names_of(txn, txn->joined ? 0 : txn->key_count, &count);
    enum hf_status status = names ? HF_OK : error_no_memory(error);
    for (size_t i = 0; i < count && status == HF_OK; i++)
        status = stage_seal(txn->client, &names[i], id_of(txn), error);
    free(names);
    return status;
}

/* A change that had no answer may stand there or not: to commit would be to commit nobody knows
 * what. */
static enum hf_status check_stages(struct hf_txn *txn, struct hf_error *error)
{
    for (size_t i = 0; i < txn->key_count; i++) {
        env_mutex_lock(&txn->keys[i]->calls);
        bool confirmed = !txn->keys[i]->unconfirmed || !RULE(STAGES_ARE_CONFIRMED);
        env_mutex_unlock(&txn->keys[i]->calls);
        if (!confirmed)
            return error_set(error, HF_UNSURE,
                             "a change of %s had no answer: make it again, or roll back",
                             txn->keys[i]->name);
    }
    if (txn->joined && !txn->open)
        return error_set(error, HF_DENIED, "only the process that began it can commit it");
    return HF_OK;
}

/* Its leases are over, so it is rolled back; unless a commit of ours has landed after all. */
static enum hf_status give_up(struct hf_txn *txn, enum hf_status why, struct hf_error *error)
{
    struct hf_error no_answer;
    enum hf_status status = decide(txn, TXN_ROLLBACK, &no_answer);
    if (status == HF_OK)
        return txn->known == TXN_COMMIT ? HF_OK : why;
    *error = no_answer;
    return status;
}

static enum hf_status commit_once(struct hf_txn *txn, struct hf_error *error)
{
    enum hf_status status = check_leases(txn, error);
    seal(txn, true);
    if (status == HF_OK)
        status = check_stages(txn, error); /* before anybody else's is sealed for it */
    if (status == HF_OK)
        status = seal_in_store(txn, error);
    if (status == HF_EXPIRED || status == HF_LOST)
        status = give_up(txn, status, error);
    else if (status == HF_OK)
        status = decide(txn, TXN_COMMIT, error);
    if (txn->known == TXN_PENDING && !txn->asked)
        seal(txn, false);
    return status;
}

static enum hf_status commit_locked(struct hf_txn *txn, struct hf_error *error)
{
    enum hf_status status = HF_CONFLICT;
    enum txn_state state = TXN_PENDING;
    for (int tries = 0; status == HF_CONFLICT && tries < COMMIT_TRIES_MAX; tries++) {
        status = tries > 0 || txn->joined ? learn_others(txn, &state, error) : HF_OK;
        if (status == HF_OK && state == TXN_PENDING)
            status = commit_once(txn, error);
        else if (status == HF_OK)
            status = decide(txn, TXN_ROLLBACK, error); /* it is decided: that is the answer */
    }
    return status;
}

static enum hf_status rollback_locked(struct hf_txn *txn, struct hf_error *error)
{
    enum txn_state state;
    if (txn->joined && learn_others(txn, &state, error) != HF_OK)
        txn->other_count = 0; /* whoever touches their keys settles them */
    return decide(txn, TXN_ROLLBACK, error);
}

/* Decides it unless it is decided, and tells how that agrees with what was asked. */
static enum hf_status decide_locked(struct hf_txn *txn, enum txn_state wanted,
                                    struct hf_error *error)
{
    enum hf_status status = HF_OK;
    if (txn->known == TXN_PENDING) {
        status = wanted == TXN_COMMIT ? commit_locked(txn, error) : rollback_locked(txn, error);
        if (txn->known != TXN_PENDING)
            settle_keys(txn);
    }
    if (status == HF_OK && txn->known != wanted)
        status = error_set(error, HF_MISMATCH, "the transaction is decided: %s",
                           txn_state_name(txn->known));
    return status;
}

static enum hf_status decide_public(struct hf_txn *txn, enum txn_state wanted,
                                    enum hf_decision *ret_decision, struct hf_error *error)
{
    struct hf_error why;
    client_active(txn->client);
    env_mutex_lock(&txn->mutex);
    enum hf_status status = decide_locked(txn, wanted, &why);
    enum txn_state known = txn->known;
    env_mutex_unlock(&txn->mutex);
    if (ret_decision && known != TXN_PENDING)
        *ret_decision = known == TXN_COMMIT ? HF_COMMIT : HF_ROLLBACK;
    if (status == HF_OK)
        return error_clear(error);
    if (error)
        *error = why;
    return status;
}

enum hf_status hf_txn_commit(struct hf_txn *txn, enum hf_decision *ret_decision,
                             struct hf_error *error)
{
    return decide_public(txn, TXN_COMMIT, ret_decision, error);
}

enum hf_status hf_txn_rollback(struct hf_txn *txn, enum hf_decision *ret_decision,
                               struct hf_error *error)
{
    return decide_public(txn, TXN_ROLLBACK, ret_decision, error);
}

void hf_txn_free(struct hf_txn *txn)
{
    if (!txn)
        return;
    bool left = txn->joined && txn->known == TXN_PENDING;
    if (!left && txn->known == TXN_PENDING)
        hf_txn_rollback(txn, NULL, NULL);
    for (size_t i = 0; i < txn->key_count; i++) {
        if (left)
            hf_key_detach(txn->keys[i]);
        else
            hf_key_free(txn->keys[i]);
    }
    free_handle(txn);
}
