/* SPDX-License-Identifier: Apache-2.0 */
/* elect.h: elections without messages, which determine the order in which the members of a group
 * may start work.
 *
 * For every piece of work, each member ranks all members by a hash that every member can compute.
 * Rank 0 may start as soon as the work is due, and rank k after k steps. An absent leader therefore
 * costs one step, and different pieces of work usually have different leaders. An election is only
 * an optimisation: if members compute different ranks, the worst that can happen is that the same
 * work is started twice. Use a lock for work that must not run twice.
 *
 * WITHOUT A STORE. Ranks, start times and cascades are pure functions: they need no client, store,
 * clock or thread. A program that knows its peers can use them alone:
 *
 *     const struct hf_elect_part parts[] = { { "writer-1", 40 }, { "writer-2", 7 } };
 *     struct hf_elect_work work = HF_ELECT_WORK;
 *     work.level = 1, work.parts = parts, work.part_count = 2;
 *     hf_elect_rank(&work, members, member_count, "anna", &rank, NULL, &error);
 *     if (hf_elect_starts_in_ms(rank, 10000, due_for_ms) == 0)
 *         ... check again that the work is still due, then do it ...
 *
 * Compute `due_for_ms` from a timestamp in the document itself, written when the work became due.
 * If you count from the time of your own check instead, every check restarts the wait.
 *
 * WITH A STORE. The roster lists the members of a group. Each member writes an object of its own at
 * every heartbeat. A member is present if it has written within the last three heartbeat intervals,
 * by the store's timestamps. The object of a dead member is deleted after thirty intervals.
 *
 *     hf_elect_join(client, "builders", NULL, &member, &error);
 *     hf_elect_rank_own(member, &work, &rank, NULL, &error);
 *     hf_elect_leave(member); */
#ifndef HOLDFAST_ELECT_H
#define HOLDFAST_ELECT_H

#include "holdfast/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Ranks --------------------------------------------------------------------------- */

/* The progress of one writer. */
struct hf_elect_part {
    const char *writer;
    uint64_t sequence;
};

#define HF_ELECT_PARTS_MAX 4096

/* A piece of work, described by the state of a document. The order of its parts does not matter.
 * Sequences are rounded down to multiples of `base`, so members with slightly different views
 * usually compute the same leader. */
struct hf_elect_work {
    size_t struct_size;
    uint64_t level;
    uint64_t base; /* 0: 20 */
    const struct hf_elect_part *parts;
    size_t part_count; /* at most HF_ELECT_PARTS_MAX; each writer only once */
};
#define HF_ELECT_WORK HF_VALUE_(hf_elect_work, sizeof(struct hf_elect_work), 0, 0, NULL, 0)

/* Returns the rank of `own`: how many of the members come before it. `own` need not be one of the
 * members. The member with the highest score leads; if scores are equal, the member with the lowest
 * name leads. All callers with the same members and the same work compute the same ranks,
 * regardless of the order in which they list the members. If `work` is NULL, HF_ELECT_WORK is used.
 * `ret_score` may be NULL. Returns HF_INVALID if a writer is listed twice or there are too many
 * parts. Local. */
HF_API enum hf_status hf_elect_rank(const struct hf_elect_work *work,
                                    const char *const *members, size_t count, const char *own,
                                    size_t *ret_rank, uint64_t *ret_score,
                                    struct hf_error *error);

/* A member's place in the ranking. */
struct hf_elect_place {
    size_t member; /* an index into `members` */
    uint64_t score;
};

/* Ranks all members. ret_places must have room for `count` places; ret_places[0] is the leader.
 * Otherwise like hf_elect_rank. */
HF_API enum hf_status hf_elect_order(const struct hf_elect_work *work,
                                     const char *const *members, size_t count,
                                     struct hf_elect_place *ret_places, struct hf_error *error);

/* Returns the number of milliseconds until a member of this rank may start work that has been due
 * for `due_for_ms`, or 0 if it may start now. Each rank waits `step_ms` longer than the rank before
 * it. Negative arguments count as 0. Local. */
HF_API int64_t hf_elect_starts_in_ms(size_t rank, int64_t step_ms, int64_t due_for_ms);

/* ---- Cascades ------------------------------------------------------------------------ */

/* A cascade determines which level to compact into. It is a counter with one digit per level, in
 * base `base`. counts[L] is the number of entries created at level L - 1 since the last compaction
 * into level L; counts[0] is unused. You can store the struct anywhere. Initialise it to all
 * zeros. */
#define HF_CASCADE_LEVELS 8
#define HF_CASCADE_BASE   20
struct hf_cascade {
    uint64_t counts[HF_CASCADE_LEVELS];
};

