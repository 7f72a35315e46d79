/* files.c: spools and new files. */
#include "cli/files.h"

#include "cli/interrupt.h"
#include "store/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static enum hf_status fail_errno(struct cli *cli, const char *what)
{
    return error_from_errno(&cli->error, errno, what);
}

/* "-", or the file of /dev that stands for it: opened by name, that would begin anew a file that
 * somebody has begun. */
static bool is_standard(const char *path, const char *device)
{
    return !path || strcmp(path, "-") == 0 || strcmp(path, device) == 0;
}

bool is_stdin(const char *path)
{
    return is_standard(path, "/dev/stdin");
}

bool is_stdout(const char *path)
{
    return is_standard(path, "/dev/stdout");
}

/* ---- Spools -------------------------------------------------------------------------- */

enum hf_status spool_open(struct cli *cli, int *ret_fd)
{
    return temporary_file(ret_fd, &cli->error);
}

/* Reads once; 0 bytes at the end. A signal ends a read that waits. */
static enum hf_status read_some(struct cli *cli, int from, char *piece, size_t *ret_size)
{
    ssize_t got;
    do
        got = read(from, piece, STREAM_PIECE);
    while (got < 0 && errno == EINTR && !interrupted());
    if (got < 0)
        return interrupted() ? interrupt_check(&cli->error) : fail_errno(cli, "read the input");
    *ret_size = (size_t)got;
    return HF_OK;
}

enum hf_status spool_fill(struct cli *cli, struct gauge *gauge, int from, int spool)
{
    char *piece = malloc(STREAM_PIECE);
    if (!piece)
        return error_no_memory(&cli->error);
    uint64_t done = 0;
    size_t got = 0;
    enum hf_status status;
    do {
        status = read_some(cli, from, piece, &got);
        if (status == HF_OK)
            status = file_write_at(spool, (struct view){ piece, got }, done, &cli->error);
        done += got;
        if (status == HF_OK && !gauge_step(gauge, done, /* total */ 0))
            status = interrupt_check(&cli->error);
    } while (status == HF_OK && got > 0 && done <= OBJECT_BYTES_MAX);
    free(piece);
    if (status == HF_OK && got > 0)
        return error_set(&cli->error, HF_INVALID, "the input is larger than any object may be");
    return status;
}

/* A closed pipe is noted in cli->out too: the program then ends as if its output had failed. */
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

/* Bytes that are no text disturb a terminal; looked for at the start, as git and grep do. */
static enum hf_status refuse_binary(struct cli *cli, int spool, int to)
{
    char start[8000];
    size_t got = 0;
    if (isatty(to) != 1 || cli_given(cli, "force"))
        return HF_OK;
    enum hf_status status = file_read_at(spool, start, sizeof start, 0, &got, &cli->error);
    struct view text = { start, got };
    if (status != HF_OK || view_find(text, '\0') == got)
        return status;
    return error_set(
        &cli->error, HF_INVALID,
        "it is binary, and would disturb the terminal: name a file to write it to, "
        "or add --force");
}

enum hf_status spool_send(struct cli *cli, int spool, int to)
{
    enum hf_status status = refuse_binary(cli, spool, to);
    if (status != HF_OK)
        return status;
    char *piece = malloc(STREAM_PIECE);
    if (!piece)
        return error_no_memory(&cli->error);
    uint64_t done = 0;
    size_t got = 0;
    do {
        status = file_read_at(spool, piece, STREAM_PIECE, done, &got, &cli->error);
        if (status == HF_OK)
            status = write_in_order(cli, to, (struct view){ piece, got });
        done += got;
    } while (status == HF_OK && got > 0);
    free(piece);
    return status;
}

/* ---- Files that are read ------------------------------------------------------------- */

enum hf_status source_open(struct cli *cli, struct view path, int *ret_fd, bool *ret_regular)
{
    int fd = open(path.data, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) {
        error_cannot_open(&cli->error, errno, path.data);
        if (fd >= 0)
            close(fd);
        return cli->error.status;
    }
    if (S_ISDIR(st.st_mode)) {
        close(fd);
        return error_set(&cli->error, HF_INVALID, "'%.*s' is a folder, not a file",
                         VIEW_ARGS(view_first(path, 100)));
    }
    *ret_regular = S_ISREG(st.st_mode);
    *ret_fd = fd;
    return HF_OK;
}

enum hf_status source_take(struct cli *cli, const char *path, struct view label, int *ret_fd)
{
    int fd = STDIN_FILENO, spool;
    bool regular = false;
    enum hf_status status = HF_OK;
    if (!is_stdin(path))
        status = source_open(cli, view_of(path), &fd, &regular);
    if (status != HF_OK || regular) {
        *ret_fd = fd;
        return status;
    }
    status = spool_open(cli, &spool);
    if (status == HF_OK) {
        struct gauge gauge;
        gauge_start(&gauge, cli, label);
        status = spool_fill(cli, &gauge, fd, spool);
        gauge_clear(&gauge);
        if (status != HF_OK)
            close(spool);
        *ret_fd = spool;
    }
    if (fd != STDIN_FILENO)
        close(fd);
    return status;
}

