/* SPDX-License-Identifier: Apache-2.0 */
/* chunks.h: the lease table of a partition's chunks, for compaction: which chunks are being
 * merged, which are pinned, and which ended leases name outputs that are not settled. */
#ifndef LOCK_CHUNKS_H
#define LOCK_CHUNKS_H

#include "lock/client.h"

/* Passes the current table of a partition to `look`. If there was never a table, returns OK
 * without calling `look`. `look` must not use the client. CORRUPT: the error names the table,
 * which is left unchanged. */
enum hf_status chunks_look(struct hf_client *client, struct view partition,
                           void (*look)(void *argument, const struct lease_table *table,
                                        const struct evidence *evidence),
                           void *argument, struct hf_error *error);

/* The same for callers that also write. A damaged table is first replaced by one that grants
 * nothing until all leases of the damaged table must have expired. */
enum hf_status chunks_look_mended(struct hf_client *client, struct view partition,
                                  void (*look)(void *argument, const struct lease_table *table,
                                               const struct evidence *evidence),
                                  void *argument, struct hf_error *error);

/* Whether a barrier currently prevents the table from granting anything. */
bool chunks_are_barred(const struct lease_table *table, const struct evidence *evidence);
#define CHUNKS_BARRED \
    "nothing is granted until the lease table that was damaged or restored is safe again"

/* Whether a lease has ended: the table says so, or there is a proof. */
bool chunks_lease_over(const struct lease_table *table, const struct lease *lease,
                       const struct evidence *evidence);

/* Marks leases that are proven to have ended as expired. Of the given leases, whose outputs the
 * caller has settled, removes those that have ended. Takes at most one write. */
#define CHUNKS_FORGET_MAX 64
enum hf_status chunks_tidy(struct hf_client *client, struct view partition,
                           const struct view *forget, size_t count, struct hf_error *error);

/* Deletes the table of a partition that is being dropped. `again`: a partition of this name may be
 * created again. Then the table is deleted only if it is unchanged, after the epoch has been
 * raised, so that tokens never decrease. OK also if there is no table.
 *
 *   HELD         a lease or a pin is active, or an ended lease is not settled
 *   CONFLICT     the table was used meanwhile
 *   UNSUPPORTED  with `again`: the store has no conditional delete, so the table stays */
enum hf_status chunks_remove(struct hf_client *client, struct view partition, bool again,
                             struct hf_error *error);

#endif
