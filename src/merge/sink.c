/* sink.c: files that are written in large pieces and appear whole or not at all. */
#include "merge/sink.h"

#include "base/check.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define SINK_BYTES (256 * KIB)

/* The disk is kept busy while we work, so that the sync at the end finds little to do. */
#define SYNC_AHEAD_BYTES (16 * MIB)

#define SCRATCH_DIGITS 16

static bool fail(struct sink *sink, int errno_value, const char *what)
{
    if (sink->error.status == HF_OK)
        error_from_errno(&sink->error, errno_value, what);
    return false;
}

static enum hf_status write_file(void *context, struct view bytes, struct hf_error *error)
{
    struct sink *sink = context;
    for (size_t done = 0; done < bytes.size;) {
        ssize_t size = write(sink->fd, bytes.data + done, bytes.size - done);
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0)
            return error_from_errno(error, errno, "write");
        done += (size_t)size;
    }
    sink->size += bytes.size;
    if (sink->path && sink->size - sink->synced >= SYNC_AHEAD_BYTES) {
        /* A hint: what it says is of no matter. */
        (void)sync_file_range(sink->fd, (off_t)sink->synced, (off_t)(sink->size - sink->synced),
                              SYNC_FILE_RANGE_WRITE);
        sink->synced = sink->size;
    }
    return HF_OK;
}

static bool write_out(struct sink *sink, struct view bytes, bool last)
{
    if (sink->error.status != HF_OK)
        return false;
    if (sink->encoder)
        encoder_add(sink->encoder, bytes, last, write_file, sink, &sink->error);
    else
        write_file(sink, bytes, &sink->error);
    return sink->error.status == HF_OK;
}

/* What is on offer moves to the front. */
static bool flush_settled(struct sink *sink, bool last)
{
    if (!write_out(sink, (struct view){ sink->bytes, sink->settled }, last))
        return false;
    memmove(sink->bytes, sink->bytes + sink->settled, sink->offered);
    sink->settled = 0;
    return true;
}

static bool init(struct sink *sink)
{
    error_clear(&sink->error);
    sink->capacity = SINK_BYTES;
    sink->bytes = malloc(SINK_BYTES + COPY_STEP);
    return sink->bytes != NULL;
}

/* ---- Open ---------------------------------------------------------------------------- */

/* Where the file will stand: a link is followed, not replaced. */
static bool resolve(struct sink *sink, const char *path)
{
    sink->path = realpath(path, NULL);
    if (!sink->path)
        sink->path = strdup(path);
    return sink->path != NULL;
}

static bool choose_name(struct sink *sink, struct env *env)
{
    char random[SCRATCH_DIGITS + 1];
    env_random_hex(env, SCRATCH_DIGITS, random);
    size_t size = strlen(sink->path) + sizeof ".part-" + sizeof random;
    sink->scratch_path = malloc(size);
    if (sink->scratch_path)
        snprintf(sink->scratch_path, size, "%s.part-%s", sink->path, random);
    return sink->scratch_path != NULL;
}

static void name_sink(const char *path, struct hf_error *error)
{
    error_prefix(error, "%.*s", VIEW_ARGS(view_first(view_of(path), 120)));
}

enum hf_status sink_reserve(struct sink *sink, struct env *env, const char *path,
                            struct hf_error *error)
{
    *sink = (struct sink){ .fd = -1 };
    struct stat old;
    enum hf_status status = HF_OK;
    if (!init(sink) || !resolve(sink, path) || !choose_name(sink, env))
        status = error_no_memory(error);
    else if (stat(sink->path, &old) == 0 && !S_ISREG(old.st_mode))
        status = error_set(error, HF_INVALID, "it exists and is not a regular file");
    if (status != HF_OK) {
        name_sink(path, error);
        sink_release(sink);
    }
    return status;
}

