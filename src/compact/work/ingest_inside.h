/* SPDX-License-Identifier: Apache-2.0 */
/* ingest_inside.h: what the files of ingest share. For ingest*.c only. */
#ifndef COMPACT_WORK_INGEST_INSIDE_H
#define COMPACT_WORK_INGEST_INSIDE_H

#include "base/arena.h"
#include "compact/work/ingest.h"

#include <sys/stat.h>

/* With whose columns a new Parquet, csv or tsv file must agree: a chunk of the partition or, if it
 * has none, the first file of this ingest. A catalog does not record columns, so the footer or the
 * header of the chunk is read. */
struct chunk_schema {
    char key[KEY_BYTES_MAX + 1]; /* of the chunk's object; "": none */
    struct etag match;           /* of an adopted object */
    uint64_t size;
    int fd; /* a file with its footer or header, once that was read; -1: none */
    char path[48];
};

struct ingest_item {
    struct ingest_file *file;
    struct chunk chunk; /* its key is file->key, once generated */
    enum hf_merge_coding coding;
    struct stat seen; /* as it was before the survey */
    char file_id[FILE_ID_DIGITS + 1];
    int64_t route_ms; /* selects its catalog */
    char home[PARTITION_BYTES_MAX + 1];
    struct hf_error too_old; /* not OK: the catalog's floor is above its first record */
    struct mono_time drawn;
    unsigned rounds;
    bool examined; /* adopted: its object was read or described */
    bool settled;
};

struct ingest {
    /* May be NULL. Examines the chosen files that are not examined yet, and keeps only those that
     * are afterwards. */
    void (*examine)(struct ingest *ingest);
    /* Makes the chunk of an item under a new name, once it is known to be new; sets *ret_maybe if,
     * unless OK, an object of that name may exist. */
    enum hf_status (*put)(struct ingest *ingest, struct ingest_item *item, bool *ret_maybe,
                          struct hf_error *error);
    bool adopts; /* the bytes are in the bucket already: no writer has to be slowed down */
    struct catalog_tree *tree;
    const struct ingest_options *options;
    struct span patience;
    struct mono_time silent; /* since when the store has not answered; zero: it answers */
    struct arena arena;      /* for the arrays below, and the strings of the settings */
    bool no_memory;          /* no memory for these strings */
    struct hf_error refused; /* the partition takes no files */
    /* When the catalog was last read. A name counts as generated then: within D, the partition
     * cannot be dropped and created again. */
    struct mono_time looked_at;
    struct compact_settings settings;
    struct chunk_schema schema; /* if the files of the partition must agree in something */
    struct ingest_item *items;  /* of a batch */
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

/* Reports a file, or all chosen files, as failed. */
void ingest_fail(struct ingest *ingest, struct ingest_item *item, const struct hf_error *error);
void ingest_fail_chosen(struct ingest *ingest, const struct hf_error *error);

/* Records the outcome of a request that started at this time, and whether the store has been silent
 * for so long that the remaining files are not tried. */
void ingest_note_answer(struct ingest *ingest, enum hf_status status, struct mono_time begun);
bool ingest_is_given_up(const struct ingest *ingest, struct hf_error *error);

/* How old a name may be while more files are put. It must be added within D/2. */
struct span ingest_spare(const struct ingest *ingest);

/* Chooses the chunk with whose columns new files must agree. Called for one catalog. */
void ingest_choose_schema(struct ingest *ingest, const struct catalog *catalog);

/* The path of a file with these columns, or NULL. A chunk whose footer or header cannot be read is
 * no reason to refuse a file: a merge finds a clash too. */
const char *ingest_schema_path(struct ingest *ingest);

/* From now on, new files must agree with this one, unless a chunk or file was chosen before. */
void ingest_follow_schema(struct ingest *ingest, const char *path);

void ingest_release_schema(struct ingest *ingest);

/* Allocates the arrays and reads the settings. Afterwards, release the arena in any case. */
enum hf_status ingest_prepare(struct ingest *ingest, struct hf_error *error);

/* Adds the items of a batch, whose identities and routes are known, and empties it. */
void ingest_take_items(struct ingest *ingest);

/* Inspects a file. INVALID: it is empty, or has too many unreadable rows. */
struct survey;
enum hf_status ingest_inspect(struct ingest *ingest, const char *path,
                              struct survey *ret_survey, struct hf_error *error);

/* Fills in what the survey found: size, rows, times and checksum. */
void ingest_describe(struct ingest *ingest, struct ingest_item *item,
                     const struct survey *survey);

/* A hash of the identity as a time, for identities that do not determine the hour of the data. */
int64_t ingest_route_of(struct view file_id);

/* Surveys a file and fills in the results. */
enum hf_status ingest_survey(struct ingest *ingest, struct ingest_item *item,
                             struct hf_error *error);

/* INVALID if a field of the key has another kind than in the chunks, unless they have both. */
enum hf_status ingest_check_kinds(const struct compact_settings *settings, unsigned of_chunks,
                                  unsigned of_file, struct hf_error *error);

#endif
