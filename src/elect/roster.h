/* roster.h: the members of a group, each an object of its own: roster/<group>/<fingerprint>.
 *
 * A member writes its object again with every beat. A listing is the roster: who wrote within
 * the last ROSTER_BEATS_MISSED beats, as the store's modified times tell, compared with the
 * newest of the group, which all come from the store's side; no clock of ours is asked. One who
 * looks from outside, and so cannot tell a dead group from a live one by that, also takes the time
 * of the store's reply, or of a local store the calendar of its machine. Who
 * leaves in order deletes its object; what the dead leave behind is deleted by whoever finds
 * it ROSTER_DEAD_BEATS beats old. */
#ifndef ELECT_ROSTER_H
#define ELECT_ROSTER_H

#include "store/store.h"

#define ROSTER_BEATS_MISSED 3
#define ROSTER_DEAD_BEATS   30
#define ROSTER_MEMBERS_MAX  4096
#define FINGERPRINT_MAX     64
#define ROSTER_GROUP_MAX    128
#define ROSTER_BURIALS_MAX  16 /* deleted after one listing */
#define FINGERPRINT_DRAWN   32
#define ROSTER_BEAT_LEAST   SPAN_MS(100)
#define ROSTER_BEAT_MOST    SPAN_S(3600)

/* One who is listed. */
struct member {
    struct view fingerprint;
    struct wall_time modified;
    bool present;
};

/* A member of ours. Its calls are for one task at a time. */
struct roster {
    struct store *store;
    struct span beat;
    char group[ROSTER_GROUP_MAX + 1];
    char fingerprint[FINGERPRINT_MAX + 1];
    char label[128]; /* for people: host and process */
    uint64_t beats;  /* tried so far */
    struct mono_time beaten;
    struct mono_time listed;
    struct arena arena;
    struct view *present; /* fingerprints, ours too, in byte order */
    size_t present_count;
};

/* Joins, with one put and one listing. An empty fingerprint: drawn, 32 hexadecimal digits. The
 * group and a given fingerprint are names (a-z 0-9 . _ -, one segment that starts with no dot).
 * On failure nothing is left to leave or to free. */
enum hf_status roster_join(struct roster *roster, struct store *store, struct view group,
                           struct view fingerprint, struct view label, struct span beat,
                           struct hf_error *error);

/* Beats and lists again when it is time for it; cheap in between. A store that fails costs
 * nothing but a stale roster: the status is for who cares. */
enum hf_status roster_keep(struct roster *roster, struct mono_time now, struct hf_error *error);

/* Lists again now. */
enum hf_status roster_look(struct roster *roster, struct hf_error *error);

/* Deletes our object, as well as that works, and frees. */
void roster_leave(struct roster *roster);

/* Frees without a word to the store, as a crash would. */
void roster_release(struct roster *roster);

/* All who are listed, in byte order of their fingerprints; `arena` keeps them. What else lies in
 * the folder is passed over, and so is what comes behind ROSTER_MEMBERS_MAX. */
enum hf_status roster_members(struct store *store, struct view group, struct span beat,
                              struct arena *arena, struct member **ret_members,
                              size_t *ret_count, struct hf_error *error);

#endif
