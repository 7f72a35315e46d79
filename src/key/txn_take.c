/* SPDX-License-Identifier: Apache-2.0 */
/* txn_take.c: acquires the keys of a transaction. It guards against deadlock: a transaction waits
 * for a key only while it holds none with a later name. All keys are first asked for without
 * waiting: in one step if the store can do so, or, on a store with latency, side by side. If one of
 * them is refused, all are given back, and known to be, before the first wait. See README.md,
 * rule 10. */
#include "base/mutant.h"
#include "base/rule.h"
#include "key/txn_inside.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- The order of the names ------------------------------------------------------------ */

/* The keys that a caller requests. */
struct key_request {
    const char *const *names;
    size_t count;
    const struct hf_key_options *options;
    struct mono_time deadline;
};

/* A name and its position in the request. */
struct named {
    const char *name;
    size_t index;
};

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static struct hf_key *find_taken_key(const struct hf_txn *txn, const char *name)
{
    for (size_t i = 0; i < txn->key_count; i++)
        if (strcmp(txn->keys[i]->name, name) == 0)
            return txn->keys[i];
    return NULL;
}

static void full_key_name(const struct hf_client *client, const char *key,
                          struct txn_key *ret_name)
{
    snprintf(ret_name->name, sizeof ret_name->name, "%s/%s", client_ns(client), key);
}

/* Whether a transaction may wait for a name: it must not hold a later one, because two
 * transactions could then wait for each other. Keys that other processes have taken for the same
 * transaction count too, as far as its record shows them. */
static bool is_in_order(const struct hf_txn *txn, const char *name)
{
    struct txn_key whole;
    for (size_t i = 0; i < txn->key_count; i++)
        if (RULE(WAITS_IN_ORDER) && strcmp(txn->keys[i]->name, name) > 0)
            return false;
    full_key_name(txn->client, name, &whole);
    for (size_t i = 0; i < txn->other_count; i++)
        if (strcmp(txn->others[i].name, whole.name) > 0)
            return false;
    return true;
}

/* ---- Interrupting ---------------------------------------------------------------------- */

/* An interrupt counts from the beginning of the call, also before it waits in the first queue. */
static void begin_taking_call(struct hf_txn *txn)
{
    env_mutex_lock(&txn->waiting.mutex);
    txn->waiting.active = true;
    txn->waiting.interrupted = false;
    env_mutex_unlock(&txn->waiting.mutex);
}

static void end_taking_call(struct hf_txn *txn)
{
    env_mutex_lock(&txn->waiting.mutex);
    txn->waiting.active = false;
    env_mutex_unlock(&txn->waiting.mutex);
}

static bool is_interrupted(struct hf_txn *txn)
{
    env_mutex_lock(&txn->waiting.mutex);
    bool interrupted = txn->waiting.interrupted;
    env_mutex_unlock(&txn->waiting.mutex);
    return interrupted;
}

/* Even a wait that is only about to begin is cancelled. */
static void cancel_wait_locked(struct hf_txn *txn)
{
    struct hf_lock *lock = txn->waiting.lock;
    if (!lock || txn->waiting.cancelled)
        return;
    wait_queue_cancel_begin(lock->ref, &lock->waiter);
    txn->waiting.cancelled = true;
}

/* NULL: the wait has ended. */
static void set_waiting(struct hf_txn *txn, struct hf_lock *lock)
{
    env_mutex_lock(&txn->waiting.mutex);
    struct hf_lock *before = txn->waiting.lock;
    if (txn->waiting.cancelled)
        wait_queue_cancel_end(before->ref, &before->waiter);
    txn->waiting.cancelled = false;
    txn->waiting.lock = lock;
    if (txn->waiting.interrupted)
        cancel_wait_locked(txn);
    env_mutex_unlock(&txn->waiting.mutex);
}

