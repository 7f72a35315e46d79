/* SPDX-License-Identifier: Apache-2.0 */
/* publish.c: updates and removes states: first writes the body, if the state is large, then swaps
 * the key's document, which publishes or stages the state. A body is deleted only if a later
 * document is known not to name it, or if the swap that would have named it can never take effect.
 * If a swap got no reply, nothing is deleted. */
#include "key/txn_inside.h"

#include "base/check.h"
#include "base/layout.h"
#include "base/mutant.h"
#include "base/rule.h"
#include "lock/body.h"
#include "store/stream.h"

#include <stdlib.h>

/* The maximum number of bodies deleted by one request. */
#define DISCARD_BATCH 64
static_assert(DISCARD_BATCH <= BATCH_MAX && DISCARD_BATCH >= STATE_OLD_MAX,
              "the bodies of a key go at once");

static_assert(sizeof LAYOUT_STATE_FOLDER + 2 * NAME_BYTES_MAX + 1 + BODY_NAME_MAX <=
                  KEY_BYTES_MAX,
              "the longest name leaves room for that of a body");

/* If there are this many old bodies, a change deletes them before it adds another. Otherwise they
 * are left to the release. */
#define OLD_BEFORE_RELEASE (STATE_OLD_MAX / 2)

/* ---- Deleting bodies ----------------------------------------------------------------- */

struct discard {
    struct hf_client *client;
    struct delete_call calls[DISCARD_BATCH];
    char keys[DISCARD_BATCH][KEY_BYTES_MAX + 1];
    struct body_name names[DISCARD_BATCH];
    size_t count;
};

static void discard_add(struct discard *discard, struct view name, const struct body_name *body)
{
    check(discard->count < DISCARD_BATCH);
    char *key = discard->keys[discard->count];
    check(key_body_key(view_of(client_ns(discard->client)), name, body, key));
    discard->names[discard->count] = *body;
    discard->calls[discard->count++] = (struct delete_call){ .key = view_of(key) };
}

static void discard_send(struct discard *discard)
{
    struct hf_client *client = discard->client;
    struct mono_time deadline = mono_add(client_now(client), BODY_DISCARD_TIME);
    for (size_t i = 0; i < discard->count; i++)
        discard->calls[i].deadline = deadline;
    if (discard->count > 0)
        store_delete_many(client_store(client), discard->calls, discard->count);
    for (size_t i = 0; i < discard->count; i++)
        clock_learn(client_clock(client), &discard->calls[i].stamp);
}

static bool is_discarded(const struct discard *discard, size_t index)
{
    enum hf_status status = discard->calls[index].error.status;
    return status == HF_OK || status == HF_NOT_FOUND;
}

/* NULL if out of memory. The bodies are then left to the next change. */
static struct discard *discard_new(struct hf_client *client)
{
    struct discard *discard = malloc(sizeof *discard);
    if (discard) {
        discard->client = client;
        discard->count = 0;
    }
    return discard;
}

void bodies_delete(struct hf_client *client, struct view name, struct body_name *names,
                   size_t count, size_t *ret_gone)
{
    struct discard *discard = discard_new(client);
    size_t gone = 0;
    check(count <= DISCARD_BATCH);
    *ret_gone = 0;
    if (!discard)
        return;
    for (size_t i = 0; i < count; i++)
        discard_add(discard, name, &names[i]);
    discard_send(discard);
    for (size_t i = 0; i < count; i++)
        if (is_discarded(discard, i)) {
            struct body_name body = names[i];
            names[i] = names[gone];
            names[gone++] = body;
        }
    free(discard);
    *ret_gone = gone;
}

/* Moves the old bodies of a key to the list of bodies to discard. Bodies that cannot be deleted are
 * retried with our next change, because the document still lists them. False: there is no room for
 * them. */
static bool take_old_locked(struct hf_key *key, struct discard *discard)
{
    if (discard->count + key->bodies.old_count > DISCARD_BATCH)
        return false;
    for (size_t i = 0; i < key->bodies.old_count; i++)
        discard_add(discard, view_of(key->name), &key->bodies.old[i]);
    key->bodies.old_count = 0;
    return true;
}

/* Notes which of the key's bodies, which start at `first` in the list, are gone. */
static void note_gone_locked(struct hf_key *key, const struct discard *discard, size_t first,
                             size_t count)
{
    for (size_t i = first; i < first + count; i++)
        if (is_discarded(discard, i) && key->bodies.gone_count < STATE_OLD_MAX)
            key->bodies.gone[key->bodies.gone_count++] = discard->names[i];
}

