/* connect.c: opening the store of the command line. */
#include "cli/connect.h"

#include "cli/trace.h"

#include <stdio.h>
#include <sys/prctl.h>

/* ---- Stores -------------------------------------------------------------------------- */

/* Told once, however many stores are opened. */
static void warn_once(void *argument, const char *sentence)
{
    static bool told;
    struct cli *cli = argument;
    if (told)
        return;
    told = true;
    if (cli->json)
        write_error_line(json_pack("{s:s}", "warning", sentence));
    else
        fprintf(stderr, "holdfast: warning: %s\n", sentence);
}

/* Keys are in the environment, and in what libraries leave behind: no core dump shows them. What we
 * start is dumped as ever. */
static void keep_secrets(struct view url)
{
    if (view_starts_with(url, VIEW("s3:")))
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

enum hf_status cli_open_url(struct cli *cli, struct view url, bool coordinates, bool must_exist,
                            struct hf_store **ret_store)
{
    struct hf_store_options options = HF_STORE_OPTIONS;
    struct view text = arena_copy(&cli->arena, url); /* with a NUL behind it */
    if (!text.data)
        return error_no_memory(&cli->error);
    options.coordinates = coordinates;
    options.must_exist = must_exist;
    options.trace = cli->counts_requests || cli_given(cli, "trace") ? trace_request : NULL;
    options.trace_argument = cli;
    options.warn = warn_once;
    options.warn_argument = cli;
    keep_secrets(url);
    return hf_store_open(text.data, &options, ret_store, &cli->error);
}

static enum hf_status open_main(struct cli *cli, bool coordinates)
{
    struct view url = { NULL, 0 };
    enum hf_status status = cli_find_store(cli, &url);
    if (status != HF_OK)
        return status;
    if (coordinates && !cli->command->only_reads)
        cli_tell_default_store(cli);
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

enum hf_status cli_connect(struct cli *cli, struct hf_client_options options,
                           struct hf_client **ret_client)
{
    if (cli_has_option(cli, "max-ttl") && cli_given(cli, "max-ttl"))
        options.ttl_max_ms = cli_option(cli, "max-ttl")->span.us / 1000;
    enum hf_status status = cli->handle ? HF_OK : cli_open_store(cli);
    if (status != HF_OK)
        return status;
    return hf_client_open_on(cli->handle, &options, ret_client, &cli->error);
}
