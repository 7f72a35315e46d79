/* SPDX-License-Identifier: Apache-2.0 */
/* places.c: copies objects given by URL to temporary files, and files to objects. A new object
 * replaces only the version that was there when the command began, so two commands that write the
 * same object cannot overwrite each other unnoticed. */
#include "cli/places.h"

#include "cli/config/config.h"
#include "cli/output/progress.h"
#include "file/new_file.h"

#include <stdio.h>
#include <unistd.h>

/* ---- Stores -------------------------------------------------------------------------- */

struct place_store {
    struct view url; /* absolute */
    struct hf_store *store;
    struct place_store *next;
};

void places_close(struct places *places)
{
    for (struct place_store *at = places->stores; at; at = at->next)
        hf_store_close(at->store);
    places->stores = NULL;
}

bool place_is_object(struct cli *cli, const char *text)
{
    struct view name = view_first(view_of(text), view_find(view_of(text), '#'));
    return hf_store_is_url(text) || (text[name.size] == '#' && config_has_store(cli, name));
}

/* Splits STORE#KEY. The store may also be the name of one in the configuration file. */
static enum hf_status place_split(struct cli *cli, const char *url,
                                  char ret_store[HF_STORE_URL_MAX], const char **ret_key)
{
    struct view whole = view_of(url), name = view_first(whole, view_find(whole, '#'));
    size_t key_size = name.size < whole.size ? whole.size - name.size - 1 : 0;
    if (hf_store_is_url(url) || !config_has_store(cli, name))
        return hf_store_url_split(url, ret_store, ret_key, &cli->error);
    if (key_size < 1 || key_size > HF_KEY_BYTES_MAX)
        return cli_invalid(cli,
                           "the key after '#' in '%.80s' must be 1 to %d bytes long, not %zu",
                           url, HF_KEY_BYTES_MAX, key_size);
    snprintf(ret_store, HF_STORE_URL_MAX, "%.*s", VIEW_ARGS(name));
    *ret_key = url + name.size + 1;
    return HF_OK;
}

/* Opens the store of an object, unless it is open already. */
static enum hf_status place_open(struct places *places, const char *url, bool must_exist,
                                 struct hf_store **ret_store, const char **ret_key)
{
    struct cli *cli = places->cli;
    char text[HF_STORE_URL_MAX];
    enum hf_status status = place_split(cli, url, text, ret_key);
    struct view absolute = view_of(text);
    if (status == HF_OK)
        status = cli_find_store(cli, &absolute);
    if (status != HF_OK)
        return status;
    for (struct place_store *at = places->stores; at; at = at->next)
        if (view_equal(at->url, absolute)) {
            *ret_store = at->store;
            return HF_OK;
        }
    struct place_store *opened = arena_take(&cli->arena, sizeof *opened);
    if (!opened)
        return error_no_memory(&cli->error);
    *opened = (struct place_store){ .url = absolute, .next = places->stores };
    status = cli_open_url(cli, absolute, /* coordinates */ false, must_exist, &opened->store);
    if (status != HF_OK)
        return status;
    places->stores = opened;
    *ret_store = opened->store;
    return HF_OK;
}

enum hf_status place_check(struct cli *cli, const char *url)
{
    char store[HF_STORE_URL_MAX];
    const char *key;
    return place_split(cli, url, store, &key);
}

/* ---- Reading ------------------------------------------------------------------------- */

/* The store reads all parts of the object with the ETag of the first one. */
static enum hf_status place_get(struct cli *cli, struct hf_store *store, const char *key,
                                int fd)
{
    struct hf_store_get_options options = HF_STORE_GET_OPTIONS;
    struct gauge gauge;
    gauge_start(&gauge, cli, view_of(key));
    options.progress = gauge_watch;
    options.progress_argument = &gauge;
    enum hf_status status =
        hf_store_get_file(store, key, fd, &options, /* info */ NULL, &cli->error);
    gauge_clear(&gauge);
    return status;
}

enum hf_status place_fetch(struct places *places, const char *url, int *ret_fd)
{
    struct cli *cli = places->cli;
    struct hf_store *store;
    const char *key;
    int fd = -1;
    enum hf_status status = place_open(places, url, /* must_exist */ true, &store, &key);
    if (status == HF_OK)
        status = temporary_file(&fd, &cli->error);
    if (status == HF_OK)
        status = place_get(cli, store, key, fd);
    if (status == HF_OK) {
        *ret_fd = fd;
        return HF_OK;
    }
    if (fd >= 0)
        close(fd);
    error_about(&cli->error, url);
    return status;
}

/* ---- Writing ------------------------------------------------------------------------- */

/* Reads two bytes, because only a get returns the ETag. For a range of one byte, s3rver sends the
 * whole object. */
#define PEEK_BYTES 2

static enum hf_status place_see_version(struct cli *cli, struct place_target *target)
{
    struct hf_store_get_options options = HF_STORE_GET_OPTIONS;
    void *data = NULL;
    size_t size;
    options.length = PEEK_BYTES;
    enum hf_status status = hf_store_get(target->store, target->key, PEEK_BYTES, &options,
                                         &data, &size, &target->info, &cli->error);
    hf_free(data);
    target->exists = status == HF_OK;
    return status == HF_NOT_FOUND ? HF_OK : status;
}

enum hf_status place_target_find(struct places *places, const char *url,
                                 struct place_target *ret_target)
{
    struct cli *cli = places->cli;
    struct place_target target = { .url = url, .info = HF_OBJECT_INFO };
    enum hf_status status =
        place_open(places, url, /* must_exist */ false, &target.store, &target.key);
    if (status == HF_OK &&
        hf_store_check_key(target.key, 0, /* force */ false, &cli->error) != HF_OK)
        status = cli_invalid(cli,
                             "this is an internal object of Holdfast, which '%s' never "
                             "writes; choose another key",
                             cli->command->path);
    if (status == HF_OK)
        status = place_see_version(cli, &target);
    if (status != HF_OK)
        error_about(&cli->error, url);
    else
        *ret_target = target;
    return status;
}

enum hf_status place_put(struct cli *cli, struct place_target *target, int fd)
{
    struct hf_store_put_options options = HF_STORE_PUT_OPTIONS;
    struct hf_object_info seen = target->info;
    struct gauge gauge;
    options.if_absent = !target->exists;
    options.if_match = target->exists ? seen.etag : NULL;
    gauge_start(&gauge, cli, view_of(target->key));
    options.progress = gauge_watch;
    options.progress_argument = &gauge;
    enum hf_status status =
        hf_store_put_file(target->store, target->key, fd, &options, &target->info, &cli->error);
    gauge_clear(&gauge);
    if (status == HF_CONFLICT || status == HF_NOT_FOUND)
        status = error_set(&cli->error, HF_CONFLICT,
                           "another client has written or removed the object meanwhile; it was "
                           "not replaced; run the command again");
    if (status != HF_OK)
        error_about(&cli->error, target->url);
    return status;
}