enum hf_status sink_written(struct sink *sink, struct hf_error *error)
{
    struct stat info;
    sink->fd = open(sink->scratch_path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (sink->fd < 0 || fstat(sink->fd, &info) != 0 || !S_ISREG(info.st_mode))
        return error_set(error, HF_UNAVAILABLE, "there is no output file");
    sink->size = (uint64_t)info.st_size;
    return HF_OK;
}

static enum hf_status open_new(struct sink *sink, struct hf_error *error)
{
    struct stat old;
    sink->fd = open(sink->scratch_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (sink->fd < 0)
        return error_from_errno(error, errno, "create a file beside it");
    if (stat(sink->path, &old) == 0)
        (void)!fchmod(sink->fd, old.st_mode & 07777);
    return HF_OK;
}

enum hf_status sink_create(struct sink *sink, struct env *env, const char *path,
                           enum merge_coding coding, struct hf_error *error)
{
    enum hf_status status = sink_reserve(sink, env, path, error);
    if (status != HF_OK)
        return status;
    if (coding != MERGE_PLAIN)
        status = encoder_new(coding, &sink->encoder, error);
    if (status == HF_OK)
        status = open_new(sink, error);
    if (status != HF_OK) {
        name_sink(path, error);
        sink_release(sink);
    }
    return status;
}

enum hf_status sink_scratch(struct sink *sink, struct env *env, const char *folder,
                            struct hf_error *error)
{
    *sink = (struct sink){ .fd = -1 };
    enum hf_status status = init(sink) ? HF_OK : error_no_memory(error);
    if (status == HF_OK) {
        sink->fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (sink->fd < 0) {
            /* Not every file system has nameless files: take the name away instead. */
            char name[PATH_MAX], random[SCRATCH_DIGITS + 1];
            env_random_hex(env, SCRATCH_DIGITS, random);
            snprintf(name, sizeof name, "%s/.holdfast-run.%s", folder, random);
            sink->fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
            if (sink->fd >= 0)
                unlink(name);
            else
                status = error_from_errno(error, errno, "create a scratch file");
        }
    }
    if (status != HF_OK) {
        name_sink(folder, error);
        sink_release(sink);
    }
    return status;
}

/* ---- Write --------------------------------------------------------------------------- */

bool sink_room(struct sink *sink, size_t size)
{
    if (!flush_settled(sink, /* last */ false))
        return false;
    if (size <= sink->capacity)
        return true;
    char *bytes = realloc(sink->bytes, size + COPY_STEP);
    if (!bytes)
        return fail(sink, ENOMEM, "make room for a record");
    sink->bytes = bytes;
    sink->capacity = size;
    return true;
}

bool sink_add(struct sink *sink, struct view bytes)
{
    check(sink->offered == 0);
    while (bytes.size) {
        if (sink->settled == sink->capacity && !flush_settled(sink, /* last */ false))
            return false;
        struct view piece = view_first(bytes, sink->capacity - sink->settled);
        memcpy(sink->bytes + sink->settled, piece.data, piece.size);
        sink->settled += piece.size;
        bytes = view_from(bytes, piece.size);
    }
    return true;
}

/* ---- Close --------------------------------------------------------------------------- */

/* The name itself must survive a power loss, too. */
static void sync_folder(struct sink *sink)
{
    char *slash = strrchr(sink->scratch_path, '/');
    if (slash)
        slash[1] = '\0';
    int fd = open(slash ? sink->scratch_path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        fail(sink, errno, "open its folder");
        return;
    }
    if (fsync(fd) != 0 && errno != EINVAL) /* some file systems have no such thing */
        fail(sink, errno, "sync its folder");
    close(fd);
}

static enum hf_status result(const struct sink *sink, struct hf_error *error)
{
    if (sink->error.status != HF_OK) {
        *error = sink->error;
        if (sink->path)
            name_sink(sink->path, error);
    }
    return sink->error.status;
}

enum hf_status sink_end(struct sink *sink, struct hf_error *error)
{
    if (flush_settled(sink, /* last */ true) && sink->path && fsync(sink->fd) != 0)
        fail(sink, errno, "sync");
    return result(sink, error);
}

enum hf_status sink_keep(struct sink *sink, struct hf_error *error)
{
    if (rename(sink->scratch_path, sink->path) != 0) {
        fail(sink, errno, "give it its name");
    } else {
        sync_folder(sink);
        free(sink->scratch_path);
        sink->scratch_path = NULL;
    }
    enum hf_status status = result(sink, error);
    sink_release(sink);
    return status;
}

void sink_release(struct sink *sink)
{
    if (sink->scratch_path)
        unlink(sink->scratch_path);
    if (sink->fd >= 0)
        close(sink->fd);
    free(sink->scratch_path);
    free(sink->path);
    free(sink->bytes);
    encoder_free(sink->encoder);
    *sink = (struct sink){ .fd = -1 };
}
