/* ingest_inside.h: what the files of ingest share. For ingest*.c only. */
#ifndef COMPACT_INGEST_INSIDE_H
#define COMPACT_INGEST_INSIDE_H

#include "base/arena.h"
#include "compact/ingest.h"

#include <sys/stat.h>

struct item {
    struct ingest_file *file;
    struct chunk chunk; /* its key is file->key, once drawn */
    enum merge_coding coding;
    struct stat seen; /* before it was looked through */
    char file_id[FILE_ID_DIGITS + 1];
    int64_t route_ms; /* by which it is led to its catalog */
    char home[PARTITION_BYTES_MAX + 1];
    struct mono_time drawn;
    unsigned rounds;
    bool settled;
};

struct ingest {
    struct shelf *shelf;
    const struct ingest_options *options;
    struct span patience;
    struct mono_time silent; /* since when the store answers nothing; zero: it does */
    struct arena arena;      /* texts of the settings */
    struct compact_settings settings;
    struct item *items; /* a batch */
    size_t count;
    struct item **chosen; /* those of one catalog that are at work */
    size_t chosen_count;
    struct chunk *chunks; /* of the chosen, to be asked for */
    struct view *keys;
    struct view *file_ids;
    bool *known;
    enum condemned *condemned;
    size_t files_done;
    uint64_t bytes_done; /* of puts that are over */
    bool stopped;
};

/* False once the caller wants it to stop. */
bool ingest_goes_on(struct ingest *ingest, uint64_t bytes_under_way);
enum hf_status ingest_stopped(struct hf_error *error);

/* Looks a file through, and fills in what is known of it then. */
enum hf_status ingest_survey(struct ingest *ingest, struct item *item, struct hf_error *error);

#endif
