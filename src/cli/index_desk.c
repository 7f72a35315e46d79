/* index_desk.c: the index that a command works on, and what it is told about it. */
#include "cli/connect.h"
#include "cli/index.h"

/* ---- Opening ------------------------------------------------------------------------- */

/* The name that is nearest to a mistyped one, of the first page of names; copied to `ret_name`,
 * which stays empty when none is near. */
static void find_similar(struct cli *cli, struct view name, char ret_name[INDEX_NAME_MAX + 1])
{
    struct nearest nearest = { .wanted = name };
    struct list_call list = { .prefix = VIEW(LAYOUT_INDEX_FOLDER), .delimiter = VIEW("/") };
    ret_name[0] = '\0';
    if (store_list(cli->store, &list) == HF_OK)
        for (size_t i = 0; i < list.count; i++) {
            struct view rest = view_from(list.entries[i].key, sizeof LAYOUT_INDEX_FOLDER - 1);
            nearest_offer(&nearest, view_cut(&rest, '/'));
        }
    if (nearest.best.data && nearest.best.size <= INDEX_NAME_MAX) {
        memcpy(ret_name, nearest.best.data, nearest.best.size);
        ret_name[nearest.best.size] = '\0';
    }
    list_release(&list);
}

static enum hf_status tell_missing(struct cli *cli, struct view name)
{
    char similar[INDEX_NAME_MAX + 1];
    find_similar(cli, name, similar);
    if (similar[0])
        return error_set(&cli->error, HF_NOT_FOUND,
                         "there is no index '%.*s'; did you mean '%s'? 'holdfast index create' "
                         "makes one",
                         VIEW_ARGS(name), similar);
    return error_set(&cli->error, HF_NOT_FOUND,
                     "there is no index '%.*s'; 'holdfast index create %.*s --fields a,b,c "
                     "--key a --time c' makes one",
                     VIEW_ARGS(name), VIEW_ARGS(name));
}

enum hf_status index_desk_open(struct index_desk *desk, struct cli *cli, bool compiles)
{
    *desk = (struct index_desk){ .cli = cli };
    struct view name = cli_argument(cli, 0);
    enum hf_status status =
        compiles ? cli_connect(cli, HF_CLIENT_OPTIONS, &desk->client) : cli_open_store(cli);
    if (status != HF_OK)
        return status;
    status = index_open(cli->store, desk->client, name, &desk->index, &cli->error);
    return status == HF_NOT_FOUND ? tell_missing(cli, name) : status;
}

void index_desk_close(struct index_desk *desk)
{
    index_close(desk->index);
    hf_client_close(desk->client);
}

/* ---- Shards --------------------------------------------------------------------------- */

/* Like shard_number, but digits may be in upper case, too. */
static bool read_shard(struct view text, unsigned digits, size_t *ret_number)
{
    char small[INDEX_DIGITS_MAX];
    if (text.size > sizeof small)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        bool upper = text.data[i] >= 'A' && text.data[i] <= 'F';
        small[i] = (char)(upper ? text.data[i] | 0x20 : text.data[i]);
    }
    return shard_number((struct view){ small, text.size }, digits, ret_number);
}

enum hf_status index_shard_option(struct index_desk *desk, struct shard_id *ret_shard)
{
    struct cli *cli = desk->cli;
    const struct option_value *value = cli_option(cli, "shard");
    unsigned digits = desk->index->schema.digits;
    size_t number;
    *ret_shard = (struct shard_id){ "" };
    if (!value)
        return HF_OK;
    if (!read_shard(value->text, digits, &number))
        return error_set(&cli->error, HF_INVALID,
                         "--shard takes %u hexadecimal digit%s, as in '%s', not '%.*s'", digits,
                         digits == 1 ? "" : "s", shard_of_number(0, digits).text,
                         VIEW_ARGS(view_first(value->text, 40)));
    *ret_shard = shard_of_number(number, digits);
    return HF_OK;
}

/* ---- Formats ------------------------------------------------------------------------- */

bool index_format_of_name(struct view path, enum rows_format *ret_format)
{
    static const struct {
        const char *end;
        enum rows_format format;
    } ends[] = { { ".usv", ROWS_USV },
                 { ".csv", ROWS_CSV },
                 { ".tsv", ROWS_TSV },
                 { ".ndjson", ROWS_NDJSON },
                 { ".jsonl", ROWS_NDJSON } };
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (view_ends_with(path, view_of(ends[i].end))) {
            *ret_format = ends[i].format;
            return true;
        }
    return false;
}

enum hf_status index_format_option(struct cli *cli, enum rows_format usual,
                                   enum rows_format *ret_format)
{
    static const char *const names[] = { "usv", "csv", "tsv", "ndjson" };
    const struct option_value *value = cli_option(cli, "format");
    *ret_format = usual;
    if (!value)
        return HF_OK;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (view_equal(value->text, view_of(names[i]))) {
            *ret_format = (enum rows_format)i;
            return HF_OK;
        }
    return error_set(&cli->error, HF_INVALID,
                     "--format takes usv, csv, tsv or ndjson, not '%.*s'",
                     VIEW_ARGS(view_first(value->text, 40)));
}
