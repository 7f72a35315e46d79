/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_checker.h: checks compaction based on the results that nodes get and the writes that the
 * store applied.
 *
 * The checker parses catalogs and lease tables itself (compact_version.c). It knows the rows of
 * every object that was ever put under data/, and compares each version of a catalog with the
 * previous one. It fails the run in these cases.
 *
 * The data:
 *
 *   - A key is live, but its object is missing or does not match its entry.
 *   - A key makes a transition that is not allowed: it leaves the deleting list, moves there
 *     directly from live, is condemned after it was live, disappears, or appears in a catalog that
 *     is not its home.
 *   - A merge has a source that is not live, or its output does not match its sources.
 *   - A merge is only partly undone.
 *   - A row that was added and not removed by retention is missing from the live chunks, or is in
 *     them twice.
 *   - A row is added a second time, in any chunk. (The caller uses checker_remembers to ensure that
 *     the catalog still remembers the first time.)
 *   - Retention removes a chunk that contains a row that is not old enough.
 *   - A name is used twice, or becomes live too long after it was generated.
 *   - In seeds with deletions: the latest row of a key is a deletion marker, and an older row of
 *     the key is in the live chunks although the marker is not. A marker is dropped less than
 *     twice D after it was added.
 *   - A chunk becomes live in a catalog that is being dropped.
 *   - A chunk adopts an object whose path is not registered to its partition.
 *   - Two registered paths overlap. A path is removed that was not marked for D, or while a catalog
 *     of its partition lists one of its objects.
 *   - A chunk is discarded that is not in quarantine.
 *
 * Deletion:
 *
 *   - An object is deleted before its name was moved to the deleting list, or while a node believes
 *     that its pin on the object is valid (see holder_view.h). A node with a valid pin does not
 *     find the object.
 *   - A snapshot lacks a row that was in the data before the reader asked for it, or contains a row
 *     twice. (Not checked if retention may have taken the row meanwhile.)
 *   - A tombstone is moved to the deleting list before its grace period has passed. A name is
 *     dropped before D has passed, or while its object exists.
 *   - A lease is forgotten before its output is settled.
 *   - A catalog is deleted, or said to be dropped, that is not marked, was marked less than D ago,
 *     or lists a name. An object that no catalog lists is deleted, and its partition is not being
 *     dropped.
 *
 * Blame:
 *
 *   - A try is counted although no lease ended badly, or no try is counted for a lease whose worker
 *     died. A lease that says that its merge has not begun did not end badly, however it ended.
 *   - A worker died in its merge, and its lease did not say that the merge had begun; and its
 *     sources are not marked when the lease is settled, or the next merge of such a source begins
 *     before its lease says so.
 *   - A chunk is quarantined without a reason.
 *
 * The results:
 *
 *   - The result of an add, a commit, a condemnation or an undelete differs from what the store
 *     applied.
 *
 * At the end, after a long quiet period:
 *
 *   - Something that should have been deleted is still there, or something that should have been
 *     merged was not.
 *
 * A process may be stopped between the decision to write and the request, so a node may send a
 * write long after deciding on it. The write may arrive even later. Times are checked against the
 * time at which a write was sent, with an allowance for such stops (`standstill`). */
#ifndef SIM_CHECKERS_CATALOG_CHECKER_H
#define SIM_CHECKERS_CATALOG_CHECKER_H

#include "holdfast.h"
#include "sim/run.h"

struct catalog_checker;

struct catalog_checker_options {
    const char *partition;
    bool latest_wins;
    bool deletes; /* the latest time wins, and some rows are deletion markers */
    bool by_date; /* the store sends its date; otherwise its time is its machine's clock */
    struct span grace, late_bound;
    struct span clocks_off; /* the maximum total error of the store's clocks */
    struct span standstill; /* the longest stop between a decision and its request */
    int64_t retention_ms;   /* 0: none */
    uint64_t tries_max;
    /* The settings that determine what is merged, as in compact/catalog/settings.h. */
    uint64_t level0_count, level1_bytes, level_factor, group_max;
};

