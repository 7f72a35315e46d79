/* SPDX-License-Identifier: Apache-2.0 */
/* bank_checker.h: checks keys with state, and transactions, based on the results that nodes get and
 * the writes that the store applied.
 *
 * The checker parses documents, records and states itself. Every state contains a balance and the
 * number of the operation that wrote it. The sum of all balances is always zero, and in certain
 * pairs of keys the sum of the two balances is never negative. The value of a key is its stage if
 * the record of the stage's transaction says commit; otherwise it is the published state. The
 * checker fails the run in these cases.
 *
 * In the store:
 *
 *   - A key's version does not increase by one, or a version repeats. One write may contain several
 *     changes of a node without a lease, which make a version each: every one but the last removed
 *     the value, because the next one has the condition that there is none, every one used up a
 *     token, and as many calls of nodes that remove the value are in progress or in doubt.
 *     A key is changed without a
 *     lease that was active in the previous document. The exceptions are a promoted stage of a
 *     committed transaction, a promoted stage of a lease that ends in the same write, and a change
 *     that takes a token of its own, while nobody holds the key or waits for it and there is no
 *     stage.
 *   - A key is published while it belongs to a transaction, unless the same step commits the
 *     transaction, which wrote this value. A key is added to a transaction that
 *     never had a record, or under a lease that is not active.
 *   - A stage is promoted although the record of its transaction does not say commit, or is
 *     discarded although the record says commit. A stage is discarded before a rollback is
 *     recorded, unless it had no changes and no node had been told that the key was acquired.
 *   - A record is created as commit, or its decision changes. A record is deleted less than D after
 *     the decision, or while a stage that it was committed with remains, with or without changes.
 *   - A change is staged for a transaction after its commit.
 *   - A commit is recorded although a participant has no stage, a key with a stage is not named, a
 *     stage differs from what was reported to a node, or a key that was reported to a node as
 *     acquired is not in the transaction.
 *   - A document names a body that does not exist, or a body is deleted while a document names it.
 *   - The balances do not add up to zero, or a pair is overdrawn: money was created, or a read was
 *     outdated when the transaction was committed.
 *   - A document that is still in use is deleted. A token decreases.
 *   - A transaction waits for a key while the same node holds a key with a later name for it. Two
 *     transactions could then wait for each other.
 *
 * In the results:
 *
 *   - An operation that was refused, rolled back or discarded is in the document, or appears there
 *     later. An operation that was reported as done is missing from the document, or the document
 *     differs from it. A change without a lease is reported with another version than it made, or
 *     with one that another change made.
 *   - A transaction is told that its keys are held by others, and holds one of them.
 *   - A reader gets a value that the key did not have at any instant since the read began.
 *
 * At the end, after the fault-free phase and several sweeps:
 *
 *   - A stage, a pending record, a lease or an unused object is left. */
#ifndef SIM_CHECKERS_BANK_CHECKER_H
#define SIM_CHECKERS_BANK_CHECKER_H

#include "holdfast.h"
#include "sim/run.h"

#define BANK_KEYS_MAX 16

struct bank_checker;

struct bank_checker_options {
    const char *const *keys; /* their names; they outlive the checker */
    size_t key_count;        /* the first two are a pair, ... */
    size_t pairs;            /* ... and so on; the number of pairs */
    struct span late_bound;  /* D */
};

struct bank_checker *bank_checker_new(struct run *run,
                                      const struct bank_checker_options *options);
void bank_checker_free(struct bank_checker *checker);

/* ---- Operations of nodes ------------------------------------------------------------------ */

/* Returns a number for an operation that writes this balance to a key; `txn` is empty outside
 * transactions. Call it before the operation starts. */
uint64_t bank_checker_writes(struct bank_checker *checker, size_t key, struct view txn,
                             int64_t balance);

/* Like bank_checker_writes, for an operation that removes a key's value. */
uint64_t bank_checker_removes(struct bank_checker *checker, size_t key, struct view txn);

/* Produces `size` bytes for the operation to write; they start with its number and balance. */
void bank_checker_text(uint64_t operation, int64_t balance, size_t size, char *text);

/* ---- Results that nodes get --------------------------------------------------------------- */

/* The result of an update. `staged`: it becomes visible when it is committed. */
void bank_checker_told_write(struct bank_checker *checker, uint64_t operation, bool staged,
                             enum hf_status status);

/* The version that a change without a lease has made, which was reported as done. */
void bank_checker_told_version(struct bank_checker *checker, uint64_t operation,
                               uint64_t version);

/* Like bank_checker_told_write, for an operation that was not performed because its condition was
 * false. */
void bank_checker_told_impossible(struct bank_checker *checker, uint64_t operation,
                                  enum hf_status status);

/* Reports that a key was acquired for a transaction. */
void bank_checker_told_taken(struct bank_checker *checker, struct view txn, size_t key);

/* Reports that a node was refused a key for a transaction (HELD), and so got none of its keys. */
void bank_checker_told_refused(struct bank_checker *checker, struct view txn, size_t key,
                               unsigned node);

/* Reports that a stage outside a transaction is known to have been published, or will never be
 * published. */
void bank_checker_told_published(struct bank_checker *checker, uint64_t operation);
void bank_checker_told_dropped(struct bank_checker *checker, uint64_t operation);

/* The result of a commit or a rollback. */
void bank_checker_told_end(struct bank_checker *checker, struct view txn,
                           enum hf_decision asked, enum hf_status status,
                           enum hf_decision decision);

/* Reports that the only node that may commit a transaction was told that it is not committed. */
void bank_checker_told_not_committed(struct bank_checker *checker, struct view txn);

/* Returns the current instant; pass it back when the read that begins now has ended. */
uint64_t bank_checker_now(const struct bank_checker *checker);

void bank_checker_told_get(struct bank_checker *checker, uint64_t began, size_t key,
                           enum hf_status status, struct view bytes,
                           const struct hf_key_info *info);

/* ---- The end ------------------------------------------------------------------------------ */

/* Called after the run. The last node must have swept until nothing was left to do. */
void bank_checker_end(struct bank_checker *checker);

#endif
