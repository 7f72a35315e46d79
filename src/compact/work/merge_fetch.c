/* SPDX-License-Identifier: Apache-2.0 */
/* merge_fetch.c: fetches the sources of a merge into files, a few at a time, or reads them in place
 * if a local store lends them. Nothing is put unless the size and the checksum of each source are
 * those of the catalog. They are computed by the merge itself, as it reads the sources or, if a
 * helper process or a command reads them, in a pass of their own before the merge. If the merge
 * fails or finds a wrong checksum, such a pass follows, because only a source that was wrong twice
 * is blamed, and because damaged bytes may make a merge fail in any way. */
#include "base/check.h"
#include "base/hash.h"
#include "base/rule.h"
#include "compact/catalog/chunk_object.h"
#include "compact/work/merger_inside.h"
#include "store/retry.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* How many sources are fetched concurrently. There are often many small ones. */
#define FETCHERS 4

/* A source that differs from the catalog is read again before it is blamed, because the transfer
 * may have failed. */
#define READS_MAX 2

/* The interval at which a waiting task checks whether to continue. */
#define ASK_EVERY SPAN_MS(200)

/* The maximum number of objects that all jobs together read in place; each needs a file
 * descriptor. */
#define LENT_MAX 128

/* ---- Whether to go on ---------------------------------------------------------------- */

static bool fetch_progress(void *argument, uint64_t done, uint64_t total)
{
    struct merge_run *run = argument;
    (void)total;
    env_mutex_lock(&run->shared.mutex);
    uint64_t bytes = run->shared.bytes;
    env_mutex_unlock(&run->shared.mutex);
    return merge_goes_on(run, bytes + done < run->bytes ? bytes + done : run->bytes);
}

/* The same for a task that must not call the caller's function itself. */
static bool fetch_progress_beside(void *argument, uint64_t done, uint64_t total)
{
    struct merge_run *run = argument;
    (void)done;
    (void)total;
    return !atomic_load(&run->stop);
}

/* ---- Fetching ------------------------------------------------------------------------ */

static enum hf_status wrong_source(const struct chunk *source, uint64_t size, uint32_t crc,
                                   struct hf_error *error)
{
    if (size != source->size)
        error_set(error, HF_CORRUPT,
                  "it has %" PRIu64 " bytes, but the catalog records %" PRIu64, size,
                  source->size);
    else
        error_set(error, HF_CORRUPT,
                  "its checksum is %08" PRIx32 ", but the catalog records %08" PRIx32, crc,
                  source->crc32c);
    return HF_CORRUPT;
}

/* The bytes of an object to read; a length of 0: all that follow. */
struct part {
    uint64_t offset, length;
};

static enum hf_status get_part(struct merge_run *run, const struct chunk *chunk,
                               struct part part, int fd, const struct progress *progress,
                               struct hf_error *error)
{
    struct file_merger *files = run->files;
    enum hf_status status = HF_OK;
    struct retry retry = {
        .store = files->store, .pause = TRY_WAIT, .left = TRIES_MAX - 1, .progress = progress
    };
    do {
        struct get_call call = chunk_get_call(chunk);
        call.offset = part.offset;
        call.length = part.length;
        /* A new file is not truncated: some file systems treat truncation as replacing the file,
         * and write it out on close. */
        if (lseek(fd, 0, SEEK_END) > 0 && ftruncate(fd, 0) != 0)
            return merge_local_failure(error, errno, "empty a scratch file");
        store_get_file(files->store, &call, fd, progress);
        status = chunk_got(chunk, &call, error);
    } while ((retry_is_answered(status) || !merge_disk_is_full(run)) &&
             retry_after(&retry, status));
    return status;
}

enum hf_status merge_get_object(struct merge_run *run, const struct chunk *chunk, int fd,
                                const struct progress *progress, struct hf_error *error)
{
    return get_part(run, chunk, (struct part){ 0, 0 }, fd, progress, error);
}

