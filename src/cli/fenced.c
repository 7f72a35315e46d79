/* fenced.c: `write` and `read`: objects that refuse a holder whose lock is lost. */
#include "cli/connect.h"
#include "cli/files.h"
#include "cli/json_add.h"
#include "cli/lock.h"
#include "store/stream.h"

#include <unistd.h>

/* ---- write --------------------------------------------------------------------------- */

static enum hf_status write_under(struct cli *cli, struct hf_lock *lock, int fd)
{
    const char *key = cli->arguments[0];
    uint64_t size;
    enum hf_status status = file_size(fd, &size, &cli->error);
    if (status == HF_OK)
        status = hf_fenced_put_file(lock, key, fd, &cli->error);
    if (status == HF_OK && cli->json) {
        json_t *object = json_pack("{s:I, s:I}", "token", (json_int_t)hf_lock_token(lock),
                                   "size_bytes", (json_int_t)size);
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
    enum hf_status status = source_take(cli, cli->arguments[1], cli_argument(cli, 0), &fd);
    if (status != HF_OK)
        return status;
    status = !lock || is_lease_text(lock) ? write_with_lease(cli, lock, fd)
                                          : write_with_scope(cli, lock, fd);
    close(fd);
    return status;
}

/* ---- read ---------------------------------------------------------------------------- */

struct reading {
    struct hf_client *client;
    const char *key;
    uint64_t token;
    uint64_t size;
};

static enum hf_status fetch(void *argument, int fd, struct hf_error *error)
{
    struct reading *reading = argument;
    enum hf_status status =
        hf_fenced_get_file(reading->client, reading->key, fd, &reading->token, error);
    return status == HF_OK ? file_size(fd, &reading->size, error) : status;
}

static json_t *reading_as_json(const struct reading *reading, const char *path)
{
    json_t *object = json_pack("{s:I, s:I}", "token", (json_int_t)reading->token, "size_bytes",
                               (json_int_t)reading->size);
    json_add_key(&object, "key", view_of(reading->key));
    json_add_key(&object, "file", view_of(path));
    return object;
}

enum hf_status run_read(struct cli *cli)
{
    struct reading reading = { .key = cli->arguments[0] };
    const char *path = cli->argument_count > 1 ? cli->arguments[1] : NULL;
    bool is_file = false;
    enum hf_status status = cli_connect(cli, HF_CLIENT_OPTIONS, &reading.client);
    if (status == HF_OK)
        status = target_fetch(cli, path, fetch, &reading, &is_file);
    if (status == HF_OK && is_file && cli->json)
        output_json(&cli->out, reading_as_json(&reading, path));
    hf_client_close(reading.client);
    return status;
}
