/* elect.h: who of a group does a piece of work first, without a word between its members.
 *
 * Every member ranks all members for every piece of work by a hash that each can compute. Rank 0
 * may start as soon as the work is due, rank k after k steps: an absent leader costs one step, and
 * who leads changes with the work. It is an optimisation only: members that see different ranks
 * start the same work twice, and nothing worse. What must not happen twice takes a lock.
 *
 * WITHOUT A STORE. Ranking, turns and cascades are pure: no client, no store, no clock, no thread.
 * An actor that knows its peers uses them alone:
 *
 *     const struct hf_elect_part parts[] = { { "writer-1", 40 }, { "writer-2", 7 } };
 *     struct hf_elect_work work = HF_ELECT_WORK;
 *     work.level = 1, work.parts = parts, work.part_count = 2;
 *     hf_elect_rank(&work, members, member_count, "anna", &rank, NULL, &error);
 *     if (hf_elect_starts_in_ms(rank, 10000, due_for_ms) == 0)
 *         ... look once more whether it is still due, then do it ...
 *
 * Count `due_for_ms` from a time that stands in the document itself, written when the work became
 * due; whoever counts from when it looked starts the ladder anew with each look.
 *
 * WITH A STORE. A roster tells who the members are: each writes an object of its own, again and
 * again (a beat). Present is whoever wrote within the last three beats, by the store's own times;
 * what the dead leave behind is deleted after thirty.
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

/* How far one writer has come. */
struct hf_elect_part {
    const char *writer;
    uint64_t sequence;
};

#define HF_ELECT_PARTS_MAX 4096

/* What is to be done: the state of a document. The order of its parts does not matter. Sequences
 * count in steps of `base`, so that members whose views differ a little mostly find the same
 * leader. */
struct hf_elect_work {
    size_t struct_size;
    uint64_t level;
    uint64_t base; /* 0: 20 */
    const struct hf_elect_part *parts;
    size_t part_count; /* at most HF_ELECT_PARTS_MAX, and no writer twice */
};
#define HF_ELECT_WORK HF_VALUE_(hf_elect_work, sizeof(struct hf_elect_work), 0, 0, NULL, 0)

/* How many of these members come before `own`, which need not be among them: the highest score
 * leads, of equal scores the lowest name. All who know the same members and the same work get the
 * same ranks, in whatever order they have them. `work` may be NULL: all zero; `ret_score` too.
 * INVALID: a writer twice, or too many. */
HF_API enum hf_status hf_elect_rank(const struct hf_elect_work *work,
                                    const char *const *members, size_t count, const char *own,
                                    size_t *ret_rank, uint64_t *ret_score,
                                    struct hf_error *error);

/* A member's place on the ladder. */
struct hf_elect_place {
    size_t member; /* which of the members given */
    uint64_t score;
};

/* The same of all: ret_places has room for `count`, and [0] will be the leader. */
HF_API enum hf_status hf_elect_order(const struct hf_elect_work *work,
                                     const char *const *members, size_t count,
                                     struct hf_elect_place *ret_places, struct hf_error *error);

/* In how many milliseconds a member of this rank may start work that has been due for `due_for_ms`,
 * when each rank waits `step_ms` for the one before it; 0: now. What is negative counts as 0. */
HF_API int64_t hf_elect_starts_in_ms(size_t rank, int64_t step_ms, int64_t due_for_ms);

/* ---- Cascades ------------------------------------------------------------------------ */

/* Which level log-like data is to be compacted into: a counter of base `base`, one digit per level.
 * counts[L] is how many entries were made at level L - 1 since the last compaction into L;
 * counts[0] is not used. A value to be kept wherever the caller likes; all zero at first. */
#define HF_CASCADE_LEVELS 8
#define HF_CASCADE_BASE   20
struct hf_cascade {
    uint64_t counts[HF_CASCADE_LEVELS];
};

/* The level to compact into: all that is below it becomes one entry of it; 0: nothing is due. A
 * level is due when its count, plus the one that the level below would add, reaches the base; the
 * highest is taken at once. A base of 0 is HF_CASCADE_BASE. 0 for NULL. */
