/* SPDX-License-Identifier: Apache-2.0 */
/* get.c: reads objects into memory or into a file, whole or in part. A body that is cut off is
 * requested again: in memory from its start, in a file from where it was cut off, and then only if
 * the object is still the same version. */
#include "store/remote/remote.h"
#include "store/stream.h"
#include "store/toolkit.h"

#include <inttypes.h>
#include <stdio.h>

struct reading {
    struct remote_store *remote;
    struct get_call *call;
    int fd;             /* -1: into call->body */
    size_t body_size;   /* size of call->body at the start */
    uint64_t file_size; /* of the file at the start */
    uint64_t arrived;
    struct mono_time moved; /* when bytes last arrived, or the start */
    bool begun;             /* the headers of the reply have been checked */
    bool refused;           /* by us; call->error contains the reason */
    bool unmodified;        /* by our own comparison of versions */
    char range[64];
    char match[REMOTE_ETAG_SPACE];
    char none_match[REMOTE_ETAG_SPACE];
};

/* A body of at most this size is read to its end although it is not needed, because the connection
 * can then be used again. */
#define UNMODIFIED_BYTES_MAX (64 * KIB)

/* Adds the condition that the object still is this version; `space` holds the value. */
static void add_match(const struct remote_store *remote, struct remote_request *request,
                      const struct etag *etag, char space[REMOTE_ETAG_SPACE])
{
    const char *own = remote->dialect->match_header;
    request->condition = CONDITION_MATCH;
    remote_add_header(request, own ? own : "if-match",
                      own ? etag_view(etag) : remote_quoted(etag, space));
}

static enum hf_status check_reply_headers(struct reading *reading,
                                          const struct http_reply *reply)
{
    struct get_call *call = reading->call;
    if (reply->etag.size == 0)
        return error_set(&call->error, HF_CORRUPT, "the store sent an object without an ETag");
    if (!reply->has_length && !reply->chunked)
        return error_set(&call->error, HF_CORRUPT, "the store sent an object without a length");
    if (reading->range[0] && reply->status != 206)
        return error_set(&call->error, HF_UNSUPPORTED, "the store ignores ranges");
    if (reading->range[0] && reply->past_end)
        return error_set(&call->error, HF_INVALID,
                         "the range starts after the end of the object");
    if (reading->range[0] &&
        (!reply->has_range || reply->range_start != call->offset + reading->arrived))
        return error_set(&call->error, HF_CORRUPT,
                         "the store sent a different range than requested");
    if (reading->arrived > 0 && !etag_equal(&reply->etag, &call->info.etag))
        return error_set(&call->error, HF_UNAVAILABLE,
                         "the object changed while it was being read");
    call->info = (struct object_info){
        .etag = reply->etag,
        .size = reply->has_range ? reply->range_total : reply->length,
        .modified = reply->modified,
    };
    /* A service whose versions are not ETags sends the object in any case. */
    reading->unmodified = reading->remote->dialect->version_header &&
                          call->none_match.size > 0 &&
                          etag_equal(&reply->etag, &call->none_match);
    if (reading->unmodified)
        return error_set(&call->error, HF_NOT_MODIFIED, "not modified");
    /* Refuse an object that is too large now, before its whole body is fetched. */
    if (reading->fd < 0 && reply->length > call->body->max - call->body->size)
        return get_append(call, (struct view){ NULL, reply->length }); /* sets the error */
    return error_clear(&call->error);
}

static bool begin_body(struct reading *reading, const struct http_reply *reply)
{
    if (!reading->begun)
        reading->refused = check_reply_headers(reading, reply) != HF_OK;
    reading->begun = true;
    return !reading->refused;
}

static bool take_bytes(void *argument, const struct http_reply *reply, struct view bytes)
{
    struct reading *reading = argument;
    struct get_call *call = reading->call;
    if (!begin_body(reading, reply))
        return reading->unmodified && reply->has_length &&
               reply->length <= UNMODIFIED_BYTES_MAX;
    /* A chunked reply announces no size. The size so far still shows whether it is too large. */
    if (!reply->has_length && !reply->has_range)
        call->info.size = reading->arrived + bytes.size;
    enum hf_status status =
        reading->fd < 0 ? get_append(call, bytes)
                        : file_write_at(reading->fd, bytes, reading->arrived, &call->error);
    reading->refused = status != HF_OK;
    reading->arrived += bytes.size;
    reading->moved = env_now(reading->remote->base.env);
    return status == HF_OK;
}

/* Sets the range of the next request, after the bytes that have arrived. */
static void set_next_range(struct reading *reading, struct remote_request *request)
{
    const struct get_call *call = reading->call;
    uint64_t from = call->offset + reading->arrived;
    reading->range[0] = '\0';
    if (call->length > 0)
        snprintf(reading->range, sizeof reading->range, "bytes=%" PRIu64 "-%" PRIu64, from,
                 call->offset + call->length - 1);
    else if (from > 0)
        snprintf(reading->range, sizeof reading->range, "bytes=%" PRIu64 "-", from);
    request->range = reading->range[0] ? reading->range : NULL;
    request->progress_base = reading->arrived;
    reading->begun = false;
}

/* How many bytes of an object of this size the call requests. */
static uint64_t bytes_wanted(const struct get_call *call, uint64_t size)
{
    uint64_t behind = size > call->offset ? size - call->offset : 0;
    return call->length > 0 && call->length < behind ? call->length : behind;
}

/* Starts again: the object may be shorter now, so nothing of what has arrived may stay. False if
 * the file cannot be restored. */
