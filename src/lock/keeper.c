/* SPDX-License-Identifier: Apache-2.0 */
/* keeper.c: renews a client's leases and reports their loss. It guards against a slow or hanging
 * store: the watcher never waits for a request, so a loss is reported in time, and a table that
 * hangs does not make leases in other tables expire. */
#include "lock/keeper.h"

#include "base/check.h"
#include "base/mutant.h"
#include "base/rule.h"
#include "lock/client_inside.h"
#include "lock/handle.h"

#include <stdlib.h>

/* A renewal is given a fraction of the ttl, within these bounds, and is then retried. So a renewal
 * that hangs delays neither other tables nor the retry that may still save the lease. */
#define RENEWAL_TIME_PART 6
#define RENEWAL_TIME_MIN  SPAN_MS(500)
#define RENEWAL_TIME_MAX  SPAN_S(5)

void keeper_init(struct keeper *keeper, struct env *env)
{
    *keeper = (struct keeper){ 0 };
    env_mutex_init(env, &keeper->mutex);
    env_cond_init(env, &keeper->changed);
    env_cond_init(env, &keeper->unpinned);
    env_cond_init(env, &keeper->entry_due);
}

/* ---- Sleeping ------------------------------------------------------------------------ */

static void sleep_until_locked(struct keeper *keeper, struct mono_time *wakes_at,
                               struct mono_time next)
{
    *wakes_at = next;
    env_cond_wait_until(&keeper->changed, &keeper->mutex, next);
    *wakes_at = (struct mono_time){ 0 };
}

bool keeper_may_ignore(const struct hf_lock *lock)
{
    bool reported = lock->options.notify || events_wanted(lock->client);
    return lock->options.no_renewal && !(lock->validity.by_store && reported);
}

/* When the watcher starts a renewer for a lock, unless a renewer has it: the first renewer when the
 * renewal is due, because most leases end before, and another one when the renewal is late. */
static struct mono_time renewer_due(const struct keeper *keeper, const struct hf_lock *lock)
{
    struct span late = keeper->renewer_count > 0 ? SPAN_US(lock->ttl.us / 12) : SPAN_US(0);
    return mono_add(lock->renew_at, late);
}

/* When the watcher must look at a lock that was just granted, at the latest. */
static struct mono_time watch_due(const struct hf_lock *lock, struct mono_time now)
{
    struct mono_time due = mono_earlier(lock->validity.until, lock->danger_at);
    if (keeper_may_ignore(lock))
        return lock->index_at;
    if (lock->validity.by_store) /* see next_event_locked */
        due = mono_earlier(due, mono_add(now, SPAN_US(lock->ttl.us / 12)));
    due = mono_earlier(due, renewer_due(&lock->client->keeper, lock));
    return mono_earlier(due, lock->index_at);
}

/* Whether a task that sleeps must be woken for a lock that was just granted. A task that does not
 * sleep looks at it before it does. At least one sleeping renewer must wake in time, because the
 * others may be busy for long. */
static bool must_wake_locked(const struct keeper *keeper, const struct hf_lock *lock,
                             struct mono_time now)
{
    bool sleeping = false, in_time = false;
    for (size_t i = 0; i < keeper->renewer_count; i++) {
        struct mono_time wakes_at = keeper->renewers[i].wakes_at;
        sleeping = sleeping || wakes_at.us > 0;
        in_time = in_time || (wakes_at.us > 0 && !mono_before(lock->renew_at, wakes_at));
    }
    bool renewed_late = sleeping && !in_time && !lock->options.no_renewal;
    bool watched_late = mono_before(watch_due(lock, now), keeper->watcher_wakes_at);
    return RULE(KEEPER_WAKES_IN_TIME) && (renewed_late || watched_late);
}

/* ---- Kept locks ---------------------------------------------------------------------- */

void keeper_add_locked(struct hf_client *client, struct hf_lock *lock)
{
    struct keeper *keeper = &client->keeper;
    lock->previous = NULL;
    lock->next = keeper->first;
    if (keeper->first)
        keeper->first->previous = lock;
    keeper->first = lock;
    if (must_wake_locked(keeper, lock, env_now(client->env)))
        env_cond_broadcast(&keeper->changed);
}

