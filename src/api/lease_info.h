/* SPDX-License-Identifier: Apache-2.0 */
/* lease_info.h: converts a lease in a table to the public struct; the common parts of all lists. */
#ifndef API_LEASE_INFO_H
#define API_LEASE_INFO_H

#include "base/arena.h"
#include "lock/table_reader.h"

/* Strings are copied into the arena. `place` is a waiter's position in the queue, from 1; 0: a
 * lease. False if memory runs out. */
bool lease_info_fill(struct arena *arena, const struct table_snapshot *sight,
                     const struct lease *lease, size_t place, struct hf_lease_info *ret_info);

/* Copies the strings of the struct into the arena, so that it outlives the callback that got it.
 * False if memory runs out. */
bool lease_info_keep(struct arena *arena, struct hf_lease_info *info);

/* Calls `visit` for the leases in a table, with place 0, and then for its waiters, until `visit`
 * fails. */
typedef enum hf_status lease_visit_fn(void *argument, const struct table_snapshot *sight,
                                      const struct lease *lease, size_t place,
                                      struct hf_error *error);
enum hf_status visit_leases(const struct table_snapshot *sight, lease_visit_fn *visit,
                            void *argument, struct hf_error *error);

/* Milliseconds; a positive span below 1 ms counts as 1. */
int64_t shown_ms(struct span span);

/* Apply the list options to each object in a list. list_proceeds returns CANCELLED if the caller
 * stops the list. list_damaged reports a damaged object and lets the list continue or, without a
 * callback, ends the listing. */
enum hf_status list_proceeds(const struct hf_list_options *options, void *argument,
                             struct hf_error *error);
enum hf_status list_damaged(const struct hf_list_options *options, void *argument,
                            struct view key, const struct hf_error *why,
                            struct hf_error *error);

#endif
