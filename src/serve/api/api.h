/* SPDX-License-Identifier: Apache-2.0 */
/* api.h: API v1: routes between HTTP (src/serve/http) and the core (src/serve/core).
 *
 * A request becomes an exchange. Its route reads what the client asks for, opens the namespace
 * if necessary, and gives the core an acquire or a piece of work; the result becomes the reply.
 * Nothing here blocks: calls of the library are made by workers (src/serve/calls). All
 * functions run on the loop, except those of an order that is under way. */
#ifndef SERVE_API_API_H
#define SERVE_API_API_H

#include "env/env.h"
#include "holdfast.h"
#include "serve/calls/lease_id.h"
#include "serve/calls/pool.h"
#include "serve/core/core.h"
#include "serve/guard/guard.h"
#include "serve/guard/rate.h"
#include "serve/http/server.h"
#include "serve/log/log.h"
#include "serve/metrics/metrics.h"

struct api;

struct api_options {
    struct env *env;
    struct hf_store *store;  /* the caller's; all namespaces share it, and so its writes */
    struct guard *guard;     /* the caller's; may be replaced by api_set_guard */
    struct span wait_max;    /* the longest wait of an acquire */
    struct lease_ids *ids;   /* the caller's */
    struct metrics *metrics; /* the caller's; api_new names its routes */
    struct serve_log *log;   /* the caller's */
    struct audit *audit;     /* the caller's; NULL: no audit log */
    struct rate_limit rate;  /* of each client; 0: no limit */
    unsigned workers;
    /* A worker has ended: call api_collect on the loop soon. Any thread. */
    void (*notify)(void *argument);
    /* The figures of the HTTP server, on the loop. */
    struct http_figures (*figures)(void *argument);
    void *argument;
};

enum hf_status api_new(const struct api_options *options, struct api **ret_api,
                       struct hf_error *error);

/* Closes the clients and frees everything. The HTTP server must have been stopped, and api_is_idle
 * must be true. Does nothing if `api` is NULL. */
void api_free(struct api *api);

/* The handler of the HTTP server; its argument is the api. */
bool api_admit(void *api, struct http_request *request, size_t *ret_body_max);
void api_request(void *api, struct http_request *request);
void api_hang_up(void *api, struct http_request *request);

/* The body of a refusal that the HTTP server itself makes. */
size_t api_error_body(int status, const char *why, char *text, size_t size);

/* After `notify`, and at api_wake_at. */
void api_collect(struct api *api);
void api_pass_time(struct api *api);
struct mono_time api_wake_at(const struct api *api);

/* Before the loop waits for the next event. */
void api_flush(struct api *api);

/* calls_gather_until. */
struct mono_time api_gather_until(const struct api *api);

/* Before that, for a thread that can block: a job that it should run; NULL: there is none. Then
 * api_end_job, in any thread, and api_collect. */
struct pool_job *api_take_job(struct api *api);
void api_end_job(struct api *api, struct pool_job *job);

/* Grants nothing more, and ends all waits. */
void api_stop(struct api *api);
bool api_is_idle(const struct api *api);

/* Requests that wait are checked again, by the new one. */
void api_set_guard(struct api *api, struct guard *guard);

#endif
