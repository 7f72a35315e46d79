/* SPDX-License-Identifier: Apache-2.0 */
/* chunks.c: the lease table of a partition, as compaction reads it: which chunks are free, and
 * which leases have ended. */
#include "lock/chunks.h"

#include "base/check.h"
#include "base/layout.h"
#include "lock/client_inside.h"
#include "lock/epoch.h"
#include "lock/purge.h"

#include <stdlib.h>
#include <string.h>

/* ---- Reading tables ------------------------------------------------------------------ */

struct sighting {
    void (*look)(void *argument, const struct lease_table *table,
                 const struct evidence *evidence);
    void *argument;
};

static void pass_table(void *argument, const void *body, const struct evidence *evidence)
{
    struct sighting *sighting = argument;
    sighting->look(sighting->argument, body, evidence);
}

static enum hf_status take_partition_table(struct hf_client *client, struct view partition,
                                           struct table_ref **ret_ref, struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    if (!layout_partition_valid(partition) ||
        !layout_partition_key(partition, LAYOUT_LEASES, key))
        return error_set(error, HF_INVALID, "'%.*s' is not a partition name",
                         VIEW_ARGS(view_first(partition, 80)));
    return table_ref_take(client, view_of(key), ret_ref, error);
}

enum hf_status chunks_look(struct hf_client *client, struct view partition,
                           void (*look)(void *argument, const struct lease_table *table,
                                        const struct evidence *evidence),
                           void *argument, struct hf_error *error)
{
    struct sighting sighting = { look, argument };
    struct mono_time deadline = client_deadline(client);
    struct table_ref *ref;
    enum hf_status status = take_partition_table(client, partition, &ref, error);
    if (status != HF_OK)
        return status;
    status = doc_look(ref->doc, deadline, pass_table, &sighting, error);
    if (status == HF_CORRUPT)
        error_prefix(error, "the lease table %.*s",
                     VIEW_ARGS(view_first(doc_key(ref->doc), 120)));
    table_ref_drop(ref);
    return status == HF_NOT_FOUND ? error_clear(error) : status;
}

enum hf_status chunks_look_mended(struct hf_client *client, struct view partition,
                                  void (*look)(void *argument, const struct lease_table *table,
                                               const struct evidence *evidence),
                                  void *argument, struct hf_error *error)
{
    enum hf_status status = chunks_look(client, partition, look, argument, error);
    if (status != HF_CORRUPT)
        return status;
    struct hf_error damage = *error;
    if (chunks_tidy(client, partition, NULL, 0, error) != HF_OK) {
        error_prefix(error, "%.120s; it cannot be replaced", damage.why);
        return error->status;
    }
    return chunks_look(client, partition, look, argument, error);
}

bool chunks_are_barred(const struct lease_table *table, const struct evidence *evidence)
{
    for (size_t i = 0; i < table->lease_count; i++)
        if (table->leases[i]->wish.scope_count == 0 &&
            !chunks_lease_over(table, table->leases[i], evidence))
            return true;
    return false;
}

/* The chunks of a dead worker count as free once its lease is proven to have ended. Otherwise no
 * merge would be planned for them, and no client would request them and clear the lease. */
bool chunks_lease_over(const struct lease_table *table, const struct lease *lease,
                       const struct evidence *evidence)
{
    return lease->status != LEASE_ACTIVE ||
           lease_judge(&table->settings, lease, evidence) != PROOF_NONE;
}

/* ---- Free chunks --------------------------------------------------------------------- */

struct unleased {
    struct view partition; /* only the chunks of this partition are checked */
    const char *const *keys;
    size_t count;
    bool *free;
};

static bool is_free(const struct lease_table *table, struct view key,
                    const struct evidence *evidence)
{
    struct scope scope = { .kind = SCOPE_CHUNK, .name = key };
    struct lease_wish wanted = { .scopes = &scope, .scope_count = 1, .mode = LEASE_EXCLUSIVE };
    for (size_t i = 0; i < table->lease_count; i++)
        if (wishes_conflict(&table->leases[i]->wish, &wanted) &&
            !chunks_lease_over(table, table->leases[i], evidence))
            return false;
    return true;
}

static void find_free(void *argument, const struct lease_table *table,
                      const struct evidence *evidence)
{
    struct unleased *asked = argument;
    for (size_t i = 0; i < asked->count; i++) {
        struct view key = view_of(asked->keys[i]);
        if (view_equal(layout_home(key), asked->partition))
            asked->free[i] = is_free(table, key, evidence);
    }
}

