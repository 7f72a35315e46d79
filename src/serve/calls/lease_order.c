/* SPDX-License-Identifier: Apache-2.0 */
/* lease_order.c: acquires leases for clients, and uses them by their ids. It guards against leases
 * that a server believes in longer than the library does: the time that is left always comes from
 * the library, which counts it from before the write. */
#include "serve/calls/lease_order.h"

#include "base/check.h"
#include "base/mutant.h"
#include "base/parse.h"
#include "base/rule.h"
#include "serve/calls/txn_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The strings of most orders. */
#define ORDER_TEXT_USUAL 256

struct lease_order {
    struct call_order order; /* must be the first member */
    struct env *env;
    struct lease_ids *ids;
    struct lease_task task; /* with its strings in `text` */
    /* Of an acquire: one of these, while it has a place in the store's queue. */
    struct hf_key *key;
    struct hf_lock *lock;
    struct hf_txn *txn; /* owns `key`; joined for this call only */
    char *lease;        /* the text of the lease that was granted, and its id */
    char lease_id[CORE_LEASE_ID_SIZE + 1];
    char etag[HF_KEY_ETAG_SIZE + 1];
    bool is_short;                /* the text is at most ORDER_TEXT_USUAL */
    _Alignas(void *) char text[]; /* pointers to the scopes, and then all strings */
};

/* ---- Acquiring ----------------------------------------------------------------------- */

static enum hf_status open_handle(struct lease_order *it, int64_t poll_ms,
                                  struct hf_error *error)
{
    const struct lease_task *task = &it->task;
    if (task->is_key && task->once_per_ms == 0) {
        struct hf_key_options options = HF_KEY_OPTIONS;
        options.ttl_ms = task->ttl_ms;
        options.no_renewal = true;
        options.poll_ms = poll_ms;
        options.note = task->note;
        return hf_key_new(task->client, task->scope, &options, &it->key, error);
    }
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.ttl_ms = task->ttl_ms;
    options.mode = task->mode;
    options.slots = task->slots;
    options.no_renewal = true;
    options.poll_ms = poll_ms;
    options.note = task->note;
    options.once_per_ms = task->once_per_ms;
    options.once_slack_ms = task->once_slack_ms;
    return task->scope_count > 0
               ? hf_lock_new_many(task->client, task->scopes, task->scope_count, &options,
                                  &it->lock, error)
               : hf_lock_new(task->client, task->scope, &options, &it->lock, error);
}

/* The lease stays if the handle holds it and `detaches`; otherwise it is given up. */
static void close_handle(struct lease_order *it, bool detaches)
{
    MUTANT(mutant_releases_txn_key(it->txn ? it->key : NULL));
    if (it->txn)
        hf_txn_free(it->txn); /* which was joined: its key is detached */
    else if (detaches && RULE(GRANTS_ARE_DETACHED)) {
        hf_key_detach(it->key);
        hf_lock_detach(it->lock);
    } else {
        hf_key_free(it->key);
        hf_lock_free(it->lock);
    }
    it->txn = NULL;
    it->key = NULL;
    it->lock = NULL;
}

static enum hf_status join_txn(const struct lease_task *task, struct hf_txn **ret_txn,
                               struct hf_error *error)
{
    struct hf_txn_options options = HF_TXN_OPTIONS;
    options.id = task->txn_id;
    return hf_txn_begin(task->client, &options, ret_txn, error);
}

/* One attempt to acquire the key for its transaction. */
static enum hf_status acquire_for_txn(struct lease_order *it, struct hf_key_info *info,
                                      struct hf_error *error)
{
    const struct lease_task *task = &it->task;
    struct hf_key_options options = HF_KEY_OPTIONS;
    options.ttl_ms = task->ttl_ms;
    options.no_renewal = true;
    options.note = task->note;
    enum hf_status status = join_txn(task, &it->txn, error);
    if (status == HF_OK)
        status = hf_txn_acquire(it->txn, &task->scope, 1, &options, /* wait_ms */ 0, &it->key,
                                error);
    if (status == HF_OK)
        return hf_key_seen(it->key, info, error);
    close_handle(it, /* detaches */ false);
    return status;
}

