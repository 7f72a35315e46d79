#include "lock/restore.h"

#include "base/layout.h"
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

/* Notes a name, unless it cannot be a namespace or is there already. */
static enum hf_status note(struct map *names, struct view name, struct hf_error *error)
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

/* Whether there is a key that starts with ns and this. */
static enum hf_status has_keys(struct store *store, struct view ns, const char *rest,
                               struct mono_time deadline, bool *ret_has, struct hf_error *error)
{
    char prefix[NAME_BYTES_MAX + 32];
    snprintf(prefix, sizeof prefix, "%.*s%s", VIEW_ARGS(ns), rest);
    struct list_call list = { .prefix = view_of(prefix), .max = 1, .deadline = deadline };
    enum hf_status status = store_list(store, &list);
    if (status == HF_OK)
        *ret_has = list.count > 0;
    else
        *error = list.error;
    list_release(&list);
    return status;
}

static enum hf_status has_tables(struct store *store, struct view ns, struct mono_time deadline,
                                 bool *ret_has, struct hf_error *error)
{
    static const char *const places[] = { LAYOUT_META_FOLDER, LAYOUT_INODE_FOLDER,
                                          LAYOUT_PATHS };
    enum hf_status status = HF_OK;
    *ret_has = false;
    for (size_t i = 0; i < 3 && status == HF_OK && !*ret_has; i++)
        status = has_keys(store, ns, places[i], deadline, ret_has, error);
    return status;
}

/* A folder at the top of the store, "ns/", is a namespace when there are tables in it. */
static enum hf_status note_folder(struct store *store, struct map *names, struct view key,
                                  struct mono_time deadline, struct hf_error *error)
{
    bool has = false;
    struct view name = view_first(key, key.size - 1);
    if (name.size == 0 || name_check(name, NULL) != HF_OK || layout_namespace_reserved(name) ||
        map_get(names, name))
        return HF_OK;
    enum hf_status status = has_tables(store, name, deadline, &has, error);
    return status == HF_OK && has ? note(names, name, error) : status;
}

/* ".holdfast/epoch/NAME.json", or its copy. */
static enum hf_status note_epoch(struct map *names, struct view key, struct hf_error *error)
{
    struct view name = key;
    view_cut(&name, '/');
    view_cut(&name, '/');
    size_t end = strlen(".json");
    if (name.size <= end || !view_equal(view_from(name, name.size - end), VIEW(".json")))
        return HF_OK;
    return note(names, view_first(name, name.size - end), error);
}

/* Goes through a listing: with a delimiter through its folders, else through its keys. */
static enum hf_status walk(struct store *store, struct map *names, struct list_call list,
                           struct hf_error *error)
{
    bool folders = list.delimiter.size > 0;
    struct pages pages = { .list = list };
    enum hf_status status = HF_OK;
    while (status == HF_OK && pages_next(&pages, store))
        for (size_t i = 0; i < pages.list.count && status == HF_OK; i++) {
            const struct list_entry *entry = &pages.list.entries[i];
            if (!folders)
                status = note_epoch(names, entry->key, error);
            else if (entry->is_prefix)
                status = note_folder(store, names, entry->key, list.deadline, error);
        }
    return pages_end(&pages, status, error);
}

enum hf_status restore_namespaces(struct store *store, const struct view *known,
                                  size_t known_count, struct mono_time deadline,
                                  enum hf_status (*each)(void *argument, const char *ns,
                                                         struct hf_error *error),
                                  void *argument, struct hf_error *error)
{
    struct map names = MAP_INIT;
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < known_count && status == HF_OK; i++)
        status = note(&names, known[i], error);
    const struct list_call lists[] = {
        { .prefix = VIEW(LAYOUT_EPOCH_FOLDER), .deadline = deadline },
        { .prefix = VIEW(LAYOUT_EPOCH_COPY_FOLDER), .deadline = deadline },
        { .delimiter = VIEW("/"), .deadline = deadline },
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists && status == HF_OK; i++)
        status = walk(store, &names, lists[i], error);
    struct found *found;
    while ((found = map_seek(&names, VIEW(""), /* beyond */ false))) {
        if (status == HF_OK)
            status = each(argument, found->name, error);
        map_take(&names, (struct view){ found->name, found->size });
        free(found);
    }
    map_release(&names);
    return status;
}

