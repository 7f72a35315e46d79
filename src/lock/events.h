/* events.h: what happened to a client: counted always, and told to whoever asked for it when the
 * client was made (hf_client_options.event).
 *
 * An event may happen with any mutex of the library held, so it is only put into a queue there, and
 * a task that holds none tells it. The queue's mutex is the last of all: nothing is locked while it
 * is held. */
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

/* Events that wait to be told; further ones are dropped and counted. */
#define EVENTS_MAX 4096

/* One event, as it happens. Views live for the call only. */
struct event {
    enum hf_event_kind kind;
    struct view key, scope, holder, txn, why;
    uint64_t token;
    uint64_t count; /* 0: one */
    enum hf_status status;
    enum hf_request_kind request;
    uint64_t bytes_sent, bytes_received;
    struct span took;
};

struct event_told; /* one that waits */

struct events {
    struct hf_client
        *owner; /* whose they are: another's, of a client that works for that one */
    void (*tell)(void *argument,
                 const struct hf_event *event); /* NULL: nobody asked for them */
    void *argument;
    atomic_uint_fast64_t counts[HF_EVENT_COUNT];
    atomic_uint_fast64_t dropped; /* of all */
    struct {
        atomic_uint_fast64_t calls, failed, bytes;
    } requests[HF_REQUEST_COUNT];
    struct { /* of those that are told */
        struct env_mutex mutex;
        struct env_cond changed;
        struct event_told *first, **end;
        size_t count;
        uint64_t dropped; /* since the last that was put there */
        bool stopping;
    } queue;
    struct env_task *task;
};

/* Of a client that has its env. Starts the task if the options name a callback. */
enum hf_status events_init(struct hf_client *client, const struct hf_client_options *options,
                           struct hf_error *error);

/* Waits until all have been told, and ends the task. */
void events_release(struct hf_client *client);

/* What happens to this client, which the other made for work of its own, is the other's. */
void events_belong_to(struct hf_client *made, struct hf_client *owner);

/* Counts it, and has it told. Never waits for anybody. */
void client_event(struct hf_client *client, const struct event *event);

/* The same about a lock. */
void lock_event(struct hf_lock *lock, enum hf_event_kind kind, enum hf_status status);

/* Whether anybody asked to be told, so that what only a telling needs can be left out. */
bool events_wanted(const struct hf_client *client);

/* Counts a request of a client, and has it told: for an observer of its store. */
void events_saw(void *client, const struct observation *seen);

#endif