void keeper_remove_locked(struct hf_client *client, struct hf_lock *lock)
{
    struct keeper *keeper = &client->keeper;
    if (lock->previous)
        lock->previous->next = lock->next;
    else
        keeper->first = lock->next;
    if (lock->next)
        lock->next->previous = lock->previous;
    lock->next = lock->previous = NULL;
    /* The caller ends the lease or frees the handle next. A renewal in progress must not take
     * effect after that, and a callback must not get a freed handle. */
    while (lock->pins > 0)
        env_cond_wait(&keeper->unpinned, &keeper->mutex);
}

static void unpin_locked(struct keeper *keeper, struct hf_lock *lock)
{
    if (--lock->pins == 0)
        env_cond_broadcast(&keeper->unpinned);
}

static struct hf_lock *next_to_give_back_locked(const struct keeper *keeper)
{
    struct hf_lock *lock = keeper->first;
    while (lock && lock->given_back)
        lock = lock->next;
    return lock;
}

bool keeper_find_lease(struct hf_client *client, struct view table,
                       char ret_id[LEASE_ID_MAX + 1])
{
    env_mutex_lock(&client->keeper.mutex);
    struct hf_lock *lock = client->keeper.first;
    while (lock && (!view_equal(doc_key(lock->ref->doc), table) || lock->gone != HF_OK))
        lock = lock->next;
    if (lock)
        memcpy(ret_id, lock->id, sizeof lock->id);
    env_mutex_unlock(&client->keeper.mutex);
    return lock;
}

/* Each handle stays in the list, as one whose lease was lost, until it is released or freed. */
void keeper_release_all(struct hf_client *client)
{
    struct keeper *keeper = &client->keeper;
    env_mutex_lock(&keeper->mutex);
    keeper->closed = true;
    struct hf_lock *lock;
    while ((lock = next_to_give_back_locked(keeper))) {
        lock->given_back = true;
        if (lock->gone == HF_OK)
            lock_mark_gone_locked(lock, HF_LOST);
        lock->pins++; /* so that it cannot be freed meanwhile */
        env_mutex_unlock(&keeper->mutex);
        lock_give_back(lock);
        env_mutex_lock(&keeper->mutex);
        unpin_locked(keeper, lock);
    }
    env_mutex_unlock(&keeper->mutex);
}

/* ---- Events for holders -------------------------------------------------------------- */

static void notify_locked(struct keeper *keeper, struct hf_lock *lock, enum hf_lock_event event)
{
    if (event != HF_LOCK_GONE) /* the event was counted when the loss was found */
        lock_event(lock, event == HF_LOCK_SAFE ? HF_EVENT_SAFE : HF_EVENT_DANGER, HF_OK);
    if (!lock->options.notify)
        return;
    lock->pins++;
    env_mutex_unlock(&keeper->mutex);
    lock->options.notify(lock->options.notify_argument, lock, event);
    env_mutex_lock(&keeper->mutex);
    unpin_locked(keeper, lock);
}

/* The event to report for a lock now. If there is none, *next is set no later than the time of the
 * next event. */
static bool next_event_locked(struct hf_lock *lock, const struct evidence *evidence,
                              struct mono_time *next, enum hf_lock_event *ret_event)
{
    struct mono_time end = validity_end(&lock->validity, evidence);
    if (lock->gone == HF_OK && !mono_before(evidence->now, end)) {
        lock->gone = HF_EXPIRED;
        if (RULE(GONE_IS_TOLD))
            lock->report_gone = true;
        lock_event(lock, HF_EVENT_LOST, HF_EXPIRED);
    }
    if (lock->report_gone) {
        lock->report_gone = lock->report_safe = false;
        *ret_event = HF_LOCK_GONE;
        return true;
    }
    if (lock->gone != HF_OK)
        return false;
    if (lock->report_safe) {
        lock->report_safe = false;
        *ret_event = HF_LOCK_SAFE;
        return true;
    }
    if (!lock->in_danger && !mono_before(evidence->now, lock->danger_at)) {
        lock->in_danger = true;
        *ret_event = HF_LOCK_DANGER;
        return true;
    }
    *next = mono_earlier(*next, lock->in_danger ? end : mono_earlier(end, lock->danger_at));
    if (lock->validity.by_store) /* a reply may show meanwhile that the lease ends earlier */
        *next = mono_earlier(*next, mono_add(evidence->now, SPAN_US(lock->ttl.us / 12)));
    return false;
}

