/* SPDX-License-Identifier: Apache-2.0 */
/* observe_watch.c: reports how the leases changed between two reads of the store. */
#include "api/lease_info.h"
#include "base/options.h"
#include "lock/server.h"

#include <stdio.h>
#include <stdlib.h>

/* The last known state of a lease or a waiter. */
struct known {
    uint64_t round;
    struct hf_lease_info info; /* as of its last change */
    struct arena arena;        /* for its strings */
    size_t id_size;
    char id[]; /* the key of its table, then its id */
};

struct hf_watch {
    struct hf_list_options options;
    struct table_reader look;
    struct map known; /* of struct known */
    uint64_t round;
    char *start;
};

/* One read. */
struct watching {
    struct hf_watch *watch;
    hf_each_change *each;
    void *argument;
    bool stopped;
    struct hf_error why; /* of a list at a server */
};

static struct view id_of(const struct known *known)
{
    return (struct view){ known->id, known->id_size };
}

/* A new entry; NULL if memory runs out. */
static struct known *known_new(struct hf_watch *watch, struct view id)
{
    void *old;
    struct known *known = calloc(1, sizeof *known + id.size);
    if (!known)
        return NULL;
    known->id_size = id.size;
    memcpy(known->id, id.data, id.size);
    known->arena = ARENA_INIT;
    if (map_put(&watch->known, id_of(known), known, &old))
        return known;
    free(known);
    return NULL;
}

static void known_free(struct hf_watch *watch, struct known *known)
{
    map_take(&watch->known, id_of(known));
    arena_release(&known->arena);
    free(known);
}

/* ---- Changes ------------------------------------------------------------------------- */

/* A waiter that became a lease is reported as granted. A lease past its end is reported as overdue,
 * and later as over or as renewed. Other renewals, and moves in the queue, are not changes.
 * `before` is NULL for a new entry. */
static enum hf_change change_of(const struct hf_lease_info *before,
                                const struct hf_lease_info *now)
{
    bool same_kind = before && (before->place > 0) == (now->place > 0);
    if (same_kind && (now->place > 0 || before->state == now->state))
        return HF_CHANGE_NONE;
    if (now->place > 0)
        return HF_CHANGE_WAITING;
    if (now->state == HF_LEASE_OVERDUE)
        return HF_CHANGE_OVERDUE;
    if (now->state == HF_LEASE_OVER)
        return HF_CHANGE_OVER;
    return same_kind ? HF_CHANGE_RENEWED : HF_CHANGE_GRANTED;
}

static enum hf_status report_change(struct watching *watching, enum hf_change change,
                                    const struct hf_lease_info *info)
{
    watching->stopped = !watching->each(watching->argument, change, info);
    return watching->stopped ? HF_CANCELLED : HF_OK;
}

/* Takes ownership of the arena of a new entry, or frees it. */
static enum hf_status note_change(struct watching *watching, struct view id,
                                  const struct hf_lease_info *info, struct arena *arena,
                                  struct hf_error *error)
{
    struct hf_watch *watch = watching->watch;
    struct known *known = map_get(&watch->known, id);
    enum hf_change change = change_of(known ? &known->info : NULL, info);
    if (!known)
        known = known_new(watch, id);
    if (!known) {
        arena_release(arena);
        return error_no_memory(error);
    }
    known->round = watch->round;
    enum hf_status status = report_change(watching, change, info);
    if (change == HF_CHANGE_NONE) {
        arena_release(arena);
    } else {
        arena_release(&known->arena);
        known->arena = *arena;
        known->info = *info;
    }
    return status;
}

static enum hf_status watch_lease(void *argument, const struct table_snapshot *sight,
                                  const struct lease *lease, size_t place,
                                  struct hf_error *error)
{
    struct watching *watching = argument;
    char space[KEY_BYTES_MAX + HOLDER_BYTES_MAX + 2];
    struct arena arena = ARENA_INIT;
    struct hf_lease_info info;
    if ((place == 0 && lease->status != LEASE_ACTIVE) ||
        !lease_starts_with(lease, view_of(watching->watch->start)))
        return HF_OK;
    int size =
        snprintf(space, sizeof space, "%.*s %.*s", VIEW_ARGS(sight->key), VIEW_ARGS(lease->id));
    struct view id = { space, (size_t)size < sizeof space ? (size_t)size : sizeof space - 1 };
    if (!lease_info_fill(&arena, sight, lease, place, &info)) {
        arena_release(&arena);
        return error_no_memory(error);
    }
    return note_change(watching, id, &info, &arena, error);
}

/* The leases of a table that cannot be read may still be held. */
static void keep_known(struct hf_watch *watch, struct view table)
{
    struct known *known = map_seek(&watch->known, table, /* beyond */ false);
    while (known && view_starts_with(id_of(known), table)) {
        if (view_equal(view_of(known->info.table), table))
            known->round = watch->round;
        known = map_seek(&watch->known, id_of(known), /* beyond */ true);
    }
}

