/* read.c: reading a key, and looking at it, without a lease.
 *
 * The state is in the key's document, or that names the body. Between the two somebody may publish:
 * then the body may be gone, and the document names another. So it is read again, and what is read
 * is always one whole version. */
#include "key/key.h"

#include "base/check.h"
#include "base/rule.h"
#include "store/stream.h"

/* How often a reader that finds the body gone starts again. */
#define READ_TRIES_MAX 16

/* ---- The document -------------------------------------------------------------------- */

/* What a document says, copied. */
struct sighting {
    struct key_state state;
    bool abandoned; /* a stage stands there, and no active lease has its token */
    bool over;      /* an active lease is provably so */
    struct key_description *description; /* may be NULL; the part about leases is filled in */
    struct lease_settings ours;
    enum hf_status status;
    struct hf_error *error;
};

/* Of several, which share the name as a lock, the newest is shown. */
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

static void sight(void *argument, const void *body, const struct evidence *evidence)
{
    struct sighting *sighting = argument;
    const struct lease_table *table = body;
    struct lease_settings settings = lease_settings_stricter(&table->settings, &sighting->ours);
    sighting->status =
        state_read(buffer_view(&table->state), &sighting->state, sighting->error);
    if (sighting->status != HF_OK)
        return;
    sighting->abandoned = stage_is_abandoned(table, &sighting->state);
    sighting->over = false;
    if (sighting->description)
        *sighting->description =
            (struct key_description){ .info = HF_KEY_INFO, .waiters = table->waiter_count };
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *lease = table->leases[i];
        if (lease->status != LEASE_ACTIVE)
            continue;
        if (lease_judge(&settings, lease, evidence) != PROOF_NONE)
            sighting->over = true;
        else if (sighting->description)
            describe_lease(lease, evidence, sighting->description);
    }
}

/* NOT_FOUND: there is no document. */
static enum hf_status look(struct place *place, struct sighting *sighting,
                           struct hf_error *error)
{
    struct mono_time deadline = mono_add(env_now(place->client->env), REQUEST_TIME);
    state_release(&sighting->state);
    state_init(&sighting->state);
    sighting->ours = place->space->settings;
    sighting->status = HF_OK;
    sighting->error = error;
    enum hf_status status = doc_look(place->doc, deadline, sight, sighting, error);
    if (status == HF_NOT_FOUND)
        return error_set(error, status, "the key was never written");
    return status == HF_OK ? sighting->status : status;
}

/* ---- What is staged ------------------------------------------------------------------ */

/* What the record of the stage says, where that matters: PENDING else. The stage of a lease alone
 * is decided by its release, which is one write: so it is not, yet. */