void key_clear_up_locked(struct hf_key *key)
{
    struct discard *discard = key->bodies.old_count > 0 ? discard_new(key->client) : NULL;
    if (!discard)
        return;
    check(take_old_locked(key, discard));
    discard_send(discard);
    note_gone_locked(key, discard, 0, discard->count);
    free(discard);
}

/* Deletes the old bodies of as many keys as fit into one request, and returns the number of these
 * keys. */
static size_t clear_up_batch(struct hf_key *const *keys, size_t count, struct discard *discard)
{
    size_t ends[TXN_KEYS_MAX], taken = 0;
    bool fits = true;
    discard->count = 0;
    while (fits && taken < count && taken < TXN_KEYS_MAX) {
        env_mutex_lock(&keys[taken]->calls);
        fits = take_old_locked(keys[taken], discard);
        env_mutex_unlock(&keys[taken]->calls);
        if (fits)
            ends[taken++] = discard->count;
    }
    discard_send(discard);
    for (size_t i = 0; i < taken; i++) {
        size_t first = i > 0 ? ends[i - 1] : 0;
        env_mutex_lock(&keys[i]->calls);
        note_gone_locked(keys[i], discard, first, ends[i] - first);
        env_mutex_unlock(&keys[i]->calls);
    }
    return taken;
}

void keys_clear_up(struct hf_key *const *keys, size_t count)
{
    struct discard *discard = count > 0 ? discard_new(keys[0]->client) : NULL;
    size_t done = 0;
    while (discard && done < count)
        done += clear_up_batch(keys + done, count - done, discard);
    free(discard);
}

void key_note_state(struct hf_key *key, const struct key_state *state)
{
    struct body_name gone[STATE_OLD_MAX];
    size_t gone_count = 0;
    key->bodies.old_count = 0;
    for (size_t i = 0; i < state->old_count; i++)
        if (body_is_among(&state->old[i], key->bodies.gone, key->bodies.gone_count))
            gone[gone_count++] = state->old[i];
        else
            key->bodies.old[key->bodies.old_count++] = state->old[i];
    memcpy(key->bodies.gone, gone, gone_count * sizeof *gone);
    key->bodies.gone_count = gone_count;
    /* Once a later swap is known to be done, a change that got no reply can no longer take effect.
     * So its body is named now, is listed as old, or will never be named. In the last case it can
     * be deleted. */
    struct body_name *doubt = &key->bodies.doubt;
    bool unnamed = doubt->etag[0] != '\0' && !state_names_body(state, doubt) &&
                   !body_is_among(doubt, state->old, state->old_count);
    if (unnamed && key->bodies.old_count < STATE_OLD_MAX)
        key->bodies.old[key->bodies.old_count++] = *doubt;
    doubt->etag[0] = '\0';
}

/* ---- Writing a body ------------------------------------------------------------------ */

/* The content: bytes, or, if `fd` is not -1, the contents of that file. */
struct content {
    struct view bytes;
    int fd;
    uint64_t size;
    bool removed;
};

/* A change in progress. */
struct update {
    struct hf_key *key;
    const struct content *content;
    struct key_lease lease;
    struct state_version version;
    struct body_name body;
    char name[KEY_BYTES_MAX + 1]; /* of our body; empty: it has none */
    struct change change;
};

static enum hf_status check_held(void *argument, struct hf_error *error)
{
    const struct update *update = argument;
    struct key_lease lease;
    enum hf_status status = key_lease(update->key, &lease);
    return status == HF_OK ? HF_OK : error_set(error, status, "%s", hf_status_text(status));
}

/* ---- The swap ------------------------------------------------------------------------ */

static bool is_staging(const struct hf_key *key)
{
    return key->txn || key->staged;
}

/* The lease has expired by our own clock, or its loss was reported. The document shows which
 * refusal applies. If it cannot be read, the lease counts as expired. */
static enum hf_status refuse_ended_lease(struct update *update, struct hf_error *error)
{
    struct change *change = &update->change;
    struct hf_error ignored;
    change_release(change);
    change_init(change, CHANGE_LOOK);
    enum hf_status status =
        change_ask(update->key->lock->ref, change, (struct mono_time){ 0 }, &ignored);
    bool granted_since = status == HF_OK && change->blocker > update->lease.token;
    change->outcome = granted_since ? HF_KEY_FENCING_MISMATCH : HF_KEY_LEASE_EXPIRED;
    return error_set(error, outcome_status(change->outcome), "%s",
                     outcome_sentence(change->outcome));
}

