/* key.h: what the commands about keys and transactions share. Their rows stand in key.c;
 * key_lease.c takes, keeps alive and releases, key_change.c updates and removes, key_read.c gets,
 * describes and lists, txn.c decides, key_text.c says what came of it. */
#ifndef CLI_KEY_H
#define CLI_KEY_H

#include "cli/lock.h"

enum hf_status run_key_acquire(struct cli *cli);
enum hf_status run_key_keepalive(struct cli *cli);
enum hf_status run_key_release(struct cli *cli);
enum hf_status run_key_update(struct cli *cli);
enum hf_status run_key_remove(struct cli *cli);
enum hf_status run_key_get(struct cli *cli);
enum hf_status run_key_describe(struct cli *cli);
enum hf_status run_key_ls(struct cli *cli);
enum hf_status run_txn_begin(struct cli *cli);
enum hf_status run_txn_show(struct cli *cli);
enum hf_status run_txn_commit(struct cli *cli);
enum hf_status run_txn_rollback(struct cli *cli);
enum hf_status run_txn_ls(struct cli *cli);

/* ---- Holding a key (key_lease.c) ----------------------------------------------------- */

/* A key that a command works on, with all that it takes. Zero-initialised; key_desk_close gives
 * everything back, on failure too. */
struct key_desk {
    struct cli *cli;
    struct hf_client *client;
    struct hf_txn *txn; /* of --txn, joined; NULL: none */
    struct hf_key *key;
    const char *name;
    bool adopted; /* by the text of its lease: it stays when we are done */
    struct hf_key_info info;
};
#define KEY_DESK(owner)                     \
    {                                       \
        .cli = (owner), .info = HF_KEY_INFO \
    }

/* The options of a key that is about to be acquired: --ttl and so on. */
enum hf_status key_options(struct cli *cli, struct hf_key_options *options);

/* Acquires the key of this name, for as long as --wait or --no-wait say. */
enum hf_status key_desk_take(struct key_desk *desk, const char *name,
                             const struct hf_key_options *options);

/* Adopts the lease of --lease or $HOLDFAST_LEASE; that of `name` unless that is NULL. */
enum hf_status key_desk_adopt(struct key_desk *desk, const char *name,
                              const struct hf_key_options *options);

void key_desk_close(struct key_desk *desk);

/* Joins the transaction of --txn, which the command must have, if it is given. */
enum hf_status key_desk_join(struct key_desk *desk);

/* The transaction that is named, checked to be an id. */
enum hf_status txn_id_check(struct cli *cli, const char *id);

/* Decides a transaction (txn.c). MISMATCH when it was decided otherwise; with --json the outcome
 * tells how. */
enum hf_status txn_settle(struct cli *cli, struct hf_client *client, const char *id,
                          enum hf_decision decision);

/* ---- What came of it (key_text.c) ---------------------------------------------------- */

/* Adds what to do next to the sentence of an error, if there is room for it. */
void error_advise(struct hf_error *error, const char *what);

/* Notes the outcome of a refusal for --json, and adds what to do next to its sentence. NONE: as
 * the status tells. Returns the status of cli->error. */
enum hf_status key_refused(struct cli *cli, enum hf_key_outcome outcome);

/* A version of a key: version, etag, size, token, updated_at, removed, txn. */
json_t *key_info_as_json(const char *name, const struct hf_key_info *info);

/* "version 7, 2.1 KiB, ETag 9c1f…", "removed as version 8", "never written". */
void append_version(struct buffer *to, const struct hf_key_info *info);

/* The time of a version for people: "3m ago". */
const char *version_age(struct cli *cli, const struct hf_key_info *info,
                        char text[SPAN_TEXT_MAX + 4]);

#endif
