/* SPDX-License-Identifier: Apache-2.0 */
/* ingest.h: turns files into chunks of level 0. Each file is surveyed (rows, times, checksum) and
 * put under its own name. Many files are added to the catalog in one swap. A file that cannot be
 * accepted is reported; the others are still processed.
 *
 * A file that is still recorded in the catalog (catalog.h) is not added again. Two files are the
 * same if they have the same bytes or, with ids, the same id. So an interrupted ingest can be
 * repeated with all files. */
#ifndef COMPACT_WORK_INGEST_H
#define COMPACT_WORK_INGEST_H

#include "compact/catalog/catalog_tree.h"

#define INGEST_BATCH_MAX 512 /* chunks added in one write */

struct ingest_file {
    const char *path;
    /* The result. */
    struct hf_error error;       /* OK: it is or was in the catalog */
    bool already;                /* it was known before: nothing was added */
    char key[KEY_BYTES_MAX + 1]; /* the last generated name; empty if already known */
    uint64_t size, rows;
    uint64_t malformed; /* rows that a merge will reject */
};

struct ingest_options {
    struct view writer; /* a label; the same for all files of one source */
    /* The unique id of the file, which determines its identity; empty: the identity is computed
     * from its bytes. Files with the same id are the same, regardless of their bytes. */
    struct view id;
    /* Backpressure: while too many chunks are waiting to be merged, ingest waits, but only until
     * this time. Then it fails with UNAVAILABLE. */
    struct mono_time until;
    /* How long in total, for all files together, to retry if the store does not answer; zero:
     * CATALOG_TREE_PATIENCE. */
    struct span patience;
    /* May be NULL. Returning false stops the ingest: files that were already put are added, the
     * rest are CANCELLED. */
    bool (*go_on)(void *argument, size_t files_done, uint64_t bytes_done);
    void *argument;
};

/* Returns the first error of a file. UNSURE: it is unknown whether the file is in the catalog,
 * because the store answered neither the add nor the condemn; ingest the file again to find out.
 * Any other error: this call has not added the file, and no late write will. An empty file is
 * INVALID. */
enum hf_status ingest_files(struct catalog_tree *tree, struct ingest_file *files, size_t count,
                            const struct ingest_options *options, struct hf_error *error);

/* The same for objects in the bucket, with keys as paths: each is fetched into a file in `scratch`
 * first. An object that Holdfast wrote is INVALID. */
enum hf_status ingest_objects(struct catalog_tree *tree, struct ingest_file *files,
                              size_t count, const char *scratch,
                              const struct ingest_options *options, struct hf_error *error);

#endif
