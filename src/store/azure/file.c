/* SPDX-License-Identifier: Apache-2.0 */
/* file.c: puts a file: as one streamed put or, if it is large, as blocks that are sent in parallel
 * and become the object with one conditional request, the block list.
 *
 * A commit of another writer discards our blocks. Ours is then refused and changes nothing. But a
 * commit that a proxy sends twice is refused in the same way after it was made, so that refusal is
 * UNSURE. Blocks that are never committed are discarded by Azure after a week. */
#include "base/base64.h"
#include "store/azure/inside.h"
#include "store/probe.h"
#include "store/remote/parts.h"
#include "store/stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCKS_MAX           50000
#define BLOCK_LIST_BYTES_MAX (4 * MIB)

/* All ids of an object have the same size: 8 random bytes, so that uploads at the same time do not
 * mix, and the number of the block. */
#define BLOCK_NAME_SIZE 24
#define BLOCK_ID_SIZE   (BASE64_SIZE(BLOCK_NAME_SIZE) + 1)

struct upload {
    struct azure_store *azure;
    struct put_call *call;
    struct view key;
    uint64_t random;
    struct parts parts;
};

static void block_id(const struct upload *upload, size_t index, char id[BLOCK_ID_SIZE])
{
    char name[BLOCK_NAME_SIZE + 1];
    snprintf(name, sizeof name, "%016" PRIx64 "%08" PRIx32, upload->random, (uint32_t)index);
    base64_encode(view_of(name), id);
}

static enum hf_status send_block(void *argument, size_t index, const struct http_source *source,
                                 const struct progress *progress, struct hf_error *error)
{
    struct upload *upload = argument;
    struct remote_store *remote = &upload->azure->remote;
    char id[BLOCK_ID_SIZE];
    struct remote_request request = { .method = "PUT",
                                      .key = upload->key,
                                      .source = source,
                                      .writes = true,
                                      .repeatable = true,
                                      .progress = progress };
    request.deadline =
        remote_stream_deadline(remote, upload->call->deadline, source->size, &request.stall);
    block_id(upload, index, id);
    remote_add_parameter(&request, "comp", VIEW("block"));
    remote_add_parameter(&request, "blockid", view_of(id));
    struct http_reply reply;
    remote_send(remote, &request, /* again */ NULL, NULL, &reply, error);
    http_reply_release(&reply);
    return error->status;
}

static bool write_block_list(const struct upload *upload, struct buffer *body)
{
    char id[BLOCK_ID_SIZE];
    buffer_append(body, VIEW("<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>"));
    for (size_t i = 0; i < upload->parts.count; i++) {
        block_id(upload, i, id);
        buffer_print(body, "<Uncommitted>%s</Uncommitted>", id);
    }
    return buffer_append(body, VIEW("</BlockList>"));
}

static void commit_blocks(struct upload *upload)
{
    struct put_call *call = upload->call;
    struct buffer body = BUFFER_INIT(BLOCK_LIST_BYTES_MAX);
    char md5[HTTP_MD5_TEXT_SIZE];
    if (write_block_list(upload, &body)) {
        struct http_source source = { buffer_view(&body), -1, 0, body.size };
        struct remote_request request = { .method = "PUT", .source = &source, .writes = true };
        request.deadline = remote_stream_deadline(&upload->azure->remote, call->deadline,
                                                  upload->parts.size, &request.stall);
        remote_add_parameter(&request, "comp", VIEW("blocklist"));
        remote_add_header(&request, "content-type", VIEW("application/xml"));
        remote_add_header(&request, "x-ms-blob-content-type", VIEW("application/octet-stream"));
        if (http_content_md5(source.bytes, md5))
            remote_add_header(&request, "content-md5", view_of(md5));
        azure_send_put(upload->azure, call, &request);
    } else {
        error_no_memory(&call->error);
    }
    buffer_release(&body);
}

static void put_in_blocks(struct azure_store *azure, struct put_call *call, int fd,
                          uint64_t size, const struct progress *progress)
{
    char space[REMOTE_KEY_SPACE];
    struct upload upload = { .azure = azure,
                             .call = call,
                             .random = env_random_u64(azure->remote.base.env),
                             .parts = { .remote = &azure->remote,
                                        .fd = fd,
                                        .progress = progress,
                                        .send = send_block } };
    upload.parts.argument = &upload;
    parts_divide(&upload.parts, size, BLOCKS_MAX);
    if (remote_key(&azure->remote, call->key, space, &upload.key, &call->error) == HF_OK &&
        parts_send(&upload.parts, &call->error) == HF_OK)
        commit_blocks(&upload);
}

void azure_put_file(struct store *store, struct put_call *call, int fd,
                    const struct progress *progress)
{
    struct azure_store *azure = azure_of(store);
    struct http_source source = { .fd = fd };
    if (file_size(fd, &source.size, &call->error) != HF_OK)
        return;
    if (source.size > (uint64_t)OBJECT_BYTES_MAX) {
        error_set(&call->error, HF_INVALID, "%" PRIu64 " bytes are too many for a put",
                  source.size);
        return;
    }
    if (source.size > PARTS_FILE_BYTES_MIN) {
        put_in_blocks(azure, call, fd, source.size, progress);
        return;
    }
    struct remote_request request = {
        .method = "PUT", .source = &source, .writes = true, .progress = progress
    };
    request.deadline =
        remote_stream_deadline(&azure->remote, call->deadline, source.size, &request.stall);
    remote_add_header(&request, "content-type", VIEW("application/octet-stream"));
    remote_add_header(&request, "x-ms-blob-type", VIEW("BlockBlob"));
    azure_send_put(azure, call, &request);
}

/* ---- What the probe should know ------------------------------------------------------ */

/* Puts one block, and makes it the object if there is none. */
static enum hf_status put_one_block(struct azure_store *azure, struct put_call *call,
                                    struct probe_report *report)
{
    char space[REMOTE_KEY_SPACE];
    struct upload upload = { .azure = azure,
                             .call = call,
                             .random = env_random_u64(azure->remote.base.env),
                             .parts = { .count = 1, .size = call->body.size } };
    struct http_source source = { call->body, -1, 0, call->body.size };
    if (remote_key(&azure->remote, call->key, space, &upload.key, &call->error) == HF_OK &&
        send_block(&upload, 0, &source, /* progress */ NULL, &call->error) == HF_OK)
        commit_blocks(&upload);
    report->unanswered = report->unanswered || !probe_has_answer(call->error.status);
    return call->error.status;
}

void azure_inspect(struct store *store, struct mono_time deadline, struct probe_report *report)
{
    struct azure_store *azure = azure_of(store);
    char name[64];
    snprintf(name, sizeof name, ".holdfast/scratch-%016" PRIx64, env_random_u64(store->env));
    struct put_call first = {
        .key = view_of(name), .body = VIEW("1"), .condition = if_absent(), .deadline = deadline
    };
    struct put_call second = first;
    bool works = put_one_block(azure, &first, report) == HF_OK &&
                 put_one_block(azure, &second, report) == HF_CONFLICT;
    struct delete_call removal = { .key = view_of(name) };
    store->ops->remove(store, &removal, 1);
    report->requests += 5;
    report->traits.put_file_conditional = works;
    if (works)
        probe_note(report, "conditional block list", HF_FINDING_GOOD, "honoured");
    else
        probe_note(report, "conditional block list", HF_FINDING_LACKING,
                   report->unanswered ? "cannot be determined: the store did not answer"
                                      : "large files are put in another way");
}
