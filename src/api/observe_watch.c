/* observe_watch.c: what changes between two looks at the leases. */
#include "api/lease_info.h"
#include "base/options.h"

#include <stdio.h>
#include <stdlib.h>

/* What was known of a lease or a waiter at the last look. */
struct known {
    uint64_t round;
    struct hf_lease_info info; /* as it was when it last changed */
    struct arena arena;        /* of its texts */
    size_t id_size;
    char id[]; /* the key of its table, and its own */
};

struct hf_watch {
    struct hf_list_options options;
    struct look look;
    struct map known; /* of struct known */
    uint64_t round;
    char *start;
};

/* One look. */
struct watching {
    struct hf_watch *watch;
    hf_each_change *each;
    void *argument;
    bool enough;
};

static struct view id_of(const struct known *known)
{
    return (struct view){ known->id, known->id_size };
}

/* An entry for something that was not there before; NULL without memory. */
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

static void forget(struct hf_watch *watch, struct known *known)
{
    map_take(&watch->known, id_of(known));
    arena_release(&known->arena);
    free(known);
}

/* ---- What changed -------------------------------------------------------------------- */

/* A waiter that turned into a lease is granted; one whose time is past is overdue, then over, or
 * renewed after all. Other renewals and places in line are no change. `before` is NULL for what is
 * new. */
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

static enum hf_status give_change(struct watching *watching, enum hf_change change,
                                  const struct hf_lease_info *info)
{
    watching->enough = !watching->each(watching->argument, change, info);
    return watching->enough ? HF_CANCELLED : HF_OK;
}

/* Takes over the arena of what is new, or frees it. */
static enum hf_status note(struct watching *watching, struct view id,
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
    enum hf_status status = give_change(watching, change, info);
    if (change == HF_CHANGE_NONE) {
        arena_release(arena);
    } else {
        arena_release(&known->arena);
        known->arena = *arena;
        known->info = *info;
    }
    return status;
}

static enum hf_status take_one(struct watching *watching, const struct sight *sight,
                               const struct lease *lease, size_t place, struct hf_error *error)
{
    char space[KEY_BYTES_MAX + HOLDER_BYTES_MAX + 2];
    struct arena arena = ARENA_INIT;
    struct hf_lease_info info;
    if (!look_matches(lease, view_of(watching->watch->start)))
        return HF_OK;
    int size =
        snprintf(space, sizeof space, "%.*s %.*s", VIEW_ARGS(sight->key), VIEW_ARGS(lease->id));
    struct view id = { space, (size_t)size < sizeof space ? (size_t)size : sizeof space - 1 };
    if (!lease_info_fill(&arena, sight, lease, place, &info)) {
        arena_release(&arena);
        return error_no_memory(error);
    }
    return note(watching, id, &info, &arena, error);
}

static enum hf_status take_table(void *argument, const struct sight *sight,
                                 struct hf_error *error)
{
    struct watching *watching = argument;
    const struct hf_list_options *options = &watching->watch->options;
    const struct lease_table *table = sight->table;
    enum hf_status status = HF_OK;
    if (options->proceed && !options->proceed(watching->argument))
        return error_set(error, HF_CANCELLED, "stopped by the caller");
    if (!table && options->damaged) {
        char key[KEY_BYTES_MAX + 1];
        snprintf(key, sizeof key, "%.*s", VIEW_ARGS(sight->key));
        options->damaged(watching->argument, key, &sight->error);
    }
    for (size_t i = 0; table && i < table->lease_count && status == HF_OK; i++)
        if (table->leases[i]->status == LEASE_ACTIVE)
            status = take_one(watching, sight, table->leases[i], /* place */ 0, error);
    for (size_t i = 0; table && i < table->waiter_count && status == HF_OK; i++)
        status = take_one(watching, sight, table->waiters[i].wanted, i + 1, error);
    return status;
}

/* Those that this look did not find. */
static void give_gone(struct watching *watching)
{
    struct hf_watch *watch = watching->watch;
    struct known *known = map_seek(&watch->known, VIEW(""), /* beyond */ false);
    while (known && !watching->enough) {
        struct known *next = map_seek(&watch->known, id_of(known), /* beyond */ true);
        if (known->round != watch->round) {
            give_change(watching, known->info.place > 0 ? HF_CHANGE_LEFT : HF_CHANGE_ENDED,
                        &known->info);
            forget(watch, known);
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
    if (ret_watch)
        *ret_watch = NULL;
    if (ERROR_IF_NULL(error, client, start, ret_watch) != HF_OK)
        return HF_INVALID;
    enum hf_status status =
        read_caller_options("HF_LIST_OPTIONS", options, &used, sizeof used, error);
    if (status != HF_OK)
        return status;
    struct hf_watch *watch = calloc(1, sizeof *watch);
    char *copy = strdup(start);
    if (!watch || !copy) {
        free(watch);
        free(copy);
        return error_no_memory(error);
    }
    watch->options = used;
    watch->start = copy;
    watch->known = MAP_INIT;
    look_init(&watch->look, client);
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
        forget(watch, known);
    map_release(&watch->known);
    look_release(&watch->look);
    free(watch->start);
    free(watch);
}

enum hf_status hf_watch_look(struct hf_watch *watch, hf_each_change *each, void *argument,
                             struct hf_error *error)
{
    struct watching watching = { .watch = watch, .each = each, .argument = argument };
    struct hf_error why;
    if (ERROR_IF_NULL(error, watch) != HF_OK)
        return HF_INVALID;
    if (!each)
        return error_set(error, HF_INVALID, "each must not be NULL");
    watch->round++;
    enum hf_status status =
        look_around(&watch->look, view_of(watch->start), take_table, &watching, &why);
    if (status == HF_OK)
        give_gone(&watching);
    return error_tell(error, watching.enough ? HF_OK : status, &why);
}
