/* key_lease.c: `key acquire`, `key renew` and `key release`: the lease of a key, which outlives
 * the command and is passed on as text. */
#include "base/layout.h"
#include "cli/connect.h"
#include "cli/json_add.h"
#include "cli/key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Transactions that are named ----------------------------------------------------- */

enum hf_status txn_id_check(struct cli *cli, const char *id)
{
    if (strlen(id) == HF_TXN_ID_SIZE && strspn(id, "0123456789abcdef") == HF_TXN_ID_SIZE)
        return HF_OK;
    return error_set(
        &cli->error, HF_INVALID,
        "'%.60s' is no transaction: they are %d hexadecimal digits, as 'txn begin' "
        "prints them",
        id, HF_TXN_ID_SIZE);
}

enum hf_status key_desk_join(struct key_desk *desk)
{
    struct cli *cli = desk->cli;
    struct hf_txn_options options = HF_TXN_OPTIONS;
    options.id = option_text(cli, "txn");
    if (!options.id)
        return HF_OK;
    enum hf_status status = txn_id_check(cli, options.id);
    return status == HF_OK ? hf_txn_begin(desk->client, &options, &desk->txn, &cli->error)
                           : status;
}

/* ---- Who is in the way --------------------------------------------------------------- */

struct holder_search {
    struct cli *cli;
    struct buffer text;
};

static bool note_holder(void *argument, const char *scope, const struct hf_lease_info *lease)
{
    struct holder_search *search = argument;
    append_holder(&search->text, lease);
    if (search->cli->json)
        refusal_add_lease(&search->cli->refusal, lease, lease->barrier ? NULL : scope);
    return false;
}

/* Says who holds the key in the place of an error that only says that somebody does. False when
 * nobody does. A key of a transaction has no handle then; any handle of its lock will do. */
static bool explain_waiting(struct key_desk *desk)
{
    struct cli *cli = desk->cli;
    struct holder_search search = { cli, BUFFER_INIT(8 * KEY_BYTES_MAX) };
    struct hf_lock *lock;
    if (hf_lock_new(desk->client, desk->name, NULL, &lock, /* error */ NULL) == HF_OK)
        hf_lock_blockers(lock, note_holder, &search, /* error */ NULL);
    hf_lock_free(lock);
    bool found = search.text.size > 0;
    if (found)
        error_set(&cli->error, cli->error.status, "%.*s",
                  VIEW_ARGS(view_first(buffer_view(&search.text), HF_WHY_MAX - 80)));
    buffer_release(&search.text);
    return found;
}

/* ---- Taking -------------------------------------------------------------------------- */

enum hf_status key_options(struct cli *cli, struct hf_key_options *options)
{
    struct hf_lock_options lock;
    enum hf_status status = lock_options(cli, /* has_modes */ false, &lock);
    options->ttl_ms = lock.ttl_ms;
    options->poll_ms = lock.poll_ms;
    return status;
}

struct taking {
    struct key_desk *desk;
    const struct hf_key_options *options;
};

/* A key of a transaction is the transaction's, which frees it. */
static enum hf_status take(void *argument, int64_t wait_ms, struct hf_error *error)
{
    struct taking *taking = argument;
    struct key_desk *desk = taking->desk;
    if (!desk->txn)
        return hf_key_acquire(desk->key, wait_ms, &desk->info, error);
    enum hf_status status =
        hf_txn_acquire(desk->txn, &desk->name, 1, taking->options, wait_ms, &desk->key, error);
    return status == HF_OK ? hf_key_seen(desk->key, &desk->info, error) : status;
}

static void cancel(void *argument)
{
    const struct taking *taking = argument;
    if (taking->desk->txn)
        hf_txn_interrupt(taking->desk->txn);
    else
        hf_lock_interrupt(hf_key_lock(taking->desk->key));
}

static enum hf_status trouble_of_key(void *argument, struct hf_error *error)
{
    const struct taking *taking = argument;
    return taking->desk->txn ? hf_txn_trouble(taking->desk->txn, error)
                             : hf_lock_trouble(hf_key_lock(taking->desk->key), error);
}

/* The time may be up because of the store, which says so itself: then nobody is waited for. */
static enum hf_status take_in_line(struct key_desk *desk, const struct hf_key_options *options)
{
    struct cli *cli = desk->cli;
    struct taking taking = { .desk = desk, .options = options };
    enum hf_status status =
        wait_in_line(cli, &(struct wait_call){ take, cancel, trouble_of_key, &taking });
    bool waited = (status == HF_HELD || status == HF_TIMEOUT) && explain_waiting(desk);
    if (status == HF_OK || (status == HF_TIMEOUT && !waited))
        return status;
    return key_refused(cli, desk->info.outcome);
}

