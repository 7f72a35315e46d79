/* index_judge.h: what the judge of an index knows, for its own files. */
#ifndef SIM_INDEX_JUDGE_H
#define SIM_INDEX_JUDGE_H

#include "base/arena.h"
#include "base/map.h"
#include "sim/judge_index.h"
#include "sim/judge_inside.h"

#define JUDGED_ID_SIZE 32 /* of what is set aside */

struct judged_key;
struct judged_object;

/* A name has this record, or a later one of its key, without a break. */
struct judged_hold {
    struct judged_hold *next; /* of the same record */
    const struct judged_object *object;
    uint64_t since; /* that change of the store */
};

/* It is kept since the first of what it is kept by: names that hold it, of which another program
 * may write each over, and the shard, which has it for good. */
struct judged_record {
    struct judged_key *key;
    struct view bytes;
    struct instant time;
    size_t fields;
    struct judged_hold *holds; /* none, once the shard has it */
    uint64_t folded; /* 0: the shard never had it, nor a later one while a name held it; else
                        since when it had been kept by then */
    bool ever;       /* it was in the store, where some schema could read it */
};

struct judged_key {
    size_t number;
    struct view text;
    char *name; /* as a part of an object's name */
    char shard[8];
    struct judged_record **records;
    size_t record_count;
    struct judged_record *in_shard; /* NULL: none */
};

/* A version of an entry. */
struct judged_entry_version {
    struct judged_entry_version *next; /* of the same entry, older */
    struct etag etag;
    struct view bytes;
    char id[JUDGED_ID_SIZE + 1];
    struct judged_record *record; /* the latest in it; NULL: it cannot be read by any schema */
    size_t fields;                /* the most that a record of it has */
    bool was_bad; /* it could not be read by the schema of a time at which it was written */
};

struct judged_object {
    struct judged_object *next;
    const char *rest;                            /* its key, without the index's folder */
    struct judged_key *key;                      /* as its name tells it; NULL: a stray */
    bool ours;                                   /* its name has a time and a nonce */
    struct judged_entry_version *versions, *now; /* now: NULL: gone, or a marker */
};

/* What is aside. */
struct judged_aside {
    struct judged_aside *next;
    char id[JUDGED_ID_SIZE + 1];
    bool copied, explained;
};

/* What a version of a shard holds. */
struct judged_size {
    uint64_t records, bytes;
};

struct judged_shard {
    char id[8];
    uint64_t token;
    struct judged_size *sizes; /* of each version, in the order in which they came */
    size_t size_count;
    size_t told;                 /* the manifest is of this version, or a later one */
    struct judged_version *lock; /* NULL: there is none, or none that can be read */
    uint64_t next_token;
};

struct judge_index {
    struct run *run;
    struct judge_index_options options;
    char folder[128]; /* indexes/<name>/ */
    struct arena arena;
    struct bucket_watch watch;
    struct node_watch node_watches[NODES_MAX];
    struct hf_client *clients[NODES_MAX + 1];
    uint64_t changes; /* of the store, so far */
    size_t fields;
    struct judged_key keys[JUDGED_KEYS_MAX];
    size_t key_count;
    struct map records; /* by their bytes */
    struct map objects; /* by their names */
    struct judged_object *first_object;
    struct map versions; /* by the id that they would have aside */
    struct judged_aside *asides;
    struct judged_shard *shards;
    size_t shard_count;
};

static inline struct world *index_world(const struct judge_index *judge)
{
    return judge->run->world;
}

/* judge_index.c */

/* Zeroed memory that lives as long as the judge. */
void *judged_new(struct judge_index *judge, size_t size);
struct view judged_keep_bytes(struct judge_index *judge, struct view bytes);

/* A key that is not there yet. */
void judged_put_into(struct map *map, struct view key, void *value);

/* So many digits of the SHA-256. */
void judged_hex(struct view bytes, size_t digits, char *text);

/* Which of two records of one key is later: <0, 0, >0. */
int judged_compare(const struct judged_record *a, const struct judged_record *b);

/* NULL: nobody made it. */
struct judged_record *judged_record_of(const struct judge_index *judge, struct view bytes);
struct judged_key *judged_key_of(struct judge_index *judge, struct view text);

/* index_entry.c: an entry, or something aside, has changed. */
void judge_entry_changed(struct judge_index *judge, struct view rest,
                         const struct bucket_change *change);
void judge_aside_changed(struct judge_index *judge, struct view name,
                         const struct bucket_change *change);

/* Since which change of the store the record is kept; 0: it is not. */
uint64_t judged_kept(const struct judged_record *record);

/* The record is what its shard has of its key now. */
void judged_fold(struct judge_index *judge, struct judged_record *record);

/* index_shard.c: a shard or its lock has changed. `name` is what stands behind shards/. */
void judge_shard_changed(struct judge_index *judge, struct view name,
                         const struct bucket_change *change);
void judge_manifest_changed(struct judge_index *judge, const struct bucket_change *change);

#endif
