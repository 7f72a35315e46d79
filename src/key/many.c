/* SPDX-License-Identifier: Apache-2.0 */
/* many.c: changes several keys in one step of a store that can do so: all or none. If nobody holds
 * the keys or waits for them, this is one write without a lease (once.c). Otherwise the keys are
 * acquired in the order of their names, changed in one step, and released. The step itself guards
 * against half a change: there is no moment at which another client sees one key changed and not
 * the other. Stages and records of transactions are not involved. */
#include "key/key.h"

#include "base/check.h"

#include <stdlib.h>

/* How many times the step is repeated under leases, if a document had to be read again. */
#define STEP_TRIES_MAX 4

/* One key of the call. */
struct part {
    const struct hf_key_write *write;
    struct hf_key_if when;
    struct hf_key_info *info; /* the caller's, or NULL */
    struct hf_key *key;
    bool acquired;
    struct state_version version;
    struct change change;
    struct key_lease lease;
    struct request request;
};

struct many {
    struct part parts[TOGETHER_MAX]; /* ordered by name */
    size_t count;
};

static_assert(HF_KEYS_TOGETHER_MAX == TOGETHER_MAX, "as documented");

/* ---- Arguments ----------------------------------------------------------------------- */

static enum hf_status check_write(const struct hf_key_write *write, struct hf_key_if *ret_when,
                                  struct hf_error *error)
{
    *ret_when = HF_KEY_IF;
    if (!write->name || (!write->data && write->size > 0))
        return error_set(error, HF_INVALID, "a key needs a name and data");
    if (write->removes && write->size > 0)
        return error_set(error, HF_INVALID, "a state that is removed has no data");
    if (write->size > STATE_INLINE_MAX)
        return error_set(error, HF_INVALID,
                         "%zu bytes are too many to be changed together with other keys; use a "
                         "transaction (hf_txn_begin)",
                         write->size);
    if (read_caller_options("HF_KEY_IF", write->when, ret_when, sizeof *ret_when, error) !=
        HF_OK)
        return HF_INVALID;
    return key_check_if(ret_when, error);
}

static int compare_parts(const void *a, const void *b)
{
    return strcmp(((const struct part *)a)->write->name, ((const struct part *)b)->write->name);
}

/* The caller's struct may be shorter than ours. */
static struct hf_key_info *info_at(struct hf_key_info *infos, size_t index)
{
    return infos ? (struct hf_key_info *)(void *)((char *)infos + index * infos->struct_size)
                 : NULL;
}

static enum hf_status read_parts(struct many *many, const struct hf_key_write *writes,
                                 size_t count, struct hf_key_info *infos,
                                 struct hf_error *error)
{
    many->count = count;
    for (size_t i = 0; i < count; i++) {
        struct part *part = &many->parts[i];
        *part = (struct part){ .write = &writes[i], .info = info_at(infos, i) };
        change_init(&part->change, CHANGE_LOOK);
        if (key_info_begin(part->info, error) != HF_OK ||
            check_write(&writes[i], &part->when, error) != HF_OK)
            return HF_INVALID;
    }
    qsort(many->parts, count, sizeof many->parts[0], compare_parts);
    for (size_t i = 1; i < count; i++)
        if (strcmp(many->parts[i].write->name, many->parts[i - 1].write->name) == 0)
            return error_set(error, HF_INVALID, "the key '%.100s' is named twice",
                             many->parts[i].write->name);
    return HF_OK;
}

/* ---- The step ------------------------------------------------------------------------ */

/* Prepares the change of one key: without a lease, or under the lease that was acquired. */
static enum hf_status begin_part(struct part *part, struct hf_error *error)
{
    const struct hf_key_write *write = part->write;
    struct view data = { write->size > 0 ? write->data : "", write->size };
    struct change *change = &part->change;
    change_release(change);
    once_init(change, part->key, data, write->removes, &part->when, &part->version);
    if (part->acquired) {
        enum hf_status status = key_lease(part->key, &part->lease);
        if (status != HF_OK)
            return error_set(error, status, "%s", hf_status_text(status));
        change->kind = CHANGE_PUBLISH;
        change->lease = view_of(part->lease.id);
        change->token = part->version.token = part->lease.token;
    }
    change->old = part->key->bodies.gone;
    change->old_count = part->key->bodies.gone_count;
    request_init(&part->request, part->key->lock->ref, TABLE_KEEP, (struct mono_time){ 0 });
    part->request.hook = &change->hook;
    return HF_OK;
}

