/* SPDX-License-Identifier: Apache-2.0 */
/* lease.c: acquires, renews, releases and breaks leases at a server. It guards against a lease
 * that this process believes in longer than the server does: validity is counted from the moment
 * at which the request was sent, never from the reply. */
#include "client/client.h"
#include "client/wire.h"

#include "base/check.h"

#include <stdio.h>

#define JSON_MAX (128 * KIB) /* with 64 scopes */

/* The longest wait that one request asks for; longer waits send another one. */
#define BLOCK_MAX SPAN_S(3600)

/* How long the reply may take after the wait is over. */
#define REPLY_TIME SPAN_S(5)

/* The time limit of the requests that withdraw a wait which the caller has cancelled. */
#define UNDO_TIME SPAN_S(4)

/* ---- Results --------------------------------------------------------------------------------- */

static bool is_lease_id(const char *id)
{
    for (size_t i = 0; i < WIRE_LEASE_ID_SIZE; i++)
        if (!((id[i] >= '0' && id[i] <= '9') || (id[i] >= 'a' && id[i] <= 'f')))
            return false;
    return id[WIRE_LEASE_ID_SIZE] == '\0';
}

/* How long the lease can be used: the server's count of what is left, from the moment at which the
 * request was sent plus the time that it waited there, less the drift of our clock. The wait is at
 * most the time that the request took, whatever the server says. */
static void set_validity(struct request *request, const struct wire_answer *answer,
                         struct span ttl)
{
    struct span waited = SPAN_MS(answer->waited_ms), took;
    struct span left = span_smaller(SPAN_MS(answer->remaining_ms), ttl);
    took = mono_since(answer->received, answer->sent);
    waited = span_smaller(waited, took);
    uint32_t drift_ppm = request->ref->space->settings.drift_ppm;
    request->ttl = ttl;
    request->served.t0 = mono_add(answer->sent, waited);
    request->served.until =
        mono_add(request->served.t0, SPAN_US(left.us - span_drift(left, drift_ppm).us));
    request->table.outcome = TABLE_GRANTED;
    request->table.granted = answer->token;
}

static bool is_span_ms(int64_t ms)
{
    return ms >= 0 && ms <= HF_TTL_MS_MAX;
}

/* Whether a reply can be the grant or renewal of a lease. */
static enum hf_status check_lease(struct wire_answer *answer)
{
    bool good = answer->token > 0 && is_span_ms(answer->remaining_ms) &&
                is_span_ms(answer->ttl_ms) && answer->waited_ms >= 0 &&
                answer->waited_ms < INT64_MAX / 1000;
    if (good)
        return HF_OK;
    return error_set(&answer->error, HF_UNSURE,
                     "the server sent a reply that is not valid: it is not a lease");
}

/* ---- Acquire --------------------------------------------------------------------------------- */

static void wire_scopes(struct buffer *json, const struct request *request)
{
    const struct lease_wish *wish = &request->table.wanted->wish;
    char text[SCOPE_TEXT_MAX + 1];
    wire_text(json, "namespace", view_of(client_ns(request->ref->client)));
    wire_json(json, "scopes", VIEW("["));
    for (size_t i = 0; i < wish->scope_count; i++) {
        if (i > 0)
            buffer_append_byte(json, ',');
        json_write_string(json, view_of(scope_text(&wish->scopes[i], text)));
    }
    buffer_append_byte(json, ']');
}

