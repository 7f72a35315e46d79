/* txn.c: `txn begin`, `show`, `commit`, `rollback` and `ls`: transactions by their ids, so that
 * several processes can share one. */
#include "base/layout.h"
#include "cli/connect.h"
#include "cli/interrupt.h"
#include "cli/json_add.h"
#include "cli/key.h"
#include "store/pages.h"

#include <inttypes.h>
#include <stdio.h>

#define LABEL "%-12s"

/* Transactions belong to no namespace, so there is no --ns. */
static enum hf_status txn_connect(struct cli *cli, const char *holder,
                                  struct hf_client **ret_client)
{
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    options.holder = holder;
    return cli_connect(cli, options, ret_client);
}

/* Whether it was committed, and what to do then, only somebody can tell who looks. */
static enum hf_status record_damaged(const char *id, struct hf_error *error)
{
    return error_set(error, HF_CORRUPT,
                     "its record is damaged, so nobody knows whether it was committed: see "
                     "'store get " LAYOUT_TXN_FOLDER "%s'; 'txn rollback --damaged' drops what "
                     "is not settled yet",
                     id);
}

/* ---- begin --------------------------------------------------------------------------- */

static void drop(struct hf_client *client, const char *id)
{
    enum txn_state recorded;
    struct hf_error ignored;
    txn_decide(client, view_of(id), HF_ROLLBACK, &recorded, &ignored);
}

/* One whose id could not be told is nobody's: it is rolled back. */
enum hf_status run_txn_begin(struct cli *cli)
{
    struct hf_client *client = NULL;
    char id[TXN_ID_SIZE + 1], user[USER_TEXT_MAX];
    const char *holder = option_text(cli, "holder");
    enum hf_status status = txn_connect(cli, holder ? holder : user_text(user), &client);
    if (status == HF_OK)
        status = txn_open(client, id, &cli->error);
    if (status == HF_OK) {
        if (cli->json)
            output_json(&cli->out, json_pack("{s:s, s:s}", "txn", id, "state", "pending"));
        else
            output_print(&cli->out, "%s\n", id);
        status = output_flush_or_undo(&cli->out, &cli->error);
        if (status != HF_OK)
            drop(client, id);
    }
    hf_client_close(client);
    return status;
}

/* ---- commit, rollback ---------------------------------------------------------------- */

static const char *done_word(enum txn_state state)
{
    return state == TXN_COMMIT ? "committed" : "rolled back";
}

/* It may be the record, or a key that it names: that one says so itself. */
static enum hf_status cannot_decide(struct cli *cli, struct hf_client *client, const char *id)
{
    struct txn_record record;
    struct hf_error ignored;
    enum hf_status status = txn_look(client, view_of(id), &record, &ignored);
    if (status == HF_OK)
        record_release(&record);
    return status == HF_CORRUPT ? record_damaged(id, &cli->error) : HF_CORRUPT;
}

enum hf_status txn_settle(struct cli *cli, struct hf_client *client, const char *id,
                          enum hf_decision decision)
{
    enum txn_state recorded = TXN_ABSENT;
    enum txn_state wanted = decision == HF_COMMIT ? TXN_COMMIT : TXN_ROLLBACK;
    enum hf_status status = txn_decide(client, view_of(id), decision, &recorded, &cli->error);
    if (status == HF_UNSURE)
        error_prefix(&cli->error, "nobody knows whether it is decided, ask again");
    if (status == HF_CORRUPT)
        return cannot_decide(cli, client, id);
    if (status != HF_OK || recorded == wanted)
        return status;
    cli->outcome = txn_state_name(recorded);
    return error_set(&cli->error, HF_MISMATCH, "%s",
                     recorded == TXN_COMMIT
                         ? "the transaction is already committed and cannot be rolled back"
                         : "it was rolled back: somebody did so, or the lease of one of its "
                           "keys was over; nothing of it was published");
}

/* Only rollback has --damaged. */
static enum hf_status give_up_if_told(struct cli *cli, struct hf_client *client, const char *id)
{
    bool done;
    return cli_given(cli, "damaged") ? txn_give_up(client, view_of(id), &done, &cli->error)
                                     : HF_OK;
}