/* ---- Files that are written ---------------------------------------------------------- */

enum hf_status target_is_stream(struct cli *cli, struct view path, bool *ret_stream)
{
    struct stat st;
    *ret_stream = false;
    if (stat(path.data, &st) != 0)
        return HF_OK;
    if (S_ISDIR(st.st_mode))
        return error_set(&cli->error, HF_INVALID, "'%.*s' is a folder; name a file in it",
                         VIEW_ARGS(view_first(path, 100)));
    *ret_stream = !S_ISREG(st.st_mode);
    return HF_OK;
}

static void name_file(struct cli *cli, const char *path)
{
    error_prefix(&cli->error, "'%.*s'", VIEW_ARGS(view_first(view_of(path), 100)));
}

enum hf_status target_create(struct cli *cli, struct view path, struct new_file *ret_file)
{
    struct file_watch watch = { interrupt_removes_file, NULL, 0 };
    enum hf_status status = new_file_create(ret_file, cli->env, path.data, watch, &cli->error);
    if (status == HF_OK)
        return HF_OK;
    name_file(cli, path.data);
    new_file_release(ret_file);
    return status;
}

enum hf_status target_keep(struct cli *cli, struct new_file *file)
{
    enum hf_status status = HF_OK;
    if (fsync(file->fd) != 0)
        status = fail_errno(cli, "sync it");
    if (status == HF_OK)
        status = new_file_keep(file, &cli->error);
    if (status != HF_OK)
        name_file(cli, file->path);
    new_file_release(file);
    return status;
}

/* Nothing goes out before all of it has come. */
static enum hf_status fetch_to_stream(struct cli *cli, int to, fetch_fn *fetch, void *argument)
{
    int spool;
    enum hf_status status = spool_open(cli, &spool);
    if (status != HF_OK)
        return status;
    status = fetch(argument, spool, &cli->error);
    if (status == HF_OK)
        status = spool_send(cli, spool, to);
    close(spool);
    return status;
}

static enum hf_status refuse_planted(struct cli *cli, const struct stat *st)
{
    return error_set(&cli->error, HF_DENIED,
                     "it is a pipe or a device that another user (uid %lu) made in a folder "
                     "where everybody may write: nothing is written to it",
                     (unsigned long)st->st_uid);
}

/* Checked before, since opening a pipe may wait for its reader, and after, since it may have become
 * another meanwhile. */
static enum hf_status open_stream(struct cli *cli, const struct safe_path *place, int *ret_fd)
{
    int follow = place->by_kernel ? 0 : AT_SYMLINK_NOFOLLOW;
    struct stat st;
    if (fstatat(place->folder, place->leaf, &st, follow) != 0)
        return fail_errno(cli, "look at it");
    if (is_planted(place->folder, &st))
        return refuse_planted(cli, &st);
    int fd = openat(place->folder, place->leaf,
                    O_WRONLY | O_CLOEXEC | (place->by_kernel ? 0 : O_NOFOLLOW));
    if (fd < 0 || fstat(fd, &st) != 0) {
        fail_errno(cli, "open it");
    } else if (is_planted(place->folder, &st)) {
        refuse_planted(cli, &st);
    } else {
        *ret_fd = fd;
        return HF_OK;
    }
    if (fd >= 0)
        close(fd);
    return cli->error.status;
}

enum hf_status target_open_stream(struct cli *cli, const char *path, int *ret_fd)
{
    struct safe_path place;
    enum hf_status status = safe_path_open(path, &place, &cli->error);
    if (status == HF_OK)
        status = open_stream(cli, &place, ret_fd);
    safe_path_close(&place);
    if (status != HF_OK)
        name_file(cli, path);
    return status;
}

static enum hf_status fetch_to_device(struct cli *cli, const char *path, fetch_fn *fetch,
                                      void *argument)
{
    int fd;
    enum hf_status status = target_open_stream(cli, path, &fd);
    if (status != HF_OK)
        return status;
    status = fetch_to_stream(cli, fd, fetch, argument);
    close(fd);
    return status;
}

static enum hf_status fetch_to_file(struct cli *cli, const char *path, fetch_fn *fetch,
                                    void *argument)
{
    struct new_file file;
    enum hf_status status = target_create(cli, view_of(path), &file);
    if (status != HF_OK)
        return status;
    status = fetch(argument, file.fd, &cli->error);
    if (status == HF_OK)
        return target_keep(cli, &file);
    new_file_release(&file);
    return status;
}

enum hf_status target_fetch(struct cli *cli, const char *path, fetch_fn *fetch, void *argument,
                            bool *ret_file)
{
    bool stream = false;
    *ret_file = false;
    if (is_stdout(path))
        return fetch_to_stream(cli, STDOUT_FILENO, fetch, argument);
    enum hf_status status = target_is_stream(cli, view_of(path), &stream);
    if (status != HF_OK)
        return status;
    *ret_file = !stream;
    return stream ? fetch_to_device(cli, path, fetch, argument)
                  : fetch_to_file(cli, path, fetch, argument);
}
