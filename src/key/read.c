/* SPDX-License-Identifier: Apache-2.0 */
/* read.c: reads a key without a lease. If a writer publishes after the reader has read the
 * document and before it has read the body, the body may be gone. The reader then starts again, so
 * it always returns one complete version. */
#include "key/key.h"

#include "base/check.h"
#include "base/rule.h"
#include "store/stream.h"

/* How many times a reader tries again if the body is gone. */
#define READ_TRIES_MAX 16

/* ---- The document -------------------------------------------------------------------- */

/* A copy of a document's contents. */
struct key_view {
    struct key_state state;
    bool abandoned; /* there is a stage, and no active lease has its token */
    bool over;      /* an active lease is proven to have ended */
    struct key_description *description; /* may be NULL; the part about leases is filled in */
    struct lease_settings ours;
    enum hf_status status;
    struct hf_error *error;
};

/* If several leases share the name's lock, the newest is shown. */
static void describe_lease(const struct lease *lease, const struct evidence *evidence,
                           struct key_description *description)
{
    if (description->held && lease->token < description->token)
        return;
    struct view holder = view_first(lease->holder, HOLDER_BYTES_MAX);
    description->held = true;
    memcpy(description->holder, holder.data, holder.size);
    description->holder[holder.size] = '\0';
    description->token = lease->token;
    struct span left = lease_left(lease, evidence);
    description->remaining = left.us > 0 ? left : SPAN_US(0);
    description->expires_at = lease->expires_at;
}

static void view_table(void *argument, const void *body, const struct evidence *evidence)
{
    struct key_view *view = argument;
    const struct lease_table *table = body;
    struct lease_settings settings = lease_settings_stricter(&table->settings, &view->ours);
    view->status = state_read(buffer_view(&table->state), &view->state, view->error);
    if (view->status != HF_OK)
        return;
    view->abandoned = stage_is_abandoned(table, &view->state);
    view->over = false;
    if (view->description)
        *view->description =
            (struct key_description){ .info = HF_KEY_INFO, .waiters = table->waiter_count };
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *lease = table->leases[i];
        if (lease->status != LEASE_ACTIVE)
            continue;
        if (lease_judge(&settings, lease, evidence) != PROOF_NONE)
            view->over = true;
        else if (view->description)
            describe_lease(lease, evidence, view->description);
    }
}

/* NOT_FOUND: there is no document. */
static enum hf_status view_document(struct table_ref *ref, struct key_view *view,
                                    struct hf_error *error)
{
    struct mono_time deadline = client_deadline(ref->client);
    state_release(&view->state);
    state_init(&view->state);
    view->ours = ref->space->settings;
    view->status = HF_OK;
    view->error = error;
    enum hf_status status = doc_look(ref->doc, deadline, view_table, view, error);
    if (status == HF_NOT_FOUND)
        return error_set(error, status, "the key was never written");
    return status == HF_OK ? view->status : status;
}

/* ---- Stages -------------------------------------------------------------------------- */

/* The decision in the stage's record; PENDING if the stage has no transaction. Such a stage is
 * published or dropped by the release, in one write, so as long as it exists it is pending. */
static enum hf_status read_stage_decision(struct hf_client *client, const struct key_view *view,
                                          enum txn_state *ret_state, struct hf_error *error)
{
    const struct state_stage *stage = &view->state.stage;
    struct txn_record record;
    bool matters = RULE(READER_ASKS_THE_RECORD) && view->state.staged &&
                   stage->txn[0] != '\0' && (stage->changes || view->abandoned);
    *ret_state = TXN_PENDING;
    if (!matters)
        return HF_OK;
    enum hf_status status = txn_look(client, view_of(stage->txn), &record, error);
    if (status == HF_OK) {
        *ret_state = record.state;
        record_release(&record);
    } else if (status == HF_NOT_FOUND) {
        *ret_state = TXN_ABSENT;
        status = HF_OK;
    }
    return status;
}

