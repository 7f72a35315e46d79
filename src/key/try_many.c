/* SPDX-License-Identifier: Apache-2.0 */
/* try_many.c: acquires, releases and renews many locks and keys in one attempt (hf_try_many). What
 * a key needs besides its lease is done here: its state is noted, and a stage that an earlier
 * transaction has left is settled. It guards against a key that is granted with an unknown state:
 * whatever the single call would do in more than one write is left to it. */
#include "key/key.h"

#include "base/check.h"

#include <stdlib.h>

static struct hf_lock *lock_of_try(const struct hf_try *it)
{
    return it->key ? it->key->lock : it->lock;
}

static int compare_tries(const void *a, const void *b)
{
    uint64_t one = lock_of_try(*(struct hf_try *const *)a)->number;
    uint64_t other = lock_of_try(*(struct hf_try *const *)b)->number;
    return (one > other) - (one < other);
}

/* Orders the entries by their handles, so that two calls never wait for each other's handles. The
 * order is not that of addresses, because a simulated history must not depend on these. */
static enum hf_status order_tries(struct hf_try *tries, size_t count,
                                  struct hf_try *ret_ordered[HF_TRY_MAX],
                                  struct hf_error *error)
{
    if (count == 0 || count > HF_TRY_MAX)
        return error_set(error, HF_INVALID, "the number of locks must be 1 to %d", HF_TRY_MAX);
    for (size_t i = 0; i < count; i++) {
        struct hf_try *it = ret_ordered[i] = &tries[i];
        if ((unsigned)it->kind > HF_TRY_RENEW)
            return error_set(error, HF_INVALID, "unknown kind of an entry");
        if (!it->lock == !it->key || (it->key && it->kind >= HF_TRY_RELEASE))
            return error_set(error, HF_INVALID,
                             "each entry must have a lock, or a key to acquire");
        if (key_info_begin(it->info, error) != HF_OK)
            return HF_INVALID;
        if (lock_of_try(it)->client != lock_of_try(&tries[0])->client)
            return error_set(error, HF_INVALID, "the handles must belong to one client");
    }
    qsort(ret_ordered, count, sizeof(struct hf_try *), compare_tries);
    for (size_t i = 1; i < count; i++)
        if (lock_of_try(ret_ordered[i]) == lock_of_try(ret_ordered[i - 1]))
            return error_set(error, HF_INVALID, "a handle is named twice");
    return HF_OK;
}

/* Of a key that belongs to a transaction, or is held or waiting, the single call knows more. */
static bool key_can_try(struct hf_key *key)
{
    return !key->sealed && !key->txn && !key->waiting &&
           hf_lock_check(key->lock, NULL) == HF_NOT_FOUND;
}

static void begin_try_of_key(struct hf_key *key, struct lock_try *ret_try)
{
    env_mutex_lock(&key->calls);
    if (key_can_try(key)) {
        key_begin_acquire_locked(key);
        ret_try->lock = key->lock;
    } else {
        error_set(&ret_try->error, HF_CONFLICT, "not done: acquire this key by itself");
    }
}

static void end_try_of_key(struct hf_key *key, struct lock_try *it, struct hf_key_info *info)
{
    enum hf_status status = it->error.status;
    if (status == HF_CORRUPT) /* the single call saves a copy of the damaged state first */
        status =
            error_set(&it->error, HF_CONFLICT, "not done: the state of the key is damaged");
    key->waiting = status == HF_HELD && it->kind == HF_TRY_BEGIN;
    if (status == HF_OK)
        status = key_finish_acquire_locked(key, &it->error);
    if (status == HF_HELD && it->kind == HF_TRY_BEGIN &&
        !key->waiting) /* the lease has ended */
        status = error_set(&it->error, HF_UNAVAILABLE, "a transaction has the key");
    key_report_acquired_locked(key, status, info);
    env_mutex_unlock(&key->calls);
}

static void run_tries(struct hf_try *const *tries, struct lock_try *parts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        parts[i].lock = tries[i]->lock;
        parts[i].kind = tries[i]->kind;
        if (tries[i]->key)
            begin_try_of_key(tries[i]->key, &parts[i]);
    }
    lock_try_many(parts, count);
    for (size_t i = 0; i < count; i++) {
        if (tries[i]->key)
            end_try_of_key(tries[i]->key, &parts[i], tries[i]->info);
        tries[i]->error = parts[i].error;
    }
}

enum hf_status hf_try_many(struct hf_try *tries, size_t count, struct hf_error *error)
{
    struct hf_try *ordered[HF_TRY_MAX];
    if (ERROR_IF_NULL(error, tries) != HF_OK ||
        order_tries(tries, count, ordered, error) != HF_OK)
        return HF_INVALID;
    struct hf_client *client = lock_of_try(&tries[0])->client;
    if (client_server(client) || !client_store(client)->ops->change)
        return error_set(error, HF_UNSUPPORTED,
                         "this store cannot write several locks in one step");
    struct lock_try *parts = malloc(count * sizeof *parts);
    if (!parts)
        return error_no_memory(error);
    client_active(client);
    run_tries(ordered, parts, count);
    free(parts);
    return error_clear(error);
}
