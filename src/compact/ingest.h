/* ingest.h: files become chunks of level 0: each is looked through (rows, times, checksum),
 * put under a name of its own, and many are added to the catalog in one write. A file that
 * cannot be taken is told and left; the rest goes on.
 *
 * A file that is in the catalog, or was and is not forgotten yet (catalog.h), is not added again:
 * the same file is one with the same bytes, or, where equal files may be meant, of the same id. So
 * whoever was interrupted may ingest all files again. */
#ifndef COMPACT_INGEST_H
#define COMPACT_INGEST_H

#include "compact/shelf.h"

#define INGEST_BATCH_MAX 512 /* chunks added in one write */

struct ingest_file {
    const char *path;
    /* Answered. */
    struct hf_error error;       /* OK: it is in the catalog, or was */
    bool already;                /* it was there before: nothing was added */
    char key[KEY_BYTES_MAX + 1]; /* of the last that was drawn for it; empty if already there */
    uint64_t size, rows;
    uint64_t malformed; /* rows that a merge will keep aside */
};

struct ingest_options {
    struct view writer; /* a label; the same for all files of one source */
    /* The identity of the file, of which there is one then; empty: by its bytes. What a second file
     * of the same id holds is not looked at. */
    struct view id;
    /* While too many chunks wait to be merged (backpressure): wait until then, then UNAVAILABLE. */
    struct mono_time until;
    /* Ask a store that does not answer for so long, for all files; zero: SHELF_PATIENCE. */
    struct span patience;
    /* May be NULL; false stops: what was put is added, the rest is CANCELLED. */
    bool (*go_on)(void *argument, size_t files_done, uint64_t bytes_done);
    void *argument;
};

/* The first error of a file, when any was left. UNSURE: whether the file is in the catalog is not
 * known, since the store answered neither the question to add it nor the one to condemn it; to
 * ingest it again finds out. Any other error: it is not, and never will be. An empty file is
 * INVALID. */
enum hf_status ingest_files(struct shelf *shelf, struct ingest_file *files, size_t count,
                            const struct ingest_options *options, struct hf_error *error);

/* The same of objects of the bucket, whose keys stand for the paths: each is fetched into a file in
 * `scratch` first. INVALID too: an object of Holdfast's own. */
enum hf_status ingest_objects(struct shelf *shelf, struct ingest_file *files, size_t count,
                              const char *scratch, const struct ingest_options *options,
                              struct hf_error *error);

#endif
