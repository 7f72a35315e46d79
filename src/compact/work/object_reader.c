/* SPDX-License-Identifier: Apache-2.0 */
/* object_reader.c: reads objects into files, several at a time, and hands them out in their order.
 * Files that were read ahead and are no longer needed must not stay behind. */
#include "compact/work/object_reader.h"

#include "base/check.h"
#include "compact/catalog/chunk_object.h"
#include "compact/work/merger_scratch.h"
#include "store/retry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define READ_TRIES 5
#define RETRY_WAIT SPAN_MS(100)

/* The interval at which a waiting task checks whether to continue. */
#define ASK_EVERY SPAN_MS(200)

/* ---- Reading one object -------------------------------------------------------------- */

/* A name ends like its object's, by which a file's format is known. False: it is too long. */
static bool file_of(const struct object_reader *reader, size_t index, char ret_path[PATH_MAX])
{
    int size = snprintf(ret_path, PATH_MAX, "%s/object-%zu%.*s", reader->folder, index,
                        VIEW_ARGS(scratch_name_end(reader->reads[index].chunk->object)));
    return size > 0 && size < PATH_MAX;
}

static enum hf_status get_version(struct object_reader *reader, struct object_read *read,
                                  int fd, const struct progress *progress)
{
    struct env *env = reader->env;
    enum hf_status status = HF_OK;
    struct retry retry = { .store = reader->store,
                           .pause = RETRY_WAIT,
                           .left = READ_TRIES - 1,
                           .progress = progress };
    do {
        struct get_call call = chunk_get_call(read->chunk);
        if (lseek(fd, 0, SEEK_END) > 0 && ftruncate(fd, 0) != 0)
            return error_from_errno(&read->error, errno, "empty a scratch file");
        read->begun = env_now(env);
        status = store_get_file(reader->store, &call, fd, progress);
        read->error = call.error;
    } while (retry_after(&retry, status));
    return status;
}

static void read_object(struct object_reader *reader, size_t index,
                        const struct progress *progress)
{
    struct object_read *read = &reader->reads[index];
    char path[PATH_MAX];
    read->begun = env_now(reader->env);
    if (!file_of(reader, index, path)) {
        error_set(&read->error, HF_INVALID, "the path of the scratch folder is too long");
        return;
    }
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        error_from_errno(&read->error, errno, "create a scratch file");
        return;
    }
    enum hf_status status = get_version(reader, read, fd, progress);
    close(fd);
    /* The next listing shows what there is now. */
    if (status == HF_CONFLICT || status == HF_NOT_FOUND)
        error_set(&read->error, HF_CONFLICT,
                  "the object was rewritten or deleted while it was being adopted; adopt it "
                  "again");
}

/* ---- Several at a time --------------------------------------------------------------- */

static bool beside_goes_on(void *argument, uint64_t done, uint64_t total)
{
    const struct object_reader *reader = argument;
    (void)done;
    (void)total;
    return !atomic_load(&reader->stop);
}

static void note_read(struct object_reader *reader, size_t index)
{
    env_mutex_lock(&reader->shared.mutex);
    reader->reads[index].done = true;
    env_cond_broadcast(&reader->shared.changed);
    env_mutex_unlock(&reader->shared.mutex);
}

/* Waits until one more object may be read. False: there is none. */
static bool next_read(struct object_reader *reader, size_t *ret_index)
{
    env_mutex_lock(&reader->shared.mutex);
    while (!atomic_load(&reader->stop) && reader->shared.next < reader->count &&
           reader->shared.next >= reader->shared.taken + OBJECTS_AHEAD)
        env_cond_wait(&reader->shared.changed, &reader->shared.mutex);
    bool more = !atomic_load(&reader->stop) && reader->shared.next < reader->count;
    if (more)
        *ret_index = reader->shared.next++;
    env_mutex_unlock(&reader->shared.mutex);
    return more;
}

static void read_beside(void *argument)
{
    struct object_reader *reader = argument;
    const struct progress progress = { beside_goes_on, reader };
    size_t index;
    while (next_read(reader, &index)) {
        read_object(reader, index, &progress);
        note_read(reader, index);
    }
}

void object_reader_start(struct object_reader *reader, struct env *env, struct store *store,
                         const char *folder, struct object_read *reads, size_t count)
{
    struct hf_error ignored;
    *reader = (struct object_reader){
        .env = env, .store = store, .folder = folder, .reads = reads, .count = count
    };
    env_mutex_init(env, &reader->shared.mutex);
    env_cond_init(env, &reader->shared.changed);
    while (reader->task_count < OBJECT_READERS - 1 && reader->task_count + 1 < count &&
           env_task_start(env, read_beside, reader, &reader->tasks[reader->task_count],
                          &ignored) == HF_OK)
        reader->task_count++; /* if none can be started, this task reads them all */
}

static void remove_file(const struct object_reader *reader, size_t index)
{
    char path[PATH_MAX];
    if (file_of(reader, index, path))
        unlink(path);
}

/* Waits until another task has read the object, and keeps asking whether to continue. */
static bool wait_for_read(struct object_reader *reader, const struct object_read *read,
                          const struct progress *progress)
{
    bool done = false, goes_on = true;
    while (!done && goes_on) {
        env_mutex_lock(&reader->shared.mutex);
        struct mono_time until = mono_add(env_now(reader->env), ASK_EVERY);
        while (!read->done &&
               env_cond_wait_until(&reader->shared.changed, &reader->shared.mutex, until))
            ;
        done = read->done;
        env_mutex_unlock(&reader->shared.mutex);
        goes_on = done || progress->step(progress->argument, 0, 0);
    }
    return done;
}

enum hf_status object_reader_take(struct object_reader *reader, const struct progress *progress,
                                  char ret_path[PATH_MAX], struct hf_error *error)
{
    env_mutex_lock(&reader->shared.mutex);
    size_t index = reader->shared.taken++;
    bool ours = reader->shared.next == index;
    reader->shared.next += ours;
    env_cond_broadcast(&reader->shared.changed);
    env_mutex_unlock(&reader->shared.mutex);
    check(index < reader->count);
    if (index > 0)
        remove_file(reader, index - 1);
    struct object_read *read = &reader->reads[index];
    if (ours) {
        read_object(reader, index, progress);
        note_read(reader, index);
    } else if (!wait_for_read(reader, read, progress)) {
        return error_set(error, HF_CANCELLED, "stopped while it was being read");
    }
    if (read->error.status == HF_OK)
        check(file_of(reader, index, ret_path));
    *error = read->error;
    return error->status;
}

void object_reader_end(struct object_reader *reader)
{
    env_mutex_lock(&reader->shared.mutex);
    atomic_store(&reader->stop, true);
    env_cond_broadcast(&reader->shared.changed);
    env_mutex_unlock(&reader->shared.mutex);
    for (size_t i = 0; i < reader->task_count; i++)
        env_task_join(reader->env, reader->tasks[i]);
    size_t from = reader->shared.taken > 0 ? reader->shared.taken - 1 : 0;
    for (size_t i = from; i < reader->shared.next; i++)
        remove_file(reader, i);
    env_cond_release(&reader->shared.changed);
    env_mutex_release(&reader->shared.mutex);
}
