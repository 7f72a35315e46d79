/* txn.c: transactions as their processes have them: begin, take keys in order. txn_decide.c ends
 * them.
 *
 * All hangs on the order of writes: the entry, the record, the keys with their leases, what is
 * staged, the decision with the names of all keys, the keys' settling, and that all are settled.
 * docs/design.md section 9; src/key/README.md says what a crash leaves after each. */
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

enum hf_status txn_begin_record(struct hf_txn *txn, struct hf_error *error)
{
    struct record_op op;
    record_op_init(&op, RECORD_BEGIN, id_of(txn), soon(txn->client));
    op.owner = view_of(txn->owner);
    op.holder = view_of(txn->client->holder);
    op.open = txn->open;
    return txn_ask(txn, &op, error);
}

/* When this succeeds the record is known to stand: before that nobody may take a key for it. */
static enum hf_status begin_new(struct hf_txn *txn, struct hf_error *error)
{
    enum hf_status status = record_announce(txn->client, id_of(txn), error);
    if (status == HF_OK && RULE(RECORD_BEFORE_STAGE))
        status = txn_begin_record(txn, error);
    return status;
}

static enum hf_status join(struct hf_txn *txn, struct hf_error *error)
{
    struct txn_record record;
    txn->joined = true;
    enum hf_status status = record_get(txn->client, id_of(txn), &record, NULL, error);
    if (status == HF_NOT_FOUND)
        return error_set(error, status, "there is no such transaction, or it ended long ago");
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
    struct hf_client *client = txn->client;
    env_mutex_release(&txn->waiting.mutex);
    env_mutex_release(&txn->mutex);
    doc_free(txn->doc);
    free(txn->keys);
    free(txn->others);
    free(txn);
    client_drop(client);
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
    env_mutex_init(client->env, &txn->waiting.mutex);
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
        status = new_handle(client, id, &txn, error);
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
        set_waiting(txn, key->lock);
        status = hf_key_acquire(key, wait_left(txn, name, deadline), /* info */ NULL, error);
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

struct txn_key *txn_names(const struct hf_txn *txn, size_t first, size_t *ret_count)
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
    struct txn_key *names = txn_names(txn, first, &op.key_count);
    if (!names)
        return error_no_memory(error);
    op.keys = names;
    op.key_count = txn->key_count - first;
    enum hf_status status = txn_ask(txn, &op, error);
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
        status = txn_learn_others(txn, &decided, error);
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
    for (size_t i = 0; ret_keys && i < count; i++)
        ret_keys[i] = NULL;
    if (ERROR_IF_NULL(error, txn, names, ret_keys) != HF_OK ||
        error_if_null_among(error, "names", names, count) != HF_OK)
        return HF_INVALID;
    if (wait_ms < 0)
        return error_set(error, HF_INVALID, "a wait is not less than nothing");
    client_active(txn->client);
    struct mono_time deadline = deadline_after(txn->client, wait_ms);
    env_mutex_lock(&txn->mutex);
    enum hf_status status =
        acquire_locked(txn, names, count, options, deadline, ret_keys, &why);
    env_mutex_unlock(&txn->mutex);
    return error_tell(error, status, &why);
}

/* ---- The end of a handle --------------------------------------------------------------- */

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
