/* SPDX-License-Identifier: Apache-2.0 */
/* file.c: puts a file: as one streamed put or, if it is large, in parts that are sent in parallel
 * and become the object with one request, the completion. A condition belongs to the completion.
 * Several stores ignore it there; on these, a conditional put is always a single put.
 *
 * Over TLS the body is not hashed for the signature, because the channel protects it. Without TLS
 * the signature must cover the body, so the file is read twice. If each piece were signed as it is
 * sent, the bytes on the wire would have a form that several stores do not understand. */
#include "base/check.h"
#include "base/parse.h"
#include "store/probe.h"
#include "store/remote/parts.h"
#include "store/remote/xml.h"
#include "store/s3/inside.h"
#include "store/stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PARTS_MAX          10000
#define COMPLETE_BYTES_MAX (4 * MIB)
#define UPLOAD_ID_MAX      1024

/* How often all parts are sent where the store does not decide about the condition. */
#define UPLOADS_MAX 3

/* ---- The hash of a piece of a file --------------------------------------------------- */

static enum hf_status hash_pieces(struct sha256_stream *stream, char *piece,
                                  const struct http_source *source, struct hf_error *error)
{
    for (uint64_t done = 0; done < source->size;) {
        uint64_t left = source->size - done;
        size_t wanted = left < STREAM_PIECE ? (size_t)left : STREAM_PIECE;
        size_t got;
        if (file_read_at(source->fd, piece, wanted, source->offset + done, &got, error) !=
            HF_OK)
            return error->status;
        if (got < wanted)
            return error_set(error, HF_CORRUPT,
                             "the file became shorter while it was being read");
        if (!sha256_add(stream, (struct view){ piece, got }))
            return error_no_memory(error);
        done += got;
    }
    return HF_OK;
}

static enum hf_status hash_source(const struct s3_store *s3, const struct http_source *source,
                                  char text[S3_HASH_TEXT_SIZE], struct hf_error *error)
{
    if (s3->remote.tls) {
        snprintf(text, S3_HASH_TEXT_SIZE, "%s", S3_UNSIGNED_PAYLOAD);
        return HF_OK;
    }
    struct sha256_stream *stream = sha256_begin();
    char *piece = malloc(STREAM_PIECE);
    unsigned char digest[SHA256_SIZE];
    enum hf_status status = HF_OK;
    if (!stream || !piece)
        status = error_no_memory(error);
    if (status == HF_OK)
        status = hash_pieces(stream, piece, source, error);
    if (stream && !sha256_end(stream, status == HF_OK ? digest : NULL))
        status = error_no_memory(error);
    if (status == HF_OK)
        hex_encode(digest, sizeof digest, text);
    free(piece);
    return status;
}

/* ---- In parts ------------------------------------------------------------------------ */

struct upload {
    struct s3_store *s3;
    struct put_call *call;
    struct view key;
    struct parts parts;
    struct etag *etags; /* one per part */
    char id[UPLOAD_ID_MAX + 1];
    char mark[24];      /* in the object's metadata, to recognise our upload */
    bool undecided;     /* the store has not decided about the condition of the completion */
    bool unimplemented; /* so the store says: 501, or 404 for a new upload */
};

static enum hf_status send_part(void *argument, size_t index, const struct http_source *source,
                                const struct progress *progress, struct hf_error *error)
{
    struct upload *upload = argument;
    struct s3_store *s3 = upload->s3;
    char number[24], hash[S3_HASH_TEXT_SIZE];
    if (hash_source(s3, source, hash, error) != HF_OK)
        return error->status;
    snprintf(number, sizeof number, "%zu", index + 1);
    struct remote_request request = { .method = "PUT",
                                      .key = upload->key,
                                      .source = source,
                                      .payload = hash,
                                      .writes = true,
                                      .repeatable = true,
                                      .progress = progress };
    request.deadline = remote_stream_deadline(&s3->remote, upload->call->deadline, source->size,
                                              &request.stall);
    remote_add_parameter(&request, "partNumber", view_of(number));
    remote_add_parameter(&request, "uploadId", view_of(upload->id));
    struct http_reply reply;
    if (remote_send(&s3->remote, &request, /* again */ NULL, NULL, &reply, error) == HF_OK &&
        reply.content_tag.size == 0)
        error_set(error, HF_CORRUPT, "the store accepted a part but sent no ETag");
    upload->etags[index] = reply.content_tag;
    http_reply_release(&reply);
    return error->status;
}

