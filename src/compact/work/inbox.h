/* SPDX-License-Identifier: Apache-2.0 */
/* inbox.h: an inbox of a partition: a prefix into which writers put objects, which the partition
 * then owns. Each scan lists the prefix and adopts what is new; once an object is merged, and its
 * grace period is over, it is deleted (care/maintain.c).
 *
 * Objects of other programs may be half written, so they are treated as the index treats its own
 * inbox: an empty object is skipped, an object is identified by its ETag, one that cannot be read
 * is reported once and left in place until it has another ETag, and only the version that was
 * adopted is ever deleted. On a local store, where a program may write a file in place, an object
 * is adopted only after two scans have seen it with the same ETag.
 *
 * Several workers may scan one inbox; an object is added once (adopt.h). */
#ifndef COMPACT_WORK_INBOX_H
#define COMPACT_WORK_INBOX_H

#include "compact/work/adopt.h"

/* How many objects an inbox remembers. Further objects are adopted once others are gone. */
#define INBOX_OBJECTS_MAX 65536

struct inbox;

/* The options are as for adopt_paths; `own`, `wants` and `each` are not used. INVALID: the prefix
 * cannot be adopted, or does not end with a slash. */
enum hf_status inbox_new(struct catalog_tree *tree, struct view prefix,
                         const struct adopt_options *options, struct inbox **ret_inbox,
                         struct hf_error *error);
void inbox_free(struct inbox *inbox);

/* Adopts what is new. Returns the first error; an object that cannot be read is an error only the
 * first time. */
enum hf_status inbox_scan(struct inbox *inbox, struct adopt_report *ret_report,
                          struct hf_error *error);

#endif
