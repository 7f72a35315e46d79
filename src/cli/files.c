/* SPDX-License-Identifier: Apache-2.0 */
/* files.c: local files as the source or target of a transfer. Output appears under its name only
 * when it is complete, and is never written to a pipe or device that another user has planted. */
#include "cli/files.h"

#include "cli/interrupt.h"
#include "file/bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* If /dev/stdin or /dev/stdout were opened again, a file that the shell has already opened would be
 * truncated or rewound. The open descriptor is used instead. */
bool is_stdin(const char *path)
{
    return !path || strcmp(path, "-") == 0 || strcmp(path, "/dev/stdin") == 0;
}

bool is_stdout(const char *path)
{
    return !path || strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0;
}

/* ---- Input files --------------------------------------------------------------------- */

/* Copies `from` (a pipe or a terminal) into the spool until end of file. A signal ends a blocked
 * read. */
static enum hf_status spool_fill(struct cli *cli, struct gauge *gauge, int from, int spool)
{
    char *piece = malloc(STREAM_PIECE);
    if (!piece)
        return error_no_memory(&cli->error);
    uint64_t done = 0;
    ssize_t got;
    enum hf_status status = HF_OK;
    do {
        do
            got = read(from, piece, STREAM_PIECE);
        while (got < 0 && errno == EINTR && !interrupted());
        if (got < 0)
            status = interrupted() ? interrupt_check(&cli->error)
                                   : error_from_errno(&cli->error, errno, "read the input");
        else
            status = temporary_room(spool, (size_t)got, &cli->error);
        if (status == HF_OK)
            status =
                file_write_at(spool, (struct view){ piece, (size_t)got }, done, &cli->error);
        done += got > 0 ? (size_t)got : 0;
        if (status == HF_OK && !gauge_step(gauge, done, /* total */ 0))
            status = interrupt_check(&cli->error);
    } while (status == HF_OK && got > 0 && done <= OBJECT_BYTES_MAX);
    free(piece);
    if (status == HF_OK && got > 0)
        return cli_invalid(cli, "the input exceeds the largest object size");
    return status;
}

enum hf_status source_take(struct cli *cli, const char *path, struct view label, int *ret_fd)
{
    int fd = STDIN_FILENO, spool;
    struct stat st = { .st_mode = S_IFIFO };
    struct gauge gauge;
    enum hf_status status = HF_OK;
    if (!is_stdin(path)) {
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) != 0)
            status = error_cannot_open(&cli->error, errno, path);
        else if (S_ISDIR(st.st_mode))
            status = cli_invalid(cli, "'%.100s' is a folder, not a file", path);
    }
    if (status == HF_OK && S_ISREG(st.st_mode)) {
        *ret_fd = fd;
        return HF_OK;
    }
    if (status == HF_OK)
        status = temporary_file(&spool, &cli->error);
    if (status == HF_OK) {
        gauge_start(&gauge, cli, label);
        status = spool_fill(cli, &gauge, fd, spool);
        gauge_clear(&gauge);
        if (status != HF_OK)
            close(spool);
        *ret_fd = spool;
    }
    if (fd > STDERR_FILENO)
        close(fd);
    return status;
}

/* ---- Output files -------------------------------------------------------------------- */

enum hf_status target_is_stream(struct cli *cli, struct view path, bool *ret_stream)
{
    struct stat st;
    *ret_stream = false;
    if (stat(path.data, &st) != 0)
        return HF_OK;
    if (S_ISDIR(st.st_mode))
        return cli_invalid(cli, "'%.*s' is a folder; name a file in it",
                           VIEW_ARGS(view_first(path, 100)));
    *ret_stream = !S_ISREG(st.st_mode);
    return HF_OK;
}

static void name_target(struct cli *cli, const char *path)
{
    error_prefix(&cli->error, "'%.*s'", VIEW_ARGS(view_first(view_of(path), 100)));
}

enum hf_status target_create(struct cli *cli, struct view path, struct new_file *ret_file)
{
    struct file_watch watch = { interrupt_removes_file, NULL, 0 };
    enum hf_status status = new_file_create(ret_file, cli->env, path.data, watch, &cli->error);
    if (status == HF_OK)
        return HF_OK;
    name_target(cli, path.data);
    new_file_release(ret_file);
    return status;
}

enum hf_status target_keep(struct cli *cli, struct new_file *file)
{
    enum hf_status status = HF_OK;
    if (fsync(file->fd) != 0)
        status = error_from_errno(&cli->error, errno, "sync it");
    if (status == HF_OK)
        status = new_file_keep(file, &cli->error);
    if (status != HF_OK)
        name_target(cli, file->path);
    new_file_release(file);
    return status;
}

/* ---- Streams ------------------------------------------------------------------------- */

