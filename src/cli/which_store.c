/* which_store.c: which store a command works on: of --store, of $HOLDFAST_STORE, or the user's own,
 * and by a URL that means the same one in every folder. */
#include "cli/cli.h"
#include "cli/lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static enum hf_status main_url(struct cli *cli, struct view *ret_url)
{
    const char *variable = getenv("HOLDFAST_STORE");
    const struct option_value *option = cli_option(cli, "store");
    if (!option && variable && variable[0] == '\0')
        return error_set(&cli->error, HF_INVALID,
                         "HOLDFAST_STORE is empty: set it to the URL of a store, such as "
                         "s3://BUCKET/PREFIX, or unset it for your local store");
    cli->uses_default = !option && !variable;
    *ret_url = option ? option->text : variable ? view_of(variable) : VIEW("sqlite:");
    return HF_OK;
}

static enum hf_status make_absolute(struct cli *cli, struct view given, struct view *ret_url)
{
    char url[HF_STORE_URL_MAX];
    enum hf_status status = hf_store_url_absolute(given.data, url, &cli->error);
    if (status != HF_OK)
        return status;
    *ret_url = arena_copy(&cli->arena, view_of(url));
    return ret_url->data ? HF_OK : error_no_memory(&cli->error);
}

enum hf_status cli_find_store(struct cli *cli, struct view *url)
{
    if (url->data)
        return make_absolute(cli, *url, url);
    enum hf_status status = HF_OK;
    struct view given = { NULL, 0 };
    if (!cli->store_url.data) {
        status = main_url(cli, &given);
        if (status == HF_OK)
            status = make_absolute(cli, given, &cli->store_url);
    }
    *url = cli->store_url;
    return status;
}

void cli_tell_default_store(struct cli *cli)
{
    char user[USER_TEXT_MAX];
    if (cli->uses_default && !cli->quiet && !cli->json && isatty(STDERR_FILENO) == 1)
        fprintf(stderr,
                "holdfast: using the local store of user %s; set HOLDFAST_STORE to share it\n",
                user_name(user));
}
