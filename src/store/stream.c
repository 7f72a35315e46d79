#include "store/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum hf_status file_size(int fd, uint64_t *ret_size, struct hf_error *error)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return error_from_errno(error, errno, "look at the file");
    if (!S_ISREG(st.st_mode))
        return error_set(error, HF_INVALID, "only a regular file can be streamed");
    *ret_size = (uint64_t)st.st_size;
    return HF_OK;
}

enum hf_status file_write_at(int fd, struct view bytes, uint64_t offset, struct hf_error *error)
{
    while (bytes.size > 0) {
        ssize_t done = pwrite(fd, bytes.data, bytes.size, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return error_from_errno(error, errno, "write");
        bytes = view_from(bytes, (size_t)done);
        offset += (uint64_t)done;
    }
    return HF_OK;
}

enum hf_status file_read_at(int fd, void *bytes, size_t size, uint64_t offset, size_t *ret_size,
                            struct hf_error *error)
{
    size_t got = 0;
    while (got < size) {
        ssize_t done = pread(fd, (char *)bytes + got, size - got, (off_t)(offset + got));
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return error_from_errno(error, errno, "read");
        if (done == 0)
            break;
        got += (size_t)done;
    }
    *ret_size = got;
    return HF_OK;
}

enum hf_status file_set_size(int fd, uint64_t size, struct hf_error *error)
{
    while (ftruncate(fd, (off_t)size) != 0)
        if (errno != EINTR)
            return error_from_errno(error, errno, "set the size of the file");
    return HF_OK;
}

static enum hf_status copy_piece(int from, uint64_t at, char *piece, size_t size, int to,
                                 uint64_t to_at, uint64_t end, struct hf_error *error)
{
    size_t got = 0;
    enum hf_status status = file_read_at(from, piece, size, at, &got, error);
    if (status == HF_OK && got < size)
        status = error_set(error, HF_CORRUPT, "the file ends at byte %" PRIu64 " of %" PRIu64,
                           at + got, end);
    return status == HF_OK ? file_write_at(to, (struct view){ piece, got }, to_at, error)
                           : status;
}

/* Within the kernel, where both files allow that: how much of it. */
static uint64_t copy_inside(int from, uint64_t at, uint64_t size, int to, uint64_t to_at)
{
    loff_t in = (loff_t)at, out = (loff_t)to_at;
    ssize_t done = copy_file_range(from, &in, to, &out, (size_t)size, 0);
    return done > 0 ? (uint64_t)done : 0;
}

enum hf_status file_copy(int from, uint64_t offset, uint64_t length, int to,
                         const struct progress *progress, struct hf_error *error)
{
    char *piece = malloc(STREAM_PIECE);
    if (!piece)
        return error_no_memory(error);
    enum hf_status status = HF_OK;
    bool inside = true;
    for (uint64_t done = 0; status == HF_OK && done < length;) {
        uint64_t size = length - done < STREAM_PIECE ? length - done : STREAM_PIECE;
        uint64_t copied = inside ? copy_inside(from, offset + done, size, to, done) : 0;
        inside = copied > 0;
        if (!inside) {
            status = copy_piece(from, offset + done, piece, (size_t)size, to, done,
                                offset + length, error);
            copied = size;
        }
        done += copied;
        if (status == HF_OK && !progress_step(progress, done, length, error))
            status = HF_CANCELLED;
    }
    free(piece);
    return status;
}

/* The mode of a file that is made now. To ask umask() is to change it, for all threads. */
static bool mode_of_new_files(mode_t *ret_mode)
{
    char text[4096];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (size < 0)
        return false;
    text[size] = '\0';
    const char *line = strstr(text, "\nUmask:");
    if (!line)
        return false;
    mode_t mask = 0;
    for (line += strlen("\nUmask:"); *line == '\t' || *line == ' ';)
        line++;
    for (; *line >= '0' && *line <= '7'; line++)
        mask = mask << 3 | (mode_t)(*line - '0');
    *ret_mode = 0666 & ~mask;
    return true;
}

/* As openat(folder, name, O_CREAT, 0666) would have made it. */
static bool make_common(int fd, int folder)
{
    struct stat home;
    mode_t mode;
    if (fstat(folder, &home) != 0 || !mode_of_new_files(&mode))
        return false;
    if ((home.st_mode & S_ISGID) != 0 && fchown(fd, (uid_t)-1, home.st_gid) != 0)
        return false;
    return fchmod(fd, mode) == 0;
}

bool file_link(int fd, int folder, const char *name)
{
    char path[40];
    if (!make_common(fd, folder))
        return false;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, path, folder, name, AT_SYMLINK_FOLLOW) == 0;
}

bool progress_step(const struct progress *progress, uint64_t done, uint64_t total,
                   struct hf_error *error)
{
    if (!progress || !progress->step || progress->step(progress->argument, done, total))
        return true;
    error_set(error, HF_CANCELLED, "stopped after %" PRIu64 " of %" PRIu64 " bytes", done,
              total);
    return false;
}
