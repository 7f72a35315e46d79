/* job_kit.h: a bucket with chunks, several who compact it, each with a way of its own to the
 * store, and a forge in memory. A row is a line; all rows of a bench differ, so that one that
 * is lost or there twice shows. */
#ifndef TESTS_JOB_KIT_H
#define TESTS_JOB_KIT_H

#include "compact/job.h"
#include "compact/tend.h"
#include "compact/worker.h"
#include "lock_kit.h"

#include <stdatomic.h>

#define HANDS_MAX 4
#define ROWS_MAX  4096

/* Merges in memory, all sources' lines one after the other. */
struct line_forge {
    struct forge forge;
    struct store *store;
    struct env *env;
    /* What goes wrong, if anything: */
    enum hf_status fails; /* before anything is put */
    size_t culprit;
    bool group_fault;
    bool miscounts; /* says one row more than there is */
    /* Called before the sources are read, and once the output is put; may be NULL. */
    void (*begins)(void *argument);
    void (*has_put)(void *argument);
    void *argument;
    atomic_uint made;
};

/* One who compacts. */
struct hand {
    struct peer peer;
    struct shelf *shelf;
    struct line_forge forge;
};

struct bench {
    struct world world;
    struct hand hands[HANDS_MAX];
    size_t count;
    uint64_t rows; /* added so far */
};

/* Chunks of one hour, three to a group, no time of grace, D of a minute. */
struct compact_settings bench_settings(void);

void bench_open(struct bench *bench, size_t hands, const struct compact_settings *settings);
void bench_close(struct bench *bench);

/* Opens one hand anew, as another process would. */
void hand_open(struct bench *bench, struct hand *hand);
void hand_close(struct hand *hand);

/* Leases the chunks of an order for an output, and is killed with it: the lease stands, and the
 * object is there. With a ttl of 0 it is not killed, but fails, and blames the group. */
void hand_dies_with(struct hand *hand, const struct order *order, int64_t ttl_ms,
                    char ret_output[KEY_BYTES_MAX + 1]);

/* Commits an order without a lease, as somebody does who holds on to one that is over. */
void hand_commits(struct hand *hand, const struct order *order);

/* Puts chunks of two rows each and adds them, by the first hand. */
void bench_add(struct bench *bench, size_t chunks);

/* The first group of a plan, or NULL. */
struct order *bench_order(struct hand *hand);

void forge_init(struct line_forge *forge, struct store *store);

/* Runs one with the hand's own forge. */
struct job_report run_job(struct hand *hand, const struct order *order);

/* What is in the bucket, asked past all ways. */
struct audit {
    size_t live, tombstones, retired, condemned, quarantined;
    unsigned tries; /* of all live chunks */
    size_t rows;    /* in objects of live chunks */
    size_t rows_lost, rows_twice;
    size_t missing;     /* live chunks whose object is not there or not what it should be */
    size_t objects;     /* below data/ */
    size_t orphans;     /* of them that no catalog names */
    size_t lingering;   /* of them that are being deleted */
    size_t open_leases; /* with an output, and not completed */
};
struct audit bench_audit(struct bench *bench);

/* Fails the test when a row was lost or is there twice, or an object is missing. */
void bench_sound(struct bench *bench, int line);
#define SOUND(bench) bench_sound((bench), __LINE__)

/* Tends until nothing changes any more, by a hand with nothing in its way. */
struct tend_report bench_settle_down(struct bench *bench);

#endif
