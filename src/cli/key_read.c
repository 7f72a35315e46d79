/* key_read.c: `key get`, `key show` and `key ls`: looking, without a lease. */
#include "base/layout.h"
#include "cli/files.h"
#include "cli/interrupt.h"
#include "cli/json_add.h"
#include "cli/key.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Transactions and damage --------------------------------------------------------- */

static bool note_state(void *argument, const struct hf_txn_info *txn)
{
    enum hf_txn_state *state = argument;
    *state = txn->state;
    return true;
}

/* What the record of the transaction says that a key is taken for; ABSENT when there is none. */
static enum hf_status txn_state_of(struct hf_client *client, const char *id,
                                   enum hf_txn_state *ret_state, struct hf_error *error)
{
    *ret_state = HF_TXN_ABSENT;
    enum hf_status status =
        id[0] ? hf_txn_show(client, id, note_state, ret_state, error) : HF_OK;
    return status == HF_NOT_FOUND ? HF_OK : status;
}

/* Whoever takes the key keeps a damaged document aside, and what is written is whole. */
#define WRITE_ANEW "'key update --take' keeps what is left of it aside, and writes it anew"

/* Damage of a key's document or body is left behind by who writes the key anew; that of a record,
 * or of what is read before there is a client, says by itself what to do. */
static enum hf_status explain_damage(struct cli *cli, struct hf_client *client,
                                     const char *name)
{
    char txn[HF_TXN_ID_SIZE + 1] = "";
    enum hf_txn_state state;
    if (cli->error.status != HF_CORRUPT || !client)
        return cli->error.status;
    hf_key_txn(client, name, txn, /* error */ NULL);
    if (txn_state_of(client, txn, &state, /* error */ NULL) != HF_CORRUPT)
        error_advise(&cli->error, WRITE_ANEW);
    return HF_CORRUPT;
}

/* ---- get ----------------------------------------------------------------------------- */

struct getting {
    struct hf_client *client;
    const char *name;
    struct hf_key_info info;
};

/* The store's own words for what is missing are about objects. */
static enum hf_status never_written(struct hf_error *error)
{
    return error_set(error, HF_NOT_FOUND, "the key was never written; 'key ls' lists what was");
}

static enum hf_status no_such_key(struct hf_error *error)
{
    return error_set(error, HF_NOT_FOUND,
                     "there is no such key, nor a lock of that name; 'key ls' lists them");
}

static enum hf_status fetch(void *argument, int fd, struct hf_error *error)
{
    struct getting *getting = argument;
    enum hf_status status =
        hf_key_get_file(getting->client, getting->name, fd, &getting->info, error);
    return status == HF_NOT_FOUND && getting->info.version == 0 ? never_written(error) : status;
}

/* Only what is known of the version that anybody would read. */
static enum hf_status tell_info(struct cli *cli, struct getting *getting)
{
    struct hf_key_info info = HF_KEY_INFO;
    enum hf_status status =
        hf_key_describe(getting->client, getting->name, &info, NULL, &cli->error);
    if (status == HF_NOT_FOUND || (status == HF_OK && info.version == 0))
        return never_written(&cli->error);
    if (status != HF_OK)
        return status;
    if (info.removed)
        return error_set(&cli->error, HF_NOT_FOUND, "the key was removed");
    if (cli->json) {
        output_json(&cli->out, key_info_as_json(getting->name, &info));
        return HF_OK;
    }
    struct buffer text = BUFFER_INIT(512);
    append_version(&text, &info);
    output_print(&cli->out, "%.*s\n", VIEW_ARGS(buffer_view(&text)));
    buffer_release(&text);
    return HF_OK;
}

static enum hf_status get_state(struct cli *cli, struct getting *getting)
{
    const char *path = option_text(cli, "output");
    bool is_file = false;
    if (path && !path[0])
        return error_set(&cli->error, HF_INVALID, "--output is empty: name a file, or -");
    enum hf_status status = target_fetch(cli, path, fetch, getting, &is_file);
    if (status == HF_OK && is_file && cli->json) {
        json_t *object = key_info_as_json(getting->name, &getting->info);
        json_add_key(&object, "file", view_of(path));
        output_json(&cli->out, object);
    }
    return status;
}

enum hf_status run_key_get(struct cli *cli)
{
    struct getting getting = { .info = HF_KEY_INFO, .name = cli->arguments[0] };
    enum hf_status status = lock_connect(cli, /* holder */ NULL, &getting.client);
    if (status != HF_OK)
        return status;
    status = cli_given(cli, "info") ? tell_info(cli, &getting) : get_state(cli, &getting);
    if (status == HF_CORRUPT)
        explain_damage(cli, getting.client, getting.name);
    hf_client_close(getting.client);
    return status;
}

