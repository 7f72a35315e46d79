/* txn.c: `txn begin`, `show`, `commit`, `rollback` and `ls`: transactions by their ids, so that
 * several processes can share one. */
#include "base/layout.h"
#include "cli/connect.h"
#include "cli/interrupt.h"
#include "cli/json_add.h"
#include "cli/key.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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
    hf_txn_decide(client, id, HF_ROLLBACK, NULL, /* error */ NULL);
}

/* One whose id could not be told is nobody's: it is rolled back. */
enum hf_status run_txn_begin(struct cli *cli)
{
    struct hf_client *client = NULL;
    char id[HF_TXN_ID_SIZE + 1], user[USER_TEXT_MAX];
    const char *holder = option_text(cli, "holder");
    enum hf_status status = txn_connect(cli, holder ? holder : user_text(user), &client);
    if (status == HF_OK)
        status = hf_txn_open(client, id, &cli->error);
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

/* It may be the record, or a key that it names: that one says so itself. */
static enum hf_status cannot_decide(struct cli *cli, struct hf_client *client, const char *id)
{
    enum hf_status status = hf_txn_show(client, id, NULL, NULL, /* error */ NULL);
    return status == HF_CORRUPT ? record_damaged(id, &cli->error) : HF_CORRUPT;
}

static enum hf_txn_state state_of(enum hf_decision decision)
{
    return decision == HF_COMMIT ? HF_TXN_COMMIT : HF_TXN_ROLLBACK;
}

enum hf_status txn_settle(struct cli *cli, struct hf_client *client, const char *id,
                          enum hf_decision decision)
{
    enum hf_decision recorded = decision;
    enum hf_status status = hf_txn_decide(client, id, decision, &recorded, &cli->error);
    if (status == HF_UNSURE)
        error_prefix(&cli->error, "nobody knows whether it is decided, ask again");
    if (status == HF_CORRUPT)
        return cannot_decide(cli, client, id);
    if (recorded != decision)
        cli->outcome = hf_txn_state_name(state_of(recorded));
    return status;
}

/* Only rollback has --damaged. */
static enum hf_status give_up_if_told(struct cli *cli, struct hf_client *client, const char *id)
{
    return cli_given(cli, "damaged") ? hf_txn_give_up(client, id, NULL, &cli->error) : HF_OK;
}

static enum hf_status decide(struct cli *cli, enum hf_decision decision)
{
    struct hf_client *client = NULL;
    const char *id = cli->arguments[0];
    enum hf_status status = txn_id_check(cli, id);
    if (status == HF_OK)
        status = txn_connect(cli, /* holder */ NULL, &client);
    if (status == HF_OK && decision == HF_ROLLBACK)
        status = give_up_if_told(cli, client, id);
    if (status == HF_OK)
        status = txn_settle(cli, client, id, decision);
    if (status == HF_OK && cli->json)
        output_json(&cli->out, json_pack("{s:s, s:s}", "txn", id, "state",
                                         hf_txn_state_name(state_of(decision))));
    else if (status == HF_OK && !cli->quiet)
        output_print(&cli->out, "%s\n", decision == HF_COMMIT ? "committed" : "rolled back");
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

static void add_time(json_t **object, const char *name, int64_t at_ms)
{
    if (at_ms > 0)
        json_add_time_ms(object, name, at_ms);
}

static json_t *txn_as_json(const struct hf_txn_info *txn)
{
    json_t *object = json_object(), *keys = json_array();
    for (size_t i = 0; i < txn->key_count; i++)
        json_push(&keys, json_string(txn->keys[i]));
    json_add(&object, "txn", json_string(txn->id));
    json_add(&object, "state", json_string(hf_txn_state_name(txn->state)));
    json_add_words(&object, "holder", view_of(txn->holder));
    add_time(&object, "began_at", txn->began_at_ms);
    add_time(&object, "decided_at", txn->decided_at_ms);
    json_add_bool(&object, "open", txn->open);
    json_add_bool(&object, "applied", txn->applied);
    json_add(&object, "keys", keys);
    return object;
}

/* Who looks at one that is pending wants to know what becomes of it. */
static const char *state_hint(const struct hf_txn_info *txn)
{
    if (txn->state == HF_TXN_PENDING)
        return txn->open ? "" : "; to be committed by the process that began it";
    if (txn->marked)
        return "; by somebody who found no record of it, or a damaged one";
    if (txn->state == HF_TXN_ROLLBACK)
        return "; nothing of it was published";
    return txn->applied ? "; all its keys are settled"
                        : "; its keys are settled as they are touched";
}

static struct span age_of(struct cli *cli, int64_t at_ms)
{
    return wall_since(env_wall(cli->env), (struct wall_time){ at_ms * 1000 });
}

static void show_time(struct cli *cli, const char *label, int64_t at_ms)
{
    char time[TIME_TEXT_MAX], ago[AGO_TEXT_MAX];
    if (at_ms > 0)
        output_print(&cli->out, LABEL "%s, %s\n", label,
                     time_text((struct wall_time){ at_ms * 1000 }, time),
                     ago_text(age_of(cli, at_ms), ago));
}

static bool show(void *argument, const struct hf_txn_info *txn)
{
    struct cli *cli = argument;
    struct output *out = &cli->out;
    if (cli->json) {
        output_json(out, txn_as_json(txn));
        return true;
    }
    output_print(out, LABEL "%s\n", "txn", txn->id);
    output_print(out, LABEL "%s%s\n", "state", hf_txn_state_name(txn->state), state_hint(txn));
    if (txn->holder[0]) {
        output_print(out, LABEL, "begun by");
        output_words(out, view_of(txn->holder));
        output_text(out, "\n");
    }
    show_time(cli, "began", txn->began_at_ms);
    show_time(cli, "decided", txn->decided_at_ms);
    for (size_t i = 0; i < txn->key_count; i++)
        output_print(out, LABEL "%s\n", i == 0 ? "keys" : "", txn->keys[i]);
    if (txn->key_count == 0)
        output_print(out, LABEL "none that are known\n", "keys");
    return true;
}

enum hf_status run_txn_show(struct cli *cli)
{
    struct hf_client *client = NULL;
    const char *id = cli->arguments[0];
    enum hf_status status = txn_id_check(cli, id);
    if (status == HF_OK)
        status = txn_connect(cli, /* holder */ NULL, &client);
    if (status != HF_OK)
        return status;
    status = hf_txn_show(client, id, show, cli, &cli->error);
    if (status == HF_CORRUPT)
        record_damaged(id, &cli->error);
    if (status == HF_NOT_FOUND)
        error_set(&cli->error, HF_NOT_FOUND,
                  "there is no record of it: it was never begun, or was decided long ago and "
                  "purged; either way nothing of it is pending");
    hf_client_close(client);
    return status;
}

/* ---- ls ------------------------------------------------------------------------------ */

static const char *const titles[] = { "TXN", "STATE", "BEGAN", "HOLDER", "KEYS" };
#define COLUMNS (sizeof titles / sizeof titles[0])

struct listing {
    struct cli *cli;
    struct hf_error damage; /* of the last that could not be read */
    enum hf_status status;  /* of writing */
    struct grid grid;
    bool titled;
};

static enum hf_status take_state(struct cli *cli, enum hf_txn_state *ret_state)
{
    const char *word = option_text(cli, "state");
    *ret_state = HF_TXN_ABSENT;
    if (!word)
        return HF_OK;
    for (int state = HF_TXN_PENDING; state <= HF_TXN_ROLLBACK; state++)
        if (strcmp(word, hf_txn_state_name((enum hf_txn_state)state)) == 0) {
            *ret_state = (enum hf_txn_state)state;
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

static bool list_txn(void *argument, const struct hf_txn_info *txn)
{
    struct listing *listing = argument;
    struct grid *grid = &listing->grid;
    char ago[AGO_TEXT_MAX];
    if (listing->cli->json) {
        output_json(&listing->cli->out, txn_as_json(txn));
        return true;
    }
    grid_print(grid, "%s", txn->id);
    grid_print(grid, "%s", hf_txn_state_name(txn->state));
    if (txn->began_at_ms > 0)
        grid_print(grid, "%s", ago_text(age_of(listing->cli, txn->began_at_ms), ago));
    else
        grid_cell(grid, VIEW("-"));
    grid_cell(grid, txn->holder[0] ? view_of(txn->holder) : VIEW("-"));
    grid_print(grid, "%zu", txn->key_count);
    if (grid->count == GRID_ROWS_MAX || grid->failed)
        listing->status = write_rows(listing);
    return listing->status == HF_OK;
}

/* One that is damaged is told, and the others are listed all the same. */
static void note_damage(void *argument, const char *record, const struct hf_error *why)
{
    struct listing *listing = argument;
    cli_report(listing->cli, view_of(record), why);
    listing->cli->reported = true;
    listing->damage = *why;
}

static enum hf_status list_all(struct listing *listing, struct hf_client *client,
                               enum hf_txn_state state)
{
    struct cli *cli = listing->cli;
    struct hf_list_options options = HF_LIST_OPTIONS;
    struct hf_error error;
    options.damaged = note_damage;
    options.proceed = not_interrupted;
    enum hf_status status = hf_txns_list(client, state, &options, list_txn, listing, &error);
    if (status == HF_CANCELLED)
        interrupt_check(&error);
    if (status != HF_OK)
        cli->error = error;
    else
        status = listing->status; /* whose error is the command's already */
    if (status == HF_OK && listing->grid.count > 0)
        status = write_rows(listing);
    return status;
}

enum hf_status run_txn_ls(struct cli *cli)
{
    struct hf_client *client = NULL;
    struct listing listing = { .cli = cli };
    enum hf_txn_state state;
    enum hf_status status = take_state(cli, &state);
    if (status == HF_OK)
        status = txn_connect(cli, /* holder */ NULL, &client);
    if (status != HF_OK)
        return status;
    status = grid_init(&listing.grid, titles, COLUMNS) ? list_all(&listing, client, state)
                                                       : error_no_memory(&cli->error);
    grid_release(&listing.grid);
    hf_client_close(client);
    if (status != HF_OK)
        cli->reported = false;
    else if (cli->reported)
        cli->error = listing.damage;
    return status == HF_OK ? cli->error.status : status;
}