static bool restart_reading(struct reading *reading)
{
    struct hf_error error;
    bool written = reading->arrived > 0;
    reading->arrived = 0;
    if (reading->fd >= 0)
        return !written || file_set_size(reading->fd, reading->file_size, &error) == HF_OK;
    reading->call->body->size = reading->body_size;
    return true;
}

static bool resume_reading(void *argument, struct remote_request *request)
{
    struct reading *reading = argument;
    struct get_call *call = reading->call;
    /* A stream's deadline is far away, so a stream that receives nothing must end sooner. */
    struct span idle = mono_since(env_now(reading->remote->base.env), reading->moved);
    if (idle.us >= reading->remote->time_out.us)
        return false;
    /* If the connection broke after the last byte, nothing is left to request. */
    bool restarts = reading->fd < 0 || reading->arrived >= bytes_wanted(call, call->info.size);
    if (restarts && !restart_reading(reading))
        return false;
    set_next_range(reading, request);
    if (reading->arrived == 0)
        return true;
    /* The rest must come from the same version of the object. */
    request->header_count = 0;
    add_match(reading->remote, request, &call->info.etag, reading->match);
    if (request->progress_total == 0)
        request->progress_total = call->info.size - call->offset;
    return true;
}

/* A 206 reply may be complete and still contain fewer bytes than were requested. */
static void check_end(struct reading *reading, const struct http_reply *reply)
{
    struct get_call *call = reading->call;
    if (!reply->has_range)
        return;
    uint64_t wanted = bytes_wanted(call, reply->range_total);
    if (reading->arrived != wanted)
        error_set(&call->error, HF_CORRUPT,
                  "the store sent %" PRIu64 " bytes of a range of %" PRIu64, reading->arrived,
                  wanted);
}

static enum hf_status request_object(struct remote_store *remote, struct reading *reading,
                                     struct remote_request *request)
{
    struct get_call *call = reading->call;
    struct http_reply reply;
    struct hf_error error;
    set_next_range(reading, request);
    enum hf_status status =
        remote_send(remote, request, resume_reading, reading, &reply, &error);
    call->stamp = remote_stamp(&reply);
    if (reply.status == 200 || reply.status == 206) {
        env_mutex_lock(&remote->shared.mutex);
        remote->shared.read_version = reply.has_version;
        env_mutex_unlock(&remote->shared.mutex);
    }
    if (status == HF_OK)
        begin_body(reading, &reply); /* an empty body never calls the sink */
    else if (!reading->refused)
        call->error = error;
    if (status == HF_OK && !reading->refused)
        check_end(reading, &reply);
    if (status == HF_CONFLICT && call->match.size == 0) /* our own, when resuming */
        error_set(&call->error, HF_UNAVAILABLE, "the object changed while it was being read");
    if (status == HF_NOT_MODIFIED)
        call->info.etag = reply.etag.size > 0 ? reply.etag : call->none_match;
    http_reply_release(&reply);
    return call->error.status;
}

static void stream_object(struct remote_store *remote, struct reading *reading,
                          const struct progress *progress)
{
    struct get_call *call = reading->call;
    char space[REMOTE_KEY_SPACE];
    struct remote_request request = { .method = "GET", .progress = progress };
    reading->remote = remote;
    reading->moved = env_now(remote->base.env);
    if (remote_key(remote, call->key, space, &request.key, &call->error) != HF_OK)
        return;
    if (!remote_can_send_etag(&call->match) || !remote_can_send_etag(&call->none_match)) {
        error_set(&call->error, HF_INVALID, "the ETag is not valid for %s",
                  remote->dialect->service);
        return;
    }
    uint64_t most = reading->fd < 0 ? call->body->max : OBJECT_BYTES_MAX;
    request.deadline = remote_stream_deadline(remote, call->deadline, most, &request.stall);
    request.sink = (struct http_sink){ take_bytes, reading };
    if (call->match.size > 0 && remote->dialect->is_version &&
        !remote->dialect->is_version(&call->match)) {
        error_set(&call->error, HF_CONFLICT, "the object has changed");
        return;
    }
    if (call->match.size > 0)
        add_match(remote, &request, &call->match, reading->match);
    if (call->none_match.size > 0 && !remote->dialect->version_header)
        remote_add_header(&request, "if-none-match",
                          remote_quoted(&call->none_match, reading->none_match));
    enum hf_status status = request_object(remote, reading, &request);
    if (status == HF_NOT_FOUND && call->match.size > 0)
        error_set(&call->error, HF_NOT_FOUND, "no such object");
    /* No range of an empty object is valid, not even one from its start: read it without a
     * range. */
    if (status == HF_INVALID && call->offset == 0 && call->length > 0 && !reading->refused) {
        uint64_t length = call->length;
        call->length = 0;
        request_object(remote, reading, &request);
        call->length = length;
    }
}

struct get_batch {
    struct remote_store *remote;
    struct get_call *calls;
};

static void get_nth(void *argument, size_t index)
{
    struct get_batch *batch = argument;
    struct get_call *call = &batch->calls[index];
    struct reading reading = { .call = call, .fd = -1, .body_size = call->body->size };
    stream_object(batch->remote, &reading, /* progress */ NULL);
}

void remote_get(struct store *store, struct get_call *calls, size_t count)
{
    struct remote_store *remote = remote_of(store);
    struct get_batch batch = { remote, calls };
    worker_pool_run(&remote->workers, remote->connections, count, get_nth, &batch);
}

void remote_get_file(struct store *store, struct get_call *call, int fd,
                     const struct progress *progress)
{
    struct reading reading = { .call = call, .fd = fd };
    struct hf_error unsized; /* then it is no regular file, and cannot be restored */
    (void)file_size(fd, &reading.file_size, &unsized);
    stream_object(remote_of(store), &reading, progress);
}
