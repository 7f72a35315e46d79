/* SPDX-License-Identifier: Apache-2.0 */
/* s3.c: the `s3:` store: objects in a bucket at AWS, or at any server that speaks the S3 protocol;
 * and the `gs:` store: objects in a bucket at Google. This file opens them by URL, encodes keys and
 * conditions, and puts documents.
 *
 *     s3://BUCKET/PREFIX?endpoint=URL&region=R&style=path|host&connections=N&timeout=30s&ca=FILE
 *         &dualstack=on|off&profile=NAME
 *     gs://BUCKET/PREFIX?endpoint=URL&region=R&style=path|host&connections=N&timeout=30s&ca=FILE
 *
 * Keys are stored under PREFIX/. Without endpoint= the bucket is at AWS, or at Google. */
#include "base/check.h"
#include "base/parse.h"
#include "store/backends.h"
#include "store/remote/secret.h"
#include "store/s3/inside.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Conditions ---------------------------------------------------------------------- */

enum hf_status s3_add_condition(struct s3_store *s3, struct remote_request *request,
                                const struct condition *condition,
                                char space[REMOTE_ETAG_SPACE], struct hf_error *error)
{
    if (s3_is_google(s3))
        return google_add_condition(request, condition, error);
    request->condition = condition->kind;
    if (condition->kind == CONDITION_ALWAYS)
        return HF_OK;
    if (condition->kind == CONDITION_ABSENT) {
        remote_add_header(request, "if-none-match", VIEW("*"));
        return HF_OK;
    }
    if (!remote_can_send_etag(&condition->etag))
        return error_set(error, HF_INVALID, "the ETag is not valid for S3");
    if (s3_probe_etag_form(&s3->remote.base, request->deadline, error) != HF_OK)
        return error->status;
    remote_add_header(request, "if-match",
                      s3_etag_form(&s3->remote.base) == S3_ETAG_BARE
                          ? etag_view(&condition->etag)
                          : remote_quoted(&condition->etag, space));
    return HF_OK;
}

/* ---- Putting ------------------------------------------------------------------------- */

void s3_put_source(struct s3_store *s3, struct put_call *call, const struct http_source *source,
                   const char *payload, const char *md5, const struct progress *progress)
{
    char space[REMOTE_KEY_SPACE], etag[REMOTE_ETAG_SPACE];
    struct remote_request request = { .method = "PUT",
                                      .source = source,
                                      .payload = payload,
                                      .writes = true,
                                      .progress = progress };
    request.deadline =
        remote_stream_deadline(&s3->remote, call->deadline, source->size, &request.stall);
    if (remote_key(&s3->remote, call->key, space, &request.key, &call->error) != HF_OK ||
        s3_add_condition(s3, &request, &call->condition, etag, &call->error) != HF_OK)
        return;
    if (md5)
        remote_add_header(&request, "content-md5", view_of(md5));
    remote_send_put(&s3->remote, &request, call);
}

struct put_batch {
    struct s3_store *s3;
    struct put_call *calls;
};

static void put_nth(void *argument, size_t index)
{
    struct put_batch *batch = argument;
    struct put_call *call = &batch->calls[index];
    char hash[S3_HASH_TEXT_SIZE], md5[HTTP_MD5_TEXT_SIZE];
    struct http_source source = { call->body, -1, 0, call->body.size };
    s3_payload_hash(call->body, hash);
    bool with_md5 = !s3_is_directory(batch->s3) && call->body.size <= REMOTE_MD5_BYTES_MAX &&
                    http_content_md5(call->body, md5);
    s3_put_source(batch->s3, call, &source, hash, with_md5 ? md5 : NULL, /* progress */ NULL);
}

static void s3_put(struct store *store, struct put_call *calls, size_t count)
{
    struct s3_store *s3 = s3_of(store);
    struct put_batch batch = { s3, calls };
    worker_pool_run(&s3->remote.workers, s3->remote.connections, count, put_nth, &batch);
}

/* ---- Opening and closing ------------------------------------------------------------- */

static void s3_close(struct store *store)
{
    struct s3_store *s3 = s3_of(store);
    remote_release(&s3->remote);
    s3_session_close(s3->session);
    s3_provider_close(s3->provider);
    s3_forget_names(s3);
    env_cond_release(&s3->shared.form_found);
    env_mutex_release(&s3->shared.mutex);
    secret_free(s3->shared.signer, sizeof *s3->shared.signer);
    free(s3);
}

static const struct store_ops s3_ops = {
    .name = "s3",
    .get = remote_get,
    .put = s3_put,
    .remove = s3_remove,
    .list = s3_list,
    .get_file = remote_get_file,
    .put_file = s3_put_file,
    .inspect = s3_inspect,
    .identify = s3_identify,
    .learn = s3_learn,
    .rely = s3_rely,
    .doubt = s3_doubt,
    .close = s3_close,
};

