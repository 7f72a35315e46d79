/* SPDX-License-Identifier: Apache-2.0 */
/* azure.c: the `azure:` store: block blobs in a container of an Azure storage account. This file
 * opens it by URL, and puts and deletes objects.
 *
 *     azure://ACCOUNT/CONTAINER/PREFIX?endpoint=URL&connections=N&timeout=30s&ca=FILE
 *
 * Keys are stored under PREFIX/. Without endpoint= the account is at Azure's public cloud. */
#include "store/azure/inside.h"
#include "store/backends.h"
#include "store/probe.h"

#include <stdio.h>
#include <stdlib.h>

#define CONTENT_TYPE VIEW("application/octet-stream")

/* ---- Conditions ---------------------------------------------------------------------- */

enum hf_status azure_add_condition(struct remote_request *request,
                                   const struct condition *condition,
                                   char space[REMOTE_ETAG_SPACE], struct hf_error *error)
{
    request->condition = condition->kind;
    if (condition->kind == CONDITION_ALWAYS)
        return HF_OK;
    if (condition->kind == CONDITION_ABSENT) {
        remote_add_header(request, "if-none-match", VIEW("*"));
        return HF_OK;
    }
    if (!remote_can_send_etag(&condition->etag))
        return error_set(error, HF_INVALID, "the ETag is not valid for Azure");
    remote_add_header(request, "if-match", remote_quoted(&condition->etag, space));
    return HF_OK;
}

/* ---- Putting ------------------------------------------------------------------------- */

void azure_send_put(struct azure_store *azure, struct put_call *call,
                    struct remote_request *request)
{
    char space[REMOTE_KEY_SPACE], etag[REMOTE_ETAG_SPACE];
    if (remote_key(&azure->remote, call->key, space, &request->key, &call->error) != HF_OK ||
        azure_add_condition(request, &call->condition, etag, &call->error) != HF_OK)
        return;
    remote_send_put(&azure->remote, request, call);
}

struct put_batch {
    struct azure_store *azure;
    struct put_call *calls;
};

static void azure_put_nth(void *argument, size_t index)
{
    struct put_batch *batch = argument;
    struct put_call *call = &batch->calls[index];
    struct http_source source = { call->body, -1, 0, call->body.size };
    char md5[HTTP_MD5_TEXT_SIZE];
    struct remote_request request = { .method = "PUT", .source = &source, .writes = true };
    request.deadline = remote_stream_deadline(&batch->azure->remote, call->deadline,
                                              source.size, &request.stall);
    remote_add_header(&request, "content-type", CONTENT_TYPE);
    remote_add_header(&request, "x-ms-blob-type", VIEW("BlockBlob"));
    if (call->body.size <= REMOTE_MD5_BYTES_MAX && http_content_md5(call->body, md5))
        remote_add_header(&request, "content-md5", view_of(md5));
    azure_send_put(batch->azure, call, &request);
}

static void azure_put(struct store *store, struct put_call *calls, size_t count)
{
    struct azure_store *azure = azure_of(store);
    struct put_batch batch = { azure, calls };
    worker_pool_run(&azure->remote.workers, azure->remote.connections, count, azure_put_nth,
                    &batch);
}

/* ---- Deleting ------------------------------------------------------------------------ */

struct delete_batch {
    struct azure_store *azure;
    struct delete_call *calls;
};

static void remove_nth(void *argument, size_t index)
{
    struct delete_batch *batch = argument;
    struct remote_store *remote = &batch->azure->remote;
    struct delete_call *call = &batch->calls[index];
    char space[REMOTE_KEY_SPACE], etag[REMOTE_ETAG_SPACE];
    struct remote_request request = { .method = "DELETE", .writes = true };
    request.deadline = remote_deadline(remote, call->deadline);
    if (remote_key(remote, call->key, space, &request.key, &call->error) != HF_OK ||
        azure_add_condition(&request, &call->condition, etag, &call->error) != HF_OK)
        return;
    struct http_reply reply;
    remote_send(remote, &request, /* again */ NULL, NULL, &reply, &call->error);
    call->stamp = remote_stamp(&reply);
    http_reply_release(&reply);
    if (call->error.status == HF_NOT_FOUND && call->condition.kind == CONDITION_ALWAYS)
        error_clear(&call->error);
}

