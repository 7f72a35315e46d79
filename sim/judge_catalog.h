/* judge_catalog.h: judges compaction by what its nodes are told and by what the store applied.
 *
 * The judge reads catalogs and lease tables by itself (compact_version.c), knows the rows of every
 * object that was ever put under data/, and compares each version of a catalog with the one before
 * it. It fails the run when
 *
 *   what is data
 *   - a key is live and its object is not there, or is not what its entry says;
 *   - a key takes a way that does not exist: comes back from deleting, goes there from live, is
 *     condemned though it was live once, vanishes, stands in a catalog that is not its home;
 *   - a merge takes a source that is not live, or its output is not what its sources come to;
 *   - a merge is undone in part;
 *   - a row that was added can be read no more, by all live chunks together, or can be read
 *     twice, unless retention took it;
 *   - a row is added a second time, in whatever chunk (who asks for it sees to it that the first
 *     is not forgotten yet: judge_remembers);
 *   - retention takes a chunk that has a row which is not old enough;
 *   - a name is used twice, or comes to be live too long after it was drawn;
 *
 *   what is deleted
 *   - an object is deleted before its name was moved to deleting, or while somebody believes to
 *     have it pinned (asked as in belief.h), or who has it pinned does not find it;
 *   - a tombstone is moved to deleting before its grace is over, or a name dropped before D is, or
 *     while its object is there;
 *   - a lease is forgotten before its output is settled;
 *
 *   who is to blame
 *   - a try is counted for which no lease ended badly, or none for a lease that just died;
 *   - a chunk is quarantined for no reason;
 *
 *   what nodes are told
 *   - an add, a commit, a condemnation or an undelete is told otherwise than it is applied;
 *
 *   and in the end, when all has been quiet for long: something is left that should be gone, or was
 *   not merged that should be.
 *
 * What was decided may leave much later (the process stood still), and arrive later still. Times
 * are judged by when a write left, with allowance for the first (`standstill`). */
#ifndef SIM_JUDGE_CATALOG_H
#define SIM_JUDGE_CATALOG_H

#include "holdfast.h"
#include "sim/run.h"

struct judge_catalog;

struct judge_catalog_options {
    const char *partition;
    bool latest_wins;
    bool by_date; /* the store tells its date; else it has the clock of its machine */
    struct span grace, late_bound;
    struct span clocks_off; /* by so much the store's clocks may be off, all in all */
    struct span standstill; /* so long a process may stand between deciding and sending */
    int64_t retention_ms;   /* 0: none */
    uint64_t tries_max;
    /* What is to be merged, as in compact/settings.h. */
    uint64_t level0_count, level1_bytes, level_factor, group_max;
};

struct judge_catalog *judge_catalog_new(struct run *run,
                                        const struct judge_catalog_options *options);
void judge_catalog_free(struct judge_catalog *judge);

/* ---- What nodes ask for and are told ------------------------------------------------- */

/* The node has just been started: to be told first of all. */
void judge_started(struct judge_catalog *judge, struct node *node);

/* A name was drawn just now. */
void judge_drawn(struct judge_catalog *judge, const char *key);

/* What was told of adding it; of an answer other than UNSURE. */
void judge_told_added(struct judge_catalog *judge, const char *key, enum hf_status status);

/* The file that has this row is told as added before. */
void judge_told_known(struct judge_catalog *judge, unsigned row);

/* Whether a file with this row is known to its catalog if it was ever added, and will be as long as
 * a name lasts that is drawn now. */
bool judge_remembers(const struct judge_catalog *judge, unsigned row);

/* What a job said of its output. */
void judge_told_merged(struct judge_catalog *judge, const char *output, bool committed);

/* What condemning it has answered. */
void judge_told_condemned(struct judge_catalog *judge, const char *key, bool happened);

/* It was told at this true time that it is live again; asked since. */
void judge_told_undeleted(struct judge_catalog *judge, const char *key, int64_t asked_us);

/* Somebody asks for its quarantine, or that it be taken back. */
void judge_asks_quarantine(struct judge_catalog *judge, const char *key);

/* This node condemns, from now on or no more, what may be the output of any lease, and blames
 * nobody. */
void judge_condemns_any(struct judge_catalog *judge, const struct node *node, bool does);

/* A reader that was told that nothing of this is deleted while it holds the lock. */
struct judged_pin;
struct judged_pin *judge_pinned(struct judge_catalog *judge, struct node *node,
                                struct hf_lock *lock, const char *const *keys, size_t count);
void judge_unpinned(struct judged_pin *pin);

/* It read one of these, and still holds the lock. */
void judge_read(struct judged_pin *pin, const char *key, enum hf_status status,
                struct view bytes);

/* Damages an object behind everybody's back: other bytes, or none. */
void judge_spoil(struct judge_catalog *judge, const char *key, bool gone);

/* ---- What there is, for those who look for something to do --------------------------- */

/* A key drawn from those that are live (or tombstones, or ever were put), NULL if there is none. */
enum judged_kind_of_key { JUDGED_LIVE_KEY, JUDGED_DEAD_KEY, JUDGED_ANY_KEY };
const char *judge_pick(const struct judge_catalog *judge, enum judged_kind_of_key kind,
                       uint64_t number);

/* ---- The end ------------------------------------------------------------------------- */

/* Why there is still something to do; NULL: there is nothing. */
const char *judge_unsettled(struct judge_catalog *judge);

/* After the run. */
void judge_catalog_end(struct judge_catalog *judge);

#endif
