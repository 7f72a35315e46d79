/* SPDX-License-Identifier: Apache-2.0 */
/* purge.c: deletes a table that no client uses. It guards against decreasing tokens: the table is
 * deleted only if it still has the ETag that was seen, and only after the epoch has been raised
 * above its tokens. */
#include "lock/purge.h"

#include "base/rule.h"
#include "lock/client_inside.h"

bool table_is_stub(const struct lease_table *table, bool state_empty)
{
    /* Unknown members may matter to another version. */
    bool plain = !table->adopted && !table->of_shard && table->unknown.size == 0 &&
                 table->unknown_settings.size == 0;
    if (!plain || !state_empty || table->waiter_count > 0)
        return false;
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *lease = table->leases[i];
        if (lease->status == LEASE_ACTIVE || lease->status == LEASE_COMPLETED ||
            lease->output.size > 0)
            return false;
    }
    return true;
}

enum hf_status table_purge(struct hf_client *client, struct view table_key,
                           const struct etag *etag, struct hf_error *error)
{
    if (!client->store->traits.delete_conditional)
        return error_set(error, HF_UNSUPPORTED, "this store has no conditional delete");
    struct delete_call call = { .key = table_key, .deadline = client_deadline(client) };
    /* Without the condition, the delete could remove a lease that was granted since the table was
     * read. */
    if (RULE(PURGE_UNCHANGED_ONLY))
        call.condition = if_match(etag);
    enum hf_status status = store_delete(client->store, &call);
    clock_learn(&client->clock, &call.stamp);
    client_note_conflicts(client, table_key, status == HF_CONFLICT);
    if (error)
        *error = call.error;
    return status;
}
