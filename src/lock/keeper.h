/* keeper.h: renews what a client holds, and tells holders what becomes of it.
 *
 * A watcher counts the time and never waits for the store, so that nobody is told late; renewers
 * do the requests, one table at a time each, all leases of the table in one write. */
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
    struct hf_lock *first; /* those that are held */
    bool stopping;
    struct env_task *watcher;
    struct env_task *renewers[RENEWERS_MAX];
    size_t renewer_count;
};

void keeper_init(struct keeper *keeper, struct env *env);

/* Ends the tasks; nothing is held any more. */
void keeper_release(struct hf_client *client);

/* Starts the tasks, if they do not run yet. */
enum hf_status keeper_start(struct hf_client *client, struct hf_error *error);

/* From now on it is watched and, unless it does without, renewed; with the mutex held. */
void keeper_add_locked(struct hf_client *client, struct hf_lock *lock);

/* Not any more; waits for a renewal or notification that is under way. With the mutex held. */
void keeper_remove_locked(struct hf_client *client, struct hf_lock *lock);

#endif
