/* SPDX-License-Identifier: Apache-2.0 */
/* txn.c: a process's transactions: begins and frees them. The order of the writes prevents partial
 * transactions: the index entry, the record, the keys with their leases, the stages, the decision
 * with the names of all keys, and then the settling. See docs/design.md, section 9. */
#include "base/rule.h"
#include "env/parallel.h"
#include "key/txn_inside.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Beginning ----------------------------------------------------------------------- */

/* A server names the keys in the record, and notes that they are settled, by itself. */
static enum hf_status ask_server_for_txn(struct hf_txn *txn, struct record_op *op)
{
    struct hf_error *error = &op->op.error;
    enum hf_decision wanted = op->decision == TXN_COMMIT ? HF_COMMIT : HF_ROLLBACK, decided;
    error_clear(error);
    if (op->kind != RECORD_DECIDE)
        return HF_OK;
    enum hf_status status = client_server(txn->client)
                                ->decide_txn(txn->client, id_of(txn), wanted, &decided, error);
    op->recorded = TXN_ABSENT;
    if (status == HF_OK)
        op->recorded = decided == HF_COMMIT ? TXN_COMMIT : TXN_ROLLBACK;
    return status == HF_NOT_FOUND ? error_clear(error) : status;
}

enum hf_status txn_ask(struct hf_txn *txn, struct record_op *op, struct hf_error *error)
{
    enum hf_status status = client_server(txn->client) ? ask_server_for_txn(txn, op)
                                                       : doc_update(txn->doc, &op->op);
    if (status != HF_OK && error) {
        *error = op->op.error;
        error_prefix(error, "transaction %s", txn->id);
    }
    return status;
}

void txn_each_key(struct hf_txn *txn, size_t count, void (*step)(void *argument, size_t index),
                  void *argument)
{
    if (client_is_remote(txn->client)) {
        parallel_run(client_env(txn->client), count, step, argument);
        return;
    }
    for (size_t i = 0; i < count; i++)
        step(argument, i);
}

void txn_init_begin(const struct hf_txn *txn, struct record_op *op)
{
    record_op_init(op, RECORD_BEGIN, id_of(txn), client_deadline(txn->client));
    op->owner = view_of(txn->owner);
    op->holder = view_of(client_holder(txn->client));
    op->open = txn->open;
}

enum hf_status txn_beginning_init(struct hf_txn *txn, struct txn_beginning *beginning,
                                  struct beside_tables *beside, struct hf_error *error)
{
    txn_init_begin(txn, &beginning->record);
    *beside = (struct beside_tables){ .docs = { NULL, txn->doc },
                                      .ops = { &beginning->announce, &beginning->record.op },
                                      .count = TXN_BEGINNING_DOCUMENTS };
    enum hf_status status =
        record_entry_new(txn->client, id_of(txn), beginning->record.op.deadline,
                         &beginning->entry, &beginning->announce, error);
    beside->docs[0] = beginning->entry;
    return status;
}

void txn_beginning_release(struct txn_beginning *beginning)
{
    doc_free(beginning->entry);
}

static enum hf_status begin_in_one_step(struct hf_txn *txn, struct hf_error *error)
{
    struct txn_beginning beginning = { .entry = NULL };
    struct beside_tables both;
    enum hf_status status = txn_beginning_init(txn, &beginning, &both, error);
    if (status == HF_OK)
        status = doc_update_together(both.docs, both.ops, both.count, error);
    txn_beginning_release(&beginning);
    return status;
}

/* On success the record is known to be in the store. Before that, no key may be taken for the
 * transaction: a client that found the stage would take the missing record for a rollback. If an
 * earlier try got no reply, its record is recognised. */
static enum hf_status begin_locked(struct hf_txn *txn, struct hf_error *error)
{
    struct record_op op;
    struct hf_error ignored;
    enum hf_status status = HF_OK;
    if (client_server(txn->client)) {
        status = client_server(txn->client)->begin_txn(txn->client, txn->id, error);
        txn->begin.state = status == HF_OK ? TXN_BEGUN : TXN_DEFERRED;
        return status;
    }
    bool steps = RULE(RECORD_BEFORE_STAGE) && txn->begin.state == TXN_DEFERRED &&
                 txn_can_step(txn, TXN_BEGINNING_DOCUMENTS);
    txn->begin.state = TXN_MAYBE;
    if (!steps || begin_in_one_step(txn, &ignored) != HF_OK) {
        /* The index entry is written first. If this process died after writing only the record, no
         * sweep except a full one would find it. */
        status = record_announce(txn->client, id_of(txn), error);
        txn_init_begin(txn, &op);
        if (RULE(RECORD_BEFORE_STAGE) && status == HF_OK)
            status = txn_ask(txn, &op, error);
    }
    if (status == HF_OK)
        txn->begin.state = TXN_BEGUN;
    return status;
}

