/* publish.c: update and remove: the body first, where the state is large, then the swap of the
 * key's document that publishes or stages it; and the bodies that are not needed any more.
 *
 * A body has a name that was never used before, so it is written once and never changes. It is
 * deleted in two cases only: a later document is known to stand that does not name it, or the
 * swap that would have named it is known never to happen. */
#include "key/key.h"

#include "base/check.h"
#include "base/layout.h"
#include "base/rule.h"
#include "lock/body.h"
#include "store/stream.h"

#include <stdlib.h>

/* Bodies that one request deletes. */
#define DISCARD_BATCH 64
static_assert(DISCARD_BATCH <= BATCH_MAX && DISCARD_BATCH >= STATE_OLD_MAX,
              "the bodies of a key go at once");

static_assert(sizeof LAYOUT_STATE_FOLDER + 2 * NAME_BYTES_MAX + 1 + BODY_NAME_MAX <=
                  KEY_BYTES_MAX,
              "the longest name leaves room for that of a body");

/* With so many old bodies a change deletes them before it makes one more; else they wait for the
 * release. */
#define OLD_BEFORE_RELEASE (STATE_OLD_MAX / 2)

/* ---- Deleting bodies ----------------------------------------------------------------- */

struct discard {
    struct hf_client *client;
    struct delete_call calls[DISCARD_BATCH];
    char keys[DISCARD_BATCH][KEY_BYTES_MAX + 1];
    struct body_name names[DISCARD_BATCH];
    size_t count;
};

static void discard_add(struct discard *discard, struct view ns, struct view name,
                        const struct body_name *body)
{
    check(discard->count < DISCARD_BATCH);
    char *key = discard->keys[discard->count];
    check(key_body_key(ns, name, body, key));
    discard->names[discard->count] = *body;
    discard->calls[discard->count++] = (struct delete_call){ .key = view_of(key) };
}

static void discard_send(struct discard *discard)
{
    struct hf_client *client = discard->client;
    struct mono_time deadline = mono_add(env_now(client->env), BODY_DISCARD_TIME);
    for (size_t i = 0; i < discard->count; i++)
        discard->calls[i].deadline = deadline;
    if (discard->count > 0)
        store_delete_many(client->store, discard->calls, discard->count);
    for (size_t i = 0; i < discard->count; i++)
        clock_learn(&client->clock, &discard->calls[i].stamp);
}

static bool discarded(const struct discard *discard, size_t index)
{
    enum hf_status status = discard->calls[index].error.status;
    return status == HF_OK || status == HF_NOT_FOUND;
}

/* NULL without memory: then they are left to the next change. */
static struct discard *discard_new(struct hf_client *client)
{
    struct discard *discard = malloc(sizeof *discard);
    if (discard) {
        discard->client = client;
        discard->count = 0;
    }
    return discard;
}

void bodies_delete(struct hf_client *client, struct view ns, struct view name,
                   struct body_name *names, size_t count, size_t *ret_gone)
{
    struct discard *discard = discard_new(client);
    size_t gone = 0;
    check(count <= DISCARD_BATCH);
    for (size_t i = 0; discard && i < count; i++)
        discard_add(discard, ns, name, &names[i]);
    if (discard)
        discard_send(discard);
    for (size_t i = 0; discard && i < count; i++)
        if (discarded(discard, i)) {
            struct body_name body = names[i];
            names[i] = names[gone];
            names[gone++] = body;
        }
    free(discard);
    *ret_gone = gone;
}

/* The old bodies of a key, which are the discard's to delete from now on. What it cannot delete is
 * tried again when the document names it the next time that we change it. False: there is no room
 * for them. */
static bool take_old_locked(struct hf_key *key, struct discard *discard)
{
    if (discard->count + key->bodies.old_count > DISCARD_BATCH)
        return false;
    for (size_t i = 0; i < key->bodies.old_count; i++)
        discard_add(discard, view_of(key->client->space.ns), view_of(key->name),
                    &key->bodies.old[i]);
    key->bodies.old_count = 0;
    return true;
}

/* Those of the key are in the discard, from `first` on. */
static void note_gone_locked(struct hf_key *key, const struct discard *discard, size_t first,
                             size_t count)
{
    for (size_t i = first; i < first + count; i++)
        if (discarded(discard, i) && key->bodies.gone_count < STATE_OLD_MAX)
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

/* As many keys as fit into one request; how many those were. */
static size_t clear_up_some(struct hf_key *const *keys, size_t count, struct discard *discard)
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
    for (size_t done = 0; discard && done < count;)
        done += clear_up_some(keys + done, count - done, discard);
    free(discard);
}

static bool is_among(const struct body_name *names, size_t count, const struct body_name *name)
{
    for (size_t i = 0; i < count; i++)
        if (names[i].token == name->token && strcmp(names[i].etag, name->etag) == 0)
            return true;
    return false;
}

