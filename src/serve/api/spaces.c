/* SPDX-License-Identifier: Apache-2.0 */
/* spaces.c: the namespaces in use. Each has a client of the library, which a worker opens when the
 * first request for it arrives, and closes when nobody uses it and another namespace needs its
 * place. Leases, places in queues and everything else that must outlive that are in the store. */
#include "serve/api/exchange.h"

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

/* The core knows a space that is being opened by this number (api.c). */
static uint64_t space_number(const struct space *space)
{
    return (uint64_t)(uintptr_t)space + 1;
}

/* ---- Opening ------------------------------------------------------------------------- */

struct opening {
    struct call_order order; /* must be the first member */
    struct space *space;
};

static void make_opening(struct call_order *order, enum core_call what, int64_t poll_ms,
                         struct core_result *result)
{
    struct space *space = ((struct opening *)(void *)order)->space;
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct hf_error error;
    (void)poll_ms;
    check(what == CORE_CALL_WORK);
    options.ns = space->name;
    options.event = space_event;
    options.event_argument = space;
    enum hf_status status =
        hf_client_open_on(space->api->options.store, &options, &space->opened, &error);
    /* Events cost time: none until somebody listens. */
    if (status == HF_OK)
        status = hf_client_choose_events(space->opened, 0, &error);
    call_result_set(result, status, &error);
}

static void free_opening(struct call_order *order)
{
    free((struct opening *)(void *)order);
}

static void space_free(struct space *space)
{
    check(LIST_EMPTY(&space->exchanges));
    keep_client_figures(space->api, space->client);
    hf_client_close(space->client);
    free(space);
}

static void forget_space(struct space *space)
{
    map_take(&space->api->spaces, view_of(space->name));
    space_free(space);
}

/* Lets the requests that wait for the namespace begin, in the order in which they arrived. */
void end_opening(struct space *space, const struct core_result *result)
{
    struct exchange *waiting = NULL;
    space->client = space->opened;
    while (space->waiting) {
        struct exchange *exchange = space->waiting;
        space->waiting = exchange->next;
        exchange->next = waiting;
        exchange->waits = false;
        waiting = exchange;
    }
    bool is_open = result->status == HF_OK;
    if (!is_open) /* a request that arrives meanwhile opens it anew */
        map_take(&space->api->spaces, view_of(space->name));
    while (waiting) {
        struct exchange *exchange = waiting;
        waiting = exchange->next;
        if (is_open)
            exchange->route->begin(exchange);
        else
            exchange_refuse(exchange, result);
    }
    if (!is_open)
        space_free(space);
}

static enum hf_status begin_opening(struct space *space, struct hf_error *error)
{
    struct api *api = space->api;
    struct opening *opening = calloc(1, sizeof *opening);
    if (!opening)
        return error_no_memory(error);
    call_order_init(&opening->order, make_opening, free_opening);
    opening->space = space;
    struct core_work work = { .order = opening };
    enum hf_status status =
        core_work(api->core, space_number(space), &work, env_now(api->env), error);
    if (status != HF_OK)
        free(opening);
    return status;
}

/* ---- Closing ------------------------------------------------------------------------- */

/* Closing a client may wait for the store. */
struct closing {
    struct call_order order; /* must be the first member */
    struct space *space;
};

static void make_closing(struct call_order *order, enum core_call what, int64_t poll_ms,
                         struct core_result *result)
{
    struct space *space = ((struct closing *)(void *)order)->space;
    (void)poll_ms;
    check(what == CORE_CALL_WORK);
    hf_client_close(space->client);
    space->client = NULL;
    call_result_set(result, HF_OK, NULL);
}

static void free_closing(struct call_order *order)
{
    struct closing *closing = (struct closing *)(void *)order;
    hf_client_close(closing->space->client); /* NULL, unless the work was never made */
    free(closing->space);
    free(closing);
}

