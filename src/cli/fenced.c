/* fenced.c: `write` and `read`: objects that refuse a holder whose lock is lost. */
#include "cli/connect.h"
#include "cli/files.h"
#include "cli/lock.h"
#include "store/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static bool is_standard(const char *path)
{
    return !path || strcmp(path, "-") == 0;
}

/* ---- write --------------------------------------------------------------------------- */

/* The bytes to write as a file that can be read from its start: FILE itself, or a spool. */
static enum hf_status open_source(struct cli *cli, const char *path, int *ret_fd)
{
    int fd = STDIN_FILENO, spool;
    bool regular = false;
    enum hf_status status = HF_OK;
    if (!is_standard(path))
        status = source_open(cli, view_of(path), &fd, &regular);
    if (status != HF_OK || regular) {
        *ret_fd = fd;
        return status;
    }
    status = spool_open(cli, &spool);
    if (status == HF_OK) {
        struct gauge gauge;
        gauge_start(&gauge, cli, cli_argument(cli, 0));
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

static enum hf_status write_under(struct cli *cli, struct hf_lock *lock, int fd)
{
    const char *key = cli->arguments[0];
    uint64_t size;
    enum hf_status status = file_size(fd, &size, &cli->error);
    if (status == HF_OK)
        status = hf_fenced_put_file(lock, key, fd, &cli->error);
    if (status == HF_OK && cli->json) {
        json_t *object = json_pack("{s:I, s:I}", "token", (json_int_t)hf_lock_token(lock),
                                   "size", (json_int_t)size);
        if (object)
            json_set_key(object, "key", view_of(key));
        output_json(&cli->out, object);
    }
    return status;
}

/* With a lease that is somebody else's to release. */
static enum hf_status write_with_lease(struct cli *cli, const char *lease, int fd)
{
    struct hf_client *client = NULL;
    struct hf_lock *lock = NULL;
    enum hf_status status = lease_adopt(cli, lease, /* renew */ true, &client, &lock);
    if (status == HF_OK)
        status = write_under(cli, lock, fd);
    hf_lock_detach(lock);
    hf_client_close(client);
    return status;
}

/* Holds the lock meanwhile. What was written is safe even when the lock could not be given back
 * in order: then it ends by itself. */
static enum hf_status write_with_scope(struct cli *cli, const char *scope, int fd)
{
    struct hf_client *client = NULL;
    struct hf_lock *lock = NULL;
    struct hf_lock_options options;
    enum hf_status status = lock_options(cli, /* has_modes */ false, &options);
    if (status == HF_OK)
        status = lock_connect(cli, /* holder */ NULL, &client);
    if (status == HF_OK)
        status = hf_lock_new(client, scope, &options, &lock, &cli->error);
    if (status == HF_OK)
        status = lock_acquire(cli, lock);
    if (status == HF_OK) {
        status = write_under(cli, lock, fd);
        hf_lock_release(lock, NULL);
    }
    hf_lock_free(lock);
    hf_client_close(client);
    return status;
}

enum hf_status run_write(struct cli *cli)
{
    const char *lock = option_text(cli, "lock");
    int fd;
    enum hf_status status = open_source(cli, cli->arguments[1], &fd);
    if (status != HF_OK)
        return status;
    status = !lock || is_lease_text(lock) ? write_with_lease(cli, lock, fd)
                                          : write_with_scope(cli, lock, fd);
    close(fd);
    return status;
}

/* ---- read ---------------------------------------------------------------------------- */

/* Nothing goes out before the whole object has come. */
static enum hf_status read_to_stream(struct cli *cli, struct hf_client *client, int to)
{
    int spool;
    enum hf_status status = spool_open(cli, &spool);
    if (status != HF_OK)
        return status;
    status =
        hf_fenced_get_file(client, cli->arguments[0], spool, /* ret_token */ NULL, &cli->error);
    if (status == HF_OK)
        status = spool_send(cli, spool, to);
    close(spool);
    return status;
}

static enum hf_status read_to_device(struct cli *cli, struct hf_client *client,
                                     const char *path)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return error_from_errno(&cli->error, errno, "open the file");
    enum hf_status status = read_to_stream(cli, client, fd);
    close(fd);
    return status;
}

static enum hf_status read_to_file(struct cli *cli, struct hf_client *client, const char *path)
{
    struct new_file file;
    uint64_t token = 0, size = 0;
    enum hf_status status = target_create(cli, view_of(path), &file);
    if (status != HF_OK)
        return status;
    status = hf_fenced_get_file(client, cli->arguments[0], file.fd, &token, &cli->error);
    if (status == HF_OK)
        status = file_size(file.fd, &size, &cli->error);
    if (status != HF_OK) {
        target_drop(&file);
        return status;
    }
    status = target_keep(cli, &file);
    if (status == HF_OK && cli->json) {
        json_t *object =
            json_pack("{s:I, s:I}", "token", (json_int_t)token, "size", (json_int_t)size);
        if (object) {
            json_set_key(object, "key", view_of(cli->arguments[0]));
            json_set_key(object, "file", view_of(path));
        }
        output_json(&cli->out, object);
    }
    return status;
}

enum hf_status run_read(struct cli *cli)
{
    struct hf_client *client = NULL;
    const char *path = cli->argument_count > 1 ? cli->arguments[1] : NULL;
    bool stream = false;
    enum hf_status status = HF_OK;
    if (!is_standard(path))
        status = target_is_stream(cli, view_of(path), &stream);
    if (status == HF_OK)
        status = cli_connect(cli, HF_CLIENT_OPTIONS, &client);
    if (status != HF_OK)
        return status;
    if (is_standard(path))
        status = read_to_stream(cli, client, STDOUT_FILENO);
    else
        status = stream ? read_to_device(cli, client, path) : read_to_file(cli, client, path);
    hf_client_close(client);
    return status;
}