/* A change without an answer cannot land any more once another is known to stand. Its body is
 * named, or was and is old, or never will be. */
static void resolve_doubt(struct hf_key *key, const struct key_state *state)
{
    struct body_name *doubt = &key->bodies.doubt;
    bool unnamed = doubt->etag[0] != '\0' && !state_names_body(state, doubt) &&
                   !is_among(state->old, state->old_count, doubt);
    if (unnamed && key->bodies.old_count < STATE_OLD_MAX)
        key->bodies.old[key->bodies.old_count++] = *doubt;
    doubt->etag[0] = '\0';
}

void key_note_state(struct hf_key *key, const struct key_state *state)
{
    struct body_name gone[STATE_OLD_MAX];
    size_t gone_count = 0;
    key->bodies.old_count = 0;
    for (size_t i = 0; i < state->old_count; i++)
        if (is_among(key->bodies.gone, key->bodies.gone_count, &state->old[i]))
            gone[gone_count++] = state->old[i];
        else
            key->bodies.old[key->bodies.old_count++] = state->old[i];
    memcpy(key->bodies.gone, gone, gone_count * sizeof *gone);
    key->bodies.gone_count = gone_count;
    resolve_doubt(key, state);
}

/* ---- Writing a body ------------------------------------------------------------------ */

/* What a key is to hold: bytes, or, with a file that is not -1, its contents. */
struct content {
    struct view bytes;
    int fd;
    uint64_t size;
    bool removed;
};

/* One change under way. */
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

static enum hf_status put_body(struct update *update, struct hf_error *error)
{
    const struct content *content = update->content;
    struct body body = { view_of(update->name), content->bytes, content->fd, content->size };
    return body_put(update->key->client, &body, check_held, update, error);
}

/* ---- The swap ------------------------------------------------------------------------ */

static bool stages(const struct hf_key *key)
{
    return key->txn || key->staged;
}

/* The lease is over by our own clock, or we were told. The document says which of the two it is;
 * if it cannot be asked, that it is over is all we know. */
static enum hf_status refuse_over(struct update *update, struct hf_error *error)
{
    struct change *change = &update->change;
    struct hf_error ignored;
    change_release(change);
    change_init(change, CHANGE_LOOK);
    enum hf_status status =
        change_ask(update->key->lock->place, change, (struct mono_time){ 0 }, &ignored);
    bool granted_since = status == HF_OK && change->blocker > update->lease.token;
    change->outcome = granted_since ? HF_KEY_FENCING_MISMATCH : HF_KEY_LEASE_EXPIRED;
    return error_set(error, outcome_status(change->outcome), "%s",
                     outcome_sentence(change->outcome));
}

/* Whether this handle holds the key, as far as it knows. */
static enum hf_status check_lease(struct update *update, struct hf_error *error)
{
    enum hf_status status = key_lease(update->key, &update->lease);
    if (status == HF_OK && update->key->sealed) {
        update->change.outcome = HF_KEY_TXN_MISMATCH;
        return error_set(error, outcome_status(HF_KEY_TXN_MISMATCH),
                         "a commit of its transaction is under way, or had no answer");
    }
    if (status == HF_OK)
        return HF_OK;
    if (status != HF_NOT_FOUND)
        return refuse_over(update, error);
    update->change.outcome = HF_KEY_LEASE_REQUIRED;
    return error_set(error, outcome_status(HF_KEY_LEASE_REQUIRED),
                     "the key is not held: acquire it first");
}

static void draw_version(struct update *update)
{
    struct hf_key *key = update->key;
    const struct content *content = update->content;
    bool has_body = !content->removed && content->size > STATE_INLINE_MAX;
    update->version = (struct state_version){ .token = update->lease.token,
                                              .size = content->size,
                                              .at = env_wall(key->client->env),
                                              .removed = content->removed,
                                              .has_body = has_body,
                                              .bytes = has_body ? VIEW("") : content->bytes };
    env_random_hex(key->client->env, NONCE_SIZE, update->version.etag);
    update->body.token = update->lease.token;
    memcpy(update->body.etag, update->version.etag, sizeof update->body.etag);
    if (has_body)
        check(key_body_key(view_of(key->client->space.ns), view_of(key->name), &update->body,
                           update->name));
}

