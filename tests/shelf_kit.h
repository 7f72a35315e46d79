/* shelf_kit.h: one bucket, and several who compact there, each with a client and a shelf of its
 * own: what one does the others see through the store only, as other processes would. */
#ifndef TESTS_SHELF_KIT_H
#define TESTS_SHELF_KIT_H

#include "compact/shelf.h"
#include "store/fault.h"
#include "store/observe.h"
#include "test.h"

#define BEDS_MAX 8

/* One who compacts. */
struct bed {
    struct hf_client *client;
    struct shelf *shelf;
    struct hf_error error;
};

/* In the partition `default`. */
void bed_open(struct bed *bed, struct store *store);
void bed_close(struct bed *bed);

struct ground {
    char *dir;
    struct store *store; /* with faults, over a meter */
    struct meter meter;
    struct bed beds[BEDS_MAX];
    size_t count;
};

/* `kind` is "mem" or "sqlite"; `plan` may be NULL: nothing goes wrong. */
void ground_open(struct ground *ground, const char *kind, const struct fault_plan *plan,
                 size_t beds);
void ground_close(struct ground *ground);

/* Settings that are valid: usv, merged by field 1, no time of grace. */
struct compact_settings some_settings(void);

/* Makes the catalog of bed 0's partition. */
void ground_create(struct ground *ground);

/* The slot of a partition; NULL: the shelf's own. */
struct slot *slot_of(struct bed *bed, const char *partition);

/* ---- Chunks -------------------------------------------------------------------------- */

#define HOUR_MS   INT64_C(3600000)
#define SOME_HOUR INT64_C(1763200800000) /* 2025-11-15T10:00:00Z */

/* Adds chunks of these hours (one after the other, then anew) in this catalog, whatever it
 * takes; keys, with a NUL each, if asked for. */
enum hf_status add_chunks(struct bed *bed, const char *partition, size_t count, unsigned hours,
                          char (*ret_keys)[KEY_BYTES_MAX + 1]);

/* ---- Everything that a tree has ------------------------------------------------------ */

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

void shelf_census_take(struct bed *bed, struct census *census);
void shelf_census_release(struct census *census);
const struct counted *census_find(const struct census *census, const char *key);

/* How many objects have names that start like this. */
size_t count_objects(struct ground *ground, const char *prefix);

/* Puts bytes under a key, whatever is there. */
void put_bytes(struct ground *ground, const char *key, struct view bytes);

/* The bytes under a key, to be freed; fails the test when there are none. */
char *get_bytes(struct ground *ground, const char *key);

#endif
