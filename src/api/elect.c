/* SPDX-License-Identifier: Apache-2.0 */
/* elect.c: the calls of holdfast/elect.h: ranks, start times and cascades, which need no request,
 * and the members of a group. */
#include "base/options.h"
#include "elect/cascade.h"
#include "elect/ladder.h"
#include "elect/membership.h"
#include "lock/client.h"

#include <stdlib.h>

/* ---- Ranks --------------------------------------------------------------------------- */

/* A piece of work in the form that the ladder accepts, and the members as views. */
struct ranking {
    struct arena arena;
    struct work work;
    struct view *members;
};

static enum hf_status convert_parts(struct ranking *ranking, const struct hf_elect_work *given,
                                    struct hf_error *error)
{
    const size_t count = given->part_count;
    if (count > HF_ELECT_PARTS_MAX)
        return error_set(error, HF_INVALID, "at most %d writers can be given",
                         HF_ELECT_PARTS_MAX);
    if (count > 0 && !given->parts)
        return error_set(error, HF_INVALID, "parts must not be NULL");
    struct work_writer *writers = arena_take(&ranking->arena, (count + 1) * sizeof *writers);
    if (!writers)
        return error_no_memory(error);
    for (size_t i = 0; i < count; i++) {
        if (!given->parts[i].writer)
            return error_set(error, HF_INVALID, "parts[%zu].writer must not be NULL", i);
        writers[i] =
            (struct work_writer){ view_of(given->parts[i].writer), given->parts[i].sequence };
    }
    ranking->work = (struct work){ .level = given->level,
                                   .base = given->base > 0 ? given->base : CASCADE_BASE,
                                   .writers = writers,
                                   .writer_count = count };
    return work_sort(writers, count, error);
}

static enum hf_status convert_members(struct ranking *ranking, const char *const *members,
                                      size_t count, struct hf_error *error)
{
    enum hf_status status = error_if_null_among(error, "members", members, count);
    if (status != HF_OK)
        return status;
    ranking->members = arena_take(&ranking->arena, (count + 1) * sizeof *ranking->members);
    if (!ranking->members)
        return error_no_memory(error);
    for (size_t i = 0; i < count; i++)
        ranking->members[i] = view_of(members[i]);
    return HF_OK;
}

/* Call ranking_release even after a failure. */
static enum hf_status ranking_init(struct ranking *ranking, const struct hf_elect_work *given,
                                   struct hf_error *error)
{
    struct hf_elect_work work = HF_ELECT_WORK;
    *ranking = (struct ranking){ .arena = ARENA_INIT };
    enum hf_status status = READ_OPTIONS(HF_ELECT_WORK, given, &work, error);
    return status == HF_OK ? convert_parts(ranking, &work, error) : status;
}

static void compute_rank(const struct ranking *ranking, const struct view *members,
                         size_t count, struct view own, size_t *ret_rank, uint64_t *ret_score)
{
    *ret_rank = ladder_rank(members, count, own, &ranking->work);
    if (ret_score)
        *ret_score = ladder_score(own, &ranking->work);
}

enum hf_status hf_elect_rank(const struct hf_elect_work *work, const char *const *members,
                             size_t count, const char *own, size_t *ret_rank,
                             uint64_t *ret_score, struct hf_error *error)
{
    struct ranking ranking;
    if (ERROR_IF_NULL(error, own, ret_rank) != HF_OK ||
        (count > 0 && ERROR_IF_NULL(error, members) != HF_OK))
        return HF_INVALID;
    enum hf_status status = ranking_init(&ranking, work, error);
    if (status == HF_OK)
        status = convert_members(&ranking, members, count, error);
    if (status == HF_OK)
        compute_rank(&ranking, ranking.members, count, view_of(own), ret_rank, ret_score);
    arena_release(&ranking.arena);
    return status == HF_OK ? error_clear(error) : status;
}

enum hf_status hf_elect_order(const struct hf_elect_work *work, const char *const *members,
                              size_t count, struct hf_elect_place *ret_places,
                              struct hf_error *error)
{
    struct ranking ranking;
    if (count > 0 && ERROR_IF_NULL(error, members, ret_places) != HF_OK)
        return HF_INVALID;
    enum hf_status status = ranking_init(&ranking, work, error);
    if (status == HF_OK)
        status = convert_members(&ranking, members, count, error);
    size_t *order =
        status == HF_OK ? arena_take(&ranking.arena, (count + 1) * sizeof *order) : NULL;
    if (order) {
        ladder_order(ranking.members, count, &ranking.work, order);
        for (size_t i = 0; i < count; i++)
            ret_places[i] =
                (struct hf_elect_place){ order[i], ladder_score(ranking.members[order[i]],
                                                                &ranking.work) };
        error_clear(error);
    } else if (status == HF_OK) {
        status = error_no_memory(error);
    }
    arena_release(&ranking.arena);
    return status;
}

static struct span span_or_none(int64_t ms)
{
    return span_of_ms(ms > 0 ? ms : 0);
}

/* Rounded up, so no member starts early. */
int64_t hf_elect_starts_in_ms(size_t rank, int64_t step_ms, int64_t due_for_ms)
{
    return (ladder_left(rank, span_or_none(step_ms), span_or_none(due_for_ms)).us + 999) / 1000;
}

/* ---- Cascades ------------------------------------------------------------------------ */

unsigned hf_cascade_target(const struct hf_cascade *cascade, uint64_t base)
{
    return cascade ? cascade_target(cascade, base > 0 ? base : CASCADE_BASE) : 0;
}

void hf_cascade_added(struct hf_cascade *cascade, uint64_t count)
{
    if (cascade)
        cascade_added(cascade, count);
}

