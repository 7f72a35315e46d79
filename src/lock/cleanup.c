/* SPDX-License-Identifier: Apache-2.0 */
/* cleanup.c: ends leases and waiters in the background if a request for them got no reply. It
 * guards against leases and waiters without an owner: an abandoned put may take effect later, and
 * no client would end the lease or waiter that it wrote. */
#include "lock/cleanup.h"

#include "base/check.h"
#include "lock/client_inside.h"
#include "lock/handle.h"

#include <stdlib.h>

/* The time limit of one try, the pause before the next one, how many there are once the time is
 * over (the machine may have been suspended for all of it), and how long closing a client waits. */
#define TRY_TIME   SPAN_S(2)
#define TRY_AGAIN  SPAN_S(1)
#define TRIES_MIN  8
#define CLOSE_TIME SPAN_S(4)

struct pending_release {
    struct pending_release *next;
    struct table_ref *ref;
    enum table_op_kind kind;
    char id[LEASE_ID_MAX + 1];
    uint64_t token;
    struct mono_time try_at;
    unsigned tries;
    struct mono_time give_up_at; /* from then on no client can take it for a held lease */
    size_t note_size;
    char note[];
};

void cleanup_init(struct cleanup *cleanup, struct env *env)
{
    *cleanup = (struct cleanup){ 0 };
    env_mutex_init(env, &cleanup->mutex);
    env_cond_init(env, &cleanup->changed);
}

bool end_is_final(enum hf_status status)
{
    bool by_store = status == HF_DENIED || status == HF_CORRUPT || status == HF_UNSUPPORTED;
    return request_settled(status) && !by_store;
}

static void remove_pending_locked(struct cleanup *cleanup, struct pending_release *pending)
{
    struct pending_release **at = &cleanup->first;
    while (*at != pending)
        at = &(*at)->next;
    *at = pending->next;
    cleanup->count--;
}

/* The request always writes, even if there is nothing to end. Only a later swap makes earlier
 * writes that are still in progress fail. Until then, "not in the table" is no final answer. */
static void try_pending_locked(struct hf_client *client, struct pending_release *pending)
{
    struct cleanup *cleanup = &client->cleanup;
    struct table_ref *ref = pending->ref;
    struct request request, *requests[] = { &request };
    env_mutex_unlock(&cleanup->mutex);
    request_init(&request, ref, pending->kind, mono_add(env_now(client->env), TRY_TIME));
    request.op.settle = true;
    request.table.id = view_of(pending->id);
    request.table.token = pending->token;
    request.table.note = (struct view){ pending->note, pending->note_size };
    bool settled = end_is_final(table_ref_ask(ref, requests, 1));
    struct mono_time now = env_now(client->env);
    env_mutex_lock(&cleanup->mutex);
    pending->try_at = mono_add(now, TRY_AGAIN);
    bool may_give_up = !mono_before(now, pending->give_up_at) && ++pending->tries >= TRIES_MIN;
    if (!settled && !may_give_up)
        return;
    remove_pending_locked(cleanup, pending);
    if (!cleanup->first)
        env_cond_broadcast(&cleanup->changed); /* for cleanup_wait */
    free(pending);
    env_mutex_unlock(&cleanup->mutex);
    table_ref_drop(ref);
    env_mutex_lock(&cleanup->mutex);
}

static struct pending_release *next_pending_locked(const struct cleanup *cleanup)
{
    struct pending_release *first = cleanup->first;
    for (struct pending_release *pending = first; pending; pending = pending->next)
        if (mono_before(pending->try_at, first->try_at))
            first = pending;
    return first;
}

static void run_cleanup(void *argument)
{
    struct hf_client *client = argument;
    struct cleanup *cleanup = &client->cleanup;
    env_mutex_lock(&cleanup->mutex);
    while (!cleanup->stopping ||
           (cleanup->first && mono_before(env_now(client->env), cleanup->stop_at))) {
        struct pending_release *pending = next_pending_locked(cleanup);
        struct mono_time next = pending ? pending->try_at : (struct mono_time){ MOMENT_FAR };
        if (!mono_before(env_now(client->env), next))
            try_pending_locked(client, pending);
        else
            env_cond_wait_until(&cleanup->changed, &cleanup->mutex,
                                cleanup->stopping ? mono_earlier(next, cleanup->stop_at)
                                                  : next);
    }
    env_mutex_unlock(&cleanup->mutex);
}

void release_later(struct table_ref *ref, enum table_op_kind kind, struct view id,
                   uint64_t token, struct view note, struct span ttl)
{
    struct hf_client *client = ref->client;
    struct cleanup *cleanup = &client->cleanup;
    struct pending_release *pending = malloc(sizeof *pending + note.size);
    struct hf_error error;
    check(id.size <= LEASE_ID_MAX);
    env_mutex_lock(&cleanup->mutex);
    bool kept = pending && cleanup->count < PENDING_RELEASES_MAX;
    if (kept && !cleanup->task)
        kept =
            env_task_start(client->env, run_cleanup, client, &cleanup->task, &error) == HF_OK;
    if (kept) {
        struct mono_time now = env_now(client->env);
        *pending = (struct pending_release){ .next = cleanup->first,
                                             .ref = ref,
                                             .kind = kind,
                                             .token = token,
                                             .try_at = now,
                                             .give_up_at = mono_add(now, ttl),
                                             .note_size = note.size };
        memcpy(pending->id, id.data, id.size);
        if (note.size > 0)
            memcpy(pending->note, note.data, note.size);
        cleanup->first = pending;
        cleanup->count++;
        env_cond_broadcast(&cleanup->changed);
    }
    env_mutex_unlock(&cleanup->mutex);
    if (!kept) { /* a lease then expires by itself, and a waiter misses its turn */
        free(pending);
        table_ref_drop(ref);
    }
}

void cleanup_wait(struct hf_client *client)
{
    struct cleanup *cleanup = &client->cleanup;
    env_mutex_lock(&cleanup->mutex);
    struct mono_time until = mono_add(env_now(client->env), CLOSE_TIME);
    while (cleanup->first && mono_before(env_now(client->env), until))
        env_cond_wait_until(&cleanup->changed, &cleanup->mutex, until);
    env_mutex_unlock(&cleanup->mutex);
}

void cleanup_release(struct hf_client *client)
{
    struct cleanup *cleanup = &client->cleanup;
    env_mutex_lock(&cleanup->mutex);
    cleanup->stopping = true;
    cleanup->stop_at = mono_add(env_now(client->env), CLOSE_TIME);
    env_cond_signal(&cleanup->changed);
    env_mutex_unlock(&cleanup->mutex);
    if (cleanup->task)
        env_task_join(client->env, cleanup->task);
    while (cleanup->first) {
        struct pending_release *pending = cleanup->first;
        remove_pending_locked(cleanup, pending);
        table_ref_drop(pending->ref);
        free(pending);
    }
    env_cond_release(&cleanup->changed);
    env_mutex_release(&cleanup->mutex);
}