static void azure_remove(struct store *store, struct delete_call *calls, size_t count)
{
    struct azure_store *azure = azure_of(store);
    struct delete_batch batch = { azure, calls };
    worker_pool_run(&azure->remote.workers, azure->remote.connections, count, remove_nth,
                    &batch);
}

/* ---- Opening and closing ------------------------------------------------------------- */

static bool azure_identify(struct store *store, struct buffer *text)
{
    struct remote_store *remote = remote_of(store);
    buffer_print(text, "azure %s%s", remote->origin, remote->root);
    return true;
}

static void azure_close(struct store *store)
{
    struct azure_store *azure = azure_of(store);
    remote_release(&azure->remote);
    provider_release(&azure->provider.cache);
    azure_forget_markers(azure);
    env_mutex_release(&azure->shared.mutex);
    free(azure);
}

static const struct store_ops azure_ops = {
    .name = "azure",
    .get = remote_get,
    .put = azure_put,
    .remove = azure_remove,
    .list = azure_list,
    .get_file = remote_get_file,
    .put_file = azure_put_file,
    .inspect = azure_inspect,
    .identify = azure_identify,
    .close = azure_close,
};

#define URL_FORM "azure://ACCOUNT/CONTAINER/PREFIX"

static enum hf_status azure_set_names(struct azure_store *azure, const struct url *url,
                                      struct hf_error *error)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    static const char others[] = "abcdefghijklmnopqrstuvwxyz0123456789-$";
    struct view prefix = view_from(url->path, 1);
    struct view container = view_cut(&prefix, '/');
    if (url->host.size == 0 || container.size == 0)
        return error_set(error, HF_INVALID, "the URL names no %s: use " URL_FORM,
                         url->host.size == 0 ? "account" : "container");
    if (!consists_of(url->host, letters, 3, AZURE_ACCOUNT_MAX))
        return error_set(error, HF_INVALID,
                         "'%.*s' is not an account name: use " URL_FORM
                         "; an account name has 3 to %d lower-case letters and digits",
                         VIEW_ARGS(view_first(url->host, 80)), AZURE_ACCOUNT_MAX);
    if (!consists_of(container, others, 3, REMOTE_BUCKET_MAX))
        return error_set(error, HF_INVALID,
                         "'%.*s' is not a container name: use " URL_FORM
                         "; a container name has 3 to %d lower-case letters, digits and '-'",
                         VIEW_ARGS(view_first(container, 80)), REMOTE_BUCKET_MAX);
    snprintf(azure->account, sizeof azure->account, "%.*s", VIEW_ARGS(url->host));
    snprintf(azure->remote.bucket, sizeof azure->remote.bucket, "%.*s", VIEW_ARGS(container));
    return remote_set_prefix(&azure->remote, prefix, error);
}

/* The first of these: endpoint= of the URL; BlobEndpoint of the connection string; the public
 * cloud, or the one that the connection string names. `space` holds the last. */
static struct view azure_find_endpoint(const struct azure_store *azure, const struct url *url,
                                       char space[REMOTE_HOST_MAX + 1], bool *ret_named)
{
    struct view endpoint = url_parameter(url, "endpoint");
    const char *connection = remote_variable("AZURE_STORAGE_CONNECTION_STRING", NULL);
    struct view text = view_of(connection ? connection : "");
    if (!endpoint.data)
        endpoint = azure_connection_value(text, "BlobEndpoint");
    *ret_named = endpoint.data != NULL;
    if (*ret_named)
        return endpoint;
    struct view suffix = azure_connection_value(text, "EndpointSuffix");
    if (suffix.size == 0)
        suffix = VIEW("core.windows.net");
    snprintf(space, REMOTE_HOST_MAX + 1, "https://%s.blob.%.*s", azure->account,
             VIEW_ARGS(suffix));
    return view_of(space);
}