void hf_txn_interrupt(struct hf_txn *txn)
{
    if (!txn)
        return;
    env_mutex_lock(&txn->waiting.mutex);
    txn->waiting.interrupted = txn->waiting.active;
    if (txn->waiting.active)
        cancel_wait_locked(txn);
    env_mutex_unlock(&txn->waiting.mutex);
}

enum hf_status hf_txn_trouble(struct hf_txn *txn, struct hf_error *error)
{
    if (ERROR_IF_NULL(error, txn) != HF_OK)
        return HF_INVALID;
    env_mutex_lock(&txn->waiting.mutex);
    enum hf_status status =
        txn->waiting.lock ? hf_lock_trouble(txn->waiting.lock, error) : error_clear(error);
    env_mutex_unlock(&txn->waiting.mutex);
    return status;
}

/* ---- Giving keys back ------------------------------------------------------------------ */

/* Keys that were asked for, with the result of each. */
struct asked_keys {
    struct hf_key *keys[TXN_KEYS_MAX];
    size_t count;
    struct hf_error results[]; /* one for each key of the call */
};

/* Undoes one acquire; the result becomes that of undoing it. Any other refusal has left nothing. */
static void give_back_key(void *argument, size_t index)
{
    struct asked_keys *asked = argument;
    struct hf_key *key = asked->keys[index];
    struct hf_error *result = &asked->results[index];
    if (result->status == HF_OK)
        key_end(key, /* commit */ false, result);
    else if (RULE(UNSURE_KEYS_ARE_UNDONE) &&
             (result->status == HF_UNSURE || result->status == HF_LOST)) {
        if (key_undo_acquire(key, result) != HF_OK)
            lock_give_back(key->lock); /* in the background */
    } else {
        error_clear(result);
    }
}

/* Undoes all acquires and frees the keys, none of which was changed. OK: the transaction has no
 * lease on any of them. A key whose grant got no reply, or came too late, may keep its stage, which
 * nobody waits for: a client that wants the key, this one included, rolls the transaction back.
 * UNSURE: there was no reply, so a key may keep its lease, too. */
static enum hf_status give_back(struct hf_txn *txn, struct asked_keys *asked,
                                struct hf_error *error)
{
    enum hf_status status = HF_OK;
    MUTANT(mutant_keeps_refused_keys(asked->keys, asked->results, &asked->count));
    txn_each_key(txn, asked->count, give_back_key, asked);
    for (size_t i = 0; i < asked->count; i++) {
        if (status == HF_OK && asked->results[i].status != HF_OK)
            status =
                error_set(error, HF_UNSURE,
                          "no reply: %s may still be held for the transaction; roll it back",
                          asked->keys[i]->name);
        hf_key_free(asked->keys[i]);
    }
    asked->count = 0;
    return status;
}

/* ---- All keys side by side ------------------------------------------------------------- */

static void ask_for_key(void *argument, size_t index)
{
    struct asked_keys *asked = argument;
    hf_key_acquire(asked->keys[index], /* wait_ms */ 0, /* info */ NULL,
                   &asked->results[index]);
}

static enum hf_status new_handles(struct hf_txn *txn, const struct key_request *request,
                                  const struct named *names, struct asked_keys *asked,
                                  struct hf_error *error)
{
    for (size_t i = 0; i < request->count; i++) {
        enum hf_status status = HF_OK;
        bool twice = i > 0 && strcmp(names[i].name, names[i - 1].name) == 0;
        if (twice || find_taken_key(txn, names[i].name))
            continue;
        status = key_new_for(txn->client, names[i].name, request->options, txn,
                             &asked->keys[asked->count], error);
        if (status != HF_OK) {
            error_prefix(error, "%s", names[i].name);
            return status;
        }
        asked->keys[asked->count++]->hasty = true; /* it may hold later ones */
    }
    return HF_OK;
}

/* The first result that is not OK. A refusal that waiting may change comes last, because the caller
 * must see what it cannot wait for. */
