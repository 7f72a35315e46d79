/* SPDX-License-Identifier: Apache-2.0 */
/* lease.c: `key acquire`, `key renew` and `key release`: the lease of a key, which outlives the
 * command and is passed to others as text; and the results that all key commands print. */
#include "cli/key/key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Results ------------------------------------------------------------------------- */

/* Advice on what to do next. */
static const char *const advice[HF_KEY_OUTCOME_COUNT] = {
    [HF_KEY_LEASE_REQUIRED] =
        "pass the lease that 'holdfast key acquire' prints with --lease or "
        "HOLDFAST_LEASE",
    [HF_KEY_LEASE_EXPIRED] = "acquire the key again, read it, and decide again",
    [HF_KEY_FENCING_MISMATCH] = "stop the protected work; acquire the key again, and read it",
    [HF_KEY_VERSION_CONFLICT] = "read the key again, and decide again",
    [HF_KEY_ETAG_MISMATCH] = "read the key again, and decide again",
    [HF_KEY_TXN_MISMATCH] =
        "name its transaction with --txn; 'holdfast key show' prints its id",
    [HF_KEY_WAITING] = "wait longer with --wait; 'holdfast key show' names the holder",
};

void error_advise(struct hf_error *error, const char *what)
{
    size_t used = strlen(error->why), more = strlen(what) + 2;
    if (used + more < sizeof error->why)
        snprintf(error->why + used, sizeof error->why - used, "; %s", what);
}

enum hf_status key_refused(struct cli *cli, enum hf_key_outcome outcome)
{
    enum hf_status status = cli->error.status;
    if (status == HF_OK || status == HF_UNSURE)
        return status;
    if (outcome == HF_KEY_NONE && (status == HF_HELD || status == HF_TIMEOUT))
        outcome = HF_KEY_WAITING;
    else if (outcome == HF_KEY_NONE && (status == HF_EXPIRED || status == HF_LOST))
        outcome = HF_KEY_LEASE_EXPIRED;
    else if (outcome == HF_KEY_NONE && status == HF_FENCED)
        outcome = HF_KEY_FENCING_MISMATCH;
    if (outcome != HF_KEY_NONE) {
        cli->outcome = hf_key_outcome_name(outcome);
        error_advise(&cli->error, advice[outcome]);
    }
    return status;
}

const struct field version_record[] = VERSION_RECORD;
const struct field got_key_record[] = GOT_KEY_RECORD;
const struct field changed_key_record[] = CHANGED_KEY_RECORD;
const struct field acquired_key_record[] = ACQUIRED_KEY_RECORD;
const struct field renewed_key_record[] = RENEWED_KEY_RECORD;
const struct field listed_key_record[] = LISTED_KEY_RECORD;

struct told_key told_key(struct cli *cli, const char *name, const struct hf_key_info *info)
{
    return (struct told_key){ .name = name,
                              .info = *info,
                              .updated_in_ms =
                                  info->updated_ms - env_wall(cli->env).us / 1000 };
}

/* ---- Transactions by id -------------------------------------------------------------- */

enum hf_status txn_id_check(struct cli *cli, const char *id)
{
    if (strlen(id) == HF_TXN_ID_SIZE && strspn(id, "0123456789abcdef") == HF_TXN_ID_SIZE)
        return HF_OK;
    return cli_invalid(cli,
                       "'%.60s' is not a transaction id; an id has %d hexadecimal digits, as "
                       "'holdfast txn begin' prints it",
                       id, HF_TXN_ID_SIZE);
}

