/* key_read.c: `key get`, `key show` and `key ls`: looking, without a lease. */
#include "base/layout.h"
#include "cli/files.h"
#include "cli/interrupt.h"
#include "cli/json_add.h"
#include "cli/key.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- Transactions and damage --------------------------------------------------------- */

/* What the record of the transaction says that a key is taken for; ABSENT when there is none. */
static enum hf_status txn_state_of(struct hf_client *client, const char *id,
                                   enum txn_state *ret_state, struct hf_error *error)
{
    struct txn_record record;
    *ret_state = TXN_ABSENT;
    if (!id[0])
        return HF_OK;
    enum hf_status status = txn_look(client, view_of(id), &record, error);
    if (status == HF_OK) {
        *ret_state = record.state;
        record_release(&record);
    }
    return status == HF_NOT_FOUND ? HF_OK : status;
}

/* Whoever takes the key keeps a damaged document aside, and what is written is whole. */
#define WRITE_ANEW "'key update --take' keeps what is left of it aside, and writes it anew"

static enum hf_status find_txn(void *argument, const struct sight *sight,
                               struct hf_error *error)
{
    char *txn = argument;
    struct key_state state;
    (void)error;
    state_init(&state);
    if (sight->table && state_read(buffer_view(&sight->table->state), &state, NULL) == HF_OK &&
        state.staged)
        memcpy(txn, state.stage.txn, HF_TXN_ID_SIZE + 1);
    state_release(&state);
    return HF_OK;
}

/* Damage of a key's document or body is left behind by who writes the key anew; that of a record,
 * or of what is read before there is a client, says by itself what to do. */
