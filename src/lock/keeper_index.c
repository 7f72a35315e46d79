/* keeper_index.c: the keeper's entries in the expiry index: by half of its ttl a lease that is held
 * has one, of the hour in which it ends. */
#include "base/rule.h"
#include "lock/expiry.h"
#include "lock/handle.h"

#include <stdio.h>

/* An entry that could not be written in this time, or not yet, is tried again with the next
 * renewal, or when there would be one. */
#define ENTRY_TIME       SPAN_S(5)
#define ENTRY_AGAIN_PART 3

/* ---- Which are there ----------------------------------------------------------------- */

static bool has_entry_locked(const struct place *place, struct hour hour)
{
    bool any = false;
    for (size_t i = 0; i < INDEXED_HOURS && !RULE(ENTRY_EACH_HOUR); i++)
        any = any || place->indexed[i] > 0;
    return any || place->indexed[hour.number % INDEXED_HOURS] == hour.number + 1;
}

static struct hour hour_of_end(const struct hf_lock *lock, const struct evidence *evidence)
{
    struct mono_time end = mono_add(lock->validity.t0, lock->ttl);
    return hour_after(lock->client, evidence, mono_since(end, evidence->now));
}

/* One that is due now is so later. */
static void put_off(struct hf_lock *lock, struct mono_time now)
{
    if (!mono_before(now, lock->index_at))
        lock->index_at = mono_add(now, SPAN_US(lock->ttl.us / ENTRY_AGAIN_PART));
}

/* A lock whose entry is due, or NULL; and then *next is no later than when one will be. */
static struct hf_lock *first_due_locked(struct hf_client *client, struct hour *ret_hour,
                                        struct mono_time *next)
{
    struct evidence evidence = { .nonce = VIEW("") };
    clock_evidence(&client->clock, &evidence);
    bool known = hour_is_known(client, &evidence);
    for (struct hf_lock *lock = client->keeper.first; lock; lock = lock->next) {
        if (!lock->place->in_index || lock->gone != HF_OK)
            continue;
        if (!known)
            put_off(lock, evidence.now);
        if (mono_before(evidence.now, lock->index_at)) {
            *next = mono_earlier(*next, lock->index_at);
            continue;
        }
        struct hour hour = hour_of_end(lock, &evidence);
        if (!has_entry_locked(lock->place, hour)) {
            *ret_hour = hour;
            return lock;
        }
        lock->index_at = (struct mono_time){ MOMENT_FAR }; /* until it is renewed */
    }
    return NULL;
}

/* ---- The indexer --------------------------------------------------------------------- */

/* Those of this table are tried again later. */
static void put_off_table_locked(struct hf_client *client, struct view key)
{
    struct mono_time now = env_now(client->env);
    for (struct hf_lock *lock = client->keeper.first; lock; lock = lock->next)
        if (view_equal(doc_key(lock->place->doc), key))
            put_off(lock, now);
}

/* The lock is not pinned: nobody who ends it waits for an entry. So its place is taken anew, by its
 * key. */
static void write_entry_locked(struct hf_client *client, const struct hf_lock *lock,
                               struct hour hour)
{
    struct keeper *keeper = &client->keeper;
    char key[KEY_BYTES_MAX + 1];
    struct place *place = NULL;
    struct mono_time deadline = mono_add(env_now(client->env), ENTRY_TIME);
    snprintf(key, sizeof key, "%.*s", VIEW_ARGS(doc_key(lock->place->doc)));
    env_mutex_unlock(&keeper->mutex);
    enum hf_status status = place_take(client, view_of(key), &place, NULL);
    if (status == HF_OK)
        status = expiry_write(client, view_of(key), hour, NULL, deadline, NULL);
    env_mutex_lock(&keeper->mutex);
    if (status == HF_OK)
        place->indexed[hour.number % INDEXED_HOURS] = hour.number + 1;
    else
        put_off_table_locked(client, view_of(key));
    env_mutex_unlock(&keeper->mutex);
    if (place)
        place_drop(place);
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
        struct hf_lock *lock = first_due_locked(client, &hour, &next);
        if (lock)
            write_entry_locked(client, lock, hour);
        else
            env_cond_wait_until(&keeper->entry_due, &keeper->mutex, next);
    }
    env_mutex_unlock(&keeper->mutex);
}

void keeper_index_left(struct hf_lock *lock)
{
    struct hf_client *client = lock->client;
    struct evidence evidence = { .nonce = VIEW("") };
    clock_evidence(&client->clock, &evidence);
    if (lock->adopted || !lock->place->in_index || lock->ttl.us < EXPIRY_TTL_LONG.us ||
        !hour_is_known(client, &evidence))
        return;
    struct hour hour = hour_of_end(lock, &evidence);
    env_mutex_lock(&client->keeper.mutex);
    if (!has_entry_locked(lock->place, hour))
        write_entry_locked(client, lock, hour);
    env_mutex_unlock(&client->keeper.mutex);
}

void keeper_index_locked(struct hf_client *client, struct mono_time *next)
{
    struct keeper *keeper = &client->keeper;
    struct hf_error error;
    struct hour hour;
    if (!first_due_locked(client, &hour, next))
        return;
    if (keeper->indexer)
        env_cond_broadcast(&keeper->entry_due);
    else /* without the means for it there are no entries: they are hints */
        env_task_start(client->env, write_entries, client, &keeper->indexer, &error);
}