enum hf_status txn_ensure_begun(struct hf_txn *txn, struct hf_error *error)
{
    env_mutex_lock(&txn->begin.mutex);
    enum hf_status status = txn->begin.state >= TXN_BEGUN ? HF_OK : begin_locked(txn, error);
    env_mutex_unlock(&txn->begin.mutex);
    return status;
}

bool txn_has_begun(struct hf_txn *txn)
{
    env_mutex_lock(&txn->begin.mutex);
    bool begun = txn->begin.state == TXN_BEGUN;
    env_mutex_unlock(&txn->begin.mutex);
    return begun;
}

bool txn_end_unbegun(struct hf_txn *txn, bool decided)
{
    env_mutex_lock(&txn->begin.mutex);
    bool unsent = txn->begin.state == TXN_DEFERRED;
    if (unsent || (decided && txn->begin.state == TXN_MAYBE))
        txn->begin.state = TXN_ENDED;
    env_mutex_unlock(&txn->begin.mutex);
    return unsent;
}

/* A new transaction. Nobody can know its id before it has a key, unless the caller asks for the id.
 * So if the first keys can be acquired in the same step, the record need not be written yet. */
static enum hf_status begin_txn(struct hf_txn *txn, struct hf_error *error)
{
    doc_expect_absent(txn->doc); /* its id is random */
    bool later = RULE(RECORD_BEFORE_STAGE) && !txn->open &&
                 txn_can_step(txn, TXN_BEGINNING_DOCUMENTS + 1);
    return later ? HF_OK : txn_ensure_begun(txn, error);
}

static enum hf_status join_record(struct hf_txn *txn, struct hf_error *error)
{
    struct txn_record record;
    txn->joined = true;
    txn->begin.state = TXN_BEGUN;
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
    env_mutex_release(&txn->begin.mutex);
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
    atomic_init(&txn->users, 1);
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
    env_mutex_init(client_env(client), &txn->begin.mutex);
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

/* Whoever learns the id may join the transaction, so its record must be there. If it cannot be
 * written, a process that joins is told so. */
const char *hf_txn_id(const struct hf_txn *txn)
{
    struct hf_error ignored;
    struct hf_txn *own = (struct hf_txn *)(uintptr_t)txn; /* it changes nothing that shows */
    if (!own)
        return "";
    env_mutex_lock(&own->begin.mutex);
    own->begin.told = true;
    env_mutex_unlock(&own->begin.mutex);
    (void)txn_ensure_begun(own, &ignored);
    return own->id;
}

/* ---- The end of a handle ------------------------------------------------------------- */

/* A step that got no reply may not have been made. Its handles do not hold their leases any more,
 * so nothing else would release them, or let this process acquire the keys. */
static void free_txn_and_keys(struct hf_txn *txn)
{
    for (size_t i = 0; i < txn->key_count; i++) {
        struct hf_key *key = txn->keys[i];
        if (key->in_doubt) {
            key_abandon(key);
            lock_give_back(key->lock);
        }
        hf_key_free(key);
    }
    free_txn(txn);
}

void txn_keep(struct hf_txn *txn)
{
    atomic_fetch_add(&txn->users, 1);
}

void txn_drop(struct hf_txn *txn)
{
    if (atomic_fetch_sub(&txn->users, 1) == 1)
        free_txn_and_keys(txn);
}

/* A joined transaction that is pending is left to its other members. */
static void leave_txn_locked(struct hf_txn *txn)
{
    for (size_t i = 0; i < txn->key_count; i++)
        hf_key_detach(txn->keys[i]);
    txn->key_count = 0;
}

void hf_txn_free(struct hf_txn *txn)
{
    if (!txn)
        return;
    env_mutex_lock(&txn->mutex);
    bool pending = txn->known == TXN_PENDING;
    if (pending && txn->joined)
        leave_txn_locked(txn);
    env_mutex_unlock(&txn->mutex);
    if (pending && !txn->joined)
        hf_txn_rollback(txn, NULL, NULL);
    txn_drop(txn);
}
