/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c: copies files in bounded pieces, inside the kernel where possible, and links
 * temporary files under their final name with the permissions of a normal new file. */
#include "store/stream.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Copies inside the kernel, if both file systems allow it. Returns the number of bytes copied. */
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
    uint64_t done = 0;
    while (status == HF_OK && done < length) {
        uint64_t size = length - done < STREAM_PIECE ? length - done : STREAM_PIECE;
        uint64_t copied = inside ? copy_inside(from, offset + done, size, to, done) : 0;
        /* The kernel cannot copy between all kinds of files. After its first failure, the rest is
         * copied through memory. */
        inside = copied > 0;
        if (!inside) {
            size_t got = 0;
            status = file_read_at(from, piece, (size_t)size, offset + done, &got, error);
            if (status == HF_OK && got < size)
                status = error_set(error, HF_CORRUPT,
                                   "the file ends after %" PRIu64 " of %" PRIu64 " bytes",
                                   offset + done + got, offset + length);
            if (status == HF_OK)
                status = file_write_at(to, (struct view){ piece, got }, done, error);
            copied = size;
        }
        done += copied;
        if (status == HF_OK && !progress_step(progress, done, length, error))
            status = HF_CANCELLED;
    }
    free(piece);
    return status;
}

/* The mode of a new file. The umask is read from /proc, because umask() returns it only by changing
 * it for all threads. */
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
    line += strlen("\nUmask:");
    line += strspn(line, "\t ");
    while (*line >= '0' && *line <= '7')
        mask = mask << 3 | (mode_t)(*line++ - '0');
    *ret_mode = 0666 & ~mask;
    return true;
}

bool file_link(int fd, int folder, const char *name)
{
    char path[40];
    struct stat home;
    mode_t mode;
    /* The mode and group that openat(folder, name, O_CREAT, 0666) would have given. */
    if (fstat(folder, &home) != 0 || !mode_of_new_files(&mode))
        return false;
    if ((home.st_mode & S_ISGID) != 0 && fchown(fd, (uid_t)-1, home.st_gid) != 0)
        return false;
    if (fchmod(fd, mode) != 0)
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
