/* forge_fetch.c: the sources of an order, a few at once: read where they lie or copied into
 * files, and checked against the catalog before anything is made of them. */
#include "base/hash.h"
#include "base/rule.h"
#include "compact/forge_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

/* Sources are many and small: so many are fetched at once. */
#define FETCHERS 4

/* A source that is not what the catalog says is read again before it is blamed. */
#define READS_MAX 2

/* Whoever waits asks so often whether to go on. */
#define ASK_EVERY SPAN_MS(200)

/* Descriptors are few: so many objects are read where they lie, by all jobs together. */
#define LENT_MAX 128

/* ---- Whether to go on ---------------------------------------------------------------- */

static bool fetch_step(void *argument, uint64_t done, uint64_t total)
{
    struct piece *piece = argument;
    (void)total;
    env_mutex_lock(&piece->shared.mutex);
    uint64_t bytes = piece->shared.bytes;
    env_mutex_unlock(&piece->shared.mutex);
    return forge_goes_on(piece, bytes + done < piece->bytes ? bytes + done : piece->bytes);
}

/* Of a task beside the one that may ask. */
static bool fetch_step_beside(void *argument, uint64_t done, uint64_t total)
{
    struct piece *piece = argument;
    (void)done;
    (void)total;
    return !atomic_load(&piece->stop);
}

/* ---- Fetching ------------------------------------------------------------------------ */

static enum hf_status wrong_source(const struct forge_source *source, uint64_t size,
                                   uint32_t crc, struct hf_error *error)
{
    if (size != source->size)
        error_set(error, HF_CORRUPT, "it has %" PRIu64 " bytes, the catalog says %" PRIu64,
                  size, source->size);
    else
        error_set(error, HF_CORRUPT,
                  "its checksum is %08" PRIx32 ", the catalog says %08" PRIx32, crc,
                  source->crc32c);
    return HF_CORRUPT;
}

/* Reads an object into the file, over whatever is there. */
enum hf_status forge_get_object(struct piece *piece, struct view key, int fd,
                                const struct progress *progress, struct hf_error *error)
{
    struct forge_files *files = piece->files;
    enum hf_status status = HF_OK;
    for (int i = 0; i < TRIES_MAX; i++) {
        struct get_call call = { .key = key };
        /* Not of a new file: some file systems take that for one that replaces another, and
         * write it out when it is closed. */
        if (lseek(fd, 0, SEEK_END) > 0 && ftruncate(fd, 0) != 0)
            return forge_local_failure(error, errno, "empty a scratch file");
        status = store_get_file(files->store, &call, fd, progress);
        *error = call.error;
        bool may_pass = status == HF_UNAVAILABLE || status == HF_TIMEOUT;
        if (!may_pass || atomic_load(&piece->stop) || i + 1 == TRIES_MAX ||
            forge_disk_is_full(piece))
            break;
        env_sleep(files->env, env_jitter(files->env, SPAN_US(TRY_WAIT.us << i)));
    }
    return status;
}

/* Reads a source, twice if it is not what it should be. */
static enum hf_status fetch_into(struct piece *piece, size_t index, int fd,
                                 const struct progress *progress, struct hf_error *error)
{
    const struct forge_source *source = &piece->order->sources[index];
    enum hf_status status = HF_CORRUPT;
    for (int i = 0; i < READS_MAX && status == HF_CORRUPT; i++) {
        uint64_t size = 0;
        uint32_t crc = 0;
        status = forge_get_object(piece, source->key, fd, progress, error);
        if (status == HF_OK)
            status = forge_check_sum(fd, &size, &crc, error);
        env_mutex_lock(&piece->shared.mutex);
        piece->product->bytes_read += size;
        env_mutex_unlock(&piece->shared.mutex);
        bool wrong = size != source->size || crc != source->crc32c;
        if (status == HF_OK && wrong && RULE(CHECKSUM_ON_READ))
            status = wrong_source(source, size, crc, error);
    }
    return status;
}

/* A local store can lend an object as it lies, without a byte copied. One that is not what it
 * should be is fetched all the same, and judged by that. */
static bool borrow(struct piece *piece, size_t index)
{
    const struct forge_source *source = &piece->order->sources[index];
    struct lent *lent = &piece->lent[index];
    struct get_call call = { .key = source->key };
    struct hf_error error;
    uint64_t size = 0;
    uint32_t crc = 0;
    int fd;
    if (store_lend_file(piece->files->store, &call, &fd) != HF_OK)
        return false;
    enum hf_status status = forge_check_sum(fd, &size, &crc, &error);
    bool wrong = size != source->size || crc != source->crc32c;
    if (status != HF_OK || (wrong && RULE(CHECKSUM_ON_READ))) {
        close(fd);
        return false;
    }
    lent->fd = fd;
    snprintf(lent->path, sizeof lent->path, "/proc/self/fd/%d", fd);
    piece->paths[index] = lent->path;
    env_mutex_lock(&piece->shared.mutex);
    piece->product->bytes_read += size;
    env_mutex_unlock(&piece->shared.mutex);
    return true;
}

