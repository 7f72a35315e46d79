/* give_up.c: the way out when the record of a transaction cannot be read.
 *
 * Nobody may guess what it said, so its keys stay locked until a person decides. What the person
 * does not know either is whether it was committed, and settled in a part of its keys: then that
 * part stays, and the rest is dropped. So this is never done but when somebody asks for it, and the
 * damaged bytes are kept aside before. */
#include "key/txn_inside.h"

#include "lock/tables.h"

/* How often it is begun anew because there was no answer, or the record was another by then. */
#define GIVE_UP_TRIES_MAX 4

/* OK: it can be read, or there is none. CORRUPT: it cannot. */
static enum hf_status judge(struct view bytes, struct view id, struct hf_error *error)
{
    struct txn_record record;
    if (bytes.size > RECORD_BYTES_MAX)
        return error_set(error, HF_CORRUPT, "the record is too large");
    enum hf_status status = record_decode(bytes, &record, error);
    if (status != HF_OK)
        return status;
    bool own = view_equal(view_of(record.id), id);
    record_release(&record);
    return own ? HF_OK : error_set(error, HF_CORRUPT, "the record is that of another one");
}

/* The same that is written where there is no record at all: its nonce makes the ETag a new one. */
static enum hf_status put_rollback(struct hf_client *client, struct view key, struct view id,
                                   const struct etag *damaged, struct hf_error *error)
{
    char nonce[NONCE_SIZE + 1];
    env_random_hex(client->env, NONCE_SIZE, nonce);
    struct evidence evidence = { .nonce = view_of(nonce) };
    clock_evidence(&client->clock, &evidence);
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
                            .deadline = soon(client) };
    if (status == HF_OK && (status = store_put(client->store, &put)) != HF_OK)
        *error = put.error;
    buffer_release(&text);
    return status;
}

/* Kept aside, announced to the sweeper, and only then replaced. */
static enum hf_status replace(struct hf_client *client, struct view key, struct view id,
                              const struct get_call *get, struct hf_error *error)
{
    enum hf_status status =
        table_keep_aside(&client->space, key, buffer_view(get->body), soon(client), error);
    if (status == HF_OK)
        status = record_announce(client, id, error);
    return status == HF_OK ? put_rollback(client, key, id, &get->info.etag, error) : status;
}

static enum hf_status give_up_once(struct hf_client *client, struct view id, bool *ret_done,
                                   struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    struct buffer bytes = BUFFER_INIT(BODY_BYTES_MAX);
    record_key(id, key);
    struct get_call get = { .key = view_of(key), .body = &bytes, .deadline = soon(client) };
    enum hf_status status = store_get(client->store, &get);
    clock_learn(&client->clock, &get.stamp);
    *error = get.error;
    if (status == HF_OK)
        status = judge(buffer_view(&bytes), id, error);
    if (status == HF_CORRUPT) {
        status = replace(client, get.key, id, &get, error);
        if (status == HF_OK)
            *ret_done = true;
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
