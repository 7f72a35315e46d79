/* SPDX-License-Identifier: Apache-2.0 */
/* fenced.c: `write` and `read`: fenced objects, which refuse a writer that has lost its lock. */
#include "cli/files.h"
#include "cli/lock/lock.h"
#include "file/bytes.h"

#include <unistd.h>

/* A fenced object that was written or read, for its record. */
struct fenced {
    uint64_t token, size;
    const char *key, *file;
    struct cli *cli;
};

const struct field written_record[] = WRITTEN_RECORD;
const struct field read_record[] = READ_RECORD;

/* Acquires the lock given by --lock for this one write. */
static enum hf_status hold_scope(struct cli *cli, const char *scope, struct hf_lock **ret_lock)
{
    struct hf_lock_options options;
    enum hf_status status = lock_options(cli, /* has_modes */ false, &options);
    if (status == HF_OK)
        status = cli_connect(cli);
    if (status == HF_OK)
        status = hf_lock_new(cli->client, scope, &options, ret_lock, &cli->error);
    return status == HF_OK ? lock_acquire(cli, *ret_lock) : status;
}

/* A lease that exists already has its own ttl and namespace, and is not waited for. */
static enum hf_status check_adopted(struct cli *cli)
{
    static const char *const of_scopes[] = { "ttl", "wait", "no-wait", "conflict-exit-code",
                                             "ns" };
    for (size_t i = 0; i < sizeof of_scopes / sizeof of_scopes[0]; i++)
        if (cli_typed(cli, of_scopes[i]))
            return cli_invalid(cli,
                               "--%s requires --lock with a scope; an existing lease cannot be "
                               "changed here",
                               of_scopes[i]);
    return HF_OK;
}

/* A lease that the user passed in is released by another process. If our own release fails, the
 * failure is ignored, because the object is written and the lease expires on its own. */
enum hf_status run_write(struct cli *cli)
{
    const char *name = option_text(cli, "lock"), *key = cli->arguments[0];
    bool adopts = !name || is_lease_text(name);
    struct hf_lock *lock = NULL;
    uint64_t size;
    int fd;
    enum hf_status status = adopts ? check_adopted(cli) : HF_OK;
    if (status == HF_OK)
        status = source_take(cli, cli->arguments[1], view_of(key), &fd);
    if (status != HF_OK)
        return status;
    status =
        adopts ? lease_adopt(cli, name, /* renew */ true, &lock) : hold_scope(cli, name, &lock);
    bool held = status == HF_OK;
    if (status == HF_OK)
        status = file_size(fd, &size, &cli->error);
    if (status == HF_OK)
        status = hf_fenced_put_file(lock, key, fd, &cli->error);
    if (status == HF_OK)
        record_tell(cli, written_record,
                    &(struct fenced){ hf_lock_token(lock), size, key, NULL, cli }, NULL);
    if (held && !adopts)
        hf_lock_release(lock, NULL);
    if (adopts)
        hf_lock_detach(lock);
    else
        hf_lock_free(lock);
    close(fd);
    return status;
}

static enum hf_status fetch_fenced(void *argument, int fd, struct hf_error *error)
{
    struct fenced *fenced = argument;
    enum hf_status status =
        hf_fenced_get_file(fenced->cli->client, fenced->key, fd, &fenced->token, error);
    return status == HF_OK ? file_size(fd, &fenced->size, error) : status;
}

enum hf_status run_read(struct cli *cli)
{
    struct fenced fenced = { .cli = cli,
                             .key = cli->arguments[0],
                             .file = cli_argument(cli, 1).data };
    bool is_file = false;
    enum hf_status status = target_fetch(cli, fenced.file, fetch_fenced, &fenced, &is_file);
    if (status == HF_OK && is_file)
        record_tell(cli, read_record, &fenced, NULL);
    return status;
}
