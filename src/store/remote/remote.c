/* SPDX-License-Identifier: Apache-2.0 */
/* remote.c: what the stores on the network share when they are opened and closed, and the form of
 * keys and ETags in requests. */
#include "store/remote/remote.h"

#include "base/parse.h"
#include "base/utf8.h"
#include "store/remote/secret.h"

#include <stdio.h>
#include <stdlib.h>

#define CONNECTIONS_DEFAULT 32
#define CONNECT_TIME_OUT    SPAN_S(10)

/* ---- Keys and ETags ------------------------------------------------------------------ */

enum hf_status remote_key(struct remote_store *remote, struct view key,
                          char space[REMOTE_KEY_SPACE], struct view *ret_key,
                          struct hf_error *error)
{
    if (remote->dialect->check_key && remote->dialect->check_key(key, error) != HF_OK)
        return error->status;
    return remote_key_prefix(remote, key, space, ret_key, error);
}

enum hf_status remote_key_prefix(struct remote_store *remote, struct view key,
                                 char space[REMOTE_KEY_SPACE], struct view *ret_key,
                                 struct hf_error *error)
{
    if (!utf8_is_text(key))
        return error_set(error, HF_INVALID,
                         "%s accepts only keys that are UTF-8 text without NUL",
                         remote->dialect->service);
    if (remote->prefix_size + key.size > KEY_BYTES_MAX)
        return error_set(error, HF_INVALID,
                         "the prefix and the key together have more than %d bytes",
                         KEY_BYTES_MAX);
    memcpy(space, remote->prefix, remote->prefix_size);
    if (key.size > 0)
        memcpy(space + remote->prefix_size, key.data, key.size);
    *ret_key = (struct view){ space, remote->prefix_size + key.size };
    return HF_OK;
}

bool remote_can_send_etag(const struct etag *etag)
{
    struct view text = etag_view(etag);
    bool is_list = view_find(text, ',') < text.size && view_find(text, '"') < text.size;
    if (view_equal(text, VIEW("*")) || is_list)
        return false;
    return !memchr(etag->data, '\n', etag->size) && !memchr(etag->data, '\r', etag->size) &&
           !memchr(etag->data, '\0', etag->size);
}

struct view remote_quoted(const struct etag *etag, char space[REMOTE_ETAG_SPACE])
{
    struct view text = etag_view(etag);
    if (view_find(text, '"') < text.size)
        return text;
    space[0] = '"';
    memcpy(space + 1, text.data, text.size);
    space[text.size + 1] = '"';
    return (struct view){ space, text.size + 2 };
}

/* ---- The URL ------------------------------------------------------------------------- */

bool consists_of(struct view text, const char *set, size_t min, size_t max)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] == '\0' || !strchr(set, text.data[i]))
            return false;
    return text.size >= min && text.size <= max;
}

const char *remote_variable(const char *name, const char *other)
{
    const char *value = getenv(name);
    if (value && value[0])
        return value;
    return other ? remote_variable(other, NULL) : NULL;
}

enum hf_status remote_set_prefix(struct remote_store *remote, struct view prefix,
                                 struct hf_error *error)
{
    bool open_ended = prefix.size > 0 && prefix.data[prefix.size - 1] != '/';
    if (prefix.size + open_ended >= KEY_BYTES_MAX || !utf8_is_text(prefix))
        return error_set(error, HF_INVALID, "the prefix is too long or not UTF-8 text");
    snprintf(remote->prefix, sizeof remote->prefix, "%.*s%s", VIEW_ARGS(prefix),
             open_ended ? "/" : "");
    remote->prefix_size = prefix.size + open_ended;
    return HF_OK;
}

bool host_is_loopback(struct view host)
{
    static const char *const names[] = { "localhost", "[::1]" };
    for (size_t i = 0; i < 2; i++) {
        struct view name = view_of(names[i]);
        if (view_starts_with(host, name) &&
            (host.size == name.size || host.data[name.size] == ':'))
            return true;
    }
    struct view number = view_first(host, view_find(host, ':'));
    return view_starts_with(number, VIEW("127.")) &&
           consists_of(number, "0123456789.", 4, number.size);
}

static void strip_end(struct view *text, struct view end)
{
    if (view_ends_with(*text, end))
        text->size -= end.size;
}