/* ---- describe ------------------------------------------------------------------------ */

#define LABEL "%-12s"

/* What is known of a key. */
struct description {
    struct hf_key_info info;
    struct hf_key_status status;
    enum hf_txn_state txn; /* of info.txn */
};

/* NULL: it holds something, as the rows below it tell. */
static const char *state_word(const struct description *description)
{
    if (description->status.damaged)
        return "damaged: nobody knows what it held; its bytes are under " LAYOUT_KEPT_FOLDER;
    if (description->info.version == 0)
        return "never written";
    return description->info.removed ? "removed" : NULL;
}

static void describe_version(struct cli *cli, const struct description *description)
{
    const struct hf_key_info *info = &description->info;
    struct output *out = &cli->out;
    char size[SIZE_TEXT_MAX], age[SPAN_TEXT_MAX + 4], time[TIME_TEXT_MAX];
    if (state_word(description))
        output_print(out, LABEL "%s\n", "state", state_word(description));
    if (info->version == 0)
        return;
    output_print(out, LABEL "%" PRIu64 "\n" LABEL "%s\n", "version", info->version, "etag",
                 info->etag);
    if (!info->removed)
        output_print(out, LABEL "%s\n", "size", size_text(info->size, size));
    output_print(out, LABEL "%s, %s, with token %" PRIu64 "\n", "updated",
                 time_text((struct wall_time){ info->updated_ms * 1000 }, time),
                 version_age(cli, info, age), info->token);
}

static void describe_lease(struct output *out, const struct hf_key_status *status)
{
    char span[SPAN_TEXT_MAX];
    if (!status->held) {
        output_print(out, LABEL "nobody\n", "holder");
    } else {
        output_print(out, LABEL, "holder");
        output_words(out, view_of(status->holder));
        output_print(out, ", token %" PRIu64, status->token);
        if (status->remaining_ms > 0)
            output_print(out, ", for %s more unless renewed\n",
                         brief_text(SPAN_MS(status->remaining_ms), span));
        else
            output_text(out, ", whose time is over\n");
    }
    if (status->waiters > 0)
        output_print(out, LABEL "%zu\n", "waiting", status->waiters);
}

static void describe_stage(struct output *out, const struct description *description)
{
    const char *txn = description->info.txn;
    if (txn[0])
        output_print(out, LABEL "for transaction %s (%s)\n", "taken", txn,
                     description->txn == HF_TXN_ABSENT ? "no record: rolled back"
                                                       : hf_txn_state_name(description->txn));
    else if (description->status.staged)
        output_print(out, LABEL "changes that the holder's release will publish\n", "staged");
}

static json_t *description_as_json(const char *name, const struct description *description)
{
    const struct hf_key_status *status = &description->status;
    json_t *object = key_info_as_json(name, &description->info);
    json_add_bool(&object, "damaged", status->damaged);
    json_add_bool(&object, "staged", status->staged);
    if (description->info.txn[0])
        json_add(&object, "txn_state", json_string(hf_txn_state_name(description->txn)));
    json_add_bool(&object, "held", status->held);
    if (status->held) {
        json_add_words(&object, "holder", view_of(status->holder));
        json_add_count(&object, "token", status->token);
        json_add_count(&object, "expires_in_ms", (uint64_t)status->remaining_ms);
    }
    json_add_count(&object, "waiters", status->waiters);
    return object;
}

static enum hf_status describe(struct cli *cli, struct hf_client *client, const char *name,
                               struct description *ret_description)
{
    enum hf_status status = hf_key_describe(client, name, &ret_description->info,
                                            &ret_description->status, &cli->error);
    if (status == HF_NOT_FOUND)
        no_such_key(&cli->error);
    else if (status == HF_CORRUPT)
        explain_damage(cli, client, name);
    if (status != HF_OK)
        return status;
    return txn_state_of(client, ret_description->info.txn, &ret_description->txn, &cli->error);
}

enum hf_status run_key_describe(struct cli *cli)
{
    struct hf_client *client = NULL;
    struct description description = { .info = HF_KEY_INFO, .status = HF_KEY_STATUS };
    const char *name = cli->arguments[0];
    enum hf_status status = lock_connect(cli, /* holder */ NULL, &client);
    if (status != HF_OK)
        return status;
    status = describe(cli, client, name, &description);
    if (status == HF_OK && cli->json) {
        output_json(&cli->out, description_as_json(name, &description));
    } else if (status == HF_OK) {
        output_print(&cli->out, LABEL "%s\n", "key", name);
        describe_version(cli, &description);
        describe_lease(&cli->out, &description.status);
        describe_stage(&cli->out, &description);
    }
    hf_client_close(client);
    return status;
}

/* ---- ls ------------------------------------------------------------------------------ */

