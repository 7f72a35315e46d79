/* SPDX-License-Identifier: Apache-2.0 */
/* ring.c: keeps the latest events. It guards against a reader that believes it has seen everything:
 * whatever the ring drops is counted for each reader that has not taken it. */
#include "serve/events/ring.h"

#include "base/check.h"
#include "base/error.h"
#include "base/parse.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Behind the texts of an event there are no others: it is one allocation. */
struct ring_event {
    unsigned kind;
    size_t size;      /* of this struct with its texts */
    const char *ns;   /* in `texts` */
    struct view json; /* in `texts` */
    char texts[];
};

struct event_ring {
    uint32_t process;
    uint64_t oldest, next; /* the numbers of the oldest event, and of the one to come */
    size_t bytes;
    struct ring_event *events[EVENT_RING_COUNT_MAX]; /* by number; NULL: there was no memory */
    struct event_reader *readers;
};

/* ---- Kinds --------------------------------------------------------------------------- */

const char *stream_kind_name(unsigned kind)
{
    switch (kind) {
    case HF_EVENT_LOST: return "lease_lost";
    case STREAM_BROKEN: return "broken";
    case STREAM_WAIT_BEGAN: return "wait_began";
    case STREAM_WAIT_ENDED: return "wait_ended";
    case STREAM_LOST: return "lost";
    default: return hf_event_name((enum hf_event_kind)kind);
    }
}

static uint64_t kind_bit(unsigned kind)
{
    return UINT64_C(1) << kind;
}

enum hf_status stream_kinds_read(struct view list, uint64_t *ret_kinds, struct hf_error *error)
{
    uint64_t kinds = 0;
    while (list.size > 0) {
        struct view word = view_cut(&list, ',');
        unsigned kind = 0;
        while (kind < STREAM_LOST &&
               (kind == HF_EVENT_REQUEST || !view_equal(word, view_of(stream_kind_name(kind)))))
            kind++;
        if (kind == STREAM_LOST)
            return error_set(error, HF_INVALID, "'%.*s' is not a kind of event",
                             VIEW_ARGS(view_first(word, 40)));
        kinds |= kind_bit(kind);
    }
    *ret_kinds = kinds != 0 ? kinds : kind_bit(STREAM_LOST) - 1;
    return HF_OK;
}

static bool is_for_reader(const struct event_reader *reader, const struct ring_event *event)
{
    bool in_space = event->ns[0] == '\0' || strcmp(event->ns, reader->ns) == 0;
    return in_space && (event->kind == STREAM_LOST || reader->kinds & kind_bit(event->kind));
}

/* ---- The ring ------------------------------------------------------------------------ */

struct event_ring *event_ring_new(uint32_t process)
{
    struct event_ring *ring = calloc(1, sizeof *ring);
    if (!ring)
        return NULL;
    ring->process = process;
    ring->oldest = ring->next = 1;
    return ring;
}

void event_ring_free(struct event_ring *ring)
{
    if (!ring)
        return;
    check(!ring->readers);
    for (size_t i = 0; i < EVENT_RING_COUNT_MAX; i++)
        free(ring->events[i]);
    free(ring);
}

static struct ring_event **ring_slot(struct event_ring *ring, uint64_t number)
{
    return &ring->events[number % EVENT_RING_COUNT_MAX];
}

/* Readers that have not looked at it lose it. */
static void drop_oldest(struct event_ring *ring)
{
    struct ring_event **slot = ring_slot(ring, ring->oldest);
    for (struct event_reader *reader = ring->readers; reader; reader = reader->next_reader) {
        if (reader->next > ring->oldest)
            continue;
        reader->next = ring->oldest + 1;
        reader->lost += !*slot || is_for_reader(reader, *slot);
    }
    if (*slot)
        ring->bytes -= (*slot)->size;
    free(*slot);
    *slot = NULL;
    ring->oldest++;
}