/* The form of ETags is not a question at Google, so there is nothing to learn. */
static const struct store_ops google_ops = {
    .name = "gs",
    .get = remote_get,
    .put = s3_put,
    .remove = s3_remove,
    .list = s3_list,
    .get_file = remote_get_file,
    .put_file = s3_put_file,
    .inspect = s3_inspect,
    .identify = s3_identify,
    .close = s3_close,
};

bool s3_is(const struct store *store)
{
    return store->ops == &s3_ops;
}

static enum hf_status set_names(struct s3_store *s3, const struct url *url,
                                struct hf_error *error)
{
    const char *scheme = s3->remote.base.ops->name;
    if (url->host.size == 0)
        return error_set(error, HF_INVALID, "the URL names no bucket: use %s://BUCKET/PREFIX",
                         scheme);
    if (!consists_of(url->host, REMOTE_NAME_BYTES, 3, REMOTE_BUCKET_MAX))
        return error_set(error, HF_INVALID,
                         "'%.*s' is not a bucket name: use %s://BUCKET/PREFIX; a bucket name "
                         "has 3 to %d letters, digits, '-', '_' and '.'",
                         VIEW_ARGS(view_first(url->host, 80)), scheme, REMOTE_BUCKET_MAX);
    snprintf(s3->remote.bucket, sizeof s3->remote.bucket, "%.*s", VIEW_ARGS(url->host));
    if (!s3_is_google(s3))
        s3_find_zone(s3->remote.bucket, s3->zone);
    return remote_set_prefix(&s3->remote, view_from(url->path, 1), error);
}

/* Uses the first of these that is set: the URL, two environment variables, the profile, AWS's
 * default. Google accepts "auto" for every bucket. */
static enum hf_status set_region(struct s3_store *s3, const struct url *url,
                                 struct hf_error *error)
{
    struct view region = url_parameter(url, "region");
    const char *named = remote_variable("AWS_REGION", "AWS_DEFAULT_REGION");
    char of_profile[S3_REGION_MAX + 1];
    if (!region.data && s3_is_google(s3))
        region = VIEW("auto");
    if (!region.data && named)
        region = view_of(named);
    if (!region.data &&
        s3_region_of_profile(url_parameter(url, "profile"), of_profile, sizeof of_profile))
        region = view_of(of_profile);
    if (!region.data)
        region = VIEW("us-east-1");
    if (!consists_of(region, REMOTE_NAME_BYTES, 1, S3_REGION_MAX))
        return error_set(error, HF_INVALID, "'%.*s' is not a region",
                         VIEW_ARGS(view_first(region, 60)));
    snprintf(s3->region, sizeof s3->region, "%.*s", VIEW_ARGS(region));
    return HF_OK;
}

/* Twice the largest difference between the clocks of a store's front ends. AWS synchronises its
 * clocks; for other stores nothing is known, and nothing was measured at Google. */
#define CLOCK_SKEW_AWS_MS    2000
#define CLOCK_SKEW_OTHERS_MS 30000

static struct view find_endpoint(const struct s3_store *s3, const struct url *url)
{
    struct view endpoint = url_parameter(url, "endpoint");
    const char *named = remote_variable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL");
    if (!endpoint.data && s3_is_google(s3))
        return VIEW("https://storage.googleapis.com");
    return endpoint.data || !named ? endpoint : view_of(named);
}

/* Whether the names of AWS's hosts are those that have IPv6 addresses, too. */
static enum hf_status wants_dualstack(const struct url *url, bool *ret_wants,
                                      struct hf_error *error)
{
    struct view asked = url_parameter(url, "dualstack");
    const char *named = remote_variable("AWS_USE_DUALSTACK_ENDPOINT", NULL);
    *ret_wants =
        asked.data ? view_equal(asked, VIEW("on")) : named && strcmp(named, "true") == 0;
    if (asked.data && !*ret_wants && !view_equal(asked, VIEW("off")))
        return error_set(error, HF_INVALID, "dualstack= must be 'on' or 'off', not '%.*s'",
                         VIEW_ARGS(view_first(asked, 60)));
    return HF_OK;
}