struct catalog_checker *catalog_checker_new(struct run *run,
                                            const struct catalog_checker_options *options);
void catalog_checker_free(struct catalog_checker *checker);

/* ---- Requests and results of nodes --------------------------------------------------- */

/* Reports that the node has just started; call this before anything else. */
void checker_started(struct catalog_checker *checker, struct node *node);

/* Reports that a name was just generated. */
void checker_drawn(struct catalog_checker *checker, const char *key);

/* Reports the result of adding a chunk, unless it is UNSURE. */
void checker_told_added(struct catalog_checker *checker, const char *key,
                        enum hf_status status);

/* Reports that a node was told that the file with this row had already been added. */
void checker_told_known(struct catalog_checker *checker, unsigned row);

/* Whether the catalog still remembers the file with this row, and will remember it as long as a
 * name generated now remains valid. Also true if the file was never added. */
bool checker_remembers(const struct catalog_checker *checker, unsigned row);

/* Reports that a node begins to read the sources of this output. */
void checker_merge_begins(struct catalog_checker *checker, struct view output);

/* Reports the result of the job with this output. */
void checker_told_merged(struct catalog_checker *checker, const char *output, bool committed);

/* Reports the result of condemning a name. */
void checker_told_condemned(struct catalog_checker *checker, const char *key, bool happened);

/* Reports that a chunk is live again; the request was made at `asked_us`. */
void checker_told_undeleted(struct catalog_checker *checker, const char *key, int64_t asked_us);

/* Reports that a node asks to quarantine a chunk, or to release it from quarantine. */
void checker_asks_quarantine(struct catalog_checker *checker, const char *key);

/* Reports that a node asks to discard a chunk. */
void checker_asks_discard(struct catalog_checker *checker, const char *key);

/* Reports that this node starts, or stops, condemning arbitrary outputs without counting a
 * try for any chunk. */
void checker_condemns_any(struct catalog_checker *checker, const struct node *node, bool does);

/* Reports that a reader has pinned these chunks: none of them may be deleted while the reader holds
 * the lock. */
struct checked_pin;
struct checked_pin *checker_pinned(struct catalog_checker *checker, struct node *node,
                                   struct hf_lock *lock, const char *const *keys, size_t count);
void checker_unpinned(struct checked_pin *pin);

/* Reports that the reader has read one of the pinned chunks and still holds the lock. */
void checker_read(struct checked_pin *pin, const char *key, enum hf_status status,
                  struct view bytes);

/* Reports the chunks of a snapshot that a reader asked for at `asked_us`. */
void checker_took_snapshot(struct catalog_checker *checker, const struct node *node,
                           const char *const *keys, size_t count, int64_t asked_us);

/* Where the bytes of a chunk are: the key and the ETag of an adopted object. False: the chunk is
 * not adopted. */
bool checker_adopted(const struct catalog_checker *checker, const char *key,
                     struct view *ret_object, struct etag *ret_etag);

/* Damages an object without any node noticing: replaces its bytes, or deletes it. */
void checker_spoil(struct catalog_checker *checker, const char *key, bool gone);

/* ---- The current state, for choosing an operation ------------------------------------ */

/* Chooses a key at random among the live keys, the tombstones, those of them that retention made,
 * or all keys that were ever put. Returns NULL if there is none. */
enum checked_kind_of_key {
    CHECKED_LIVE_KEY,
    CHECKED_DEAD_KEY,
    CHECKED_RETIRED_KEY,
    CHECKED_ANY_KEY
};
const char *checker_pick(const struct catalog_checker *checker, enum checked_kind_of_key kind,
                         uint64_t number);

/* ---- The end ------------------------------------------------------------------------- */

/* Describes the work that is still to be done; NULL if there is none. */
const char *checker_unsettled(struct catalog_checker *checker);

/* Whether the partition was dropped, and nothing is left of it. */
bool checker_is_gone(const struct catalog_checker *checker);

/* Called after the run. */
void catalog_checker_end(struct catalog_checker *checker);

#endif