static enum hf_status watch_table(void *argument, const struct table_snapshot *sight,
                                  struct hf_error *error)
{
    struct watching *watching = argument;
    const struct hf_list_options *options = &watching->watch->options;
    enum hf_status status = list_proceeds(options, watching->argument, error);
    if (status != HF_OK)
        return status;
    if (sight->table)
        return visit_leases(sight, watch_lease, watching, error);
    keep_known(watching->watch, sight->key);
    return options->damaged
               ? list_damaged(options, watching->argument, sight->key, &sight->error, error)
               : HF_OK;
}

/* A server tells a lease from others, and from the waiter that it was, by a label. */
static bool watch_served(void *argument, const struct hf_lease_info *lease)
{
    struct watching *watching = argument;
    struct hf_lease_info info = *lease;
    struct arena arena = ARENA_INIT;
    char id[HF_SCOPE_TEXT_MAX + HOLDER_BYTES_MAX + 2];
    snprintf(id, sizeof id, "%.*s %.*s", HF_SCOPE_TEXT_MAX,
             info.scope_count ? info.scopes[0] : "", HOLDER_BYTES_MAX, info.id);
    if (!lease_info_keep(&arena, &info)) {
        arena_release(&arena);
        watching->why.status = error_no_memory(&watching->why);
    } else {
        note_change(watching, view_of(id), &info, &arena, &watching->why);
    }
    return watching->why.status == HF_OK && !watching->stopped;
}

static enum hf_status read_served(struct watching *watching, struct hf_error *error)
{
    struct hf_watch *watch = watching->watch;
    struct server_list list = { .client = watch->look.client,
                                .start = view_of(watch->start),
                                .each = watch_served,
                                .argument = watching };
    enum hf_status status = list_proceeds(&watch->options, watching->argument, error);
    if (status == HF_OK)
        status = client_server(list.client)->list(&list, error);
    if (status != HF_OK || watching->stopped || watching->why.status == HF_OK)
        return status;
    *error = watching->why;
    return error->status;
}

/* Reports the entries that this read did not find. */
static void report_gone(struct watching *watching)
{
    struct hf_watch *watch = watching->watch;
    struct known *known = map_seek(&watch->known, VIEW(""), /* beyond */ false);
    while (known && !watching->stopped) {
        struct known *next = map_seek(&watch->known, id_of(known), /* beyond */ true);
        if (known->round != watch->round) {
            report_change(watching, known->info.place > 0 ? HF_CHANGE_LEFT : HF_CHANGE_ENDED,
                          &known->info);
            known_free(watch, known);
        }
        known = next;
    }
}

/* ---- The calls ----------------------------------------------------------------------- */

enum hf_status hf_watch_new(struct hf_client *client, const char *start,
                            const struct hf_list_options *options, struct hf_watch **ret_watch,
                            struct hf_error *error)
{
    struct hf_list_options used = HF_LIST_OPTIONS;
    struct hf_error why;
    if (ret_watch)
        *ret_watch = NULL;
    if (ERROR_IF_NULL(&why, client, start, ret_watch) != HF_OK ||
        READ_OPTIONS(HF_LIST_OPTIONS, options, &used, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    struct hf_watch *watch = calloc(1, sizeof *watch);
    char *copy = strdup(start);
    if (!watch || !copy) {
        free(watch);
        free(copy);
        return error_no_memory(error);
    }
    client_keep(client);
    watch->options = used;
    watch->start = copy;
    watch->known = MAP_INIT;
    table_reader_init(&watch->look, client);
    watch->look.remembers = true;
    *ret_watch = watch;
    return error_clear(error);
}

void hf_watch_free(struct hf_watch *watch)
{
    struct known *known;
    if (!watch)
        return;
    while ((known = map_seek(&watch->known, VIEW(""), /* beyond */ false)) != NULL)
        known_free(watch, known);
    map_release(&watch->known);
    table_reader_release(&watch->look);
    client_drop(watch->look.client);
    free(watch->start);
    free(watch);
}

enum hf_status hf_watch_look(struct hf_watch *watch, hf_each_change *each, void *argument,
                             struct hf_error *error)
{
    struct watching watching = { .watch = watch, .each = each, .argument = argument };
    struct hf_error why;
    if (ERROR_IF_NULL(error, watch) != HF_OK || error_if_none(error, "each", each) != HF_OK)
        return HF_INVALID;
    watch->round++;
    enum hf_status status = client_server(watch->look.client)
                                ? read_served(&watching, &why)
                                : table_reader_list(&watch->look, view_of(watch->start),
                                                    watch_table, &watching, &why);
    if (status == HF_OK && !watching.stopped)
        report_gone(&watching);
    return error_tell(error, watching.stopped ? HF_OK : status, &why);
}