HF_API unsigned hf_cascade_target(const struct hf_cascade *cascade, uint64_t base);

/* So many entries were added at level 0. */
HF_API void hf_cascade_added(struct hf_cascade *cascade, uint64_t count);

/* All that was below `level` is one entry of it now. INVALID: no level from 1 to
 * HF_CASCADE_LEVELS - 1. */
HF_API enum hf_status hf_cascade_completed(struct hf_cascade *cascade, unsigned level,
                                           struct hf_error *error);

/* ---- The roster ---------------------------------------------------------------------- */

/* A member of ours. */
struct hf_elect_member;

#define HF_ELECT_BEAT_MS 10000

struct hf_elect_options {
    size_t struct_size;
    const char *name;  /* of this member: a-z 0-9 . _ -; NULL: drawn, 32 hexadecimal digits */
    const char *label; /* for people; NULL: the holder's name of the client */
    int64_t beat_ms;   /* 100 ms to an hour, the same for all; 0: HF_ELECT_BEAT_MS */
    bool by_hand;      /* no beats in the background: the caller calls hf_elect_keep */
};
#define HF_ELECT_OPTIONS \
    HF_VALUE_(hf_elect_options, sizeof(struct hf_elect_options), NULL, NULL, 0, false)

/* Joins a group, with one put and one listing; then beats in the background until hf_elect_leave. A
 * beat that fails is tried again, sooner than the next would be. `options` may be NULL.
 *   OK       we are listed
 *   INVALID  no name, or no beat
 *   others   the store's; nothing is left to leave */
HF_API enum hf_status hf_elect_join(struct hf_client *client, const char *group,
                                    const struct hf_elect_options *options,
                                    struct hf_elect_member **ret_member,
                                    struct hf_error *error);

/* Deletes our object, as well as that works, and frees the handle. NULL is fine. */
HF_API void hf_elect_leave(struct hf_elect_member *member);

/* The name of this member; "" for NULL. Local. */
HF_API const char *hf_elect_name(struct hf_elect_member *member);

/* Beats and lists again when it is time for that; cheap in between. For those who join with by_hand
 * and call it a few times per beat. UNAVAILABLE, TIMEOUT, UNSURE: what is known of the others is a
 * little older, and the next call tries again; whatever else the store says will not pass. */
HF_API enum hf_status hf_elect_keep(struct hf_elect_member *member, struct hf_error *error);

/* Lists again now. The status is the store's; then what was known stays. */
HF_API enum hf_status hf_elect_look(struct hf_elect_member *member, struct hf_error *error);

/* Tells who came (present) and who went since this was called last; at first all who are present,
 * and we among them. `each` returns false to stop, which is OK: the rest counts as told. Local. */
HF_API enum hf_status hf_elect_changes(struct hf_elect_member *member,
                                       bool (*each)(void *argument, const char *name,
                                                    bool present),
                                       void *argument, struct hf_error *error);

/* hf_elect_rank of this member among those that are present as far as it knows. Local. */
HF_API enum hf_status hf_elect_rank_own(struct hf_elect_member *member,
                                        const struct hf_elect_work *work, size_t *ret_rank,
                                        uint64_t *ret_score, struct hf_error *error);

/* One who is listed. */
struct hf_elect_info {
    const char *name;
    bool present;
    int64_t beaten_ms; /* when it wrote last, since 1970, by the store's clock */
};

/* All who are listed in a group, in the order of their names, whether one has joined or not. A
 * group that nobody has joined has none. beat_ms as above. `each` returns false to stop, which is
 * OK. INVALID: no name, or no beat; others: the store's. */
HF_API enum hf_status hf_elect_members(struct hf_client *client, const char *group,
                                       int64_t beat_ms,
                                       bool (*each)(void *argument,
                                                    const struct hf_elect_info *info),
                                       void *argument, struct hf_error *error);

#ifdef __cplusplus
}
#endif

#endif
