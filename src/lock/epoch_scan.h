/* epoch_scan.h: how far the tokens of a namespace have come, by what is left of them in the bucket:
 * for when its epoch is lost. */
#ifndef LOCK_EPOCH_SCAN_H
#define LOCK_EPOCH_SCAN_H

#include "store/store.h"

struct epoch_scan {
    bool used; /* tokens were given: something shows one, or cannot be read, or was swept */
    uint64_t token; /* the highest that anything shows, or 0 */
};

/* Looks at the lease tables and states of the namespace (for that of the chunks and shards also at
 * theirs) and whether it was ever swept: only sweeping removes tables. With `briefly`, only until
 * it knows that tokens were given, and not at indexes: a lock of a shard may be behind its shard
 * anyway (src/index), as when both were copied here. */
enum hf_status epoch_scan_tables(struct store *store, struct view ns, bool briefly,
                                 struct mono_time deadline, struct epoch_scan *scan,
                                 struct hf_error *error);

/* Looks at the start of every other object of the bucket, which may be a fence. */
enum hf_status epoch_scan_fences(struct store *store, struct view ns, struct epoch_scan *scan,
                                 struct hf_error *error);

#endif