static struct hf_lock *lock_of_handle(struct lease_order *it)
{
    return it->key ? hf_key_lock(it->key) : it->lock;
}

static enum hf_status step(struct lease_order *it, enum core_call what,
                           struct hf_key_info *info, struct hf_error *error)
{
    switch (what) {
    case CORE_CALL_ACQUIRE:
        return it->key ? hf_key_acquire(it->key, /* wait_ms */ 0, info, error)
                       : hf_lock_acquire(it->lock, /* wait_ms */ 0, error);
    case CORE_CALL_BEGIN:
        return it->key ? hf_key_begin(it->key, info, error) : hf_lock_begin(it->lock, error);
    case CORE_CALL_POLL:
        return it->key ? hf_key_poll(it->key, info, error) : hf_lock_poll(it->lock, error);
    case CORE_CALL_CANCEL:
    case CORE_CALL_GIVE_BACK:
    case CORE_CALL_WORK:
    default: check_unreachable();
    }
}

/* How long the lease can be relied on. The clock is read first, because time may pass before the
 * library is asked what is left, and must not be added to it. */
static struct mono_time valid_until(struct lease_order *it, struct hf_lock *lock)
{
    struct mono_time now = env_now(it->env);
    int64_t left_ms = hf_lock_remaining_ms(lock);
    MUTANT(mutant_counts_from_answer(lock, &left_ms));
    return mono_add(now, SPAN_MS(left_ms));
}

/* The text of a lease begins with its token. */
static uint64_t token_of_lease(const char *lease)
{
    struct view rest = view_of(lease);
    uint64_t token = 0;
    check(parse_u64(view_cut(&rest, ':'), UINT64_MAX, &token, NULL) == HF_OK);
    return token;
}

/* The handle holds the lock. */
static enum hf_status describe_grant(struct lease_order *it, const struct hf_key_info *info,
                                     struct core_result *result, struct hf_error *error)
{
    struct hf_lock *lock = lock_of_handle(it);
    char text[HF_LEASE_TEXT_MAX];
    enum hf_status status = hf_lock_text(lock, text, error);
    result->version = info->version;
    memcpy(result->etag, info->etag, sizeof result->etag);
    if (status == HF_OK && it->task.if_absent && info->version > 0 && !info->removed)
        status = error_set(error, HF_ALREADY, "the key has a state");
    if (status != HF_OK)
        return status;
    free(it->lease);
    it->lease = strdup(text);
    if (!it->lease)
        return error_no_memory(error);
    lease_id_of(it->ids, it->task.scope, text, it->lease_id);
    memcpy(result->lease_id, it->lease_id, sizeof result->lease_id);
    result->token = token_of_lease(text);
    result->ttl_ms = hf_lock_ttl_ms(lock);
    result->valid_until = valid_until(it, lock);
    result->keep = true;
    return error_clear(error);
}

/* The result of a step of an acquire, which has this status. */
static void end_acquire_step(struct lease_order *it, enum core_call what, enum hf_status status,
                             const struct hf_key_info *info, struct hf_error *error,
                             struct core_result *result)
{
    bool granted = status == HF_OK;
    bool stands = status == HF_HELD && what != CORE_CALL_ACQUIRE;
    if (granted)
        status = describe_grant(it, info, result, error);
    if (granted && status != HF_OK) /* before the reply: the client may ask again at once */
        hf_lock_release(lock_of_handle(it), NULL);
    for (size_t i = 0; status == HF_HELD && i < it->task.scope_count; i++)
        result->blocked |= (uint64_t)hf_lock_blocked(it->lock, i) << i;
    if (status == HF_HELD) {
        /* The library may name the transaction that holds it, but its id is secret. */
        error_set(error, HF_HELD, "another client holds it");
        result->outcome = HF_KEY_WAITING;
    }
    if (status == HF_LOST) /* the client has no lease that it could have lost */
        status = error_set(error, HF_UNAVAILABLE,
                           "the lock was granted too late to be of use, and was released");
    call_result_set(result, status, error);
    if (!stands)
        close_handle(it, /* detaches */ status == HF_OK);
}