static enum hf_status ask_record(struct hf_client *client, const struct sighting *sighting,
                                 enum txn_state *ret_state, struct hf_error *error)
{
    const struct state_stage *stage = &sighting->state.stage;
    struct txn_record record;
    bool matters = sighting->state.staged && stage->txn[0] != '\0' &&
                   (stage->changes || sighting->abandoned);
    *ret_state = TXN_PENDING;
    if (!matters || !RULE(READER_ASKS_THE_RECORD))
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

/* Whether the document must be read once more. A record that is missing may have been purged since;
 * but then the document has its stage no more. One that commits may do so since, and what was
 * staged when we looked may have been replaced before that; it is not any more after it. */
static bool must_look_again(enum txn_state decided)
{
    return decided == TXN_ABSENT ||
           (decided == TXN_COMMIT && RULE(COMMITTED_STAGE_IS_READ_AGAIN));
}

/* Looks until it is known what is decided about the stage that stands there, if one does. */
static enum hf_status look_and_ask(struct place *place, struct sighting *sighting,
                                   enum txn_state *ret_decided, struct hf_error *error)
{
    char asked[TXN_ID_SIZE + 1] = "";
    for (int tries = 0; tries < READ_TRIES_MAX; tries++) {
        enum hf_status status = look(place, sighting, error);
        if (status != HF_OK)
            return status;
        const struct key_state *state = &sighting->state;
        if (tries > 0 && state->staged && strcmp(state->stage.txn, asked) == 0)
            return HF_OK;
        status = ask_record(place->client, sighting, ret_decided, error);
        if (status != HF_OK || !must_look_again(*ret_decided))
            return status;
        memcpy(asked, state->stage.txn, sizeof asked);
    }
    return error_set(error, HF_UNAVAILABLE, "it is changed faster than it can be read");
}

/* Settles a stage that is decided and whose owner is gone, who would else do so himself: at most
 * one write, and if nothing comes of it the next who touches the key does it. True when it is
 * settled; the state is the one after that. */
static bool settle_for_owner(struct place *place, struct sighting *sighting,
                             enum txn_state decided)
{
    struct change change;
    struct hf_error ignored;
    if (!sighting->abandoned || (decided != TXN_COMMIT && decided != TXN_ROLLBACK))
        return false;
    change_init(&change, CHANGE_SETTLE);
    change.txn = view_of(sighting->state.stage.txn);
    change.commit = decided == TXN_COMMIT;
    bool settled = change_ask(place, &change, (struct mono_time){ 0 }, &ignored) == HF_OK;
    if (settled) {
        struct key_state before = sighting->state;
        sighting->state = change.state;
        change.state = before;
    }
    change_release(&change);
    return settled;
}

/* Looks, and finds out which version is to be shown: what is staged, if that is committed. */
static enum hf_status look_and_decide(struct place *place, struct sighting *sighting,
                                      bool *ret_committed, struct hf_error *error)
{
    enum txn_state decided;
    enum hf_status status = look_and_ask(place, sighting, &decided, error);
    if (status == HF_OK)
        *ret_committed = !settle_for_owner(place, sighting, decided) && decided == TXN_COMMIT;
    return status;
}

/* ---- Reading ------------------------------------------------------------------------- */

/* Where the bytes go: to a buffer, or, with a file that is not -1, to its start. */
struct sink {
    struct buffer *body;
    int fd;
};

static enum hf_status wrong_size(struct hf_error *error)
{
    return error_set(error, HF_CORRUPT, "the state is not the one that was written");
}

static enum hf_status take_inline(struct view bytes, const struct sink *sink,
                                  struct hf_error *error)
{
    if (sink->fd >= 0)
        return file_write_at(sink->fd, bytes, 0, error);
    return buffer_append(sink->body, bytes) ? HF_OK : error_no_memory(error);
}

/* NOT_FOUND: the body is gone. */
static enum hf_status take_body(struct hf_client *client, struct view key, uint64_t size,
                                const struct sink *sink, struct hf_error *error)
{
    struct get_call get = { .key = key, .body = sink->body };
    if (sink->fd < 0)
        get.length = size;
    enum hf_status status = sink->fd >= 0 ? store_get_file(client->store, &get, sink->fd, NULL)
                                          : store_get(client->store, &get);
    clock_learn(&client->clock, &get.stamp);
    *error = get.error;
    return status == HF_OK && get.info.size != size ? wrong_size(error) : status;
}

static enum hf_status take_version(struct hf_client *client, struct view name,
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
    if (!version->has_body)
        status = take_inline(version->bytes, sink, error);
    else if (key_body_key(view_of(client->space.ns), name, &body, key))
        status = take_body(client, view_of(key), version->size, sink, error);
    else
        status = wrong_size(error);
    if (status == HF_OK && sink->fd >= 0) /* an earlier try may have left more */
        status = file_set_size(sink->fd, version->size, error);
    return status;
}

/* One try. NOT_FOUND with *ret_gone: the body is gone that `info` names. */
static enum hf_status read_once(struct place *place, struct view name, const struct sink *sink,
                                struct hf_key_info *info, bool *ret_gone,
                                struct hf_error *error)
{
    struct sighting sighting = { .description = NULL };
    bool committed = false;
    state_init(&sighting.state);
    *ret_gone = false;
    enum hf_status status = look_and_decide(place, &sighting, &committed, error);
    const struct state_version *version = state_shown(&sighting.state, committed);
    if (status == HF_OK) {
        key_info_fill(&sighting.state, version, HF_KEY_NONE, info);
        if (sighting.state.lost)
            status = error_set(error, HF_CORRUPT,
                               "the document of this key was damaged; its bytes are kept under "
                               ".holdfast/kept/");
        else if (version->number == 0 || version->removed)
            status = error_set(error, HF_NOT_FOUND, "the key %s",
                               version->removed ? "was removed" : "was never written");
        else {
            status = take_version(place->client, name, version, sink, error);
            *ret_gone = status == HF_NOT_FOUND;
        }
    }
    state_release(&sighting.state);
    return status;
}

/* A document that still names a body that is gone is not one that was overtaken. */
static enum hf_status read_key(struct hf_client *client, struct view name,
                               const struct sink *sink, struct hf_key_info *info,
                               struct hf_error *error)
{
    char document[KEY_BYTES_MAX + 1], before[HF_KEY_ETAG_SIZE + 1] = "";
    struct place *place;
    bool gone = true;
    enum hf_status status = key_document(view_of(client->space.ns), name, document, error);
    if (status == HF_OK)
        status = place_take(client, view_of(document), &place, error);
    if (status != HF_OK)
        return status;
    for (int tries = 0; gone && tries < READ_TRIES_MAX; tries++) {
        status = read_once(place, name, sink, info, &gone, error);
        if (gone && strcmp(info->etag, before) == 0) {
            status = error_set(error, HF_CORRUPT, "the state that the document names is gone");
            gone = false;
        }
        memcpy(before, info->etag, sizeof before);
    }
    place_drop(place);
    return gone ? error_set(error, HF_UNAVAILABLE, "it is published faster than it can be read")
                : status;
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
    enum hf_status status = read_key(client, view_of(name), sink, info, &why);
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
    if (status == HF_OK && !buffer_reserve(&body, 0)) /* also nothing is somewhere */
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

/* Clears leases that are over, and what they had staged, as well as that can be. */
static void scavenge(struct place *place)
{
    struct request request, *requests[] = { &request };
    struct change tidy;
    change_init(&tidy, CHANGE_TIDY);
    request_init(&request, place, TABLE_SCAVENGE, (struct mono_time){ 0 });
    request.guest = &tidy.guest;
    place_ask(place, requests, 1);
    change_release(&tidy);
}

static enum hf_status describe(struct place *place, struct sighting *sighting,
                               struct hf_error *error)
{
    bool committed = false;
    enum hf_status status = look_and_decide(place, sighting, &committed, error);
    if (status == HF_OK && sighting->over) {
        scavenge(place);
        status = look_and_decide(place, sighting, &committed, error);
    }
    if (status != HF_OK)
        return status;
    struct key_description *description = sighting->description;
    const struct key_state *state = &sighting->state;
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
    struct sighting sighting = { .description = &description };
    struct place *place;
    struct hf_error why;
    client_active(client);
    enum hf_status status =
        key_document(view_of(client->space.ns), view_of(name), document, &why);
    if (status == HF_OK)
        status = place_take(client, view_of(document), &place, &why);
    if (status == HF_OK) {
        state_init(&sighting.state);
        status = describe(place, &sighting, &why);
        state_release(&sighting.state);
        place_drop(place);
    }
    if (status == HF_OK) {
        *ret_description = description;
        return error_clear(error);
    }
    if (error)
        *error = why;
    return status;
}
