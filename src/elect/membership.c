/* SPDX-License-Identifier: Apache-2.0 */
/* membership.c: this process's membership in a group, which any thread may query. A task writes
 * the heartbeats in the background. Callers get copies of the last listing, so they never wait for
 * the store. */
#include "elect/membership.h"

#include <stdlib.h>

/* A failed heartbeat is due again after a quarter of the interval. */
#define LOOKS_PER_BEAT 4

void name_list_release(struct name_list *list)
{
    arena_release(&list->arena);
    *list = (struct name_list){ .arena = ARENA_INIT };
}

static enum hf_status copy_names(const struct view *names, size_t count,
                                 struct name_list *ret_list, struct hf_error *error)
{
    struct name_list list = { .arena = ARENA_INIT };
    list.names = arena_take(&list.arena, (count + 1) * sizeof *list.names);
    while (list.names && list.count < count) {
        struct view copy = arena_copy(&list.arena, names[list.count]);
        if (!copy.data)
            break;
        list.names[list.count++] = copy;
    }
    if (!list.names || list.count < count) {
        name_list_release(&list);
        return error_no_memory(error);
    }
    *ret_list = list;
    return HF_OK;
}

/* ---- Asking the store ---------------------------------------------------------------- */

/* Publishes the result of the last listing. If out of memory, the previous result stays. */
static void publish_present(struct membership *membership)
{
    struct name_list list, before;
    if (copy_names(membership->roster.present, membership->roster.present_count, &list,
                   /* error */ NULL) != HF_OK)
        return;
    env_mutex_lock(&membership->shared.mutex);
    before = membership->shared.present;
    membership->shared.present = list;
    env_mutex_unlock(&membership->shared.mutex);
    name_list_release(&before);
}

enum hf_status membership_keep(struct membership *membership, struct hf_error *error)
{
    env_mutex_lock(&membership->calls);
    const struct view *before = membership->roster.present;
    enum hf_status status = roster_keep(&membership->roster, env_now(membership->env), error);
    if (membership->roster.present != before)
        publish_present(membership);
    env_mutex_unlock(&membership->calls);
    return status;
}

enum hf_status membership_look(struct membership *membership, struct hf_error *error)
{
    env_mutex_lock(&membership->calls);
    enum hf_status status = roster_look(&membership->roster, error);
    if (status == HF_OK)
        publish_present(membership);
    env_mutex_unlock(&membership->calls);
    return status;
}

/* ---- Joining and leaving ------------------------------------------------------------- */

static void send_beats(void *argument)
{
    struct membership *membership = argument;
    struct env *env = membership->env;
    const struct span pause = SPAN_US(membership->roster.beat.us / LOOKS_PER_BEAT);
    struct hf_error ignored;
    env_mutex_lock(&membership->shared.mutex);
    while (!membership->shared.leaving) {
        env_mutex_unlock(&membership->shared.mutex);
        membership_keep(membership, &ignored);
        struct mono_time next = mono_add(env_now(env), pause);
        env_mutex_lock(&membership->shared.mutex);
        while (
            !membership->shared.leaving &&
            env_cond_wait_until(&membership->shared.changed, &membership->shared.mutex, next))
            continue;
    }
    env_mutex_unlock(&membership->shared.mutex);
}

static void membership_release(struct membership *membership)
{
    name_list_release(&membership->shared.present);
    name_list_release(&membership->shared.told);
    env_cond_release(&membership->shared.changed);
    env_mutex_release(&membership->shared.mutex);
    env_mutex_release(&membership->calls);
}

enum hf_status membership_join(struct membership *membership, struct store *store,
                               const struct roster_options *options, bool by_hand,
                               struct hf_error *error)
{
    struct env *env = store->env;
    *membership = (struct membership){ .env = env };
    env_mutex_init(env, &membership->calls);
    env_mutex_init(env, &membership->shared.mutex);
    env_cond_init(env, &membership->shared.changed);
    enum hf_status status = roster_join(&membership->roster, store, options, error);
    if (status != HF_OK) {
        membership_release(membership);
        return status;
    }
    publish_present(membership);
    if (!by_hand)
        status = env_task_start(env, send_beats, membership, &membership->task, error);
    if (status != HF_OK)
        membership_leave(membership);
    return status;
}

/* Ends the heartbeats. */
static void stop_beats(struct membership *membership)
{
    env_mutex_lock(&membership->shared.mutex);
    membership->shared.leaving = true;
    env_cond_signal(&membership->shared.changed);
    env_mutex_unlock(&membership->shared.mutex);
    if (membership->task)
        env_task_join(membership->env, membership->task);
}

void membership_leave(struct membership *membership)
{
    stop_beats(membership);
    roster_leave(&membership->roster);
    membership_release(membership);
}

void membership_detach(struct membership *membership)
{
    stop_beats(membership);
    roster_release(&membership->roster);
    membership_release(membership);
}

/* ---- The others ---------------------------------------------------------------------- */

enum hf_status membership_present(struct membership *membership, struct name_list *ret_list,
                                  struct hf_error *error)
{
    env_mutex_lock(&membership->shared.mutex);
    enum hf_status status = copy_names(membership->shared.present.names,
                                       membership->shared.present.count, ret_list, error);
    env_mutex_unlock(&membership->shared.mutex);
    return status;
}

/* Both lists are in byte order and are traversed in parallel. */
static size_t compare_lists(const struct name_list *told, const struct name_list *now,
                            struct membership_change *changes)
{
    size_t count = 0, i = 0, j = 0;
    while (i < told->count || j < now->count) {
        int order = i == told->count  ? 1
                    : j == now->count ? -1
                                      : view_compare(told->names[i], now->names[j]);
        if (order < 0)
            changes[count++] = (struct membership_change){ told->names[i], false };
        if (order > 0)
            changes[count++] = (struct membership_change){ now->names[j], true };
        i += order <= 0;
        j += order >= 0;
    }
    return count;
}

static enum hf_status find_changes(const struct name_list *told, const struct name_list *now,
                                   struct arena *arena, struct membership_change **ret_changes,
                                   size_t *ret_count, struct hf_error *error)
{
    struct membership_change *changes =
        arena_take(arena, (told->count + now->count + 1) * sizeof *changes);
    if (!changes)
        return error_no_memory(error);
    size_t count = compare_lists(told, now, changes);
    for (size_t i = 0; i < count; i++) {
        changes[i].name = arena_copy(arena, changes[i].name);
        if (!changes[i].name.data)
            return error_no_memory(error);
    }
    *ret_changes = changes;
    *ret_count = count;
    return HF_OK;
}

enum hf_status membership_changes(struct membership *membership, struct arena *arena,
                                  struct membership_change **ret_changes, size_t *ret_count,
                                  struct hf_error *error)
{
    struct name_list now, told;
    enum hf_status status = membership_present(membership, &now, error);
    if (status != HF_OK)
        return status;
    env_mutex_lock(&membership->shared.mutex);
    told = membership->shared.told;
    status = find_changes(&told, &now, arena, ret_changes, ret_count, error);
    if (status == HF_OK)
        membership->shared.told = now;
    env_mutex_unlock(&membership->shared.mutex);
    name_list_release(status == HF_OK ? &told : &now);
    return status;
}