/* `block`: how long the server is to wait; 0: not at all. */
static void write_acquire(struct buffer *json, const struct request *request, struct span block)
{
    static const char *const modes[] = {
        [LEASE_EXCLUSIVE] = "exclusive", [LEASE_SHARED] = "shared", [LEASE_SLOTS] = "slots"
    };
    const struct lease_request *wanted = request->table.wanted;
    int64_t block_ms = block.us / 1000;
    wire_begin(json);
    if (wanted->wish.scope_count > 1)
        wire_scopes(json, request);
    else
        wire_resource(json, request->ref);
    wire_text(json, "owner", wanted->holder);
    wire_text(json, "request_id", wanted->id);
    wire_number(json, "ttl_ms", wanted->wish.ttl.us / 1000);
    wire_number(json, "block_seconds", block_ms > 0 ? (block_ms + 999) / 1000 : -1);
    if (block_ms > 0)
        wire_number(json, "block_ms", block_ms);
    if (wanted->wish.mode != LEASE_EXCLUSIVE)
        wire_text(json, "mode", view_of(modes[wanted->wish.mode]));
    if (wanted->wish.mode == LEASE_SLOTS)
        wire_number(json, "slots", (int64_t)wanted->wish.slots);
    if (wanted->note.size > 0)
        wire_json(json, "note", wanted->note);
    if (request->table.once_per.us > 0) {
        int64_t slack_ms = request->table.once_slack.us / 1000;
        wire_number(json, "once_per_ms", request->table.once_per.us / 1000);
        wire_number(json, "once_slack_ms", slack_ms > 0 ? slack_ms : HF_NO_SLACK);
    }
    if (request->hook && request->hook->txn.size > 0)
        wire_text(json, "txn_id", request->hook->txn);
    wire_end(json);
}

static enum hf_status take_grant(struct request *request, struct wire_answer *answer)
{
    struct span asked = request->table.wanted->wish.ttl;
    if (check_lease(answer) != HF_OK)
        return answer->error.status;
    if (!is_lease_id(answer->lease_id))
        return error_set(&answer->error, HF_UNSURE,
                         "the server sent a reply that is not valid: it has no lease id");
    struct span ttl = answer->ttl_ms > 0 ? SPAN_MS(answer->ttl_ms) : asked;
    set_validity(request, answer, span_smaller(ttl, asked));
    memcpy(request->served.id, answer->lease_id, sizeof answer->lease_id);
    struct server_grant grant = { answer->token, answer->version, view_of(answer->etag) };
    if (request->hook && request->hook->granted)
        request->hook->granted(request->hook, &grant);
    return HF_OK;
}

