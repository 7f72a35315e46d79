/* keeper.h: renews what a client holds, tells holders what becomes of it, and ties up the loose
 * ends of requests that had no answer.
 *
 * A watcher counts the time and never waits for the store, so that nobody is told late; renewers
 * do the requests, one table at a time each, all leases of the table in one write. */
#ifndef LOCK_KEEPER_H
#define LOCK_KEEPER_H

#include "env/env.h"
#include "lease/table.h"

struct hf_client;
struct hf_lock;
struct place;
struct loose_end;

#define RENEWERS_MAX   4
#define LOOSE_ENDS_MAX 4096

struct keeper {
    struct env_mutex mutex;  /* guards what follows, and the state of every lock that is kept */
    struct env_cond changed; /* there may be something to do */
    struct env_cond unpinned;
    struct hf_lock *first; /* those that are held */
    struct loose_end *loose;
    size_t loose_count;
    bool stopping;
    struct mono_time stop_at; /* once stopping: give up the rest */
    struct env_task *watcher;
    struct env_task *renewers[RENEWERS_MAX];
    size_t renewer_count;
};

void keeper_init(struct keeper *keeper, struct env *env);

/* Ties up loose ends for a few seconds at most, and ends the tasks. */
void keeper_release(struct hf_client *client);

/* Starts the tasks, if they do not run yet. */
enum hf_status keeper_start(struct hf_client *client, struct hf_error *error);

/* From now on it is watched and, unless it does without, renewed; with the mutex held. */
void keeper_add_locked(struct hf_client *client, struct hf_lock *lock);

/* Not any more; waits for a renewal or notification that is under way. With the mutex held. */
void keeper_remove_locked(struct hf_client *client, struct hf_lock *lock);

/* Ends a lease, or a place in line, in the background, until that is settled or nobody could
 * mistake it for held: `ttl` after now. Takes the place's use over. `note` is copied. */
void keeper_tie_up(struct place *place, enum table_op_kind kind, struct view id, uint64_t token,
                   struct view note, struct span ttl);

#endif
