/* SPDX-License-Identifier: Apache-2.0 */
/* cleanup.h: ends leases and waiters that may or may not be in a table, because a request got no
 * reply. The cleanup is a separate task, so a table that hangs does not delay renewals. */
#ifndef LOCK_CLEANUP_H
#define LOCK_CLEANUP_H

#include "env/env.h"
#include "lease/table.h"

struct hf_client;
struct pending_release;
struct table_ref;

#define PENDING_RELEASES_MAX 4096

struct cleanup {
    struct env_mutex mutex; /* guards the members below */
    struct env_cond changed;
    struct pending_release *first;
    size_t count;
    bool stopping;
    struct mono_time stop_at; /* when stopping: when to abandon the rest */
    struct env_task *task;
};

void cleanup_init(struct cleanup *cleanup, struct env *env);

/* Waits until nothing is left to end, but at most a few seconds. */
void cleanup_wait(struct hf_client *client);

/* Lets the task continue for at most a few seconds, then ends it. */
void cleanup_release(struct hf_client *client);

/* Whether the result of a request that ends a lease or a waiter is final. If the store denied the
 * request, or the table could not be read, it may carry out the next one, or an earlier one that
 * got no reply. */
bool end_is_final(enum hf_status status);

/* Keeps trying to end a lease or a waiter in the background, until the outcome is known or `ttl`
 * has passed. By then, no client can mistake the entry for a held lease. Takes over one use of the
 * table_ref, and copies `note`. */
void release_later(struct table_ref *ref, enum table_op_kind kind, struct view id,
                   uint64_t token, struct view note, struct span ttl);

#endif
