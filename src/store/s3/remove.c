/* SPDX-License-Identifier: Apache-2.0 */
/* remove.c: deletes objects, one by one or many with one request. If the reply names a key that was
 * not requested, the outcome of the whole batch is UNSURE. */
#include "store/remote/xml.h"
#include "store/s3/inside.h"
#include "store/s3/xml.h"

#include <stdlib.h>

/* 1,000 keys of 1,024 bytes, each escaped to at most six times its size. */
#define DELETE_BYTES_MAX (8 * MIB)

static void remove_one(struct s3_store *s3, struct delete_call *call)
{
    char space[REMOTE_KEY_SPACE], etag[REMOTE_ETAG_SPACE];
    struct remote_request request = { .method = "DELETE", .writes = true };
    request.deadline = remote_deadline(&s3->remote, call->deadline);
    if (remote_key(&s3->remote, call->key, space, &request.key, &call->error) != HF_OK ||
        s3_add_condition(s3, &request, &call->condition, etag, &call->error) != HF_OK)
        return;
    struct http_reply reply;
    remote_send(&s3->remote, &request, /* again */ NULL, NULL, &reply, &call->error);
    call->stamp = remote_stamp(&reply);
    http_reply_release(&reply);
    if (call->error.status == HF_NOT_FOUND && call->condition.kind == CONDITION_ALWAYS)
        error_clear(&call->error);
}

struct removal {
    struct s3_store *s3;
    struct delete_call *calls;
    size_t count;
    bool *together; /* per call: part of the common request */
    bool stray;     /* the store reported a failure for an unknown key */
};

static void remove_failed(void *argument, struct view key, struct view code,
                          struct view message)
{
    struct removal *removal = argument;
    struct view own = { removal->s3->remote.prefix, removal->s3->remote.prefix_size };
    bool known = false;
    struct view name = view_from(key, own.size);
    size_t count = view_starts_with(key, own) ? removal->count : 0;
    for (size_t i = 0; i < count; i++)
        if (removal->together[i] && view_equal(removal->calls[i].key, name)) {
            s3_check_code(removal->s3, code, message, &removal->calls[i].error);
            known = true;
        }
    removal->stray = removal->stray || !known;
}

/* Selects the calls for the common request. A key that XML cannot represent, or that S3 does not
 * accept, is deleted by itself. */
static size_t choose_together(struct removal *removal)
{
    size_t chosen = 0;
    for (size_t i = 0; i < removal->count; i++) {
        const struct delete_call *call = &removal->calls[i];
        char space[REMOTE_KEY_SPACE];
        struct view key;
        struct hf_error error;
        removal->together[i] =
            call->condition.kind == CONDITION_ALWAYS &&
            remote_key(&removal->s3->remote, call->key, space, &key, &error) == HF_OK &&
            xml_can_carry(key);
        chosen += removal->together[i];
    }
    return chosen;
}

static bool write_delete_body(const struct removal *removal, struct buffer *body)
{
    buffer_append(body, VIEW("<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
                             "<Quiet>true</Quiet>"));
    for (size_t i = 0; i < removal->count; i++) {
        if (!removal->together[i])
            continue;
        buffer_append(body, VIEW("<Object><Key>"));
        xml_escape(body, (struct view){ removal->s3->remote.prefix,
                                        removal->s3->remote.prefix_size });
        xml_escape(body, removal->calls[i].key);
        buffer_append(body, VIEW("</Key></Object>"));
    }
    return buffer_append(body, VIEW("</Delete>"));
}

static struct mono_time earliest_deadline(const struct removal *removal)
{
    struct mono_time earliest = { 0 };
    for (size_t i = 0; i < removal->count; i++) {
        struct mono_time deadline = removal->calls[i].deadline;
        if (deadline.us != 0 && (earliest.us == 0 || mono_before(deadline, earliest)))
            earliest = deadline;
    }
    return remote_deadline(&removal->s3->remote, earliest);
}

static void answer_together(struct removal *removal, const struct hf_error *error,
                            struct store_stamp stamp)
{
    for (size_t i = 0; i < removal->count; i++)
        if (removal->together[i]) {
            removal->calls[i].error = *error;
            removal->calls[i].stamp = stamp;
        }
}

/* False if the store does not support this, or the request cannot be built: delete one by one. */
static bool remove_together(struct removal *removal)
{
    struct buffer body = BUFFER_INIT(DELETE_BYTES_MAX);
    char md5[HTTP_MD5_TEXT_SIZE], hash[S3_HASH_TEXT_SIZE];
    bool able = write_delete_body(removal, &body) && http_content_md5(buffer_view(&body), md5);
    if (able) {
        struct http_source source = { buffer_view(&body), -1, 0, body.size };
        s3_payload_hash(source.bytes, hash);
        struct remote_request request = { .method = "POST",
                                          .source = &source,
                                          .payload = hash,
                                          .body_max = DELETE_BYTES_MAX,
                                          .writes = true,
                                          .deadline = earliest_deadline(removal) };
        remote_add_parameter(&request, "delete", VIEW(""));
        remote_add_header(&request, "content-md5", view_of(md5));
        remote_add_header(&request, "content-type", VIEW("application/xml"));
        struct http_reply reply;
        struct hf_error error;
        enum hf_status status =
            remote_send(&removal->s3->remote, &request, /* again */ NULL, NULL, &reply, &error);
        able = status != HF_UNSUPPORTED && reply.status != 501 && reply.status != 405;
        answer_together(removal, &error, remote_stamp(&reply));
        if (status == HF_OK &&
            s3_xml_deleted(buffer_view(&reply.body), remove_failed, removal, &error) != HF_OK) {
            /* The store accepted the request, but it is unknown which keys were deleted. */
            error.status = HF_UNSURE;
            answer_together(removal, &error, remote_stamp(&reply));
        }
        if (removal->stray) {
            error_set(&error, HF_UNSURE,
                      "the store reported a failure for a key that was not requested; "
                      "it may be one of these under another name");
            answer_together(removal, &error, remote_stamp(&reply));
        }
        http_reply_release(&reply);
    }
    buffer_release(&body);
    return able;
}

static void remove_by_itself(void *argument, size_t index)
{
    struct removal *removal = argument;
    if (!removal->together || !removal->together[index])
        remove_one(removal->s3, &removal->calls[index]);
}

void s3_remove(struct store *store, struct delete_call *calls, size_t count)
{
    struct s3_store *s3 = s3_of(store);
    if (count == 1) {
        remove_one(s3, calls);
        return;
    }
    struct removal removal = { s3, calls, count, calloc(count, sizeof(bool)), false };
    size_t chosen = removal.together ? choose_together(&removal) : 0;
    if (chosen < 2 || !remove_together(&removal)) {
        free(removal.together);
        removal.together = NULL;
        chosen = 0;
    }
    if (chosen < count)
        worker_pool_run(&s3->remote.workers, s3->remote.connections, count, remove_by_itself,
                        &removal);
    free(removal.together);
}