static enum hf_status worst_result(const struct asked_keys *asked, struct hf_error *error)
{
    const struct hf_error *worst = NULL;
    size_t at = 0;
    for (size_t i = 0; i < asked->count; i++) {
        enum hf_status status = asked->results[i].status;
        if (status != HF_OK && (!worst || (worst->status == HF_HELD && status != HF_HELD))) {
            worst = &asked->results[i];
            at = i;
        }
    }
    if (!worst)
        return HF_OK;
    *error = *worst;
    error_prefix(error, "%s", asked->keys[at]->name);
    return error->status;
}

/* Whether to acquire the keys one after the other, after they were refused side by side: the caller
 * waits, or a key is about to be free, because the transaction that holds it is decided. */
static bool is_worth_waiting(const struct asked_keys *asked, enum hf_status status,
                             bool caller_waits)
{
    if (status != HF_HELD && status != HF_LOST && request_settled(status))
        return false;
    for (size_t i = 0; !caller_waits && i < asked->count; i++)
        caller_waits =
            asked->results[i].status == HF_HELD && key_is_being_settled(asked->keys[i]);
    return caller_waits;
}

/* The keys that were asked for belong to the transaction now. */
static void keep_asked(struct hf_txn *txn, struct asked_keys *asked)
{
    memcpy(txn->keys + txn->key_count, asked->keys, asked->count * sizeof(struct hf_key *));
    txn->key_count += asked->count;
    asked->count = 0;
}

static void free_asked(struct asked_keys *asked)
{
    for (size_t i = 0; i < asked->count; i++)
        hf_key_free(asked->keys[i]);
    asked->count = 0;
}

/* Asks for all new keys at once, and waits for none. If one is refused, all are given back.
 * *ret_wait: none is held any more, and it is worth waiting for them. */
static enum hf_status take_side_by_side(struct hf_txn *txn, const struct key_request *request,
                                        const struct named *names, struct asked_keys *asked,
                                        bool *ret_wait, struct hf_error *error)
{
    struct hf_error unsure;
    enum hf_status status = new_handles(txn, request, names, asked, error);
    *ret_wait = false;
    if (status != HF_OK) {
        free_asked(asked);
        return status;
    }
    txn_each_key(txn, asked->count, ask_for_key, asked);
    status = worst_result(asked, error);
    bool waits = mono_before(client_now(txn->client), request->deadline);
    waits = is_worth_waiting(asked, status, waits);
    if (status == HF_OK) {
        keep_asked(txn, asked);
    } else if (give_back(txn, asked, &unsure) != HF_OK) {
        *error = unsure;
        status = unsure.status;
    } else {
        *ret_wait = waits;
    }
    return status;
}

/* ---- All keys in one step -------------------------------------------------------------- */

/* How long a transaction waits for others of its process that want the same keys, before it asks
 * the store, and joins the queues. */
#define LOCAL_WAIT_MAX SPAN_MS(100)

/* Takes turns with other transactions of this process, which would refuse each other in the store.
 * The keys are ordered by name; nothing waits while a later key is held. */
static void take_local_turns(struct hf_txn *txn, const struct key_request *request,
                             struct asked_keys *asked)
{
    struct mono_time now = client_now(txn->client), until = mono_add(now, LOCAL_WAIT_MAX);
    if (mono_before(request->deadline, until))
        until = request->deadline;
    if (!is_in_order(txn, asked->keys[0]->name))
        until = now;
    for (size_t i = 0; i < asked->count; i++)
        asked->keys[i]->has_turn = local_turn_take(asked->keys[i]->lock->ref, until);
}

/* Asks for all new keys in one step of the store, and waits for none. If one is refused, none was
 * acquired, so nothing is given back. *ret_wait: none is held, and the keys may be acquired one
 * after the other, because the caller waits or because a step is not enough. */
