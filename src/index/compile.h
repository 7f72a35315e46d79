/* SPDX-License-Identifier: Apache-2.0 */
/* compile.h: compiles one shard under its lock, and chooses the next shard.
 *
 *     list -> lock -> read entries -> read shard, merge, swap (fold) -> clear -> ... -> release
 *
 * The lock is a lease (src/lock) with scope shard:<index>/<xx>. Its table is the object
 * shards/<xx>.lock. The lock only saves work: without it, two compilers would fold the same
 * entries. */
#ifndef INDEX_COMPILE_H
#define INDEX_COMPILE_H

#include "index/fold.h"
#include "index/inbox.h"

struct compile_report {
    struct shard_id shard;
    enum hf_index_end end;
    struct hf_error why; /* for held, lost and failed; for done: the first problem */
    uint64_t token;
    uint64_t entries;        /* read */
    uint64_t aside;          /* set aside */
    uint64_t folds;          /* swaps of the shard */
    struct fold_report fold; /* totals; its shard members describe the last fold */
    struct clear_report clear;
    char first_aside[HF_WHY_MAX]; /* why the first entry was set aside; or empty */
};

struct compile_options {
    struct span ttl;      /* of the lock */
    size_t batch_entries; /* maximum number of entries folded by one swap */
    uint64_t batch_bytes;
    /* How long deletions are kept in shards: at least compile_keep_least; 0: COMPILE_KEEP_DELETED,
     * or that if it is longer. */
    struct span keep_deleted;
    size_t few;       /* up to this many entries in total, one pass folds all shards */
    struct span poll; /* a watcher's idle interval; zero: depends on the kind of store */
    bool once; /* compile each shard that has entries once; otherwise run until stopped */
    struct span wait;             /* with `once`: how long to retry shards that others hold */
    struct shard_id shard;        /* compile only this shard; text empty: all shards */
    bool (*stop)(void *argument); /* called before each step; may be NULL */
    /* May be NULL. Called after each shard, even for HF_INDEX_END_NOTHING, but only once while a
     * shard remains held. */
    void (*tell)(void *argument, const struct compile_report *report);
    /* May be NULL. Called when the store is unavailable. A watcher continues. */
    void (*trouble)(void *argument, const struct hf_error *error);
    void *argument;
};

#define COMPILE_TTL_MAX      SPAN_S(300)
#define COMPILE_KEEP_DELETED SPAN_S((int64_t)7 * 24 * 3600)
#define COMPILE_OPTIONS        \
    ((struct compile_options){ \
        .ttl = SPAN_S(60), .batch_entries = 10000, .batch_bytes = 16 * MIB, .few = 1000 })

/* How long deletions must be kept, at least: 2 D, or 3 D in plain shards (fold.h, plain.h). */
struct span compile_keep_least(const struct index *index);

/* Compiles all entries of one shard. `flat` contains its entries outside any folder, if there are
 * any. Never waits for the lock. The outcome is in the report. */
void compile_shard(struct index *index, const struct compile_options *options,
                   struct shard_id shard, const struct entry *flat, size_t flat_count,
                   struct compile_report *ret_report);

/* Picks a random shard, weighted by its number of entries: the shard of a random entry on a random
 * page of the inbox. *ret_few: there are at most options->few entries in total. NOT_FOUND: there
 * are no entries. */
enum hf_status compile_pick(struct index *index, const struct compile_options *options,
                            struct shard_id *ret_shard, bool *ret_few, struct hf_error *error);

/* Compiles according to the options. The index must have been opened with a client. Writes the
 * manifest at the end, and once per minute.
 *
 * With `once`: OK if every shard with entries was compiled, by us or by others, or is still held by
 * others after `wait`; the totals contain the counts. HELD if a single shard was requested and is
 * held. Otherwise the first error. After a few consecutive store failures no more shards are tried.
 * Often it can be proven immediately that the lock of a dead worker has expired. But a lock from an
 * earlier boot of this machine must be watched for its whole ttl, so a command that is started
 * repeatedly should wait that long.
 *
 * A watcher returns OK when it is stopped. */
enum hf_status index_compile(struct index *index, const struct compile_options *options,
                             struct hf_index_compile_report *ret_totals,
                             struct hf_error *error);

/* For large loads: puts many records directly into a shard, under its lock, bypassing the inbox.
 * Waits for the lock, but not longer than `wait`. Aborts the program if a record belongs to another
 * shard. Returns the status of index_fold, or HELD. */
enum hf_status compile_straight(struct index *index, const struct compile_options *options,
                                const struct shard_records *new, struct span wait,
                                struct fold_report *ret_report, struct hf_error *error);

#endif