static enum hf_status begin_upload(struct upload *upload)
{
    struct hf_error *error = &upload->call->error;
    const struct http_source nothing = { .fd = -1 };
    struct remote_request request = { .method = "POST",
                                      .key = upload->key,
                                      .source = &nothing,
                                      .writes = true,
                                      .deadline = remote_deadline(&upload->s3->remote,
                                                                  upload->call->deadline) };
    const struct xml_field id = { "UploadId", upload->id, sizeof upload->id };
    snprintf(upload->mark, sizeof upload->mark, "%016" PRIx64,
             env_random_u64(upload->s3->remote.base.env));
    remote_add_parameter(&request, "uploads", VIEW(""));
    remote_add_header(&request,
                      s3_is_google(upload->s3) ? HTTP_MARK_HEADER_GOOGLE : HTTP_MARK_HEADER,
                      view_of(upload->mark));
    struct http_reply reply;
    if (remote_send(&upload->s3->remote, &request, /* again */ NULL, NULL, &reply, error) ==
            HF_OK &&
        xml_fields(buffer_view(&reply.body), "InitiateMultipartUploadResult", &id, 1, error) ==
            HF_OK &&
        (upload->id[0] == '\0' || strlen(upload->id) == UPLOAD_ID_MAX))
        error_set(error, HF_CORRUPT, "the store started an upload but sent no upload id");
    upload->unimplemented = reply.status == 501 || reply.status == 404;
    http_reply_release(&reply);
    if (error->status == HF_UNSURE) /* an upload that was only started changes nothing */
        error->status = HF_UNAVAILABLE;
    return error->status;
}

static void abort_upload(struct upload *upload)
{
    struct remote_request request = { .method = "DELETE",
                                      .key = upload->key,
                                      .writes = true,
                                      .repeatable = true, /* leftover parts cost money */
                                      .deadline = remote_deadline(&upload->s3->remote,
                                                                  (struct mono_time){ 0 }) };
    remote_add_parameter(&request, "uploadId", view_of(upload->id));
    struct http_reply reply;
    struct hf_error error;
    remote_send(&upload->s3->remote, &request, /* again */ NULL, NULL, &reply, &error);
    http_reply_release(&reply);
}

static bool write_part_list(const struct upload *upload, struct buffer *body)
{
    char space[REMOTE_ETAG_SPACE];
    buffer_append(body, VIEW("<CompleteMultipartUpload "
                             "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"));
    for (size_t i = 0; i < upload->parts.count; i++) {
        buffer_print(body, "<Part><PartNumber>%zu</PartNumber><ETag>", i + 1);
        xml_escape(body, remote_quoted(&upload->etags[i], space));
        buffer_append(body, VIEW("</ETag></Part>"));
    }
    return buffer_append(body, VIEW("</CompleteMultipartUpload>"));
}

/* Ceph 16 does not return the ETag of a completed upload, and Google's XML does not contain the
 * generation, so a get reads it. The mark shows whether the object is still the one that we put. If
 * it is not, the outcome is UNSURE for this reason. */
static enum hf_status request_etag(struct upload *upload, const char *why)
{
    struct put_call *call = upload->call;
    struct remote_request request = { .method = "GET",
                                      .key = upload->key,
                                      .range = "bytes=0-0",
                                      .deadline = remote_deadline(&upload->s3->remote,
                                                                  call->deadline) };
    struct http_reply reply;
    enum hf_status status = remote_send(&upload->s3->remote, &request, /* again */ NULL, NULL,
                                        &reply, &call->error);
    if (status == HF_OK && strcmp(reply.mark, upload->mark) == 0 && reply.etag.size > 0)
        call->etag = reply.etag;
    else
        error_set(&call->error, HF_UNSURE, "%s", why);
    http_reply_release(&reply);
    return call->error.status;
}

