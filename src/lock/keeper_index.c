/* SPDX-License-Identifier: Apache-2.0 */
/* keeper_index.c: the keeper's entries in the expiry index. A lease that has been held for half of
 * its ttl gets an entry for the hour in which it ends. No renewal and no release ever waits for
 * an entry. */
#include "base/mutant.h"
#include "lock/client_inside.h"
#include "lock/expiry.h"
#include "lock/handle.h"

#include <stdio.h>

/* If an entry cannot be written within this time, it is retried with the next renewal or, for a
 * lock without renewal, when a renewal would be due. */
#define ENTRY_TIME       SPAN_S(5)
#define ENTRY_AGAIN_PART 3

/* ---- Known entries ------------------------------------------------------------------- */

static bool has_entry_locked(const struct table_ref *ref, struct hour hour)
{
    bool has = ref->indexed[hour.number % INDEXED_HOURS] == hour.number + 1;
    MUTANT(mutant_takes_any_entry(ref, &has));
    return has;
}

static struct hour hour_of_end(const struct hf_lock *lock, const struct evidence *evidence)
{
    struct mono_time end = mono_add(lock->validity.t0, lock->ttl);
    return hour_after(lock->client, evidence, mono_since(end, evidence->now));
}

/* Postpones an entry that is due now. */
static void postpone_entry(struct hf_lock *lock, struct mono_time now)
{
    if (!mono_before(now, lock->index_at))
        lock->index_at = mono_add(now, SPAN_US(lock->ttl.us / ENTRY_AGAIN_PART));
}

/* A lock whose entry is due. If there is none, returns NULL and sets *next no later than the time
 * at which the next entry is due. */
static struct hf_lock *next_entry_locked(struct hf_client *client, struct hour *ret_hour,
                                         struct mono_time *next)
{
    struct evidence evidence = { .nonce = VIEW("") };
    clock_evidence(&client->clock, &evidence);
    bool known = hour_is_known(client, &evidence);
    for (struct hf_lock *lock = client->keeper.first; lock; lock = lock->next) {
        if (!lock->ref->in_index || lock->gone != HF_OK)
            continue;
        if (!known)
            postpone_entry(lock, evidence.now);
        if (mono_before(evidence.now, lock->index_at)) {
            *next = mono_earlier(*next, lock->index_at);
            continue;
        }
        struct hour hour = hour_of_end(lock, &evidence);
        if (!has_entry_locked(lock->ref, hour)) {
            *ret_hour = hour;
            return lock;
        }
        lock->index_at = (struct mono_time){ MOMENT_FAR }; /* until it is renewed */
    }
    return NULL;
}

/* ---- The indexer --------------------------------------------------------------------- */

/* Postpones the entries of a table whose write has failed. */
static void postpone_table_locked(struct hf_client *client, struct view key)
{
    struct mono_time now = env_now(client->env);
    for (struct hf_lock *lock = client->keeper.first; lock; lock = lock->next)
        if (view_equal(doc_key(lock->ref->doc), key))
            postpone_entry(lock, now);
}

/* The lock is not pinned, so that its release never waits for an entry. It may be freed during the
 * write, so its table_ref is looked up again by key. */
static void write_entry_locked(struct hf_client *client, const struct hf_lock *lock,
                               struct hour hour)
{
    struct keeper *keeper = &client->keeper;
    char key[KEY_BYTES_MAX + 1];
    struct table_ref *ref = NULL;
    struct mono_time deadline = mono_add(env_now(client->env), ENTRY_TIME);
    snprintf(key, sizeof key, "%.*s", VIEW_ARGS(doc_key(lock->ref->doc)));
    env_mutex_unlock(&keeper->mutex);
    enum hf_status status = table_ref_take(client, view_of(key), &ref, NULL);
    if (status == HF_OK)
        status = expiry_write(client, view_of(key), hour, NULL, deadline, NULL);
    env_mutex_lock(&keeper->mutex);
    if (status == HF_OK)
        ref->indexed[hour.number % INDEXED_HOURS] = hour.number + 1;
    else
        postpone_table_locked(client, view_of(key));
    env_mutex_unlock(&keeper->mutex);
    if (ref)
        table_ref_drop(ref);
    env_mutex_lock(&keeper->mutex);
}

static void write_entries(void *argument)
{
    struct hf_client *client = argument;
    struct keeper *keeper = &client->keeper;
    env_mutex_lock(&keeper->mutex);
    while (!keeper->stopping) {
        struct mono_time next = { MOMENT_FAR };
        struct hour hour;
        struct hf_lock *lock = next_entry_locked(client, &hour, &next);
        if (lock)
            write_entry_locked(client, lock, hour);
        else
            env_cond_wait_until(&keeper->entry_due, &keeper->mutex, next);
    }
    env_mutex_unlock(&keeper->mutex);
}

void keeper_index_detached(struct hf_lock *lock)
{
    struct hf_client *client = lock->client;
    struct evidence evidence = { .nonce = VIEW("") };
    clock_evidence(&client->clock, &evidence);
    if (lock->adopted || !lock->ref->in_index || lock->ttl.us < EXPIRY_TTL_LONG.us ||
        !hour_is_known(client, &evidence))
        return;
    struct hour hour = hour_of_end(lock, &evidence);
    env_mutex_lock(&client->keeper.mutex);
    if (!has_entry_locked(lock->ref, hour))
        write_entry_locked(client, lock, hour);
    env_mutex_unlock(&client->keeper.mutex);
}

void keeper_index_locked(struct hf_client *client, struct mono_time *next)
{
    struct keeper *keeper = &client->keeper;
    struct hf_error error;
    struct hour hour;
    if (!next_entry_locked(client, &hour, next))
        return;
    if (keeper->indexer)
        env_cond_broadcast(&keeper->entry_due);
    else /* if this fails there is no entry, which is only a hint */
        env_task_start(client->env, write_entries, client, &keeper->indexer, &error);
}
