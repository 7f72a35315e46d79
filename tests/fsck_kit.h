/* SPDX-License-Identifier: Apache-2.0 */
/* fsck_kit.h: a valid bucket, and a way to make each fault that fsck can find. */
#ifndef TESTS_FSCK_KIT_H
#define TESTS_FSCK_KIT_H

#include "base/prng.h"
#include "compact/fsck/fsck.h"
#include "lock_kit.h"

#define ITEMS_MAX 256

/* ---- A bucket, its faults, and the findings ------------------------------------------ */

struct item {
    enum hf_fsck_kind kind;
    char key[KEY_BYTES_MAX + 1];
    bool repaired;
};

struct items {
    struct item items[ITEMS_MAX];
    size_t count;
};

struct scene {
    struct world world;
    struct peer peer;
    struct script bent; /* in front of fsck only: some objects cannot be read */
    bool long_ago;      /* stray objects are three days old, by the dates of the store */
    struct prng prng;
    struct items made, found;
    struct hf_fsck_report report;
    unsigned partitions;
    bool cancelled;
    struct hf_lock *held[2];
};

/* A chunk of a few rows: its bytes and its catalog entry. */
struct made_chunk {
    char key[KEY_BYTES_MAX + 1];
    char body[512];
    struct chunk chunk;
    struct mono_time drawn;
};

/* Its strings are literals. */
struct compact_settings settings_of_test(void);

/* Creates a partition; draws a new partition name; draws an id as splits do; the key of a
 * catalog. */
void create(struct scene *scene, const char *partition,
            const struct compact_settings *settings);
const char *draw_partition(struct scene *scene, char name[PARTITION_BYTES_MAX + 1]);
void draw_id(struct scene *scene, char id[PARTITION_BYTES_MAX + 1]);
void catalog_of(const char *partition, char key[KEY_BYTES_MAX + 1]);

/* Applies an operation to the catalog of a partition. */
void apply(struct scene *scene, const char *partition, struct catalog_op *op);

/* Draws a valid chunk; puts its object; adds its entry. */
void draw_chunk(struct scene *scene, const char *partition, unsigned level,
                struct made_chunk *made);
void put_chunk(struct scene *scene, const struct made_chunk *made);
void add_chunk(struct scene *scene, const char *partition, const struct made_chunk *made);

/* All three steps: a live chunk. */
void make_chunk(struct scene *scene, const char *partition, struct made_chunk *made);

/* Merges two chunks, which become tombstones. */
void merge_two(struct scene *scene, const char *partition, const struct made_chunk sources[2],
               struct made_chunk *target);

/* Creates two chunks and merges them; the two become tombstones. */
void make_merged(struct scene *scene, const char *partition, struct made_chunk sources[2],
                 struct made_chunk *target);

/* Writes a catalog that is empty, or that has a chunk which `from` has too, as no transition
 * would. */
void merge_catalog(struct scene *scene, const char *partition, const char *parent);
void copy_into(struct scene *scene, const char *from, struct view chunk, const char *partition,
               const char *parent);

void split(struct scene *scene, const char *partition);

/* ---- Scenes -------------------------------------------------------------------------- */

/* A valid bucket: two partitions, one of them split, with chunks of all states, and leases that
 * are completed or held. */
struct scene *scene_open(uint64_t seed);
void scene_close(struct scene *scene);

/* The whole contents of the bucket as one text. */
void dump(struct scene *scene, struct buffer *text);

/* Makes a fault of this kind, and records it. */
void make_fault(struct scene *scene, enum hf_fsck_kind kind);
void note(struct scene *scene, enum hf_fsck_kind kind, const char *key);

/* ---- Looking ------------------------------------------------------------------------- */

#define AT_ONCE         ((struct fsck_options){ .age = SPAN_US(1) })
#define AT_ONCE_REPAIR  ((struct fsck_options){ .age = SPAN_US(1), .repair = true })
#define AT_ONCE_SHALLOW ((struct fsck_options){ .age = SPAN_US(1), .shallow = true })

enum hf_status try_fsck(struct scene *scene, const char *partition, struct fsck_options options,
                        struct hf_error *error);

/* Checks the whole bucket; fsck must complete. */
void fsck(struct scene *scene, struct fsck_options options);

int by_kind_and_key(const void *left, const void *right);
void show_items(const char *what, const struct items *items);

void found_what_was_made(struct scene *scene, int line);
#define FOUND_WHAT_WAS_MADE(scene) found_what_was_made((scene), __LINE__)

#endif
