/* SPDX-License-Identifier: Apache-2.0 */
/* epoch_scan.h: the highest token of a namespace, as far as the objects left in the bucket show
 * it. For use when the epoch is lost. */
#ifndef LOCK_EPOCH_SCAN_H
#define LOCK_EPOCH_SCAN_H

#include "store/store.h"

struct epoch_scan {
    bool used;      /* tokens were issued: an object shows one, cannot be read, or was swept */
    uint64_t token; /* the highest token found, or 0 */
};

/* Reads the namespace's lease tables and states (and those of chunks and shards, if they belong
 * to it), and whether it was ever swept, since only a sweep removes tables. With `briefly` it
 * stops once it knows that tokens were issued, and skips indexes: a shard's lock may be behind
 * its shard anyway (src/index), for example when both were copied here. */
enum hf_status epoch_scan_tables(struct store *store, struct view ns, bool briefly,
                                 struct mono_time deadline, struct epoch_scan *scan,
                                 struct hf_error *error);

/* Reads the first bytes of every other object in the bucket, since it may be a fence. */
enum hf_status epoch_scan_fences(struct store *store, struct view ns, struct epoch_scan *scan,
                                 struct hf_error *error);

#endif