/* Whether a host is an address, where the account cannot be part of the name. */
static bool is_address(struct view host)
{
    struct view number = view_first(host, view_find(host, ':'));
    return host_is_loopback(host) || view_starts_with(host, VIEW("[")) ||
           consists_of(number, "0123456789.", 7, 15);
}

/* An endpoint is that of the account, as in a connection string. One without a path whose host is
 * an address is an emulator's: there the account is the first part of the path. */
static enum hf_status azure_set_endpoint(struct azure_store *azure, const struct url *url,
                                         bool *ret_named, struct hf_error *error)
{
    struct remote_store *remote = &azure->remote;
    char space[REMOTE_HOST_MAX + 1];
    struct view endpoint = azure_find_endpoint(azure, url, space, ret_named), path;
    static const char example[] = "https://ACCOUNT.blob.core.windows.net or "
                                  "http://127.0.0.1:10000";
    if (remote_set_endpoint(remote, endpoint, "", example, &path, error) != HF_OK)
        return error->status;
    if (!consists_of(path, REMOTE_NAME_BYTES "/", 0, REMOTE_HOST_MAX))
        return error_set(error, HF_INVALID, "'%.*s' is not an endpoint: use %s",
                         VIEW_ARGS(view_first(endpoint, 60)), example);
    bool in_path = path.size == 0 && is_address(view_of(remote->host));
    snprintf(remote->root, sizeof remote->root, "%.*s%s%s/%s", VIEW_ARGS(path),
             in_path ? "/" : "", in_path ? azure->account : "", remote->bucket);
    return HF_OK;
}

/* Twice the largest difference between the clocks of a store's front ends. Azure synchronises its
 * clocks; for other servers nothing is known. */
#define CLOCK_SKEW_AZURE_MS  2000
#define CLOCK_SKEW_OTHERS_MS 30000

static enum hf_status azure_open(struct azure_store *azure, const struct url *url,
                                 struct hf_error *error)
{
    struct remote_store *remote = &azure->remote;
    char ca_space[URL_BYTES_MAX + 1];
    const char *ca_file = remote_ca_file(url, NULL, ca_space);
    bool named;
    if (azure_set_names(azure, url, error) != HF_OK ||
        azure_set_endpoint(azure, url, &named, error) != HF_OK ||
        remote_set_limits(remote, url, error) != HF_OK ||
        azure_provider_init(&azure->provider, remote->base.env, azure->account, ca_file,
                            error) != HF_OK)
        return error->status;
    remote->base.traits.clock_skew_ms = named ? CLOCK_SKEW_OTHERS_MS : CLOCK_SKEW_AZURE_MS;
    if (remote_init(remote, ca_file, error) != HF_OK)
        provider_release(&azure->provider.cache);
    return error->status;
}

enum hf_status azure_store_open(struct env *env, const struct url *url,
                                struct store **ret_store, struct hf_error *error)
{
    static const char *const parameters[] = { "endpoint", "connections", "timeout", "ca",
                                              NULL };
    error_clear(error);
    if (url_only_parameters(url, parameters, error) != HF_OK)
        return error->status;
    struct azure_store *azure = calloc(1, sizeof *azure);
    if (!azure)
        return error_no_memory(error);
    azure->remote.dialect = &azure_dialect;
    azure->remote.base =
        (struct store){ .ops = &azure_ops,
                        .env = env,
                        .traits = { .list_ordered = true, .clock = STORE_CLOCK_DATE } };
    if (azure_open(azure, url, error) != HF_OK) {
        free(azure);
        return error->status;
    }
    env_mutex_init(env, &azure->shared.mutex);
    *ret_store = &azure->remote.base;
    return HF_OK;
}