static enum hf_status explain_damage(struct cli *cli, struct hf_client *client,
                                     const char *name)
{
    char key[KEY_BYTES_MAX + 1], txn[HF_TXN_ID_SIZE + 1] = "";
    enum txn_state state;
    struct look look;
    struct hf_error ignored;
    if (cli->error.status != HF_CORRUPT || !client)
        return cli->error.status;
    look_init(&look, client);
    look.briefly = true;
    if (key_document(view_of(client->space.ns), view_of(name), key, &ignored) == HF_OK)
        look_at(&look, view_of(key), find_txn, txn, &ignored);
    look_release(&look);
    if (txn_state_of(client, txn, &state, &ignored) != HF_CORRUPT)
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
    struct key_description description;
    enum hf_status status =
        key_describe(getting->client, getting->name, &description, &cli->error);
    if (status == HF_NOT_FOUND || (status == HF_OK && description.info.version == 0))
        return never_written(&cli->error);
    if (status != HF_OK)
        return status;
    if (description.info.removed)
        return error_set(&cli->error, HF_NOT_FOUND, "the key was removed");
    if (cli->json) {
        output_json(&cli->out, key_info_as_json(getting->name, &description.info));
        return HF_OK;
    }
    struct buffer text = BUFFER_INIT(512);
    append_version(&text, &description.info);
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

/* NULL: it holds something, as the rows below it tell. */
static const char *state_word(const struct key_description *description)
{
    if (description->lost)
        return "damaged: nobody knows what it held; its bytes are under " LAYOUT_KEPT_FOLDER;
    if (description->info.version == 0)
        return "never written";
    return description->info.removed ? "removed" : NULL;
}

static void describe_version(struct cli *cli, const struct key_description *description)
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

static void describe_lease(struct output *out, const struct key_description *description)
{
    char span[SPAN_TEXT_MAX];
    if (!description->held) {
        output_print(out, LABEL "nobody\n", "holder");
    } else {
        output_print(out, LABEL, "holder");
        output_words(out, view_of(description->holder));
        output_print(out, ", token %" PRIu64, description->token);
        if (description->remaining.us > 0)
            output_print(out, ", for %s more unless renewed\n",
                         brief_text(description->remaining, span));
        else
            output_text(out, ", whose time is over\n");
    }
    if (description->waiters > 0)
        output_print(out, LABEL "%zu\n", "waiting", description->waiters);
}

static void describe_stage(struct output *out, const struct key_description *description,
                           enum txn_state state)
{
    const char *txn = description->info.txn;
    if (txn[0])
        output_print(out, LABEL "for transaction %s (%s)\n", "taken", txn,
                     state == TXN_ABSENT ? "no record: rolled back" : txn_state_name(state));
    else if (description->staged)
        output_print(out, LABEL "changes that the holder's release will publish\n", "staged");
}

static json_t *description_as_json(const char *name, const struct key_description *description,
                                   enum txn_state state)
{
    json_t *object = key_info_as_json(name, &description->info);
    json_add_bool(&object, "damaged", description->lost);
    json_add_bool(&object, "staged", description->staged);
    if (description->info.txn[0])
        json_add(&object, "txn_state", json_string(txn_state_name(state)));
    json_add_bool(&object, "held", description->held);
    if (description->held) {
        json_add_words(&object, "holder", view_of(description->holder));
        json_add_count(&object, "token", description->token);
        json_add_count(&object, "expires_in_ms", (uint64_t)(description->remaining.us / 1000));
    }
    json_add_count(&object, "waiters", description->waiters);
    return object;
}

enum hf_status run_key_describe(struct cli *cli)
{
    struct hf_client *client = NULL;
    struct key_description description;
    enum txn_state state = TXN_ABSENT;
    const char *name = cli->arguments[0];
    enum hf_status status = lock_connect(cli, /* holder */ NULL, &client);
    if (status != HF_OK)
        return status;
    status = key_describe(client, name, &description, &cli->error);
    if (status == HF_NOT_FOUND)
        no_such_key(&cli->error);
    else if (status == HF_CORRUPT)
        explain_damage(cli, client, name);
    if (status == HF_OK)
        status = txn_state_of(client, description.info.txn, &state, &cli->error);
    if (status == HF_OK) {
        if (cli->json) {
            output_json(&cli->out, description_as_json(name, &description, state));
        } else {
            output_print(&cli->out, LABEL "%s\n", "key", name);
            describe_version(cli, &description);
            describe_lease(&cli->out, &description);
            describe_stage(&cli->out, &description, state);
        }
    }
    hf_client_close(client);
    return status;
}

/* ---- ls ------------------------------------------------------------------------------ */

struct listing {
    struct cli *cli;
    struct hf_client *client;
    struct hf_error damage; /* of the last that could not be read */
    bool titled;
    struct grid grid;
};

static const char *const titles[] = { "KEY", "VERSION", "SIZE", "UPDATED", "HOLDER", "TXN" };
#define COLUMNS (sizeof titles / sizeof titles[0])

static const struct lease *active_lease(const struct lease_table *table)
{
    for (size_t i = 0; i < table->lease_count; i++)
        if (table->leases[i]->status == LEASE_ACTIVE)
            return table->leases[i];
    return NULL;
}

static void add_row(struct listing *listing, struct view name, const struct hf_key_info *info,
                    const struct lease *lease)
{
    struct grid *grid = &listing->grid;
    char size[SIZE_TEXT_MAX], age[SPAN_TEXT_MAX + 4];
    grid_cell(grid, name);
    grid_print(grid, "%" PRIu64, info->version);
    if (info->version == 0 || info->removed)
        grid_cell(grid, info->removed ? VIEW("removed") : VIEW("-"));
    else
        grid_print(grid, "%s", size_text(info->size, size));
    grid_print(grid, "%s", info->version > 0 ? version_age(listing->cli, info, age) : "-");
    grid_cell(grid, lease ? lease->holder : VIEW("-"));
    grid_cell(grid, info->txn[0] ? view_of(info->txn) : VIEW("-"));
}

static enum hf_status write_rows(struct listing *listing)
{
    struct cli *cli = listing->cli;
    bool failed = !grid_write(&listing->grid, &cli->out, !cli->quiet && !listing->titled);
    listing->titled = true;
    return failed ? error_no_memory(&cli->error) : output_flush(&cli->out, &cli->error);
}

/* It is told, and the others are listed all the same. */
static void note_damage(struct listing *listing, struct view about,
                        const struct hf_error *error)
{
    cli_report(listing->cli, about, error);
    listing->cli->reported = true;
    listing->damage = *error;
}

/* The version that anybody would read. What is committed may have been staged after we looked, or
 * be settled by now: that takes a closer look. */
static enum hf_status shown_info(struct listing *listing, const char *name,
                                 const struct key_state *state, struct hf_key_info *ret_info,
                                 struct hf_error *error)
{
    struct key_description description;
    enum txn_state decided = TXN_PENDING;
    enum hf_status status = HF_OK;
    if (state->staged && state->stage.txn[0])
        status = txn_state_of(listing->client, state->stage.txn, &decided, error);
    if (status == HF_OK && (decided == TXN_COMMIT || decided == TXN_ABSENT)) {
        status = key_describe(listing->client, name, &description, error);
        if (status == HF_OK)
            *ret_info = description.info;
    } else if (status == HF_OK) {
        key_info_fill(state, &state->now, HF_KEY_NONE, ret_info);
    }
    return status;
}

static enum hf_status list_key(struct listing *listing, const char *name,
                               const struct sight *sight, const struct key_state *state)
{
    struct hf_key_info info = HF_KEY_INFO;
    struct hf_error why;
    const struct lease *lease = active_lease(sight->table);
    enum hf_status status = shown_info(listing, name, state, &info, &why);
    if (status == HF_CORRUPT || status == HF_UNSUPPORTED)
        note_damage(listing, sight->key, &why);
    if (status == HF_CORRUPT || status == HF_UNSUPPORTED || status == HF_NOT_FOUND)
        return HF_OK;
    if (status != HF_OK) {
        listing->cli->error = why;
        return status;
    }
    if (info.version == 0 && !lease && !state->staged && !state->lost)
        return HF_OK; /* a lock, or what is left of one */
    if (!listing->cli->json) {
        add_row(listing, view_of(name), &info, lease);
        return listing->grid.count == GRID_ROWS_MAX || listing->grid.failed
                   ? write_rows(listing)
                   : HF_OK;
    }
    json_t *object = key_info_as_json(name, &info);
    json_add_bool(&object, "damaged", state->lost);
    json_add_bool(&object, "staged", state->staged);
    json_add_bool(&object, "held", lease != NULL);
    json_add_words(&object, "holder", lease ? lease->holder : VIEW(""));
    output_json(&listing->cli->out, object);
    return HF_OK;
}

static enum hf_status list_document(void *argument, const struct sight *sight,
                                    struct hf_error *error)
{
    struct listing *listing = argument;
    struct cli *cli = listing->cli;
    struct key_state state;
    char name[NAME_BYTES_MAX + 1];
    struct hf_error why = { .status = HF_OK };
    enum hf_status status = interrupt_check(error);
    if (status != HF_OK ||
        !key_of_document(view_of(listing->client->space.ns), sight->key, name))
        return status;
    state_init(&state);
    if (!sight->table)
        why = sight->error;
    else if (state_read(buffer_view(&sight->table->state), &state, &why) == HF_OK)
        why.status = HF_OK;
    if (why.status == HF_OK) {
        status = list_key(listing, name, sight, &state);
        *error = cli->error;
        error->status = status;
    } else {
        if (why.status == HF_CORRUPT)
            error_advise(&why, WRITE_ANEW);
        note_damage(listing, sight->key, &why);
    }
    state_release(&state);
    return status;
}

static enum hf_status list_all(struct listing *listing)
{
    struct cli *cli = listing->cli;
    struct look look;
    struct buffer start = BUFFER_INIT(2 * KEY_BYTES_MAX);
    buffer_print(&start, "named:%s", cli->argument_count > 0 ? cli->arguments[0] : "");
    look_init(&look, listing->client);
    enum hf_status status =
        look_around(&look, buffer_view(&start), list_document, listing, &cli->error);
    look_release(&look);
    buffer_release(&start);
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
