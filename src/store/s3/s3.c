/* SPDX-License-Identifier: Apache-2.0 */
/* s3.c: the `s3:` store: objects in a bucket at AWS, or at any server that speaks the S3 protocol.
 * This file opens it by URL, encodes keys and conditions, and puts documents.
 *
 *     s3://BUCKET/PREFIX?endpoint=URL&region=R&style=path|host&connections=N&timeout=30s&ca=FILE
 *
 * Keys are stored under PREFIX/. Without endpoint= the bucket is at AWS. */
#include "base/check.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "store/backends.h"
#include "store/s3/inside.h"
#include "store/remote/secret.h"

#include <stdio.h>
#include <stdlib.h>

#define CONNECTIONS_DEFAULT 32
#define CONNECT_TIME_OUT    SPAN_S(10)

/* ---- Keys ---------------------------------------------------------------------------- */

enum hf_status s3_key(struct s3_store *s3, struct view key, char space[S3_KEY_SPACE],
                      struct view *ret_key, struct hf_error *error)
{
    if (!utf8_is_text(key))
        return error_set(error, HF_INVALID,
                         "S3 accepts only keys that are UTF-8 text without NUL");
    if (s3->prefix_size + key.size > KEY_BYTES_MAX)
        return error_set(error, HF_INVALID,
                         "the prefix and the key together have more than %d bytes",
                         KEY_BYTES_MAX);
    memcpy(space, s3->prefix, s3->prefix_size);
    if (key.size > 0)
        memcpy(space + s3->prefix_size, key.data, key.size);
    *ret_key = (struct view){ space, s3->prefix_size + key.size };
    return HF_OK;
}

/* ---- Conditions ---------------------------------------------------------------------- */

bool s3_can_send_etag(const struct etag *etag)
{
    struct view text = etag_view(etag);
    bool is_list = view_find(text, ',') < text.size && view_find(text, '"') < text.size;
    if (view_equal(text, VIEW("*")) || is_list)
        return false;
    return !memchr(etag->data, '\n', etag->size) && !memchr(etag->data, '\r', etag->size) &&
           !memchr(etag->data, '\0', etag->size);
}

struct view s3_quoted(const struct etag *etag, char space[S3_ETAG_SPACE])
{
    struct view text = etag_view(etag);
    if (view_find(text, '"') < text.size)
        return text;
    space[0] = '"';
    memcpy(space + 1, text.data, text.size);
    space[text.size + 1] = '"';
    return (struct view){ space, text.size + 2 };
}

enum hf_status s3_add_condition(struct s3_store *s3, struct s3_request *request,
                                const struct condition *condition, char space[S3_ETAG_SPACE],
                                struct hf_error *error)
{
    request->condition = condition->kind;
    if (condition->kind == CONDITION_ALWAYS)
        return HF_OK;
    if (condition->kind == CONDITION_ABSENT) {
        s3_add_header(request, "if-none-match", VIEW("*"));
        return HF_OK;
    }
    if (!s3_can_send_etag(&condition->etag))
        return error_set(error, HF_INVALID, "the ETag is not valid for S3");
    if (s3_probe_etag_form(&s3->base, request->deadline, error) != HF_OK)
        return error->status;
    s3_add_header(request, "if-match",
                  s3_etag_form(&s3->base) == S3_ETAG_BARE ? etag_view(&condition->etag)
                                                          : s3_quoted(&condition->etag, space));
    return HF_OK;
}

/* ---- Putting ------------------------------------------------------------------------- */

void s3_put_source(struct s3_store *s3, struct put_call *call, const struct http_source *source,
                   const char *payload, const char *md5, const struct progress *progress)
{
    char space[S3_KEY_SPACE], etag[S3_ETAG_SPACE];
    struct s3_request request = { .method = "PUT",
                                  .source = source,
                                  .payload = payload,
                                  .writes = true,
                                  .progress = progress };
    request.deadline = s3_stream_deadline(s3, call->deadline, source->size, &request.stall);
    if (s3_key(s3, call->key, space, &request.key, &call->error) != HF_OK ||
        s3_add_condition(s3, &request, &call->condition, etag, &call->error) != HF_OK)
        return;
    if (md5)
        s3_add_header(&request, "content-md5", view_of(md5));
    struct http_reply reply;
    s3_send(s3, &request, /* again */ NULL, NULL, &reply, &call->error);
    call->stamp = s3_stamp(&reply);
    if (call->error.status == HF_OK) {
        call->etag = reply.etag;
        /* The write has happened, but without its ETag the caller cannot recognise it. */
        if (reply.etag.size == 0)
            error_set(&call->error, HF_UNSURE, "the store accepted the put but sent no ETag");
    }
    http_reply_release(&reply);
}

