/* SPDX-License-Identifier: Apache-2.0 */
/* membership.h: this process's membership in a group, which any thread may query: its roster,
 * which is updated by heartbeats in the background or by the caller, and the other members. */
#ifndef ELECT_MEMBERSHIP_H
#define ELECT_MEMBERSHIP_H

#include "elect/roster.h"

/* Names in byte order, each followed by a NUL. */
struct name_list {
    struct arena arena;
    struct view *names;
    size_t count;
};
void name_list_release(struct name_list *list);

struct membership {
    struct env *env;
    struct env_mutex calls; /* one request at a time; guards `roster` */
    struct roster roster;
    struct env_task *task; /* writes heartbeats; NULL: the caller writes them */
    struct {
        struct env_mutex mutex;
        struct env_cond changed;
        bool leaving;
        struct name_list present; /* found by the last listing */
        struct name_list told;    /* reported by membership_changes so far */
    } shared;
};

/* Joins the group (roster_join), with heartbeats in the background unless `by_hand`. After a
 * failure there is nothing to free. */
enum hf_status membership_join(struct membership *membership, struct store *store,
                               const struct roster_options *options, bool by_hand,
                               struct hf_error *error);

/* Leaves the group and frees its memory. */
void membership_leave(struct membership *membership);

/* Frees its memory. The member stays listed, as after a crash. */
void membership_detach(struct membership *membership);

/* Call roster_keep and roster_look. */
enum hf_status membership_keep(struct membership *membership, struct hf_error *error);
enum hf_status membership_look(struct membership *membership, struct hf_error *error);

/* A copy of the members that are present. The caller releases it. */
enum hf_status membership_present(struct membership *membership, struct name_list *ret_list,
                                  struct hf_error *error);

/* A member that joined or left since the last call. */
struct membership_change {
    struct view name; /* followed by a NUL */
    bool present;
};
enum hf_status membership_changes(struct membership *membership, struct arena *arena,
                                  struct membership_change **ret_changes, size_t *ret_count,
                                  struct hf_error *error);

#endif
