/* SPDX-License-Identifier: Apache-2.0 */
/* open.c: opens stores by URL, and clients on them, in the real env. The simulator does not
 * link this file and creates its clients with client_new. */
#include "base/options.h"
#include "client/client.h"
#include "lock/client.h"
#include "store/handle.h"
#include "store/remote/remote.h"
#include "store/server/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- Stores -------------------------------------------------------------------------- */

static void warn_if_exposed(const struct hf_store_options *options, struct store *store)
{
    const char *to = remote_exposed_to(store);
    struct buffer text = BUFFER_INIT(KIB);
    if (!to)
        to = server_exposed_to(store);
    if (!to || !options->warn)
        return;
    buffer_print(&text,
                 "%s is not encrypted: anyone on the network path can read and change the "
                 "traffic; use https://",
                 to);
    const char *sentence = buffer_text(&text);
    options->warn(options->warn_argument, sentence ? sentence : to);
    buffer_release(&text);
}

static enum hf_status open_store_handle(struct view url, const struct hf_store_options *options,
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
    if (ERROR_IF_NULL(&why, url, ret_store) != HF_OK ||
        READ_OPTIONS(HF_STORE_OPTIONS, options, &used, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    enum hf_status status = open_store_handle(view_of(url), &used, ret_store, &why);
    return error_tell(error, status, &why);
}

void hf_store_close(struct hf_store *store)
{
    store_handle_drop(store);
}

/* ---- Clients ------------------------------------------------------------------------- */

/* The client holds a reference to the handle. */
static enum hf_status open_client(struct hf_store *handle, struct hf_client_options options,
                                  struct hf_client **ret_client, struct hf_error *error)
{
    char host[128] = "", holder[HOLDER_BYTES_MAX + 1];
    if (!options.holder) { /* a label that tells users where to look for the holder */
        if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0')
            snprintf(host, sizeof host, "unknown");
        snprintf(holder, sizeof holder, "%s-%ld", host, (long)getpid());
        options.holder = holder;
    }
    enum hf_status status = store_handle_check_locks(handle, error);
    if (status == HF_OK)
        status = client_new_on(handle, &options, ret_client, error);
    if (status == HF_OK)
        client_use_server(*ret_client);
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
    if (ERROR_IF_NULL(&why, store, ret_client) != HF_OK ||
        READ_OPTIONS(HF_CLIENT_OPTIONS, options, &used, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    enum hf_status status = open_client(store, used, ret_client, &why);
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
    if (ERROR_IF_NULL(&why, url, ret_client) != HF_OK ||
        READ_OPTIONS(HF_CLIENT_OPTIONS, options, &used, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    store_options.coordinates = true;
    enum hf_status status = open_store_handle(view_of(url), &store_options, &handle, &why);
    if (status == HF_OK)
        status = open_client(handle, used, ret_client, &why);
    store_handle_drop(handle);
    return error_tell(error, status, &why);
}

/* ---- Memory -------------------------------------------------------------------------- */

void hf_free(void *data)
{
    free(data);
}
