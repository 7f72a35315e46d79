/* SPDX-License-Identifier: Apache-2.0 */
/* purge.h: removes tables that no client has used for D, on stores with conditional delete. The
 * epoch is raised first, so that tokens never decrease (docs/design.md, section 5). */
#ifndef LOCK_PURGE_H
#define LOCK_PURGE_H

#include "lock/client.h"

/* Whether nothing but tokens would be lost with the table. The table must have no waiters, and no
 * lease that is active, names an output, or is needed for once_per. It must have no state, or only
 * a removed one without a stage; src/key determines this and passes `state_empty`. */
bool table_is_stub(const struct lease_table *table, bool state_empty);

/* Deletes the table if it still has this ETag. The epoch must have been raised after that ETag
 * was seen. CONFLICT or NOT_FOUND: the table was used meanwhile, or is gone. UNSUPPORTED: the
 * store has no conditional delete. */
enum hf_status table_purge(struct hf_client *client, struct view table_key,
                           const struct etag *etag, struct hf_error *error);

#endif
