/* SPDX-License-Identifier: Apache-2.0 */
/* index_inside.h: the data of the index checker, shared by its source files. */
#ifndef SIM_CHECKERS_INDEX_INSIDE_H
#define SIM_CHECKERS_INDEX_INSIDE_H

#include "base/arena.h"
#include "base/map.h"
#include "sim/checkers/checker_inside.h"
#include "sim/checkers/index_checker.h"

#define CHECKED_ID_SIZE 32 /* of an object that was set aside */

struct checked_key;
struct checked_object;

/* The name of an object that has contained this record, or a later one with the same key, ever
 * since. */
struct checked_hold {
    struct checked_hold *next; /* for the same record */
    const struct checked_object *object;
    uint64_t since; /* since this change to the store */
};

/* A record, and since when it has been kept. A name keeps it until another program overwrites the
 * name; the shard keeps it permanently. */
struct checked_record {
    struct checked_key *key;
    struct view bytes;
    struct instant time;
    size_t fields;
    struct checked_hold *holds; /* none once the shard has it */
    uint64_t folded; /* 0: never kept by the shard; otherwise since when it had been kept
                        when the shard got it, or got a later record that replaces it */
    bool ever;       /* it was in the store and readable with some schema */
    bool deleted;    /* it is a deletion */
    bool was_in_shard;
};

struct checked_key {
    size_t number;
    struct view text;
    char *name; /* as part of an object's name */
    char shard[8];
    struct checked_record **records;
    size_t record_count;
    struct checked_record *in_shard; /* NULL: none */
    int64_t in_shard_since_us;       /* in true time */
    struct checked_record *dropped;  /* the latest deletion that the shard has dropped */
};

/* A version of an entry. */
struct checked_entry_version {
    struct checked_entry_version *next; /* an older version of the same entry */
    struct etag etag;
    struct view bytes;
    char id[CHECKED_ID_SIZE + 1];
    struct checked_record *record; /* the latest in it; NULL: no schema can read it */
    size_t fields;                 /* the most fields in one of its records */
    bool was_bad;                  /* a schema from when it was written could not read it */
};

struct checked_object {
    struct checked_object *next;
    const char *rest;                             /* its key, without the index's folder */
    struct checked_key *key;                      /* from its name; NULL: not a known key */
    bool ours;                                    /* its name has a time and a nonce */
    struct checked_entry_version *versions, *now; /* now: NULL: gone, or a marker */
};

/* An object that was set aside. */
struct checked_aside {
    struct checked_aside *next;
    char id[CHECKED_ID_SIZE + 1];
    bool copied, explained;
};

/* The contents of a version of a shard. */
struct checked_size {
    uint64_t records, bytes;
};

struct checked_shard {
    char id[8];
    uint64_t token;
    bool has_floor;
    struct instant floor;
    struct checked_size *sizes; /* of each version, in the order of the writes */
    size_t size_count;
    size_t told;                  /* the manifest has described this version or a later one */
    struct checked_version *lock; /* NULL: none, or not readable */
    uint64_t next_token;
    struct view plain, sidecar; /* the two objects of a plain shard */
};

struct index_checker {
    struct run *run;
    struct index_checker_options options;
    char folder[128]; /* indexes/<name>/ */
    struct arena arena;
    struct bucket_watch watch;
    struct node_watch node_watches[NODES_MAX];
    struct hf_client *clients[NODES_MAX + 1];
    uint64_t changes; /* to the store, so far */
    size_t fields;
    struct checked_key keys[CHECKED_KEYS_MAX];
    size_t key_count;
    struct map records; /* by their bytes */
    struct map objects; /* by their names */
    struct checked_object *first_object;
    struct map versions; /* by the id that they would have if set aside */
    struct checked_aside *asides;
    struct checked_shard *shards;
    size_t shard_count;
};

static inline struct world *index_world(const struct index_checker *checker)
{
    return checker->run->world;
}

/* index_checker.c */

/* Zeroed memory that lives as long as the checker. */
void *checked_new(struct index_checker *checker, size_t size);
struct view checked_keep_bytes(struct index_checker *checker, struct view bytes);

/* Adds a key that the map does not contain yet. */
void checked_put_into(struct map *map, struct view key, void *value);

/* Writes the first digits of the SHA-256 of the bytes. */
void checked_hex(struct view bytes, size_t digits, char *text);

/* Which of two records of one key is later: <0, 0, >0. */
int checked_compare(const struct checked_record *a, const struct checked_record *b);

/* Returns NULL if no node made the record. */
struct checked_record *checked_record_of(const struct index_checker *checker,
                                         struct view bytes);
struct checked_key *checked_key_of(struct index_checker *checker, struct view text);

/* index_entry.c: handles a change to an entry, or to an object set aside. */
void checker_entry_changed(struct index_checker *checker, struct view rest,
                           const struct bucket_change *change);
void checker_aside_changed(struct index_checker *checker, struct view name,
                           const struct bucket_change *change);

/* The change to the store since which the record has been kept; 0: it is not kept. */
uint64_t checked_kept(const struct checked_record *record);

/* Records that the shard now has this record for its key. */
void checked_fold(struct index_checker *checker, struct checked_record *record);

/* Whether the floor of its shard may hide the record, or have it set aside. */
bool checked_is_below_floor(const struct index_checker *checker,
                            const struct checked_record *record);

/* Whether the shard has the record, or a later one, or has had a later deletion. */
bool checked_is_folded(const struct index_checker *checker,
                       const struct checked_record *record);

/* index_shard.c: handles a change to a shard or its lock. `name` is the part after shards/. */
void checker_shard_changed(struct index_checker *checker, struct view name,
                           const struct bucket_change *change);
void checker_manifest_changed(struct index_checker *checker,
                              const struct bucket_change *change);

#endif