struct put_batch {
    struct s3_store *s3;
    struct put_call *calls;
};

static void put_nth(void *argument, size_t index)
{
    struct put_batch *batch = argument;
    struct put_call *call = &batch->calls[index];
    char hash[S3_HASH_TEXT_SIZE], md5[S3_MD5_TEXT_SIZE];
    struct http_source source = { call->body, -1, 0, call->body.size };
    s3_payload_hash(call->body, hash);
    bool with_md5 = call->body.size <= S3_MD5_BYTES_MAX && s3_content_md5(call->body, md5);
    s3_put_source(batch->s3, call, &source, hash, with_md5 ? md5 : NULL, /* progress */ NULL);
}

static void s3_put(struct store *store, struct put_call *calls, size_t count)
{
    struct s3_store *s3 = s3_of(store);
    struct put_batch batch = { s3, calls };
    if (count == 1)
        put_nth(&batch, 0);
    else
        worker_pool_run(&s3->workers, s3->connections, count, put_nth, &batch);
}

/* ---- Opening and closing ------------------------------------------------------------- */

static void s3_close(struct store *store)
{
    struct s3_store *s3 = s3_of(store);
    worker_pool_release(&s3->workers);
    http_pool_close(s3->pool);
    s3_provider_close(s3->provider);
    env_cond_release(&s3->shared.form_found);
    env_mutex_release(&s3->shared.mutex);
    secret_free(s3->shared.signer, sizeof *s3->shared.signer);
    free(s3);
}

static const struct store_ops s3_ops = {
    .name = "s3",
    .get = s3_get,
    .put = s3_put,
    .remove = s3_remove,
    .list = s3_list,
    .get_file = s3_get_file,
    .put_file = s3_put_file,
    .inspect = s3_inspect,
    .identify = s3_identify,
    .learn = s3_learn,
    .close = s3_close,
};

bool s3_is(const struct store *store)
{
    return store->ops == &s3_ops;
}

const char *s3_exposed_to(const struct store *store)
{
    const struct s3_store *s3 = (const struct s3_store *)store;
    return s3_is(store) && s3->exposed ? s3->origin : NULL;
}

#define BUCKET_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._"

/* Whether the string is `min` to `max` bytes long, all of them from the set. */
static bool consists_of(struct view text, const char *set, size_t min, size_t max)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] == '\0' || !strchr(set, text.data[i]))
            return false;
    return text.size >= min && text.size <= max;
}

static enum hf_status set_names(struct s3_store *s3, const struct url *url,
                                struct hf_error *error)
{
    if (url->host.size == 0)
        return error_set(error, HF_INVALID, "the URL names no bucket: use s3://BUCKET/PREFIX");
    if (!consists_of(url->host, BUCKET_BYTES, 3, S3_BUCKET_MAX))
        return error_set(error, HF_INVALID,
                         "'%.*s' is not a bucket name: use s3://BUCKET/PREFIX; a bucket name "
                         "has 3 to %d letters, digits, '-', '_' and '.'",
                         VIEW_ARGS(view_first(url->host, 80)), S3_BUCKET_MAX);
    snprintf(s3->bucket, sizeof s3->bucket, "%.*s", VIEW_ARGS(url->host));
    struct view prefix = view_from(url->path, 1);
    bool open_ended = prefix.size > 0 && prefix.data[prefix.size - 1] != '/';
    if (prefix.size + open_ended >= KEY_BYTES_MAX || !utf8_is_text(prefix))
        return error_set(error, HF_INVALID, "the prefix is too long or not UTF-8 text");
    snprintf(s3->prefix, sizeof s3->prefix, "%.*s%s", VIEW_ARGS(prefix), open_ended ? "/" : "");
    s3->prefix_size = prefix.size + open_ended;
    return HF_OK;
}

/* Uses the first of these that is set: the URL, two environment variables, the profile, AWS's
 * default. */