/* Returns the level to compact into, or 0 if nothing is due. Everything below that level becomes
 * one entry at that level. A level is due when its count, plus the entry that the level below would
 * add, reaches the base. If several levels are due, the highest is returned. A base of 0 means
 * HF_CASCADE_BASE. Returns 0 if `cascade` is NULL. */
HF_API unsigned hf_cascade_target(const struct hf_cascade *cascade, uint64_t base);

/* Records that `count` entries were added at level 0. */
HF_API void hf_cascade_added(struct hf_cascade *cascade, uint64_t count);

/* Records that everything below `level` has become one entry at `level`. Returns HF_INVALID unless
 * `level` is from 1 to HF_CASCADE_LEVELS - 1. */
HF_API enum hf_status hf_cascade_completed(struct hf_cascade *cascade, unsigned level,
                                           struct hf_error *error);

/* ---- The roster ---------------------------------------------------------------------- */

/* A handle to this client's membership in a group. */
struct hf_elect_member;

#define HF_ELECT_BEAT_MS 10000

struct hf_elect_options {
    size_t struct_size;
    const char *name;  /* of this member: a-z 0-9 . _ -; NULL: 32 random hex digits */
    const char *label; /* for display (default: the holder of the client) */
    /* The heartbeat interval: 100 ms to an hour, the same for all members; 0: HF_ELECT_BEAT_MS. */
    int64_t beat_ms;
    bool by_hand; /* no heartbeats in the background; call hf_elect_keep */
};
#define HF_ELECT_OPTIONS \
    HF_VALUE_(hf_elect_options, sizeof(struct hf_elect_options), NULL, NULL, 0, false)

/* Joins a group with one put and one list, and then sends heartbeats in the background until
 * hf_elect_leave. A failed heartbeat is retried before the next one is due. `options` may be NULL.
 *
 * Returns HF_OK if the member is listed. Returns HF_INVALID if a name or the heartbeat interval is
 * not valid. Other statuses come from the store; in that case, the member has not joined. */
HF_API enum hf_status hf_elect_join(struct hf_client *client, const char *group,
                                    const struct hf_elect_options *options,
                                    struct hf_elect_member **ret_member,
                                    struct hf_error *error);

/* Leaves the group and frees the handle. Deletes this member's object (best effort). Does nothing
 * if `member` is NULL. */
HF_API void hf_elect_leave(struct hf_elect_member *member);

/* Frees the handle but leaves the member in the group, for a process that joins under the same
 * name, as hf_lock_detach leaves a lease. The member is present for three heartbeat intervals after
 * its last heartbeat. Does nothing if `member` is NULL. */
HF_API void hf_elect_detach(struct hf_elect_member *member);

/* Returns the name of this member, or "" if `member` is NULL. Local. */
HF_API const char *hf_elect_name(struct hf_elect_member *member);

/* Sends a heartbeat and lists the group again if that is due; otherwise, the call is cheap. With
 * by_hand, call this function several times per heartbeat interval. After HF_UNAVAILABLE,
 * HF_TIMEOUT or HF_UNSURE, the list of members may be out of date, and the next call retries. Other
 * errors from the store are permanent. */
HF_API enum hf_status hf_elect_keep(struct hf_elect_member *member, struct hf_error *error);

/* Lists the group again now. If the store returns an error, the list of members does not change. */
HF_API enum hf_status hf_elect_look(struct hf_elect_member *member, struct hf_error *error);

/* Reports which members have appeared (`present`) or disappeared since the last call. The first
 * call reports all present members, including this one. Return false from `each` to stop; the
 * remaining changes count as reported. Local. */
HF_API enum hf_status hf_elect_changes(struct hf_elect_member *member,
                                       bool (*each)(void *argument, const char *name,
                                                    bool present),
                                       void *argument, struct hf_error *error);

/* Returns the rank of this member among the members that it knows to be present. See hf_elect_rank.
 * Local. */
HF_API enum hf_status hf_elect_rank_own(struct hf_elect_member *member,
                                        const struct hf_elect_work *work, size_t *ret_rank,
                                        uint64_t *ret_score, struct hf_error *error);

/* A listed member. */
struct hf_elect_info {
    size_t struct_size;
    const char *name;
    bool present;
    int64_t beaten_ms; /* its last write, since 1970, by the store's clock */
};

/* Lists all members of a group, sorted by name, whether or not you have joined it. The list of a
 * group without members is empty. `beat_ms` is as in struct hf_elect_options. Return false from
 * `each` to stop. Returns HF_INVALID if the name or the heartbeat interval is not valid. Other
 * statuses come from the store. */
HF_API enum hf_status hf_elect_members(struct hf_client *client, const char *group,
                                       int64_t beat_ms,
                                       bool (*each)(void *argument,
                                                    const struct hf_elect_info *info),
                                       void *argument, struct hf_error *error);

#ifdef __cplusplus
}
#endif

#endif