enum hf_status remote_set_endpoint(struct remote_store *remote, struct view endpoint,
                                   const char *before, const char *example,
                                   struct view *ret_path, struct hf_error *error)
{
    remote->tls = view_starts_with(endpoint, VIEW("https://"));
    bool good = remote->tls || view_starts_with(endpoint, VIEW("http://"));
    struct view host = view_from(endpoint, remote->tls ? 8 : 7);
    if (view_find(host, '@') < host.size) /* do not print what may be a password */
        return error_set(error, HF_INVALID,
                         "an endpoint must not contain a user name; credentials come from the "
                         "environment or a profile");
    strip_end(&host, VIEW("/"));
    *ret_path = view_from(host, view_find(host, '/'));
    host.size -= ret_path->size;
    strip_end(&host, remote->tls ? VIEW(":443") : VIEW(":80"));
    size_t taken = strlen(before) + 1;
    good = good && consists_of(host, REMOTE_NAME_BYTES ":[]", 1, REMOTE_HOST_MAX - taken);
    if (!good)
        return error_set(error, HF_INVALID, "'%.*s' is not an endpoint: use %s",
                         VIEW_ARGS(view_first(endpoint, 60)), example);
    remote->exposed = !remote->tls && !host_is_loopback(host);
    snprintf(remote->host, sizeof remote->host, "%s%s%.*s", before, before[0] ? "." : "",
             VIEW_ARGS(host));
    snprintf(remote->origin, sizeof remote->origin, "%s://%s", remote->tls ? "https" : "http",
             remote->host);
    return HF_OK;
}

enum hf_status remote_set_limits(struct remote_store *remote, const struct url *url,
                                 struct hf_error *error)
{
    struct view connections = url_parameter(url, "connections");
    struct view time_out = url_parameter(url, "timeout");
    uint64_t count = CONNECTIONS_DEFAULT;
    remote->time_out = SPAN_MS(STORE_TIMEOUT_MS);
    if (connections.data &&
        (parse_u64(connections, HTTP_CONNECTIONS_MAX, &count, error) != HF_OK || count == 0))
        return error_set(error, HF_INVALID, "connections= must be a number from 1 to %d",
                         HTTP_CONNECTIONS_MAX);
    if (time_out.data && (parse_span(time_out, &remote->time_out, error) != HF_OK ||
                          remote->time_out.us < 1000 || remote->time_out.us > SPAN_S(3600).us))
        return error_set(error, HF_INVALID,
                         "timeout= must be a duration from 1ms to 1h, such as 30s");
    remote->connections = (size_t)count;
    return HF_OK;
}

const char *remote_ca_file(const struct url *url, const char *variable,
                           char space[URL_BYTES_MAX + 1])
{
    static const char common[] = "SSL_CERT_FILE";
    struct view ca = url_parameter(url, "ca");
    if (!ca.data)
        return variable ? remote_variable(variable, common) : remote_variable(common, NULL);
    snprintf(space, URL_BYTES_MAX + 1, "%.*s", VIEW_ARGS(ca));
    return space[0] ? space : NULL;
}

/* ---- Opening and closing ------------------------------------------------------------- */

enum hf_status remote_init(struct remote_store *remote, const char *ca_file,
                           struct hf_error *error)
{
    struct env *env = remote->base.env;
    struct http_options options = {
        .connections = remote->connections,
        .connect_time_out = span_smaller(remote->time_out, CONNECT_TIME_OUT),
        .ca_file = ca_file,
        .version_header = remote->dialect->version_header,
    };
    if (http_pool_open(env, &options, &remote->pool, error) != HF_OK)
        return error->status;
    env_mutex_init(env, &remote->shared.mutex);
    worker_pool_init(&remote->workers, env, remote->connections - 1);
    return HF_OK;
}

void remote_release(struct remote_store *remote)
{
    worker_pool_release(&remote->workers);
    http_pool_close(remote->pool);
    secret_free(remote->shared.spare_secret, remote->dialect->credentials_size);
    env_mutex_release(&remote->shared.mutex);
}

void *remote_take_secret(struct remote_store *remote)
{
    env_mutex_lock(&remote->shared.mutex);
    void *secret = remote->shared.spare_secret;
    remote->shared.spare_secret = NULL;
    env_mutex_unlock(&remote->shared.mutex);
    return secret ? secret : secret_new(remote->dialect->credentials_size);
}

void remote_give_secret(struct remote_store *remote, void *secret)
{
    explicit_bzero(secret, remote->dialect->credentials_size);
    env_mutex_lock(&remote->shared.mutex);
    bool keep = !remote->shared.spare_secret;
    if (keep)
        remote->shared.spare_secret = secret;
    env_mutex_unlock(&remote->shared.mutex);
    if (!keep)
        secret_free(secret, remote->dialect->credentials_size);
}

const char *remote_exposed_to(const struct store *store)
{
    const struct remote_store *remote = (const struct remote_store *)store;
    return store->ops->get == remote_get && remote->exposed ? remote->origin : NULL;
}
