/* SPDX-License-Identifier: Apache-2.0 */
/* events.h: a client's events. They are always counted, and are delivered to the callback that was
 * set when the client was created (hf_client_options.event).
 *
 * An event may occur while any mutex of the library is held. So the event is only queued, and a
 * task that holds no mutex delivers it. The queue's mutex is the last in the order: no other mutex
 * is locked while it is held. */
#ifndef LOCK_EVENTS_H
#define LOCK_EVENTS_H

#include "base/error.h"
#include "base/moment.h"
#include "base/view.h"
#include "env/env.h"

#include <stdatomic.h>

struct hf_client;
struct hf_lock;
struct observation;

/* The maximum number of events in the queue. Any more are dropped and counted. */
#define EVENTS_MAX 4096

/* One event. Its views are valid only during the call. */
struct event {
    enum hf_event_kind kind;
    struct view key, scope, holder, txn, why, note;
    uint64_t token;
    uint64_t count; /* 0: one */
    enum hf_status status;
    enum hf_store_call request;
    uint64_t bytes_sent, bytes_received;
    struct span took, ttl;
};

struct queued_event; /* an event in the queue */

struct events {
    /* The client that gets the events: this client, or the one that it works for. */
    struct hf_client *owner;
    void (*deliver)(void *argument,
                    const struct hf_event *event); /* NULL: there is no callback */
    void *argument;
    atomic_uint_fast64_t chosen; /* a bit for each kind that is delivered */
    atomic_uint_fast64_t counts[HF_EVENT_COUNT];
    atomic_uint_fast64_t dropped; /* in total */
    struct {
        atomic_uint_fast64_t calls, failed, bytes;
    } requests[HF_STORE_CALL_COUNT];
    atomic_uint_fast64_t depth; /* of the deepest request */
    struct {                    /* events to be delivered */
        struct env_mutex mutex;
        struct env_cond changed;
        struct queued_event *first, **end;
        size_t count;
        uint64_t dropped; /* since the last event was queued */
        bool stopping;
    } queue;
    struct env_task *task;
};

/* Initialises the events of a client whose env is set. Starts the task if the options name a
 * callback. */
enum hf_status events_init(struct hf_client *client, const struct hf_client_options *options,
                           struct hf_error *error);

/* Waits until all events are delivered, then ends the task. */
void events_release(struct hf_client *client);

/* The counts. */
const struct events *events_of(const struct hf_client *client);

/* Makes the events of `made`, a client that `owner` created for its own work, count as the
 * owner's. */
void events_belong_to(struct hf_client *made, struct hf_client *owner);

/* Counts an event and queues it. Never blocks. */
void client_event(struct hf_client *client, const struct event *event);

/* The same for a lock. */
void lock_event(struct hf_lock *lock, enum hf_event_kind kind, enum hf_status status);

/* Chooses the kinds that are delivered, by their bits. */
void events_choose(struct hf_client *client, uint64_t kinds);

/* Whether a callback gets any events; if not, work needed only for delivery can be skipped. */
bool events_wanted(const struct hf_client *client);

/* Counts a client's request and queues its event. This is the callback of the observer of the
 * client's store. */
void events_note_request(void *client, const struct observation *seen);

#endif
