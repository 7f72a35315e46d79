/* SPDX-License-Identifier: Apache-2.0 */
/* restore.c: raises epochs and sets barriers after a backup has been restored. It guards against
 * holders and tokens that the backup does not contain: new tokens are higher than any that were
 * issued, and nothing is granted while an unknown lease may be valid. */
#include "lock/restore.h"

#include "base/layout.h"
#include "lock/client_inside.h"
#include "lock/epoch.h"
#include "lock/epoch_scan.h"
#include "store/pages.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Namespaces ---------------------------------------------------------------------- */

struct found {
    size_t size;
    char name[NAME_BYTES_MAX + 1];
};

/* Adds a name, unless it is invalid as a namespace or already known. */
static enum hf_status note_namespace(struct map *names, struct view name,
                                     struct hf_error *error)
{
    void *old;
    if (name_check(name, NULL) != HF_OK || layout_namespace_reserved(name) ||
        map_get(names, name))
        return HF_OK;
    if (names->count >= NAMESPACES_MAX)
        return error_set(error, HF_UNAVAILABLE, "there are more than %d namespaces",
                         NAMESPACES_MAX);
    struct found *found = calloc(1, sizeof *found);
    if (!found)
        return error_no_memory(error);
    found->size = name.size;
    memcpy(found->name, name.data, name.size);
    if (map_put(names, (struct view){ found->name, found->size }, found, &old))
        return HF_OK;
    free(found);
    return error_no_memory(error);
}

static enum hf_status has_tables(struct store *store, struct view ns, struct mono_time deadline,
                                 bool *ret_has, struct hf_error *error)
{
    static const char *const folders[] = { LAYOUT_META_FOLDER, LAYOUT_INODE_FOLDER,
                                           LAYOUT_PATHS, LAYOUT_PAGES_FOLDER };
    *ret_has = false;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char prefix[NAME_BYTES_MAX + 32];
        snprintf(prefix, sizeof prefix, "%.*s%s", VIEW_ARGS(ns), folders[i]);
        struct list_call list = { .prefix = view_of(prefix), .max = 1, .deadline = deadline };
        enum hf_status status = store_list(store, &list);
        *ret_has = status == HF_OK && list.count > 0;
        if (status != HF_OK)
            *error = list.error;
        list_release(&list);
        if (status != HF_OK || *ret_has)
            return status;
    }
    return HF_OK;
}

/* A folder at the top of the store, "ns/", is a namespace if it has tables. */
static enum hf_status note_namespace_folder(struct store *store, struct map *names,
                                            struct view key, struct mono_time deadline,
                                            struct hf_error *error)
{
    bool has = false;
    struct view name = view_first(key, key.size - 1);
    if (name.size == 0 || name_check(name, NULL) != HF_OK || layout_namespace_reserved(name) ||
        map_get(names, name))
        return HF_OK;
    enum hf_status status = has_tables(store, name, deadline, &has, error);
    return status == HF_OK && has ? note_namespace(names, name, error) : status;
}

/* ".holdfast/epoch/NAME.json", or its copy. */
static enum hf_status note_epoch_object(struct map *names, struct view key,
                                        struct hf_error *error)
{
    struct view name = key;
    view_cut(&name, '/');
    view_cut(&name, '/');
    size_t end = strlen(".json");
    if (name.size <= end || !view_equal(view_from(name, name.size - end), VIEW(".json")))
        return HF_OK;
    return note_namespace(names, view_first(name, name.size - end), error);
}

/* Notes the namespaces in a listing: its folders if it has a delimiter, otherwise its keys. */
static enum hf_status note_listed_namespaces(struct store *store, struct map *names,
                                             struct list_call list, struct hf_error *error)
{
    bool folders = list.delimiter.size > 0;
    struct pages pages = { .list = list };
    enum hf_status status = HF_OK;
    while (status == HF_OK && pages_next(&pages, store))
        for (size_t i = 0; i < pages.list.count; i++) {
            const struct list_entry *entry = &pages.list.entries[i];
            if (!folders)
                status = note_epoch_object(names, entry->key, error);
            else if (entry->is_prefix)
                status = note_namespace_folder(store, names, entry->key, list.deadline, error);
            if (status != HF_OK)
                break;
        }
    return pages_end(&pages, status, error);
}

