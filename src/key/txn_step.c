/* SPDX-License-Identifier: Apache-2.0 */
/* txn_step.c: what a transaction does to all its documents in one step of a store that can do so
 * (sqlite): it writes its entry and its record, acquires its keys, or decides and settles them. The
 * step guards against half a transaction: all of the documents are written, or none. Whatever a
 * step refuses or cannot do is done by the other files, one document after the other, so a step is
 * never needed, only faster. See README.md, rule 15. */
#include "base/check.h"
#include "base/mutant.h"
#include "base/rule.h"
#include "key/txn_inside.h"

#include <stdlib.h>

bool txn_can_step(const struct hf_txn *txn, size_t documents)
{
    return !txn->joined && documents <= TOGETHER_MAX && client_store(txn->client)->ops->change;
}

/* ---- Acquiring ----------------------------------------------------------------------- */

/* The request for a key. Only as many as there are keys are allocated: what is freed here would
 * otherwise be so large that the C library may return memory to the kernel, each time. */
struct taking {
    struct lease_request wanted;
    struct request request;
};

/* Prepares the request for each key. *ret_begun keys are locked afterwards. */
static enum hf_status begin_taking(struct hf_key *const *keys, size_t count,
                                   struct taking *taking, size_t *ret_begun,
                                   struct hf_error *error)
{
    enum hf_status status = HF_OK;
    size_t begun = 0;
    while (begun < count && status == HF_OK) {
        struct hf_key *key = keys[begun];
        env_mutex_lock(&key->calls);
        env_mutex_lock(&key->lock->calls);
        key_begin_acquire_locked(key);
        table_ref_await_ended(key->lock->ref);
        status = lock_begin_acquire(key->lock, /* waits */ false, &taking[begun].wanted,
                                    &taking[begun].request, error);
        begun++;
    }
    *ret_begun = begun;
    return status;
}

/* The result of one key, if the step was done or may have been done. In the latter case the caller
 * undoes it, and not the cleanup task, which knows nothing of stages. */
static void finish_taking(struct hf_key *key, struct request *request, struct hf_error *result)
{
    enum hf_status status = request->op.error.status;
    *result = request->op.error;
    if (status == HF_OK)
        status = lock_finish_acquire(key->lock, request, result);
    env_mutex_unlock(&key->lock->calls);
    if (status == HF_OK)
        status = key_finish_acquire_locked(key, result);
    env_mutex_unlock(&key->calls);
    if (status == HF_OK)
        error_clear(result);
}

static void leave_key(struct hf_key *key)
{
    env_mutex_unlock(&key->lock->calls);
    env_mutex_unlock(&key->calls);
}

/* The step. The record is written in it unless that has been done, because no client may find a key
 * of a transaction that has no record. */
static enum hf_status ask_for_all(struct hf_txn *txn, struct request *const *requests,
                                  size_t count, struct hf_error *error)
{
    struct txn_beginning beginning = { .entry = NULL };
    struct beside_tables beside;
    env_mutex_lock(&txn->begin.mutex);
    bool begins = RULE(RECORD_WITH_THE_FIRST_KEYS) && txn->begin.state != TXN_BEGUN;
    enum hf_status status =
        begins ? txn_beginning_init(txn, &beginning, &beside, error) : HF_OK;
    if (status == HF_OK)
        status = table_refs_ask_together(begins ? &beside : NULL, requests, count, error);
    if (begins && status == HF_OK)
        txn->begin.state = TXN_BEGUN;
    else if (begins && status == HF_UNSURE)
        txn->begin.state = TXN_MAYBE;
    env_mutex_unlock(&txn->begin.mutex);
    txn_beginning_release(&beginning);
    return status;
}

