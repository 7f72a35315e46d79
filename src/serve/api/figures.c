/* SPDX-License-Identifier: Apache-2.0 */
/* figures.c: the routes /metrics and /v1/figures, which show the same figures.
 *
 * A scrape must work while the store does not: it makes no call of the library that could block.
 * The store's clock is therefore read beside it, for the next scrape. */
#include "serve/api/exchange.h"

#define PAGE_BYTES_MAX (4 * 1024 * 1024)
#define CLOCK_READ_MIN SPAN_S(60) /* on a network store, a reading takes three requests */

/* ---- Clients ------------------------------------------------------------------------- */

static void add_stats(struct hf_stats *sum, const struct hf_stats *more)
{
    sum->conflicts += more->conflicts;
    sum->granted += more->granted;
    sum->renewed += more->renewed;
    sum->lost += more->lost;
    sum->released += more->released;
    sum->taken_over += more->taken_over;
    sum->swept += more->swept;
    sum->committed += more->committed;
    sum->rolled_back += more->rolled_back;
    sum->events_dropped += more->events_dropped;
}

static void add_client_figures(struct hf_stats *sum, struct hf_client *client)
{
    struct hf_stats stats = HF_STATS;
    if (client && hf_client_stats(client, &stats, NULL) == HF_OK)
        add_stats(sum, &stats);
}

void keep_client_figures(struct api *api, struct hf_client *client)
{
    add_client_figures(&api->figures.closed, client);
}

/* ---- The page ------------------------------------------------------------------------ */

static struct metrics_now figures_now(struct api *api)
{
    struct metrics_now now = { .core = core_count(api->core),
                               .http = api->options.figures(api->options.argument),
                               .stats = api->figures.closed,
                               .namespaces = api->spaces.count,
                               .losses = api->figures.losses,
                               .streams = api->events.count };
    if (api->options.audit)
        now.audit_failures = audit_failures(api->options.audit);
    const struct space *space = map_seek(&api->spaces, VIEW(""), /* beyond */ false);
    while (space) {
        add_client_figures(&now.stats, space->client);
        space = map_seek(&api->spaces, view_of(space->name), /* beyond */ true);
    }
    return now;
}

static enum hf_status read_store_clock(struct exchange *exchange, struct hf_error *error)
{
    struct hf_store_clock_report report = HF_STORE_CLOCK_REPORT;
    enum hf_status status = hf_store_clock(exchange->api->options.store, &report, error);
    if (status == HF_OK)
        metrics_set_clock(exchange->api->options.metrics, &report);
    return status;
}

/* The clock is read after the reply, and at most once a minute. */
static void refresh_clock(struct exchange *exchange)
{
    struct api *api = exchange->api;
    struct mono_time due = mono_add(api->figures.clock_read, CLOCK_READ_MIN);
    if (api->figures.clock_read.us != 0 && !mono_before(due, env_now(api->env)))
        return;
    api->figures.clock_read = env_now(api->env);
    exchange_work_unanswered(exchange, read_store_clock);
}

static void begin_metrics(struct exchange *exchange)
{
    struct api *api = exchange->api;
    struct metrics_now now = figures_now(api);
    struct buffer page = BUFFER_INIT(PAGE_BYTES_MAX);
    struct view accept;
    bool open = http_request_header(exchange->http, VIEW("Accept"), &accept) > 0 &&
                metrics_wants_open(accept);
    refresh_clock(exchange);
    metrics_write(api->options.metrics, &now, open, &page);
    if (page.failed)
        exchange_refuse_http(exchange, 503, "unavailable", "out of memory");
    else
        exchange_reply(exchange, 200, open ? METRICS_OPEN_TYPE : METRICS_TYPE, NULL, 0,
                       buffer_view(&page));
    buffer_release(&page);
}

static void begin_figures(struct exchange *exchange)
{
    struct metrics_now now = figures_now(exchange->api);
    struct buffer json = BUFFER_INIT(PAGE_BYTES_MAX);
    refresh_clock(exchange);
    metrics_write_json(exchange->api->options.metrics, &now, &json);
    exchange_reply_json(exchange, 200, &json);
}

const struct route figure_routes[] = {
    { HTTP_VERB_GET, "/metrics", RIGHT_READ, .has_space = false, .reads_body = false, NULL,
      begin_metrics, NULL },
    { HTTP_VERB_GET, "/v1/figures", RIGHT_READ, .has_space = false, .reads_body = false, NULL,
      begin_figures, NULL },
    { 0 },
};