static enum hf_status take_in_one_step(struct hf_txn *txn, const struct key_request *request,
                                       const struct named *names, struct asked_keys *asked,
                                       bool *ret_wait, struct hf_error *error)
{
    struct hf_error unsure;
    enum hf_status status = new_handles(txn, request, names, asked, error);
    *ret_wait = status == HF_OK;
    if (status == HF_OK && asked->count > 0)
        take_local_turns(txn, request, asked);
    if (status == HF_OK && asked->count > 0)
        status = txn_take_in_one_step(txn, asked->keys, asked->count, asked->results, error);
    else if (status == HF_OK)
        status = HF_UNSUPPORTED; /* it has them all */
    bool waits = mono_before(client_now(txn->client), request->deadline);
    if (status != HF_OK && status != HF_UNSURE) {
        *ret_wait = *ret_wait && (status != HF_HELD || waits);
        free_asked(asked);
        return status;
    }
    status = worst_result(asked, error);
    /* A reply that was lost is no reason to give up: once it is undone, each key is asked for. */
    *ret_wait = status == HF_UNSURE || is_worth_waiting(asked, status, waits);
    if (status == HF_OK) {
        keep_asked(txn, asked);
    } else if (give_back(txn, asked, &unsure) != HF_OK) {
        *ret_wait = false;
        *error = unsure;
        status = unsure.status;
    }
    return status;
}

/* ---- One key after the other ----------------------------------------------------------- */

