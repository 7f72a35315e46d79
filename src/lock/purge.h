/* purge.h: removing tables that nobody has used for D, where the store can delete on a condition.
 * docs/design.md section 5: the epoch is raised before, so that tokens never fall. */
#ifndef LOCK_PURGE_H
#define LOCK_PURGE_H

#include "lock/client.h"

/* Whether nothing would be lost with it but tokens: no lease that is active, or names an output, or
 * answers once_per; nobody waits; no state but a removed one that has nothing staged. `state_empty`
 * says what src/key makes of the state. */
bool table_is_stub(const struct lease_table *table, bool state_empty);

/* Deletes the table if it still has this ETag. The epoch must have been raised after that ETag was
 * seen. OK; CONFLICT or NOT_FOUND: it was used meanwhile, or is gone; UNSUPPORTED: this store
 * cannot delete on a condition. */
enum hf_status table_purge(struct hf_client *client, struct view table_key,
                           const struct etag *etag, struct hf_error *error);

#endif
