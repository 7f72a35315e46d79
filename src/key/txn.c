/* SPDX-License-Identifier: Apache-2.0 */
/* txn.c: a process's transactions: begins them and takes keys in order. The order of the writes
 * prevents partial transactions: the index entry, the record, the keys with their leases, the
 * stages, the decision with the names of all keys, and then the settling. The order of the keys
 * prevents deadlock. See docs/design.md, section 9. */
#include "base/check.h"
#include "base/rule.h"
#include "key/txn_inside.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Beginning ----------------------------------------------------------------------- */

enum hf_status txn_ask(struct hf_txn *txn, struct record_op *op, struct hf_error *error)
{
    enum hf_status status = doc_update(txn->doc, &op->op);
    if (status != HF_OK && error) {
        *error = op->op.error;
        error_prefix(error, "transaction %s", txn->id);
    }
    return status;
}

/* On success the record is known to be in the store. Before that, no key may be taken for the
 * transaction: a client that found the stage would take the missing record for a rollback. */
static enum hf_status begin_txn(struct hf_txn *txn, struct hf_error *error)
{
    struct record_op op;
    /* The index entry is written first. If this process died after writing only the record, no
     * sweep except a full one would find it. */
    enum hf_status status = record_announce(txn->client, id_of(txn), error);
    record_op_init(&op, RECORD_BEGIN, id_of(txn), client_deadline(txn->client));
    op.owner = view_of(txn->owner);
    op.holder = view_of(client_holder(txn->client));
    op.open = txn->open;
    if (RULE(RECORD_BEFORE_STAGE) && status == HF_OK)
        status = txn_ask(txn, &op, error);
    return status;
}

static enum hf_status join_record(struct hf_txn *txn, struct hf_error *error)
{
    struct txn_record record;
    txn->joined = true;
    enum hf_status status = record_get(txn->client, id_of(txn), &record, NULL, error);
    if (status == HF_NOT_FOUND)
        return error_set(error, status, "no such transaction, or it ended long ago");
    if (status != HF_OK)
        return status;
    txn->open = record.open;
    if (record.state != TXN_PENDING)
        status = error_set(error, HF_MISMATCH, "the transaction is decided: %s",
                           txn_state_name(record.state));
    record_release(&record);
    return status;
}

static void free_txn(struct hf_txn *txn)
{
    struct hf_client *client = txn->client;
    env_mutex_release(&txn->waiting.mutex);
    env_mutex_release(&txn->mutex);
    doc_free(txn->doc);
    free(txn->keys);
    free(txn->others);
    free(txn);
    client_drop(client);
}

static enum hf_status new_txn(struct hf_client *client, const char *id, struct hf_txn **ret_txn,
                              struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    struct hf_txn *txn = calloc(1, sizeof *txn);
    if (!txn)
        return error_no_memory(error);
    txn->client = client;
    txn->known = TXN_PENDING;
    env_random_hex(client_env(client), NONCE_SIZE, txn->owner);
    if (id)
        snprintf(txn->id, sizeof txn->id, "%s", id);
    else
        env_random_hex(client_env(client), TXN_ID_SIZE, txn->id);
    record_key(id_of(txn), key);
    enum hf_status status = doc_new(client_store(client), client_clock(client), view_of(key),
                                    &record_doc_type, NULL, &txn->doc, error);
    if (status != HF_OK) {
        free(txn);
        return status;
    }
    env_mutex_init(client_env(client), &txn->mutex);
    env_mutex_init(client_env(client), &txn->waiting.mutex);
    client_keep(client);
    *ret_txn = txn;
    return HF_OK;
}

