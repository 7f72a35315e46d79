/* SPDX-License-Identifier: Apache-2.0 */
/* events.c: a client's events, counted immediately and delivered by a separate task. It guards
 * against deadlock: a user's callback never runs while a mutex of the library is held. */
#include "lock/events.h"

#include "base/check.h"
#include "lock/client_inside.h"
#include "lock/handle.h"
#include "store/observe.h"

#include <stdlib.h>

struct queued_event {
    struct queued_event *next;
    struct hf_event event; /* its strings are in `texts` */
    char texts[];
};

/* ---- Delivering ---------------------------------------------------------------------- */

static void deliver_events(void *argument)
{
    struct events *events = argument;
    env_mutex_lock(&events->queue.mutex);
    while (events->queue.first || !events->queue.stopping) {
        struct queued_event *queued = events->queue.first;
        if (!queued) {
            env_cond_wait(&events->queue.changed, &events->queue.mutex);
            continue;
        }
        events->queue.first = queued->next;
        if (!queued->next)
            events->queue.end = &events->queue.first;
        events->queue.count--;
        env_mutex_unlock(&events->queue.mutex);
        events->deliver(events->argument, &queued->event);
        free(queued);
        env_mutex_lock(&events->queue.mutex);
    }
    env_mutex_unlock(&events->queue.mutex);
}

enum hf_status events_init(struct hf_client *client, const struct hf_client_options *options,
                           struct hf_error *error)
{
    struct events *events = &client->events;
    events->owner = client;
    atomic_init(&events->chosen, HF_EVENTS_ALL);
    if (!options->event)
        return HF_OK;
    events->argument = options->event_argument;
    events->queue.end = &events->queue.first;
    env_mutex_init(client->env, &events->queue.mutex);
    env_cond_init(client->env, &events->queue.changed);
    events->deliver = options->event;
    enum hf_status status =
        env_task_start(client->env, deliver_events, events, &events->task, error);
    if (status != HF_OK) {
        env_cond_release(&events->queue.changed);
        env_mutex_release(&events->queue.mutex);
    }
    return status;
}

void events_release(struct hf_client *client)
{
    struct events *events = &client->events;
    if (!events->deliver)
        return;
    env_mutex_lock(&events->queue.mutex);
    events->queue.stopping = true;
    env_cond_signal(&events->queue.changed);
    env_mutex_unlock(&events->queue.mutex);
    env_task_join(client->env, events->task);
    check(!events->queue.first);
    env_cond_release(&events->queue.changed);
    env_mutex_release(&events->queue.mutex);
}

const struct events *events_of(const struct hf_client *client)
{
    return &client->events;
}

void events_belong_to(struct hf_client *made, struct hf_client *owner)
{
    made->events.owner = owner->events.owner;
}

bool events_wanted(const struct hf_client *client)
{
    const struct events *events = &client->events.owner->events;
    return events->deliver && atomic_load_explicit(&events->chosen, memory_order_relaxed) != 0;
}

void events_choose(struct hf_client *client, uint64_t kinds)
{
    atomic_store_explicit(&client->events.chosen, kinds, memory_order_relaxed);
}

static bool is_delivered(const struct events *events, enum hf_event_kind kind)
{
    return events->deliver &&
           atomic_load_explicit(&events->chosen, memory_order_relaxed) & HF_EVENT_BIT(kind);
}

/* ---- Recording ----------------------------------------------------------------------- */

static const char *append_text(char **at, struct view text)
{
    char *copy = *at;
    if (text.size > 0)
        memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    *at += text.size + 1;
    return copy;
}

