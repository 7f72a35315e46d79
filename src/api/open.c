/* open.c: a client in the real world, where a store is opened by URL. The simulator does without
 * this file and makes its clients by client_new. */
#include "base/options.h"
#include "lock/client.h"
#include "store/bucket.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A label that tells people whom to look for. */
static void holder_name(char *name, size_t size)
{
    char host[128] = "";
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0')
        snprintf(host, sizeof host, "unknown");
    snprintf(name, size, "%s-%ld", host, (long)getpid());
}

enum hf_status hf_client_open(const char *url, const struct hf_client_options *options,
                              struct hf_client **ret_client, struct hf_error *error)
{
    struct hf_client_options used = HF_CLIENT_OPTIONS;
    struct hf_error why;
    struct store *store;
    char holder[HOLDER_BYTES_MAX + 1];
    if (ret_client)
        *ret_client = NULL;
    if (ERROR_IF_NULL(error, url, ret_client) != HF_OK)
        return HF_INVALID;
    enum hf_status status =
        read_caller_options("HF_CLIENT_OPTIONS", options, &used, sizeof used, error);
    if (status != HF_OK)
        return status;
    holder_name(holder, sizeof holder);
    if (!used.holder)
        used.holder = holder;
    status = store_open(env_real(), view_of(url), &store, &why);
    if (status == HF_OK) {
        status = bucket_check(store, BUCKET_LOCKS, &why);
        if (status == HF_OK)
            status = client_new(store, &used, ret_client, &why);
        if (status == HF_OK)
            (*ret_client)->owns_store = true;
        else
            store_close(store);
    }
    if (error)
        *error = why;
    return status;
}

void hf_free(void *data)
{
    free(data);
}
