/* SPDX-License-Identifier: Apache-2.0 */
/* epoch_scan.h: finds the highest token of a namespace, as far as the remaining objects in the
 * bucket show it. For use when the epoch is lost. */
#ifndef LOCK_EPOCH_SCAN_H
#define LOCK_EPOCH_SCAN_H

#include "store/store.h"

struct epoch_scan {
    bool used;      /* tokens were or may have been issued; see epoch_scan_tables */
    uint64_t token; /* the highest token found, or 0 */
};

/* Reads the namespace's lease tables and states, and those of chunks and shards if they belong to
 * it. Tokens count as issued if an object contains one, if a table cannot be read, or if the
 * namespace was ever swept, because only a sweep removes tables. With `briefly`, the scan stops
 * once it knows that tokens were issued, and skips indexes. A shard's lock may be behind its shard
 * anyway (src/index), for example if both were copied here. */
enum hf_status epoch_scan_tables(struct store *store, struct view ns, bool briefly,
                                 struct mono_time deadline, struct epoch_scan *scan,
                                 struct hf_error *error);

/* Reads the first bytes of every other object in the bucket, because it may be a fence. */
enum hf_status epoch_scan_fences(struct store *store, struct view ns, struct epoch_scan *scan,
                                 struct hf_error *error);

#endif
