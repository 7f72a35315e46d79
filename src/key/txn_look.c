/* SPDX-License-Identifier: Apache-2.0 */
/* txn_look.c: reads and changes records by the transaction's id alone, for processes that did not
 * begin the transaction: the program, the sweeper, and clients that find a stage. Like the
 * transaction's own process, they decide by a swap of the record. */
#include "key/txn_inside.h"

#include "base/check.h"
#include "base/rule.h"
#include "lock/expiry.h"

#include <stdio.h>
#include <stdlib.h>

/* How many times a commit is tried if other processes keep taking additional keys. */
#define DECIDE_TRIES_MAX 8

/* How many times an entry is sent if there is no reply. The pause doubles each time. */
#define ENTRY_TRIES_MAX   4
#define ENTRY_PAUSE_FIRST SPAN_MS(20)

/* ---- Records ------------------------------------------------------------------------- */

enum hf_status record_get(struct hf_client *client, struct view id,
                          struct txn_record *ret_record, struct etag *ret_etag,
                          struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    struct buffer body = BUFFER_INIT(RECORD_BYTES_MAX);
    struct hf_error why;
    if (client_server(client))
        return error_tell(error, client_server(client)->read_txn(client, id, ret_record, &why),
                          &why);
    record_key(id, key);
    struct get_call get = { .key = view_of(key),
                            .body = &body,
                            .deadline = client_deadline(client) };
    enum hf_status status = client_get(client, &get);
    why = get.error;
    if (status == HF_INVALID) /* it is too large */
        status = HF_CORRUPT;
    if (status == HF_OK)
        status = record_decode(buffer_view(&body), ret_record, &why);
    if (status == HF_OK && !view_equal(view_of(ret_record->id), id)) {
        record_release(ret_record);
        status = HF_CORRUPT;
    }
    if (status == HF_CORRUPT) /* no client may guess its decision; an operator can replace it */
        error_set(&why, status,
                  "the record of transaction %.*s is damaged; hf_txn_give_up replaces it with "
                  "a rollback",
                  VIEW_ARGS(id));
    if (status == HF_OK) {
        ret_record->seen = client_now(client);
        if (ret_etag)
            *ret_etag = get.info.etag;
    } else if (error) {
        *error = why;
    }
    buffer_release(&body);
    return status;
}

void txn_event(struct hf_client *client, struct view id, enum txn_state decided)
{
    char key[KEY_BYTES_MAX + 1];
    record_key(id, key);
    client_event(client, &(struct event){ .kind = decided == TXN_COMMIT ? HF_EVENT_COMMITTED
                                                                        : HF_EVENT_ROLLED_BACK,
                                          .key = view_of(key),
                                          .txn = id });
}

enum hf_status record_change(struct hf_client *client, struct record_op *op,
                             struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    struct doc *doc;
    record_key(op->id, key);
    enum hf_status status = doc_new(client_store(client), client_clock(client), view_of(key),
                                    &record_doc_type, NULL, &doc, error);
    if (status != HF_OK)
        return status;
    status = doc_update(doc, &op->op);
    client_note_conflicts(client, view_of(key), op->op.conflicts);
    if (status == HF_OK && op->kind == RECORD_DECIDE && op->op.changed)
        txn_event(client, op->id, op->recorded);
    if (status != HF_OK && error)
        *error = op->op.error;
    doc_free(doc);
    return status;
}

/* The bytes differ each time, and so does the ETag. */
#define ENTRY_TEXT "{\"write\":\"%.*s\"}\n"

static enum hf_status put_entry(struct hf_client *client, struct view key,
                                struct hf_error *error)
{
    char nonce[NONCE_SIZE + 1], body[NONCE_SIZE + 32];
    env_random_hex(client_env(client), NONCE_SIZE, nonce);
    snprintf(body, sizeof body, ENTRY_TEXT, NONCE_SIZE, nonce);
    struct put_call put = {
        .key = key, .body = view_of(body), .quiet = true, .deadline = client_deadline(client)
    };
    enum hf_status status = store_put(client_store(client), &put);
    clock_learn_from_write(client_clock(client), &put.stamp, /* done */ status == HF_OK);
    *error = put.error;
    return status;
}

