/* SPDX-License-Identifier: Apache-2.0 */
/* swap_checker.h: checks that documents are changed only by compare-and-swap.
 *
 * It fails the run if a node overwrites a version, which it has not read, of a lease table, an
 * epoch document, a transaction record or an index description. It skips shards and their locks,
 * for which index_checker.h checks the consequences. */
#ifndef SIM_CHECKERS_SWAP_CHECKER_H
#define SIM_CHECKERS_SWAP_CHECKER_H

#include "sim/run.h"

struct swap_checker;

struct swap_checker *swap_checker_new(struct run *run);
void swap_checker_free(struct swap_checker *checker);

#endif
