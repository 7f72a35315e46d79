/* SPDX-License-Identifier: Apache-2.0 */
/* inbox.h: events on their way from the library's threads to the loop. Each thread that delivers
 * events of a client writes them as JSON, and the loop takes them. The inbox is bounded: what does
 * not fit is dropped and counted, and the threads never wait for the loop. */
#ifndef SERVE_EVENTS_INBOX_H
#define SERVE_EVENTS_INBOX_H

#include "base/view.h"
#include "env/env.h"
#include "holdfast.h"

struct event_inbox;

#define EVENT_INBOX_MAX 4096

struct inbox_event {
    struct inbox_event *next;
    const char *ns; /* in `texts` */
    unsigned kind;
    uint64_t dropped; /* events that were dropped before this one */
    struct view json; /* in `texts` */
    char texts[];
};

/* `notify` is called after the inbox was empty; any thread. NULL if memory runs out. */
struct event_inbox *event_inbox_new(struct env *env, void (*notify)(void *argument),
                                    void *argument);
void event_inbox_free(struct event_inbox *inbox);

/* Any thread. Events that store requests cause are ignored. Texts that would not be shown to a
 * reader of the namespace are left out: the ids of transactions. */
void event_inbox_put(struct event_inbox *inbox, const char *ns, const struct hf_event *event);

/* All events so far, the oldest first; the caller calls free() for each. The loop only. */
struct inbox_event *event_inbox_take(struct event_inbox *inbox);

#endif