static enum hf_status decide(struct cli *cli, enum hf_decision decision)
{
    struct hf_client *client = NULL;
    const char *id = cli->arguments[0];
    enum txn_state state = decision == HF_COMMIT ? TXN_COMMIT : TXN_ROLLBACK;
    enum hf_status status = txn_id_check(cli, id);
    if (status == HF_OK)
        status = txn_connect(cli, /* holder */ NULL, &client);
    if (status == HF_OK && decision == HF_ROLLBACK)
        status = give_up_if_told(cli, client, id);
    if (status == HF_OK)
        status = txn_settle(cli, client, id, decision);
    if (status == HF_OK && cli->json)
        output_json(&cli->out,
                    json_pack("{s:s, s:s}", "txn", id, "state", txn_state_name(state)));
    else if (status == HF_OK && !cli->quiet)
        output_print(&cli->out, "%s\n", done_word(state));
    hf_client_close(client);
    return status;
}

enum hf_status run_txn_commit(struct cli *cli)
{
    return decide(cli, HF_COMMIT);
}

enum hf_status run_txn_rollback(struct cli *cli)
{
    return decide(cli, HF_ROLLBACK);
}

/* ---- show ---------------------------------------------------------------------------- */

static void add_time(json_t **object, const char *name, struct wall_time at)
{
    if (at.us > 0)
        json_add_time_ms(object, name, at.us / 1000);
}

static json_t *record_as_json(const struct txn_record *record)
{
    json_t *object = json_object(), *keys = json_array();
    for (size_t i = 0; i < record->key_count; i++)
        json_push(&keys, json_string(record->keys[i].name));
    json_add(&object, "txn", json_string(record->id));
    json_add(&object, "state", json_string(txn_state_name(record->state)));
    json_add_words(&object, "holder", view_of(record->holder));
    add_time(&object, "began_at", record->began_at);
    add_time(&object, "decided_at", record->decided_at);
    json_add_bool(&object, "open", record->open);
    json_add_bool(&object, "applied", record->applied);
    json_add(&object, "keys", keys);
    return object;
}

/* Who looks at one that is pending wants to know what becomes of it. */
static const char *state_hint(const struct txn_record *record)
{
    if (record->state == TXN_PENDING)
        return record->open ? "" : "; to be committed by the process that began it";
    if (record_is_mark(record))
        return "; by somebody who found no record of it, or a damaged one";
    if (record->state == TXN_ROLLBACK)
        return "; nothing of it was published";
    return record->applied ? "; all its keys are settled"
                           : "; its keys are settled as they are touched";
}

static void show_time(struct cli *cli, const char *label, struct wall_time at)
{
    char time[TIME_TEXT_MAX], ago[AGO_TEXT_MAX];
    struct span age = wall_since(env_wall(cli->env), at);
    if (at.us > 0)
        output_print(&cli->out, LABEL "%s, %s\n", label, time_text(at, time),
                     ago_text(age, ago));
}

static void show(struct cli *cli, const struct txn_record *record)
{
    struct output *out = &cli->out;
    output_print(out, LABEL "%s\n", "txn", record->id);
    output_print(out, LABEL "%s%s\n", "state", txn_state_name(record->state),
                 state_hint(record));
    if (record->holder[0]) {
        output_print(out, LABEL, "begun by");
        output_words(out, view_of(record->holder));
        output_text(out, "\n");
    }
    show_time(cli, "began", record->began_at);
    show_time(cli, "decided", record->decided_at);
    for (size_t i = 0; i < record->key_count; i++)
        output_print(out, LABEL "%s\n", i == 0 ? "keys" : "", record->keys[i].name);
    if (record->key_count == 0)
        output_print(out, LABEL "none that are known\n", "keys");
}

enum hf_status run_txn_show(struct cli *cli)
{
    struct hf_client *client = NULL;
    struct txn_record record;
    const char *id = cli->arguments[0];
    enum hf_status status = txn_id_check(cli, id);
    if (status == HF_OK)
        status = txn_connect(cli, /* holder */ NULL, &client);
    if (status != HF_OK)
        return status;
    status = txn_look(client, view_of(id), &record, &cli->error);
    if (status == HF_CORRUPT)
        record_damaged(id, &cli->error);
    if (status == HF_NOT_FOUND)
        error_set(&cli->error, HF_NOT_FOUND,
                  "there is no record of it: it was never begun, or was decided long ago and "
                  "purged; either way nothing of it is pending");
    if (status == HF_OK) {
        if (cli->json)
            output_json(&cli->out, record_as_json(&record));
        else
            show(cli, &record);
        record_release(&record);
    }
    hf_client_close(client);
    return status;
}

/* ---- ls ------------------------------------------------------------------------------ */

