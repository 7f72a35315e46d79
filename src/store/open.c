/* open.c: from a URL to a store. */
#include "store/backends.h"

struct backend {
    const char *scheme;
    enum hf_status (*open)(struct env *env, const struct url *url, struct store **ret_store,
                           struct hf_error *error);
};

static const struct backend backends[] = {
    { "mem", mem_store_open },
    { "dir", dir_store_open },
    { "sqlite", sqlite_store_open },
    { "s3", s3_store_open },
};

enum hf_status store_open(struct env *env, struct view url_text, struct store **ret_store,
                          struct hf_error *error)
{
    struct url url;
    enum hf_status status = url_parse(url_text, &url, error);
    if (status != HF_OK)
        return status;
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++)
        if (view_equal(url.scheme, view_of(backends[i].scheme)))
            return backends[i].open(env, &url, ret_store, error);
    return error_set(error, HF_INVALID, "there is no store of the kind '%.*s:'; there are %s",
                     VIEW_ARGS(view_first(url.scheme, 60)), "mem:, dir:, sqlite: and s3:");
}