enum hf_status hf_cascade_completed(struct hf_cascade *cascade, unsigned level,
                                    struct hf_error *error)
{
    if (ERROR_IF_NULL(error, cascade) != HF_OK)
        return HF_INVALID;
    if (level < 1 || level >= CASCADE_LEVELS_MAX)
        return error_set(error, HF_INVALID, "level must be from 1 to %d, not %u",
                         CASCADE_LEVELS_MAX - 1, level);
    cascade_completed(cascade, level);
    return error_clear(error);
}

/* ---- The roster ---------------------------------------------------------------------- */

struct hf_elect_member {
    struct hf_client *client;
    struct membership membership;
};

/* The roster refuses a negative heartbeat interval. */
static struct span beat_of(int64_t beat_ms)
{
    return span_of_ms(beat_ms != 0 ? beat_ms : HF_ELECT_BEAT_MS);
}

enum hf_status hf_elect_join(struct hf_client *client, const char *group,
                             const struct hf_elect_options *options,
                             struct hf_elect_member **ret_member, struct hf_error *error)
{
    struct hf_elect_options used = HF_ELECT_OPTIONS;
    struct hf_error why;
    if (ret_member)
        *ret_member = NULL;
    if (ERROR_IF_NULL(&why, client, group, ret_member) != HF_OK ||
        READ_OPTIONS(HF_ELECT_OPTIONS, options, &used, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    if (used.name && used.name[0] == '\0')
        return error_set(error, HF_INVALID, "a member's name must not be empty");
    struct hf_elect_member *member = calloc(1, sizeof *member);
    if (!member)
        return error_no_memory(error);
    member->client = client;
    struct roster_options join = { view_of(group), view_of(used.name ? used.name : ""),
                                   view_of(used.label ? used.label : client_holder(client)),
                                   beat_of(used.beat_ms) };
    enum hf_status status =
        membership_join(&member->membership, client_store(client), &join, used.by_hand, &why);
    if (status == HF_OK) {
        client_keep(client);
        *ret_member = member;
    } else {
        free(member);
    }
    return error_tell(error, status, &why);
}

void hf_elect_leave(struct hf_elect_member *member)
{
    if (!member)
        return;
    membership_leave(&member->membership);
    client_drop(member->client);
    free(member);
}

void hf_elect_detach(struct hf_elect_member *member)
{
    if (!member)
        return;
    membership_detach(&member->membership);
    client_drop(member->client);
    free(member);
}

const char *hf_elect_name(struct hf_elect_member *member)
{
    return member ? member->membership.roster.fingerprint : "";
}

enum hf_status hf_elect_keep(struct hf_elect_member *member, struct hf_error *error)
{
    struct hf_error why;
    if (ERROR_IF_NULL(error, member) != HF_OK)
        return HF_INVALID;
    return error_tell(error, membership_keep(&member->membership, &why), &why);
}

enum hf_status hf_elect_look(struct hf_elect_member *member, struct hf_error *error)
{
    struct hf_error why;
    if (ERROR_IF_NULL(error, member) != HF_OK)
        return HF_INVALID;
    return error_tell(error, membership_look(&member->membership, &why), &why);
}

enum hf_status hf_elect_changes(struct hf_elect_member *member,
                                bool (*each)(void *argument, const char *name, bool present),
                                void *argument, struct hf_error *error)
{
    struct arena arena = ARENA_INIT;
    struct membership_change *changes = NULL;
    size_t count = 0;
    struct hf_error why;
    if (ERROR_IF_NULL(error, member) != HF_OK || error_if_none(error, "each", each) != HF_OK)
        return HF_INVALID;
    enum hf_status status =
        membership_changes(&member->membership, &arena, &changes, &count, &why);
    for (size_t i = 0; i < count; i++)
        if (!each(argument, changes[i].name.data, changes[i].present))
            break;
    arena_release(&arena);
    return error_tell(error, status, &why);
}

enum hf_status hf_elect_rank_own(struct hf_elect_member *member,
                                 const struct hf_elect_work *work, size_t *ret_rank,
                                 uint64_t *ret_score, struct hf_error *error)
{
    struct ranking ranking;
    struct name_list present;
    struct hf_error why;
    if (ERROR_IF_NULL(error, member, ret_rank) != HF_OK)
        return HF_INVALID;
    enum hf_status status = ranking_init(&ranking, work, &why);
    if (status == HF_OK)
        status = membership_present(&member->membership, &present, &why);
    if (status == HF_OK) {
        compute_rank(&ranking, present.names, present.count, view_of(hf_elect_name(member)),
                     ret_rank, ret_score);
        name_list_release(&present);
    }
    arena_release(&ranking.arena);
    return error_tell(error, status, &why);
}

enum hf_status hf_elect_members(struct hf_client *client, const char *group, int64_t beat_ms,
                                bool (*each)(void *argument, const struct hf_elect_info *info),
                                void *argument, struct hf_error *error)
{
    struct arena arena = ARENA_INIT;
    struct member_list list = { NULL, 0 };
    struct hf_error why;
    if (ERROR_IF_NULL(error, client, group) != HF_OK ||
        error_if_none(error, "each", each) != HF_OK)
        return HF_INVALID;
    enum hf_status status =
        roster_members(client_store(client), view_of(group), beat_of(beat_ms),
                       /* own_beats */ false, &arena, &list, &why);
    for (size_t i = 0; i < list.count; i++) {
        const struct member *member = &list.members[i];
        const struct hf_elect_info info = { .struct_size = sizeof info,
                                            .name = member->fingerprint.data,
                                            .present = member->present,
                                            .beaten_ms = member->modified.us / 1000 };
        if (!each(argument, &info))
            break;
    }
    arena_release(&arena);
    return error_tell(error, status, &why);
}
