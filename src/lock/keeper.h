/* keeper.h: renews what a client holds, and tells holders what becomes of it.
 *
 * A watcher counts the time and never waits for the store, so that nobody is told late; renewers
 * do the requests, one table at a time each, all leases of the table in one write. The indexer
 * writes the entries of the expiry index, so that these never keep a renewal waiting. */
#ifndef LOCK_KEEPER_H
#define LOCK_KEEPER_H

#include "env/env.h"
#include "lease/table.h"

struct hf_client;
struct hf_lock;

#define RENEWERS_MAX 4

struct keeper {
    struct env_mutex mutex;  /* guards what follows, and the state of every lock that is kept */
    struct env_cond changed; /* there may be something to do */
    struct env_cond unpinned;
    struct env_cond entry_due; /* for the indexer */
    struct hf_lock *first;     /* those that are held */
    bool closed;               /* nothing is held from now on */
    bool stopping;
    struct env_task *watcher;
    struct env_task *renewers[RENEWERS_MAX];
    size_t renewer_count;
    struct env_task *indexer;
};

void keeper_init(struct keeper *keeper, struct env *env);

/* Ends the tasks; nothing is held any more. */
void keeper_release(struct hf_client *client);

/* Starts the tasks that a lock needs, if they do not run yet. One that is neither renewed nor told
 * of is kept for its entry in the expiry index only, and does without where there are no tasks. */
enum hf_status keeper_start_for(struct hf_lock *lock, struct hf_error *error);

/* From now on it is watched and, unless it does without, renewed; with the mutex held. */
void keeper_add_locked(struct hf_client *client, struct hf_lock *lock);

/* Not any more; waits for a renewal or notification that is under way. With the mutex held. */
void keeper_remove_locked(struct hf_client *client, struct hf_lock *lock);

/* The client is closed while handles are left: what they hold is LOST to them and given back in the
 * background, and nothing will be granted to them any more. */
void keeper_give_all_back(struct hf_client *client);

/* ---- Entries of the expiry index (keeper_index.c) ------------------------------------- */

/* A lease that this process has acquired is left to somebody else: if it is long, and its table has
 * no entry for the hour in which it ends, one is written now. It is a hint, so it may fail. */
void keeper_index_left(struct hf_lock *lock);

/* Wakes the indexer, or starts it, when an entry is due; else *next is no later than when one will
 * be. With the mutex held. */
void keeper_index_locked(struct hf_client *client, struct mono_time *next);

#endif