/* Repeats until the decision about the current stage, if any, is known. */
static enum hf_status view_with_decision(struct table_ref *ref, struct key_view *view,
                                         enum txn_state *ret_decided, struct hf_error *error)
{
    char asked[TXN_ID_SIZE + 1] = "";
    for (int tries = 0; tries < READ_TRIES_MAX; tries++) {
        enum hf_status status = view_document(ref, view, error);
        if (status != HF_OK)
            return status;
        const struct key_state *state = &view->state;
        if (tries > 0 && state->staged && strcmp(state->stage.txn, asked) == 0)
            return HF_OK;
        status = read_stage_decision(ref->client, view, ret_decided, error);
        /* If the record is missing, it may have been purged, but then the stage is no longer in
         * the document. If the record says commit, the stage that we saw may have been replaced
         * between our read and the commit. After the commit it no longer changes, so in both cases
         * reading the document once more is enough. */
        bool again = *ret_decided == TXN_ABSENT ||
                     (RULE(COMMITTED_STAGE_IS_READ_AGAIN) && *ret_decided == TXN_COMMIT);
        if (status != HF_OK || !again)
            return status;
        memcpy(asked, state->stage.txn, sizeof asked);
    }
    return error_set(error, HF_UNAVAILABLE,
                     "the key is changed faster than it can be read; try again");
}

/* Settles a decided stage whose owner is gone, with at most one write. If that fails, the next
 * client that touches the key does so. True if the stage is settled; the view then has the new
 * state. */
static bool settle_for_absent_owner(struct table_ref *ref, struct key_view *view,
                                    enum txn_state decided)
{
    struct change change;
    struct hf_error ignored;
    if (!view->abandoned || (decided != TXN_COMMIT && decided != TXN_ROLLBACK))
        return false;
    change_init(&change, CHANGE_SETTLE);
    change.txn = view_of(view->state.stage.txn);
    change.commit = decided == TXN_COMMIT;
    bool settled = change_ask(ref, &change, (struct mono_time){ 0 }, &ignored) == HF_OK;
    if (settled) {
        struct key_state before = view->state;
        view->state = change.state;
        change.state = before;
    }
    change_release(&change);
    return settled;
}

/* Reads the document and decides which version to show: the staged version if it is committed. */
static enum hf_status view_for_reader(struct table_ref *ref, struct key_view *view,
                                      bool *ret_committed, struct hf_error *error)
{
    enum txn_state decided;
    enum hf_status status = view_with_decision(ref, view, &decided, error);
    if (status == HF_OK)
        *ret_committed = !settle_for_absent_owner(ref, view, decided) && decided == TXN_COMMIT;
    return status;
}

/* ---- Reading ------------------------------------------------------------------------- */

/* Where the bytes go: into a buffer or, if `fd` is not -1, into that file, from its start. */
struct sink {
    struct buffer *body;
    int fd;
};

static enum hf_status wrong_size(struct hf_error *error)
{
    return error_set(error, HF_CORRUPT,
                     "the size of the state differs from the size that was written");
}

/* NOT_FOUND: the body is gone. */
static enum hf_status copy_body(struct hf_client *client, struct view key, uint64_t size,
                                const struct sink *sink, struct hf_error *error)
{
    struct get_call get = { .key = key, .body = sink->body };
    if (sink->fd < 0)
        get.length = size;
    struct store *store = client_store(client);
    enum hf_status status =
        sink->fd >= 0 ? store_get_file(store, &get, sink->fd, NULL) : store_get(store, &get);
    clock_learn(client_clock(client), &get.stamp);
    *error = get.error;
    return status == HF_OK && get.info.size != size ? wrong_size(error) : status;
}

