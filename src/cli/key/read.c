/* SPDX-License-Identifier: Apache-2.0 */
/* read.c: `key get`, `key show` and `key ls`: read keys without a lease. */
#include "cli/files.h"
#include "cli/key/key.h"

#include <stdio.h>
#include <string.h>

static bool note_state(void *argument, const struct hf_txn_info *txn)
{
    enum hf_txn_state *state = argument;
    *state = txn->state;
    return true;
}

/* The state of the transaction that a key belongs to; ABSENT if the transaction has no record. */
static enum hf_status txn_state_of(struct hf_client *client, const char *id,
                                   enum hf_txn_state *ret_state, struct hf_error *error)
{
    *ret_state = HF_TXN_ABSENT;
    enum hf_status status =
        id[0] ? hf_txn_show(client, id, note_state, ret_state, error) : HF_OK;
    return status == HF_NOT_FOUND ? HF_OK : status;
}

/* A client that acquires a key with a damaged document keeps a copy of it and writes a new one. */
#define WRITE_ANEW \
    "'holdfast key update --take' sets the damaged bytes aside and writes a new state"

/* Adds advice if the document or the body of the key is damaged: writing the key repairs it. Other
 * errors need no advice: errors about a transaction's record, and errors before there is a
 * client. */
static enum hf_status explain_damage(struct cli *cli, const char *name)
{
    char txn[HF_TXN_ID_SIZE + 1] = "";
    enum hf_txn_state state;
    if (cli->error.status != HF_CORRUPT || !cli->client)
        return cli->error.status;
    hf_key_txn(cli->client, name, txn, /* error */ NULL);
    if (txn_state_of(cli->client, txn, &state, /* error */ NULL) != HF_CORRUPT)
        error_advise(&cli->error, WRITE_ANEW);
    return HF_CORRUPT;
}

struct getting {
    struct cli *cli;
    const char *name;
    struct hf_key_info info;
};

/* Replaces the store's error, which is about objects and not about keys. */
static enum hf_status never_written(struct hf_error *error)
{
    return error_set(error, HF_NOT_FOUND,
                     "the key was never written; 'holdfast key ls' lists the keys");
}

static enum hf_status fetch_key(void *argument, int fd, struct hf_error *error)
{
    struct getting *getting = argument;
    enum hf_status status =
        hf_key_get_file(getting->cli->client, getting->name, fd, &getting->info, error);
    return status == HF_NOT_FOUND && getting->info.version == 0 ? never_written(error) : status;
}

/* With --info, prints the version that a reader would get, without its bytes. */
static enum hf_status get_key(struct cli *cli, struct getting *getting)
{
    const char *path = option_text(cli, "output");
    struct hf_key_info *info = &getting->info;
    bool only_info = cli_given(cli, "info"), is_file = false;
    enum hf_status status;
    if (only_info) {
        status = hf_key_describe(cli->client, getting->name, info, NULL, &cli->error);
        if (status == HF_NOT_FOUND || (status == HF_OK && info->version == 0))
            return never_written(&cli->error);
        if (status == HF_OK && info->removed)
            return error_set(&cli->error, HF_NOT_FOUND, "the key was removed");
    } else {
        if (path && !path[0])
            return cli_invalid(cli, "--output is empty: name a file, or -");
        status = target_fetch(cli, path, fetch_key, getting, &is_file);
    }
    struct told_key told = told_key(cli, getting->name, info);
    told.file = is_file ? path : NULL;
    if (status == HF_OK && (only_info || is_file))
        record_show(cli, got_key_record, &told, only_info ? VERSION_TEXT "\n" : NULL);
    return status;
}

enum hf_status run_key_get(struct cli *cli)
{
    struct getting getting = { .cli = cli, .info = HF_KEY_INFO, .name = cli->arguments[0] };
    enum hf_status status = get_key(cli, &getting);
    return status == HF_CORRUPT ? explain_damage(cli, getting.name) : status;
}

static void append_txn_state(struct buffer *to, const struct told_key *told)
{
    bool absent = told->txn_state == HF_TXN_ABSENT;
    buffer_append(to, view_of(absent ? "no record: rolled back"
                                     : hf_txn_state_name(told->txn_state)));
}

static const struct field shown_key_record[] = SHOWN_KEY_RECORD;

enum hf_status run_key_show(struct cli *cli)
{
    const char *name = cli->arguments[0];
    struct hf_key_info info = HF_KEY_INFO;
    struct hf_key_status now = HF_KEY_STATUS;
    enum hf_status status = hf_key_describe(cli->client, name, &info, &now, &cli->error);
    if (status == HF_NOT_FOUND)
        error_set(&cli->error, HF_NOT_FOUND,
                  "there is no key or lock of this name; 'holdfast key ls' lists the keys");
    else if (status == HF_CORRUPT)
        explain_damage(cli, name);
    if (status != HF_OK)
        return status;
    struct told_key told = told_key(cli, name, &info);
    told.status = now;
    status = txn_state_of(cli->client, info.txn, &told.txn_state, &cli->error);
    if (status == HF_OK)
        record_show(cli, shown_key_record, &told, SHOWN_KEY_TEXT);
    return status;
}

static bool list_key_row(void *argument, const char *name, const struct hf_key_info *info,
                         const struct hf_key_status *status)
{
    struct listing *listing = argument;
    struct told_key told = told_key(listing->cli, name, info);
    told.status = *status;
    return listing_add_record(listing, listed_key_record, &told);
}

/* Adds advice if the key's document is damaged, but not if the damage is in the transaction's
 * record. */
static void report_damage(void *argument, const char *document, const struct hf_error *why)
{
    struct listing *listing = argument;
    struct hf_error damage = *why;
    char name[HF_NAME_MAX + 1], txn[HF_TXN_ID_SIZE + 1];
    const char *folder = strstr(document, "/meta/");
    struct view rest = view_of(folder ? folder + strlen("/meta/") : ""), end = VIEW(".json");
    rest = view_first(rest, rest.size > end.size ? rest.size - end.size : 0);
    snprintf(name, sizeof name, "%.*s", VIEW_ARGS(rest));
    if (why->status == HF_CORRUPT &&
        hf_key_txn(listing->cli->client, name, txn, /* error */ NULL) == HF_CORRUPT)
        error_advise(&damage, WRITE_ANEW);
    listing_damaged(listing, document, &damage);
}

enum hf_status run_key_ls(struct cli *cli)
{
    struct listing listing;
    struct hf_list_options options = HF_LIST_OPTIONS;
    struct hf_error error;
    options.damaged = report_damage;
    options.proceed = not_interrupted;
    enum hf_status status =
        listing_begin(&listing, cli, "KEY\tVERSION\tSIZE\tUPDATED\tHOLDER\tTXN",
                      "{key}\t{version}\t[{removed?}removed|[{version?}{size_bytes}|-]]\t"
                      "[{version?}{updated}|-]\t[{held?}{holder}|-]\t[{txn}|-]");
    if (status != HF_OK)
        return status;
    status = hf_keys_list(cli->client, cli->argument_count > 0 ? cli->arguments[0] : "",
                          &options, list_key_row, &listing, &error);
    return listing_end(&listing, status, &error);
}
