/* SPDX-License-Identifier: Apache-2.0 */
/* doc.h: the mutants of src/doc: for each rule, what the library does when the rule is broken. */
#ifndef SIM_MUTANTS_DOC_H
#define SIM_MUTANTS_DOC_H

#include "base/evidence.h"
#include "store/store.h"

struct batch;
struct crowd;
struct doc;
struct doc_attempt;
struct doc_op;

/* NO_BLIND_RETRY: resends a put whose reply was lost, without its condition. */
void mutant_retries_blindly(struct store *store, struct put_call *put, enum hf_status *status);

/* EACH_BY_ITS_OWN_STATUS: takes the status of the first of several changes for all of them. */
void mutant_takes_first_result(struct change_call *changes, size_t index);

/* VALID_FROM_THAT_ATTEMPT: counts validity from the latest remembered attempt. */
void mutant_counts_from_last_attempt(const struct doc_op *op, size_t kept,
                                     const struct doc_attempt **found);

/* WATCH_SINCE_ARRIVAL: counts the time of watching from when the request was sent. */
void mutant_watches_since_sent(struct mono_time sent, struct mono_time *arrived);

/* FIRST_WRITE_IF_ABSENT: puts a new document unconditionally. */
void mutant_overwrites_first_write(struct condition *condition);

/* LIMIT_AFTER_THE_MARK, EPOCH_AFTER_THE_STUB: prepares a body before its placeholder is
 * written. */
void mutant_prepares_early(struct doc *doc, void *body, const struct etag *etag,
                           struct mono_time deadline);

/* DAMAGE_IS_MARKED, BORN_IN_TWO_WRITES, BORN_SO_EVERYWHERE: does not write a placeholder over a
 * damaged document, or before a new one. */
void mutant_skips_placeholder(const struct doc *doc, const struct etag *etag,
                              bool *placeholder);

/* NONCE_IN_EVERY_WRITE: gives all writes the same nonce. */
void mutant_repeats_nonce(char nonce[NONCE_SIZE + 1]);

/* REFUSED_AFTER_THE_PUT: reports refusals before the batch is written. */
void mutant_refuses_before_the_put(struct batch *batch);

/* CROWD_IS_REMEMBERED: forgets after each change how long to pause after a conflict. */
void mutant_forgets_the_crowd(struct crowd *crowd);

/* QUIET_IS_MEASURED: takes a read that finds a body of this age unchanged for proof that one twice
 * as old will be unchanged. */
void mutant_trusts_one_read(struct crowd *crowd, struct span age, bool changed);

/* BOOT_CLOCK_FOR_LOCAL_STORES: uses the wall clock as a local store's time. */
void mutant_reads_the_wall_clock(struct evidence *evidence);

#endif