enum hf_status key_desk_take(struct key_desk *desk, const char *name,
                             const struct hf_key_options *options)
{
    struct cli *cli = desk->cli;
    desk->name = name;
    enum hf_status status = HF_OK;
    if (!desk->txn)
        status = hf_key_new(desk->client, name, options, &desk->key, &cli->error);
    return status == HF_OK ? take_in_line(desk, options) : status;
}

/* ---- Adopting ------------------------------------------------------------------------ */

/* A lease is of one key; to name both is a chance to be told of a mistake. */
static enum hf_status check_name(struct key_desk *desk, const struct hf_lease_name *lease,
                                 const char *name)
{
    struct cli *cli = desk->cli;
    char table[sizeof lease->table];
    const char *given = option_text(cli, "ns"), *ns = given ? given : lease->ns;
    struct hf_key *any;
    enum hf_status status = hf_key_new(desk->client, name, NULL, &any, &cli->error);
    hf_key_free(any);
    if (status != HF_OK)
        return status;
    snprintf(table, sizeof table, "%.*s" LAYOUT_META_FOLDER "%s.json", HF_NAME_MAX, ns, name);
    if (strcmp(lease->table, table) == 0)
        return HF_OK;
    return error_set(&cli->error, HF_MISMATCH, "the lease is that of %.100s, not of %.100s",
                     lease->table, table);
}

#define STATUS_OF(name, status, text)   HF_##status,
#define SENTENCE_OF(name, status, text) text,
static const enum hf_status outcome_statuses[] = { HF_KEY_OUTCOME_TABLE(STATUS_OF) };
static const char *const outcome_sentences[] = { HF_KEY_OUTCOME_TABLE(SENTENCE_OF) };

/* A lease that is over, and whether somebody was granted the key since. Who only keeps it alive or
 * gives it back has LOST it; a change is refused as the library would. */
static enum hf_status adopt_lost(struct key_desk *desk, const struct hf_lease_name *lease,
                                 bool changes)
{
    struct cli *cli = desk->cli;
    struct hf_key_status now = HF_KEY_STATUS;
    enum hf_key_outcome outcome = HF_KEY_LEASE_EXPIRED;
    if (lease->key[0] &&
        hf_key_describe(desk->client, lease->key, NULL, &now, /* error */ NULL) == HF_OK &&
        now.held && now.token > lease->token)
        outcome = HF_KEY_FENCING_MISMATCH;
    if (changes)
        error_set(&cli->error, outcome_statuses[outcome], "%s", outcome_sentences[outcome]);
    return key_refused(cli, outcome);
}

enum hf_status key_desk_adopt(struct key_desk *desk, const char *name,
                              const struct hf_key_options *options)
{
    struct cli *cli = desk->cli;
    struct hf_client_options client_options = HF_CLIENT_OPTIONS;
    struct hf_lease_name parsed = HF_LEASE_NAME;
    const char *lease = NULL;
    enum hf_status status = lease_text(cli, option_text(cli, "lease"), &lease);
    if (status != HF_OK)
        return status;
    if (!lease || !lease[0]) {
        error_set(&cli->error, HF_DENIED, "changing a key requires its lease%s",
                  name ? " (or --take, for this one change)" : "");
        return key_refused(cli, HF_KEY_LEASE_REQUIRED);
    }
    status = hf_lease_parse(lease, &parsed, &cli->error);
    client_options.ns = parsed.ns;
    if (status == HF_OK)
        status = cli_connect(cli, client_options, &desk->client);
    if (status == HF_OK && name)
        status = check_name(desk, &parsed, name);
    if (status == HF_OK && name) /* only those who change something have --txn */
        status = key_desk_join(desk);
    if (status != HF_OK)
        return status;
    desk->adopted = true;
    status = desk->txn ? hf_txn_adopt(desk->txn, lease, options, &desk->key, &cli->error)
                       : hf_key_adopt(desk->client, lease, options, &desk->key, &cli->error);
    if (status == HF_OK)
        desk->name = hf_key_name(desk->key);
    return status == HF_LOST ? adopt_lost(desk, &parsed, /* changes */ name != NULL) : status;
}

void key_desk_close(struct key_desk *desk)
{
    if (desk->adopted)
        hf_key_detach(desk->key);
    else if (!desk->txn)
        hf_key_free(desk->key);
    hf_txn_free(desk->txn);
    hf_client_close(desk->client);
}

/* ---- acquire ------------------------------------------------------------------------- */

static void add_lease(json_t **object, struct hf_key *key, const char *text)
{
    struct hf_lock *lock = hf_key_lock(key);
    json_add(object, "lease", json_string(text));
    json_add_count(object, "token", hf_lock_token(lock));
    json_add_count(object, "ttl_ms", (uint64_t)hf_lock_ttl_ms(lock));
    json_add_count(object, "expires_in_ms", (uint64_t)hf_lock_remaining_ms(lock));
}