static void acquire(struct lease_order *it, enum core_call what, int64_t poll_ms,
                    struct core_result *result)
{
    struct hf_error error;
    struct hf_key_info info = HF_KEY_INFO;
    enum hf_status status = HF_OK;
    if (it->task.txn_id)
        status = acquire_for_txn(it, &info, &error);
    else if (what != CORE_CALL_POLL)
        status = open_handle(it, poll_ms, &error);
    if (status == HF_OK && !it->task.txn_id)
        status = step(it, what, &info, &error);
    end_acquire_step(it, what, status, &info, &error, result);
}

static void cancel(struct lease_order *it, struct core_result *result)
{
    struct hf_error error;
    enum hf_status status = HF_OK;
    if (it->key)
        status = hf_key_cancel(it->key, &error);
    else if (it->lock)
        status = hf_lock_cancel(it->lock, &error);
    call_result_set(result, status, &error);
    close_handle(it, /* detaches */ false);
}

/* ---- Leases that were granted -------------------------------------------------------- */

static enum hf_status name_lock(struct lease_order *it, const char *lease,
                                struct hf_lock **ret_lock, struct hf_error *error)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.no_renewal = options.unconfirmed = true;
    return hf_lock_adopt(it->task.client, lease, &options, ret_lock, error);
}

static enum hf_status release(struct lease_order *it, const char *lease, struct hf_error *error)
{
    struct hf_lock *lock;
    enum hf_status status = name_lock(it, lease, &lock, error);
    if (status != HF_OK)
        return status;
    const char *note = it->task.kind == LEASE_RELEASE ? it->task.note : NULL;
    switch (it->task.ends) {
    case LEASE_ENDS_COMPLETED: status = hf_lock_complete(lock, note, error); break;
    case LEASE_ENDS_FAILED: status = hf_lock_fail(lock, note, error); break;
    case LEASE_ENDS_RELEASED:
    default: status = hf_lock_release(lock, error); break;
    }
    hf_lock_free(lock);
    return status;
}

static void release_granted(struct lease_order *it, struct core_result *result)
{
    struct hf_error error;
    check(it->lease != NULL);
    lease_id_forget(it->ids, it->lease_id);
    call_result_set(result, release(it, it->lease, &error), &error);
}

/* What a renewal of this status means for the client. The handle is freed, and the lease stays. */
static enum hf_status end_renewal(struct lease_order *it, struct hf_lock *lock,
                                  enum hf_status status, struct core_result *result)
{
    result->ttl_ms = hf_lock_ttl_ms(lock);
    result->valid_until = valid_until(it, lock);
    MUTANT(mutant_acknowledges_unsure_renewal(&status, env_now(it->env), &result->valid_until));
    hf_lock_detach(lock);
    return status;
}

static enum hf_status keep_alive(struct lease_order *it, const char *lease,
                                 struct core_result *result, struct hf_error *error)
{
    struct hf_lock *lock;
    enum hf_status status = name_lock(it, lease, &lock, error);
    if (status != HF_OK)
        return status;
    return end_renewal(it, lock, hf_lock_renew(lock, error), result);
}

/* Whether a transaction would be decided, or was, in the name of a key that it does not have. */
struct key_of_txn {
    char name[2 * HF_NAME_MAX + 2]; /* <namespace>/<key> */
    bool is_missing;
};

static bool find_key_of_txn(void *argument, const struct hf_txn_info *txn)
{
    struct key_of_txn *key = argument;
    /* A record of a rollback need not name any keys. */
    key->is_missing = txn->state == HF_TXN_PENDING || txn->key_count > 0;
    for (size_t i = 0; i < txn->key_count; i++)
        if (strcmp(txn->keys[i], key->name) == 0)
            key->is_missing = false;
    return false;
}