/* Reports one event, if there is one. */
static bool notify_one_locked(struct hf_client *client, struct mono_time *next)
{
    struct evidence evidence = { .nonce = VIEW("") };
    enum hf_lock_event event;
    clock_evidence(&client->clock, &evidence);
    for (struct hf_lock *lock = client->keeper.first; lock; lock = lock->next)
        if (next_event_locked(lock, &evidence, next, &event)) {
            notify_locked(&client->keeper, lock, event);
            return true; /* the list may have changed */
        }
    return false;
}

/* ---- Renewing ------------------------------------------------------------------------ */

/* Leases of one table that are renewed together. */
struct renewal {
    struct hf_lock *locks[RENEW_BATCH_MAX];
    struct request *requests[RENEW_BATCH_MAX];
    size_t count;
};

static bool is_kept(const struct hf_lock *lock)
{
    return lock->gone == HF_OK && !lock->options.no_renewal;
}

static struct mono_time renewal_deadline(const struct hf_lock *lock, struct mono_time now)
{
    struct span part = SPAN_US(lock->ttl.us / RENEWAL_TIME_PART);
    part =
        part.us < RENEWAL_TIME_MIN.us ? RENEWAL_TIME_MIN : span_smaller(part, RENEWAL_TIME_MAX);
    return mono_earlier(lock->validity.until, mono_add(now, part));
}

/* Collects the leases whose renewal is due or, if `due` is false, those whose renewal is not. */
static void collect_locked(struct hf_client *client, struct table_ref *ref, bool due,
                           struct renewal *renewal)
{
    struct mono_time now = env_now(client->env);
    for (struct hf_lock *lock = client->keeper.first; lock; lock = lock->next) {
        if (lock->ref != ref || !is_kept(lock) || renewal->count == RENEW_BATCH_MAX ||
            due == mono_before(now, lock->renew_at))
            continue;
        struct request *request = malloc(sizeof *request);
        if (!request)
            break;
        request_init(request, ref, TABLE_RENEW, renewal_deadline(lock, now));
        request->table.id = view_of(lock->id);
        request->table.token = lock->token;
        request->table.note = lock->renewal_note;
        lock->pins++;
        renewal->requests[renewal->count] = request;
        renewal->locks[renewal->count++] = lock;
    }
}

static void apply_renewal_locked(struct hf_client *client, struct hf_lock *lock,
                                 const struct request *request)
{
    enum hf_status status = request->op.error.status;
    /* If the loss of the lease was reported, the holder may have stopped its work. A late renewal
     * must not revive the lease. */
    if (RULE(GONE_STAYS_GONE) && lock->gone != HF_OK)
        return;
    MUTANT(mutant_believes_in_renewal(&status));
    if (status == HF_OK) {
        lock->gone = HF_OK;
        struct validity validity = request_validity(request);
        lock->report_safe = lock->in_danger;
        lock_renewed_locked(lock, &validity);
        lock_event(lock, HF_EVENT_RENEWED, HF_OK);
    } else if (status == HF_LOST || status == HF_MISMATCH || status == HF_NOT_FOUND) {
        lock_mark_gone_locked(lock, HF_LOST);
    } else {
        lock->renew_at = mono_add(env_now(client->env), SPAN_US(lock->ttl.us / 12));
    }
}

static void renew_table_locked(struct hf_client *client, struct table_ref *ref)
{
    struct keeper *keeper = &client->keeper;
    struct renewal renewal = { .count = 0 };
    collect_locked(client, ref, /* due */ true, &renewal);
    collect_locked(client, ref, /* due */ false, &renewal); /* if they fit in the same write */
    ref->renewing = true;
    env_mutex_unlock(&keeper->mutex);
    if (renewal.count > 0)
        table_ref_ask(ref, renewal.requests, renewal.count);
    else
        env_sleep(client->env, SPAN_MS(10)); /* out of memory for now */
    env_mutex_lock(&keeper->mutex);
    ref->renewing = false;
    for (size_t i = 0; i < renewal.count; i++) {
        apply_renewal_locked(client, renewal.locks[i], renewal.requests[i]);
        unpin_locked(keeper, renewal.locks[i]);
        free(renewal.requests[i]);
    }
    env_cond_broadcast(&keeper->changed);
}

/* ---- The tasks ----------------------------------------------------------------------- */

/* The lock whose renewal is due next, or NULL. Tables that a renewer is already working on are
 * skipped, so one table that hangs occupies only one renewer. */
