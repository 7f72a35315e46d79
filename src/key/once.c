/* SPDX-License-Identifier: Apache-2.0 */
/* once.c: changes a key that this process does not hold. A change is itself a compare-and-swap of
 * the key's document, so it needs no lease if the document shows that nobody holds the key, waits
 * for it or has staged a change to it. Otherwise the key is acquired for the change.
 *
 * A state that is too large for the document needs a body, whose name contains the token of its
 * version. The body is written under the token that the known document would issue next, and the
 * swap is refused if the document issues another one by then (README.md, rule 2). */
#include "key/key.h"

#include "base/check.h"
#include "lock/body.h"

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

void once_init(struct change *change, struct hf_key *key, struct view data, bool removes,
               const struct hf_key_if *when, struct state_version *ret_version)
{
    *ret_version = (struct state_version){ .size = data.size,
                                           .at = env_wall(client_env(key->client)),
                                           .removed = removes,
                                           .bytes = data };
    env_random_hex(client_env(key->client), NONCE_SIZE, ret_version->etag);
    change_init(change, CHANGE_ONCE);
    change->version = ret_version;
    change->if_version_set = when->version_set;
    change->if_version = when->version;
    change->if_etag = when->etag ? view_of(when->etag) : VIEW("");
    change->gone = client_waiter_gone;
    change->gone_argument = key->client;
}

/* ---- A body ---------------------------------------------------------------------------- */

static void copy_next_token(void *argument, const void *body)
{
    const struct lease_table *table = body;
    *(uint64_t *)argument = table->next_token;
}

/* The body is written once more if its reply is lost; nobody else needs it. */
static enum hf_status body_is_needed(void *argument, struct hf_error *error)
{
    (void)argument;
    return error_clear(error);
}

/* Writes the body, if the state is large, under the token that the change expects. HELD: the
 * document is not known. */
static enum hf_status write_once_body(struct hf_key *key, struct state_version *version,
                                      char ret_name[KEY_BYTES_MAX + 1], struct hf_error *error)
{
    ret_name[0] = '\0';
    if (version->size <= STATE_INLINE_MAX)
        return HF_OK;
    uint64_t token = 0;
    if (version->size > BODY_BYTES_MAX ||
        !doc_peek(key->lock->ref->doc, copy_next_token, &token) || token == 0)
        return HF_HELD;
    struct body_name name = { .token = token };
    memcpy(name.etag, version->etag, sizeof name.etag);
    check(key_body_key(view_of(client_ns(key->client)), view_of(key->name), &name, ret_name));
    struct body body = { view_of(ret_name), version->bytes, -1, version->size };
    enum hf_status status = body_put(key->client, &body, body_is_needed, NULL, error);
    if (status != HF_OK)
        body_discard(key->client, view_of(ret_name));
    version->token = token;
    version->has_body = true;
    version->bytes = VIEW("");
    return status;
}

/* ---- Without a lease ------------------------------------------------------------------- */

/* One write, after that of the body. HELD: the key is not free, or its document must be prepared
 * first. */
static enum hf_status change_free_key(struct hf_key *key, struct view data, bool removes,
                                      const struct hf_key_if *when, struct hf_key_info *info,
                                      struct hf_error *error)
{
    struct change change;
    struct state_version version;
    char body[KEY_BYTES_MAX + 1];
    once_init(&change, key, data, removes, when, &version);
    /* In one step, no change meets another. */
    change.remembers = !client_store(key->client)->ops->change;
    enum hf_status status = write_once_body(key, &version, body, error);
    if (status == HF_OK) {
        status = change_ask(key->lock->ref, &change, (struct mono_time){ 0 }, error);
        /* After UNSURE the swap may still name the body, and an unreadable document may name it. */
        bool may_stand = status == HF_OK || status == HF_UNSURE || status == HF_CORRUPT;
        if (body[0] != '\0' && !may_stand)
            body_discard(key->client, view_of(body));
    }
    enum hf_key_outcome outcome = status == HF_UNSURE ? HF_KEY_NONE : change.outcome;
    if (status == HF_OK)
        key_note_state(key, &change.state);
    if (info)
        key_info_fill(&change.state, &change.state.now, outcome, info);
    change_release(&change);
    return status;
}

/* ---- Under a lease --------------------------------------------------------------------- */

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

/* Without a lease if the key is free, otherwise under one. */
static enum hf_status change_key(struct hf_key *key, struct view data,
                                 const struct hf_key_change_options *options,
                                 const struct hf_key_if *when, struct hf_key_info *info,
                                 struct hf_error *error)
{
    enum hf_status status = change_free_key(key, data, options->removes, when, info, error);
    /* CORRUPT: the lease's holder saves a damaged state and writes a new one. */
    bool needs_lease = status == HF_HELD || status == HF_CORRUPT;
    if (needs_lease && options->free_only)
        status = error_set(error, HF_HELD, "the key cannot be changed without acquiring it");
    else if (needs_lease)
        status = change_under_lease(key, data, options, when, info, error);
    keys_clear_up(&key, 1);
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
    struct hf_error why;
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
    enum hf_status status = hf_key_new(client, name, &key_options, &key, &why);
    if (status == HF_OK)
        status = change_key(key, (struct view){ data, size }, &chosen, &when, info, &why);
    hf_key_free(key);
    return error_tell(error, status, &why);
}