enum hf_status key_context_join(struct key_context *context)
{
    struct cli *cli = context->cli;
    struct hf_txn_options options = HF_TXN_OPTIONS;
    options.id = option_text(cli, "txn");
    if (!options.id)
        return HF_OK;
    enum hf_status status = txn_id_check(cli, options.id);
    return status == HF_OK ? hf_txn_begin(cli->client, &options, &context->txn, &cli->error)
                           : status;
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

struct holder_search {
    struct cli *cli;
    struct buffer text;
};

static bool name_holder(void *argument, const char *scope, const struct hf_lease_info *lease)
{
    struct holder_search *search = argument;
    append_holder(&search->text, lease);
    if (search->cli->json)
        refusal_add_lease(&search->cli->refusal, lease, lease->barrier ? NULL : scope);
    return false;
}

/* Replaces an error that only says "held" with an error that names the holder. False if no holder
 * is found. A key in a transaction has no handle yet, so a new handle for its lock is used. */
static bool explain_waiting(struct key_context *context)
{
    struct cli *cli = context->cli;
    struct holder_search search = { cli, BUFFER_INIT(8 * KEY_BYTES_MAX) };
    struct hf_lock *lock;
    if (hf_lock_new(cli->client, context->name, NULL, &lock, /* error */ NULL) == HF_OK)
        hf_lock_blockers(lock, name_holder, &search, /* error */ NULL);
    hf_lock_free(lock);
    bool found = search.text.size > 0;
    if (found)
        error_set(&cli->error, cli->error.status, "%.*s",
                  VIEW_ARGS(view_first(buffer_view(&search.text), HF_WHY_MAX - 80)));
    buffer_release(&search.text);
    return found;
}

struct taking {
    struct key_context *context;
    const struct hf_key_options *options;
};

/* A key in a transaction is owned and freed by the transaction. */
static enum hf_status acquire_key(void *argument, int64_t wait_ms, struct hf_error *error)
{
    struct taking *taking = argument;
    struct key_context *context = taking->context;
    if (!context->txn)
        return hf_key_acquire(context->key, wait_ms, &context->info, error);
    enum hf_status status = hf_txn_acquire(context->txn, &context->name, 1, taking->options,
                                           wait_ms, &context->key, error);
    return status == HF_OK ? hf_key_seen(context->key, &context->info, error) : status;
}

/* If no holder is found, a TIMEOUT comes from the store, and its error is kept. */
enum hf_status key_context_take(struct key_context *context, const char *name,
                                const struct hf_key_options *options)
{
    struct cli *cli = context->cli;
    struct taking taking = { context, options };
    struct wait_call call = { acquire_key, &taking, .txn = context->txn };
    enum hf_status status = HF_OK;
    context->name = name;
    if (!context->txn)
        status = hf_key_new(cli->client, name, options, &context->key, &cli->error);
    if (status != HF_OK)
        return status;
    if (!context->txn)
        call.lock = hf_key_lock(context->key);
    status = wait_in_line(cli, &call);
    bool waited = (status == HF_HELD || status == HF_TIMEOUT) && explain_waiting(context);
    if (status == HF_OK || (status == HF_TIMEOUT && !waited))
        return status;
    cli->conflict = status == HF_HELD || waited;
    return key_refused(cli, context->info.outcome);
}

/* ---- Adopting ------------------------------------------------------------------------ */

#define STATUS_OF(name, status, text)   HF_##status,
#define SENTENCE_OF(name, status, text) text,
static const enum hf_status outcome_statuses[] = { HF_KEY_OUTCOME_TABLE(STATUS_OF) };
static const char *const outcome_sentences[] = { HF_KEY_OUTCOME_TABLE(SENTENCE_OF) };

/* Sets the error for a lease that has ended. The error depends on whether the key has since been
 * granted to another client. A renewal or release fails with LOST; a change fails with the same
 * status as in the library. */
static enum hf_status refuse_lost(struct cli *cli, const struct hf_lease_name *lease,
                                  bool changes)
{
    struct hf_key_status now = HF_KEY_STATUS;
    enum hf_key_outcome outcome = HF_KEY_LEASE_EXPIRED;
    if (lease->key[0] &&
        hf_key_describe(cli->client, lease->key, NULL, &now, /* error */ NULL) == HF_OK &&
        now.held && now.token > lease->token)
        outcome = HF_KEY_FENCING_MISMATCH;
    if (changes)
        error_set(&cli->error, outcome_statuses[outcome], "%s", outcome_sentences[outcome]);
    return key_refused(cli, outcome);
}

/* A lease belongs to one key. If the user also names a key, the two must agree; a default for the
 * namespace names none. */
static enum hf_status check_key_name(struct cli *cli, const struct hf_lease_name *lease,
                                     const char *name)
{
    char table[sizeof lease->table];
    const char *ns = cli_typed(cli, "ns") ? option_text(cli, "ns") : lease->ns;
    struct hf_key *any;
    enum hf_status status = hf_key_new(cli->client, name, NULL, &any, &cli->error);
    hf_key_free(any);
    snprintf(table, sizeof table, "%.*s/meta/%s.json", HF_NAME_MAX, ns, name);
    if (status != HF_OK || strcmp(lease->table, table) == 0)
        return status;
    return error_set(&cli->error, HF_MISMATCH, "the lease is for %.100s, not for %.100s",
                     lease->table, table);
}

enum hf_status key_context_adopt(struct key_context *context, const char *name,
                                 const struct hf_key_options *options)
{
    struct cli *cli = context->cli;
    struct hf_lease_name parsed = HF_LEASE_NAME;
    const char *lease = NULL;
    enum hf_status status = lease_text(cli, option_text(cli, "lease"), &lease);
    if (status != HF_OK)
        return status;
    if (!lease || !lease[0]) {
        error_set(&cli->error, HF_DENIED, "changing a key requires its lease");
        key_refused(cli, HF_KEY_LEASE_REQUIRED);
        if (name) /* only commands that change a key accept --take */
            error_advise(&cli->error, "or use --take to acquire the key for this one change");
        return HF_DENIED;
    }
    status = hf_lease_parse(lease, &parsed, &cli->error);
    if (status == HF_OK)
        status = cli_connect_as(cli, parsed.ns, /* holder */ NULL);
    if (status == HF_OK && name)
        status = check_key_name(cli, &parsed, name);
    if (status == HF_OK && name) /* only commands that change a key accept --txn */
        status = key_context_join(context);
    if (status != HF_OK)
        return status;
    context->adopted = true;
    status = context->txn
                 ? hf_txn_adopt(context->txn, lease, options, &context->key, &cli->error)
                 : hf_key_adopt(cli->client, lease, options, &context->key, &cli->error);
    if (status == HF_OK)
        context->name = hf_key_name(context->key);
    return status == HF_LOST ? refuse_lost(cli, &parsed, /* changes */ name != NULL) : status;
}

void key_context_close(struct key_context *context)
{
    if (context->adopted)
        hf_key_detach(context->key);
    else if (!context->txn)
        hf_key_free(context->key);
    hf_txn_free(context->txn);
}

/* ---- acquire ------------------------------------------------------------------------- */

/* A lease that could not be printed is released, because no one else can release it. The lease of a
 * key in a transaction stays with the transaction. */
enum hf_status run_key_acquire(struct cli *cli)
{
    struct key_context context = KEY_CONTEXT(cli);
    struct hf_key_options options = HF_KEY_OPTIONS;
    enum hf_status status = key_options(cli, &options);
    options.no_renewal = true;
    if (status == HF_OK)
        status = cli_connect_as_user(cli);
    if (status == HF_OK)
        status = key_context_join(&context);
    if (status == HF_OK)
        status = key_context_take(&context, cli->arguments[0], &options);
    struct told_key told = told_key(cli, context.name, &context.info);
    if (status == HF_OK)
        status = told_lease_fill(cli, hf_key_lock(context.key), &told.lease);
    if (status == HF_OK) {
        record_show(cli, acquired_key_record, &told, "{lease}\n");
        status = context.txn ? output_flush(&cli->out, &cli->error)
                             : output_flush_or_undo(&cli->out, &cli->error);
        context.adopted =
            status == HF_OK && !context.txn; /* the reader of the output now owns the lease */
    }
    key_context_close(&context);
    return status;
}

/* ---- keepalive ----------------------------------------------------------------------- */

enum hf_status run_key_renew(struct cli *cli)
{
    struct key_context context = KEY_CONTEXT(cli);
    struct hf_key_options options = HF_KEY_OPTIONS;
    options.no_renewal = true;
    enum hf_status status = key_context_adopt(&context, /* name */ NULL, &options);
    struct told_key told = { .name = context.name };
    if (status == HF_OK)
        status = told_lease_fill(cli, hf_key_lock(context.key), &told.lease);
    if (status == HF_OK)
        record_tell(cli, renewed_key_record, &told, "renewed for {ttl_ms}\n");
    key_context_close(&context);
    return status;
}

/* ---- release ------------------------------------------------------------------------- */

struct released_key {
    const char *key;
    bool released;
    uint64_t token;
    enum hf_decision decision;
    bool transaction; /* the release ended a whole transaction */
};

static const char *decision_name(unsigned decision)
{
    return decision == HF_COMMIT ? "commit" : "rollback";
}

const struct field released_key_record[] = RELEASED_KEY_RECORD;

/* If the key belongs to a transaction, the whole transaction is committed or rolled back. The
 * transaction's record might not name this key, so the key is then released separately. */
enum hf_status run_key_release(struct cli *cli)
{
    struct key_context context = KEY_CONTEXT(cli);
    struct hf_key_options options = HF_KEY_OPTIONS;
    struct hf_key_info info = HF_KEY_INFO;
    struct hf_key_status now = HF_KEY_STATUS;
    enum hf_decision decision = cli_given(cli, "rollback") ? HF_ROLLBACK : HF_COMMIT;
    options.no_renewal = true;
    enum hf_status status = key_context_adopt(&context, /* name */ NULL, &options);
    if (status != HF_OK) {
        key_context_close(&context);
        return status;
    }
    uint64_t token = hf_lock_token(hf_key_lock(context.key));
    status = hf_key_describe(cli->client, context.name, &info, &now, &cli->error);
    bool of_txn = status == HF_OK && now.token == token && info.txn[0] != '\0';
    status = of_txn ? txn_settle(cli, info.txn, decision)
                    : hf_key_release(context.key, decision, &cli->error);
    if (of_txn && (status == HF_OK || status == HF_MISMATCH))
        hf_key_release(context.key, HF_ROLLBACK, /* error */ NULL);
    struct released_key told = { context.name, true, token, decision, of_txn };
    if (status == HF_OK)
        record_tell(cli, released_key_record, &told, NULL);
    else if (!of_txn)
        key_refused(cli, HF_KEY_NONE);
    key_context_close(&context);
    return status;
}
