/* ingest.h: files become chunks of level 0: each is looked through (rows, times, checksum),
 * put under a name of its own, and many are added to the catalog in one write. A file that
 * cannot be taken is told and left; the rest goes on. */
#ifndef COMPACT_INGEST_H
#define COMPACT_INGEST_H

#include "compact/shelf.h"

#define INGEST_BATCH_MAX 512 /* chunks added in one write */

struct ingest_file {
    const char *path;
    /* Answered. */
    struct hf_error error;       /* OK: it is in the catalog */
    char key[KEY_BYTES_MAX + 1]; /* of the last that was drawn for it */
    uint64_t size, rows;
    uint64_t malformed; /* rows that a merge will keep aside */
};

struct ingest_options {
    struct view writer; /* a label; the same for all files of one source */
    /* While too many chunks wait to be merged (backpressure): wait until then, then UNAVAILABLE. */
    struct mono_time until;
    /* Ask a store that does not answer for so long; zero: SHELF_PATIENCE. */
    struct span patience;
    /* May be NULL; false stops: what was put is added, the rest is CANCELLED. */
    bool (*go_on)(void *argument, size_t files_done, uint64_t bytes_done);
    void *argument;
};

/* The first error of a file, when any was left. UNSURE: whether the file is in the catalog is not
 * known, since the store answered neither the question to add it nor the one to condemn it; to
 * ingest it again might put it there twice. Any other error: it is not, and never will be. An
 * empty file is INVALID. */
enum hf_status ingest_files(struct shelf *shelf, struct ingest_file *files, size_t count,
                            const struct ingest_options *options, struct hf_error *error);

#endif