/* Closes a namespace that no exchange uses, whose leases are in the store. */
static enum hf_status close_space(struct space *space, struct hf_error *error)
{
    struct api *api = space->api;
    struct closing *closing = calloc(1, sizeof *closing);
    if (!closing)
        return error_no_memory(error);
    call_order_init(&closing->order, make_closing, free_closing);
    closing->space = space;
    struct core_work work = { .order = closing };
    struct mono_time now = env_now(api->env);
    enum hf_status status = core_work(api->core, space_number(space), &work, now, error);
    if (status != HF_OK) {
        free(closing);
        return status;
    }
    core_hang_up(api->core, space_number(space), now); /* nobody waits for it */
    stop_listening(space);
    keep_client_figures(api, space->client);
    map_take(&api->spaces, view_of(space->name));
    return HF_OK;
}

/* The one that has not been used for the longest time. A stream, a waiter and an order each have
 * their exchange. */
static enum hf_status make_room_for_space(struct api *api, struct hf_error *error)
{
    struct space *idle = NULL, *space = map_seek(&api->spaces, VIEW(""), /* beyond */ false);
    for (; space; space = map_seek(&api->spaces, view_of(space->name), /* beyond */ true))
        if (space->client && LIST_EMPTY(&space->exchanges) &&
            (!idle || mono_before(space->used, idle->used)))
            idle = space;
    if (!idle)
        return error_set(error, HF_UNAVAILABLE,
                         "this server already uses %d namespaces, which is its limit",
                         API_SPACES_MAX);
    return close_space(idle, error);
}

void close_all_spaces(struct api *api)
{
    struct space *space;
    while ((space = map_seek(&api->spaces, VIEW(""), /* beyond */ false)))
        forget_space(space);
    map_release(&api->spaces);
}

/* ---- Use ----------------------------------------------------------------------------- */

/* A namespace in which somebody has a lease may be closed, because nobody uses it. So keepalives
 * and releases open theirs beyond the limit, also while waits and streams have all others. */
static bool make_room_for_new(struct api *api, bool by_holders, struct hf_error *error)
{
    while (api->spaces.count >= API_SPACES_MAX)
        if (make_room_for_space(api, error) != HF_OK)
            return by_holders && api->spaces.count < API_SPACES_MAX + API_SPACES_OF_HOLDERS;
    return true;
}

/* NULL: the error says why. */
static struct space *space_new(struct api *api, const char *name, bool by_holders,
                               struct hf_error *error)
{
    void *old;
    struct space *space;
    if (strlen(name) > HF_NAME_MAX) {
        error_set(error, HF_INVALID, "a namespace has at most %d bytes", HF_NAME_MAX);
        return NULL;
    }
    if (!make_room_for_new(api, by_holders, error))
        return NULL;
    if (!(space = calloc(1, sizeof *space))) {
        error_no_memory(error);
        return NULL;
    }
    space->api = api;
    LIST_INIT(&space->exchanges);
    snprintf(space->name, sizeof space->name, "%s", name);
    if (!map_put(&api->spaces, view_of(space->name), space, &old)) {
        free(space);
        error_no_memory(error);
        return NULL;
    }
    if (begin_opening(space, error) != HF_OK) {
        forget_space(space);
        return NULL;
    }
    return space;
}

void enter_space(struct exchange *exchange)
{
    struct api *api = exchange->api;
    struct hf_error error;
    /* Any client will do, and a request that needs no right must not choose which ones are open. */
    bool any = exchange->route->whole_store || exchange->route->is_shared;
    if (any)
        exchange->ask.ns = "default";
    struct space *space = map_get(&api->spaces, view_of(exchange->ask.ns));
    if (!space)
        space = space_new(api, exchange->ask.ns, any || exchange->route->by_holders, &error);
    if (!space) {
        exchange_refuse_for(exchange, &error);
        return;
    }
    exchange->space = space;
    space->used = exchange->arrived;
    LIST_INSERT_HEAD(&space->exchanges, exchange, in_space);
    if (space->client) {
        exchange->route->begin(exchange);
        return;
    }
    exchange->next = space->waiting;
    exchange->waits = true;
    space->waiting = exchange;
}

void leave_space(struct exchange *exchange)
{
    struct exchange **at = &exchange->space->waiting;
    while (*at != exchange) {
        check(*at);
        at = &(*at)->next;
    }
    *at = exchange->next;
    exchange->waits = false;
}
