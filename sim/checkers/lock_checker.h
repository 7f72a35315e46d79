/* SPDX-License-Identifier: Apache-2.0 */
/* lock_checker.h: checks leaseholders and waiters based on the results that nodes get and the
 * writes that the store applied.
 *
 * A holder *believes* (that it holds its lease) while its own hf_lock_check would return OK. The
 * checker calls hf_lock_check from outside at the instant, in true time, at which another client is
 * granted a lease, even if the holder is paused. The checker knows the public calls, the JSON of a
 * table and the meaning of scopes, but not the implementation. Each handle has its own note, which
 * is stored in the table, so the checker knows which handle owns each entry.
 *
 * The checker fails the run in these cases. Holders (lock_checker.c, claim_checker.c):
 *
 *   - A lease is granted that conflicts with one whose holder still believes, in whichever table.
 *   - A table of paths is replaced by a placement mark, or a mark by a table.
 *   - A lease whose holder still believes is ended by a write that the holder did not ask for.
 *   - A lease is treated as over although its holder is running and was not notified of the loss;
 *     or the holder no longer believes and is not notified.
 *   - A lease is ended by a node that does not hold it, or in a way that no node asked for.
 *   - A holder believes again after its lease was reported to it as ended.
 *   - A token does not increase, is reported without having been granted, or is reported twice.
 *   - A lease that had ended in one version of the table is active in a later one.
 *   - A renewal is sent after the call that ended the work has returned.
 *   - A release returns OK although the lease had already ended, is still active, or was ended
 *     in another way; or it returns LOST for a lease that it ended in time.
 *   - A lease is lost because it was not renewed, and its holder was not warned beforehand that the
 *     lease was in danger.
 *
 * Waiters (line_checker.c):
 *
 *   - A waiter is overtaken by a later one that it conflicts with.
 *   - A waiter is removed from the queue by another client before its turn has passed.
 *   - A request is refused although nothing conflicted with it at any time during the call.
 *   - A request reports that its work was already done, although it never was.
 *   - A request reports that it was refused, and is granted afterwards.
 *
 * Both: during the fault-free phase, a lease or a waiter is left that no longer belongs to any
 * handle.
 *
 * If the world violates the assumptions on which mutual exclusion relies, `exclusion` is false, and
 * properties that depend on clocks are not checked. */
#ifndef SIM_CHECKERS_LOCK_CHECKER_H
#define SIM_CHECKERS_LOCK_CHECKER_H

#include "holdfast.h"
#include "sim/checkers/table_checker.h"
#include "sim/run.h"

struct lock_checker;

struct lock_checker_options {
    bool exclusion;
    bool own_clock; /* holders rely only on their own clock, or on an equally good one */
    bool purged;    /* tables may be deleted; sweep_checker.h checks when */
};

struct lock_checker *lock_checker_new(struct run *run,
                                      const struct lock_checker_options *options);
void lock_checker_free(struct lock_checker *checker);

/* ---- Requests and results of nodes --------------------------------------------------- */

/* A lock as a user of the library names it; must outlive the run. */
struct lock_wish {
    const char *key; /* the key of its table; of a page, any key (checker_placed) */
    const char *scopes[CHECKED_SCOPES_MAX];
    size_t scope_count;
    enum hf_mode mode;
    uint32_t slots;
};

/* One handle, from its creation to its end. The struct lives as long as the checker. */
struct claim;

struct claim *claim_checker(struct lock_checker *checker, struct node *node,
                            const struct lock_wish *wish);

/* Reports in which table the handle asks for its lock, if that is not known beforehand. */
void checker_placed(struct claim *claim, struct view key);

/* Identifies the handle by its node, the node's incarnation and a number; used as the note of its
 * lock. */
struct claim_note {
    char text[48];
};
struct claim_note checker_note(const struct claim *claim);

enum checker_ask {
    CHECKER_ASKS_ONCE,     /* gives up if the lock is not free */
    CHECKER_STANDS_IN_LINE /* waits in the queue until it leaves */
};

/* Reports that a handle starts to ask for the lock. After `patience_ms` it may leave the queue by
 * itself. */
void checker_asks(struct claim *claim, enum checker_ask how, int64_t patience_ms);

/* Reports that the lock was not free: the request was refused, or queued. */
void checker_told_held(struct claim *claim);

/* Reports that the work was already done. */
void checker_told_already(struct claim *claim);

/* Reports that the handle stopped asking, got this status, and holds nothing. */
void checker_refused(struct claim *claim, enum hf_status status);

/* Reports that the handle is about to be removed from the queue. */
void checker_leaves(struct claim *claim);

/* Reports that the lock was granted. `adopted`: another handle had the lease before. */
void checker_held(struct claim *claim, struct hf_lock *lock, bool adopted);

/* Reports that the holder checked its lease and found it over. */
void checker_told_over(struct claim *claim);

/* Reports an event from the keeper. `kept`: the keeper renews the lease. */
void checker_told(struct claim *claim, enum hf_lock_event event, bool kept);
bool checker_was_told_gone(const struct claim *claim);

/* Reports that the holder stops relying on the lease, and is about to end it in this way. */
enum checker_end {
    CHECKER_RELEASES,
    CHECKER_COMPLETES,
    CHECKER_FAILS,
    CHECKER_FREES,
    CHECKER_ABANDONS, /* does not end the lease */
};
void checker_lets_go(struct claim *claim, enum checker_end how);

/* Reports the result of a release, complete or fail call. */
void checker_released(struct claim *claim, enum hf_status status);

/* Reports that the handle was freed. */
void checker_freed(struct claim *claim);

/* Reports that the holder leaves the lease to an adopter. From now on it relies on the lease at its
 * own risk. */
void checker_passed_on(struct claim *claim);

/* Reports that the claim's node starts to adopt the lease with this token, or has adopted it, which
 * counts as a use. */
void checker_adopting(struct claim *claim, uint64_t token, bool begins);

/* Reports that a node asks to break the lease. From now on the holder may wrongly believe that it
 * holds the lease, unless the result says that the lease was definitely not broken. */
void checker_breaks(struct lock_checker *checker, const char *key, uint64_t token);
void checker_broke(struct lock_checker *checker, const char *key, uint64_t token,
                   enum hf_status status);

/* Checks what all holders believe at this instant. */
void checker_look(struct lock_checker *checker);

/* ---- What happens to a table --------------------------------------------------------- */

enum checker_damage {
    DAMAGE_VISIBLE, /* every client can see that this is not a table; exclusion must hold */
    DAMAGE_HIDDEN,  /* it looks valid: holders are forgotten, but tokens must still increase */
};

/* Replaces a table with these bytes, or deletes it if their data is NULL. */
void checker_damage(struct lock_checker *checker, struct view key, struct view body,
                    enum checker_damage damage);

/* Whether a table was ever replaced in this way. */
bool checker_any_damage(const struct lock_checker *checker);

/* ---- The end ------------------------------------------------------------------------- */

/* Call this when no fault has affected the node for a long time. Nothing that its earlier
 * handles left behind may remain. */
void checker_quiet(struct lock_checker *checker, struct node *node, struct span since);

/* Called after the run. The last node must have acquired every lock once. */
void lock_checker_end(struct lock_checker *checker);

#endif
