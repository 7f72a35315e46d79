/* index_desk.c: the index that a command works on, and what it is told about it. */
#include "cli/connect.h"
#include "cli/index.h"

/* ---- Opening ------------------------------------------------------------------------- */

#define NAME_BYTES 256

struct similar {
    struct nearest nearest;
    char name[NAME_BYTES]; /* the nearest so far; empty: none is near */
};

static bool offer(void *argument, const char *name)
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

static enum hf_status tell_missing(struct index_desk *desk, const char *name)
{
    struct cli *cli = desk->cli;
    struct similar similar = { .nearest = { .wanted = view_of(name) } };
    hf_index_list(desk->client, offer, &similar, /* error */ NULL);
    if (similar.name[0])
        return error_set(&cli->error, HF_NOT_FOUND,
                         "there is no index '%s'; did you mean '%s'? 'holdfast index create' "
                         "makes one",
                         name, similar.name);
    return error_set(&cli->error, HF_NOT_FOUND,
                     "there is no index '%s'; 'holdfast index create %s --fields a,b,c "
                     "--key a --time c' makes one",
                     name, name);
}

enum hf_status index_desk_open(struct index_desk *desk, struct cli *cli)
{
    *desk = (struct index_desk){ .cli = cli, .info = HF_INDEX_INFO };
    const char *name = cli->arguments[0];
    enum hf_status status = cli_connect(cli, HF_CLIENT_OPTIONS, &desk->client);
    if (status != HF_OK)
        return status;
    status = hf_index_open(desk->client, name, &desk->index, &cli->error);
    if (status == HF_NOT_FOUND)
        return tell_missing(desk, name);
    return status == HF_OK ? hf_index_describe(desk->index, &desk->info, &cli->error) : status;
}

void index_desk_close(struct index_desk *desk)
{
    hf_index_close(desk->index);
    hf_client_close(desk->client);
}

enum hf_status index_option_error(struct cli *cli, enum hf_status status)
{
    static const char *const names[] = { "shard takes", "since takes", "where:" };
    struct hf_error given = cli->error;
    for (size_t i = 0; status == HF_INVALID && i < sizeof names / sizeof *names; i++)
        if (strncmp(given.why, names[i], strlen(names[i])) == 0)
            error_set(&cli->error, status, "--%s", given.why);
    return status;
}

/* ---- Formats ------------------------------------------------------------------------- */

enum hf_status index_format_option(struct cli *cli, enum hf_index_format usual,
                                   enum hf_index_format *ret_format)
{
    const struct option_value *value = cli_option(cli, "format");
    *ret_format = usual;
    if (!value)
        return HF_OK;
    for (unsigned i = 0; i < HF_INDEX_FORMAT_COUNT; i++)
        if (view_equal(value->text, view_of(hf_index_format_name((enum hf_index_format)i)))) {
            *ret_format = (enum hf_index_format)i;
            return HF_OK;
        }
    return error_set(&cli->error, HF_INVALID,
                     "--format takes usv, csv, tsv or ndjson, not '%.*s'",
                     VIEW_ARGS(view_first(value->text, 40)));
}
