/* open.c: the door to the real world, where stores are opened by URL. The simulator does without
 * this file and makes its clients by client_new. */
#include "base/options.h"
#include "lock/client.h"
#include "store/handle.h"
#include "store/s3/s3.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- Stores -------------------------------------------------------------------------- */

static void warn_if_exposed(const struct hf_store_options *options, const struct store *store)
{
    const char *to = options->warn ? s3_exposed_to(store) : NULL;
    struct buffer text = BUFFER_INIT(KIB);
    if (!to)
        return;
    buffer_print(&text,
                 "%s is not encrypted: anybody on the way can read and change what is "
                 "sent; use https://",
                 to);
    const char *sentence = buffer_text(&text);
    options->warn(options->warn_argument, sentence ? sentence : to);
    buffer_release(&text);
}

static enum hf_status open_handle(struct view url, const struct hf_store_options *options,
                                  struct hf_store **ret_handle, struct hf_error *error)
{
    struct store *store;
    enum hf_status status = options->must_exist ? store_check_present(url, error) : HF_OK;
    if (status == HF_OK)
        status = store_open(env_real(), url, &store, error);
    if (status != HF_OK)
        return status;
    warn_if_exposed(options, store);
    status =
        store_handle_new(store, options->trace, options->trace_argument, ret_handle, error);
    if (status != HF_OK) {
        store_close(store);
        return status;
    }
    status = options->coordinates ? store_handle_check_locks(*ret_handle, error)
                                  : bucket_check((*ret_handle)->store, BUCKET_OBJECTS, error);
    if (status != HF_OK) {
        store_handle_drop(*ret_handle);
        *ret_handle = NULL;
    }
    return status;
}

enum hf_status hf_store_open(const char *url, const struct hf_store_options *options,
                             struct hf_store **ret_store, struct hf_error *error)
{
    struct hf_store_options used = HF_STORE_OPTIONS;
    struct hf_error why;
    if (ret_store)
        *ret_store = NULL;
    if (ERROR_IF_NULL(error, url, ret_store) != HF_OK)
        return HF_INVALID;
    enum hf_status status =
        read_caller_options("HF_STORE_OPTIONS", options, &used, sizeof used, error);
    if (status != HF_OK)
        return status;
    status = open_handle(view_of(url), &used, ret_store, &why);
    return error_tell(error, status, &why);
}

void hf_store_close(struct hf_store *store)
{
    store_handle_drop(store);
}

/* ---- Clients ------------------------------------------------------------------------- */

/* A label that tells people whom to look for. */
static void holder_name(char *name, size_t size)
{
    char host[128] = "";
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0')
        snprintf(host, sizeof host, "unknown");
    snprintf(name, size, "%s-%ld", host, (long)getpid());
}

/* Keeps the handle. */
static enum hf_status open_client(struct hf_store *handle, struct hf_client_options options,
                                  struct hf_client **ret_client, struct hf_error *error)
{
    char holder[HOLDER_BYTES_MAX + 1];
    holder_name(holder, sizeof holder);
    if (!options.holder)
        options.holder = holder;
    enum hf_status status = store_handle_check_locks(handle, error);
    if (status == HF_OK)
        status = client_new_counted(handle->store, &options, ret_client, error);
    if (status == HF_OK)
        (*ret_client)->handle = store_handle_keep(handle);
    return status;
}

enum hf_status hf_client_open_on(struct hf_store *store,
                                 const struct hf_client_options *options,
                                 struct hf_client **ret_client, struct hf_error *error)
{
    struct hf_client_options used = HF_CLIENT_OPTIONS;
    struct hf_error why;
    if (ret_client)
        *ret_client = NULL;
    if (ERROR_IF_NULL(error, store, ret_client) != HF_OK)
        return HF_INVALID;
    enum hf_status status =
        read_caller_options("HF_CLIENT_OPTIONS", options, &used, sizeof used, error);
    if (status != HF_OK)
        return status;
    status = open_client(store, used, ret_client, &why);
    return error_tell(error, status, &why);
}

enum hf_status hf_client_open(const char *url, const struct hf_client_options *options,
                              struct hf_client **ret_client, struct hf_error *error)
{
    struct hf_client_options used = HF_CLIENT_OPTIONS;
    struct hf_store_options store_options = HF_STORE_OPTIONS;
    struct hf_store *handle = NULL;
    struct hf_error why;
    if (ret_client)
        *ret_client = NULL;
    if (ERROR_IF_NULL(error, url, ret_client) != HF_OK)
        return HF_INVALID;
    enum hf_status status =
        read_caller_options("HF_CLIENT_OPTIONS", options, &used, sizeof used, error);
    if (status != HF_OK)
        return status;
    store_options.coordinates = true;
    status = open_handle(view_of(url), &store_options, &handle, &why);
    if (status == HF_OK)
        status = open_client(handle, used, ret_client, &why);
    store_handle_drop(handle);
    return error_tell(error, status, &why);
}

struct hf_store *hf_client_store(struct hf_client *client)
{
    return client ? client->handle : NULL;
}

/* ---- Memory -------------------------------------------------------------------------- */

void hf_free(void *data)
{
    free(data);
}
