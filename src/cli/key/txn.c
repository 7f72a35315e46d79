/* SPDX-License-Identifier: Apache-2.0 */
/* txn.c: `txn begin`, `show`, `commit`, `rollback` and `ls`: transactions identified by their ids,
 * so several processes can share one. */
#include "cli/key/key.h"

#include <string.h>

/* A damaged decision record needs an operator, because only its bytes can show whether the
 * transaction was committed. */
static enum hf_status record_damaged(const char *id, struct hf_error *error)
{
    return error_set(error, HF_CORRUPT,
                     "its decision record is damaged, so it is unknown whether it was "
                     "committed; inspect it with 'holdfast store get .txn-decisions/m/%s'; "
                     "'holdfast txn rollback --damaged' discards unpublished changes",
                     id);
}

/* A transaction and its state. */
struct decided {
    const char *txn;
    enum hf_txn_state state;
};

const struct field decided_record[] = DECIDED_RECORD;

/* A transaction whose id could not be printed is rolled back, because no one can use it. */
enum hf_status run_txn_begin(struct cli *cli)
{
    char id[HF_TXN_ID_SIZE + 1];
    enum hf_status status = cli_connect_as_user(cli);
    if (status == HF_OK)
        status = hf_txn_open(cli->client, id, &cli->error);
    if (status == HF_OK) {
        record_show(cli, decided_record, &(struct decided){ id, HF_TXN_PENDING }, "{txn}\n");
        status = output_flush_or_undo(&cli->out, &cli->error);
        if (status != HF_OK)
            hf_txn_decide(cli->client, id, HF_ROLLBACK, NULL, /* error */ NULL);
    }
    return status;
}

static enum hf_txn_state decided_state(enum hf_decision decision)
{
    return decision == HF_COMMIT ? HF_TXN_COMMIT : HF_TXN_ROLLBACK;
}

/* If the decision record is damaged, the error says so. If only a key is damaged, the key's error
 * is kept. */
enum hf_status txn_settle(struct cli *cli, const char *id, enum hf_decision decision)
{
    enum hf_decision recorded = decision;
    enum hf_status status = hf_txn_decide(cli->client, id, decision, &recorded, &cli->error);
    if (status == HF_UNSURE)
        error_prefix(&cli->error, "it is unknown whether the decision was recorded; try again");
    if (status == HF_CORRUPT &&
        hf_txn_show(cli->client, id, NULL, NULL, /* error */ NULL) == HF_CORRUPT)
        record_damaged(id, &cli->error);
    else if (status != HF_CORRUPT && recorded != decision)
        cli->outcome = hf_txn_state_name(decided_state(recorded));
    return status;
}

static enum hf_status decide_txn(struct cli *cli, enum hf_decision decision)
{
    const char *id = cli->arguments[0];
    enum hf_status status = txn_id_check(cli, id);
    if (status == HF_OK)
        status = cli_connect(cli);
    if (status == HF_OK && decision == HF_ROLLBACK && cli_given(cli, "damaged"))
        status = hf_txn_give_up(cli->client, id, NULL, &cli->error);
    if (status == HF_OK)
        status = txn_settle(cli, id, decision);
    if (status == HF_OK)
        record_tell(cli, decided_record, &(struct decided){ id, decided_state(decision) },
                    decision == HF_COMMIT ? "committed\n" : "rolled back\n");
    return status;
}

enum hf_status run_txn_commit(struct cli *cli)
{
    return decide_txn(cli, HF_COMMIT);
}

enum hf_status run_txn_rollback(struct cli *cli)
{
    return decide_txn(cli, HF_ROLLBACK);
}

/* A remark about what happens to the transaction next. */
static const char *outlook(const struct hf_txn_info *txn)
{
    if (txn->state == HF_TXN_PENDING)
        return txn->open ? "" : "; to be committed by the process that began it";
    if (txn->marked)
        return "; by a client that found no record of it, or a damaged one";
    if (txn->state == HF_TXN_ROLLBACK)
        return "; none of its changes were published";
    return txn->applied ? "; all of its keys have their new state"
                        : "; each key gets its new state when it is next used";
}

/* A transaction as commands print it, with the time since it began and the time since it was
 * decided. */
struct told_txn {
    struct hf_txn_info info;
    const char *outlook;
    int64_t began_in_ms, decided_in_ms; /* negative */
};

const struct field txn_record[] = TXN_RECORD;

static struct told_txn told_txn(struct cli *cli, const struct hf_txn_info *txn)
{
    int64_t now_ms = env_wall(cli->env).us / 1000;
    return (struct told_txn){ *txn, outlook(txn), txn->began_at_ms - now_ms,
                              txn->decided_at_ms - now_ms };
}

static bool print_txn(void *argument, const struct hf_txn_info *txn)
{
    struct cli *cli = argument;
    struct told_txn told = told_txn(cli, txn);
    record_show(cli, txn_record, &told, TXN_TEXT);
    if (cli->json)
        return true;
    for (size_t i = 0; i < txn->key_count; i++)
        output_print(&cli->out, "%-12s%s\n", i == 0 ? "keys" : "", txn->keys[i]);
    if (txn->key_count == 0)
        output_text(&cli->out, "keys        none known\n");
    return true;
}

enum hf_status run_txn_show(struct cli *cli)
{
    const char *id = cli->arguments[0];
    enum hf_status status = txn_id_check(cli, id);
    if (status == HF_OK)
        status = cli_connect(cli);
    if (status != HF_OK)
        return status;
    status = hf_txn_show(cli->client, id, print_txn, cli, &cli->error);
    if (status == HF_CORRUPT)
        record_damaged(id, &cli->error);
    if (status == HF_NOT_FOUND)
        error_set(&cli->error, HF_NOT_FOUND,
                  "the transaction has no record: it was never begun, or it was decided long "
                  "ago and its record was deleted; none of its changes are pending");
    return status;
}

static bool list_txn(void *argument, const struct hf_txn_info *txn)
{
    struct listing *listing = argument;
    struct told_txn told = told_txn(listing->cli, txn);
    return listing_add_record(listing, txn_record, &told);
}

enum hf_status run_txn_ls(struct cli *cli)
{
    struct listing listing;
    struct hf_list_options options = HF_LIST_OPTIONS;
    struct hf_error error;
    const char *word = option_text(cli, "state");
    enum hf_txn_state state = HF_TXN_ABSENT;
    for (int i = HF_TXN_PENDING; i <= HF_TXN_ROLLBACK; i++)
        if (word && strcmp(word, hf_txn_state_name((enum hf_txn_state)i)) == 0)
            state = (enum hf_txn_state)i;
    if (word && state == HF_TXN_ABSENT)
        return cli_invalid(cli, "--state must be pending, commit or rollback, not '%.40s'",
                           word);
    options.damaged = listing_damaged;
    options.proceed = not_interrupted;
    enum hf_status status = cli_connect(cli);
    if (status == HF_OK)
        status =
            listing_begin(&listing, cli, "TXN\tSTATE\tBEGAN\tHOLDER\tKEYS",
                          "{txn}\t{state}\t[{began_at?}{began}|-]\t[{holder}|-]\t{key_count}");
    if (status != HF_OK)
        return status;
    status = hf_txns_list(cli->client, state, &options, list_txn, &listing, &error);
    return listing_end(&listing, status, &error);
}
