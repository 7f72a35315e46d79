/* chunks.h: the lease table of a partition's chunks, for those who compact: who merges what, which
 * objects are pinned, and which outputs of leases that are over nobody has settled yet. */
#ifndef LOCK_CHUNKS_H
#define LOCK_CHUNKS_H

#include "lock/client.h"

/* Shows the table of a partition as it is in the store now. OK without a call when there never was
 * one. `look` must not ask the client for anything. CORRUPT names the table, which is left. */
enum hf_status chunks_look(struct hf_client *client, struct view partition,
                           void (*look)(void *argument, const struct lease_table *table,
                                        const struct evidence *evidence),
                           void *argument, struct hf_error *error);

/* The same by those who write anyway: a table that is damaged is replaced, by one that grants
 * nothing until all that it may have granted is over, and that is shown. */
enum hf_status chunks_look_mended(struct hf_client *client, struct view partition,
                                  void (*look)(void *argument, const struct lease_table *table,
                                               const struct evidence *evidence),
                                  void *argument, struct hf_error *error);

/* Whether it grants nothing just now. */
bool chunks_are_barred(const struct lease_table *table, const struct evidence *evidence);
#define CHUNKS_BARRED \
    "nothing is granted until the lease table that was damaged or restored is safe again"

/* Whether a lease is over: ended, or provably so. */
bool chunks_lease_over(const struct lease_table *table, const struct lease *lease,
                       const struct evidence *evidence);

/* Marks what is provably over as expired, and forgets those of these leases that have ended: their
 * outputs are settled. One write, none when there is nothing to do. */
#define CHUNKS_FORGET_MAX 64
enum hf_status chunks_tidy(struct hf_client *client, struct view partition,
                           const struct view *forget, size_t count, struct hf_error *error);

#endif
