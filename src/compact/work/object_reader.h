/* SPDX-License-Identifier: Apache-2.0 */
/* object_reader.h: reads objects into scratch files, a few of them ahead of the task that examines
 * them, because most objects are small and a request takes long.
 *
 * Invariants:
 *   1. an object is read by If-Match with the ETag of its chunk (chunk_object.h);
 *   2. at most OBJECT_READERS objects are being read, and at most OBJECTS_AHEAD files exist, at any
 *      time;
 *   3. only the task that takes the objects calls the caller's progress function. */
#ifndef COMPACT_WORK_OBJECT_READER_H
#define COMPACT_WORK_OBJECT_READER_H

#include "compact/catalog/catalog.h"
#include "env/env.h"
#include "store/store.h"

#include <limits.h>
#include <stdatomic.h>

#define OBJECT_READERS 4 /* the task that takes the objects is one of them */
#define OBJECTS_AHEAD  8

/* One object, and the result of reading it. */
struct object_read {
    const struct chunk *chunk;
    struct mono_time begun; /* when the last request for it was sent */
    bool done;
    struct hf_error error; /* CONFLICT: the object was rewritten or deleted */
};

struct object_reader {
    struct env *env;
    struct store *store;
    const char *folder; /* for the files */
    struct object_read *reads;
    size_t count;
    struct env_task *tasks[OBJECT_READERS - 1];
    size_t task_count;
    atomic_bool stop;
    struct {
        struct env_mutex mutex;
        struct env_cond changed;
        size_t next;  /* the next object to be read */
        size_t taken; /* the next object to be taken; earlier files are removed */
    } shared;
};

/* Starts to read these objects. The reads belong to the reader until its end. */
void object_reader_start(struct object_reader *reader, struct env *env, struct store *store,
                         const char *folder, struct object_read *reads, size_t count);

/* Waits for the next object, in their order. The file exists until the next call, or the end, of
 * the reader. `progress` is called with the bytes of this object, if this task reads it, and again
 * and again. CANCELLED: it returned false. The other statuses are those of a get. */
enum hf_status object_reader_take(struct object_reader *reader, const struct progress *progress,
                                  char ret_path[PATH_MAX], struct hf_error *error);

/* Stops reading, and removes all files. */
void object_reader_end(struct object_reader *reader);

#endif
