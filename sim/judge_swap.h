/* judge_swap.h: judges that documents are changed by compare-and-swap only.
 *
 * It fails the run when a node overwrites a lease table, an epoch document, a transaction record or
 * an index description in a version that it has not read. It skips shards and their locks:
 * judge_index.h judges the consequences there. */
#ifndef SIM_JUDGE_SWAP_H
#define SIM_JUDGE_SWAP_H

#include "sim/run.h"

struct judge_swap;

struct judge_swap *judge_swap_new(struct run *run);
void judge_swap_free(struct judge_swap *judge);

#endif
