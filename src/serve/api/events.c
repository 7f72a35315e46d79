/* SPDX-License-Identifier: Apache-2.0 */
/* events.c: the route /v1/events, which shows the events of a namespace as they happen, and the
 * events that the server adds to those of the library: waits, and leases that were broken.
 *
 * A client of the library delivers events only while somebody listens, and for a minute more, so
 * that a reader that lost its connection finds in the ring what it missed. */
#include "serve/api/exchange.h"

#include "base/check.h"
#include "base/json.h"

#include <inttypes.h>
#include <stdlib.h>

#define STREAMS_MAX      64
#define STREAM_AHEAD     (64 * 1024) /* unsent bytes beyond which events stay in the ring */
#define EVENT_TEXT_MAX   (64 * 1024)
#define HEARTBEAT        SPAN_S(15)
#define SLOW_READER_LOOK SPAN_MS(100)
#define LISTEN_ON        SPAN_S(60)

struct stream {
    struct exchange *exchange;
    struct event_reader reader;
    struct stream *next;
    struct mono_time written;
    /* The ring may have something for it that it did not read: tried again then. MOMENT_FAR: it has
     * all. */
    struct mono_time retry_at;
};

enum hf_status streams_open(struct api *api, struct hf_error *error)
{
    api->events.ring = event_ring_new((uint32_t)env_random_u64(api->env));
    api->events.inbox = event_inbox_new(api->env, api->options.notify, api->options.argument);
    unsigned char key[SIPHASH_KEY_BYTES];
    env_random(api->env, key, sizeof key);
    api->events.timelines = timelines_new(env_wall(api->env).us / 1000, key);
    return api->events.ring && api->events.inbox && api->events.timelines
               ? HF_OK
               : error_no_memory(error);
}

void streams_close(struct api *api)
{
    check(!api->events.streams);
    timelines_free(api->events.timelines);
    event_inbox_free(api->events.inbox);
    event_ring_free(api->events.ring);
}

/* ---- Sources ------------------------------------------------------------------------- */

void space_event(void *argument, const struct hf_event *event)
{
    struct space *space = argument;
    event_inbox_put(space->api->events.inbox, space->name, event);
}

/* Begins the data of an event of the server's own. False: nobody listens. */
static bool begin_event(const struct exchange *exchange, struct buffer *json)
{
    const struct ask *ask = &exchange->ask;
    if (!exchange->space || !exchange->space->events.listens)
        return false;
    struct buffer scope = BUFFER_INIT(HF_SCOPE_TEXT_MAX);
    exchange_print_scope(exchange, &scope);
    buffer_append_byte(json, '{');
    json_put_i64(json, "at_ms", env_wall(exchange->api->env).us / 1000);
    json_put_text(json, "namespace", ask->ns);
    json_put_text(json, "scope", buffer_text(&scope));
    if (ask->owner)
        json_put_text(json, "owner", ask->owner);
    buffer_release(&scope);
    return true;
}

static void end_event(const struct exchange *exchange, unsigned kind, struct buffer *json)
{
    struct api *api = exchange->api;
    buffer_append_byte(json, '}');
    if (!json->failed)
        event_ring_add(api->events.ring, exchange->space->name, kind, buffer_view(json));
    buffer_release(json);
}

/* Adds the exchange to those that wait, as the last one, or removes it. */
static void note_wait(struct exchange *exchange, bool waits)
{
    struct api *api = exchange->api;
    struct exchange *before = waits ? api->waits.last : exchange->wait_before;
    struct exchange *after = waits ? NULL : exchange->wait_after;
    *(before ? &before->wait_after : &api->waits.first) = waits ? exchange : after;
    *(after ? &after->wait_before : &api->waits.last) = waits ? exchange : before;
    exchange->wait_before = waits ? before : NULL;
    exchange->wait_after = NULL;
    exchange->reported = waits;
}

void report_wait_began(void *argument, uint64_t number)
{
    struct exchange *exchange = (struct exchange *)(uintptr_t)number;
    struct buffer json = BUFFER_INIT(EVENT_TEXT_MAX);
    (void)argument;
    note_wait(exchange, true);
    if (begin_event(exchange, &json))
        end_event(exchange, STREAM_WAIT_BEGAN, &json);
}

void report_wait_ended(struct exchange *exchange, int status)
{
    struct buffer json = BUFFER_INIT(EVENT_TEXT_MAX);
    struct span waited = mono_since(env_now(exchange->api->env), exchange->arrived);
    const char *result = "failed";
    if (status == 200)
        result = "granted";
    else if (status == METRICS_HUNG_UP)
        result = "hung_up";
    else if (status == 409)
        result = "not_granted";
    note_wait(exchange, false);
    if (!begin_event(exchange, &json))
        return;
    json_put_text(&json, "result", result);
    json_put_i64(&json, "waited_ms", waited.us / 1000);
    end_event(exchange, STREAM_WAIT_ENDED, &json);
}

