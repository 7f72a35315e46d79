/* membership.h: a member of a group that any thread may ask: its roster, kept by beats in the
 * background or by hand, and what is known of the others. */
#ifndef ELECT_MEMBERSHIP_H
#define ELECT_MEMBERSHIP_H

#include "elect/roster.h"

/* Names in byte order, each followed by NUL. */
struct name_list {
    struct arena arena;
    struct view *names;
    size_t count;
};
void name_list_release(struct name_list *list);

struct membership {
    struct env *env;
    struct env_mutex calls; /* one call to the store at a time; guards `roster` */
    struct roster roster;
    struct env_task *task; /* beats; NULL: by hand */
    struct {
        struct env_mutex mutex;
        struct env_cond changed;
        bool leaving;
        struct name_list present; /* those that the last listing found */
        struct name_list told;    /* those of whom membership_changes has told */
    } shared;
};

/* roster_join; and beats in the background unless `by_hand`. After a failure nothing is left. */
enum hf_status membership_join(struct membership *membership, struct store *store,
                               struct view group, struct view name, struct view label,
                               struct span beat, bool by_hand, struct hf_error *error);

/* Leaves the group and frees what it has. */
void membership_leave(struct membership *membership);

/* roster_keep and roster_look. */
enum hf_status membership_keep(struct membership *membership, struct hf_error *error);
enum hf_status membership_look(struct membership *membership, struct hf_error *error);

/* A copy of those who are present, to be released. */
enum hf_status membership_present(struct membership *membership, struct name_list *ret_list,
                                  struct hf_error *error);

/* Who came and who went since this was asked last. */
struct membership_change {
    struct view name; /* with NUL behind it */
    bool present;
};
enum hf_status membership_changes(struct membership *membership, struct arena *arena,
                                  struct membership_change **ret_changes, size_t *ret_count,
                                  struct hf_error *error);

#endif
