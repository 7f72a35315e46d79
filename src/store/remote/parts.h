/* SPDX-License-Identifier: Apache-2.0 */
/* parts.h: sends a large file in parts, several at a time. A part alone changes no object; the
 * caller begins and completes the upload. */
#ifndef STORE_REMOTE_PARTS_H
#define STORE_REMOTE_PARTS_H

#include "store/remote/remote.h"

/* An unconditional file that is larger is sent in parts of at least PART_BYTES_MIN. */
#define PARTS_FILE_BYTES_MIN (64 * (uint64_t)MIB)

struct parts {
    struct remote_store *remote;
    int fd;
    uint64_t size;
    uint64_t part_size;
    size_t count;
    const struct progress *progress;
    /* Sends one part. It must pass `progress` on to its request. */
    enum hf_status (*send)(void *argument, size_t index, const struct http_source *source,
                           const struct progress *progress, struct hf_error *error);
    void *argument;
    struct {
        struct env_mutex mutex; /* guards the other members of this struct */
        uint64_t done;
        struct hf_error error; /* of the first part that failed */
    } shared;
};

/* Divides a file of this size into at most `most` parts. */
void parts_divide(struct parts *parts, uint64_t size, size_t most);

/* Sends all parts. After the first failure no further part is begun. A failure is never UNSURE,
 * because a part alone changes nothing. */
enum hf_status parts_send(struct parts *parts, struct hf_error *error);

#endif
