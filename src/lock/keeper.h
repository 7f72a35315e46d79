/* SPDX-License-Identifier: Apache-2.0 */
/* keeper.h: renews a client's leases, and notifies holders when a lease is in danger or lost.
 *
 * A watcher tracks the time and never waits for the store, so no holder is notified late.
 * Renewers send the requests; the first of them is started when the first renewal is due. Each
 * renewer handles one table at a time, and renews all of its leases in one write. The indexer
 * writes the entries of the expiry index, so that they never delay a renewal. */
#ifndef LOCK_KEEPER_H
#define LOCK_KEEPER_H

#include "env/env.h"
#include "lease/table.h"

struct hf_client;
struct hf_lock;

#define RENEWERS_MAX 4

struct renewer {
    struct hf_client *client;
    struct env_task *task;
    struct mono_time wakes_at; /* while it sleeps; 0: it looks at all locks before it sleeps */
};

struct keeper {
    struct env_mutex mutex;  /* guards the members below, and the state of every kept lock */
    struct env_cond changed; /* there may be something to do */
    struct env_cond unpinned;
    struct env_cond entry_due; /* for the indexer */
    struct hf_lock *first;     /* locks that are held */
    bool closed;               /* nothing is held from now on */
    bool stopping;
    struct env_task *watcher;
    struct mono_time watcher_wakes_at; /* as in struct renewer */
    struct renewer renewers[RENEWERS_MAX];
    size_t renewer_count;
    struct env_task *indexer;
};

void keeper_init(struct keeper *keeper, struct env *env);

/* Ends the tasks. No lock may be held any more. */
void keeper_release(struct hf_client *client);

/* Starts the watcher, if the lock needs it and it is not running yet; it starts the other tasks. A
 * lock without renewal and without a callback needs it only for its entry in the expiry index. If
 * it cannot be started, the lock gets no entry. */
enum hf_status keeper_start_for(struct hf_lock *lock, struct hf_error *error);

/* Whether the tasks have nothing to do for the lock before `index_at`, because its caller renews
 * it, and its end need not be reported earlier than our own clock shows it. */
bool keeper_may_ignore(const struct hf_lock *lock);

/* Starts watching the lock and, unless it has no renewal, renewing it. The tasks are woken only if
 * they would sleep for too long: most leases are released before anything is due. Called with the
 * mutex held. */
void keeper_add_locked(struct hf_client *client, struct hf_lock *lock);

/* Stops watching and renewing the lock, and waits for a renewal or callback that is in progress.
 * Called with the mutex held. */
void keeper_remove_locked(struct hf_client *client, struct hf_lock *lock);

/* For a client that is closed while handles are still open. The handles report LOST, their leases
 * are released in the background, and nothing more is granted to them. */
void keeper_release_all(struct hf_client *client);

/* For a lease that this process has acquired and is detaching. If the ttl is long and the table
 * has no entry for the hour in which the lease ends, writes an entry now. The entry is a hint, so
 * a failure is ignored. */
void keeper_index_detached(struct hf_lock *lock);

/* Wakes or starts the indexer if an entry is due. Otherwise *next is set no later than the time of
 * the next entry. Called with the mutex held. */
void keeper_index_locked(struct hf_client *client, struct mono_time *next);

#endif