/* The entry is filed under the first hour in which the record may be purged if it is decided
 * immediately. */
static void entry_key_now(struct hf_client *client, struct view id,
                          char ret_key[KEY_BYTES_MAX + 1])
{
    char hour[HOUR_TEXT_SIZE + 1];
    struct evidence evidence = { .nonce = VIEW("") };
    struct span after =
        SPAN_US(client_settings(client)->late_bound.us + client_hour(client).us);
    clock_evidence(client_clock(client), &evidence);
    hour_text(hour_after(client, &evidence, after), hour);
    record_entry_key(id, view_of(hour), ret_key);
}

/* An entry means nothing without a record, so it is safe to send it again. If the outcome is
 * unknown, no transaction has begun. */
enum hf_status record_announce(struct hf_client *client, struct view id, struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    struct span pause = ENTRY_PAUSE_FIRST;
    struct hf_error why;
    entry_key_now(client, id, key);
    enum hf_status status = put_entry(client, view_of(key), &why);
    for (int tries = 1; tries < ENTRY_TRIES_MAX; tries++) {
        if (status != HF_UNSURE && status != HF_UNAVAILABLE)
            break;
        env_sleep(client_env(client), env_jitter(client_env(client), pause));
        pause.us *= 2;
        status = put_entry(client, view_of(key), &why);
    }
    if (status == HF_OK)
        return HF_OK;
    if (status == HF_UNSURE)
        why.status = status = HF_UNAVAILABLE;
    error_prefix(&why, "the transaction's entry");
    if (error)
        *error = why;
    return status;
}

/* ---- The entry as a document --------------------------------------------------------- */

/* An entry has no content of its own, so its body only shows that there is one. */

static void *new_txn_entry(void *context)
{
    (void)context;
    return calloc(1, sizeof(char));
}

static enum hf_status decode_txn_entry(struct view bytes, struct mono_time arrived,
                                       const void *previous, void **ret_body,
                                       struct hf_error *error)
{
    (void)bytes, (void)arrived, (void)previous;
    *ret_body = new_txn_entry(NULL);
    return *ret_body ? HF_OK : error_no_memory(error);
}

static bool encode_txn_entry(const void *body, struct view nonce, struct buffer *text)
{
    (void)body;
    return buffer_print(text, ENTRY_TEXT, VIEW_ARGS(nonce));
}

static enum hf_status apply_to_entry(struct doc_op *op, void *body,
                                     const struct evidence *evidence)
{
    (void)body, (void)evidence;
    op->changed = true;
    return HF_OK;
}

static const struct doc_type entry_doc_type = { .bytes_max = 4096,
                                                .decode = decode_txn_entry,
                                                .birth = new_txn_entry,
                                                .encode = encode_txn_entry,
                                                .free = free };

enum hf_status record_entry_new(struct hf_client *client, struct view id,
                                struct mono_time deadline, struct doc **ret_doc,
                                struct doc_op *ret_op, struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    *ret_op = (struct doc_op){ .apply = apply_to_entry, .deadline = deadline, .quiet = true };
    entry_key_now(client, id, key);
    enum hf_status status = doc_new(client_store(client), client_clock(client), view_of(key),
                                    &entry_doc_type, NULL, ret_doc, error);
    if (status == HF_OK)
        doc_expect_absent(*ret_doc);
    return status;
}

enum hf_status txn_look(struct hf_client *client, struct view id, struct txn_record *ret_record,
                        struct hf_error *error)
{
    if (txn_check_id(id, error) != HF_OK)
        return HF_INVALID;
    return record_get(client, id, ret_record, NULL, error);
}

/* ---- Deciding by the id -------------------------------------------------------------- */

/* Decides a pending transaction as requested or, if a key is no longer held for it, rolls it
 * back. CONFLICT: the record now names another key. */
