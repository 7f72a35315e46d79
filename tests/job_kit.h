/* SPDX-License-Identifier: Apache-2.0 */
/* job_kit.h: a bucket with chunks, several clients that compact it, each with its own way to
 * the store, and a merger in memory. A row is a line. All rows of a bench differ, so a lost or
 * doubled row is visible. */
#ifndef TESTS_JOB_KIT_H
#define TESTS_JOB_KIT_H

#include "compact/care/maintain.h"
#include "compact/work/job.h"
#include "compact/work/worker.h"
#include "lock_kit.h"

#include <stdatomic.h>

#define HANDS_MAX 4
#define ROWS_MAX  4096

/* Merges in memory: concatenates the lines of all sources. */
struct line_merger {
    struct merger merger;
    struct store *store;
    struct env *env;
    /* The fault to inject, if any: */
    enum hf_status fails; /* before anything is put */
    size_t culprit;
    bool group_fault;
    bool miscounts; /* reports one row too many */
    /* Called before the sources are read, and after the output is put; may be NULL. */
    void (*begins)(void *argument);
    void (*has_put)(void *argument);
    void *argument;
    atomic_uint made;
};

/* A client that compacts. */
struct hand {
    struct peer peer;
    struct catalog_tree *tree;
    struct line_merger merger;
};

struct bench {
    struct world world;
    struct hand hands[HANDS_MAX];
    size_t count;
    uint64_t rows; /* added so far */
};

/* Chunks of one hour, three to a group, no grace, D of one minute. */
struct compact_settings bench_settings(void);

void bench_open(struct bench *bench, size_t hands, const struct compact_settings *settings);
void bench_close(struct bench *bench);

/* Opens one hand again, as a new process. */
void hand_open(struct bench *bench, struct hand *hand);
void hand_close(struct hand *hand);

/* Leases the chunks of an order for an output, and dies: the lease stays, and the object
 * exists. With a ttl of 0 it does not die, but fails and blames the group. */
void hand_dies_with(struct hand *hand, const struct order *order, int64_t ttl_ms,
                    char ret_output[KEY_BYTES_MAX + 1]);

/* The same with a note in its lease; NULL: none, as an earlier version left it. */
void hand_dies_saying(struct hand *hand, const struct order *order, int64_t ttl_ms,
                      const char *note, char ret_output[KEY_BYTES_MAX + 1]);

/* Commits an order without a lease, like a client whose lease is over. */
void hand_commits(struct hand *hand, const struct order *order);

/* Puts and adds chunks of two rows each, with the first hand. */
void bench_add(struct bench *bench, size_t chunks);

/* The first group of a plan, or NULL. */
struct order *bench_order(struct hand *hand);
struct order *bench_order_at(struct hand *hand, size_t index);

void merger_init(struct line_merger *merger, struct store *store);

/* Runs one job with the hand's own forge. */
struct job_report run_job(struct hand *hand, const struct order *order);

/* The contents of the bucket, read directly. */
struct audit {
    size_t live, tombstones, retired, condemned, quarantined;
    unsigned tries; /* of all live chunks */
    size_t rows;    /* in objects of live chunks */
    size_t rows_lost, rows_twice;
    size_t missing;     /* live chunks whose object is missing or wrong */
    size_t objects;     /* below data/ */
    size_t orphans;     /* of them, named by no catalog */
    size_t lingering;   /* of them, being deleted */
    size_t open_leases; /* with an output, and not completed */
};
struct audit bench_audit(struct bench *bench);

/* Fails the test if a row is lost or doubled, or an object is missing. */
void bench_sound(struct bench *bench, int line);
#define SOUND(bench) bench_sound((bench), __LINE__)

/* Runs maintenance until nothing changes any more, with a hand without faults. */
struct maintain_report bench_settle_down(struct bench *bench);

#endif