struct listing {
    struct cli *cli;
    struct hf_client *client;
    struct hf_error damage; /* of the last that could not be read */
    enum hf_status status;  /* of writing */
    bool titled;
    struct grid grid;
};

static const char *const titles[] = { "KEY", "VERSION", "SIZE", "UPDATED", "HOLDER", "TXN" };
#define COLUMNS (sizeof titles / sizeof titles[0])

static void add_row(struct listing *listing, const char *name, const struct hf_key_info *info,
                    const struct hf_key_status *status)
{
    struct grid *grid = &listing->grid;
    char size[SIZE_TEXT_MAX], age[SPAN_TEXT_MAX + 4];
    grid_cell(grid, view_of(name));
    grid_print(grid, "%" PRIu64, info->version);
    if (info->version == 0 || info->removed)
        grid_cell(grid, info->removed ? VIEW("removed") : VIEW("-"));
    else
        grid_print(grid, "%s", size_text(info->size, size));
    grid_print(grid, "%s", info->version > 0 ? version_age(listing->cli, info, age) : "-");
    grid_cell(grid, status->held ? view_of(status->holder) : VIEW("-"));
    grid_cell(grid, info->txn[0] ? view_of(info->txn) : VIEW("-"));
}

static enum hf_status write_rows(struct listing *listing)
{
    struct cli *cli = listing->cli;
    bool failed = !grid_write(&listing->grid, &cli->out, !cli->quiet && !listing->titled);
    listing->titled = true;
    return failed ? error_no_memory(&cli->error) : output_flush(&cli->out, &cli->error);
}

static bool list_key(void *argument, const char *name, const struct hf_key_info *info,
                     const struct hf_key_status *status)
{
    struct listing *listing = argument;
    if (!listing->cli->json) {
        add_row(listing, name, info, status);
        if (listing->grid.count == GRID_ROWS_MAX || listing->grid.failed)
            listing->status = write_rows(listing);
        return listing->status == HF_OK;
    }
    json_t *object = key_info_as_json(name, info);
    json_add_bool(&object, "damaged", status->damaged);
    json_add_bool(&object, "staged", status->staged);
    json_add_bool(&object, "held", status->held);
    json_add_words(&object, "holder", view_of(status->holder));
    output_json(&listing->cli->out, object);
    return true;
}

/* Whether it is the document that is damaged, and not the record of its transaction. */
static bool is_of_document(struct hf_client *client, const char *document)
{
    char name[HF_NAME_MAX + 1], txn[HF_TXN_ID_SIZE + 1];
    const char *folder = strstr(document, LAYOUT_META_FOLDER);
    struct view rest = view_of(folder ? folder + strlen(LAYOUT_META_FOLDER) : "");
    struct view end = VIEW(".json");
    rest = view_first(rest, rest.size > end.size ? rest.size - end.size : 0);
    snprintf(name, sizeof name, "%.*s", VIEW_ARGS(rest));
    return hf_key_txn(client, name, txn, /* error */ NULL) == HF_CORRUPT;
}

/* It is told, and the others are listed all the same. */
static void note_damage(void *argument, const char *document, const struct hf_error *why)
{
    struct listing *listing = argument;
    listing->damage = *why;
    if (why->status == HF_CORRUPT && is_of_document(listing->client, document))
        error_advise(&listing->damage, WRITE_ANEW);
    cli_report(listing->cli, view_of(document), &listing->damage);
    listing->cli->reported = true;
}

static enum hf_status list_all(struct listing *listing)
{
    struct cli *cli = listing->cli;
    struct hf_list_options options = HF_LIST_OPTIONS;
    struct hf_error error;
    options.damaged = note_damage;
    options.proceed = not_interrupted;
    enum hf_status status =
        hf_keys_list(listing->client, cli->argument_count > 0 ? cli->arguments[0] : "",
                     &options, list_key, listing, &error);
    if (status == HF_CANCELLED)
        interrupt_check(&error);
    if (status != HF_OK)
        cli->error = error;
    else
        status = listing->status; /* whose error is the command's already */
    if (status == HF_OK && listing->grid.count > 0)
        status = write_rows(listing);
    if (status != HF_OK)
        cli->reported = false;
    return status;
}

enum hf_status run_key_ls(struct cli *cli)
{
    struct listing listing = { .cli = cli };
    enum hf_status status = lock_connect(cli, /* holder */ NULL, &listing.client);
    if (status != HF_OK)
        return status;
    status = grid_init(&listing.grid, titles, COLUMNS) ? list_all(&listing)
                                                       : error_no_memory(&cli->error);
    grid_release(&listing.grid);
    hf_client_close(listing.client);
    if (status == HF_OK && cli->reported)
        cli->error = listing.damage;
    return status == HF_OK ? cli->error.status : status;
}