/* One step. NOT_FOUND: a document must be created or loaded first. HELD: a key is not free. */
static enum hf_status step_once(struct many *many, struct hf_error *error)
{
    struct request *requests[TOGETHER_MAX];
    for (size_t i = 0; i < many->count; i++) {
        struct part *part = &many->parts[i];
        if (begin_part(part, error) != HF_OK)
            return error->status;
        requests[i] = &part->request;
    }
    enum hf_status status =
        table_refs_ask_together(/* beside */ NULL, requests, many->count, error);
    for (size_t i = 0; i < many->count; i++) {
        struct part *part = &many->parts[i];
        bool refused = status != HF_OK && part->request.op.answer == DOC_KNOWN;
        if (status == HF_OK)
            key_note_state(part->key, &part->change.state);
        if (refused)
            error_prefix(error, "%s", part->write->name);
        /* Of a refused step, only the key that refused it says what it is now. */
        bool told = status == HF_OK || refused;
        if (part->info && told)
            key_info_fill(&part->change.state, &part->change.state.now,
                          refused ? part->change.outcome : HF_KEY_NONE, part->info);
    }
    return status;
}

/* ---- Under leases -------------------------------------------------------------------- */

/* A failed release is ignored: the lease expires on its own. */
static void release_parts(struct many *many)
{
    for (size_t i = 0; i < many->count; i++)
        if (many->parts[i].acquired)
            hf_key_release(many->parts[i].key, HF_COMMIT, /* error */ NULL);
}

/* Acquires the keys in the order of their names, like a transaction, so that two calls never wait
 * for each other. */
static enum hf_status acquire_parts(struct many *many, int64_t wait_ms, struct hf_error *error)
{
    struct hf_client *client = many->parts[0].key->client;
    struct mono_time until = mono_add(client_now(client), span_of_ms(wait_ms));
    for (size_t i = 0; i < many->count; i++) {
        struct part *part = &many->parts[i];
        int64_t left = mono_since(until, client_now(client)).us / 1000;
        enum hf_status status =
            hf_key_acquire(part->key, left > 0 ? left : 0, part->info, error);
        if (status != HF_OK) {
            error_prefix(error, "%s", part->write->name);
            return status;
        }
        part->acquired = true;
    }
    return HF_OK;
}

static enum hf_status change_under_leases(struct many *many, int64_t wait_ms,
                                          struct hf_error *error)
{
    enum hf_status status = acquire_parts(many, wait_ms, error);
    if (status == HF_OK)
        status = HF_NOT_FOUND;
    for (int i = 0; i < STEP_TRIES_MAX && status == HF_NOT_FOUND; i++)
        status = step_once(many, error);
    if (status == HF_NOT_FOUND)
        status = error_set(error, HF_UNAVAILABLE,
                           "other clients kept changing the keys; nothing was changed");
    release_parts(many);
    return status;
}

/* ---- The call ------------------------------------------------------------------------ */

static enum hf_status open_parts(struct many *many, struct hf_client *client,
                                 struct hf_error *error)
{
    for (size_t i = 0; i < many->count; i++) {
        enum hf_status status =
            hf_key_new(client, many->parts[i].write->name, NULL, &many->parts[i].key, error);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

static void close_parts(struct many *many)
{
    struct hf_key *keys[TOGETHER_MAX];
    size_t opened = 0;
    while (opened < many->count && many->parts[opened].key) {
        keys[opened] = many->parts[opened].key;
        opened++;
    }
    keys_clear_up(keys, opened);
    for (size_t i = 0; i < many->count; i++) {
        change_release(&many->parts[i].change);
        hf_key_free(many->parts[i].key);
    }
}

static enum hf_status change_parts(struct many *many, struct hf_client *client, int64_t wait_ms,
                                   struct hf_error *error)
{
    enum hf_status status = open_parts(many, client, error);
    if (status == HF_OK)
        status = step_once(many, error);
    /* CORRUPT: the lease's holder saves a damaged state and writes a new one. */
    if (status == HF_HELD || status == HF_NOT_FOUND || status == HF_CORRUPT)
        status = change_under_leases(many, wait_ms, error);
    if (status == HF_UNSUPPORTED)
        return error_set(error, HF_UNSUPPORTED,
                         "this store cannot change several keys in one step; use a transaction "
                         "(hf_txn_begin)");
    return status;
}

enum hf_status hf_key_change_many(struct hf_client *client, const struct hf_key_write *writes,
                                  size_t count, int64_t wait_ms, struct hf_key_info *infos,
                                  struct hf_error *error)
{
    if (ERROR_IF_NULL(error, client, writes) != HF_OK)
        return HF_INVALID;
    if (count == 0 || count > HF_KEYS_TOGETHER_MAX)
        return error_set(error, HF_INVALID, "the number of keys must be 1 to %d",
                         HF_KEYS_TOGETHER_MAX);
    if (wait_ms < 0)
        return error_set(error, HF_INVALID, "wait must not be negative");
    if (key_info_begin(infos, error) != HF_OK)
        return HF_INVALID;
    struct hf_error why;
    struct many *many = calloc(1, sizeof *many);
    if (!many)
        return error_no_memory(error);
    client_active(client);
    enum hf_status status = read_parts(many, writes, count, infos, &why);
    if (status == HF_OK)
        status = change_parts(many, client, wait_ms, &why);
    close_parts(many);
    free(many);
    return error_tell(error, status, &why);
}