static enum hf_status set_endpoint(struct s3_store *s3, const struct url *url, bool in_host,
                                   struct hf_error *error)
{
    static const char example[] = "https://s3.example.com or http://127.0.0.1:7480";
    struct remote_store *remote = &s3->remote;
    struct view endpoint = find_endpoint(s3, url), path;
    char aws[REMOTE_HOST_MAX + 1];
    bool dualstack;
    if (wants_dualstack(url, &dualstack, error) != HF_OK)
        return error->status;
    if (!endpoint.data) {
        if (s3_is_directory(s3))
            s3_zone_endpoint(s3, dualstack, aws, sizeof aws);
        else
            snprintf(aws, sizeof aws, "https://s3.%s%s.amazonaws.com%s",
                     dualstack ? "dualstack." : "", s3->region,
                     s3_is_china(s3->region) ? ".cn" : "");
        endpoint = view_of(aws);
    }
    if (remote_set_endpoint(remote, endpoint, in_host ? remote->bucket : "", example, &path,
                            error) != HF_OK)
        return error->status;
    if (path.size > 0)
        return error_set(error, HF_INVALID, "'%.*s' is not an endpoint: use %s",
                         VIEW_ARGS(view_first(endpoint, 60)), example);
    snprintf(remote->root, sizeof remote->root, "%s%s", in_host ? "" : "/",
             in_host ? "" : remote->bucket);
    return HF_OK;
}

/* The bucket goes into the host name, unless an endpoint is given, or a dot in the bucket's
 * name would not match the certificate. A directory bucket is always in the host name. */
static enum hf_status choose_style(const struct s3_store *s3, const struct url *url,
                                   bool *ret_in_host, struct hf_error *error)
{
    struct view style = url_parameter(url, "style");
    *ret_in_host = s3_is_directory(s3) ||
                   (!find_endpoint(s3, url).data && !strchr(s3->remote.bucket, '.'));
    if (!style.data)
        return HF_OK;
    *ret_in_host = view_equal(style, VIEW("host"));
    if (s3_is_directory(s3) && view_equal(style, VIEW("path")))
        return error_set(error, HF_INVALID,
                         "style=path cannot be used for a directory bucket (--x-s3)");
    if (!*ret_in_host && !view_equal(style, VIEW("path")))
        return error_set(error, HF_INVALID, "style= must be 'path' or 'host', not '%.*s'",
                         VIEW_ARGS(view_first(style, 60)));
    return HF_OK;
}

static enum hf_status set_limits(struct s3_store *s3, const struct url *url,
                                 struct hf_error *error)
{
    struct view etag = url_parameter(url, "etag");
    if (remote_set_limits(&s3->remote, url, error) != HF_OK)
        return error->status;
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
    const char *ca_file =
        remote_ca_file(url, s3_is_google(s3) ? NULL : "AWS_CA_BUNDLE", ca_space);
    if (s3_provider_open(s3->remote.base.env, s3->scheme, url_parameter(url, "profile"),
                         view_of(s3->region), ca_file, &s3->provider, error) != HF_OK)
        return error->status;
    if ((!s3_is_directory(s3) || s3_session_open(s3, ca_file, error) == HF_OK) &&
        remote_init(&s3->remote, ca_file, error) == HF_OK)
        return error->status;
    s3_session_close(s3->session);
    s3_provider_close(s3->provider);
    return error->status;
}

static enum hf_status open_bucket(struct env *env, enum s3_scheme scheme, const struct url *url,
                                  struct store **ret_store, struct hf_error *error)
{
    struct s3_store *s3 = calloc(1, sizeof *s3);
    struct s3_signer *signer = secret_new(sizeof *signer);
    if (!s3 || !signer) {
        secret_free(signer, sizeof *signer);
        free(s3);
        return error_no_memory(error);
    }
    s3->scheme = scheme;
    s3->remote.dialect = s3_is_google(s3) ? &google_dialect : &s3_dialect;
    s3->shared.signer = signer;
    s3->remote.base =
        (struct store){ .ops = s3_is_google(s3) ? &google_ops : &s3_ops,
                        .env = env,
                        .traits = { .list_ordered = true, .clock = STORE_CLOCK_DATE } };
    s3->remote.base.traits.clock_skew_ms =
        find_endpoint(s3, url).data ? CLOCK_SKEW_OTHERS_MS : CLOCK_SKEW_AWS_MS;
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
    *ret_store = &s3->remote.base;
    return HF_OK;
}

enum hf_status s3_store_open(struct env *env, const struct url *url, struct store **ret_store,
                             struct hf_error *error)
{
    static const char *const parameters[] = { "endpoint",  "region", "style", "connections",
                                              "timeout",   "ca",     "etag",  "profile",
                                              "dualstack", NULL };
    error_clear(error);
    if (url_only_parameters(url, parameters, error) != HF_OK)
        return error->status;
    return open_bucket(env, S3_SCHEME_AWS, url, ret_store, error);
}

enum hf_status gs_store_open(struct env *env, const struct url *url, struct store **ret_store,
                             struct hf_error *error)
{
    static const char *const parameters[] = { "endpoint", "region", "style",   "connections",
                                              "timeout",  "ca",     "profile", NULL };
    error_clear(error);
    if (url_only_parameters(url, parameters, error) != HF_OK)
        return error->status;
    return open_bucket(env, S3_SCHEME_GOOGLE, url, ret_store, error);
}
