/* SPDX-License-Identifier: Apache-2.0 */
/* open.c: opens a store by its URL, makes the paths in URLs absolute, and rejects unknown
 * schemes with a list of the valid ones. */
#include "store/backends.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct backend {
    const char *scheme;
    const char *form; /* how its URLs are written */
    enum hf_status (*open)(struct env *env, const struct url *url, struct store **ret_store,
                           struct hf_error *error);
    bool local; /* the URL is a path in the file system */
    enum hf_status (*default_path)(char path[PATH_MAX], struct hf_error *error); /* or NULL */
};

static const struct backend backends[] = {
    { "sqlite", "sqlite:FILE", sqlite_store_open, true, sqlite_default_path },
    { "dir", "dir:PATH", dir_store_open, true, NULL },
    { "s3", "s3://BUCKET/PREFIX", s3_store_open, false, NULL },
    { "gs", "gs://BUCKET/PREFIX", gs_store_open, false, NULL },
    { "azure", "azure://ACCOUNT/CONTAINER", azure_store_open, false, NULL },
    { "http", "http://HOST:PORT", server_store_open, false, NULL },
    { "https", "https://HOST:PORT", server_store_open, false, NULL },
    { "unix", "unix:PATH", server_store_open, false, NULL },
    { "mem", "mem:", mem_store_open, false, NULL },
};
#define BACKENDS (sizeof backends / sizeof backends[0])

static const struct backend *find_backend(struct view scheme)
{
    for (size_t i = 0; i < BACKENDS; i++)
        if (view_equal(scheme, view_of(backends[i].scheme)))
            return &backends[i];
    return NULL;
}

/* "sqlite:FILE, dir:PATH, s3://BUCKET/PREFIX and so on, or mem:" */
static const char *all_forms(char *text, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < BACKENDS; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s",
                                 i == 0             ? ""
                                 : i + 1 < BACKENDS ? ", "
                                                    : " or ",
                                 backends[i].form);
    return text;
}

static enum hf_status parse_store_url(struct view text, struct url *ret_url,
                                      const struct backend **ret_backend,
                                      struct hf_error *error)
{
    char forms[200];
    struct view scheme = view_first(text, view_find(text, ':'));
    if (scheme.size == text.size)
        return error_set(error, HF_INVALID, "'%.*s' is not the URL of a store: use %s",
                         VIEW_ARGS(view_first(text, 60)), all_forms(forms, sizeof forms));
    enum hf_status status = url_parse(text, ret_url, error);
    if (status != HF_OK)
        return status;
    *ret_backend = find_backend(ret_url->scheme);
    if (!*ret_backend)
        return error_set(error, HF_INVALID, "unknown kind of store '%.*s:': use %s",
                         VIEW_ARGS(view_first(scheme, 60)), all_forms(forms, sizeof forms));
    return HF_OK;
}

enum hf_status store_open(struct env *env, struct view url_text, struct store **ret_store,
                          struct hf_error *error)
{
    struct url url;
    const struct backend *backend;
    enum hf_status status = parse_store_url(url_text, &url, &backend, error);
    return status == HF_OK ? backend->open(env, &url, ret_store, error) : status;
}

bool store_is_url(struct view text)
{
    struct view scheme = view_first(text, view_find(text, ':'));
    const struct backend *backend = find_backend(scheme);
    return scheme.size < text.size && backend && backend->open != server_store_open;
}

/* The absolute path of a local store. As in a shell, '~' means the home directory only where
 * '/' follows it. */
static enum hf_status absolute_path(const struct backend *backend, const struct url *url,
                                    char path[PATH_MAX], struct hf_error *error)
{
    struct view rest = url->path;
    const char *home = getenv("HOME");
    path[0] = '\0';
    if (rest.size == 0 && backend->default_path)
        return backend->default_path(path, error);
    if (view_starts_with(rest, VIEW("~/"))) {
        if (!home || home[0] != '/')
            return error_set(error, HF_INVALID,
                             "cannot expand '~/': HOME is not set to an absolute path");
        snprintf(path, PATH_MAX, "%s/", home);
        rest = view_from(rest, 2);
    } else if (!view_starts_with(rest, VIEW("/")) && rest.size > 0) {
        char folder[PATH_MAX - 1];
        if (!getcwd(folder, sizeof folder))
            return error_from_errno(error, errno, "find the current directory");
        snprintf(path, PATH_MAX, "%s%s", folder, folder[1] ? "/" : "");
        while (view_starts_with(rest, VIEW("./")) && rest.size > 2)
            rest = view_from(rest, 2);
    }
    size_t size = strlen(path);
    if (size + rest.size >= PATH_MAX)
        return error_set(error, HF_INVALID, "the path of the store is too long");
    snprintf(path + size, PATH_MAX - size, "%.*s", VIEW_ARGS(rest));
    return HF_OK;
}

/* Escapes '%' and '?', which have a meaning in a URL. */
static void append_path(struct buffer *to, const char *path)
{
    for (; *path; path++) {
        if (*path == '%' || *path == '?')
            buffer_print(to, "%%%02X", (unsigned char)*path);
        else
            buffer_append_byte(to, *path);
    }
}

enum hf_status store_url_absolute(struct view text, struct buffer *to, struct hf_error *error)
{
    struct url url;
    const struct backend *backend;
    char path[PATH_MAX];
    enum hf_status status = parse_store_url(text, &url, &backend, error);
    if (status != HF_OK)
        return status;
    if (!backend->local || url.host.size > 0) {
        buffer_append(to, text);
    } else {
        status = absolute_path(backend, &url, path, error);
        buffer_print(to, "%s:", backend->scheme);
        append_path(to, path);
        buffer_append(to, view_from(text, view_find(text, '?')));
    }
    if (status == HF_OK && to->failed)
        status = error_set(error, HF_INVALID, "a store URL can have at most %d bytes",
                           URL_BYTES_MAX);
    return status;
}

enum hf_status store_check_present(struct view text, struct hf_error *error)
{
    struct url url;
    const struct backend *backend;
    char path[PATH_MAX];
    struct stat info;
    enum hf_status status = parse_store_url(text, &url, &backend, error);
    if (status != HF_OK || !backend->local || url.host.size > 0)
        return status;
    status = absolute_path(backend, &url, path, error);
    if (status == HF_OK && path[0] && stat(path, &info) != 0 &&
        (errno == ENOENT || errno == ENOTDIR))
        status =
            error_set(error, HF_NOT_FOUND,
                      "there is no store at '%.120s'; check the name (the first command that "
                      "writes, such as 'holdfast run', creates the store)",
                      path);
    return status;
}