enum hf_status restore_namespaces(struct store *store, const struct namespace_walk *walk,
                                  struct hf_error *error)
{
    struct map names = MAP_INIT;
    enum hf_status status = HF_OK;
    const struct list_call lists[] = {
        { .prefix = VIEW(LAYOUT_EPOCH_FOLDER), .deadline = walk->deadline },
        { .prefix = VIEW(LAYOUT_EPOCH_COPY_FOLDER), .deadline = walk->deadline },
        { .delimiter = VIEW("/"), .deadline = walk->deadline },
    };
    for (size_t i = 0; i < walk->known_count; i++)
        if (status == HF_OK)
            status = note_namespace(&names, walk->known[i], error);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (status == HF_OK)
            status = note_listed_namespaces(store, &names, lists[i], error);
    struct found *found;
    while ((found = map_seek(&names, VIEW(""), /* beyond */ false))) {
        if (status == HF_OK)
            status = walk->each(walk->argument, found->name, error);
        map_take(&names, (struct view){ found->name, found->size });
        free(found);
    }
    map_release(&names);
    return status;
}

/* ---- Epochs and barriers ------------------------------------------------------------- */

/* Scans the bucket if the epoch cannot be read, or if `always` is set. */
static enum hf_status check_epoch(struct hf_client *client, bool always,
                                  struct epoch_findings *ret_sight, struct hf_error *error)
{
    struct view ns = view_of(client->space.ns);
    struct epoch_findings sight = { .known = true };
    struct epoch_scan shown = { 0 };
    enum hf_status status =
        epoch_read(client->store, ns, client_deadline(client), &sight.epoch, error);
    if (status == HF_NOT_FOUND || status == HF_CORRUPT) {
        sight.known = false;
        status = HF_OK;
    }
    if (status == HF_OK && (always || !sight.known)) {
        status = epoch_scan_tables(client->store, ns, /* briefly */ false,
                                   (struct mono_time){ 0 }, &shown, error);
        if (status == HF_OK)
            status = epoch_scan_fences(client->store, ns, &shown, error);
    }
    sight.shown = shown.token;
    sight.lost = !sight.known && shown.used;
    if (status == HF_OK)
        *ret_sight = sight;
    return status;
}

enum hf_status restore_check_epoch(struct hf_client *client, struct epoch_findings *ret_sight,
                                   struct hf_error *error)
{
    return check_epoch(client, /* always */ false, ret_sight, error);
}

enum hf_status restore_repair(struct hf_client *client, struct epoch_findings *ret_sight,
                              uint64_t *ret_epoch, struct hf_error *error)
{
    client_active(client);
    enum hf_status status = check_epoch(client, /* always */ true, ret_sight, error);
    if (status != HF_OK)
        return status;
    uint64_t epoch = ret_sight->known ? ret_sight->epoch : 0, shown = ret_sight->shown >> 32;
    if (ret_sight->lost) /* purged tables with higher tokens may have left no trace */
        epoch = shown + RESTORE_EPOCHS;
    else if (shown > epoch)
        epoch = shown + 1;
    struct epoch_ref ref = epoch_of_tables(&client->space, client_deadline(client));
    return epoch_rebuild(&ref, epoch, ret_epoch, error);
}

enum hf_status restore_epoch(struct hf_client *client, uint64_t *ret_epoch,
                             struct hf_error *error)
{
    struct epoch_findings sight;
    struct epoch_ref ref = epoch_of_tables(&client->space, client_deadline(client));
    client_active(client);
    enum hf_status status = epoch_raise_restored(&ref, RESTORE_EPOCHS, ret_epoch, error);
    return status == HF_CORRUPT ? restore_repair(client, &sight, ret_epoch, error) : status;
}

enum hf_status restore_table(struct hf_client *client, struct view key, uint64_t epoch,
                             struct span barrier, const char *by, struct hf_error *error)
{
    char id[NONCE_SIZE + 1];
    struct table_ref *ref;
    struct request request, *requests[] = { &request };
    client_active(client);
    enum hf_status status = table_ref_take(client, key, &ref, error);
    if (status != HF_OK)
        return status;
    env_random_hex(client->env, NONCE_SIZE, id);
    struct lease_request wanted = { .id = view_of(id),
                                    .holder = view_of(by),
                                    .wish.ttl = barrier };
    request_init(&request, ref, TABLE_BARRIER, (struct mono_time){ 0 });
    request.table.wanted = &wanted;
    request.table.id = wanted.id;
    request.table.epoch = epoch;
    status = table_ref_ask(ref, requests, 1);
    *error = request.op.error;
    table_ref_drop(ref);
    return status;
}
