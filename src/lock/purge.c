#include "lock/purge.h"

#include "base/rule.h"

/* Whether an entry of the table is worth keeping it for. */
static bool is_needed(const struct lease *lease)
{
    return lease->status == LEASE_ACTIVE || lease->status == LEASE_COMPLETED ||
           lease->output.size > 0;
}

bool table_is_stub(const struct lease_table *table, bool state_empty)
{
    bool plain = !table->adopted && !table->of_shard && table->unknown.size == 0 &&
                 table->unknown_settings.size == 0; /* others may want what we do not know */
    if (!plain || !state_empty || table->waiter_count > 0)
        return false;
    for (size_t i = 0; i < table->lease_count; i++)
        if (is_needed(table->leases[i]))
            return false;
    return true;
}

enum hf_status table_purge(struct hf_client *client, struct view table_key,
                           const struct etag *etag, struct hf_error *error)
{
    if (!client->store->traits.delete_conditional)
        return error_set(error, HF_UNSUPPORTED, "this store cannot delete on a condition");
    struct delete_call call = { .key = table_key,
                                .condition = if_match(etag),
                                .deadline = mono_add(env_now(client->env), REQUEST_TIME) };
    if (!RULE(PURGE_UNCHANGED_ONLY))
        call.condition.kind = CONDITION_ALWAYS;
    enum hf_status status = store_delete(client->store, &call);
    clock_learn(&client->clock, &call.stamp);
    client_note_conflicts(client, table_key, status == HF_CONFLICT);
    if (error)
        *error = call.error;
    return status;
}