/* NULL if out of memory. */
static struct queued_event *queued_event_new(struct env *env, const struct event *event)
{
    struct queued_event *queued =
        malloc(sizeof *queued + event->key.size + event->scope.size + event->holder.size +
               event->txn.size + event->why.size + event->note.size + 6);
    if (!queued)
        return NULL;
    char *at = queued->texts;
    queued->next = NULL;
    queued->event = (struct hf_event){
        .struct_size = sizeof queued->event,
        .kind = event->kind,
        .at_ms = env_wall(env).us / 1000,
        .key = append_text(&at, event->key),
        .scope = append_text(&at, event->scope),
        .holder = append_text(&at, event->holder),
        .txn = append_text(&at, event->txn),
        .token = event->token,
        .count = event->count,
        .status = event->status,
        .why = append_text(&at, event->why),
        .request = event->request,
        .bytes_sent = event->bytes_sent,
        .bytes_received = event->bytes_received,
        .took_us = event->took.us,
        .ttl_ms = event->ttl.us / 1000,
        .note = append_text(&at, event->note),
    };
    return queued;
}

static void queue_event(struct events *events, struct queued_event *queued)
{
    env_mutex_lock(&events->queue.mutex);
    bool dropped = !queued || events->queue.count == EVENTS_MAX;
    if (dropped) {
        events->queue.dropped++;
    } else {
        bool is_first = !events->queue.first; /* otherwise, the task is awake */
        queued->event.dropped = events->queue.dropped;
        events->queue.dropped = 0;
        *events->queue.end = queued;
        events->queue.end = &queued->next;
        events->queue.count++;
        if (is_first)
            env_cond_signal(&events->queue.changed);
    }
    env_mutex_unlock(&events->queue.mutex);
    if (!dropped)
        return;
    free(queued);
    atomic_fetch_add_explicit(&events->dropped, 1, memory_order_relaxed);
}

void client_event(struct hf_client *client, const struct event *event)
{
    struct hf_client *owner = client->events.owner;
    atomic_fetch_add_explicit(&owner->events.counts[event->kind],
                              event->count > 0 ? event->count : 1, memory_order_relaxed);
    if (is_delivered(&owner->events, event->kind))
        queue_event(&owner->events, queued_event_new(owner->env, event));
}

void lock_event(struct hf_lock *lock, enum hf_event_kind kind, enum hf_status status)
{
    struct event event = { .kind = kind, .status = status };
    char scope[SCOPE_TEXT_MAX + 1];
    if (events_wanted(lock->client)) {
        event.key = doc_key(lock->ref->doc);
        event.token = lock->token;
        if (lock->scope_count > 0)
            event.scope = view_of(scope_text(&lock->scopes[0], scope));
        if (kind == HF_EVENT_GRANTED || kind == HF_EVENT_RENEWED)
            event.ttl = lock->ttl;
        if (kind == HF_EVENT_GRANTED || kind == HF_EVENT_RENEWED || kind == HF_EVENT_RELEASED) {
            bool kept = lock->renewal_note.size == 0 || kind == HF_EVENT_GRANTED;
            event.note = kept ? view_of(lock->options.note ? lock->options.note : "")
                              : lock->renewal_note;
        }
    }
    client_event(lock->client, &event);
}

/* ---- Requests ------------------------------------------------------------------------ */

void events_note_request(void *argument, const struct observation *seen)
{
    struct hf_client *client = argument;
    struct events *events = &client->events;
    enum hf_store_call kind = (enum hf_store_call)seen->kind;
    enum hf_status status = seen->error->status;
    bool failed = status != HF_OK && status != HF_NOT_MODIFIED;
    atomic_fetch_add_explicit(&events->requests[kind].calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&events->requests[kind].failed, failed, memory_order_relaxed);
    atomic_fetch_add_explicit(&events->requests[kind].bytes,
                              seen->bytes_sent + seen->bytes_received, memory_order_relaxed);
    uint_fast64_t deepest = atomic_load(&events->depth);
    while (deepest < seen->depth &&
           !atomic_compare_exchange_weak(&events->depth, &deepest, seen->depth))
        continue;
    if (!is_delivered(events, HF_EVENT_REQUEST))
        return;
    client_event(client,
                 &(struct event){ .kind = HF_EVENT_REQUEST,
                                  .key = seen->key,
                                  .status = status,
                                  .why = view_of(status == HF_OK ? "" : seen->error->why),
                                  .request = kind,
                                  .bytes_sent = seen->bytes_sent,
                                  .bytes_received = seen->bytes_received,
                                  .took = seen->took });
}