/* Whether this handle holds the key, as far as it knows. */
static enum hf_status check_own_lease(struct update *update, struct hf_error *error)
{
    enum hf_status status = key_lease(update->key, &update->lease);
    if ((status == HF_OK || update->key->in_doubt) && update->key->sealed) {
        update->change.outcome = HF_KEY_TXN_MISMATCH;
        return error_set(error, outcome_status(HF_KEY_TXN_MISMATCH),
                         "a commit of the key's transaction is in progress, or got no reply");
    }
    if (status == HF_OK)
        return HF_OK;
    if (status != HF_NOT_FOUND)
        return refuse_ended_lease(update, error);
    update->change.outcome = HF_KEY_LEASE_REQUIRED;
    return error_set(error, outcome_status(HF_KEY_LEASE_REQUIRED),
                     "the key is not held: acquire it first");
}

/* A version's ETag is random, so its body has a name that no other attempt ever uses. */
static void draw_version(struct update *update)
{
    struct hf_key *key = update->key;
    const struct content *content = update->content;
    bool has_body = !content->removed && content->size > STATE_INLINE_MAX &&
                    !client_server(key->client); /* a server gets the whole state */
    update->version = (struct state_version){ .token = update->lease.token,
                                              .size = content->size,
                                              .at = env_wall(client_env(key->client)),
                                              .removed = content->removed,
                                              .has_body = has_body,
                                              .bytes = has_body ? VIEW("") : content->bytes };
    env_random_hex(client_env(key->client), NONCE_SIZE, update->version.etag);
    update->body.token = update->lease.token;
    memcpy(update->body.etag, update->version.etag, sizeof update->body.etag);
    if (has_body)
        check(key_body_key(view_of(client_ns(key->client)), view_of(key->name), &update->body,
                           update->name));
}

static void init_update_change(struct update *update, const struct hf_key_if *when)
{
    struct hf_key *key = update->key;
    struct change *change = &update->change;
    change_init(change, is_staging(key) ? CHANGE_STAGE : CHANGE_PUBLISH);
    change->lease = view_of(update->lease.id);
    change->token = update->lease.token;
    change->txn = key->txn ? view_of(key->txn->id) : VIEW("");
    change->version = &update->version;
    change->if_version_set = when->version_set;
    change->if_version = when->version;
    change->if_etag = when->etag ? view_of(when->etag) : VIEW("");
    change->old = key->bodies.gone;
    change->old_count = key->bodies.gone_count;
}

/* Updates the handle after a change, and notes which bodies can be deleted. */
static void note_update(struct update *update, enum hf_status status)
{
    struct hf_key *key = update->key;
    bool has_body = update->name[0] != '\0';
    /* After CORRUPT, the unreadable document may name the body, so the body is left to a full
     * sweep. After UNSURE, the swap may still take effect and name it. */
    bool may_stand = status == HF_OK || status == HF_CORRUPT ||
                     (RULE(UNSURE_KEEPS_STATE) && status == HF_UNSURE);
    if (status == HF_OK)
        key_note_state(key, &update->change.state);
    MUTANT(mutant_deletes_old_state_early(key, &update->change.state, status));
    if (status == HF_UNSURE && has_body && may_stand)
        key->bodies.doubt = update->body;
    if (!may_stand && has_body)
        body_discard(key->client, view_of(update->name));
    if (status == HF_OK && is_staging(key)) {
        key->changed = true;
        key->unconfirmed = false;
        key->next = update->change.state.stage.next;
        key->next.bytes = key->next.unknown = VIEW(""); /* these belong to the change */
    } else if (status == HF_UNSURE && is_staging(key)) {
        key->unconfirmed = true;
    }
}

/* ---- A change that is written with the commit -------------------------------------------- */

/* Only this process can commit the transaction, and it does so in one step with all its keys, if it
 * can. So nobody else needs to see the change before. A change that got no reply must be repeated
 * in the store. */
static bool can_keep(const struct update *update)
{
    const struct hf_key *key = update->key;
    const struct content *content = update->content;
    return key->txn && !key->txn->open && !key->unconfirmed && content->fd == -1 &&
           content->size <= STATE_INLINE_MAX && txn_can_step(key->txn, /* documents */ 2);
}