static void acquire_now(struct request *request, struct wire_answer *answer)
{
    struct buffer json = BUFFER_INIT(JSON_MAX);
    write_acquire(&json, request, SPAN_US(0));
    if (wire_ask(request->ref->client, "/v1/acquire", &json, request->op.deadline, answer) ==
        HF_OK)
        take_grant(request, answer);
    buffer_release(&json);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

static void release_granted_lease(struct request *request, const char *lease_id)
{
    struct buffer json = BUFFER_INIT(JSON_MAX);
    struct wire_answer ignored;
    wire_begin(&json);
    wire_resource(&json, request->ref);
    wire_text(&json, "lease_id", view_of(lease_id));
    wire_end(&json);
    wire_ask(request->ref->client, "/v1/release", &json,
             mono_add(client_now(request->ref->client), UNDO_TIME), &ignored);
    buffer_release(&json);
}

/* The same request without a wait ends the wait: its reply comes when the place in the queue is
 * given up. If the wait was granted at that moment, it finds that lease, which is released. */
static void withdraw_wait(struct request *request)
{
    struct buffer json = BUFFER_INIT(JSON_MAX);
    struct wire_answer answer;
    struct hf_client *client = request->ref->client;
    write_acquire(&json, request, SPAN_US(0));
    if (wire_ask(client, "/v1/acquire", &json, mono_add(client_now(client), UNDO_TIME),
                 &answer) == HF_OK &&
        is_lease_id(answer.lease_id))
        release_granted_lease(request, answer.lease_id);
    buffer_release(&json);
}

struct server_wait {
    struct request *request;
    struct hf_client *client;
    bool withdrawn;
};

/* A wait is withdrawn while its connection is still open. If that were closed first, the server
 * might notice it later than the caller looks who waits. */
static bool wait_goes_on(void *argument, uint64_t done, uint64_t total)
{
    struct server_wait *wait = argument;
    (void)done;
    (void)total;
    if (!wait_queue_is_cancelled(wait->request->ref, wait->request->waiter))
        return true;
    if (!wait->withdrawn)
        withdraw_wait(wait->request);
    wait->withdrawn = true;
    return false;
}

/* One request that waits at the server. */
static enum hf_status wait_once(struct server_wait *wait, struct wire_answer *answer)
{
    struct request *request = wait->request;
    struct progress progress = { wait_goes_on, wait };
    struct buffer json = BUFFER_INIT(JSON_MAX);
    struct http_reply reply;
    struct mono_time now = client_now(wait->client);
    struct span left = mono_since(request->op.deadline, now);
    struct span block = span_larger(SPAN_MS(1), span_smaller(left, BLOCK_MAX));
    write_acquire(&json, request, block);
    struct server_call call = { .path = "/v1/acquire",
                                .posts = true,
                                .body = buffer_view(&json),
                                .reply_max = WIRE_REPLY_MAX,
                                .deadline = mono_add(mono_add(now, block), REPLY_TIME),
                                .waits = true,
                                .progress = &progress };
    enum hf_status status = json.failed ? error_no_memory(&answer->error) : HF_OK;
    if (status == HF_OK) {
        status = wire_exchange(wait->client, &call, &reply, answer);
        http_reply_release(&reply);
    }
    if (status == HF_OK)
        status = take_grant(request, answer);
    buffer_release(&json);
    return status;
}

/* Repeats the request, with the same id, until it is answered, because a caller that waits for a
 * lock also waits for its server. A request that got no reply may have been granted; the next one
 * then gets that lease. */
static void acquire_waiting(struct request *request, struct wire_answer *answer)
{
    struct table_ref *ref = request->ref;
    struct server_wait wait = { .request = request, .client = ref->client };
    enum wait_queue_news news = QUEUE_NOTHING;
    enum hf_status status = HF_HELD;
    bool late = false;
    while (!late && news != QUEUE_CANCELLED) {
        status = wait_once(&wait, answer);
        bool settled = request_settled(status) && status != HF_HELD;
        bool trouble = !settled && status != HF_HELD;
        wait_queue_note_trouble(ref, trouble ? &answer->error : NULL);
        if (settled)
            return;
        late = !mono_before(client_now(ref->client), request->op.deadline);
        news = wait_queue_is_cancelled(ref, request->waiter) ? QUEUE_CANCELLED : QUEUE_NOTHING;
        if (!late && news != QUEUE_CANCELLED)
            news = wait_queue_pause(ref, request->waiter, request->op.deadline);
    }
    wait_queue_note_trouble(ref, NULL);
    if (news == QUEUE_CANCELLED) {
        if (!wait.withdrawn)
            withdraw_wait(request);
        error_set(&answer->error, HF_CANCELLED, "the wait was cancelled");
    } else if (status == HF_HELD) {
        error_set(&answer->error, HF_TIMEOUT, "still held by other clients");
    }
}

static void acquire_at_server(struct request *request, struct wire_answer *answer)
{
    if (request->table.wait)
        acquire_waiting(request, answer);
    else
        acquire_now(request, answer);
    bool refused = answer->error.status == HF_HELD || answer->error.status == HF_TIMEOUT;
    size_t count = request->table.wanted->wish.scope_count;
    for (size_t i = 0; request->blocked && i < count; i++)
        request->blocked[i] = refused && (count == 1 || (i < 64 && answer->blocked >> i & 1));
}

/* ---- Renew, release, break ------------------------------------------------------------------- */

/* A lease that was not granted by a server has another kind of id. */
static enum hf_status check_id(struct view id, struct wire_answer *answer)
{
    char text[WIRE_LEASE_ID_SIZE + 1] = "";
    if (id.size == WIRE_LEASE_ID_SIZE)
        memcpy(text, id.data, id.size);
    if (is_lease_id(text))
        return HF_OK;
    return error_set(&answer->error, HF_LOST, "the lease was not granted by a server");
}

static void begin_lease_body(struct buffer *json, const struct request *request)
{
    wire_begin(json);
    wire_resource(json, request->ref);
    wire_text(json, "lease_id", request->table.id);
}

static void renew_lease(struct request *request, struct wire_answer *answer)
{
    struct buffer json = BUFFER_INIT(JSON_MAX);
    if (check_id(request->table.id, answer) != HF_OK)
        return;
    begin_lease_body(&json, request);
    wire_end(&json);
    enum hf_status status =
        wire_ask(request->ref->client, "/v1/keepalive", &json, request->op.deadline, answer);
    buffer_release(&json);
    if (status != HF_OK || check_lease(answer) != HF_OK)
        return;
    if (answer->token != request->table.token) {
        error_set(&answer->error, HF_MISMATCH, "the lease has another token");
        return;
    }
    int64_t ttl_ms = answer->ttl_ms > 0 ? answer->ttl_ms : answer->remaining_ms;
    set_validity(request, answer, SPAN_MS(ttl_ms));
}

static void release_lease(struct request *request, struct wire_answer *answer)
{
    struct buffer json = BUFFER_INIT(JSON_MAX);
    struct hf_client *client = request->ref->client;
    char request_id[NONCE_SIZE + 1];
    if (check_id(request->table.id, answer) != HF_OK)
        return;
    env_random_hex(client_env(client), NONCE_SIZE, request_id);
    begin_lease_body(&json, request);
    wire_text(&json, "request_id", view_of(request_id));
    if (request->table.kind == TABLE_COMPLETE || request->table.kind == TABLE_FAIL) {
        bool done = request->table.kind == TABLE_COMPLETE;
        wire_text(&json, "result", done ? VIEW("completed") : VIEW("failed"));
        wire_text(&json, "owner", view_of(client_holder(client)));
        if (request->table.note.size > 0)
            wire_json(&json, "note", request->table.note);
    }
    wire_end(&json);
    wire_ask(client, "/v1/release", &json, request->op.deadline, answer);
    request->table.outcome = TABLE_ENDED;
    buffer_release(&json);
}

/* A refusal says nothing about an earlier attempt that got no reply: the server may have been
 * started again since, and does not know that it has ended the lease. */
static void end_lease(struct request *request, struct wire_answer *answer)
{
    release_lease(request, answer);
    if (answer->doubt && answer->error.status != HF_OK)
        answer->error.status = HF_UNSURE;
}

/* An acquire that got no reply: its connection is closed, and a server gives back what it has
 * granted to a client that has hung up. A lease that was granted, and is not wanted, is released.
 * */
static void cancel_lease(struct request *request, struct wire_answer *answer)
{
    struct wire_answer of_release = *answer;
    if (check_id(request->table.id, &of_release) != HF_OK)
        return;
    release_lease(request, answer);
    if (answer->error.status == HF_LOST)
        error_clear(&answer->error);
}

static void break_lease_at_server(struct request *request, struct wire_answer *answer)
{
    struct buffer json = BUFFER_INIT(JSON_MAX);
    wire_begin(&json);
    wire_resource(&json, request->ref);
    wire_number(&json, "fencing_token", (int64_t)request->table.token);
    wire_text(&json, "reason", request->table.note.size > 0 ? request->table.note : VIEW("-"));
    if (request->table.by.size > 0)
        wire_text(&json, "owner", request->table.by);
    wire_end(&json);
    if (wire_ask(request->ref->client, "/v1/locks/break", &json, request->op.deadline,
                 answer) == HF_NOT_FOUND)
        answer->error.status = HF_LOST;
    buffer_release(&json);
}

/* ---- The seam -------------------------------------------------------------------------------- */

void lease_ask(struct table_ref *ref, struct request *request)
{
    struct wire_answer answer = { .error = { .status = HF_OK } };
    switch (request->table.kind) {
    case TABLE_ACQUIRE: acquire_at_server(request, &answer); break;
    case TABLE_RENEW: renew_lease(request, &answer); break;
    case TABLE_RELEASE:
    case TABLE_COMPLETE:
    case TABLE_FAIL: end_lease(request, &answer); break;
    case TABLE_CANCEL: cancel_lease(request, &answer); break;
    case TABLE_BREAK: break_lease_at_server(request, &answer); break;
    case TABLE_CLAIM:
    case TABLE_SCAVENGE:
    case TABLE_FORGET:
    case TABLE_BARRIER:
    case TABLE_KEEP:
    default: server_refuse(&answer.error); break;
    }
    (void)ref;
    request->op.error = request->table.error = answer.error;
}
