/* SPDX-License-Identifier: Apache-2.0 */
/* object_writer.h: an object that is being written: bytes are appended in order and then put. They
 * are kept in memory at first, and in an unnamed file once there are many. */
#ifndef INDEX_OBJECT_WRITER_H
#define INDEX_OBJECT_WRITER_H

#include "store/store.h"

/* Above this size the bytes go to a file in $TMPDIR or /tmp. */
#define OBJECT_WRITER_MEMORY (4 * MIB)

struct object_writer {
    struct buffer memory;  /* bytes not in the file yet */
    int fd;                /* -1: none yet */
    uint64_t size;         /* total, in memory and in the file */
    struct hf_error error; /* of the first write that failed */
};

void object_writer_init(struct object_writer *writer);
void object_writer_release(struct object_writer *writer);

/* Appends bytes. After a failure all later calls fail; the reason is in `error` of the writer. */
bool object_writer_append(struct object_writer *writer, struct view bytes);

/* Puts `head` and then all bytes as one object, using call->key and call->condition; the call's
 * body is not used. The same bytes can be put again. */
enum hf_status object_writer_put(struct object_writer *writer, struct store *store,
                                 struct view head, struct put_call *call);

#endif
