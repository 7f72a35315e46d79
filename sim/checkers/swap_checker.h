/* SPDX-License-Identifier: Apache-2.0 */
/* swap_checker.h: checks that documents are changed by compare-and-swap only.
 *
 * It fails the run when a node overwrites a lease table, an epoch document, a transaction record or
 * an index description in a version that it has not read. It skips shards and their locks:
 * index_checker.h checks the consequences there. */
#ifndef SIM_CHECKERS_SWAP_CHECKER_H
#define SIM_CHECKERS_SWAP_CHECKER_H

#include "sim/run.h"

struct swap_checker;

struct swap_checker *swap_checker_new(struct run *run);
void swap_checker_free(struct swap_checker *checker);

#endif
