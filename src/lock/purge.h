/* SPDX-License-Identifier: Apache-2.0 */
/* purge.h: removes tables that nobody has used for D, on stores with conditional delete. The
 * epoch is raised first, so that tokens never decrease (docs/design.md section 5). */
#ifndef LOCK_PURGE_H
#define LOCK_PURGE_H

#include "lock/client.h"

/* Whether only tokens would be lost with the table: no active lease, none with an output, none
 * needed for once_per; no waiters; no state, or a removed one without a stage. `state_empty` is
 * src/key's verdict on whether the state is empty. */
bool table_is_stub(const struct lease_table *table, bool state_empty);

/* Deletes the table if it still has this ETag. The epoch must have been raised after that ETag
 * was seen. OK; CONFLICT or NOT_FOUND: it was used meanwhile, or is gone; UNSUPPORTED: the
 * store has no conditional delete. */
enum hf_status table_purge(struct hf_client *client, struct view table_key,
                           const struct etag *etag, struct hf_error *error);

#endif
