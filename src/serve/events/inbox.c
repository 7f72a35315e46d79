/* SPDX-License-Identifier: Apache-2.0 */
/* inbox.c: a bounded queue from many threads to the loop. */
#include "serve/events/inbox.h"

#include "base/buffer.h"
#include "base/json.h"
#include "base/owner.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

#define EVENT_JSON_MAX (16 * 1024)

struct event_inbox {
    struct env *env;
    void (*notify)(void *argument);
    void *argument;
    atomic_bool
        has_some; /* so that the loop need not lock the mutex to see that there is none */
    struct env_mutex mutex; /* guards the members below */
    struct inbox_event *first, **end;
    size_t count;
    uint64_t dropped; /* since the last event that was queued */
};

struct event_inbox *event_inbox_new(struct env *env, void (*notify)(void *argument),
                                    void *argument)
{
    struct event_inbox *inbox = calloc(1, sizeof *inbox);
    if (!inbox)
        return NULL;
    *inbox = (struct event_inbox){ .env = env, .notify = notify, .argument = argument };
    inbox->end = &inbox->first;
    env_mutex_init(env, &inbox->mutex);
    return inbox;
}

void event_inbox_free(struct event_inbox *inbox)
{
    if (!inbox)
        return;
    for (struct inbox_event *event = event_inbox_take(inbox); event;) {
        struct inbox_event *next = event->next;
        free(event);
        event = next;
    }
    env_mutex_release(&inbox->mutex);
    free(inbox);
}

/* ---- Texts --------------------------------------------------------------------------- */

static void put_text(struct buffer *json, const char *name, const char *text)
{
    if (!text || text[0] == '\0')
        return;
    buffer_print(json, ",\"%s\":", name);
    json_write_string(json, view_of(text));
}

static void put_number(struct buffer *json, const char *name, uint64_t number)
{
    if (number > 0)
        buffer_print(json, ",\"%s\":%" PRIu64, name, number);
}

/* The records of transactions are not: their keys hold the ids of the transactions, with which
 * anybody who may write could decide them. */
static bool is_in_namespace(const char *key, const char *ns)
{
    return strncmp(key, ns, strlen(ns)) == 0 && key[strlen(ns)] == '/';
}

static void write_event(struct buffer *json, const char *ns, const struct hf_event *event)
{
    struct view owner;
    buffer_print(json, "{\"at_ms\":%" PRId64, event->at_ms);
    put_text(json, "namespace", ns);
    put_text(json, "scope", event->scope);
    if (is_in_namespace(event->key, ns))
        put_text(json, "table", event->key);
    put_text(json, "holder", event->holder);
    if (owner_find(event->note, &owner))
        buffer_print(json, ",\"owner\":\"%.*s\"", VIEW_ARGS(owner));
    put_number(json, "fencing_token", event->token);
    put_number(json, "ttl_ms", event->ttl_ms > 0 ? (uint64_t)event->ttl_ms : 0);
    put_number(json, "count", event->count);
    if (event->kind == HF_EVENT_LOST)
        put_text(json, "reason", event->status == HF_EXPIRED ? "expired" : "ended_by_another");
    buffer_append_byte(json, '}');
}

/* NULL if memory runs out, or the event is too large. */
static struct inbox_event *inbox_event_new(const char *ns, const struct hf_event *event)
{
    struct buffer json = BUFFER_INIT(EVENT_JSON_MAX);
    size_t ns_size = strlen(ns) + 1;
    write_event(&json, ns, event);
    struct inbox_event *one = json.failed ? NULL : malloc(sizeof *one + ns_size + json.size);
    if (one) {
        *one = (struct inbox_event){ .ns = one->texts,
                                     .kind = (unsigned)event->kind,
                                     .dropped = event->dropped,
                                     .json = { one->texts + ns_size, json.size } };
        memcpy(one->texts, ns, ns_size);
        memcpy(one->texts + ns_size, json.data, json.size);
    }
    buffer_release(&json);
    return one;
}

/* ---- The queue ----------------------------------------------------------------------- */

void event_inbox_put(struct event_inbox *inbox, const char *ns, const struct hf_event *event)
{
    if (event->kind == HF_EVENT_REQUEST)
        return;
    struct inbox_event *one = inbox_event_new(ns, event);
    env_mutex_lock(&inbox->mutex);
    bool fits = one && inbox->count < EVENT_INBOX_MAX;
    bool is_first = fits && inbox->count == 0;
    if (fits) {
        one->dropped += inbox->dropped;
        inbox->dropped = 0;
        *inbox->end = one;
        inbox->end = &one->next;
        inbox->count++;
        atomic_store(&inbox->has_some, true);
    } else {
        inbox->dropped += 1 + event->dropped;
    }
    env_mutex_unlock(&inbox->mutex);
    if (!fits)
        free(one);
    if (is_first)
        inbox->notify(inbox->argument);
}

struct inbox_event *event_inbox_take(struct event_inbox *inbox)
{
    if (!atomic_load(&inbox->has_some))
        return NULL;
    env_mutex_lock(&inbox->mutex);
    struct inbox_event *all = inbox->first;
    inbox->first = NULL;
    inbox->end = &inbox->first;
    inbox->count = 0;
    atomic_store(&inbox->has_some, false);
    env_mutex_unlock(&inbox->mutex);
    return all;
}