enum hf_status hf_chunks_unleased(struct hf_client *client, const char *const *keys,
                                  size_t count, bool *ret_free, struct hf_error *error)
{
    struct unleased asked = { .keys = keys, .count = count };
    struct hf_error why = { .status = HF_OK };
    enum hf_status status = HF_OK;
    if (ERROR_IF_NULL(error, client, keys, ret_free) != HF_OK ||
        error_if_null_among(error, "keys", keys, count) != HF_OK)
        return HF_INVALID;
    client_active(client);
    bool *done = calloc(count > 0 ? count : 1, 2 * sizeof *done);
    if (!done)
        return error_no_memory(error);
    asked.free = done + count;
    for (size_t i = 0; i < count; i++)
        asked.free[i] = true; /* stays true if the partition has no lease table */
    for (size_t i = 0; i < count; i++) {
        if (status != HF_OK || done[i])
            continue;
        asked.partition = layout_home(view_of(keys[i]));
        for (size_t j = i; j < count; j++)
            done[j] |= view_equal(layout_home(view_of(keys[j])), asked.partition);
        status = chunks_look(client, asked.partition, find_free, &asked, &why);
    }
    if (status == HF_OK && count > 0)
        memcpy(ret_free, asked.free, count * sizeof *ret_free);
    free(done);
    if (error)
        *error = why;
    return status;
}

/* ---- Tidying ------------------------------------------------------------------------- */

enum hf_status chunks_tidy(struct hf_client *client, struct view partition,
                           const struct view *forget, size_t count, struct hf_error *error)
{
    struct request requests[1 + CHUNKS_FORGET_MAX], *asked[1 + CHUNKS_FORGET_MAX];
    struct mono_time deadline = client_deadline(client);
    struct table_ref *ref;
    check(count <= CHUNKS_FORGET_MAX);
    enum hf_status status = take_partition_table(client, partition, &ref, error);
    if (status != HF_OK)
        return status;
    for (size_t i = 0; i <= count; i++) {
        request_init(&requests[i], ref, i == 0 ? TABLE_SCAVENGE : TABLE_FORGET, deadline);
        if (i > 0)
            requests[i].table.id = forget[i - 1];
        asked[i] = &requests[i];
    }
    status = table_ref_ask(ref, asked, count + 1);
    for (size_t i = 0; i <= count; i++)
        if (requests[i].op.error.status == status)
            *error = requests[i].op.error;
    table_ref_drop(ref);
    return status == HF_OK ? error_clear(error) : status;
}

/* ---- Removing ------------------------------------------------------------------------ */

struct table_use {
    bool seen;     /* there is a table */
    bool unmarked; /* some lease has provably ended but is active in the table */
    bool used;     /* some lease is active, or its output is not settled */
};

static void find_use(void *argument, const struct lease_table *table,
                     const struct evidence *evidence)
{
    struct table_use *use = argument;
    *use = (struct table_use){ .seen = true, .used = table->waiter_count > 0 };
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *lease = table->leases[i];
        bool active = lease->status == LEASE_ACTIVE;
        bool settled = lease->output.size == 0 || lease->status == LEASE_COMPLETED;
        use->used |= active || !settled;
        use->unmarked |= active && chunks_lease_over(table, lease, evidence);
    }
}

/* The ETag of the table, if it was the same before and after the look that found it unused. */
static enum hf_status find_unused_etag(struct hf_client *client, struct view partition,
                                       struct doc *doc, struct etag *ret_etag,
                                       struct table_use *use, struct hf_error *error)
{
    struct etag before;
    enum hf_status status = chunks_look(client, partition, find_use, use, error);
    if (status == HF_OK && use->unmarked)
        status = chunks_tidy(client, partition, NULL, 0, error);
    if (status != HF_OK || !use->seen)
        return status;
    bool known = doc_etag(doc, &before);
    status = chunks_look(client, partition, find_use, use, error);
    if (status == HF_OK && use->used)
        status = error_set(error, HF_HELD,
                           "chunks are still pinned or leased, or a merge is not settled");
    if (status == HF_OK && !(known && doc_etag(doc, ret_etag) && etag_equal(&before, ret_etag)))
        status = error_set(error, HF_CONFLICT, "the lease table is in use");
    return status;
}

enum hf_status chunks_remove(struct hf_client *client, struct view partition, bool again,
                             struct hf_error *error)
{
    struct mono_time deadline = client_deadline(client);
    bool conditional = client->store->traits.delete_conditional;
    struct table_use use = { .seen = false };
    struct table_ref *ref;
    struct etag etag;
    uint64_t epoch;
    enum hf_status status = take_partition_table(client, partition, &ref, error);
    if (status != HF_OK)
        return status;
    status = find_unused_etag(client, partition, ref->doc, &etag, &use, error);
    if (status == HF_OK && use.seen && again && conditional) {
        struct epoch_ref space = epoch_of_tables(&client->chunk_space, deadline);
        status = epoch_raise(&space, /* by */ 1, &epoch, error);
    }
    if (status == HF_OK && use.seen && (again || conditional)) {
        status = table_purge(client, doc_key(ref->doc), &etag, error);
    } else if (status == HF_OK && use.seen) {
        struct delete_call call = { .key = doc_key(ref->doc), .deadline = deadline };
        status = store_delete(client->store, &call);
        *error = call.error;
    }
    table_ref_drop(ref);
    return status == HF_NOT_FOUND ? error_clear(error) : status;
}