/* Keeps a change that the current document allows. */
static enum hf_status keep_change(struct update *update, const struct hf_key_if *when,
                                  struct hf_error *error)
{
    struct hf_key *key = update->key;
    struct buffer bytes = BUFFER_INIT(STATE_INLINE_MAX);
    draw_version(update);
    init_update_change(update, when);
    if (!buffer_append(&bytes, update->version.bytes)) {
        buffer_release(&bytes);
        return error_no_memory(error);
    }
    enum hf_status status = change_check(key->lock->ref, &update->change,
                                         key->kept.there ? &key->kept.version : NULL, error);
    if (status != HF_OK) {
        buffer_release(&bytes);
        return status;
    }
    buffer_release(&key->kept.bytes);
    key->kept.bytes = bytes;
    key->kept.version = update->version;
    key->kept.version.bytes = buffer_view(&key->kept.bytes);
    key->kept.there = true;
    return HF_OK;
}

enum hf_status key_stage_kept_locked(struct hf_key *key, struct hf_error *error)
{
    const struct hf_key_if any = HF_KEY_IF;
    struct update update = { .key = key, .version = key->kept.version };
    if (!key->kept.there)
        return HF_OK;
    enum hf_status status = key_lease(key, &update.lease);
    if (status != HF_OK)
        return error_set(error, status, "%s", hf_status_text(status));
    init_update_change(&update, &any);
    status = change_ask(key->lock->ref, &update.change, (struct mono_time){ 0 }, error);
    note_update(&update, status);
    key->unconfirmed = false; /* after UNSURE it is staged again: it is still kept */
    key->kept.there = status != HF_OK;
    change_release(&update.change);
    return status;
}

/* Writes the body, then swaps the document. */
static enum hf_status write_and_swap(struct update *update, const struct hf_key_if *when,
                                     struct hf_error *error)
{
    struct hf_key *key = update->key;
    enum hf_status status = check_own_lease(update, error);
    if (status == HF_OK && can_keep(update)) {
        status = keep_change(update, when, error);
        if (status == HF_OK || update->change.refused)
            return status;
        change_release(&update->change); /* it could not be read, so the change is staged, */
        status = HF_OK;                  /* which is tried more than once */
    }
    if (status == HF_OK)
        status = key_stage_kept_locked(key, error);
    if (status != HF_OK)
        return status;
    if (key->bodies.old_count >= OLD_BEFORE_RELEASE)
        key_clear_up_locked(key);
    draw_version(update);
    const struct content *content = update->content;
    struct body body = { view_of(update->name), content->bytes, content->fd, content->size };
    if (update->name[0] != '\0')
        status = body_put(key->client, &body, check_held, update, error);
    if (RULE(STATE_BEFORE_THE_SWAP) && status != HF_OK) {
        body_discard(key->client, view_of(update->name));
        enum hf_status lease = check_own_lease(update, error);
        return lease != HF_OK ? lease : status;
    }
    init_update_change(update, when);
    status = change_ask(key->lock->ref, &update->change, (struct mono_time){ 0 }, error);
    note_update(update, status);
    return status;
}

/* ---- Results ------------------------------------------------------------------------- */

void key_info_fill(const struct key_state *state, const struct state_version *version,
                   enum hf_key_outcome outcome, struct hf_key_info *ret_info)
{
    struct hf_key_info info = HF_KEY_INFO;
    info.outcome = outcome;
    if (state && state->staged)
        memcpy(info.txn, state->stage.txn, sizeof info.txn);
    if (version) {
        info.version = version->number;
        memcpy(info.etag, version->etag, sizeof info.etag);
        info.size = version->size;
        info.token = version->token;
        info.updated_ms = version->at.us / 1000;
        info.removed = version->removed;
    }
    write_caller_report(ret_info, &info, sizeof info);
}

/* The ETag of a key that was never written is empty. If it were treated as "any", the condition
 * would always hold. */
enum hf_status key_check_if(const struct hf_key_if *when, struct hf_error *error)
{
    if (!when->etag || when->etag[0] != '\0')
        return HF_OK;
    return error_set(error, HF_INVALID,
                     "the ETag must not be empty; use version 0 for a key without a value");
}

