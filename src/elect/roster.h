/* SPDX-License-Identifier: Apache-2.0 */
/* roster.h: the members of a group. Each member has its own object: roster/<group>/<fingerprint>.
 *
 * Each heartbeat of a member rewrites its object. The roster is a listing of these objects. A
 * member is present if its object was written within the last ROSTER_BEATS_MISSED heartbeat
 * intervals, by the store's modification times, compared with the newest one in the group. All
 * these times come from the store, so no clock of ours matters. A time that is later than the time
 * of our own object can explain was left by a clock that has been set back since, and counts as
 * now. In this way alone, a caller that is not a member could not distinguish a dead group from a
 * live one. So such a caller also uses the time of the store's reply or, on a local store, only the
 * machine's wall clock. A member that leaves deletes its object. The objects of dead members are
 * deleted by any member that finds them ROSTER_DEAD_BEATS intervals old. */
#ifndef ELECT_ROSTER_H
#define ELECT_ROSTER_H

#include "store/store.h"

#define ROSTER_BEATS_MISSED 3
#define ROSTER_DEAD_BEATS   30
#define ROSTER_MEMBERS_MAX  4096
#define FINGERPRINT_MAX     64
#define ROSTER_GROUP_MAX    128
#define ROSTER_DELETES_MAX  16 /* objects deleted after one listing */
#define ROSTER_READS_MAX    64
#define FINGERPRINT_DRAWN   32
#define ROSTER_BEAT_LEAST   SPAN_MS(100)
#define ROSTER_BEAT_MOST    SPAN_S(3600)

/* One member in a listing. */
struct member {
    struct view fingerprint;
    struct wall_time modified;
    bool present;
};

/* Our own membership. Only one task at a time may use it. */
struct roster {
    struct store *store;
    struct span beat;
    char group[ROSTER_GROUP_MAX + 1];
    char fingerprint[FINGERPRINT_MAX + 1];
    char label[128];          /* for people: host and process */
    uint64_t beats;           /* heartbeats tried so far */
    struct mono_time written; /* when the last write that was confirmed was sent */
    struct mono_time beaten;
    struct mono_time listed;
    struct arena arena;
    struct view *present; /* fingerprints, including ours, in byte order */
    size_t present_count;
};

/* The group and the fingerprint are names (a-z 0-9 . _ -, one segment that does not start with a
 * dot). If the fingerprint is empty, a random one of 32 hexadecimal digits is generated. */
struct roster_options {
    struct view group;
    struct view fingerprint;
    struct view label;
    struct span beat;
};

/* Joins the group, with one put and one listing. After a failure there is nothing to leave or to
 * free. */
enum hf_status roster_join(struct roster *roster, struct store *store,
                           const struct roster_options *options, struct hf_error *error);

/* Writes a heartbeat if one is due, and lists the group if that is due. Otherwise sends no
 * request. If the store fails, the roster is merely stale, so you may ignore the status. */
enum hf_status roster_keep(struct roster *roster, struct mono_time now, struct hf_error *error);

/* Lists the group now. */
enum hf_status roster_look(struct roster *roster, struct hf_error *error);

/* Deletes our object (best effort), and frees the memory. */
void roster_leave(struct roster *roster);

/* Frees the memory without sending a request, so our object stays, as after a crash. */
void roster_release(struct roster *roster);

/* All members in a listing, in byte order of their fingerprints, allocated in `arena`. Other
 * objects in the folder are ignored, and so are members beyond ROSTER_MEMBERS_MAX. With
 * `own_beats`, a member that seems to have left is judged by its own interval, which its object
 * contains: one get for each such member, for at most ROSTER_READS_MAX of them. */
struct member_list {
    struct member *members;
    size_t count;
};
enum hf_status roster_members(struct store *store, struct view group, struct span beat,
                              bool own_beats, struct arena *arena, struct member_list *ret_list,
                              struct hf_error *error);

#endif