static enum hf_status copy_version(struct hf_client *client, struct view name,
                                   const struct state_version *version, const struct sink *sink,
                                   struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    struct body_name body = { .token = version->token };
    enum hf_status status;
    if (sink->body && version->size > sink->body->max)
        return error_set(error, HF_INVALID,
                         "the state has %llu bytes, more than the %zu allowed",
                         (unsigned long long)version->size, sink->body->max);
    memcpy(body.etag, version->etag, sizeof body.etag);
    if (sink->body)
        buffer_clear(sink->body);
    if (!version->has_body && sink->fd >= 0)
        status = file_write_at(sink->fd, version->bytes, 0, error);
    else if (!version->has_body)
        status = buffer_append(sink->body, version->bytes) ? HF_OK : error_no_memory(error);
    else if (key_body_key(view_of(client_ns(client)), name, &body, key))
        status = copy_body(client, view_of(key), version->size, sink, error);
    else
        status = wrong_size(error);
    if (status == HF_OK && sink->fd >= 0) /* an earlier try may have written more */
        status = file_set_size(sink->fd, version->size, error);
    return status;
}

/* One try. NOT_FOUND with *ret_gone: the body that `info` names is gone. */
static enum hf_status read_once(struct table_ref *ref, struct view name,
                                const struct sink *sink, struct hf_key_info *info,
                                bool *ret_gone, struct hf_error *error)
{
    struct key_view view = { .description = NULL };
    bool committed = false;
    state_init(&view.state);
    *ret_gone = false;
    enum hf_status status = view_for_reader(ref, &view, &committed, error);
    const struct state_version *version = state_shown(&view.state, committed);
    if (status == HF_OK) {
        key_info_fill(&view.state, version, HF_KEY_NONE, info);
        if (view.state.lost)
            status = error_set(
                error, HF_CORRUPT,
                "the document of this key was damaged; a copy is kept under .holdfast/kept/");
        else if (version->number == 0 || version->removed)
            status = error_set(error, HF_NOT_FOUND, "the key %s",
                               version->removed ? "was removed" : "was never written");
        else {
            status = copy_version(ref->client, name, version, sink, error);
            *ret_gone = status == HF_NOT_FOUND;
        }
    }
    state_release(&view.state);
    return status;
}

static enum hf_status read_at_server(struct hf_client *client, struct view name,
                                     const struct sink *sink, struct hf_key_info *info,
                                     struct hf_error *error)
{
    struct buffer whole = BUFFER_INIT(BODY_BYTES_MAX);
    struct buffer *body = sink->fd >= 0 ? &whole : sink->body;
    enum hf_status status = client_server(client)->read_state(client, name, body, info, error);
    if (status == HF_OK && sink->fd >= 0)
        status = file_write_at(sink->fd, buffer_view(&whole), 0, error);
    buffer_release(&whole);
    return status;
}

/* If the body is missing, the document is read again. If it still names that body, no writer has
 * replaced it, so the state is lost. */
static enum hf_status read_with_retries(struct hf_client *client, struct view name,
                                        const struct sink *sink, struct hf_key_info *info,
                                        struct hf_error *error)
{
    char document[KEY_BYTES_MAX + 1], before[HF_KEY_ETAG_SIZE + 1] = "";
    struct table_ref *ref;
    bool gone = true;
    enum hf_status status = key_document(view_of(client_ns(client)), name, document, error);
    if (status == HF_OK && client_server(client))
        return read_at_server(client, name, sink, info, error);
    if (status == HF_OK)
        status = table_ref_take(client, view_of(document), &ref, error);
    if (status != HF_OK)
        return status;
    for (int tries = 0; tries < READ_TRIES_MAX; tries++) {
        status = read_once(ref, name, sink, info, &gone, error);
        if (!gone)
            break;
        if (strcmp(info->etag, before) == 0) {
            status = error_set(error, HF_CORRUPT, "the state that the document names is gone");
            break;
        }
        status = error_set(error, HF_UNAVAILABLE,
                           "the key is published faster than it can be read; try again");
        memcpy(before, info->etag, sizeof before);
    }
    table_ref_drop(ref);
    return status;
}

