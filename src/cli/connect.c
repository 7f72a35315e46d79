/* connect.c: opening the store of the command line. */
#include "cli/connect.h"

#include "cli/trace.h"
#include "lock/client.h"

#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

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
    options.trace = cli_given(cli, "trace") ? trace_request : NULL;
    options.trace_argument = cli;
    options.warn = warn_once;
    options.warn_argument = cli;
    keep_secrets(url);
    return hf_store_open(text.data, &options, ret_store, &cli->error);
}

static enum hf_status open_main(struct cli *cli, bool coordinates, struct hf_store **ret_store)
{
    struct view url = { NULL, 0 };
    enum hf_status status = cli_find_store(cli, &url);
    if (status != HF_OK)
        return status;
    if (coordinates && !cli->command->only_reads)
        cli_tell_default_store(cli);
    return cli_open_url(cli, url, coordinates, cli->command->only_reads, ret_store);
}

static enum hf_status open_into_cli(struct cli *cli, bool coordinates)
{
    enum hf_status status = open_main(cli, coordinates, &cli->handle);
    if (status == HF_OK)
        cli->store = cli->handle->store;
    return status;
}

enum hf_status cli_open_store(struct cli *cli)
{
    return open_into_cli(cli, /* coordinates */ true);
}

enum hf_status cli_open_objects(struct cli *cli)
{
    return open_into_cli(cli, /* coordinates */ false);
}

/* The handle stays with us until the command ends; the store in it is the caller's. */
enum hf_status cli_open(struct cli *cli, struct view url, enum bucket_use use,
                        struct store **ret_store)
{
    struct hf_store *handle = NULL;
    bool coordinates = use == BUCKET_LOCKS;
    enum hf_status status = url.data ? cli_find_store(cli, &url) : HF_OK;
    if (status == HF_OK)
        status = url.data
                     ? cli_open_url(cli, url, coordinates, cli->command->only_reads, &handle)
                     : open_main(cli, coordinates, &handle);
    if (status != HF_OK)
        return status;
    if (cli->lent_count == CLI_LENT_MAX) {
        hf_store_close(handle);
        return error_set(&cli->error, HF_UNAVAILABLE, "too many stores are open");
    }
    cli->lent[cli->lent_count++] = handle;
    *ret_store = handle->store;
    return HF_OK;
}

void cli_close_stores(struct cli *cli)
{
    if (cli->handle)
        hf_store_close(cli->handle);
    else
        store_close(cli->store);
    for (size_t i = 0; i < cli->lent_count; i++) {
        cli->lent[i]->store = NULL; /* its user has closed it */
        hf_store_close(cli->lent[i]);
    }
}

/* ---- Clients ------------------------------------------------------------------------- */

/* Whom others should look for. */
static const char *own_name(char *name, size_t size)
{
    char host[128] = "";
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0')
        snprintf(host, sizeof host, "unknown");
    snprintf(name, size, "%s-%ld", host, (long)getpid());
    return name;
}

enum hf_status cli_connect(struct cli *cli, struct hf_client_options options,
                           struct hf_client **ret_client)
{
    char name[HOLDER_BYTES_MAX + 1];
    if (!options.holder)
        options.holder = own_name(name, sizeof name);
    if (cli_has_option(cli, "max-ttl") && cli_given(cli, "max-ttl"))
        options.ttl_max_ms = cli_option(cli, "max-ttl")->span.us / 1000;
    enum hf_status status = cli->store ? HF_OK : cli_open_store(cli);
    if (status != HF_OK)
        return status;
    if (!cli->handle) /* a metered store */
        return client_new(cli->store, &options, ret_client, &cli->error);
    return hf_client_open_on(cli->handle, &options, ret_client, &cli->error);
}