void report_lease_lost(struct exchange *exchange)
{
    struct buffer json = BUFFER_INIT(EVENT_TEXT_MAX);
    exchange->api->figures.losses++;
    if (!begin_event(exchange, &json))
        return;
    json_put_text(&json, "reason", "expired");
    end_event(exchange, HF_EVENT_LOST, &json);
}

void report_broken(struct exchange *exchange)
{
    struct buffer json = BUFFER_INIT(EVENT_TEXT_MAX);
    if (!begin_event(exchange, &json))
        return;
    json_put_u64(&json, "fencing_token", exchange->ask.token);
    json_put_text(&json, "reason", exchange->ask.reason);
    end_event(exchange, STREAM_BROKEN, &json);
}

/* ---- Listening ----------------------------------------------------------------------- */

static void start_listening(struct space *space)
{
    struct hf_error ignored;
    space->events.streams++;
    if (space->events.listens)
        return;
    hf_client_choose_events(space->client, HF_EVENTS_ALL & ~HF_EVENT_BIT(HF_EVENT_REQUEST),
                            &ignored);
    space->events.listens = true;
    space->api->events.listening++;
    space->events.since = event_ring_latest(space->api->events.ring) + 1;
}

void stop_listening(struct space *space)
{
    struct hf_error ignored;
    if (!space->events.listens)
        return;
    hf_client_choose_events(space->client, 0, &ignored);
    space->events.listens = false;
    space->api->events.listening--;
}

/* ---- Streams ------------------------------------------------------------------------- */

/* Forgets a stream that has ended, and its exchange. */
static void stream_forget(struct stream *stream)
{
    struct exchange *exchange = stream->exchange;
    struct api *api = exchange->api;
    struct stream **at = &api->events.streams;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    api->events.count--;
    event_reader_leave(api->events.ring, &stream->reader);
    exchange->space->events.streams--;
    exchange->space->events.till = mono_add(env_now(api->env), LISTEN_ON);
    exchange->stream = NULL;
    exchange->http = NULL;
    free(stream);
    exchange_release(exchange);
}

void stream_hang_up(struct exchange *exchange)
{
    stream_forget(exchange->stream);
}

static void stream_end(struct stream *stream, struct view last_words)
{
    struct http_request *http = stream->exchange->http;
    if (http_stream_write(http, last_words))
        http_stream_end(http);
    stream_forget(stream);
}

/* False: the stream has ended. */
static bool stream_write(struct stream *stream, struct view text)
{
    stream->written = env_now(stream->exchange->api->env);
    if (http_stream_write(stream->exchange->http, text))
        return true;
    stream_forget(stream);
    return false;
}

/* Sends what the ring has for it, as far as it reads. */
static void stream_send(struct stream *stream)
{
    struct http_request *http = stream->exchange->http;
    struct api *api = stream->exchange->api;
    struct event_ring *ring = api->events.ring;
    struct buffer text = BUFFER_INIT(EVENT_TEXT_MAX + STREAM_AHEAD);
    bool more = true, lives = true;
    while (lives && more && http_stream_unsent(http) < STREAM_AHEAD) {
        buffer_clear(&text);
        while (text.size < STREAM_AHEAD / 2 &&
               (more = event_reader_take(ring, &stream->reader, &text)))
            continue;
        lives = text.size == 0 || stream_write(stream, buffer_view(&text));
    }
    if (lives)
        stream->retry_at = more ? mono_add(env_now(api->env), SLOW_READER_LOOK)
                                : (struct mono_time){ MOMENT_FAR };
    buffer_release(&text);
}

static void send_all(struct api *api)
{
    struct stream *next;
    for (struct stream *stream = api->events.streams; stream; stream = next) {
        next = stream->next;
        stream_send(stream);
    }
}

void streams_send(struct api *api)
{
    uint64_t latest = event_ring_latest(api->events.ring);
    if (latest == api->events.sent)
        return;
    api->events.sent = latest;
    send_all(api);
}

void streams_collect(struct api *api)
{
    struct inbox_event *next;
    for (struct inbox_event *event = event_inbox_take(api->events.inbox); event; event = next) {
        struct buffer lost = BUFFER_INIT(64);
        next = event->next;
        buffer_print(&lost, "{\"count\":%" PRIu64 "}", event->dropped);
        if (event->dropped > 0)
            event_ring_add(api->events.ring, "", STREAM_LOST, buffer_view(&lost));
        event_ring_add(api->events.ring, event->ns, event->kind, event->json);
        buffer_release(&lost);
        free(event);
    }
    streams_send(api);
}