/* A 200 may still carry an error, because the store answers before the upload is complete. */
static enum hf_status read_completion(struct upload *upload, const struct http_reply *reply)
{
    static const char replaced[] =
        "the object was put, but another client may have replaced it since";
    struct put_call *call = upload->call;
    char text[ETAG_BYTES_MAX + 3];
    const struct xml_field etag = { "ETag", text, sizeof text };
    struct view xml = buffer_view(&reply->body);
    struct xml_error_body body;
    if (xml_error(xml, &body))
        return error_set(&call->error, HF_UNSURE, "the store answered %s: %s", body.code,
                         body.message);
    if (xml_fields(xml, "CompleteMultipartUploadResult", &etag, 1, &call->error) != HF_OK)
        return call->error.status = HF_UNSURE;
    if (s3_is_google(upload->s3)) {
        call->etag = reply->etag;
        return reply->etag.size > 0 ? HF_OK : request_etag(upload, replaced);
    }
    return etag_set(&call->etag, http_unquoted(view_of(text))) ? HF_OK
                                                               : request_etag(upload, replaced);
}

/* If the upload does not exist, it has been discarded, or a proxy has sent its completion twice. */
static void read_lost_completion(struct upload *upload, const struct http_reply *reply)
{
    struct xml_error_body body;
    if (reply->outcome != HTTP_ANSWERED || !xml_error(buffer_view(&reply->body), &body))
        return;
    upload->undecided = reply->status == 409 && remote_is_undecided_code(body.code);
    if (reply->status == 404 && strcmp(body.code, "NoSuchUpload") == 0)
        request_etag(upload, "the store does not know the upload: it may have been completed");
}

static void finish_upload(struct upload *upload)
{
    struct put_call *call = upload->call;
    struct buffer body = BUFFER_INIT(COMPLETE_BYTES_MAX);
    char hash[S3_HASH_TEXT_SIZE], etag[REMOTE_ETAG_SPACE];
    if (!write_part_list(upload, &body)) {
        error_no_memory(&call->error);
        buffer_release(&body);
        return;
    }
    struct http_source source = { buffer_view(&body), -1, 0, body.size };
    s3_payload_hash(source.bytes, hash);
    struct remote_request request = {
        .method = "POST", .key = upload->key, .source = &source, .payload = hash, .writes = true
    };
    request.once = call->condition.kind != CONDITION_ALWAYS;
    request.deadline = remote_stream_deadline(&upload->s3->remote, call->deadline,
                                              upload->parts.size, &request.stall);
    remote_add_parameter(&request, "uploadId", view_of(upload->id));
    remote_add_header(&request, "content-type", VIEW("application/xml"));
    if (s3_add_condition(upload->s3, &request, &call->condition, etag, &call->error) == HF_OK) {
        struct http_reply reply;
        if (remote_send(&upload->s3->remote, &request, /* again */ NULL, NULL, &reply,
                        &call->error) == HF_OK)
            read_completion(upload, &reply);
        else
            read_lost_completion(upload, &reply);
        upload->unimplemented = reply.status == 501;
        call->stamp = remote_stamp(&reply);
        http_reply_release(&reply);
    }
    buffer_release(&body);
}

/* One attempt. */
static void send_upload(struct upload *upload)
{
    struct hf_error *error = &upload->call->error;
    upload->undecided = false;
    if (begin_upload(upload) != HF_OK)
        return;
    if (parts_send(&upload->parts, error) == HF_OK)
        finish_upload(upload);
    /* After UNSURE the upload may have completed, or may still do so: do not abort it. */
    if (error->status != HF_OK && error->status != HF_UNSURE)
        abort_upload(upload);
}

/* AWS asks clients to send the parts again where another write was in progress, because the upload
 * may be gone. False: the store says that it does not implement this. */
static bool put_in_parts(struct s3_store *s3, struct put_call *call, struct parts *parts)
{
    struct upload *upload = calloc(1, sizeof *upload);
    struct etag *etags = calloc(parts->count, sizeof *etags);
    char space[REMOTE_KEY_SPACE];
    bool implemented = true;
    if (!upload || !etags) {
        error_no_memory(&call->error);
        goto out;
    }
    *upload = (struct upload){ .s3 = s3, .call = call, .parts = *parts, .etags = etags };
    upload->parts.remote = &s3->remote;
    upload->parts.send = send_part;
    upload->parts.argument = upload;
    if (remote_key(&s3->remote, call->key, space, &upload->key, &call->error) != HF_OK)
        goto out;
    for (int i = 0; i < UPLOADS_MAX && (i == 0 || upload->undecided); i++)
        send_upload(upload);
    implemented = !upload->unimplemented;
out:
    free(etags);
    free(upload);
    return implemented;
}

/* ---- Put of a file ------------------------------------------------------------------- */

