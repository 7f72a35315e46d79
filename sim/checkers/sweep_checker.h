/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_checker.h: checks sweeping: the expiry index, and tables that are purged.
 *
 * The checker sees each write that the store applies, and nodes report to it when they begin to
 * sweep. It fails the run if
 *
 *   - an entry of the index is deleted although a lease that existed throughout the sweep is still
 *     active in the table, and no other entry names that table;
 *   - a table is purged although it has an active lease or a waiter, was changed less than D ago
 *     (measured in hours; not checked if hours come from wall clocks), or has tokens that are not
 *     below the epoch; or the epoch decreases;
 *   - a sweep processes more than its limit;
 *   - a node has held a lease for hours without faults, and no entry for the current hour names its
 *     table;
 *   - at the end, an entry for a past hour is left, or a lease whose table had an entry. */
#ifndef SIM_CHECKERS_SWEEP_CHECKER_H
#define SIM_CHECKERS_SWEEP_CHECKER_H

#include "sim/run.h"
#include "sweep/sweep.h"

struct sweep_checker;

struct sweep_checker_options {
    struct span late_bound; /* D, measured in hours; 0: hours cannot measure it */
    struct span hour;
    bool wild_calendars; /* the nodes disagree on the hour; what depends on it is not checked */
};

struct sweep_checker *sweep_checker_new(struct run *run,
                                        const struct sweep_checker_options *options);
void sweep_checker_free(struct sweep_checker *checker);

/* Report that a node begins to sweep, and that it got the result. */
void sweep_checker_begins(struct sweep_checker *checker, const struct node *node);
void sweep_checker_told(struct sweep_checker *checker, const struct node *node,
                        const struct sweep_options *options, enum hf_status status,
                        const struct sweep_report *report);

/* Reports that the node has held a lease in this table for hours, without faults. */
void sweep_checker_held(struct sweep_checker *checker, struct node *node, struct view table);

/* Called after this node has swept everything. No expired entry may be left. */
void sweep_checker_end(struct sweep_checker *checker, struct node *node);

#endif
