#include "cli/connect.h"

#include "lock/client.h"

#include <stdio.h>
#include <unistd.h>

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
    return status == HF_OK ? client_new(cli->store, &options, ret_client, &cli->error) : status;
}
