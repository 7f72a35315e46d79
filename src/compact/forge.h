/* forge.h: how chunks are read, merged into one, and put under a new name. The real one
 * (forge_files.c) streams them through files in a scratch folder; the simulator has one in
 * memory. Nothing here knows leases or catalogs. */
#ifndef COMPACT_FORGE_H
#define COMPACT_FORGE_H

#include "compact/allow_exec.h"
#include "compact/settings.h"
#include "store/store.h"

/* What is to be made of what. */
struct forge_source {
    struct view key;
    uint64_t size;
    bool rows_known;
    uint64_t rows;
    uint32_t crc32c;
};

struct forge_order {
    const struct compact_settings *settings;
    const struct forge_source *sources;
    size_t source_count;
    unsigned level; /* of the output */
    /* Put with *absent*; a put without answer is tried again: the name is ours. */
    struct view output;
    size_t memory_bytes;
    /* Asked now and then, and before the output is put: false stops it with CANCELLED. `done` of
     * `total` bytes of the sources, each counted once when it is fetched and once when it is
     * merged. */
    bool (*go_on)(void *argument, uint64_t done, uint64_t total);
    void *argument;
};

#define FORGE_NOBODY SIZE_MAX

struct forge_product {
    uint64_t size;
    uint32_t crc32c;
    bool rows_known;
    uint64_t rows_in, rows_out, rows_superseded, rows_rejected;
    uint64_t bytes_read;
    bool put_sent; /* the output may be there, whatever the status */
    /* A source that is certainly damaged, missing or unreadable, or FORGE_NOBODY. */
    size_t culprit;
    /* Else: whether the failure may lie in the data (a merge that fails, a command that fails or
     * lies), not in this machine or the store. */
    bool group_fault;
    char rejects[KEY_BYTES_MAX + 1]; /* where rejected rows are kept, or empty */
};

/*   OK           the output is there, durable, and the rows add up: rows_in = rows_out +
 *                superseded + rejected, and rows_in is what the catalog says
 *   CORRUPT      a source is not what the catalog says: size, checksum or rows (culprit)
 *   NOT_FOUND    a source is gone (culprit): the caller looks whether it is still live
 *   DENIED       the settings name a command that may not run here, or the store refused
 *   CANCELLED    go_on said so
 *   UNSURE       the output may or may not be there
 *   others       as in merge.h and store.h */
struct forge {
    enum hf_status (*make)(struct forge *forge, const struct forge_order *order,
                           struct forge_product *ret_product, struct hf_error *error);
    /* Whether it would make anything of chunks with these settings, whoever asks: DENIED when they
     * name a command that may not run here. NULL: of all. */
    enum hf_status (*allows)(struct forge *forge, const struct compact_settings *settings,
                             struct hf_error *error);
};

/* The real one: `scratch` is a folder on a local disk, in which it makes one of its own that no
 * other user can look into; files there are nameless or are removed, and what a killed worker of
 * the same user left (names that start with "holdfast-scratch-") is removed by the next once nobody
 * has it locked. DENIED where other users could replace what is in `scratch`. Every source is
 * checked against size and CRC32C as it is fetched, one read again when that fails before it is
 * blamed; the output's CRC32C is computed from what was put. For a command the sources are checked
 * again afterwards. `threads` of one merge. */
struct forge *forge_files_new(struct env *env, struct store *store, const char *scratch,
                              size_t threads, struct hf_error *error);
void forge_files_free(struct forge *forge);

/* Lets commands of the bucket run: those that `allowed` lists, whose programs must live as long.
 * Without it none does. */
void forge_files_allow(struct forge *forge, const struct allow_exec *allowed);

/* Size and CRC32C of a file, from its start. */
enum hf_status forge_check_sum(int fd, uint64_t *ret_size, uint32_t *ret_crc,
                               struct hf_error *error);

/* A merge for a merger of the caller's: the sources are in files, to be read only, and `output` is
 * the file to write, in a folder that is removed with all in it. */
struct forge_task {
    const struct forge_order *order;
    const char *const *paths; /* one per source */
    const char *output, *folder;
    bool (*goes_on)(void *argument, uint64_t bytes_done); /* to be asked now and then */
    void *argument;
};

struct forge_merger {
    const char
        *name; /* of the partitions that it merges: the first word of the command of their
                         settings; NULL: it merges all */
    /* Fills in the rows of the product, if it knows them, and after CORRUPT or INVALID the culprit,
     * if there is one; without one the group is blamed, and nobody after any other status. */
    enum hf_status (*merge)(void *argument, const struct forge_task *task,
                            struct forge_product *product, struct hf_error *error);
    void *argument;
};

/* From now on it merges, in place of formats and commands; it lives as long as the forge. */
void forge_files_use(struct forge *forge, const struct forge_merger *merger);

#endif
