/* SPDX-License-Identifier: Apache-2.0 */
/* connect.c: finds a command's store (--store, $HOLDFAST_STORE, a configuration file, or the user's
 * local store), makes its URL absolute so that it is valid in every folder, and opens the store and
 * a client on it. */
#include "base/parse.h"
#include "cli/config/config.h"
#include "cli/lock/lock.h"
#include "cli/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

/* ---- Which store --------------------------------------------------------------------- */

static enum hf_status make_absolute(struct cli *cli, struct view given, struct view *ret_url)
{
    char url[HF_STORE_URL_MAX];
    enum hf_status status = cli_named_store(cli, &given);
    if (status == HF_OK)
        status = hf_store_url_absolute(given.data, url, &cli->error);
    if (status != HF_OK)
        return status;
    *ret_url = arena_copy(&cli->arena, view_of(url));
    return ret_url->data ? HF_OK : error_no_memory(&cli->error);
}

enum hf_status cli_find_store(struct cli *cli, struct view *url)
{
    if (url->data)
        return make_absolute(cli, *url, url);
    const char *variable = getenv("HOLDFAST_STORE"), *option = option_text(cli, "store");
    enum hf_status status = HF_OK;
    if (!cli->store_url.data) {
        if (!option && variable && variable[0] == '\0')
            return cli_invalid(cli,
                               "HOLDFAST_STORE is empty: set it to the URL of a store, such as "
                               "s3://BUCKET/PREFIX, or unset it for your local store");
        const struct config_setting *set =
            option || variable ? NULL : config_default(cli, "store");
        cli->uses_default = !option && !variable && !set;
        const char *given = option     ? option
                            : variable ? variable
                            : set      ? set->value.data
                                       : "sqlite:";
        status = make_absolute(cli, view_of(given), &cli->store_url);
    }
    *url = cli->store_url;
    return status;
}

/* ---- Stores -------------------------------------------------------------------------- */

void cli_warn(struct cli *cli, const char *sentence)
{
    log_message(cli, "warning", HF_OK, view_of(cli->command ? cli->command->path : ""),
                view_of(sentence));
    if (cli->json)
        write_error_line(json_pack("{s:s}", "warning", sentence));
    else
        fprintf(stderr, "holdfast: warning: %s\n", sentence);
}

/* Prints a warning only once, no matter how many stores are opened. */
static void warn_once(void *argument, const char *sentence)
{
    static bool told;
    if (told)
        return;
    told = true;
    cli_warn(argument, sentence);
}

/* If the user has named no store and the local store does not exist, the likely cause is that
 * HOLDFAST_STORE was not set in this shell. */
static enum hf_status check_default_store(struct cli *cli, const char *url)
{
    enum hf_status status = hf_store_check_present(url, &cli->error);
    if (status != HF_NOT_FOUND)
        return status;
    return error_set(&cli->error, HF_NOT_FOUND,
                     "HOLDFAST_STORE is not set, and the local store '%.110s' does not exist "
                     "yet; set HOLDFAST_STORE to the URL of the shared store",
                     url + strlen("sqlite:"));
}

enum hf_status cli_open_url(struct cli *cli, struct view url, bool coordinates, bool must_exist,
                            struct hf_store **ret_store)
{
    struct hf_store_options options = HF_STORE_OPTIONS;
    struct view text = arena_copy(&cli->arena, url); /* adds a NUL */
    if (!text.data)
        return error_no_memory(&cli->error);
    bool is_default = cli->uses_default && view_equal(url, cli->store_url);
    if (must_exist && is_default && check_default_store(cli, text.data) != HF_OK)
        return cli->error.status;
    options.coordinates = coordinates;
    options.must_exist = must_exist;
    options.trace = cli->counts_requests || log_wants_requests(cli) ? log_request : NULL;
    options.trace_argument = cli;
    options.warn = warn_once;
    options.warn_argument = cli;
    /* Disables core dumps, because memory contains the store's credentials. Programs that we start
     * can dump core as usual. */
    if (!view_starts_with(url, VIEW("dir:")) && !view_starts_with(url, VIEW("sqlite:")) &&
        !view_starts_with(url, VIEW("mem:")))
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    return hf_store_open(text.data, &options, ret_store, &cli->error);
}