static enum hf_status check_key_of_txn(struct lease_order *it, const char *lease,
                                       struct core_result *result, struct hf_error *error)
{
    struct hf_lease_name name = HF_LEASE_NAME;
    struct key_of_txn key = { .is_missing = false };
    enum hf_status status = hf_lease_parse(lease, &name, error);
    if (status != HF_OK)
        return status;
    snprintf(key.name, sizeof key.name, "%s/%s", name.ns, name.key);
    status = hf_txn_show(it->task.client, it->task.txn_id, find_key_of_txn, &key, error);
    if (status == HF_OK && key.is_missing) {
        result->outcome = HF_KEY_TXN_MISMATCH;
        status = error_set(error, HF_MISMATCH, "the key is not held for this transaction");
    }
    return status;
}

/* Ends the transaction for which the key is held, and with it all its leases. */
static enum hf_status end_txn(struct lease_order *it, const char *lease,
                              struct core_result *result, struct hf_error *error)
{
    const struct lease_task *task = &it->task;
    enum hf_status status = check_key_of_txn(it, lease, result, error);
    if (status != HF_OK)
        return status;
    struct txn_call call = { .kind = TXN_CALL_DECIDE,
                             .id = task->txn_id,
                             .decision = task->rolls_back ? HF_ROLLBACK : HF_COMMIT };
    return txn_call_make(task->client, &call, error);
}

/* A handle for a lease of the wire, for one change. *ret_txn: the transaction for which it is
 * staged, or NULL. */
static enum hf_status adopt_for_change(struct lease_order *it, const char *lease,
                                       struct hf_txn **ret_txn, struct hf_key **ret_key,
                                       struct hf_error *error)
{
    const struct lease_task *task = &it->task;
    struct hf_key_options options = HF_KEY_OPTIONS;
    options.no_renewal = options.unconfirmed = true;
    *ret_txn = NULL;
    if (!task->txn_id)
        return hf_key_adopt(task->client, lease, &options, ret_key, error);
    enum hf_status status = join_txn(task, ret_txn, error);
    if (status == HF_OK)
        status = hf_txn_adopt(*ret_txn, lease, &options, ret_key, error);
    if (status != HF_OK)
        hf_txn_free(*ret_txn);
    return status;
}

/* Updates or removes the state. Without a transaction, nothing is staged. */
static enum hf_status update_under_lease(struct lease_order *it, const char *lease,
                                         struct core_result *result, struct hf_error *error)
{
    const struct lease_task *task = &it->task;
    struct hf_key_info info = HF_KEY_INFO;
    struct hf_txn *txn;
    struct hf_key *key;
    enum hf_status status = adopt_for_change(it, lease, &txn, &key, error);
    if (status != HF_OK)
        return status;
    status = task->kind == LEASE_REMOVE
                 ? hf_key_remove(key, &task->when, &info, error)
                 : hf_key_update(key, task->data, task->size, &task->when, &info, error);
    hf_key_detach(key);
    hf_txn_free(txn);
    result->outcome = info.outcome;
    result->version = info.version;
    memcpy(result->etag, info.etag, sizeof result->etag);
    return status;
}

/* Finds the lease by its id, and checks the token that the client expects. Without a client, only
 * the cache is searched. */
static enum hf_status find_lease(struct lease_order *it, struct hf_client *client,
                                 char ret_lease[HF_LEASE_TEXT_MAX], struct core_result *result,
                                 struct hf_error *error)
{
    enum hf_status status =
        lease_id_find(it->ids, client, it->task.scope, it->task.lease_id, ret_lease, error);
    if (status == HF_NOT_FOUND) {
        result->outcome = HF_KEY_LEASE_EXPIRED;
        return error_set(error, HF_LOST, "there is no lease with this id; it has ended");
    }
    if (status != HF_OK)
        return status;
    uint64_t token = token_of_lease(ret_lease);
    if (it->task.token != 0 && it->task.token != token) {
        result->outcome = HF_KEY_FENCING_MISMATCH;
        return error_set(error, HF_FENCED, "the lease has another fencing token");
    }
    result->token = token;
    return HF_OK;
}