/* Refuses to write binary data to a terminal. Data is binary if its start contains a NUL byte, as
 * in git and grep. Every command that calls this accepts --force. */
static enum hf_status refuse_binary(struct cli *cli, int spool, int to)
{
    char start[8000];
    size_t got = 0;
    if (isatty(to) != 1 || cli_given(cli, "force"))
        return HF_OK;
    enum hf_status status = file_read_at(spool, start, sizeof start, 0, &got, &cli->error);
    if (status != HF_OK || !memchr(start, '\0', got))
        return status;
    return cli_invalid(cli, "the data is binary and could garble the terminal; name a file to "
                            "write it to, or use --force");
}

/* A failed write to stdout is also recorded in cli->out, because the program raises SIGPIPE after
 * EPIPE. */
static enum hf_status write_in_order(struct cli *cli, int to, struct view bytes)
{
    while (bytes.size > 0) {
        ssize_t done = write(to, bytes.data, bytes.size);
        if (done >= 0) {
            bytes = view_from(bytes, (size_t)done);
        } else if (errno != EINTR) {
            if (to == cli->out.fd)
                cli->out.failed_errno = errno;
            return output_failed(to, errno, &cli->error);
        } else if (interrupted()) {
            return interrupt_check(&cli->error);
        }
    }
    return HF_OK;
}

/* Nothing is written before the fetch is complete. */
static enum hf_status fetch_to_stream(struct cli *cli, int to, fetch_fn *fetch, void *argument)
{
    int spool;
    uint64_t done = 0;
    size_t got;
    enum hf_status status = temporary_file(&spool, &cli->error);
    if (status != HF_OK)
        return status;
    char *piece = malloc(STREAM_PIECE);
    status = piece ? fetch(argument, spool, &cli->error) : error_no_memory(&cli->error);
    if (status == HF_OK)
        status = refuse_binary(cli, spool, to);
    do {
        got = 0;
        if (status == HF_OK)
            status = file_read_at(spool, piece, STREAM_PIECE, done, &got, &cli->error);
        if (status == HF_OK)
            status = write_in_order(cli, to, (struct view){ piece, got });
        done += got;
    } while (status == HF_OK && got > 0);
    free(piece);
    close(spool);
    return status;
}

/* `failed`: the file could not be opened, or stat failed. */
static enum hf_status check_device(struct cli *cli, const struct safe_path *place, bool failed,
                                   const struct stat *st)
{
    if (failed)
        return error_from_errno(&cli->error, errno, "open it");
    if (!is_planted(place->folder, st))
        return HF_OK;
    return error_set(&cli->error, HF_DENIED,
                     "refused to write to a pipe or device that another user (uid %lu) created "
                     "in a folder that everyone can write to",
                     (unsigned long)st->st_uid);
}

/* The owner is checked before the file is opened, because opening a pipe may block until the pipe
 * has a reader. The owner is checked again afterwards, because the file may have been replaced in
 * between. */
enum hf_status target_open_stream(struct cli *cli, const char *path, int *ret_fd)
{
    struct safe_path place;
    struct stat st;
    int fd = -1;
    enum hf_status status = safe_path_open(path, &place, &cli->error);
    int follow = place.by_kernel ? 0 : AT_SYMLINK_NOFOLLOW;
    int flags = O_WRONLY | O_CLOEXEC | (place.by_kernel ? 0 : O_NOFOLLOW);
    if (status == HF_OK)
        status =
            check_device(cli, &place, fstatat(place.folder, place.leaf, &st, follow) != 0, &st);
    if (status == HF_OK) {
        fd = openat(place.folder, place.leaf, flags);
        status = check_device(cli, &place, fd < 0 || fstat(fd, &st) != 0, &st);
    }
    safe_path_close(&place);
    if (status != HF_OK) {
        name_target(cli, path);
        if (fd >= 0)
            close(fd);
    }
    *ret_fd = fd;
    return status;
}

enum hf_status target_fetch(struct cli *cli, const char *path, fetch_fn *fetch, void *argument,
                            bool *ret_file)
{
    struct new_file file;
    bool stream = false;
    int fd;
    *ret_file = false;
    if (is_stdout(path))
        return fetch_to_stream(cli, STDOUT_FILENO, fetch, argument);
    enum hf_status status = target_is_stream(cli, view_of(path), &stream);
    if (status != HF_OK)
        return status;
    *ret_file = !stream;
    status =
        stream ? target_open_stream(cli, path, &fd) : target_create(cli, view_of(path), &file);
    if (status != HF_OK)
        return status;
    if (stream) {
        status = fetch_to_stream(cli, fd, fetch, argument);
        close(fd);
        return status;
    }
    status = fetch(argument, file.fd, &cli->error);
    if (status == HF_OK)
        return target_keep(cli, &file);
    new_file_release(&file);
    return status;
}