static void ask_for(struct update *update, const struct hf_key_if *when)
{
    struct hf_key *key = update->key;
    struct change *change = &update->change;
    change_init(change, stages(key) ? CHANGE_STAGE : CHANGE_PUBLISH);
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

/* What the handle knows after a change, and which bodies can go. */
static void note_result(struct update *update, enum hf_status status)
{
    struct hf_key *key = update->key;
    bool has_body = update->name[0] != '\0';
    /* CORRUPT: what cannot be read may name it; then it is left to a full sweep. */
    bool may_stand = status == HF_OK || status == HF_CORRUPT ||
                     (status == HF_UNSURE && RULE(UNSURE_KEEPS_STATE));
    if (status == HF_OK || (status == HF_UNSURE && !RULE(OLD_STATE_AFTER_THE_SWAP)))
        key_note_state(key, &update->change.state);
    if (!RULE(OLD_STATE_AFTER_THE_SWAP))
        key_clear_up_locked(key);
    if (status == HF_UNSURE && has_body && may_stand)
        key->bodies.doubt = update->body;
    if (!may_stand && has_body)
        body_discard(key->client, view_of(update->name));
    if (status == HF_OK && stages(key)) {
        key->changed = true;
        key->unconfirmed = false;
        key->next = update->change.state.stage.next;
        key->next.bytes = key->next.unknown = VIEW(""); /* those are the change's */
    } else if (status == HF_UNSURE && stages(key)) {
        key->unconfirmed = true;
    }
}

/* The body, then the swap. */
static enum hf_status make_change(struct update *update, const struct hf_key_if *when,
                                  struct hf_error *error)
{
    struct hf_key *key = update->key;
    enum hf_status status = check_lease(update, error);
    if (status != HF_OK)
        return status;
    if (key->bodies.old_count >= OLD_BEFORE_RELEASE)
        key_clear_up_locked(key);
    draw_version(update);
    bool has_body = update->name[0] != '\0';
    status = has_body ? put_body(update, error) : HF_OK;
    if (status != HF_OK && (RULE(STATE_BEFORE_THE_SWAP) || status != HF_UNAVAILABLE)) {
        body_discard(key->client, view_of(update->name));
        enum hf_status lease = check_lease(update, error);
        return lease != HF_OK ? lease : status;
    }
    ask_for(update, when);
    status = change_ask(key->lock->place, &update->change, (struct mono_time){ 0 }, error);
    note_result(update, status);
    return status;
}

/* ---- What is told -------------------------------------------------------------------- */

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

/* What the holder of this token sees: what it has staged, if it has. */
static const struct state_version *seen_by(const struct key_state *state, uint64_t token)
{
    bool own = state->staged && state->stage.changes && state->stage.token == token;
    return own ? &state->stage.next : &state->now;
}

/* The ETag of a key that was never written is empty; taken for "any" it would be a condition that
 * never fails. */
static enum hf_status check_condition(const struct hf_key_if *when, struct hf_error *error)
{
    if (when->etag && when->etag[0] == '\0')
        return error_set(error, HF_INVALID,
                         "an ETag is not empty; that a key holds nothing is version 0");
    return HF_OK;
}

static enum hf_status change_key(struct hf_key *key, const struct content *content,
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
        status = check_condition(&condition, &why);
    if (status == HF_OK)
        status = make_change(&update, &condition, &why);
    env_mutex_unlock(&key->calls);
    const struct key_state *state = &update.change.state;
    /* What may have been done is not told as refused. */
    enum hf_key_outcome outcome = status == HF_UNSURE ? HF_KEY_NONE : update.change.outcome;
    if (info)
        key_info_fill(state, seen_by(state, update.lease.token), outcome, info);
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
        return error_set(error, HF_INVALID, "%zu bytes are too many at once; give a file",
                         size);
    return change_key(key, &content, when, info, error);
}

static enum hf_status update_by_small_file(struct hf_key *key, int fd, uint64_t expected,
                                           const struct hf_key_if *when,
                                           struct hf_key_info *info, struct hf_error *error)
{
    char bytes[STATE_INLINE_MAX];
    size_t size;
    enum hf_status status = file_read_at(fd, bytes, sizeof bytes, 0, &size, error);
    if (status == HF_OK && size != expected)
        status = error_set(error, HF_INVALID, "the file changed while it was being read");
    return status == HF_OK ? hf_key_update(key, bytes, size, when, info, error) : status;
}

enum hf_status hf_key_update_file(struct hf_key *key, int fd, const struct hf_key_if *when,
                                  struct hf_key_info *info, struct hf_error *error)
{
    struct content content = { .bytes = VIEW(""), .fd = fd };
    if (key_info_begin(info, error) != HF_OK || ERROR_IF_NULL(error, key) != HF_OK)
        return HF_INVALID;
    enum hf_status status = file_size(fd, &content.size, error);
    if (status != HF_OK)
        return status;
    if (content.size > OBJECT_BYTES_MAX)
        return error_set(error, HF_INVALID, "the file is larger than any object");
    if (content.size > STATE_INLINE_MAX)
        return change_key(key, &content, when, info, error);
    return update_by_small_file(key, fd, content.size, when, info, error);
}

enum hf_status hf_key_remove(struct hf_key *key, const struct hf_key_if *when,
                             struct hf_key_info *info, struct hf_error *error)
{
    const struct content nothing = { .bytes = VIEW(""), .fd = -1, .removed = true };
    if (key_info_begin(info, error) != HF_OK || ERROR_IF_NULL(error, key) != HF_OK)
        return HF_INVALID;
    return change_key(key, &nothing, when, info, error);
}
