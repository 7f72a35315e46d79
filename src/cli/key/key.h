/* SPDX-License-Identifier: Apache-2.0 */
/* key.h: declarations that the `key` and `txn` commands share. lease.c acquires, renews and
 * releases keys, and formats the results; change.c updates and removes keys; read.c gets, shows and
 * lists keys; watch.c watches one; txn.c begins, commits and rolls back transactions. */
#ifndef CLI_KEY_KEY_H
#define CLI_KEY_KEY_H

#include "cli/lock/lock.h"

/* The key that a command works on, and everything that the command acquires for it.
 * Zero-initialised. key_context_close releases everything, even after a failure. */
struct key_context {
    struct cli *cli;
    struct hf_txn *txn; /* the joined transaction given by --txn, or NULL */
    struct hf_key *key;
    const char *name;
    bool adopted; /* from the text of its lease, which outlives this command */
    struct hf_key_info info;
};
#define KEY_CONTEXT(owner)                  \
    {                                       \
        .cli = (owner), .info = HF_KEY_INFO \
    }

/* Reads the options for acquiring a key, such as --ttl. */
enum hf_status key_options(struct cli *cli, struct hf_key_options *options);

/* Acquires the key of this name, and waits for it according to --wait or --no-wait. */
enum hf_status key_context_take(struct key_context *context, const char *name,
                                const struct hf_key_options *options);

/* Adopts the lease from --lease or $HOLDFAST_LEASE. Unless `name` is NULL, the lease must be for
 * the key of this name. */
enum hf_status key_context_adopt(struct key_context *context, const char *name,
                                 const struct hf_key_options *options);

void key_context_close(struct key_context *context);

/* Joins the transaction given by --txn, if any. The command must accept --txn. */
enum hf_status key_context_join(struct key_context *context);

/* INVALID unless the text has the form of a transaction id. */
enum hf_status txn_id_check(struct cli *cli, const char *id);

/* Commits or rolls back a transaction (txn.c). MISMATCH if it was already decided the other way;
 * with --json, the outcome is that decision. */
enum hf_status txn_settle(struct cli *cli, const char *id, enum hf_decision decision);

/* Appends advice to an error message, if there is room for it. */
void error_advise(struct hf_error *error, const char *what);

/* Sets the outcome of a refusal for --json, and appends advice to its message. With NONE, the
 * outcome is derived from the status. Returns the status of cli->error. */
enum hf_status key_refused(struct cli *cli, enum hf_key_outcome outcome);

/* A key as commands print it. Each command fills in the members that it prints. */
struct told_key {
    const char *name;
    struct hf_key_info info;
    int64_t updated_in_ms; /* negative */
    struct hf_key_status status;
    enum hf_txn_state txn_state; /* of info.txn */
    bool staged;
    const char *file; /* the file that the state was written to, or NULL */
    struct told_lease lease;
};
struct told_key told_key(struct cli *cli, const char *name, const struct hf_key_info *info);

extern const struct field version_record[]; /* part of the following records and of others */
extern const struct field got_key_record[], changed_key_record[], acquired_key_record[],
    renewed_key_record[], listed_key_record[];

/* "version 7, 2.1 KiB, ETag 9c1f…", "removed as version 8, ETag …", "never written". */
#define VERSION_TEXT                                                  \
    "[{version?}[{removed?}removed as version {version}, ETag {etag}" \
    "|version {version}, {size_bytes}, ETag {etag}]|never written]"

#endif