static struct hf_lock *next_renewal_locked(const struct keeper *keeper)
{
    struct hf_lock *first = NULL;
    for (struct hf_lock *lock = keeper->first; lock; lock = lock->next)
        if (is_kept(lock) && !lock->ref->renewing &&
            (!first || mono_before(lock->renew_at, first->renew_at)))
            first = lock;
    return first;
}

static void run_renewer(void *argument)
{
    struct renewer *renewer = argument;
    struct hf_client *client = renewer->client;
    struct keeper *keeper = &client->keeper;
    env_mutex_lock(&keeper->mutex);
    while (!keeper->stopping) {
        struct hf_lock *lock = next_renewal_locked(keeper);
        struct mono_time next = lock ? lock->renew_at : (struct mono_time){ MOMENT_FAR };
        if (mono_before(env_now(client->env), next))
            sleep_until_locked(keeper, &renewer->wakes_at, next);
        else
            renew_table_locked(client, lock->ref);
    }
    env_mutex_unlock(&keeper->mutex);
}

static bool add_renewer_locked(struct hf_client *client)
{
    struct keeper *keeper = &client->keeper;
    struct renewer *renewer = &keeper->renewers[keeper->renewer_count];
    struct hf_error error;
    *renewer = (struct renewer){ .client = client };
    enum hf_status status =
        env_task_start(client->env, run_renewer, renewer, &renewer->task, &error);
    keeper->renewer_count += status == HF_OK;
    return status == HF_OK;
}

/* Starts a renewer if a renewal is due and no renewer handles it (renewer_due). Otherwise *next is
 * set no later than the time at which one may be needed. If it cannot be started, that is retried
 * like a failed renewal; a holder whose lease is not renewed meanwhile is told so in time. */
static void start_renewer_locked(struct hf_client *client, struct mono_time *next)
{
    struct keeper *keeper = &client->keeper;
    struct hf_lock *lock = next_renewal_locked(keeper);
    struct mono_time now = env_now(client->env);
    if (!lock || keeper->renewer_count == RENEWERS_MAX)
        return;
    struct mono_time due = renewer_due(keeper, lock);
    if (!mono_before(now, due))
        due = add_renewer_locked(client) ? renewer_due(keeper, lock)
                                         : mono_add(now, SPAN_US(lock->ttl.us / 12));
    if (mono_before(now, due))
        *next = mono_earlier(*next, due);
}

static void run_expiry_watcher(void *argument)
{
    struct hf_client *client = argument;
    struct keeper *keeper = &client->keeper;
    env_mutex_lock(&keeper->mutex);
    while (!keeper->stopping) {
        struct mono_time next = { MOMENT_FAR };
        if (notify_one_locked(client, &next))
            continue;
        start_renewer_locked(client, &next);
        keeper_index_locked(client, &next);
        sleep_until_locked(keeper, &keeper->watcher_wakes_at, next);
    }
    env_mutex_unlock(&keeper->mutex);
}

static enum hf_status start_watcher(struct hf_client *client, struct hf_error *error)
{
    struct keeper *keeper = &client->keeper;
    enum hf_status status = HF_OK;
    env_mutex_lock(&keeper->mutex);
    if (!keeper->watcher)
        status =
            env_task_start(client->env, run_expiry_watcher, client, &keeper->watcher, error);
    env_mutex_unlock(&keeper->mutex);
    return status;
}

enum hf_status keeper_start_for(struct hf_lock *lock, struct hf_error *error)
{
    bool needed =
        !lock->options.no_renewal || lock->options.notify || events_wanted(lock->client);
    enum hf_status status = HF_OK;
    if (needed || lock->ref->in_index)
        status = start_watcher(lock->client, error);
    return needed && status != HF_OK ? status : error_clear(error);
}

void keeper_release(struct hf_client *client)
{
    struct keeper *keeper = &client->keeper;
    env_mutex_lock(&keeper->mutex);
    check(!keeper->first);
    keeper->stopping = true;
    env_cond_broadcast(&keeper->changed);
    env_cond_broadcast(&keeper->entry_due);
    env_mutex_unlock(&keeper->mutex);
    if (keeper->watcher)
        env_task_join(client->env, keeper->watcher);
    for (size_t i = 0; i < keeper->renewer_count; i++)
        env_task_join(client->env, keeper->renewers[i].task);
    if (keeper->indexer)
        env_task_join(client->env, keeper->indexer);
    env_cond_release(&keeper->entry_due);
    env_cond_release(&keeper->unpinned);
    env_cond_release(&keeper->changed);
    env_mutex_release(&keeper->mutex);
}
