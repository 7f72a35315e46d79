/* SPDX-License-Identifier: Apache-2.0 */
/* change.c: `key update` and `key rm`: change the state of a key under an existing lease or, with
 * --take, in one write if the key is free, and otherwise under a lease for this one change. */
#include "cli/files.h"
#include "cli/key/key.h"

#include <stdio.h>
#include <unistd.h>

struct changing {
    struct key_context context;
    struct hf_key_options options;
    struct hf_key_if when;
    int fd; /* the new state; -1: the key is removed */
};

static enum hf_status check_take(struct cli *cli)
{
    static const char *const goes_with[] = { "ttl", "wait", "no-wait", "conflict-exit-code" };
    static const char *const excluded[] = { "txn", "staged" };
    bool takes = cli_given(cli, "take");
    for (size_t i = 0; i < sizeof goes_with / sizeof goes_with[0]; i++)
        if (!takes && cli_given(cli, goes_with[i]))
            return cli_invalid(cli,
                               "--%s requires --take; an existing lease cannot be changed here",
                               goes_with[i]);
    for (size_t i = 0; i < sizeof excluded / sizeof excluded[0]; i++)
        if (takes && cli_given(cli, excluded[i]))
            return cli_invalid(cli,
                               "--take publishes at once and releases the key, so --%s cannot "
                               "be used with it; acquire a lease with 'holdfast key acquire' "
                               "instead",
                               excluded[i]);
    if (cli_given(cli, "txn") && cli_given(cli, "staged"))
        return cli_invalid(cli, "--txn already stages the change; omit --staged");
    return HF_OK;
}

/* Larger states are written from their file, under a lease. */
#define AT_ONCE_MAX 4096

/* Changes the key if it is free at this moment. HELD: it is not, or the state is too large. */
static enum hf_status change_if_free(struct changing *changing, const char *name)
{
    struct key_context *context = &changing->context;
    struct hf_key_change_options options = HF_KEY_CHANGE_OPTIONS;
    char bytes[AT_ONCE_MAX + 1];
    ssize_t size = changing->fd >= 0 ? pread(changing->fd, bytes, sizeof bytes, 0) : 0;
    if (size < 0 || size > AT_ONCE_MAX)
        return HF_HELD;
    options.removes = changing->fd < 0;
    options.when = &changing->when;
    options.free_only = true; /* the command waits in its own way */
    context->name = name;
    return hf_key_change(context->cli->client, name, bytes, (size_t)size, &options,
                         &context->info, &context->cli->error);
}

/* Changes the key under the lease of the context. */
static enum hf_status change_held(struct changing *changing)
{
    struct key_context *context = &changing->context;
    struct hf_error *error = &context->cli->error;
    return changing->fd >= 0
               ? hf_key_update_file(context->key, changing->fd, &changing->when, &context->info,
                                    error)
               : hf_key_remove(context->key, &changing->when, &context->info, error);
}

/* Changes the key under its existing lease or, with --take, in one write or under a lease for this
 * change. A failed release is ignored, because the change is published and the lease expires on its
 * own. */
static enum hf_status change_state(struct changing *changing)
{
    struct key_context *context = &changing->context;
    struct cli *cli = context->cli;
    const char *name = cli->arguments[0];
    bool takes = cli_given(cli, "take"), done = false;
    enum hf_status status =
        takes ? cli_connect(cli) : key_context_adopt(context, name, &changing->options);
    if (status == HF_OK && takes) {
        status = change_if_free(changing, name);
        done = status != HF_HELD;
        if (!done)
            status = key_context_take(context, name, &changing->options);
    }
    if (status == HF_OK && !done) {
        status = change_held(changing);
        done = true;
    }
    if (done && status == HF_UNSURE)
        error_prefix(&cli->error, "the outcome is unknown; check with 'holdfast key show'");
    if (done && status != HF_OK && status != HF_TIMEOUT) /* TIMEOUT: nobody holds the key */
        status = key_refused(cli, context->info.outcome);
    if (done && context->key && !context->adopted)
        hf_key_release(context->key, HF_COMMIT, /* error */ NULL);
    struct told_key told = told_key(cli, context->name, &context->info);
    told.staged = changing->options.staged || context->txn;
    if (status == HF_OK)
        record_tell(cli, changed_key_record, &told, "[{staged?}staged: ]" VERSION_TEXT "\n");
    key_context_close(context);
    return status;
}

/* For the library, an empty ETag means "any". It is refused here, because it probably comes from an
 * unset shell variable. The input is read before the key is acquired, so the lease is not held
 * while a user is typing. */
static enum hf_status change_key_state(struct cli *cli, bool removes)
{
    struct changing changing = {
        .context = KEY_CONTEXT(cli), .options = HF_KEY_OPTIONS, .when = HF_KEY_IF, .fd = -1
    };
    enum hf_status status = check_take(cli);
    if (status == HF_OK)
        status = key_options(cli, &changing.options);
    if (status != HF_OK)
        return status;
    changing.options.staged = cli_given(cli, "staged");
    changing.when.version_set = cli_given(cli, "if-version");
    changing.when.version = option_number(cli, "if-version", 0);
    changing.when.etag = option_text(cli, "if-etag");
    if (changing.when.etag && !changing.when.etag[0])
        return cli_invalid(cli,
                           "--if-etag is empty; use --if-version 0 for a key without a value");
    if (!removes)
        status = source_take(cli, option_text(cli, "from"), cli_argument(cli, 0), &changing.fd);
    if (status != HF_OK)
        return status;
    status = change_state(&changing);
    if (!removes)
        close(changing.fd);
    return status;
}

enum hf_status run_key_update(struct cli *cli)
{
    return change_key_state(cli, /* removes */ false);
}

enum hf_status run_key_rm(struct cli *cli)
{
    return change_key_state(cli, /* removes */ true);
}
