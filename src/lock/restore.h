/* SPDX-License-Identifier: Apache-2.0 */
/* restore.h: makes a store safe after it has been restored from a backup.
 *
 * A backup contains neither the leases that were granted after it was made nor the tokens issued
 * since. So every epoch is raised by more than it can have risen since the backup, and no table
 * grants anything until all earlier leases have expired. A table that the backup does not contain
 * cannot be protected in this way: its locks are free immediately. See docs/design.md,
 * section 5. */
#ifndef LOCK_RESTORE_H
#define LOCK_RESTORE_H

#include "lock/table_reader.h"

/* A sweep raises the epoch at most once per hour, and other causes are rare, so this covers almost
 * half a year. The epoch can be raised by this much 511 times. */
#define RESTORE_EPOCHS 4096

#define NAMESPACES_MAX 10000

struct namespace_walk {
    const struct view *known;
    size_t known_count;
    struct mono_time deadline; /* of each request */
    enum hf_status (*each)(void *argument, const char *ns, struct hf_error *error);
    void *argument;
};

/* Calls `each` with the name of every namespace that is `known` or has tables or an epoch, in byte
 * order. */
enum hf_status restore_namespaces(struct store *store, const struct namespace_walk *walk,
                                  struct hf_error *error);

/* What is known about the epoch of the client's namespace. */
struct epoch_findings {
    bool known;     /* its document or its copy can be read, and contains `epoch` */
    bool lost;      /* neither can be read, though tokens were issued */
    uint64_t epoch; /* 0 unless it is known */
    uint64_t shown; /* the highest token in any table, fence, state or shard */
};

/* Scans the bucket for tokens only if the epoch is not known. */
enum hf_status restore_check_epoch(struct hf_client *client, struct epoch_findings *ret_sight,
                                   struct hf_error *error);

/* Rewrites the epoch's document and copy. The new epoch is above every token in the bucket, and
 * never below the known value. *ret_sight is what was found. */
enum hf_status restore_repair(struct hf_client *client, struct epoch_findings *ret_sight,
                              uint64_t *ret_epoch, struct hf_error *error);

/* Raises the epoch of the client's namespace. A lost epoch is rebuilt. */
enum hf_status restore_epoch(struct hf_client *client, uint64_t *ret_epoch,
                             struct hf_error *error);

/* Prevents a table from granting anything for `barrier`. After that, the table issues only tokens
 * of this epoch or a later one. A damaged table is replaced. `by` is shown as the holder. */
enum hf_status restore_table(struct hf_client *client, struct view key, uint64_t epoch,
                             struct span barrier, const char *by, struct hf_error *error);

#endif