enum hf_status hf_txn_begin(struct hf_client *client, const struct hf_txn_options *options,
                            struct hf_txn **ret_txn, struct hf_error *error)
{
    struct hf_txn_options used = HF_TXN_OPTIONS;
    struct hf_txn *txn;
    struct hf_error why;
    if (ret_txn)
        *ret_txn = NULL;
    if (ERROR_IF_NULL(error, client, ret_txn) != HF_OK)
        return HF_INVALID;
    client_active(client);
    enum hf_status status =
        read_caller_options("HF_TXN_OPTIONS", options, &used, sizeof used, error);
    const char *id = used.id;
    if (status == HF_OK && id)
        status = txn_check_id(view_of(id), error);
    if (status == HF_OK)
        status = new_txn(client, id, &txn, error);
    if (status != HF_OK)
        return status;
    status = id ? join_record(txn, &why) : begin_txn(txn, &why);
    if (status == HF_OK) {
        *ret_txn = txn;
        return error_clear(error);
    }
    free_txn(txn);
    if (error)
        *error = why;
    return status;
}

enum hf_status txn_open(struct hf_client *client, char ret_id[TXN_ID_SIZE + 1],
                        struct hf_error *error)
{
    struct hf_txn *txn;
    client_active(client);
    enum hf_status status = new_txn(client, NULL, &txn, error);
    if (status != HF_OK)
        return status;
    txn->open = true;
    status = begin_txn(txn, error);
    if (status == HF_OK)
        memcpy(ret_id, txn->id, sizeof txn->id);
    free_txn(txn);
    return status;
}

enum hf_status hf_txn_adopt(struct hf_txn *txn, const char *lease,
                            const struct hf_key_options *options, struct hf_key **ret_key,
                            struct hf_error *error)
{
    if (ret_key)
        *ret_key = NULL;
    if (ERROR_IF_NULL(error, txn, lease, ret_key) != HF_OK)
        return HF_INVALID;
    client_active(txn->client);
    enum hf_status status = key_adopt_for(txn->client, lease, options, txn, ret_key, error);
    return status == HF_OK ? error_clear(error) : status;
}

const char *hf_txn_id(const struct hf_txn *txn)
{
    return txn ? txn->id : "";
}

/* ---- Taking keys --------------------------------------------------------------------- */

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
        if (strcmp(txn->keys[i]->name, name) > 0)
            return false;
    full_key_name(txn->client, name, &whole);
    for (size_t i = 0; i < txn->other_count; i++)
        if (strcmp(txn->others[i].name, whole.name) > 0)
            return false;
    return true;
}

static void set_waiting(struct hf_txn *txn, struct hf_lock *lock)
{
    env_mutex_lock(&txn->waiting.mutex);
    txn->waiting.lock = lock;
    env_mutex_unlock(&txn->waiting.mutex);
}

void hf_txn_interrupt(struct hf_txn *txn)
{
    if (!txn)
        return;
    env_mutex_lock(&txn->waiting.mutex);
    hf_lock_interrupt(txn->waiting.lock);
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

/* Releases the keys from `first` on, which were not changed. If there is no reply, a key may keep
 * its stage. A client that wants the key then rolls the transaction back. */
static void give_back_keys(struct hf_txn *txn, size_t first)
{
    for (size_t i = first; i < txn->key_count; i++) {
        key_end(txn->keys[i], /* commit */ false, NULL);
        hf_key_free(txn->keys[i]);
    }
    txn->key_count = first;
}

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

static enum hf_status acquire_locked(struct hf_txn *txn, const struct key_request *request,
                                     struct hf_key **ret_keys, struct hf_error *error)
{
    struct named names[TXN_KEYS_MAX];
    struct hf_key *taken[TXN_KEYS_MAX];
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
    for (size_t i = 0; i < request->count; i++) {
        status = take_key(txn, names[i].name, request, &taken[names[i].index], error);
        if (status != HF_OK)
            break;
    }
    if (status == HF_OK)
        status = name_keys_in_record(txn, first, error);
    /* All keys or none: a key that stayed taken would be locked until the transaction is decided,
     * although the caller has no handle for it. */
    if (status != HF_OK) {
        give_back_keys(txn, first);
        return status;
    }
    memcpy(ret_keys, taken, request->count * sizeof(struct hf_key *));
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
    env_mutex_lock(&txn->mutex);
    enum hf_status status = acquire_locked(txn, &request, ret_keys, &why);
    env_mutex_unlock(&txn->mutex);
    return error_tell(error, status, &why);
}

/* ---- The end of a handle ------------------------------------------------------------- */

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
    free_txn(txn);
}