enum hf_status cli_open_for_deletes(struct cli *cli, struct view url, bool must_exist,
                                    struct hf_store **ret_store)
{
    enum hf_status status =
        cli_open_url(cli, url, /* coordinates */ true, must_exist, ret_store);
    if (status == HF_UNSUPPORTED || status == HF_CORRUPT)
        status = cli_open_url(cli, url, /* coordinates */ false, must_exist, ret_store);
    return status;
}

/* Reminds the user, on a terminal, that the default store is local and not shared. */
static enum hf_status open_main(struct cli *cli, bool coordinates)
{
    struct view url = { NULL, 0 };
    char user[USER_TEXT_MAX];
    enum hf_status status = cli_find_store(cli, &url);
    if (status != HF_OK)
        return status;
    if (coordinates && !cli->command->only_reads && cli->uses_default && !cli->quiet &&
        !cli->json && isatty(STDERR_FILENO) == 1)
        fprintf(stderr,
                "holdfast: using the local store of user %s; set HOLDFAST_STORE to share it\n",
                user_name(user));
    return cli_open_url(cli, url, coordinates, cli->command->only_reads, &cli->handle);
}

enum hf_status cli_open_store(struct cli *cli)
{
    return open_main(cli, /* coordinates */ true);
}

enum hf_status cli_open_objects(struct cli *cli)
{
    return open_main(cli, /* coordinates */ false);
}

/* ---- Clients ------------------------------------------------------------------------- */

enum hf_status cli_connect_another(struct cli *cli, const struct hf_client_options *options,
                                   struct hf_client **ret_client)
{
    enum hf_status status = cli->handle ? HF_OK : cli_open_store(cli);
    struct hf_client_options logged = HF_CLIENT_OPTIONS;
    if (options)
        logged = *options;
    if (log_wants_events(cli) && !logged.event) {
        logged.event = log_event;
        logged.event_argument = cli;
    }
    return status == HF_OK ? hf_client_open_on(cli->handle, &logged, ret_client, &cli->error)
                           : status;
}

/* The library takes 0 for the default, so a longest ttl of 0 is refused here. */
static enum hf_status set_longest_ttl(struct cli *cli, struct hf_client_options *options)
{
    const struct option_value *given = cli_option(cli, "max-ttl");
    if (!given)
        return HF_OK;
    options->ttl_max_ms = option_ms(cli, "max-ttl", 0);
    enum hf_status status = ttl_check(given->span, SPAN_MS(HF_TTL_MS_MIN),
                                      SPAN_MS(HF_TTL_MS_MAX), NULL, &cli->error);
    if (status != HF_OK)
        error_prefix(&cli->error, "the longest ttl");
    return status;
}

enum hf_status cli_connect_as(struct cli *cli, const char *ns, const char *holder)
{
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    options.ns = !ns && cli_has_option(cli, "ns") ? option_text(cli, "ns") : ns;
    options.holder = holder;
    if (cli_has_option(cli, "max-ttl") && set_longest_ttl(cli, &options) != HF_OK)
        return cli->error.status;
    return cli_connect_another(cli, &options, &cli->client);
}

enum hf_status cli_connect(struct cli *cli)
{
    return cli_connect_as(cli, /* ns */ NULL, /* holder */ NULL);
}

enum hf_status cli_connect_as_user(struct cli *cli)
{
    char user[USER_TEXT_MAX];
    const char *holder = option_text(cli, "holder");
    return cli_connect_as(cli, /* ns */ NULL, holder ? holder : user_text(user));
}

enum hf_status cli_open(struct cli *cli)
{
    switch (cli->command->opens) {
    case OPENS_NOTHING: return HF_OK;
    case OPENS_OBJECTS: return cli_open_objects(cli);
    case OPENS_STORE: return cli_open_store(cli);
    case OPENS_CLIENT: return cli_connect(cli);
    case OPENS_PARTITION: return cli_open_partition(cli, /* options */ NULL);
    case OPENS_INDEX: return cli_open_index(cli);
    }
    return HF_OK;
}

void cli_disconnect(struct cli *cli)
{
    log_wait_release(cli);
    hf_index_close(cli->index);
    hf_compact_close(cli->compact);
    hf_client_close(cli->client);
    cli->index = NULL;
    cli->compact = NULL;
    cli->client = NULL;
}
