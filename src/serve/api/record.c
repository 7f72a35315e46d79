/* SPDX-License-Identifier: Apache-2.0 */
/* record.c: what is recorded of a request when it is answered: its figures, a line in the log,
 * and a line in the audit log. src/serve/log/log.h says what is never written. */
#include "serve/api/exchange.h"

#include <assert.h>
#include <stdio.h>

/* Whether the request took effect, or may have. A work goes on if its client hangs up. */
static bool may_have_happened(const struct exchange *exchange, int status)
{
    if (status == METRICS_HUNG_UP)
        return !exchange->waits && !exchange->route->given_back;
    return (status >= 200 && status < 300) || status == 504;
}

bool exchange_changes(const struct exchange *exchange)
{
    const struct route *route = exchange->route;
    return (route->right & ~(unsigned)RIGHT_READ) != 0 && !route->is_routine;
}

/* Changes, and what may have become one; and whatever a client may not do. */
static bool is_audited(const struct exchange *exchange, int status)
{
    if (!exchange->api->options.audit || !exchange->route)
        return false;
    return exchange->denied ||
           (exchange_changes(exchange) && may_have_happened(exchange, status));
}

static_assert(ASK_TEXT_MAX + sizeof "named:" - 1 <= LOG_TEXT_MAX &&
                  HTTP_ADDRESS_MAX <= LOG_PEER_MAX,
              "the audit log has room for every request");

/* The name of its token, or of its certificate, or its user. */
static const char *client_name(const struct exchange *exchange, const struct http_peer *peer,
                               struct buffer *text)
{
    if (exchange->who)
        return exchange->who;
    if (peer->subject.size > 0)
        buffer_append(text, peer->subject);
    else if (peer->is_unix)
        buffer_print(text, "uid %u", peer->uid);
    const char *name = buffer_text(text);
    return name ? name : "";
}

static void write_log_entry(struct exchange *exchange, int status, struct span took, bool logs,
                            bool audits)
{
    struct api *api = exchange->api;
    const struct ask *ask = &exchange->ask;
    struct http_peer peer;
    char address[HTTP_ADDRESS_MAX];
    struct buffer name = BUFFER_INIT(LOG_WHO_MAX), scope = BUFFER_INIT(LOG_TEXT_MAX);
    struct view parent;
    http_request_peer(exchange->http, &peer);
    http_request_address(exchange->http, address);
    struct log_entry entry = {
        .at = env_wall(api->env),
        .took = took,
        .method = http_verb_name(http_request_verb(exchange->http)),
        .route = metrics_route_name(api->options.metrics, exchange->number),
        .status = status,
        .word = exchange->word,
        .ns = exchange->space ? exchange->space->name : NULL,
        .who = client_name(exchange, &peer, &name),
        .peer = address,
        .owner = ask->owner,
        .reason = ask->reason,
        .token = exchange->token ? exchange->token : ask->token,
    };
    if (http_request_header(exchange->http, VIEW("traceparent"), &parent) == 1)
        trace_context_read(parent, &entry.trace);
    if (logs)
        serve_log_request(api->options.log, &entry);
    if (audits) {
        if (exchange_scope(exchange))
            buffer_print(&scope, "%s%s", ask->scope ? "" : "named:", exchange_scope(exchange));
        entry.scope = buffer_text(&scope);
        entry.ns = exchange->route->has_space ? ask->ns : NULL;
        audit_write(api->options.audit, &entry);
    }
    buffer_release(&name);
    buffer_release(&scope);
}

void exchange_record(struct exchange *exchange, int status)
{
    struct api *api = exchange->api;
    struct span took = mono_since(env_now(api->env), exchange->arrived);
    bool logs = serve_log_wants(api->options.log, status);
    bool audits = is_audited(exchange, status);
    metrics_request(api->options.metrics, exchange->number, status, took);
    if (exchange->reported)
        report_wait_ended(exchange, status);
    if (logs || audits)
        write_log_entry(exchange, status, took, logs, audits);
}