/* Takes one key, or finds that the transaction already has it. */
static enum hf_status take_key(struct hf_txn *txn, const char *name,
                               const struct key_request *request, struct hf_key **ret_key,
                               struct hf_error *error)
{
    struct hf_key *key = find_taken_key(txn, name);
    enum hf_status status;
    if (key) {
        status = hf_lock_check(key->lock, error);
    } else {
        status = key_new_for(txn->client, name, request->options, txn, &key, error);
        if (status != HF_OK)
            return status;
        int64_t left_ms = mono_since(request->deadline, client_now(txn->client)).us / 1000;
        bool waits = left_ms > 0 && is_in_order(txn, name);
        if (waits && is_interrupted(txn)) {
            hf_key_free(key);
            return error_set(error, HF_CANCELLED, "the wait was cancelled");
        }
        key->hasty = !is_in_order(txn, name);
        set_waiting(txn, key->lock);
        status = hf_key_acquire(key, waits ? left_ms : 0, /* info */ NULL, error);
        set_waiting(txn, NULL);
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

/* Gives back the keys from `first` on. */
static enum hf_status give_back_from(struct hf_txn *txn, size_t first, struct asked_keys *asked,
                                     struct hf_error *error)
{
    asked->count = txn->key_count - first;
    memcpy(asked->keys, txn->keys + first, asked->count * sizeof(struct hf_key *));
    memset(asked->results, 0, asked->count * sizeof asked->results[0]); /* all were acquired */
    txn->key_count = first;
    return give_back(txn, asked, error);
}

/* A server cannot take a key out of a transaction. So a transaction that has no other keys, and
 * whose id nobody knows, is rolled back, and begins anew with the next key. Otherwise the keys stay
 * with the transaction until it is decided, and an acquire that is repeated finds them. */
static enum hf_status give_back_at_server(struct hf_txn *txn, size_t first,
                                          enum hf_status refusal, struct hf_error *error)
{
    enum hf_decision decided;
    struct hf_error why;
    enum hf_status status = HF_OK;
    bool nothing = txn->key_count == 0 && (refusal == HF_HELD || refusal == HF_TIMEOUT);
    env_mutex_lock(&txn->begin.mutex);
    bool begins = first == 0 && !nothing && !txn->joined && !txn->begin.told;
    for (size_t i = 0; begins && i < txn->key_count; i++)
        key_ended_by_server(txn->keys[i]);
    if (begins && txn->begin.state == TXN_BEGUN)
        status = client_server(txn->client)
                     ->decide_txn(txn->client, id_of(txn), HF_ROLLBACK, &decided, &why);
    if (begins && status == HF_OK)
        txn->begin.state = TXN_DEFERRED;
    env_mutex_unlock(&txn->begin.mutex);
    for (size_t i = 0; begins && i < txn->key_count; i++)
        hf_key_free(txn->keys[i]);
    if (begins)
        txn->key_count = 0;
    return status == HF_OK ? HF_OK
                           : error_set(error, HF_UNSURE,
                                       "no reply: keys may still be held for the transaction; "
                                       "roll it back");
}

static enum hf_status take_in_order(struct hf_txn *txn, const struct key_request *request,
                                    const struct named *names, struct hf_error *error)
{
    struct hf_key *key;
    for (size_t i = 0; i < request->count; i++) {
        enum hf_status status = take_key(txn, names[i].name, request, &key, error);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

/* ---- The names of the keys ------------------------------------------------------------- */

struct txn_key *txn_names(const struct hf_txn *txn, size_t first, size_t *ret_count)
{
    size_t own = txn->key_count - first;
    struct txn_key *names = calloc(own + txn->other_count + 1, sizeof *names);
    if (!names)
        return NULL;
    for (size_t i = 0; i < own; i++)
        full_key_name(txn->client, txn->keys[first + i]->name, &names[i]);
    for (size_t i = 0; i < txn->other_count; i++)
        names[own + i] = txn->others[i];
    *ret_count = own + txn->other_count;
    return names;
}

static bool has_taken(const struct hf_txn *txn, const struct txn_key *key)
{
    struct txn_key own;
    for (size_t i = 0; i < txn->key_count; i++) {
        full_key_name(txn->client, txn->keys[i]->name, &own);
        if (strcmp(own.name, key->name) == 0)
            return true;
    }
    return false;
}

enum hf_status txn_learn_others(struct hf_txn *txn, enum txn_state *ret_state,
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
    if (!others) {
        record_release(&record);
        return error_no_memory(error);
    }
    for (size_t i = 0; i < record.key_count; i++)
        if (!has_taken(txn, &record.keys[i]))
            others[count++] = record.keys[i];
    record_release(&record);
    free(txn->others);
    txn->others = others;
    txn->other_count = count;
    return HF_OK;
}

/* Names the new keys of a shared transaction in its record, so that the process that commits it
 * knows them. No change is staged before that, so a commit cannot miss one. */
static enum hf_status name_keys_in_record(struct hf_txn *txn, size_t first,
                                          struct hf_error *error)
{
    struct record_op op;
    if (!txn->joined || first == txn->key_count)
        return HF_OK;
    record_op_init(&op, RECORD_ENLIST, id_of(txn), client_deadline(txn->client));
    struct txn_key *names = txn_names(txn, first, &op.key_count);
    if (!names)
        return error_no_memory(error);
    op.keys = names;
    op.key_count = txn->key_count - first;
    enum hf_status status = txn_ask(txn, &op, error);
    free(names);
    return status;
}

/* Whether the transaction can take this many more keys; makes room for them. A commit that may
 * have taken effect has already named all participants, so no key can be added after it. */
static enum hf_status reserve_taken_keys(struct hf_txn *txn, size_t count,
                                         struct hf_error *error)
{
    if (txn->known == TXN_PENDING && txn->asked)
        return error_set(error, HF_UNSURE, "a commit got no reply; repeat the commit");
    if (txn->known != TXN_PENDING)
        return error_set(error, HF_MISMATCH, "the transaction is decided: %s",
                         txn_state_name(txn->known));
    if (count == 0 || count > TXN_KEYS_MAX - txn->key_count)
        return error_set(error, HF_INVALID, "a transaction must have 1 to %d keys",
                         TXN_KEYS_MAX);
    struct hf_key **keys = realloc(txn->keys, (txn->key_count + count) * sizeof *keys);
    if (!keys)
        return error_no_memory(error);
    txn->keys = keys;
    return HF_OK;
}

/* ---- The call -------------------------------------------------------------------------- */

/* Takes all keys, or finds that the transaction has them. They are asked for in one step, or side
 * by side, only if no other process shares the transaction, because its waits are not known
 * here. */
static enum hf_status take_all(struct hf_txn *txn, const struct key_request *request,
                               const struct named *names, struct asked_keys *asked,
                               struct hf_error *error)
{
    bool waits = true, several = request->count > 1, begun = txn_has_begun(txn);
    size_t documents = request->count + (begun ? 0 : TXN_BEGINNING_DOCUMENTS);
    enum hf_status status = HF_OK;
    if ((several || !begun) && txn_can_step(txn, documents))
        status = take_in_one_step(txn, request, names, asked, &waits, error);
    else if (several && !txn->joined && client_is_remote(txn->client) &&
             !client_server(txn->client))
        status = take_side_by_side(txn, request, names, asked, &waits, error);
    if (status != HF_OK && !waits)
        return status;
    status = txn_ensure_begun(txn, error); /* before any stage */
    return status == HF_OK ? take_in_order(txn, request, names, error) : status;
}

static enum hf_status acquire_locked(struct hf_txn *txn, const struct key_request *request,
                                     struct asked_keys *asked, struct hf_key **ret_keys,
                                     struct hf_error *error)
{
    struct named names[TXN_KEYS_MAX];
    struct hf_error unsure;
    enum txn_state decided;
    enum hf_status status = reserve_taken_keys(txn, request->count, error);
    if (status == HF_OK && txn->joined)
        status = txn_learn_others(txn, &decided, error);
    if (status != HF_OK)
        return status;
    for (size_t i = 0; i < request->count; i++)
        names[i] = (struct named){ request->names[i], i };
    qsort(names, request->count, sizeof *names, compare_names);
    size_t first = txn->key_count;
    status = take_all(txn, request, names, asked, error);
    if (status == HF_OK)
        status = name_keys_in_record(txn, first, error);
    /* All keys or none: a key that stayed taken would be locked until the transaction is decided,
     * although the caller has no handle for it. */
    if (status != HF_OK) {
        bool served = client_server(txn->client);
        if ((served ? give_back_at_server(txn, first, status, &unsure)
                    : give_back_from(txn, first, asked, &unsure)) != HF_OK) {
            *error = unsure;
            status = unsure.status;
        }
        return status;
    }
    for (size_t i = 0; i < request->count; i++)
        ret_keys[names[i].index] = find_taken_key(txn, names[i].name);
    return HF_OK;
}

enum hf_status hf_txn_acquire(struct hf_txn *txn, const char *const *names, size_t count,
                              const struct hf_key_options *options, int64_t wait_ms,
                              struct hf_key **ret_keys, struct hf_error *error)
{
    struct hf_error why;
    struct key_request request = { names, count, options, { MOMENT_FAR } };
    if (ret_keys)
        for (size_t i = 0; i < count; i++)
            ret_keys[i] = NULL;
    if (ERROR_IF_NULL(error, txn, names, ret_keys) != HF_OK ||
        error_if_null_among(error, "names", names, count) != HF_OK)
        return HF_INVALID;
    if (wait_ms < 0)
        return error_set(error, HF_INVALID, "wait must not be negative");
    client_active(txn->client);
    struct mono_time now = client_now(txn->client);
    if (wait_ms < (MOMENT_FAR - now.us) / 1000)
        request.deadline = mono_add(now, SPAN_MS(wait_ms));
    size_t most = count < TXN_KEYS_MAX ? count : TXN_KEYS_MAX; /* more are refused */
    struct asked_keys *asked = calloc(1, sizeof *asked + most * sizeof asked->results[0]);
    if (!asked)
        return error_no_memory(error);
    env_mutex_lock(&txn->mutex);
    begin_taking_call(txn);
    enum hf_status status = acquire_locked(txn, &request, asked, ret_keys, &why);
    end_taking_call(txn);
    env_mutex_unlock(&txn->mutex);
    free(asked);
    return error_tell(error, status, &why);
}
