/* SPDX-License-Identifier: Apache-2.0 */
/* index.h: the mutants of src/index: for each rule, what the library does when the rule is
 * broken. */
#ifndef SIM_MUTANTS_INDEX_H
#define SIM_MUTANTS_INDEX_H

#include "base/error.h"

struct shard_compile;
struct lookup;
struct shard_merge;

/* ENTRIES_HAVE_A_NONCE: names an entry after its key and time alone. */
void mutant_drops_nonce(char *nonce);

/* INBOX_BEFORE_SHARD: reads the shard, then the inbox. */
void mutant_looks_in_shard_first(enum hf_status (**first)(struct lookup *, struct hf_error *),
                                 enum hf_status (**second)(struct lookup *, struct hf_error *));
void mutant_opens_shard_first(enum hf_status (*open)(struct shard_merge *, struct hf_error *),
                              struct shard_merge *merge);

/* CLEAR_AFTER_THE_SWAP: clears entries first, then puts the shard. */
void mutant_clears_before_swap(void (*clear)(struct shard_compile *),
                               struct shard_compile *job);

/* CONFLICT_CLEARS_NOTHING, UNSURE_CLEARS_NOTHING: treats a shard's put as done, although it was
 * refused or its reply was lost. */
void mutant_takes_shard_for_stored(enum hf_status *status);

/* PLAIN_SHARDS_ARE_READ_BACK: treats a plain shard as stored although no reply has come. */
void mutant_takes_plain_for_stored(enum hf_status *status);

/* LATEST_WINS: of two records, keeps the one that was read last. */
void mutant_takes_last_read(int *order);

#endif
