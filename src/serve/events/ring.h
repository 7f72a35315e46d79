/* SPDX-License-Identifier: Apache-2.0 */
/* ring.h: the latest events of the server, and readers of them. Pure: no I/O, clock or thread.
 *
 * All readers share one ring, so a slow reader costs a position and no memory. An event that the
 * ring drops before a reader has taken it is lost for that reader, which is told how many it lost
 * before the next event that it takes. A reader that comes again (Last-Event-ID) continues after
 * the event that it names, or is told that events are missing.
 *
 * The texts are server-sent events:
 *
 *     id: 5f3a09c1-17
 *     event: granted
 *     data: {"at_ms":1763415021000,"namespace":"default","scope":"named:deploy","token":7}
 *
 * The first part of an id is a number of this process, because a restart begins to count anew. */
#ifndef SERVE_EVENTS_RING_H
#define SERVE_EVENTS_RING_H

#include "base/buffer.h"
#include "holdfast.h"

/* What readers can choose. The first kinds are those of the library. */
enum stream_kind {
    STREAM_BROKEN = HF_EVENT_COUNT, /* a lease was ended by another client */
    STREAM_WAIT_BEGAN,
    STREAM_WAIT_ENDED,
    STREAM_LOST, /* events are missing; every reader gets this */
    STREAM_KINDS
};

/* The name of a kind. The library's `lost` is "lease_lost", because "lost" is STREAM_LOST. */
const char *stream_kind_name(unsigned kind);

/* A list such as "granted,released"; empty: all. INVALID names the word that is not a kind. */
enum hf_status stream_kinds_read(struct view list, uint64_t *ret_kinds, struct hf_error *error);

struct event_ring;

#define EVENT_RING_COUNT_MAX 1024
#define EVENT_RING_BYTES_MAX (1024 * 1024)

/* `process` tells this process from others. NULL if memory runs out. */
struct event_ring *event_ring_new(uint32_t process);
void event_ring_free(struct event_ring *ring);

/* Adds an event of a namespace ("": of all), with its data as JSON in one line. Without memory, it
 * counts as lost. */
void event_ring_add(struct event_ring *ring, const char *ns, unsigned kind, struct view json);

/* The number of the latest event; 0: there was none. */
uint64_t event_ring_latest(const struct event_ring *ring);

struct event_reader {
    struct event_reader *next_reader;
    const char *ns; /* the caller's */
    uint64_t kinds;
    uint64_t next;     /* the number of the event to look at next */
    uint64_t lost;     /* events that it was not told of yet */
    bool lost_unknown; /* some were lost, and nobody knows how many */
};

/* A reader from now on; or, with the id of the last event that it got, from there on. Events of its
 * namespace are in the ring only from number `since` on. `last_id` may be empty. */
void event_reader_join(struct event_ring *ring, struct event_reader *reader,
                       struct view last_id, uint64_t since);
void event_reader_leave(struct event_ring *ring, struct event_reader *reader);

/* Appends the next event for this reader. False: there is none now. */
bool event_reader_take(struct event_ring *ring, struct event_reader *reader,
                       struct buffer *text);

/* Appends the event that opens a stream. Its id is that of the event before the first one that the
 * reader gets, so that a reader can come again before it has got any. */
void event_reader_open(const struct event_ring *ring, const struct event_reader *reader,
                       struct buffer *text);

#endif