static enum hf_status size_of_copy(int fd, uint64_t *ret_size, struct hf_error *error)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return merge_local_failure(error, errno, "read the size of a scratch file");
    *ret_size = (uint64_t)info.st_size;
    return HF_OK;
}

/* Reads the part of a source that belongs to the range. Its size and its keys are checked here. The
 * merge computes its checksum, which is checked when all ranges have been read. */
static enum hf_status fetch_part(struct merge_run *run, size_t index,
                                 const struct progress *progress, struct hf_error *error)
{
    const struct merge_parts *parts = run->order->parts;
    const struct chunk *source = &run->order->sources[index];
    uint64_t size = 0;
    enum hf_status status = HF_OK;
    int fd = open(run->paths[index], O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return merge_local_failure(error, errno, "create a scratch file");
    struct part part = { parts->starts[index], parts->sizes[index] };
    if (part.length > 0)
        status = get_part(run, source, part, fd, progress, error);
    if (status == HF_OK)
        status = size_of_copy(fd, &size, error);
    close(fd);
    if (status == HF_OK && size != part.length)
        status = error_set(error, HF_CORRUPT, "it is shorter than the catalog records");
    if (status == HF_OK)
        status = merge_check_part(run, run->paths[index], error);
    env_mutex_lock(&run->shared.mutex);
    run->product->bytes_read += size;
    env_mutex_unlock(&run->shared.mutex);
    if (status != HF_OK)
        error_prefix(error, "%.*s", VIEW_ARGS(view_first(source->key, 120)));
    return status;
}

/* A local store can lend an object without copying it. If a lent object differs from the catalog,
 * the object is fetched as usual, and only the fetched copy is used and judged. */
static bool borrow_source(struct merge_run *run, size_t index)
{
    const struct chunk *source = &run->order->sources[index];
    struct lent *lent = &run->lent[index];
    struct get_call call = chunk_get_call(source);
    struct hf_error error;
    uint64_t size = 0;
    uint32_t crc = 0;
    int fd;
    if (store_lend_file(run->files->store, &call, &fd) != HF_OK)
        return false;
    enum hf_status status = run->sums ? size_of_copy(fd, &size, &error)
                                      : file_checksum(fd, "read back", &size, &crc, &error);
    bool wrong = size != source->size || (!run->sums && crc != source->crc32c);
    if (status != HF_OK || (RULE(CHECKSUM_ON_READ) && wrong)) {
        close(fd);
        return false;
    }
    lent->fd = fd;
    snprintf(lent->path, sizeof lent->path, "/proc/self/fd/%d", fd);
    run->paths[index] = lent->path;
    env_mutex_lock(&run->shared.mutex);
    run->product->bytes_read += size;
    env_mutex_unlock(&run->shared.mutex);
    return true;
}

/* Commands and callers' mergers get copies, because they could change the objects. */
static bool try_to_borrow(struct merge_run *run, size_t index)
{
    atomic_int *lent = &run->files->lent;
    if (merge_by_callback(run))
        return false;
    if (atomic_fetch_add(lent, 1) < LENT_MAX && borrow_source(run, index))
        return true;
    atomic_fetch_sub(lent, 1);
    return false;
}

static void give_one_back(struct merge_run *run, size_t index)
{
    struct lent *lent = &run->lent[index];
    if (lent->fd < 0)
        return;
    close(lent->fd);
    lent->fd = -1;
    atomic_fetch_sub(&run->files->lent, 1);
}

void merge_give_back(struct merge_run *run)
{
    if (!run->lent)
        return;
    for (size_t i = 0; i < run->order->source_count; i++)
        give_one_back(run, i);
}

/* After a failed merge: whether the file that it has read is right. If not, makes room for a copy
 * of the object. */
static bool keeps_source(struct merge_run *run, size_t index)
{
    const struct chunk *source = &run->order->sources[index];
    struct hf_error error;
    uint64_t size = 0;
    uint32_t crc = 0;
    int fd = open(run->paths[index], O_RDONLY | O_CLOEXEC);
    bool right = fd >= 0 && file_checksum(fd, "read back", &size, &crc, &error) == HF_OK &&
                 size == source->size && crc == source->crc32c;
    if (fd >= 0)
        close(fd);
    if (right)
        return true;
    atomic_store(&run->replaced, true);
    give_one_back(run, index);
    run->paths[index] = run->copies[index];
    unlink(run->paths[index]);
    return false;
}

/* The size of what was fetched and, unless the merge computes it, its checksum. */
static enum hf_status measure_copy(const struct merge_run *run, const struct chunk *source,
                                   int fd, uint64_t *ret_size, uint32_t *ret_crc,
                                   struct hf_error *error)
{
    if (run->sums && !run->rechecks) {
        enum hf_status status = size_of_copy(fd, ret_size, error);
        *ret_crc = source->crc32c;
        if (status != HF_OK || *ret_size == source->size)
            return status;
    }
    return file_checksum(fd, "read back", ret_size, ret_crc, error);
}

/* Reads a source, and once more if it differs from the catalog. */
static enum hf_status fetch_one(struct merge_run *run, size_t index,
                                const struct progress *progress, struct hf_error *error)
{
    const struct chunk *source = &run->order->sources[index];
    if (run->order->parts)
        return fetch_part(run, index, progress, error);
    if (run->rechecks ? keeps_source(run, index) : try_to_borrow(run, index))
        return HF_OK;
    int fd = open(run->paths[index], O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return merge_local_failure(error, errno, "create a scratch file");
    enum hf_status status = HF_CORRUPT;
    for (int i = 0; i < READS_MAX; i++) {
        uint64_t size = 0;
        uint32_t crc = 0;
        status = merge_get_object(run, source, fd, progress, error);
        if (status == HF_OK)
            status = measure_copy(run, source, fd, &size, &crc, error);
        env_mutex_lock(&run->shared.mutex);
        run->product->bytes_read += size;
        env_mutex_unlock(&run->shared.mutex);
        bool wrong = size != source->size || crc != source->crc32c;
        if (RULE(CHECKSUM_ON_READ) && status == HF_OK && wrong)
            status = wrong_source(source, size, crc, error);
        if (status != HF_CORRUPT)
            break;
    }
    close(fd);
    if (status != HF_OK)
        error_prefix(error, "%.*s", VIEW_ARGS(view_first(chunk_object_key(source), 120)));
    return status;
}

/* The next source to fetch; false if there is none. */
static bool next_source(struct merge_run *run, size_t *ret_index)
{
    env_mutex_lock(&run->shared.mutex);
    bool more = run->shared.error.status == HF_OK && !atomic_load(&run->stop) &&
                run->shared.next < run->order->source_count;
    if (more)
        *ret_index = run->shared.next++;
    env_mutex_unlock(&run->shared.mutex);
    return more;
}

static void note_fetched(struct merge_run *run, size_t index, const struct hf_error *error)
{
    bool blamed = error->status == HF_CORRUPT || error->status == HF_NOT_FOUND;
    bool unreadable = error->status == HF_DENIED || error->status == HF_INVALID;
    env_mutex_lock(&run->shared.mutex);
    if (error->status == HF_OK)
        run->shared.bytes += run->order->parts ? run->order->parts->sizes[index]
                                               : run->order->sources[index].size;
    else if (run->shared.error.status == HF_OK) {
        run->shared.error = *error;
        /* A part alone does not show that its source is damaged; a whole merge will. */
        bool known = blamed && !(run->order->parts && error->status == HF_CORRUPT);
        run->shared.culprit = known ? index : MERGE_NO_CULPRIT;
        /* Perhaps only this source is unreadable. Blaming the group separates it from the others,
         * which can then be merged. */
        run->product->group_fault = unreadable || (blamed && !known);
    }
    env_mutex_unlock(&run->shared.mutex);
}

static void fetch_with(struct merge_run *run, const struct progress *progress)
{
    size_t index;
    while (next_source(run, &index)) {
        struct hf_error error = { .status = HF_OK };
        if (!progress->step(run, 0, 0))
            merge_cancelled(&error);
        else
            fetch_one(run, index, progress, &error);
        note_fetched(run, index, &error);
    }
}

static void fetch_beside(void *argument)
{
    struct merge_run *run = argument;
    const struct progress progress = { fetch_progress_beside, run };
    fetch_with(run, &progress);
    env_mutex_lock(&run->shared.mutex);
    run->shared.beside--;
    env_cond_signal(&run->shared.changed);
    env_mutex_unlock(&run->shared.mutex);
}

static bool start_beside(struct merge_run *run, struct env_task **ret_task)
{
    struct hf_error ignored;
    env_mutex_lock(&run->shared.mutex);
    run->shared.beside++;
    env_mutex_unlock(&run->shared.mutex);
    if (env_task_start(run->files->env, fetch_beside, run, ret_task, &ignored) == HF_OK)
        return true;
    env_mutex_lock(&run->shared.mutex);
    run->shared.beside--;
    env_mutex_unlock(&run->shared.mutex);
    return false;
}

/* Waits for the other tasks, which are fetching the last sources, and keeps asking the caller
 * whether to continue. */
static void wait_for_beside(struct merge_run *run)
{
    bool waiting = true;
    while (waiting) {
        env_mutex_lock(&run->shared.mutex);
        struct mono_time until = mono_add(env_now(run->files->env), ASK_EVERY);
        while (run->shared.beside > 0 &&
               env_cond_wait_until(&run->shared.changed, &run->shared.mutex, until))
            ;
        waiting = run->shared.beside > 0;
        uint64_t bytes = run->shared.bytes;
        env_mutex_unlock(&run->shared.mutex);
        if (waiting)
            merge_goes_on(run, bytes);
    }
}

/* Only this task asks the caller whether to continue. */
enum hf_status merge_fetch_all(struct merge_run *run, struct hf_error *error)
{
    struct env *env = run->files->env;
    struct env_task *tasks[FETCHERS - 1];
    size_t started = 0;
    const struct progress progress = { fetch_progress, run };
    while (started < FETCHERS - 1 && started + 1 < run->order->source_count &&
           start_beside(run, &tasks[started]))
        started++;
    fetch_with(run, &progress);
    wait_for_beside(run);
    for (size_t i = 0; i < started; i++)
        env_task_join(env, tasks[i]);
    *error = run->shared.error;
    run->product->culprit = run->shared.culprit;
    if (error->status == HF_OK && atomic_load(&run->stop))
        return merge_cancelled(error);
    return error->status;
}

/* ---- Checksums ----------------------------------------------------------------------- */

enum hf_status merge_recheck_all(struct merge_run *run, struct hf_error *error)
{
    run->rechecks = true;
    run->shared.next = 0;
    run->shared.bytes = 0;
    run->shared.error = (struct hf_error){ .status = HF_OK };
    run->shared.culprit = MERGE_NO_CULPRIT;
    return merge_fetch_all(run, error);
}

enum hf_status merge_check_sums(struct merge_run *run, struct hf_error *error)
{
    const struct merge_parts *parts = run->order->parts;
    for (size_t i = 0; run->sums && i < run->order->source_count; i++) {
        const struct chunk *source = &run->order->sources[i];
        const struct merge_input_sum *sum = &run->sums[i];
        check(sum->known);
        if (parts)
            parts->ret_crcs[i] = sum->crc32c;
        else if (RULE(CHECKSUM_ON_READ) &&
                 (sum->size != source->size || sum->crc32c != source->crc32c))
            return wrong_source(source, sum->size, sum->crc32c, error);
    }
    return HF_OK;
}
