/* SPDX-License-Identifier: Apache-2.0 */
/* keeper.h: renews a client's leases, and notifies holders when a lease is in danger or lost.
 *
 * A watcher tracks the time and never waits for the store, so no holder is notified late.
 * Renewers send the requests: each handles one table at a time, with all its leases in one write.
 * The indexer writes the entries of the expiry index, so these never delay a renewal. */
#ifndef LOCK_KEEPER_H
#define LOCK_KEEPER_H

#include "env/env.h"
#include "lease/table.h"

struct hf_client;
struct hf_lock;

#define RENEWERS_MAX 4

struct keeper {
    struct env_mutex mutex;  /* guards the members below, and the state of every kept lock */
    struct env_cond changed; /* there may be something to do */
    struct env_cond unpinned;
    struct env_cond entry_due; /* for the indexer */
    struct hf_lock *first;     /* locks that are held */
    bool closed;               /* nothing is held from now on */
    bool stopping;
    struct env_task *watcher;
    struct env_task *renewers[RENEWERS_MAX];
    size_t renewer_count;
    struct env_task *indexer;
};

void keeper_init(struct keeper *keeper, struct env *env);

/* Ends the tasks; no lock is held any more. */
void keeper_release(struct hf_client *client);

/* Starts the tasks that a lock needs, if they are not running yet. A lock without renewal and
 * callback is kept only for its entry in the expiry index; if no task can be started, it has no
 * entry. */
enum hf_status keeper_start_for(struct hf_lock *lock, struct hf_error *error);

/* From now on the lock is watched and, unless it has no renewal, renewed; with the mutex
 * held. */
void keeper_add_locked(struct hf_client *client, struct hf_lock *lock);

/* Stops watching and renewing; waits for a renewal or callback that is under way. With the mutex
 * held. */
void keeper_remove_locked(struct hf_client *client, struct hf_lock *lock);

/* For a client that is closed while handles are still open: those handles report LOST, their
 * leases are released in the background, and they are granted nothing more. */
void keeper_release_all(struct hf_client *client);

/* For a lease that this process has acquired and is detaching. If its ttl is long, and its table
 * has no entry for the hour in which it ends, one is written now. It is a hint, so it may
 * fail. */
void keeper_index_detached(struct hf_lock *lock);

/* Wakes or starts the indexer if an entry is due; otherwise *next is no later than the next
 * one. With the mutex held. */
void keeper_index_locked(struct hf_client *client, struct mono_time *next);

#endif