static enum hf_status set_region(struct s3_store *s3, const struct url *url,
                                 struct hf_error *error)
{
    struct view region = url_parameter(url, "region");
    const char *named = s3_variable("AWS_REGION", "AWS_DEFAULT_REGION");
    if (!region.data && named)
        region = view_of(named);
    char of_profile[S3_REGION_MAX + 1];
    if (!region.data &&
        s3_region_of_profile(url_parameter(url, "profile"), of_profile, sizeof of_profile))
        region = view_of(of_profile);
    if (!region.data)
        region = VIEW("us-east-1");
    if (!consists_of(region, BUCKET_BYTES, 1, S3_REGION_MAX))
        return error_set(error, HF_INVALID, "'%.*s' is not a region",
                         VIEW_ARGS(view_first(region, 60)));
    snprintf(s3->region, sizeof s3->region, "%.*s", VIEW_ARGS(region));
    return HF_OK;
}

/* Twice the largest difference between the clocks of a store's front ends. AWS synchronises its
 * clocks; for other stores nothing is known. */
#define CLOCK_SKEW_AWS_MS    2000
#define CLOCK_SKEW_OTHERS_MS 30000

static struct view find_endpoint(const struct url *url)
{
    struct view endpoint = url_parameter(url, "endpoint");
    const char *named = s3_variable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL");
    return endpoint.data || !named ? endpoint : view_of(named);
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

/* Scheme and host as in the Host header: without the default port of the scheme. */
static enum hf_status set_endpoint(struct s3_store *s3, const struct url *url, bool in_host,
                                   struct hf_error *error)
{
    struct view endpoint = find_endpoint(url);
    char aws[S3_HOST_MAX + 1];
    if (!endpoint.data) {
        snprintf(aws, sizeof aws, "https://s3.%s.amazonaws.com%s", s3->region,
                 strncmp(s3->region, "cn-", 3) == 0 ? ".cn" : "");
        endpoint = view_of(aws);
    }
    s3->tls = view_starts_with(endpoint, VIEW("https://"));
    bool good = s3->tls || view_starts_with(endpoint, VIEW("http://"));
    struct view host = view_from(endpoint, s3->tls ? 8 : 7);
    strip_end(&host, VIEW("/"));
    strip_end(&host, s3->tls ? VIEW(":443") : VIEW(":80"));
    good = good && consists_of(host, BUCKET_BYTES ":[]", 1, S3_HOST_MAX - S3_BUCKET_MAX - 1);
    if (view_find(host, '@') < host.size) /* do not print what may be a password */
        return error_set(error, HF_INVALID,
                         "an endpoint must not contain a user name; credentials come from the "
                         "environment or a profile");
    if (url->host.size == 0)
        return error_set(error, HF_INVALID, "the URL names no bucket: use s3://BUCKET/PREFIX");
    if (!good)
        return error_set(error, HF_INVALID,
                         "'%.*s' is not an endpoint: use https://s3.example.com or "
                         "http://127.0.0.1:7480",
                         VIEW_ARGS(view_first(endpoint, 60)));
    s3->exposed = !s3->tls && !host_is_loopback(host);
    snprintf(s3->host, sizeof s3->host, "%s%s%.*s", in_host ? s3->bucket : "",
             in_host ? "." : "", VIEW_ARGS(host));
    snprintf(s3->origin, sizeof s3->origin, "%s://%s", s3->tls ? "https" : "http", s3->host);
    snprintf(s3->root, sizeof s3->root, "%s%s", in_host ? "" : "/", in_host ? "" : s3->bucket);
    return HF_OK;
}

/* The bucket goes into the host name, unless an endpoint is given, or a dot in the bucket's
 * name would not match the certificate. */
static enum hf_status choose_style(const struct s3_store *s3, const struct url *url,
                                   bool *ret_in_host, struct hf_error *error)
{
    struct view style = url_parameter(url, "style");
    *ret_in_host = !find_endpoint(url).data && !strchr(s3->bucket, '.');
    if (!style.data)
        return HF_OK;
    *ret_in_host = view_equal(style, VIEW("host"));
    if (!*ret_in_host && !view_equal(style, VIEW("path")))
        return error_set(error, HF_INVALID, "style= must be 'path' or 'host', not '%.*s'",
                         VIEW_ARGS(view_first(style, 60)));
    return HF_OK;
}

static enum hf_status set_limits(struct s3_store *s3, const struct url *url,
                                 struct hf_error *error)
{
    struct view connections = url_parameter(url, "connections");
    struct view time_out = url_parameter(url, "timeout");
    struct view etag = url_parameter(url, "etag");
    uint64_t count = CONNECTIONS_DEFAULT;
    s3->time_out = SPAN_MS(STORE_TIMEOUT_MS);
    if (connections.data &&
        (parse_u64(connections, HTTP_CONNECTIONS_MAX, &count, error) != HF_OK || count == 0))
        return error_set(error, HF_INVALID, "connections= must be a number from 1 to %d",
                         HTTP_CONNECTIONS_MAX);
    if (time_out.data && (parse_span(time_out, &s3->time_out, error) != HF_OK ||
                          s3->time_out.us < 1000 || s3->time_out.us > SPAN_S(3600).us))
        return error_set(error, HF_INVALID,
                         "timeout= must be a duration from 1ms to 1h, such as 30s");
    s3->connections = (size_t)count;
    s3->shared.form = view_equal(etag, VIEW("quoted")) ? S3_ETAG_QUOTED
                      : view_equal(etag, VIEW("bare")) ? S3_ETAG_BARE
                                                       : S3_ETAG_UNKNOWN;
    if (etag.data && s3->shared.form == S3_ETAG_UNKNOWN)
        return error_set(error, HF_INVALID, "etag= must be 'quoted' or 'bare'");
    return HF_OK;
}

static enum hf_status open_connections(struct s3_store *s3, const struct url *url,
                                       struct hf_error *error)
{
    char ca_space[URL_BYTES_MAX + 1];
    struct view ca = url_parameter(url, "ca");
    const char *ca_file = s3_variable("AWS_CA_BUNDLE", "SSL_CERT_FILE");
    if (ca.data) {
        snprintf(ca_space, sizeof ca_space, "%.*s", VIEW_ARGS(ca));
        ca_file = ca_space;
    }
    struct http_options options = {
        .connections = s3->connections,
        .connect_time_out = span_smaller(s3->time_out, CONNECT_TIME_OUT),
        .ca_file = ca_file && ca_file[0] ? ca_file : NULL,
    };
    if (s3_provider_open(s3->base.env, url_parameter(url, "profile"), view_of(s3->region),
                         options.ca_file, &s3->provider, error) != HF_OK)
        return error->status;
    if (http_pool_open(s3->base.env, &options, &s3->pool, error) != HF_OK)
        s3_provider_close(s3->provider);
    return error->status;
}

enum hf_status s3_store_open(struct env *env, const struct url *url, struct store **ret_store,
                             struct hf_error *error)
{
    static const char *const parameters[] = { "endpoint",    "region",  "style",
                                              "connections", "timeout", "ca",
                                              "etag",        "profile", NULL };
    error_clear(error);
    if (url_only_parameters(url, parameters, error) != HF_OK)
        return error->status;
    struct s3_store *s3 = calloc(1, sizeof *s3);
    struct s3_signer *signer = secret_new(sizeof *signer);
    if (!s3 || !signer) {
        secret_free(signer, sizeof *signer);
        free(s3);
        return error_no_memory(error);
    }
    s3->shared.signer = signer;
    s3->base = (struct store){ .ops = &s3_ops,
                               .env = env,
                               .traits = { .list_ordered = true, .clock = STORE_CLOCK_DATE } };
    s3->base.traits.clock_skew_ms =
        find_endpoint(url).data ? CLOCK_SKEW_OTHERS_MS : CLOCK_SKEW_AWS_MS;
    bool in_host;
    if (set_names(s3, url, error) != HF_OK || set_region(s3, url, error) != HF_OK ||
        choose_style(s3, url, &in_host, error) != HF_OK ||
        set_endpoint(s3, url, in_host, error) != HF_OK || set_limits(s3, url, error) != HF_OK ||
        open_connections(s3, url, error) != HF_OK) {
        secret_free(signer, sizeof *signer);
        free(s3);
        return error->status;
    }
    env_mutex_init(env, &s3->shared.mutex);
    env_cond_init(env, &s3->shared.form_found);
    worker_pool_init(&s3->workers, env, s3->connections - 1);
    *ret_store = &s3->base;
    return HF_OK;
}
