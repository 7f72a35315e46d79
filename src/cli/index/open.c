/* SPDX-License-Identifier: Apache-2.0 */
/* open.c: opens the index that a command works on, and suggests a similar name if it does not
 * exist. */
#include "cli/index/index.h"

#define NAME_BYTES 256

struct similar {
    struct nearest nearest;
    char name[NAME_BYTES]; /* the most similar name so far; empty: none is similar */
};

static bool offer_index(void *argument, const char *name)
{
    struct similar *similar = argument;
    size_t before = similar->nearest.distance;
    similar->nearest.best.data = similar->name[0] ? similar->name : NULL;
    nearest_offer(&similar->nearest, view_of(name));
    if (similar->nearest.best.data == name && strlen(name) < NAME_BYTES)
        memcpy(similar->name, name, strlen(name) + 1);
    else
        similar->nearest.distance = before;
    return true;
}

enum hf_status cli_open_index(struct cli *cli)
{
    const char *name = cli->arguments[0];
    struct similar similar = { .nearest = { .wanted = view_of(name) } };
    cli->info = HF_INDEX_INFO;
    enum hf_status status = cli_connect(cli);
    if (status == HF_OK)
        status = hf_index_open(cli->client, name, &cli->index, &cli->error);
    if (status == HF_OK)
        return hf_index_describe(cli->index, &cli->info, &cli->error);
    if (status != HF_NOT_FOUND || !cli->client)
        return status;
    hf_index_list(cli->client, offer_index, &similar, /* error */ NULL);
    if (strcmp(similar.name, name) == 0) /* it is there, but is being dropped */
        return status;
    if (similar.name[0])
        return error_set(
            &cli->error, HF_NOT_FOUND,
            "there is no index '%s'; did you mean '%s'? 'holdfast index create' creates one",
            name, similar.name);
    return error_set(&cli->error, HF_NOT_FOUND,
                     "there is no index '%s'; 'holdfast index create %s --fields a,b,c --key a "
                     "--time c' creates one",
                     name, name);
}

enum hf_status index_option_error(struct cli *cli, enum hf_status status)
{
    static const char *const names[] = { "shard takes", "since takes",
                                         "where:", "sort:", "time takes" };
    struct hf_error given = cli->error;
    if (status != HF_INVALID)
        return status;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(given.why, names[i], strlen(names[i])) == 0)
            error_set(&cli->error, status, "--%s", given.why);
    return status;
}

enum hf_status index_format_option(struct cli *cli, enum hf_index_format usual,
                                   enum hf_index_format *ret_format)
{
    const char *given = option_text(cli, "format");
    *ret_format = usual;
    if (!given)
        return HF_OK;
    for (*ret_format = 0; *ret_format < HF_INDEX_FORMAT_COUNT; ++*ret_format)
        if (strcmp(given, hf_index_format_name(*ret_format)) == 0)
            return HF_OK;
    return cli_invalid(cli, "--format takes usv, csv, tsv or ndjson, not '%.40s'", given);
}