static bool parts_obey_conditions(struct s3_store *s3)
{
    env_mutex_lock(&s3->shared.mutex);
    bool obey = s3->shared.parts_conditional;
    env_mutex_unlock(&s3->shared.mutex);
    return obey;
}

void s3_put_file(struct store *store, struct put_call *call, int fd,
                 const struct progress *progress)
{
    struct s3_store *s3 = s3_of(store);
    struct http_source source = { .fd = fd };
    char hash[S3_HASH_TEXT_SIZE];
    if (file_size(fd, &source.size, &call->error) != HF_OK)
        return;
    bool whole = call->condition.kind != CONDITION_ALWAYS && !parts_obey_conditions(s3);
    bool limited = whole && !s3_is_google(s3); /* at Google a put may have any size */
    if (source.size > (limited ? S3_SINGLE_PUT_MAX : (uint64_t)OBJECT_BYTES_MAX)) {
        error_set(&call->error, limited ? HF_UNSUPPORTED : HF_INVALID,
                  "%" PRIu64 " bytes are too many for a put%s", source.size,
                  limited ? " with a condition: the limit of this store is 5 GiB" : "");
        return;
    }
    struct parts parts = { .fd = fd, .progress = progress };
    if (!whole && source.size > PARTS_FILE_BYTES_MIN) {
        parts_divide(&parts, source.size, PARTS_MAX);
        put_in_parts(s3, call, &parts);
    } else if (hash_source(s3, &source, hash, &call->error) == HF_OK)
        s3_put_source(s3, call, &source, hash, /* md5 */ NULL, progress);
}

/* ---- What the probe should know ------------------------------------------------------ */

/* Puts one byte as an upload of one part. */
static enum hf_status put_one_part(struct s3_store *s3, int fd, const char *name,
                                   struct condition condition, struct mono_time deadline,
                                   struct etag *ret_etag, struct probe_report *report)
{
    struct put_call call = { .key = view_of(name),
                             .condition = condition,
                             .deadline = deadline };
    struct parts parts = { .fd = fd };
    parts_divide(&parts, 1, PARTS_MAX);
    bool implemented = put_in_parts(s3, &call, &parts);
    report->requests += 3;
    if (implemented && !probe_has_answer(call.error.status))
        report->unanswered = true;
    if (call.error.status == HF_OK)
        *ret_etag = call.etag;
    return call.error.status;
}

/* A store that ignores the condition accepts the second or the third upload. */
static bool try_conditional_parts(struct s3_store *s3, int fd, const char *name,
                                  struct mono_time deadline, struct probe_report *report)
{
    struct etag first, second;
    struct condition absent = if_absent();
    if (put_one_part(s3, fd, name, absent, deadline, &first, report) != HF_OK ||
        put_one_part(s3, fd, name, absent, deadline, &second, report) != HF_CONFLICT)
        return false;
    struct condition wrong = if_match(&first), right = if_match(&first);
    wrong.etag.data[0] = wrong.etag.data[0] == '0' ? '1' : '0';
    return put_one_part(s3, fd, name, wrong, deadline, &second, report) == HF_CONFLICT &&
           put_one_part(s3, fd, name, right, deadline, &second, report) == HF_OK;
}

void s3_inspect_parts(struct s3_store *s3, struct mono_time deadline,
                      struct probe_report *report)
{
    const char *what = "conditional upload in parts";
    struct env *env = s3->remote.base.env;
    char name[64];
    snprintf(name, sizeof name, ".holdfast/scratch-%016" PRIx64, env_random_u64(env));
    int fd = memfd_create("part", MFD_CLOEXEC);
    bool ready = fd >= 0 && write(fd, "1", 1) == 1;
    bool works = ready && try_conditional_parts(s3, fd, name, deadline, report);
    report->unanswered = report->unanswered || !ready;
    if (fd >= 0)
        close(fd);
    struct delete_call removal = { .key = view_of(name) };
    s3_remove(&s3->remote.base, &removal, 1);
    report->requests++;
    report->traits.put_file_conditional = works;
    if (works)
        probe_note(report, what, HF_FINDING_GOOD, "honoured");
    else
        probe_note(report, what, HF_FINDING_LACKING,
                   report->unanswered
                       ? "cannot be determined: the store did not answer"
                       : "not honoured: a put of a file with a condition is one request");
}
