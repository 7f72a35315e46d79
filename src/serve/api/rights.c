/* SPDX-License-Identifier: Apache-2.0 */
/* rights.c: whether a client may do what its request asks for, and how often. It guards against a
 * right in one namespace that reaches into another one, or into what belongs to the whole store. */
#include "serve/api/exchange.h"

/* A client has its own rate, by its token, or else by its address. */
static bool passes_rate(struct exchange *exchange)
{
    struct api *api = exchange->api;
    enum rate_kind kind = exchange->route->by_holders ? RATE_HOLDERS : RATE_OTHERS;
    struct view client =
        exchange->who ? view_of(exchange->who) : http_request_client(exchange->http);
    if (!api->rates || exchange->route->right == 0 || exchange->counted)
        return true;
    struct span wait = rate_take(api->rates, client, kind, env_now(api->env));
    if (wait.us > 0)
        exchange_refuse_rate(exchange, wait);
    return wait.us == 0;
}

static unsigned needed_right(const struct exchange *exchange)
{
    const struct route *route = exchange->route;
    return exchange->ask.txn_id ? route->right | route->txn_right : route->right;
}

/* Where the client needs it; NULL: in any namespace. */
static const char *guarded_namespace(const struct exchange *exchange)
{
    if (exchange->route->whole_store || ask_names_store_lock(&exchange->ask))
        return ALL_NAMESPACES;
    return exchange->route->has_space ? exchange->ask.ns : NULL;
}

enum guard_verdict exchange_verdict(const struct exchange *exchange, const char **ret_name)
{
    return guard_check(exchange->api->guard, exchange->http, needed_right(exchange),
                       guarded_namespace(exchange), ret_name);
}

static const char *no_right(const struct exchange *exchange)
{
    const char *ns = guarded_namespace(exchange);
    return ns && strcmp(ns, ALL_NAMESPACES) == 0
               ? "this belongs to the whole store: the token needs the right in all namespaces"
               : "this token does not have the right to do that in this namespace";
}

bool exchange_obey(struct exchange *exchange, enum guard_verdict verdict)
{
    exchange->denied = verdict != GUARD_PASSES;
    switch (verdict) {
    case GUARD_PASSES: return true;
    case GUARD_WRONG_HOST:
        exchange_refuse_http(exchange, 403, "wrong_host",
                             "the Host or Origin header does not name this server; start it "
                             "with --host NAME to allow a name");
        return false;
    case GUARD_NO_TOKEN:
        exchange_refuse_http(exchange, 401, "unauthorized",
                             "send a token of this server: Authorization: Bearer TOKEN");
        return false;
    case GUARD_NO_RIGHT:
    default: exchange_refuse_http(exchange, 403, "forbidden", no_right(exchange)); return false;
    }
}

bool exchange_is_allowed(struct exchange *exchange)
{
    const char *name;
    enum guard_verdict verdict = exchange_verdict(exchange, &name);
    if (name)
        exchange->who = arena_copy(&exchange->ask.arena, view_of(name)).data;
    /* Also for those that may not: nobody can try many tokens. */
    return passes_rate(exchange) && exchange_obey(exchange, verdict);
}

bool exchange_has_right(const struct exchange *exchange, unsigned right, const char *ns)
{
    const char *name;
    return guard_check(exchange->api->guard, exchange->http, right, ns, &name) == GUARD_PASSES;
}
