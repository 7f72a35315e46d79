/* restore.h: what must be done to a store that came back from a backup.
 *
 * A backup knows less than had happened: leases that were granted since, and how far tokens had
 * come. So every epoch is raised, by more than it can have been raised since the backup was
 * made, and in every table nothing is granted until whoever held a lease then has noticed that
 * it is over. What a backup does not have at all cannot be treated like that: a lock whose
 * table is missing is free at once. docs/design.md section 5. */
#ifndef LOCK_RESTORE_H
#define LOCK_RESTORE_H

#include "lock/look.h"

/* An epoch is raised at most once an hour by sweeping, and seldom otherwise: this is half a
 * year. It can be done 511 times. */
#define RESTORE_EPOCHS 4096

#define NAMESPACES_MAX 10000

/* Calls `each` with the name of every namespace that has tables or an epoch, in byte order, and
 * of those that are `known` besides. `deadline` is that of each request. */
enum hf_status restore_namespaces(struct store *store, const struct view *known,
                                  size_t known_count, struct mono_time deadline,
                                  enum hf_status (*each)(void *argument, const char *ns,
                                                         struct hf_error *error),
                                  void *argument, struct hf_error *error);

/* What is known of the epoch of the client's namespace. */
struct restore_sight {
    bool known;     /* its document or its copy can be read, and says `epoch` */
    bool lost;      /* neither can, though tokens were given */
    uint64_t epoch; /* 0 unless it is known */
    uint64_t shown; /* the highest token that a table, fence, state or shard shows */
};

/* What they show is looked for only where the epoch is not known. */
enum hf_status restore_look(struct hf_client *client, struct restore_sight *ret_sight,
                            struct hf_error *error);

/* Writes the epoch anew, document and copy, above every token that anything shows, and never lower
 * than it is known to be. *ret_sight is what was found. */
enum hf_status restore_repair(struct hf_client *client, struct restore_sight *ret_sight,
                              uint64_t *ret_epoch, struct hf_error *error);

/* Raises the epoch of the client's namespace. One that is lost is rebuilt. */
enum hf_status restore_epoch(struct hf_client *client, uint64_t *ret_epoch,
                             struct hf_error *error);

/* Lets a table grant nothing for `barrier`, and then only tokens of this epoch or a later one.
 * A damaged table is replaced. `by` stands as the holder. */
enum hf_status restore_table(struct hf_client *client, struct view key, uint64_t epoch,
                             struct span barrier, const char *by, struct hf_error *error);

#endif
