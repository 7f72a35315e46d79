/* key_change.c: `key update` and `key rm`: under a lease that somebody passes on, or one
 * that is taken meanwhile. */
#include "cli/files.h"
#include "cli/json_add.h"
#include "cli/key.h"

#include <stdio.h>
#include <unistd.h>

struct changing {
    struct key_desk desk;
    struct hf_key_options options;
    struct hf_key_if when;
    int fd; /* of what the key is to hold; -1: it is removed */
};

/* ---- Options ------------------------------------------------------------------------- */

static enum hf_status check_take(struct cli *cli)
{
    static const char *const goes_with[] = { "ttl", "wait", "no-wait" };
    static const char *const excluded[] = { "txn", "staged" };
    bool takes = cli_given(cli, "take");
    for (size_t i = 0; !takes && i < sizeof goes_with / sizeof goes_with[0]; i++)
        if (cli_given(cli, goes_with[i]))
            return error_set(&cli->error, HF_INVALID,
                             "--%s goes with --take: a lease that is there is as it was taken",
                             goes_with[i]);
    for (size_t i = 0; takes && i < sizeof excluded / sizeof excluded[0]; i++)
        if (cli_given(cli, excluded[i]))
            return error_set(&cli->error, HF_INVALID,
                             "--take publishes at once and gives the key back, so --%s goes "
                             "with a lease: 'key acquire' takes one",
                             excluded[i]);
    if (cli_given(cli, "txn") && cli_given(cli, "staged"))
        return error_set(&cli->error, HF_INVALID, "--txn stages by itself: leave --staged out");
    return HF_OK;
}

/* An empty ETag would mean any: more likely it is a variable that nobody has set. */
static enum hf_status take_options(struct changing *changing)
{
    struct cli *cli = changing->desk.cli;
    const struct option_value *version = cli_option(cli, "if-version");
    enum hf_status status = check_take(cli);
    if (status == HF_OK)
        status = key_options(cli, &changing->options);
    if (status != HF_OK)
        return status;
    changing->options.staged = cli_given(cli, "staged");
    changing->when.version_set = version != NULL;
    changing->when.version = version ? version->number : 0;
    changing->when.etag = option_text(cli, "if-etag");
    if (changing->when.etag && !changing->when.etag[0])
        return error_set(&cli->error, HF_INVALID,
                         "--if-etag is empty; --if-version 0 is for a key that holds nothing");
    return HF_OK;
}

/* ---- Changing ------------------------------------------------------------------------ */

static enum hf_status hold(struct changing *changing)
{
    struct key_desk *desk = &changing->desk;
    struct cli *cli = desk->cli;
    if (!cli_given(cli, "take"))
        return key_desk_adopt(desk, cli->arguments[0], &changing->options);
    enum hf_status status = lock_connect(cli, /* holder */ NULL, &desk->client);
    return status == HF_OK ? key_desk_take(desk, cli->arguments[0], &changing->options)
                           : status;
}

static enum hf_status change(struct changing *changing)
{
    struct key_desk *desk = &changing->desk;
    struct hf_error *error = &desk->cli->error;
    enum hf_status status =
        changing->fd >= 0
            ? hf_key_update_file(desk->key, changing->fd, &changing->when, &desk->info, error)
            : hf_key_remove(desk->key, &changing->when, &desk->info, error);
    if (status == HF_UNSURE)
        error_prefix(error, "nobody knows whether it happened ('key show' may tell)");
    return status == HF_OK ? HF_OK : key_refused(desk->cli, desk->info.outcome);
}

static void tell(struct changing *changing)
{
    const struct key_desk *desk = &changing->desk;
    struct cli *cli = desk->cli;
    bool staged = changing->options.staged || desk->txn;
    if (cli->json) {
        json_t *object = key_info_as_json(desk->name, &desk->info);
        json_add_bool(&object, "staged", staged);
        output_json(&cli->out, object);
    } else if (!cli->quiet) {
        struct buffer text = BUFFER_INIT(512);
        append_version(&text, &desk->info);
        output_print(&cli->out, "%s%.*s\n", staged ? "staged: " : "",
                     VIEW_ARGS(buffer_view(&text)));
        buffer_release(&text);
    }
}

/* What was published stays so even when the key could not be given back in order: then its lease
 * ends by itself. */
static enum hf_status change_key(struct changing *changing)
{
    struct key_desk *desk = &changing->desk;
    enum hf_status status = hold(changing);
    if (status == HF_OK) {
        status = change(changing);
        if (!desk->adopted)
            hf_key_release(desk->key, HF_COMMIT, /* error */ NULL);
    }
    if (status == HF_OK)
        tell(changing);
    key_desk_close(desk);
    return status;
}

/* The bytes are here before the key is taken: it is not held while somebody types. */
enum hf_status run_key_update(struct cli *cli)
{
    struct changing changing = { .desk = KEY_DESK(cli),
                                 .options = HF_KEY_OPTIONS,
                                 .when = HF_KEY_IF };
    enum hf_status status = take_options(&changing);
    if (status == HF_OK)
        status = source_take(cli, option_text(cli, "from"), cli_argument(cli, 0), &changing.fd);
    if (status != HF_OK)
        return status;
    status = change_key(&changing);
    close(changing.fd);
    return status;
}

enum hf_status run_key_remove(struct cli *cli)
{
    struct changing changing = {
        .desk = KEY_DESK(cli), .options = HF_KEY_OPTIONS, .when = HF_KEY_IF, .fd = -1
    };
    enum hf_status status = take_options(&changing);
    return status == HF_OK ? change_key(&changing) : status;
}