/* ---- Epochs and barriers ------------------------------------------------------------- */

static struct mono_time deadline_of(const struct hf_client *client)
{
    return mono_add(env_now(client->env), REQUEST_TIME);
}

/* The epoch that the highest token is of which anything in the bucket shows. */
static enum hf_status scan(struct hf_client *client, struct epoch_scan *scan,
                           struct hf_error *error)
{
    struct view ns = view_of(client->space.ns);
    enum hf_status status = epoch_scan_tables(client->store, ns, /* briefly */ false,
                                              (struct mono_time){ 0 }, scan, error);
    return status == HF_OK ? epoch_scan_fences(client->store, ns, scan, error) : status;
}

/* What things show is looked for where nothing else tells, or always. */
static enum hf_status look(struct hf_client *client, bool always,
                           struct restore_sight *ret_sight, struct hf_error *error)
{
    struct restore_sight sight = { .known = true };
    struct epoch_scan shown = { 0 };
    enum hf_status status = epoch_read(client->store, view_of(client->space.ns),
                                       deadline_of(client), &sight.epoch, error);
    if (status == HF_NOT_FOUND || status == HF_CORRUPT) {
        sight.known = false;
        status = HF_OK;
    }
    if (status == HF_OK && (always || !sight.known))
        status = scan(client, &shown, error);
    sight.shown = shown.token;
    sight.lost = !sight.known && shown.used;
    if (status == HF_OK)
        *ret_sight = sight;
    return status;
}

enum hf_status restore_look(struct hf_client *client, struct restore_sight *ret_sight,
                            struct hf_error *error)
{
    return look(client, /* always */ false, ret_sight, error);
}

enum hf_status restore_repair(struct hf_client *client, struct restore_sight *ret_sight,
                              uint64_t *ret_epoch, struct hf_error *error)
{
    client_active(client);
    enum hf_status status = look(client, /* always */ true, ret_sight, error);
    if (status != HF_OK)
        return status;
    uint64_t epoch = ret_sight->known ? ret_sight->epoch : 0, shown = ret_sight->shown >> 32;
    if (ret_sight->lost) /* what was purged shows nothing any more */
        epoch = shown + RESTORE_EPOCHS;
    else if (shown > epoch)
        epoch = shown + 1;
    return epoch_rebuild(client->store, &client->clock, view_of(client->space.ns), epoch,
                         deadline_of(client), ret_epoch, error);
}

enum hf_status restore_epoch(struct hf_client *client, uint64_t *ret_epoch,
                             struct hf_error *error)
{
    struct restore_sight sight;
    client_active(client);
    enum hf_status status =
        epoch_raise_restored(client->store, &client->clock, view_of(client->space.ns),
                             RESTORE_EPOCHS, deadline_of(client), ret_epoch, error);
    return status == HF_CORRUPT ? restore_repair(client, &sight, ret_epoch, error) : status;
}

enum hf_status restore_table(struct hf_client *client, struct view key, uint64_t epoch,
                             struct span barrier, const char *by, struct hf_error *error)
{
    char id[NONCE_SIZE + 1];
    struct place *place;
    struct request request, *requests[] = { &request };
    client_active(client);
    enum hf_status status = place_take(client, key, &place, error);
    if (status != HF_OK)
        return status;
    env_random_hex(client->env, NONCE_SIZE, id);
    struct lease wanted = { .id = view_of(id), .holder = view_of(by), .ttl = barrier };
    request_init(&request, place, TABLE_BARRIER, (struct mono_time){ 0 });
    request.table.wanted = &wanted;
    request.table.id = wanted.id;
    request.table.epoch = epoch;
    status = place_ask(place, requests, 1);
    *error = request.op.error;
    place_drop(place);
    return status;
}