static enum hf_status hand_over(struct key_desk *desk)
{
    struct cli *cli = desk->cli;
    char text[HF_LEASE_TEXT_MAX];
    enum hf_status status = hf_lock_text(hf_key_lock(desk->key), text, &cli->error);
    if (status != HF_OK)
        return status;
    if (cli->json) {
        json_t *object = key_info_as_json(desk->name, &desk->info);
        add_lease(&object, desk->key, text);
        output_json(&cli->out, object);
    } else {
        output_print(&cli->out, "%s\n", text);
    }
    return desk->txn ? output_flush(&cli->out, &cli->error)
                     : output_flush_or_undo(&cli->out, &cli->error);
}

/* When the lease could not be told, it is given back with the handle: nobody else will. That of a
 * transaction stays with it. */
enum hf_status run_key_acquire(struct cli *cli)
{
    struct key_desk desk = KEY_DESK(cli);
    struct hf_key_options options = HF_KEY_OPTIONS;
    char user[USER_TEXT_MAX];
    const char *holder = option_text(cli, "holder");
    enum hf_status status = key_options(cli, &options);
    options.no_renewal = true;
    if (status == HF_OK)
        status = lock_connect(cli, holder ? holder : user_text(user), &desk.client);
    if (status == HF_OK)
        status = key_desk_join(&desk);
    if (status == HF_OK)
        status = key_desk_take(&desk, cli->arguments[0], &options);
    if (status == HF_OK) {
        status = hand_over(&desk);
        desk.adopted = status == HF_OK && !desk.txn; /* it is somebody else's from now on */
    }
    key_desk_close(&desk);
    return status;
}

/* ---- keepalive ----------------------------------------------------------------------- */

enum hf_status run_key_keepalive(struct cli *cli)
{
    struct key_desk desk = KEY_DESK(cli);
    struct hf_key_options options = HF_KEY_OPTIONS;
    options.no_renewal = true;
    enum hf_status status = key_desk_adopt(&desk, /* name */ NULL, &options);
    if (status == HF_OK && cli->json) {
        char text[HF_LEASE_TEXT_MAX];
        status = hf_lock_text(hf_key_lock(desk.key), text, &cli->error);
        json_t *object = json_object();
        json_add(&object, "key", json_string(desk.name));
        add_lease(&object, desk.key, text);
        output_json(&cli->out, object);
    } else if (status == HF_OK && !cli->quiet) {
        char span[SPAN_TEXT_MAX];
        output_print(&cli->out, "renewed for %s\n",
                     brief_text(SPAN_MS(hf_lock_ttl_ms(hf_key_lock(desk.key))), span));
    }
    key_desk_close(&desk);
    return status;
}

/* ---- release ------------------------------------------------------------------------- */

/* Of a key that was taken for a transaction the release decides all of that. */
static enum hf_status release(struct key_desk *desk, enum hf_decision decision, bool *ret_txn)
{
    struct cli *cli = desk->cli;
    struct hf_key_info info = HF_KEY_INFO;
    struct hf_key_status now = HF_KEY_STATUS;
    enum hf_status status = hf_key_describe(desk->client, desk->name, &info, &now, &cli->error);
    bool ours = status == HF_OK && now.token == hf_lock_token(hf_key_lock(desk->key));
    *ret_txn = ours && info.txn[0] != '\0';
    if (!*ret_txn)
        return hf_key_release(desk->key, decision, &cli->error);
    status = txn_settle(cli, desk->client, info.txn, decision);
    if (status == HF_OK || status == HF_MISMATCH) /* the record may not name this key */
        hf_key_release(desk->key, HF_ROLLBACK, /* error */ NULL);
    return status;
}

enum hf_status run_key_release(struct cli *cli)
{
    struct key_desk desk = KEY_DESK(cli);
    struct hf_key_options options = HF_KEY_OPTIONS;
    enum hf_decision decision = cli_given(cli, "rollback") ? HF_ROLLBACK : HF_COMMIT;
    bool of_txn = false;
    options.no_renewal = true;
    enum hf_status status = key_desk_adopt(&desk, /* name */ NULL, &options);
    if (status == HF_OK) {
        uint64_t token = hf_lock_token(hf_key_lock(desk.key));
        status = release(&desk, decision, &of_txn);
        if (status == HF_OK && cli->json)
            output_json(&cli->out,
                        json_pack("{s:s, s:b, s:I, s:s, s:b}", "key", desk.name, "released", 1,
                                  "token", (json_int_t)token, "decision",
                                  decision == HF_COMMIT ? "commit" : "rollback", "transaction",
                                  of_txn));
        else if (status != HF_OK && !of_txn)
            key_refused(cli, HF_KEY_NONE);
    }
    key_desk_close(&desk);
    return status;
}
