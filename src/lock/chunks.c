/* chunks.c: which objects nobody has leased for merging. */
#include "lock/client.h"

#include <stdlib.h>

struct unleased {
    const char *const *keys;
    size_t count;
    bool *free;
};

/* What a dead worker had counts as free once that can be proven: nobody else would ask for it. */
static bool is_over(const struct lease_table *table, const struct lease *lease,
                    const struct evidence *evidence)
{
    return lease->status != LEASE_ACTIVE ||
           lease_judge(&table->settings, lease, evidence) != PROOF_NONE;
}

static void look(void *argument, const void *body, const struct evidence *evidence)
{
    struct unleased *asked = argument;
    const struct lease_table *table = body;
    for (size_t i = 0; i < asked->count; i++) {
        struct scope scope = { .kind = SCOPE_CHUNK, .name = view_of(asked->keys[i]) };
        struct lease wanted = { .scopes = &scope, .scope_count = 1, .mode = LEASE_EXCLUSIVE };
        asked->free[i] = true;
        for (size_t j = 0; j < table->lease_count && asked->free[i]; j++)
            asked->free[i] = !leases_conflict(table->leases[j], &wanted) ||
                             is_over(table, table->leases[j], evidence);
    }
}

enum hf_status hf_chunks_unleased(struct hf_client *client, const char *const *keys,
                                  size_t count, bool *ret_free, struct hf_error *error)
{
    struct scope chunk = { .kind = SCOPE_CHUNK };
    char key[KEY_BYTES_MAX + 1];
    struct place *place;
    struct hf_error why;
    enum hf_status status = table_key(&client->space, &chunk, key, &why);
    if (status == HF_OK)
        status = place_take(client, view_of(key), &place, &why);
    if (status == HF_OK) {
        struct unleased asked = { keys, count, ret_free };
        struct mono_time deadline = mono_add(env_now(client->env), REQUEST_TIME);
        status = doc_look(place->doc, deadline, look, &asked, &why);
        place_drop(place);
    }
    if (status == HF_NOT_FOUND) { /* there never was a lease */
        for (size_t i = 0; i < count; i++)
            ret_free[i] = true;
        return error_clear(error);
    }
    if (error)
        *error = why;
    return status;
}