/* The result of an operation on a lease, which has this status. */
static void end_use(struct lease_order *it, enum hf_status status, struct hf_error *error,
                    struct core_result *result)
{
    enum lease_order_kind kind = it->task.kind;
    if (status == HF_MISMATCH && result->outcome == HF_KEY_NONE && !it->task.txn_id)
        status = error_set(error, HF_LOST, "there is no lease with this id in this namespace");
    if (status == HF_LOST && result->outcome == HF_KEY_NONE)
        result->outcome = HF_KEY_LEASE_EXPIRED;
    if (status == HF_LOST || (status == HF_OK && kind == LEASE_RELEASE))
        lease_id_forget(it->ids, it->task.lease_id);
    /* A change that may have taken effect is not made again by a retry. A release that may have
     * taken effect can be repeated. */
    bool changes = kind == LEASE_UPDATE || kind == LEASE_REMOVE;
    result->keep = status == HF_OK || (changes && status == HF_UNSURE);
    memcpy(result->lease_id, it->task.lease_id, sizeof result->lease_id);
    call_result_set(result, status, error);
}

static void use_lease(struct lease_order *it, struct core_result *result)
{
    char lease[HF_LEASE_TEXT_MAX];
    struct hf_error error;
    enum lease_order_kind kind = it->task.kind;
    enum hf_status status = find_lease(it, it->task.client, lease, result, &error);
    bool found = status == HF_OK;
    if (found && kind == LEASE_KEEPALIVE)
        status = keep_alive(it, lease, result, &error);
    else if (found && kind == LEASE_RELEASE)
        status =
            it->task.txn_id ? end_txn(it, lease, result, &error) : release(it, lease, &error);
    else if (found)
        status = update_under_lease(it, lease, result, &error);
    end_use(it, status, &error, result);
}

/* ---- Together ------------------------------------------------------------------------ */

/* Acquires, releases and keepalives in one namespace are made in one call of the library, except
 * those of transactions. Everything else takes more than one write, or is rare. */
static bool joins_others(const struct call_order *order, enum core_call what)
{
    const struct lease_order *it = (const struct lease_order *)(const void *)order;
    bool joins = what == CORE_CALL_ACQUIRE || what == CORE_CALL_BEGIN ||
                 what == CORE_CALL_GIVE_BACK ||
                 (what == CORE_CALL_WORK &&
                  (it->task.kind == LEASE_RELEASE || it->task.kind == LEASE_KEEPALIVE));
    return joins && !it->task.txn_id && it->task.ends == LEASE_ENDS_RELEASED;
}

/* The orders of one call. */
struct lease_tries {
    struct hf_try tries[CALLS_BATCH_MAX];
    struct hf_key_info infos[CALLS_BATCH_MAX];
    struct lease_order *orders[CALLS_BATCH_MAX];
    size_t count;
};

/* Of a lease that must be searched in the store, the call is made alone. */
static enum hf_status prepare_use(struct lease_order *it, struct hf_lock **ret_lock,
                                  struct hf_error *error)
{
    char lease[HF_LEASE_TEXT_MAX];
    enum hf_status status = HF_OK;
    bool gives_back = it->order.what == CORE_CALL_GIVE_BACK;
    *ret_lock = NULL;
    if (!gives_back)
        status = find_lease(it, /* client */ NULL, lease, &it->order.result, error);
    it->order.alone = status == HF_UNSUPPORTED;
    if (status != HF_OK)
        return it->order.alone ? HF_OK : status;
    return name_lock(it, gives_back ? it->lease : lease, ret_lock, error);
}

