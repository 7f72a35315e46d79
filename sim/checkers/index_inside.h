/* SPDX-License-Identifier: Apache-2.0 */
/* index_inside.h: the data of the index checker, shared by its source files. */
#ifndef SIM_CHECKERS_INDEX_INSIDE_H
#define SIM_CHECKERS_INDEX_INSIDE_H

#include "base/arena.h"
#include "base/map.h"
#include "sim/checkers/checker_inside.h"
#include "sim/checkers/index_checker.h"

#define JUDGED_ID_SIZE 32 /* of an object aside */

struct checked_key;
struct checked_object;

/* A name that contains this record, or a later one of its key, without interruption. */
struct checked_hold {
    struct checked_hold *next; /* of the same record */
    const struct checked_object *object;
    uint64_t since; /* that change of the store */
};

/* Since when the record has been kept, by the first place that contains it. A place is a
 * name, which another program may overwrite, or the shard, which keeps the record
 * permanently. */
struct checked_record {
    struct checked_key *key;
    struct view bytes;
    struct instant time;
    size_t fields;
    struct checked_hold *holds; /* none, once the shard has it */
    uint64_t folded; /* 0: the shard never had it, nor a later one while a name held it; else
                        since when it had been kept by then */
    bool ever;       /* it was in the store, where some schema could read it */
};

struct checked_key {
    size_t number;
    struct view text;
    char *name; /* as a part of an object's name */
    char shard[8];
    struct checked_record **records;
    size_t record_count;
    struct checked_record *in_shard; /* NULL: none */
};

/* A version of an entry. */
struct checked_entry_version {
    struct checked_entry_version *next; /* of the same entry, older */
    struct etag etag;
    struct view bytes;
    char id[JUDGED_ID_SIZE + 1];
    struct checked_record *record; /* the latest in it; NULL: it cannot be read by any schema */
    size_t fields;                 /* the most that a record of it has */
    bool was_bad; /* it could not be read by the schema of a time at which it was written */
};

struct checked_object {
    struct checked_object *next;
    const char *rest;                             /* its key, without the index's folder */
    struct checked_key *key;                      /* from its name; NULL: not of a known key */
    bool ours;                                    /* its name has a time and a nonce */
    struct checked_entry_version *versions, *now; /* now: NULL: gone, or a marker */
};

/* An object aside. */
struct checked_aside {
    struct checked_aside *next;
    char id[JUDGED_ID_SIZE + 1];
    bool copied, explained;
};

/* The contents of a version of a shard. */
struct checked_size {
    uint64_t records, bytes;
};

struct checked_shard {
    char id[8];
    uint64_t token;
    struct checked_size *sizes; /* of each version, in the order in which they came */
    size_t size_count;
    size_t told;                  /* the manifest describes this version or a later one */
    struct checked_version *lock; /* NULL: none, or not readable */
    uint64_t next_token;
};

struct index_checker {
    struct run *run;
    struct index_checker_options options;
    char folder[128]; /* indexes/<name>/ */
    struct arena arena;
    struct bucket_watch watch;
    struct node_watch node_watches[NODES_MAX];
    struct hf_client *clients[NODES_MAX + 1];
    uint64_t changes; /* of the store, so far */
    size_t fields;
    struct checked_key keys[JUDGED_KEYS_MAX];
    size_t key_count;
    struct map records; /* by their bytes */
    struct map objects; /* by their names */
    struct checked_object *first_object;
    struct map versions; /* by the id that they would have aside */
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

/* A key that is not there yet. */
void checked_put_into(struct map *map, struct view key, void *value);

/* The first digits of the SHA-256. */
void checked_hex(struct view bytes, size_t digits, char *text);

/* Which of two records of one key is later: <0, 0, >0. */
int checked_compare(const struct checked_record *a, const struct checked_record *b);

/* NULL: no node made it. */
struct checked_record *checked_record_of(const struct index_checker *checker,
                                         struct view bytes);
struct checked_key *checked_key_of(struct index_checker *checker, struct view text);

/* index_entry.c: handles a change to an entry, or to an object set aside. */
void checker_entry_changed(struct index_checker *checker, struct view rest,
                           const struct bucket_change *change);
void checker_aside_changed(struct index_checker *checker, struct view name,
                           const struct bucket_change *change);

/* The change of the store since which the record has been kept; 0: it is not kept. */
uint64_t checked_kept(const struct checked_record *record);

/* Whether the record is the one that its shard has for its key now. */
void checked_fold(struct index_checker *checker, struct checked_record *record);

/* index_shard.c: handles a change to a shard or its lock. `name` is the part after shards/. */
void checker_shard_changed(struct index_checker *checker, struct view name,
                           const struct bucket_change *change);
void checker_manifest_changed(struct index_checker *checker,
                              const struct bucket_change *change);

#endif
