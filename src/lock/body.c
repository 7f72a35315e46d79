#include "lock/body.h"

#include "base/rule.h"
#include "store/stream.h"

/* How often a body without an answer is sent, with pauses that double from the first. */
#define TRIES_MAX   4
#define PAUSE_FIRST SPAN_MS(50)

/* Whether a body is there whole: OK; UNAVAILABLE: not yet, or nobody can tell. That it was refused
 * does not say: it may be because of an earlier try of ours that has landed, or of one that is
 * still under way and comes to nothing. */
static enum hf_status look_for(struct hf_client *client, const struct body *body,
                               struct hf_error *error)
{
    struct buffer byte = BUFFER_INIT(1);
    struct get_call get = { .key = body->key, .length = 1, .body = &byte };
    enum hf_status status = store_get(client->store, &get);
    clock_learn(&client->clock, &get.stamp);
    buffer_release(&byte);
    if (status == HF_OK && get.info.size == body->size)
        return error_clear(error);
    return error_set(error, HF_UNAVAILABLE, "the body was refused, and is not seen there: %s",
                     get.error.why);
}

/* A file must be as long after it was sent as it was before. */
static enum hf_status check_file(const struct body *body, struct hf_error *error)
{
    uint64_t size;
    enum hf_status status = file_size(body->fd, &size, error);
    if (status == HF_OK && size != body->size)
        status = error_set(error, HF_INVALID, "the file changed while it was being written");
    return status;
}

/* Where a streamed put obeys no condition it goes without one: nobody else draws this name, and
 * sent twice it is the same. */
static enum hf_status send(struct hf_client *client, const struct body *body,
                           struct hf_error *error)
{
    struct put_call put = { .key = body->key, .body = body->bytes };
    if (body->fd < 0 || client->store->traits.put_file_conditional)
        put.condition = if_absent();
    enum hf_status status = body->fd < 0 ? store_put(client->store, &put)
                                         : store_put_file(client->store, &put, body->fd, NULL);
    clock_learn(&client->clock, &put.stamp);
    *error = put.error;
    if (status == HF_CONFLICT)
        status = RULE(REFUSED_BODY_IS_LOOKED_FOR) ? look_for(client, body, error)
                                                  : error_clear(error);
    return status == HF_OK && body->fd >= 0 ? check_file(body, error) : status;
}

enum hf_status body_put(struct hf_client *client, const struct body *body, body_check *check,
                        void *argument, struct hf_error *error)
{
    struct span pause = PAUSE_FIRST;
    struct hf_error why_not;
    enum hf_status status = send(client, body, error);
    for (int tries = 1; tries < TRIES_MAX; tries++) {
        if (status != HF_UNSURE && status != HF_UNAVAILABLE)
            return status;
        env_sleep(client->env, env_jitter(client->env, pause));
        pause.us *= 2;
        if (check(argument, &why_not) != HF_OK) {
            *error = why_not;
            return error->status;
        }
        status = send(client, body, error);
    }
    return status == HF_UNSURE ? error->status = HF_UNAVAILABLE : status;
}

void body_discard(struct hf_client *client, struct view key)
{
    struct delete_call call = { .key = key,
                                .deadline = mono_add(env_now(client->env), BODY_DISCARD_TIME) };
    store_delete(client->store, &call);
    clock_learn(&client->clock, &call.stamp);
}