static void end_lease_try(struct lease_order *it, enum hf_status status,
                          const struct hf_key_info *info, struct hf_error *error)
{
    struct core_result *result = &it->order.result;
    if (it->order.what == CORE_CALL_WORK)
        end_use(it, status, error, result);
    else if (it->order.what == CORE_CALL_GIVE_BACK)
        call_result_set(result, status, error);
    else
        end_acquire_step(it, it->order.what, status, info, error, result);
}

static bool renews_lease(const struct lease_order *it)
{
    return it->order.what == CORE_CALL_WORK && it->task.kind == LEASE_KEEPALIVE;
}

/* Adds the order to the call; one that is refused has its result, and one that cannot be part of
 * it stays alone. */
static void prepare_try(struct lease_tries *all, struct lease_order *it)
{
    struct hf_error error;
    struct hf_try *try = &all->tries[all->count];
    enum core_call what = it->order.what;
    bool acquires = what == CORE_CALL_ACQUIRE || what == CORE_CALL_BEGIN;
    all->infos[all->count] = HF_KEY_INFO;
    *try = (struct hf_try){ .kind = renews_lease(it) ? HF_TRY_RENEW : HF_TRY_RELEASE };
    enum hf_status status = acquires ? open_handle(it, it->order.poll_ms, &error)
                                     : prepare_use(it, &try->lock, &error);
    if (status != HF_OK)
        end_lease_try(it, status, &all->infos[all->count], &error);
    if (status != HF_OK || it->order.alone)
        return;
    if (acquires) {
        try->kind = what == CORE_CALL_BEGIN ? HF_TRY_BEGIN : HF_TRY_ACQUIRE;
        try->lock = it->lock;
        try->key = it->key;
        try->info = it->key ? &all->infos[all->count] : NULL;
    }
    all->orders[all->count++] = it;
}

static void finish_try(struct lease_tries *all, size_t index)
{
    struct lease_order *it = all->orders[index];
    struct hf_try *try = &all->tries[index];
    enum hf_status status = try->error.status;
    bool releases = try->kind == HF_TRY_RELEASE, renews = try->kind == HF_TRY_RENEW;
    it->order.alone = status == HF_CONFLICT;
    if (it->order.alone && !releases && !renews)
        close_handle(it, /* detaches */ false);
    if (releases)
        hf_lock_free(try->lock);
    if (renews)
        status = end_renewal(it, try->lock, status, &it->order.result);
    if (releases && it->order.what == CORE_CALL_GIVE_BACK && !it->order.alone)
        lease_id_forget(it->ids, it->lease_id);
    if (!it->order.alone)
        end_lease_try(it, status, &all->infos[index], &try->error);
}

/* Makes the calls of the orders that have this client. False: the store cannot do that. */
static bool try_together(struct call_order *const *orders, size_t count,
                         struct hf_client *client, struct lease_tries *all)
{
    struct hf_error error;
    enum hf_status status = HF_OK;
    all->count = 0;
    for (size_t i = 0; i < count; i++) {
        struct lease_order *it = (struct lease_order *)(void *)orders[i];
        if (it->task.client == client)
            prepare_try(all, it);
    }
    if (all->count > 0)
        status = hf_try_many(all->tries, all->count, &error);
    for (size_t i = 0; i < all->count; i++) {
        if (status != HF_OK) /* nothing was done */
            all->tries[i].error.status = HF_CONFLICT;
        finish_try(all, i);
    }
    return status != HF_UNSUPPORTED;
}

static bool make_lease_calls(struct call_order *const *orders, size_t count)
{
    struct hf_client *clients[CALLS_BATCH_MAX];
    size_t known = 0;
    bool useful = true;
    struct lease_tries *all = malloc(sizeof *all);
    for (size_t i = 0; i < count; i++) {
        struct hf_client *client = ((struct lease_order *)(void *)orders[i])->task.client;
        size_t at = 0;
        orders[i]->alone = !all;
        while (at < known && clients[at] != client)
            at++;
        if (at == known)
            clients[known++] = client;
    }
    for (size_t i = 0; all && i < known; i++)
        useful = try_together(orders, count, clients[i], all) && useful;
    free(all);
    return useful;
}

