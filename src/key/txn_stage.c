/* SPDX-License-Identifier: Apache-2.0 */
/* txn_stage.c: stages changes to several keys of a transaction, side by side if the store is
 * remote. Each change is made as by hf_key_update: it belongs to one key, and has its own result.
 * The call returns when all results are known, so a commit that follows relies only on known
 * stages. */
#include "base/mutant.h"
#include "key/txn_inside.h"

#include <stdlib.h>

struct staging {
    struct hf_txn_change *changes;
    struct hf_error *errors;
};

static void stage_change(void *argument, size_t index)
{
    struct staging *staging = argument;
    struct hf_txn_change *change = &staging->changes[index];
    struct hf_error *error = &staging->errors[index];
    change->status = change->removes
                         ? hf_key_remove(change->key, change->when, change->info, error)
                         : hf_key_update(change->key, change->data, change->size, change->when,
                                         change->info, error);
}

/* Each key must belong to the transaction, and must be listed once: the order of two changes to
 * one key would be unknown. */
static enum hf_status check_changes(const struct hf_txn *txn,
                                    const struct hf_txn_change *changes, size_t count,
                                    struct hf_error *error)
{
    if (count == 0 || count > TXN_KEYS_MAX)
        return error_set(error, HF_INVALID, "there must be 1 to %d changes", TXN_KEYS_MAX);
    for (size_t i = 0; i < count; i++) {
        if (!changes[i].key || changes[i].key->txn != txn)
            return error_set(error, HF_INVALID,
                             "change %zu has no key that belongs to the transaction", i);
        if (changes[i].removes && changes[i].size > 0)
            return error_set(error, HF_INVALID, "a state that is removed has no data");
        for (size_t j = 0; j < i; j++)
            if (changes[j].key == changes[i].key)
                return error_set(error, HF_INVALID, "%s is listed twice",
                                 hf_key_name(changes[i].key));
    }
    return HF_OK;
}

enum hf_status hf_txn_update(struct hf_txn *txn, struct hf_txn_change *changes, size_t count,
                             struct hf_error *error)
{
    if (ERROR_IF_NULL(error, txn, changes) != HF_OK ||
        check_changes(txn, changes, count, error) != HF_OK)
        return HF_INVALID;
    struct staging staging = { .changes = changes,
                               .errors = calloc(count, sizeof *staging.errors) };
    if (!staging.errors)
        return error_no_memory(error);
    txn_each_key(txn, count, stage_change, &staging);
    MUTANT(mutant_forgets_replies(changes, count));
    size_t first = 0;
    while (first < count && changes[first].status == HF_OK)
        first++;
    enum hf_status status = HF_OK;
    if (first < count) {
        status = changes[first].status;
        error_prefix(&staging.errors[first], "%s", hf_key_name(changes[first].key));
        if (error)
            *error = staging.errors[first];
    } else {
        error_clear(error);
    }
    free(staging.errors);
    return status;
}
