/* SPDX-License-Identifier: Apache-2.0 */
/* merger.h: reads chunks, merges them into one, and puts it under a new name. The real merger
 * (file_merger.c) streams the chunks through files in a scratch folder. The simulator's merger
 * works in memory. Neither reads a lease or a catalog. */
#ifndef COMPACT_WORK_MERGER_H
#define COMPACT_WORK_MERGER_H

#include "base/arena.h"
#include "compact/catalog/catalog.h"
#include "compact/work/allow_exec.h"
#include "store/store.h"

/* One range of a divided merge: the part of each source that it reads, and its keys. */
struct merge_parts {
    const uint64_t *starts, *sizes; /* one per source */
    struct view from, to; /* its keys in hexadecimal, `to` excluded; empty: no limit */
    uint64_t *ret_crcs;   /* one per source: the CRC32C of the part that was read */
};

/* A merge to be done. Only the key, size, rows, checksum and object of a source are
 * used. */
struct merge_order {
    const struct compact_settings *settings;
    const struct chunk *sources;
    size_t source_count;
    unsigned level; /* of the output */
    /* Drop the deletion markers that win, and count them as deleted. Only if the settings name a
     * deleted field. Otherwise markers are kept like other records. */
    bool drops_markers;
    /* Put with *absent*. An unanswered put is repeated, because nobody else uses this name. */
    struct view output;
    bool test;                       /* do everything but put the output */
    const struct merge_parts *parts; /* NULL: all of each source */
    size_t memory_bytes;
    /* Called from time to time, and before the output is put; false stops the merge with CANCELLED.
     * `done` and `total` count each byte of the sources twice: when fetched and when merged. `done`
     * never decreases. */
    bool (*go_on)(void *argument, uint64_t done, uint64_t total);
    void *argument;
};

#define MERGE_NO_CULPRIT SIZE_MAX

struct merge_product {
    uint64_t size;
    uint32_t crc32c;
    bool rows_known;
    uint64_t rows_in, rows_out, rows_superseded, rows_rejected, rows_deleted;
    bool markers_dropped; /* as requested: the output contains no deletion markers */
    bool markers_counted; /* otherwise: it contains so many: */
    uint64_t markers_kept;
    unsigned key_kinds; /* of the rows, as in merge.h; 0: unknown */
    uint64_t bytes_read;
    bool put_sent; /* the output may exist, regardless of the status */
    /* The index of a source that is known to be damaged, missing or unreadable, or
     * MERGE_NO_CULPRIT. */
    size_t culprit;
    /* Without a culprit: whether the failure may have been caused by the data (a merge or a command
     * failed) rather than by this machine or the store. */
    bool group_fault;
    char rejects[KEY_BYTES_MAX + 1]; /* where rejected rows are kept, or empty */
};

/* With parts, the checksums and rows of the sources cannot be checked. The caller checks those of
 * all ranges together.
 *
 *   OK           the output is stored and durable, or was thrown away in a test, and the rows add
 *                up: rows_in = rows_out + superseded + rejected + deleted, and rows_in is the
 *                number in the catalog
 *   CORRUPT      the size, checksum or rows of a source differ from the catalog, or its adopted
 *                object was rewritten (culprit)
 *   NOT_FOUND    a source is gone (culprit): the caller checks whether it is still live
 *   DENIED       the settings name a command that may not run here, or the store refused
 *   CANCELLED    go_on returned false
 *   UNSURE       the output may or may not be stored
 *   others       as in merge.h and store.h */
struct merger {
    enum hf_status (*make)(struct merger *merger, const struct merge_order *order,
                           struct merge_product *ret_product, struct hf_error *error);
    /* Whether it can merge chunks with these settings: DENIED if they name a command that may not
     * run here, or if what Parquet needs is not installed. NULL: it can merge all chunks. */
    enum hf_status (*allows)(struct merger *merger, const struct compact_settings *settings,
                             struct hf_error *error);
    /* Chooses ranges of about settings->output_max bytes, at most MERGE_RANGES_MAX: where each
     * starts in each source, and its first key. They are stored in `arena`. One range: the merge is
     * small, or cannot be divided. NULL: it never can. */
    enum hf_status (*divide)(struct merger *merger, const struct merge_order *order,
                             struct arena *arena, struct range **ret_ranges, size_t *ret_count,
                             struct hf_error *error);
};

/* The real merger. It creates a private folder in `scratch`, a folder on a local disk. Files there
 * are unnamed, or removed after use. Folders that killed workers of the same user left behind
 * (their names start with "holdfast-scratch-") are unlocked, and the next worker removes them.
 * DENIED: other users could replace files in `scratch`.
 *
 * The size and CRC32C of each source are checked before anything is put: while it is merged or, if
 * another process merges it, when it is fetched. A source is read again before it is blamed. The
 * CRC32C of the output is computed from the bytes that were put. After a command has run, the
 * sources are checked again. `threads`: per merge. */
struct merger *file_merger_new(struct env *env, struct store *store, const char *scratch,
                               size_t threads, struct hf_error *error);
void file_merger_free(struct merger *merger);

/* Allows the commands that `allowed` lists. The list must live as long as the merger. By default no
 * command may run. */
void file_merger_allow(struct merger *merger, const struct allow_exec *allowed);

/* The size and CRC32C of a whole file. UNAVAILABLE: this machine cannot read it; `what` names the
 * action in the error. */
enum hf_status file_checksum(int fd, const char *what, uint64_t *ret_size, uint32_t *ret_crc,
                             struct hf_error *error);

/* A merge for the caller's own merger. It reads the sources from files and writes `output`,
 * in a folder that is removed afterwards. */
struct merge_task {
    const struct merge_order *order;
    const char *const *paths; /* one per source */
    const char *output, *folder;
    bool (*goes_on)(void *argument, uint64_t bytes_done); /* call it from time to time */
    void *argument;
};

struct merge_callback {
    const char *name; /* it merges partitions whose command starts with this word; NULL: all */
    /* Fills in the number of output rows if it knows it, and the culprit after CORRUPT or INVALID
     * if there is one. Without a culprit the group is blamed; after any other status nobody is. */
    enum hf_status (*merge)(void *argument, const struct merge_task *task,
                            struct merge_product *product, struct hf_error *error);
    void *argument;
};

/* Uses this callback instead of formats and commands. It must live as long as the merger. */
void file_merger_use(struct merger *merger, const struct merge_callback *callback);

#endif