static const struct call_order_group lease_group = { joins_others, make_lease_calls };

/* ---- Orders -------------------------------------------------------------------------- */

static void make_lease_call(struct call_order *order, enum core_call what, int64_t poll_ms,
                            struct core_result *result)
{
    struct lease_order *it = (struct lease_order *)(void *)order;
    switch (what) {
    case CORE_CALL_ACQUIRE:
    case CORE_CALL_BEGIN:
    case CORE_CALL_POLL: acquire(it, what, poll_ms, result); break;
    case CORE_CALL_CANCEL: cancel(it, result); break;
    case CORE_CALL_GIVE_BACK: release_granted(it, result); break;
    case CORE_CALL_WORK: use_lease(it, result); break;
    }
}

/* A handle is left only if the core was freed while it had places in the store's queue. */
static void free_lease_order(struct call_order *order)
{
    struct lease_order *it = (struct lease_order *)(void *)order;
    close_handle(it, /* detaches */ false);
    if (it->task.done)
        it->task.done(it->task.argument, order);
    free(it->lease);
    if (it->is_short)
        lease_ids_give_block(it->ids, it);
    else
        free(it);
}

/* Copies a string behind the others. */
static const char *keep_text(char **at, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = *at;
    memcpy(copy, text, size);
    *at += size;
    return copy;
}

enum hf_status lease_order_new(struct env *env, struct lease_ids *ids,
                               const struct lease_task *task, struct call_order **ret_order,
                               struct hf_error *error)
{
    bool acquires = task->kind == LEASE_ACQUIRE;
    const char *note = task->note ? task->note : "";
    const char *id = task->lease_id ? task->lease_id : "";
    const char *txn_id = task->txn_id ? task->txn_id : "";
    if (!acquires && strlen(id) != CORE_LEASE_ID_SIZE)
        return error_set(error, HF_INVALID, "a lease id has %d digits", CORE_LEASE_ID_SIZE);
    if (task->when.etag && strlen(task->when.etag) > HF_KEY_ETAG_SIZE)
        return error_set(error, HF_INVALID, "an ETag has at most %d bytes", HF_KEY_ETAG_SIZE);
    size_t strings = strlen(task->scope) + strlen(note) + strlen(id) + strlen(txn_id) + 4;
    check(task->scope_count <= LEASE_ORDER_SCOPES_MAX);
    size_t scopes = task->scope_count * sizeof *task->scopes;
    for (size_t i = 0; i < task->scope_count; i++)
        strings += strlen(task->scopes[i]) + 1;
    size_t size = scopes + strings;
    bool is_short = size <= ORDER_TEXT_USUAL;
    struct lease_order *it = is_short ? lease_ids_take_block(ids, sizeof *it + ORDER_TEXT_USUAL)
                                      : malloc(sizeof *it + size);
    if (!it)
        return error_no_memory(error);
    *it = (struct lease_order){ .is_short = is_short };
    const char **kept = (const char **)(void *)it->text;
    char *at = it->text + scopes;
    call_order_init(&it->order, make_lease_call, free_lease_order);
    it->order.group = &lease_group;
    it->env = env;
    it->ids = ids;
    it->task = *task;
    it->task.scope = keep_text(&at, task->scope);
    it->task.scopes = kept;
    for (size_t i = 0; i < task->scope_count; i++)
        kept[i] = keep_text(&at, task->scopes[i]);
    it->task.note = keep_text(&at, note);
    it->task.lease_id = keep_text(&at, id);
    it->task.txn_id = keep_text(&at, txn_id);
    if (!task->note)
        it->task.note = NULL;
    if (!task->txn_id)
        it->task.txn_id = NULL;
    if (task->when.etag) {
        snprintf(it->etag, sizeof it->etag, "%s", task->when.etag);
        it->task.when.etag = it->etag;
    }
    *ret_order = &it->order;
    return error_clear(error);
}
