/* SPDX-License-Identifier: Apache-2.0 */
/* client_inside.h: the struct of a client, for the files in this folder and for code that builds
 * a client itself (the simulator, tests).
 *
 * Mutex order: a lock's `calls`, then the mutex of shared, keeper or wait queue. No two of these
 * three are held together. Only the clock's own mutex, and those of the store's notify files, are
 * locked while one of them is held. */
#ifndef LOCK_CLIENT_INSIDE_H
#define LOCK_CLIENT_INSIDE_H

#include "base/map.h"
#include "base/spare.h"
#include "lock/background.h"
#include "lock/cleanup.h"
#include "lock/client.h"
#include "lock/fenced.h"
#include "lock/keeper.h"
#include "lock/server.h"
#include "store/session.h"

#include <stdatomic.h>

struct hf_client {
    struct env *env;
    struct store *store;
    bool counts;                     /* it observes its own store */
    const struct server_ops *server; /* NULL: the store has objects */
    /* The store handle used by public functions, kept open; NULL: the caller owns the store. */
    struct hf_store *handle;
    struct doc_clock clock;
    struct table_space space;
    struct table_space chunk_space; /* chunks have no namespace: one epoch for all */
    struct table_space shard_space; /* the same for shards, whose locks have short ttls */
    struct span poll;               /* the poll interval of locks that do not set their own */
    struct span hour;               /* of the expiry index (expiry.h) */
    char holder[HOLDER_BYTES_MAX + 1];
    char session[NONCE_SIZE + 1];
    struct store_session presence; /* the session, as other processes on this machine see it */
    atomic_uint listening;         /* tasks that listen to its bell */
    struct {
        struct env_mutex mutex;
        struct map table_refs;              /* by the key of the table */
        struct table_ref *idle, *idle_last; /* least recently used first */
        size_t idle_count, idle_leases;
        struct spare spare_refs;
        uint64_t cleared[SWEEP_MODES]; /* ended leases, by what caused them to be cleared */
        struct env_cond ended;         /* for table_ref_await_ended */
    } shared;
    /* Locks and transactions not freed yet, plus one for the client until it is closed. */
    atomic_size_t handles;
    atomic_uint_fast64_t handles_ever, last_id;
    struct {
        atomic_uint_fast64_t count; /* operations that callers have begun */
        atomic_int_fast64_t last;   /* when the last one began, on the boot-time clock in us */
        /* How many of our writes were refused because another client had written. */
        atomic_uint_fast64_t conflicts;
    } activity;
    struct keeper keeper;
    struct cleanup cleanup;
    struct background background;
    struct fence_cache fences;
    struct events events;
};

#endif