static void send_heartbeats(struct api *api, struct mono_time now)
{
    struct stream *next;
    for (struct stream *stream = api->events.streams; stream; stream = next) {
        next = stream->next;
        if (!mono_before(now, mono_add(stream->written, HEARTBEAT)))
            stream_write(stream, VIEW(":\n\n"));
    }
}

/* A namespace in which somebody listens, or did a short while ago; NULL after the last one. */
static struct space *next_listening(const struct api *api, const struct space *space)
{
    struct space *next = api->events.listening == 0
                             ? NULL
                             : map_seek(&api->spaces, view_of(space ? space->name : ""),
                                        /* beyond */ space != NULL);
    while (next && !next->events.listens)
        next = map_seek(&api->spaces, view_of(next->name), /* beyond */ true);
    return next;
}

void streams_pass_time(struct api *api)
{
    struct mono_time now = env_now(api->env);
    streams_collect(api);
    send_all(api); /* those that were slow, too */
    send_heartbeats(api, now);
    for (struct space *space = next_listening(api, NULL); space;
         space = next_listening(api, space))
        if (space->events.streams == 0 && !mono_before(now, space->events.till))
            stop_listening(space); /* nobody has listened for a minute */
}

struct mono_time streams_wake_at(const struct api *api)
{
    struct mono_time at = { MOMENT_FAR };
    for (const struct stream *stream = api->events.streams; stream; stream = stream->next) {
        struct mono_time heartbeat = mono_add(stream->written, HEARTBEAT);
        at = mono_earlier(at, mono_earlier(heartbeat, stream->retry_at));
    }
    for (const struct space *space = next_listening(api, NULL); space;
         space = next_listening(api, space))
        if (space->events.streams == 0)
            at = mono_earlier(at, space->events.till);
    return at;
}

void streams_end(struct api *api, struct view last_words)
{
    streams_collect(api);
    while (api->events.streams)
        stream_end(api->events.streams, last_words);
}

/* ---- The route ----------------------------------------------------------------------- */

static enum hf_status verify_events(struct exchange *exchange, struct hf_error *error)
{
    uint64_t kinds;
    const char *list = exchange->ask.kinds;
    return stream_kinds_read(view_of(list ? list : ""), &kinds, error);
}

/* NULL: the client has been told why. */
static struct stream *stream_new(struct exchange *exchange)
{
    struct api *api = exchange->api;
    struct stream *stream = NULL;
    if (api->stopping)
        exchange_refuse_http(exchange, 503, "stopping", "the server is stopping");
    else if (api->events.count >= STREAMS_MAX)
        exchange_refuse_http(exchange, 503, "unavailable", "too many clients read events");
    else if (!(stream = calloc(1, sizeof *stream)))
        exchange_refuse_http(exchange, 503, "unavailable", "out of memory");
    return stream;
}

static void begin_events(struct exchange *exchange)
{
    struct api *api = exchange->api;
    struct space *space = exchange->space;
    const char *list = exchange->ask.kinds;
    struct hf_error ignored;
    struct view last_id = VIEW("");
    struct buffer text = BUFFER_INIT(EVENT_TEXT_MAX);
    if (http_request_verb(exchange->http) == HTTP_VERB_HEAD) {
        exchange_reply(exchange, 200, "text/event-stream", NULL, 0, VIEW(""));
        return;
    }
    struct stream *stream = stream_new(exchange);
    if (!stream)
        return;
    start_listening(space);
    stream->exchange = exchange;
    stream->reader.ns = space->name;
    stream_kinds_read(view_of(list ? list : ""), &stream->reader.kinds, &ignored);
    http_request_header(exchange->http, VIEW("Last-Event-ID"), &last_id);
    event_reader_join(api->events.ring, &stream->reader, last_id, space->events.since);
    stream->next = api->events.streams;
    api->events.streams = exchange->stream = stream;
    api->events.count++;
    exchange_record(exchange, 200);
    http_stream_begin(exchange->http, "text/event-stream");
    event_reader_open(api->events.ring, &stream->reader, &text);
    if (stream_write(stream, buffer_view(&text)))
        stream_send(stream);
    buffer_release(&text);
}

const struct route event_routes[] = {
    { HTTP_VERB_GET, "/v1/events", RIGHT_READ, .has_space = true, .reads_body = false,
      verify_events, begin_events, NULL },
    { 0 },
};
