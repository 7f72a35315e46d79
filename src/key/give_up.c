/* SPDX-License-Identifier: Apache-2.0 */
/* give_up.c: replaces a transaction record that cannot be read with a rollback. No client may
 * guess the decision, so the keys stay locked until an operator requests this. If the transaction
 * had been committed and applied to some keys, those changes stay and the others are dropped. A
 * copy of the damaged bytes is saved first. */
#include "key/txn_inside.h"

#include "lock/tables.h"

/* How many times it is tried if there is no reply, or if the record has changed. */
#define GIVE_UP_TRIES_MAX 4

/* OK: the record can be read, or there is none. CORRUPT: it cannot be read. */
static enum hf_status check_record_bytes(struct view bytes, struct view id,
                                         struct hf_error *error)
{
    struct txn_record record;
    if (bytes.size > RECORD_BYTES_MAX)
        return error_set(error, HF_CORRUPT, "the record is too large");
    enum hf_status status = record_decode(bytes, &record, error);
    if (status != HF_OK)
        return status;
    bool own = view_equal(view_of(record.id), id);
    record_release(&record);
    return own ? HF_OK
               : error_set(error, HF_CORRUPT, "the record belongs to another transaction");
}

/* Writes the same mark as for a missing record. The nonce makes its ETag unique. */
static enum hf_status put_rollback(struct hf_client *client, struct view key, struct view id,
                                   const struct etag *damaged, struct hf_error *error)
{
    char nonce[NONCE_SIZE + 1];
    env_random_hex(client_env(client), NONCE_SIZE, nonce);
    struct evidence evidence = { .nonce = view_of(nonce) };
    clock_evidence(client_clock(client), &evidence);
    struct txn_record record = { .state = TXN_ROLLBACK,
                                 .decided = stamp_now(&evidence),
                                 .decided_at = evidence.wall };
    struct buffer text = BUFFER_INIT(RECORD_BYTES_MAX);
    memcpy(record.id, id.data, TXN_ID_SIZE);
    enum hf_status status = HF_OK;
    if (!record_encode(&record, evidence.nonce, &text))
        status = error_no_memory(error);
    struct put_call put = { .key = key,
                            .body = buffer_view(&text),
                            .condition = if_match(damaged),
                            .deadline = client_deadline(client) };
    if (status == HF_OK && (status = store_put(client_store(client), &put)) != HF_OK)
        *error = put.error;
    buffer_release(&text);
    return status;
}

static enum hf_status give_up_once(struct hf_client *client, struct view id, bool *ret_done,
                                   struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    struct buffer bytes = BUFFER_INIT(BODY_BYTES_MAX);
    record_key(id, key);
    struct get_call get = { .key = view_of(key),
                            .body = &bytes,
                            .deadline = client_deadline(client) };
    enum hf_status status = client_get(client, &get);
    *error = get.error;
    if (status == HF_OK)
        status = check_record_bytes(buffer_view(&bytes), id, error);
    if (status == HF_CORRUPT) {
        /* The copy and the sweeper's entry are written before the record is replaced. After a
         * crash in between, the call can simply be repeated. */
        status = table_keep_aside(client_store(client), get.key, buffer_view(&bytes),
                                  client_deadline(client), error);
        if (status == HF_OK)
            status = record_announce(client, id, error);
        if (status == HF_OK)
            status = put_rollback(client, get.key, id, &get.info.etag, error);
        *ret_done = status == HF_OK;
    }
    buffer_release(&bytes);
    return status == HF_NOT_FOUND ? HF_OK : status;
}

enum hf_status txn_give_up(struct hf_client *client, struct view id, bool *ret_done,
                           struct hf_error *error)
{
    struct hf_error why = { .status = HF_CONFLICT };
    enum hf_status status = HF_CONFLICT;
    if (txn_check_id(id, error) != HF_OK)
        return HF_INVALID;
    client_active(client);
    *ret_done = false;
    for (int tries = 0; tries < GIVE_UP_TRIES_MAX; tries++) {
        status = give_up_once(client, id, ret_done, &why);
        if (status != HF_CONFLICT && status != HF_UNSURE)
            break;
    }
    return error_tell(error, status, &why);
}