static const char *const titles[] = { "TXN", "STATE", "BEGAN", "HOLDER", "KEYS" };
#define COLUMNS (sizeof titles / sizeof titles[0])

struct listing {
    struct cli *cli;
    struct hf_client *client;
    enum txn_state only;    /* ABSENT: all */
    struct hf_error damage; /* of the last that could not be read */
    struct grid grid;
    bool titled;
};

static enum hf_status take_state(struct cli *cli, enum txn_state *ret_state)
{
    const char *word = option_text(cli, "state");
    *ret_state = TXN_ABSENT;
    if (!word)
        return HF_OK;
    for (enum txn_state state = TXN_PENDING; state <= TXN_ROLLBACK; state++)
        if (strcmp(word, txn_state_name(state)) == 0) {
            *ret_state = state;
            return HF_OK;
        }
    return error_set(&cli->error, HF_INVALID,
                     "--state is pending, commit or rollback, not '%.40s'", word);
}

static enum hf_status write_rows(struct listing *listing)
{
    struct cli *cli = listing->cli;
    bool failed = !grid_write(&listing->grid, &cli->out, !cli->quiet && !listing->titled);
    listing->titled = true;
    return failed ? error_no_memory(&cli->error) : output_flush(&cli->out, &cli->error);
}

static enum hf_status list_record(struct listing *listing, const struct txn_record *record)
{
    struct grid *grid = &listing->grid;
    char ago[AGO_TEXT_MAX];
    struct span age = wall_since(env_wall(listing->cli->env), record->began_at);
    if (listing->only != TXN_ABSENT && record->state != listing->only)
        return HF_OK;
    if (listing->cli->json) {
        output_json(&listing->cli->out, record_as_json(record));
        return HF_OK;
    }
    grid_print(grid, "%s", record->id);
    grid_print(grid, "%s", txn_state_name(record->state));
    if (record->began_at.us > 0)
        grid_print(grid, "%s", ago_text(age, ago));
    else
        grid_cell(grid, VIEW("-"));
    grid_cell(grid, record->holder[0] ? view_of(record->holder) : VIEW("-"));
    grid_print(grid, "%zu", record->key_count);
    return grid->count == GRID_ROWS_MAX || grid->failed ? write_rows(listing) : HF_OK;
}

/* A record that is gone by now is left out; one that is damaged is told. */
static enum hf_status list_one(struct listing *listing, struct view key)
{
    struct cli *cli = listing->cli;
    struct txn_record record;
    struct hf_error error;
    struct view id = view_from(key, strlen(LAYOUT_TXN_FOLDER));
    enum hf_status status = interrupt_check(&cli->error);
    if (status != HF_OK || !txn_id_valid(id))
        return status;
    status = txn_look(listing->client, id, &record, &error);
    if (status == HF_OK) {
        status = list_record(listing, &record);
        record_release(&record);
    } else if (status == HF_CORRUPT || status == HF_UNSUPPORTED) {
        cli_report(cli, key, &error);
        cli->reported = true;
        listing->damage = error;
        status = HF_OK;
    } else if (status == HF_NOT_FOUND) {
        status = HF_OK;
    } else {
        cli->error = error;
    }
    return status;
}

static enum hf_status list_all(struct listing *listing)
{
    struct cli *cli = listing->cli;
    struct pages pages = { .list = { .prefix = VIEW(LAYOUT_TXN_FOLDER) } };
    enum hf_status status = HF_OK;
    while (status == HF_OK && pages_next(&pages, cli->store))
        for (size_t i = 0; i < pages.list.count && status == HF_OK; i++)
            status = list_one(listing, pages.list.entries[i].key);
    status = pages_end(&pages, status, &cli->error);
    if (status == HF_OK && listing->grid.count > 0)
        status = write_rows(listing);
    return status;
}

enum hf_status run_txn_ls(struct cli *cli)
{
    struct listing listing = { .cli = cli };
    enum hf_status status = take_state(cli, &listing.only);
    if (status == HF_OK)
        status = txn_connect(cli, /* holder */ NULL, &listing.client);
    if (status != HF_OK)
        return status;
    status = grid_init(&listing.grid, titles, COLUMNS) ? list_all(&listing)
                                                       : error_no_memory(&cli->error);
    grid_release(&listing.grid);
    hf_client_close(listing.client);
    if (status != HF_OK)
        cli->reported = false;
    else if (cli->reported)
        cli->error = listing.damage;
    return status == HF_OK ? cli->error.status : status;
}
