/* SPDX-License-Identifier: Apache-2.0 */
/* spool.c: copies pipes and devices to scratch files, waiting for all of them at once. */
#include "merge/spool.h"

#include "file/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE_BYTES (256 * KIB)

/* How often the caller is asked whether to go on while nothing arrives. */
#define ASK_MS 200

/* ---- Opening ------------------------------------------------------------------------- */

static bool is_stream(const struct stat *info)
{
    return !S_ISREG(info->st_mode) && !S_ISDIR(info->st_mode);
}

/* Sets spool->from if the input is a stream. A named pipe is opened without waiting for a writer;
 * poll waits for it instead. */
static enum hf_status open_stream(const struct hf_merge_file *input, struct spool *spool,
                                  struct hf_error *error)
{
    struct stat info;
    if (!input->path) {
        if (fstat(input->fd, &info) == 0 && is_stream(&info))
            spool->from = input->fd;
        return HF_OK;
    }
    if (stat(input->path, &info) != 0 || !is_stream(&info))
        return HF_OK;
    spool->from = open(input->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    spool->is_ours = spool->from >= 0;
    return spool->is_ours ? HF_OK : error_cannot_open(error, errno, input->path);
}

enum hf_status spools_add(struct spools *spools, const struct hf_merge_file *input,
                          const char *name, const char *folder, int *ret_copy,
                          struct hf_error *error)
{
    struct spool spool = { .from = -1, .copy = -1, .name = name };
    *ret_copy = -1;
    enum hf_status status = open_stream(input, &spool, error);
    if (status != HF_OK || spool.from < 0)
        return status;
    spool.copy = nameless_file(folder);
    if (spool.copy < 0) {
        error_from_errno(error, errno, "create a scratch file for it");
        error_about(error, name);
        if (spool.is_ours)
            close(spool.from);
        return error->status;
    }
    spools->list[spools->count++] = spool;
    *ret_copy = spool.copy;
    return HF_OK;
}

void spools_release(struct spools *spools)
{
    for (size_t i = 0; i < spools->count; i++) {
        if (spools->list[i].is_ours && spools->list[i].from >= 0)
            close(spools->list[i].from);
        close(spools->list[i].copy);
    }
    spools->count = 0;
}

/* ---- Copying ------------------------------------------------------------------------- */

static enum hf_status write_copy(int to, const char *bytes, size_t size, struct hf_error *error)
{
    for (size_t done = 0; done < size;) {
        ssize_t wrote = write(to, bytes + done, size - done);
        if (wrote < 0 && errno != EINTR)
            return error_from_errno(error, errno, "write its copy to a scratch file");
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    return HF_OK;
}

/* Copies what has arrived; *ret_ended at the end of the input. */
static enum hf_status copy_some(struct spools *spools, struct spool *spool, char *piece,
                                bool *ret_ended, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    ssize_t got = read(spool->from, piece, PIECE_BYTES);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return HF_OK;
    if (got < 0)
        status = error_from_errno(error, errno, "read");
    else
        status = temporary_room(spool->copy, (size_t)got, error);
    if (status == HF_OK)
        status = write_copy(spool->copy, piece, (size_t)got, error);
    if (status != HF_OK) {
        error_about(error, spool->name);
        return status;
    }
    spools->bytes += (uint64_t)got;
    *ret_ended = got == 0;
    return HF_OK;
}

static void end_copy(struct spool *spool)
{
    if (spool->is_ours)
        close(spool->from);
    spool->from = -1;
}

static enum hf_status ask_to_go_on(const struct spools *spools,
                                   const struct merge_progress *progress,
                                   struct hf_error *error)
{
    if (!progress->step || progress->step(progress->context, spools->bytes, /* total */ 0))
        return HF_OK;
    return error_set(error, HF_CANCELLED, "stopped by the caller; nothing was written");
}

/* Waits until one of the inputs has data or has ended, and copies what there is. *ret_open: how
 * many have not ended. */
static enum hf_status copy_round(struct spools *spools, struct pollfd *polls, char *piece,
                                 size_t *ret_open, struct hf_error *error)
{
    size_t open = 0;
    for (size_t i = 0; i < spools->count; i++) /* poll ignores an entry of -1 */
        polls[i] = (struct pollfd){ .fd = spools->list[i].from, .events = POLLIN };
    if (poll(polls, spools->count, ASK_MS) < 0 && errno != EINTR)
        return error_from_errno(error, errno, "wait for the inputs");
    for (size_t i = 0; i < spools->count; i++) {
        bool ended = false;
        if (spools->list[i].from >= 0 && polls[i].revents) {
            enum hf_status status = copy_some(spools, &spools->list[i], piece, &ended, error);
            if (status != HF_OK)
                return status;
        }
        if (ended)
            end_copy(&spools->list[i]);
        open += spools->list[i].from >= 0;
    }
    *ret_open = open;
    return HF_OK;
}

enum hf_status spools_fill(struct spools *spools, const struct merge_progress *progress,
                           struct hf_error *error)
{
    enum hf_status status = HF_OK;
    size_t open = spools->count;
    if (open == 0)
        return HF_OK;
    struct pollfd *polls = calloc(spools->count, sizeof *polls);
    char *piece = malloc(PIECE_BYTES);
    if (!polls || !piece)
        status = error_no_memory(error);
    while (status == HF_OK && open > 0) {
        status = copy_round(spools, polls, piece, &open, error);
        if (status == HF_OK)
            status = ask_to_go_on(spools, progress, error);
    }
    free(polls);
    free(piece);
    return status;
}