static enum hf_status update_state(struct hf_key *key, const struct content *content,
                                   const struct hf_key_if *when, struct hf_key_info *info,
                                   struct hf_error *error)
{
    struct update update = { .key = key, .content = content };
    struct hf_key_if condition = HF_KEY_IF;
    struct hf_error why;
    client_active(key->client);
    change_init(&update.change, CHANGE_LOOK);
    env_mutex_lock(&key->calls);
    enum hf_status status =
        read_caller_options("HF_KEY_IF", when, &condition, sizeof condition, &why);
    if (status == HF_OK)
        status = key_check_if(&condition, &why);
    if (status == HF_OK)
        status = write_and_swap(&update, &condition, &why);
    env_mutex_unlock(&key->calls);
    const struct key_state *state = &update.change.state;
    bool own = state->staged && state->stage.token == update.lease.token;
    /* A change that may have taken effect is not reported as refused. */
    enum hf_key_outcome outcome = status == HF_UNSURE ? HF_KEY_NONE : update.change.outcome;
    if (info)
        key_info_fill(state, state_shown(state, /* committed */ own), outcome, info);
    change_release(&update.change);
    return error_tell(error, status, &why);
}

/* ---- The calls ----------------------------------------------------------------------- */

enum hf_status hf_key_update(struct hf_key *key, const void *data, size_t size,
                             const struct hf_key_if *when, struct hf_key_info *info,
                             struct hf_error *error)
{
    if (size == 0)
        data = "";
    struct content content = { .bytes = { data, size }, .fd = -1, .size = size };
    if (key_info_begin(info, error) != HF_OK || ERROR_IF_NULL(error, key, data) != HF_OK)
        return HF_INVALID;
    if (size > BODY_BYTES_MAX)
        return error_set(error, HF_INVALID,
                         "%zu bytes are too many for one call; use hf_key_update_file", size);
    return update_state(key, &content, when, info, error);
}

/* A server gets a state in one request, so it must fit into memory. */
static enum hf_status update_from_memory(struct hf_key *key, int fd, uint64_t size,
                                         const struct hf_key_if *when, struct hf_key_info *info,
                                         struct hf_error *error)
{
    struct buffer bytes = BUFFER_INIT(BODY_BYTES_MAX);
    size_t got = 0;
    enum hf_status status = HF_OK;
    if (size > BODY_BYTES_MAX)
        return error_set(error, HF_INVALID, "the file is too large for a server");
    if (!buffer_reserve(&bytes, (size_t)size))
        return error_no_memory(error);
    status = file_read_at(fd, bytes.data, (size_t)size, 0, &got, error);
    if (status == HF_OK && got != size)
        status = error_set(error, HF_INVALID, "the file changed while it was being read");
    if (status == HF_OK)
        status = hf_key_update(key, bytes.data, got, when, info, error);
    buffer_release(&bytes);
    return status;
}

enum hf_status hf_key_update_file(struct hf_key *key, int fd, const struct hf_key_if *when,
                                  struct hf_key_info *info, struct hf_error *error)
{
    struct content content = { .bytes = VIEW(""), .fd = fd };
    char bytes[STATE_INLINE_MAX];
    size_t size;
    if (key_info_begin(info, error) != HF_OK || ERROR_IF_NULL(error, key) != HF_OK)
        return HF_INVALID;
    enum hf_status status = file_size(fd, &content.size, error);
    if (status != HF_OK)
        return status;
    if (content.size > OBJECT_BYTES_MAX)
        return error_set(error, HF_INVALID, "the file is too large for one object");
    if (content.size > STATE_INLINE_MAX && client_server(key->client))
        return update_from_memory(key, fd, content.size, when, info, error);
    if (content.size > STATE_INLINE_MAX)
        return update_state(key, &content, when, info, error);
    status = file_read_at(fd, bytes, sizeof bytes, 0, &size, error);
    if (status == HF_OK && size != content.size)
        status = error_set(error, HF_INVALID, "the file changed while it was being read");
    return status == HF_OK ? hf_key_update(key, bytes, size, when, info, error) : status;
}

enum hf_status hf_key_remove(struct hf_key *key, const struct hf_key_if *when,
                             struct hf_key_info *info, struct hf_error *error)
{
    const struct content nothing = { .bytes = VIEW(""), .fd = -1, .removed = true };
    if (key_info_begin(info, error) != HF_OK || ERROR_IF_NULL(error, key) != HF_OK)
        return HF_INVALID;
    return update_state(key, &nothing, when, info, error);
}
