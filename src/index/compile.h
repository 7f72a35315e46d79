/* compile.h: one shard under its lock, and which shard is next.
 *
 *     list -> lock -> read entries -> read shard, merge, swap (fold) -> clear -> ... -> release
 *
 * The lock is a lease (src/lock) of the scope shard:<index>/<xx>, whose table is the file
 * shards/<xx>.lock. Nothing depends on it but that work is not done twice. */
#ifndef INDEX_COMPILE_H
#define INDEX_COMPILE_H

#include "index/fold.h"
#include "index/inbox.h"

enum compile_end {
    COMPILE_DONE,    /* all entries that were listed are folded, or set aside */
    COMPILE_NOTHING, /* there were none, or they are gone by now */
    COMPILE_HELD,    /* somebody else compiles it */
    COMPILE_LOST,    /* somebody else wrote the shard, or our lease was over: on to another */
    COMPILE_FAILED,  /* why */
    COMPILE_STOPPED, /* by `stop` */
};
const char *compile_end_name(enum compile_end end);

struct compile_report {
    struct shard_id shard;
    enum compile_end end;
    struct hf_error why; /* of held, lost and failed; of done: the first trouble on the way */
    uint64_t token;
    uint64_t entries;        /* read */
    uint64_t aside;          /* set aside */
    uint64_t folds;          /* swaps of the shard */
    struct fold_report fold; /* summed up; what is of the shard: of the last */
    struct clear_report clear;
    char first_aside[HF_WHY_MAX]; /* why the first of them was set aside; or empty */
};

struct compile_options {
    struct span ttl;      /* of the lock */
    size_t batch_entries; /* that one swap folds at most */
    uint64_t batch_bytes;
    size_t few; /* up to so many entries in all: one pass over all shards */
    struct span
        poll;  /* of a watcher, when there is nothing to do; zero: by the kind of store */
    bool once; /* every shard that has entries, once; else until stopped */
    struct span wait;      /* with `once`: so long it goes on trying those that others hold */
    struct shard_id shard; /* only this one; text empty: all */
    bool (*stop)(void *argument); /* asked before each step; may be NULL */
    /* After each shard, COMPILE_NOTHING too, but one that is still held as it was when it was told;
     * may be NULL. */
    void (*tell)(void *argument, const struct compile_report *report);
    /* The store cannot be used just now; a watcher goes on. May be NULL. */
    void (*trouble)(void *argument, const struct hf_error *error);
    void *argument;
};

#define COMPILE_TTL_MAX SPAN_S(300)
#define COMPILE_OPTIONS        \
    ((struct compile_options){ \
        .ttl = SPAN_S(60), .batch_entries = 10000, .batch_bytes = 16 * MIB, .few = 1000 })

struct compile_totals {
    uint64_t shards_done, shards_held, shards_lost, shards_failed;
    uint64_t entries, aside, records_new, records_later, superseded;
    struct clear_report clear;
};

/* One shard, to the end of its entries. `flat` are those of it that stand in no folder, may be
 * empty. Never waits for the lock. OK whatever the report says. */
void compile_shard(struct index *index, const struct compile_options *options,
                   struct shard_id shard, const struct entry *flat, size_t flat_count,
                   struct compile_report *ret_report);

/* A shard at random, likelier the more entries it has: a random page of the inbox, a random
 * entry of it. *ret_few: there are no more than options->few in all. NOT_FOUND when there are
 * none. */
enum hf_status compile_pick(struct index *index, const struct compile_options *options,
                            struct shard_id *ret_shard, bool *ret_few, struct hf_error *error);

/* Compiles as the options say. The index must have been opened with a client. Writes the
 * manifest at the end, and once a minute.
 *
 * With `once`: OK when every shard that had entries was done, by us or by others, or others hold
 * it still after `wait`; the totals tell. HELD when it was that one shard that was asked for.
 * Else the first reason; a store that fails at some shards in a row is asked for no more. A dead
 * worker's lock can often be proven over at once, but that of an earlier boot of this machine
 * only by having watched it for as long as it lasts: so who is started again and again should
 * wait that long.
 *
 * A watcher ends OK when it is stopped. */
enum hf_status index_compile(struct index *index, const struct compile_options *options,
                             struct compile_totals *ret_totals, struct hf_error *error);

/* Puts many records straight into their shards, under the shards' locks, without the inbox: for
 * large loads. Waits for each lock up to `wait`. Records that are not of this shard abort. As
 * index_fold, and HELD. */
enum hf_status compile_straight(struct index *index, const struct compile_options *options,
                                struct shard_id shard, struct record *records, size_t count,
                                struct span wait, struct fold_report *ret_report,
                                struct hf_error *error);

#endif
