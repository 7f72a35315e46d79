/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_tree_kit.h: one bucket, and several clients that compact it, each with its own catalog
 * tree. They see each other's changes only through the store, as processes would. */
#ifndef TESTS_CATALOG_TREE_KIT_H
#define TESTS_CATALOG_TREE_KIT_H

#include "compact/catalog/catalog_tree.h"
#include "fault_store.h"
#include "meter.h"
#include "test.h"

#define BEDS_MAX 8

/* A client that compacts. */
struct bed {
    struct hf_client *client;
    struct catalog_tree *tree;
    struct hf_error error;
};

/* Opens the partition `default`. */
void bed_open(struct bed *bed, struct store *store);
void bed_close(struct bed *bed);

struct ground {
    char *dir;
    struct store *store; /* with faults, over a meter */
    struct meter meter;
    struct bed beds[BEDS_MAX];
    size_t count;
};

/* `kind` is "mem" or "sqlite"; `plan` may be NULL: no faults. */
void ground_open(struct ground *ground, const char *kind, const struct fault_plan *plan,
                 size_t beds);
void ground_close(struct ground *ground);

/* Valid settings: usv, merged by field 1, no grace; and with the time in field 2. */
struct compact_settings some_settings(void);
struct compact_settings settings_by_time(void);

/* Creates the catalog of the partition of bed 0. */
void ground_create(struct ground *ground);
void ground_create_with(struct ground *ground, struct compact_settings settings);

/* The slot of a partition; NULL: the catalog tree's own. */
struct catalog_ref *slot_of(struct bed *bed, const char *partition);

/* ---- Chunks -------------------------------------------------------------------------- */

#define HOUR_MS   INT64_C(3600000)
#define SOME_HOUR INT64_C(1763200800000) /* 2025-11-15T10:00:00Z */

/* Adds chunks of these hours, in turn, to this catalog, and retries as needed. Returns their
 * keys, NUL-terminated, if requested. */
enum hf_status add_chunks(struct bed *bed, const char *partition, size_t count, unsigned hours,
                          char (*ret_keys)[KEY_BYTES_MAX + 1]);

/* ---- The contents of a tree ---------------------------------------------------------- */

struct census {
    struct map keys; /* of struct counted */
    size_t live, dead, moved, catalogs, unreadable;
    size_t twice; /* keys that are live or dead more than once */
};

struct counted {
    enum chunk_state state;
    unsigned tries;
    uint64_t sequence;
    bool quarantined;
    char partition[PARTITION_BYTES_MAX + 1];
    char key[KEY_BYTES_MAX + 1];
};

void tree_listing_take(struct bed *bed, struct census *census);
void tree_listing_release(struct census *census);
const struct counted *census_find(const struct census *census, const char *key);

/* Fails the test unless the tree lists so many chunks, none of them twice. */
void assert_listed(struct bed *bed, size_t live, size_t dead);

/* Merges these live chunks of the catalog into a chunk that nobody reads. */
void commit_merge(struct bed *bed, const struct view *sources, size_t count);

/* How many objects have keys with this prefix. */
size_t count_objects(struct ground *ground, const char *prefix);

/* Puts bytes under a key, unconditionally. */
void put_bytes(struct ground *ground, const char *key, struct view bytes);

/* The bytes under a key. The caller frees them. Fails the test if there is no object. */
char *get_bytes(struct ground *ground, const char *key);

#endif