static enum hf_status read_to(struct hf_client *client, const char *name,
                              const struct sink *sink, struct hf_key_info *info,
                              struct hf_error *error)
{
    struct hf_key_info unwanted = HF_KEY_INFO;
    struct hf_error why;
    client_active(client);
    if (!info)
        info = &unwanted;
    key_info_fill(NULL, NULL, HF_KEY_NONE, info);
    enum hf_status status = read_with_retries(client, view_of(name), sink, info, &why);
    return error_tell(error, status, &why);
}

enum hf_status hf_key_get(struct hf_client *client, const char *name, size_t size_max,
                          void **ret_data, size_t *ret_size, struct hf_key_info *info,
                          struct hf_error *error)
{
    struct buffer body = BUFFER_INIT(size_max < BODY_BYTES_MAX ? size_max : BODY_BYTES_MAX);
    const struct sink sink = { .body = &body, .fd = -1 };
    if (key_info_begin(info, error) != HF_OK ||
        ERROR_IF_NULL(error, client, name, ret_data, ret_size) != HF_OK)
        return HF_INVALID;
    enum hf_status status = read_to(client, name, &sink, info, error);
    if (status == HF_OK && !buffer_reserve(&body, 0)) /* non-NULL for an empty state too */
        status = error_no_memory(error);
    if (status != HF_OK) {
        buffer_release(&body);
        return status;
    }
    *ret_data = body.data;
    *ret_size = body.size;
    return HF_OK;
}

enum hf_status hf_key_get_file(struct hf_client *client, const char *name, int fd,
                               struct hf_key_info *info, struct hf_error *error)
{
    const struct sink sink = { .fd = fd };
    uint64_t size;
    if (key_info_begin(info, error) != HF_OK || ERROR_IF_NULL(error, client, name) != HF_OK)
        return HF_INVALID;
    enum hf_status status = file_size(fd, &size, error);
    if (status == HF_OK && size > 0)
        status = error_set(error, HF_INVALID, "the file to read into must be empty");
    if (status == HF_OK)
        return read_to(client, name, &sink, info, error);
    return status;
}

/* ---- Describing ---------------------------------------------------------------------- */

/* Clears ended leases and their stages (best effort). */
static void clear_ended_leases(struct table_ref *ref)
{
    struct request request, *requests[] = { &request };
    struct change tidy;
    change_init(&tidy, CHANGE_TIDY);
    request_init(&request, ref, TABLE_SCAVENGE, (struct mono_time){ 0 });
    request.hook = &tidy.hook;
    table_ref_ask(ref, requests, 1);
    change_release(&tidy);
}

static enum hf_status describe_key(struct table_ref *ref, struct key_view *view,
                                   struct hf_error *error)
{
    bool committed = false;
    enum hf_status status = view_for_reader(ref, view, &committed, error);
    if (status == HF_OK && view->over) {
        clear_ended_leases(ref);
        status = view_for_reader(ref, view, &committed, error);
    }
    if (status != HF_OK)
        return status;
    struct key_description *description = view->description;
    const struct key_state *state = &view->state;
    key_info_fill(state, state_shown(state, committed), HF_KEY_NONE, &description->info);
    description->lost = state->lost;
    description->staged = state->staged;
    return HF_OK;
}

enum hf_status key_describe(struct hf_client *client, const char *name,
                            struct key_description *ret_description, struct hf_error *error)
{
    char document[KEY_BYTES_MAX + 1];
    struct key_description description;
    struct key_view view = { .description = &description };
    struct table_ref *ref;
    struct hf_error why;
    client_active(client);
    enum hf_status status =
        key_document(view_of(client_ns(client)), view_of(name), document, &why);
    if (status == HF_OK)
        status = table_ref_take(client, view_of(document), &ref, &why);
    if (status == HF_OK && client_server(client)) {
        status = client_server(client)->describe(client, view_of(name), &description, &why);
        table_ref_drop(ref);
    } else if (status == HF_OK) {
        state_init(&view.state);
        status = describe_key(ref, &view, &why);
        state_release(&view.state);
        table_ref_drop(ref);
    }
    if (status == HF_OK) {
        *ret_description = description;
        return error_clear(error);
    }
    if (error)
        *error = why;
    return status;
}
