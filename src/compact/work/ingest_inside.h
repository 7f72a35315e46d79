/* SPDX-License-Identifier: Apache-2.0 */
/* ingest_inside.h: what the files of ingest share. For ingest*.c only. */
#ifndef COMPACT_WORK_INGEST_INSIDE_H
#define COMPACT_WORK_INGEST_INSIDE_H

#include "base/arena.h"
#include "compact/work/ingest.h"

#include <sys/stat.h>

struct ingest_item {
    struct ingest_file *file;
    struct chunk chunk; /* its key is file->key, once generated */
    enum hf_merge_coding coding;
    struct stat seen; /* as it was before the survey */
    char file_id[FILE_ID_DIGITS + 1];
    int64_t route_ms; /* selects its catalog */
    char home[PARTITION_BYTES_MAX + 1];
    struct mono_time drawn;
    unsigned rounds;
    bool settled;
};

struct ingest {
    struct catalog_tree *tree;
    const struct ingest_options *options;
    struct span patience;
    struct mono_time silent; /* since when the store has not answered; zero: it answers */
    struct arena arena;      /* for the arrays below, and the strings of the settings */
    bool no_memory;          /* no memory for these strings */
    struct hf_error refused; /* the partition takes no files */
    struct compact_settings settings;
    struct ingest_item *items; /* of a batch */
    size_t count;
    struct ingest_item **chosen; /* files of one catalog that are being added */
    size_t chosen_count;
    struct chunk *chunks; /* chunks of the chosen files, for the request */
    struct view *keys;
    struct view *file_ids;
    bool *known;
    enum condemned *condemned;
    size_t files_done;
    uint64_t bytes_done; /* of finished puts */
    bool stopped;
};

/* False once the caller stops the ingest. */
bool ingest_goes_on(struct ingest *ingest, uint64_t bytes_under_way);
enum hf_status ingest_stopped(struct hf_error *error);

/* Surveys a file and fills in the results. */
enum hf_status ingest_survey(struct ingest *ingest, struct ingest_item *item,
                             struct hf_error *error);

#endif