enum hf_status txn_take_in_one_step(struct hf_txn *txn, struct hf_key *const *keys,
                                    size_t count, struct hf_error *results,
                                    struct hf_error *error)
{
    struct request *requests[TOGETHER_MAX];
    size_t begun;
    check(count > 0 && count <= TOGETHER_MAX);
    struct taking *taking = malloc(count * sizeof *taking);
    if (!taking)
        return error_no_memory(error);
    enum hf_status status = begin_taking(keys, count, taking, &begun, error);
    for (size_t i = 0; i < count; i++)
        requests[i] = &taking[i].request;
    if (status == HF_OK)
        status = ask_for_all(txn, requests, count, error);
    bool may_be_done = status == HF_OK || status == HF_UNSURE;
    for (size_t i = 0; i < begun; i++) {
        if (!may_be_done && requests[i]->op.answer == DOC_KNOWN)
            error_prefix(error, "%s", keys[i]->name);
        if (may_be_done)
            finish_taking(keys[i], requests[i], &results[i]);
        else
            leave_key(keys[i]);
    }
    free(taking);
    return status;
}

/* ---- Committing ---------------------------------------------------------------------- */

struct committing {
    struct hf_key *keys[TOGETHER_MAX]; /* ordered by name, like every step */
    struct request *asked[TOGETHER_MAX];
    size_t count;
    struct { /* as many as there are keys; see struct taking */
        struct change change;
        struct request request;
    } parts[];
};

static int compare_key_names(const void *a, const void *b)
{
    return strcmp((*(struct hf_key *const *)a)->name, (*(struct hf_key *const *)b)->name);
}

/* The handles no longer hold their leases. False: a lease cannot be ended, because it is not held
 * or was acquired by the caller, too. */
static bool begin_committing(const struct hf_txn *txn, struct committing *committing)
{
    bool all = true;
    size_t count = txn->key_count;
    memcpy(committing->keys, txn->keys, count * sizeof(struct hf_key *));
    qsort(committing->keys, count, sizeof(struct hf_key *), compare_key_names);
    for (size_t i = 0; i < count; i++) {
        struct hf_key *key = committing->keys[i];
        env_mutex_lock(&key->calls);
        key_stop_locked(key);
        all = all && key->ending.last;
        struct change *change = &committing->parts[i].change;
        committing->asked[i] = &committing->parts[i].request;
        key_init_commit(change, key);
        lock_init_ending(key->lock, &key->ending, &change->hook, committing->asked[i]);
    }
    committing->count = count;
    return all;
}

/* UNSURE: the leases may have been released, so the handles do not hold them any more. */
static void finish_committing(struct committing *committing, enum hf_status status)
{
    for (size_t i = 0; i < committing->count; i++) {
        struct hf_key *key = committing->keys[i];
        struct hf_error ignored;
        if (status == HF_OK) {
            lock_finish_end(key->lock, committing->asked[i], key->ending.over, &ignored);
            key_committed_locked(key, &committing->parts[i].change);
            key_leave_turn(key);
        } else if (status != HF_UNSURE) {
            key_resume_locked(key);
        }
        key->in_doubt = status == HF_UNSURE;
        change_release(&committing->parts[i].change);
        env_mutex_unlock(&key->calls);
    }
}

enum hf_status txn_commit_in_one_step(struct hf_txn *txn, struct record_op *decision,
                                      struct hf_error *error)
{
    check(txn->key_count <= TOGETHER_MAX);
    struct committing *committing =
        malloc(sizeof *committing + txn->key_count * sizeof committing->parts[0]);
    if (!committing)
        return error_no_memory(error);
    enum hf_status status = HF_UNSUPPORTED;
    struct beside_tables record = { { txn->doc }, { &decision->op }, 1 };
    bool begun = begin_committing(txn, committing);
    size_t settled = committing->count;
    MUTANT(mutant_leaves_last_key(&settled));
    if (begun)
        status = table_refs_ask_together(&record, committing->asked, settled, error);
    finish_committing(committing, status);
    if (status == HF_OK)
        keys_clear_up(txn->keys, txn->key_count);
    free(committing);
    return status;
}

void txn_resume_keys(struct hf_txn *txn)
{
    for (size_t i = 0; i < txn->key_count; i++) {
        struct hf_key *key = txn->keys[i];
        env_mutex_lock(&key->calls);
        if (key->in_doubt)
            key_resume_locked(key);
        key->in_doubt = false;
        env_mutex_unlock(&key->calls);
    }
}
