/* SPDX-License-Identifier: Apache-2.0 */
/* body.c: writes bodies, the objects that hold data that is too large for a document. The caller
 * swaps the document only after body_put has returned OK, so no document names a missing or
 * incomplete body. */
#include "lock/body.h"

#include "base/mutant.h"
#include "lock/client_inside.h"
#include "store/stream.h"

#include <inttypes.h>

/* How many times a put that gets no reply is sent. The pause doubles each time. */
#define TRIES_MAX   4
#define PAUSE_FIRST SPAN_MS(50)

/* Whether the whole body is in the store. UNAVAILABLE: it is not there yet, or this is unknown. A
 * refused put does not prove that the body is there: the store may refuse it because an earlier
 * try of ours is still in progress, and that try may then fail. */
static enum hf_status find_sent_body(struct hf_client *client, const struct body *body,
                                     struct hf_error *error)
{
    struct buffer byte = BUFFER_INIT(1);
    struct get_call get = { .key = body->key, .length = 1, .body = &byte };
    enum hf_status status = client_get(client, &get);
    buffer_release(&byte);
    if (status != HF_OK)
        return error_set(error, HF_UNAVAILABLE,
                         "the store refused the body, and no copy of it could be read back: %s",
                         get.error.why);
    if (get.info.size != body->size)
        return error_set(error, HF_UNAVAILABLE,
                         "the store refused the body, and its copy has %" PRIu64 " of %" PRIu64
                         " bytes",
                         get.info.size, body->size);
    return error_clear(error);
}

/* Checks that the file is as long after the upload as it was before. */
static enum hf_status check_file_size(const struct body *body, struct hf_error *error)
{
    uint64_t size;
    enum hf_status status = file_size(body->fd, &size, error);
    if (status == HF_OK && size != body->size)
        status = error_set(error, HF_INVALID, "the file changed while it was being written");
    return status;
}

/* If the store ignores conditions on streamed puts, the put is unconditional. This is safe,
 * because no other client uses this name and a second copy has the same bytes. */
static enum hf_status send_body(struct hf_client *client, const struct body *body,
                                struct hf_error *error)
{
    struct put_call put = { .key = body->key, .body = body->bytes };
    if (body->fd < 0 || client->store->traits.put_file_conditional)
        put.condition = if_absent();
    enum hf_status status = body->fd < 0 ? store_put(client->store, &put)
                                         : store_put_file(client->store, &put, body->fd, NULL);
    clock_learn(&client->clock, &put.stamp);
    *error = put.error;
    MUTANT(mutant_trusts_refused_body(&status, error));
    if (status == HF_CONFLICT)
        status = find_sent_body(client, body, error);
    return status == HF_OK && body->fd >= 0 ? check_file_size(body, error) : status;
}

enum hf_status body_put(struct hf_client *client, const struct body *body, body_check *check,
                        void *argument, struct hf_error *error)
{
    struct span pause = PAUSE_FIRST;
    struct hf_error why_not;
    enum hf_status status = send_body(client, body, error);
    for (int tries = 1; tries < TRIES_MAX; tries++) {
        if (status != HF_UNSURE && status != HF_UNAVAILABLE)
            return status;
        env_sleep(client->env, env_jitter(client->env, pause));
        pause.us *= 2;
        if (check(argument, &why_not) != HF_OK) {
            *error = why_not;
            return error->status;
        }
        status = send_body(client, body, error);
    }
    /* The body may be in the store, but nothing names it. For the caller, nothing has happened. */
    return status == HF_UNSURE ? error->status = HF_UNAVAILABLE : status;
}

void body_discard(struct hf_client *client, struct view key)
{
    struct delete_call call = { .key = key,
                                .deadline = mono_add(env_now(client->env), BODY_DISCARD_TIME) };
    store_delete(client->store, &call);
    clock_learn(&client->clock, &call.stamp);
}