static enum hf_status decide_pending(struct hf_client *client, const struct txn_record *record,
                                     enum hf_decision decision, enum txn_state *ret_recorded,
                                     struct hf_error *error)
{
    struct record_op op;
    enum hf_status held = HF_OK;
    if (decision == HF_COMMIT && !record->open)
        return error_set(error, HF_DENIED,
                         "only the process that began the transaction can commit it");
    if (decision == HF_COMMIT)
        held = stages_seal(client, record->keys, record->key_count, view_of(record->id), error);
    if (held != HF_OK && held != HF_EXPIRED)
        return held;
    bool commit = decision == HF_COMMIT && held == HF_OK;
    record_op_init(&op, RECORD_DECIDE, view_of(record->id), client_deadline(client));
    op.decision = commit ? TXN_COMMIT : TXN_ROLLBACK;
    op.keys = record->keys;
    op.key_count = record->key_count;
    enum hf_status status = record_change(client, &op, error);
    if (status == HF_OK && op.recorded == TXN_ABSENT) /* purged since we read it */
        return error_set(error, HF_UNSURE, "the transaction has since been decided and purged");
    if (status == HF_OK)
        *ret_recorded = op.recorded;
    return status;
}

/* Settles the keys that the record now names. The record is read again, because the process that
 * decided the transaction may have known more keys. When all keys are settled, this is noted in
 * the record, or the record is deleted. If settling a key fails, it is left to the next client
 * that touches the key. */
static void settle_recorded_keys(struct hf_client *client, struct view id, bool commit)
{
    struct record_op op;
    struct txn_record record;
    struct etag etag;
    struct hf_error why;
    bool all = true;
    if (record_get(client, id, &record, &etag, &why) != HF_OK)
        return;
    for (size_t i = 0; i < record.key_count; i++)
        if (stage_end(client, &record.keys[i], id, commit, &why) != HF_OK)
            all = false;
    record_op_init(&op, RECORD_APPLIED, id, client_deadline(client));
    op.keys = record.keys;
    op.key_count = record.key_count;
    if (!record_clear_read(client, &record, &etag, all) && all && commit && !record.applied)
        record_change(client, &op, NULL);
    record_release(&record);
}

static enum hf_status decide_once(struct hf_client *client, struct view id,
                                  enum hf_decision decision, enum txn_state *ret_recorded,
                                  struct hf_error *error)
{
    struct txn_record record;
    enum hf_status status = record_get(client, id, &record, NULL, error);
    if (status == HF_NOT_FOUND)
        return error_set(error, status, "no such transaction, or it ended long ago");
    if (status != HF_OK)
        return status;
    if (decision == HF_COMMIT && record_is_mark(&record)) {
        record_release(&record);
        return error_set(error, HF_NOT_FOUND,
                         "when a client marked the transaction as rolled back, it did not "
                         "exist or had ended long ago");
    }
    enum txn_state recorded = record.state;
    if (recorded == TXN_PENDING)
        status = decide_pending(client, &record, decision, &recorded, error);
    record_release(&record);
    if (status != HF_OK)
        return status;
    *ret_recorded = recorded;
    if (RULE(DECISION_FREES_ITS_KEYS))
        settle_recorded_keys(client, id, recorded == TXN_COMMIT);
    return HF_OK;
}

static enum hf_status decide_at_server(struct hf_client *client, struct view id,
                                       enum hf_decision decision, enum txn_state *ret_recorded,
                                       struct hf_error *error)
{
    struct hf_error why;
    enum hf_decision decided = decision;
    enum hf_status status =
        client_server(client)->decide_txn(client, id, decision, &decided, &why);
    if (status == HF_OK)
        *ret_recorded = decided == HF_COMMIT ? TXN_COMMIT : TXN_ROLLBACK;
    return error_tell(error, status, &why);
}

enum hf_status txn_decide(struct hf_client *client, struct view id, enum hf_decision decision,
                          enum txn_state *ret_recorded, struct hf_error *error)
{
    enum hf_status status = HF_CONFLICT;
    if (txn_check_id(id, error) != HF_OK)
        return HF_INVALID;
    client_active(client);
    if (client_server(client))
        return decide_at_server(client, id, decision, ret_recorded, error);
    for (int tries = 0; tries < DECIDE_TRIES_MAX; tries++) {
        status = decide_once(client, id, decision, ret_recorded, error);
        if (status != HF_CONFLICT)
            break;
    }
    return status == HF_OK ? error_clear(error) : status;
}
