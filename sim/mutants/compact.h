/* SPDX-License-Identifier: Apache-2.0 */
/* compact.h: the mutants of src/compact: for each rule, what the library does when the rule is
 * broken. */
#ifndef SIM_MUTANTS_COMPACT_H
#define SIM_MUTANTS_COMPACT_H

#include "compact/catalog/catalog_tree.h"

/* SPLIT_SWAPS_LAST: names the children in the parent before they are in the store. */
void mutant_swaps_parent_first(struct catalog_ref *ref, struct catalog_op *swap);

/* DELETING_STAYS_FOR_D: drops names as soon as their objects are deleted. */
void mutant_drops_deleted_names(struct catalog *catalog, struct catalog_op *op);

/* CONDEMN_SPARES_LIVE, CONDEMN_SPARES_TOMBSTONES, CONDEMN_KNOWS_MOVED: removes a name that is about
 * to be condemned from its current list. */
void mutant_condemns_known_names(struct catalog *catalog, const struct removal *removal);

/* RANGE_NAMES_ITS_MERGE: enters a finished range into the oldest merge of its level, which may be
 * another attempt than the one that it was made for. */
void mutant_enters_any_merge(struct catalog *catalog, const struct catalog_op *op,
                             struct divided_merge **merge);

/* FRESH_OUTPUT_NAMES: derives the name of an output from its sources. Two workers that merge
 * the same group share this name, so one deletes the output that the other has committed. */
void mutant_names_output_after_sources(const struct view *keys, size_t count,
                                       enum hf_status drawn, char *output);

/* UNSURE_COMMIT_IS_ASKED: deletes the output of a commit whose reply was lost. */
void mutant_deletes_unsure_output(struct store *store, struct view output);

/* CONDEMN_BEFORE_DELETE: deletes the output of an ended lease that was not condemned. */
void mutant_deletes_uncondemned_output(struct store *store, struct view output);

/* SETTLE_BEFORE_FORGET: forgets a lease before its output is condemned. */
void mutant_forgets_before_settling(struct hf_client *client, struct view home, struct view id);

/* PINS_AFTER_THE_MOVE: reads the pins of tombstones before these move to the deleting list, and
 * deletes those that were not pinned then. */
void mutant_drops_pinned_chunks(bool dropping, size_t count, bool *pinned);
void mutant_reads_pins_early(struct catalog_ref *ref);
void mutant_trusts_early_pins(const struct catalog_ref *ref, const struct view *keys,
                              size_t count, bool *pinned);

/* SNAPSHOT_READS_LAST: reads what the snapshot will contain before its pins are written. */
struct snapshot_walk;
void mutant_reads_snapshot_early(enum hf_status (*read)(struct snapshot_walk *walk,
                                                        struct hf_error *error),
                                 struct snapshot_walk *walk, enum hf_status *status,
                                 struct hf_error *error);

/* EARLIER_SNAPSHOTS_HOLD: compares generations the wrong way: a snapshot protects what was removed
 * before it, and not what is removed after it. */
void mutant_compares_generations(uint64_t pinned, uint64_t removed, bool *holds);

#endif
