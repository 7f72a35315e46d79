/* SPDX-License-Identifier: Apache-2.0 */
/* once.c: changes a key that this process does not hold. A change is itself a compare-and-swap of
 * the key's document, so it needs no lease if the document shows that nobody holds the key, waits
 * for it or has staged a change to it. Otherwise the key is acquired for the change.
 *
 * A state that is too large for the document needs a body, whose name contains the token of its
 * lease. Such a change always takes the key first, so rule 2 (README.md) holds as it stands. */
#include "key/key.h"

static enum hf_status check_options(const struct hf_key_change_options *options,
                                    const struct hf_key_if *when, size_t size,
                                    struct hf_error *error)
{
    if (options->removes && size > 0)
        return error_set(error, HF_INVALID, "a state that is removed has no data");
    if (options->wait_ms < 0)
        return error_set(error, HF_INVALID, "wait must not be negative");
    return key_check_if(when, error);
}

/* One write. HELD: the key is not free, or its document must be prepared first. */
static enum hf_status change_free_key(struct hf_key *key, struct view data, bool removes,
                                      const struct hf_key_if *when, struct hf_key_info *info,
                                      struct hf_error *error)
{
    struct change change;
    struct state_version version = { .size = data.size,
                                     .at = env_wall(client_env(key->client)),
                                     .removed = removes,
                                     .bytes = data };
    env_random_hex(client_env(key->client), NONCE_SIZE, version.etag);
    change_init(&change, CHANGE_ONCE);
    change.version = &version;
    change.if_version_set = when->version_set;
    change.if_version = when->version;
    change.if_etag = when->etag ? view_of(when->etag) : VIEW("");
    enum hf_status status = change_ask(key->lock->ref, &change, (struct mono_time){ 0 }, error);
    enum hf_key_outcome outcome = status == HF_UNSURE ? HF_KEY_NONE : change.outcome;
    if (status == HF_OK)
        key_note_state(key, &change.state);
    if (info)
        key_info_fill(&change.state, &change.state.now, outcome, info);
    change_release(&change);
    return status;
}

/* A failed release is ignored: the change is published, and the lease expires on its own. */
static enum hf_status change_under_lease(struct hf_key *key, struct view data,
                                         const struct hf_key_change_options *options,
                                         const struct hf_key_if *when, struct hf_key_info *info,
                                         struct hf_error *error)
{
    enum hf_status status = hf_key_acquire(key, options->wait_ms, info, error);
    if (status != HF_OK)
        return status;
    status = options->removes ? hf_key_remove(key, when, info, error)
                              : hf_key_update(key, data.data, data.size, when, info, error);
    hf_key_release(key, HF_COMMIT, /* error */ NULL);
    return status;
}

enum hf_status hf_key_change(struct hf_client *client, const char *name, const void *data,
                             size_t size, const struct hf_key_change_options *options,
                             struct hf_key_info *info, struct hf_error *error)
{
    struct hf_key_change_options chosen = HF_KEY_CHANGE_OPTIONS;
    struct hf_key_options key_options = HF_KEY_OPTIONS;
    struct hf_key_if when = HF_KEY_IF;
    struct hf_key *key = NULL;
    if (size == 0)
        data = "";
    if (key_info_begin(info, error) != HF_OK ||
        ERROR_IF_NULL(error, client, name, data) != HF_OK ||
        read_caller_options("HF_KEY_CHANGE_OPTIONS", options, &chosen, sizeof chosen, error) !=
            HF_OK ||
        read_caller_options("HF_KEY_IF", chosen.when, &when, sizeof when, error) != HF_OK ||
        check_options(&chosen, &when, size, error) != HF_OK)
        return HF_INVALID;
    client_active(client);
    key_options.ttl_ms = chosen.ttl_ms;
    enum hf_status status = hf_key_new(client, name, &key_options, &key, error);
    if (status != HF_OK)
        return status;
    struct view bytes = { data, size };
    status = HF_HELD;
    if (size <= STATE_INLINE_MAX)
        status = change_free_key(key, bytes, chosen.removes, &when, info, error);
    /* CORRUPT: the lease's holder saves a damaged state and writes a new one. */
    if (status == HF_HELD || status == HF_CORRUPT)
        status = change_under_lease(key, bytes, &chosen, &when, info, error);
    keys_clear_up(&key, 1);
    hf_key_free(key);
    return status == HF_OK ? error_clear(error) : status;
}