void event_ring_add(struct event_ring *ring, const char *ns, unsigned kind, struct view json)
{
    size_t size = sizeof(struct ring_event) + strlen(ns) + 1 + json.size;
    check(kind < STREAM_KINDS && size <= EVENT_RING_BYTES_MAX);
    while (ring->next - ring->oldest >= EVENT_RING_COUNT_MAX ||
           ring->bytes + size > EVENT_RING_BYTES_MAX)
        drop_oldest(ring);
    struct ring_event *event = malloc(size);
    *ring_slot(ring, ring->next++) = event;
    if (!event)
        return;
    char *text = event->texts + strlen(ns) + 1;
    *event = (struct ring_event){ kind, size, event->texts, { text, json.size } };
    memcpy(event->texts, ns, strlen(ns) + 1);
    memcpy(text, json.data, json.size);
    ring->bytes += size;
}

uint64_t event_ring_latest(const struct event_ring *ring)
{
    return ring->next - 1;
}

/* ---- Readers ------------------------------------------------------------------------- */

/* The number of the event with this id. False: it is an event of another process. */
static bool read_event_id(const struct event_ring *ring, struct view id, uint64_t *ret_number)
{
    struct hf_error ignored;
    struct view process = view_cut(&id, '-');
    char text[9];
    snprintf(text, sizeof text, "%08" PRIx32, ring->process);
    return view_equal(process, view_of(text)) &&
           parse_u64(id, ring->next - 1, ret_number, &ignored) == HF_OK;
}

void event_reader_join(struct event_ring *ring, struct event_reader *reader,
                       struct view last_id, uint64_t since)
{
    uint64_t last;
    reader->next_reader = ring->readers;
    ring->readers = reader;
    reader->next = ring->next;
    reader->lost = 0;
    reader->lost_unknown = false;
    if (last_id.size == 0)
        return;
    uint64_t first = ring->oldest > since ? ring->oldest : since;
    bool known = read_event_id(ring, last_id, &last);
    reader->lost_unknown = !known || last + 1 < first;
    if (known)
        reader->next = last + 1 > first ? last + 1 : first;
    else
        reader->next = first;
}

void event_reader_leave(struct event_ring *ring, struct event_reader *reader)
{
    struct event_reader **at = &ring->readers;
    while (*at != reader) {
        check(*at);
        at = &(*at)->next_reader;
    }
    *at = reader->next_reader;
}

static void put_id(const struct event_ring *ring, uint64_t number, struct buffer *text)
{
    buffer_print(text, "id: %08" PRIx32 "-%" PRIu64 "\n", ring->process, number);
}

static void take_lost(struct event_reader *reader, struct buffer *text)
{
    buffer_append(text, VIEW("event: lost\ndata: {\"count\":"));
    if (reader->lost_unknown)
        buffer_append(text, VIEW("null"));
    else
        buffer_append_u64(text, reader->lost);
    buffer_append(text, VIEW("}\n\n"));
    reader->lost = 0;
    reader->lost_unknown = false;
}

bool event_reader_take(struct event_ring *ring, struct event_reader *reader,
                       struct buffer *text)
{
    while (reader->lost == 0 && !reader->lost_unknown && reader->next < ring->next) {
        const struct ring_event *event = *ring_slot(ring, reader->next++);
        if (!event) {
            reader->lost++;
        } else if (is_for_reader(reader, event)) {
            put_id(ring, reader->next - 1, text);
            buffer_print(text, "event: %s\ndata: %.*s\n\n", stream_kind_name(event->kind),
                         VIEW_ARGS(event->json));
            return true;
        }
    }
    if (reader->lost == 0 && !reader->lost_unknown)
        return false;
    take_lost(reader, text);
    return true;
}

void event_reader_open(const struct event_ring *ring, const struct event_reader *reader,
                       struct buffer *text)
{
    put_id(ring, reader->next - 1, text);
    buffer_append(text, VIEW("event: open\nretry: 2000\ndata: {}\n\n"));
}
