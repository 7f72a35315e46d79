/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_checker.h: checks compaction by the results that nodes get and by the writes that
 * the store applied.
 *
 * The checker parses catalogs and lease tables itself (compact_version.c). It knows the rows of
 * every object that was ever put under data/, and compares each version of a catalog with the
 * one before. It fails the run in these cases.
 *
 * The data:
 *
 *   - A key is live, but its object is missing or does not match its entry.
 *   - A key makes a transition that is not allowed: it leaves deleting, moves there from
 *     live, is condemned after it was live, vanishes, or appears in a catalog that is not
 *     its home.
 *   - A merge has a source that is not live, or its output does not match its sources.
 *   - A merge is only partly undone.
 *   - A row that was added can no longer be read from the live chunks, although retention
 *     did not remove it, or can be read from them twice.
 *   - A row is added a second time, in any chunk. (The caller ensures that the first one is
 *     still remembered: checker_remembers.)
 *   - Retention removes a chunk with a row that is not old enough.
 *   - A name is used twice, or becomes live too long after it was drawn.
 *
 * Deletion:
 *
 *   - An object is deleted before its name was moved to deleting, or while a node believes
 *     that its pin on the object is valid (see holder_view.h), or a node with a valid pin
 *     does not find the object.
 *   - A tombstone is moved to deleting before its grace is over. A name is dropped before D is
 *     over, or while its object exists.
 *   - A lease is forgotten before its output is settled.
 *
 * Blame:
 *
 *   - A try is counted although no lease ended badly, or no try is counted for a lease whose
 *     worker died.
 *   - A chunk is quarantined without a reason.
 *
 * The results:
 *
 *   - The result of an add, a commit, a condemnation or an undelete differs from what the
 *     store applied.
 *
 * At the end, after a long quiet time:
 *
 *   - Something is left that should have been deleted, or something was not merged that
 *     should have been.
 *
 * A node may send a write long after deciding on it, because the process was stopped, and
 * the write may arrive later still. Times are checked against the time at which a write was
 * sent, with an allowance for the stop (`standstill`). */
#ifndef SIM_CHECKERS_CATALOG_CHECKER_H
#define SIM_CHECKERS_CATALOG_CHECKER_H

#include "holdfast.h"
#include "sim/run.h"

struct catalog_checker;

struct catalog_checker_options {
    const char *partition;
    bool latest_wins;
    bool by_date; /* the store sends its date; otherwise it uses its machine's clock */
    struct span grace, late_bound;
    struct span clocks_off; /* the maximum total error of the store's clocks */
    struct span standstill; /* the longest stop of a process between decision and request */
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

/* Reports that a name was just drawn. */
void checker_drawn(struct catalog_checker *checker, const char *key);

/* The result of adding it, if it is not UNSURE. */
void checker_told_added(struct catalog_checker *checker, const char *key,
                        enum hf_status status);

/* The file with this row was reported as already added. */
void checker_told_known(struct catalog_checker *checker, unsigned row);

/* Whether the catalog still knows the file with this row, if it was ever added, and will
 * know it for as long as a name drawn now remains valid. */
bool checker_remembers(const struct catalog_checker *checker, unsigned row);

/* The result of the job that makes this output. */
void checker_told_merged(struct catalog_checker *checker, const char *output, bool committed);

/* The result of condemning it. */
void checker_told_condemned(struct catalog_checker *checker, const char *key, bool happened);

/* Reports that it is live again now; the request was made at `asked_us`. */
void checker_told_undeleted(struct catalog_checker *checker, const char *key, int64_t asked_us);

/* Reports that a node asks to quarantine it, or to undo its quarantine. */
void checker_asks_quarantine(struct catalog_checker *checker, const char *key);

/* Reports that this node starts, or stops, condemning arbitrary outputs without counting a
 * try for any chunk. */
void checker_condemns_any(struct catalog_checker *checker, const struct node *node, bool does);

/* Reports that a reader has pinned these: none may be deleted while the reader holds the
 * lock. */
struct checked_pin;
struct checked_pin *checker_pinned(struct catalog_checker *checker, struct node *node,
                                   struct hf_lock *lock, const char *const *keys, size_t count);
void checker_unpinned(struct checked_pin *pin);

/* Reports that the reader has read one of these and still holds the lock. */
void checker_read(struct checked_pin *pin, const char *key, enum hf_status status,
                  struct view bytes);

/* Damages an object without any node noticing: replaces its bytes, or deletes it. */
void checker_spoil(struct catalog_checker *checker, const char *key, bool gone);

/* ---- The current state, for choosing an operation ------------------------------------ */

/* Draws a key from the live ones (or from the tombstones, or from all that were ever put);
 * NULL if there is none. */
enum checked_kind_of_key { JUDGED_LIVE_KEY, JUDGED_DEAD_KEY, JUDGED_ANY_KEY };
const char *checker_pick(const struct catalog_checker *checker, enum checked_kind_of_key kind,
                         uint64_t number);

/* ---- The end ------------------------------------------------------------------------- */

/* Describes the work that is still to be done; NULL if there is none. */
const char *checker_unsettled(struct catalog_checker *checker);

/* After the run. */
void catalog_checker_end(struct catalog_checker *checker);

#endif