/* Others get copies: they have no business with the objects themselves. */
static bool try_to_borrow(struct piece *piece, size_t index)
{
    atomic_int *lent = &piece->files->lent;
    if (forge_by_others(piece))
        return false;
    if (atomic_fetch_add(lent, 1) < LENT_MAX && borrow(piece, index))
        return true;
    atomic_fetch_sub(lent, 1);
    return false;
}

void forge_give_back(struct piece *piece)
{
    for (size_t i = 0; piece->lent && i < piece->order->source_count; i++)
        if (piece->lent[i].fd >= 0) {
            close(piece->lent[i].fd);
            atomic_fetch_sub(&piece->files->lent, 1);
        }
}

static enum hf_status fetch_one(struct piece *piece, size_t index,
                                const struct progress *progress, struct hf_error *error)
{
    struct view key = piece->order->sources[index].key;
    if (try_to_borrow(piece, index))
        return HF_OK;
    int fd = open(piece->paths[index], O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return forge_local_failure(error, errno, "make a scratch file");
    enum hf_status status = fetch_into(piece, index, fd, progress, error);
    close(fd);
    if (status != HF_OK)
        error_prefix(error, "%.*s", VIEW_ARGS(view_first(key, 120)));
    return status;
}

/* The next source that nobody has fetched, or false. */
static bool next_source(struct piece *piece, size_t *ret_index)
{
    env_mutex_lock(&piece->shared.mutex);
    bool more = piece->shared.error.status == HF_OK && !atomic_load(&piece->stop) &&
                piece->shared.next < piece->order->source_count;
    if (more)
        *ret_index = piece->shared.next++;
    env_mutex_unlock(&piece->shared.mutex);
    return more;
}

static void note_fetched(struct piece *piece, size_t index, const struct hf_error *error)
{
    bool blamed = error->status == HF_CORRUPT || error->status == HF_NOT_FOUND;
    bool unreadable = error->status == HF_DENIED || error->status == HF_INVALID;
    env_mutex_lock(&piece->shared.mutex);
    if (error->status == HF_OK)
        piece->shared.bytes += piece->order->sources[index].size;
    else if (piece->shared.error.status == HF_OK) {
        piece->shared.error = *error;
        piece->shared.culprit = blamed ? index : FORGE_NOBODY;
        /* Of this one only, it seems: without it the others can be merged. */
        piece->product->group_fault = unreadable;
    }
    env_mutex_unlock(&piece->shared.mutex);
}

static void fetch_with(struct piece *piece, const struct progress *progress)
{
    size_t index;
    while (next_source(piece, &index)) {
        struct hf_error error = { .status = HF_OK };
        if (!progress->step(piece, 0, 0))
            forge_cancelled(&error);
        else
            fetch_one(piece, index, progress, &error);
        note_fetched(piece, index, &error);
    }
}

static void fetch_beside(void *argument)
{
    struct piece *piece = argument;
    const struct progress progress = { fetch_step_beside, piece };
    fetch_with(piece, &progress);
    env_mutex_lock(&piece->shared.mutex);
    piece->shared.beside--;
    env_cond_signal(&piece->shared.changed);
    env_mutex_unlock(&piece->shared.mutex);
}

static bool start_beside(struct piece *piece, struct env_task **ret_task)
{
    struct hf_error ignored;
    env_mutex_lock(&piece->shared.mutex);
    piece->shared.beside++;
    env_mutex_unlock(&piece->shared.mutex);
    if (env_task_start(piece->files->env, fetch_beside, piece, ret_task, &ignored) == HF_OK)
        return true;
    env_mutex_lock(&piece->shared.mutex);
    piece->shared.beside--;
    env_mutex_unlock(&piece->shared.mutex);
    return false;
}

/* Goes on asking while the others are at their last sources. */
static void wait_for_beside(struct piece *piece)
{
    bool waiting = true;
    while (waiting) {
        env_mutex_lock(&piece->shared.mutex);
        struct mono_time until = mono_add(env_now(piece->files->env), ASK_EVERY);
        while (piece->shared.beside > 0 &&
               env_cond_wait_until(&piece->shared.changed, &piece->shared.mutex, until))
            ;
        waiting = piece->shared.beside > 0;
        uint64_t bytes = piece->shared.bytes;
        env_mutex_unlock(&piece->shared.mutex);
        if (waiting)
            forge_goes_on(piece, bytes);
    }
}

/* Fetches all, a few at once; this task alone asks whether to go on. */
enum hf_status forge_fetch_all(struct piece *piece, struct hf_error *error)
{
    struct env *env = piece->files->env;
    struct env_task *tasks[FETCHERS - 1];
    size_t started = 0;
    const struct progress progress = { fetch_step, piece };
    while (started < FETCHERS - 1 && started + 1 < piece->order->source_count &&
           start_beside(piece, &tasks[started]))
        started++;
    fetch_with(piece, &progress);
    wait_for_beside(piece);
    for (size_t i = 0; i < started; i++)
        env_task_join(env, tasks[i]);
    *error = piece->shared.error;
    piece->product->culprit = piece->shared.culprit;
    if (error->status == HF_OK && atomic_load(&piece->stop))
        return forge_cancelled(error);
    return error->status;
}
