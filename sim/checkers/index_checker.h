/* SPDX-License-Identifier: Apache-2.0 */
/* index_checker.h: checks an index based on the results that nodes get and the writes that the
 * store applied.
 *
 * The checker parses names, entries, shards, the schema and locks itself. Each record is reported
 * to it before it is put, so it knows the bytes of every possible record. A record is *kept* from
 * the instant at which it is in the store, as a readable entry or in its shard. Until the record
 * is in its shard, the program that wrote the entry may overwrite it with something older or
 * unreadable. In that case the program itself has lost the record, and no guarantee is violated.
 * The checker fails the run in these cases.
 *
 * In the store:
 *
 *   - A shard loses a record, or contains a record that is older than before, that no node made,
 *     that belongs to another shard, or that is out of key order. A shard cannot be parsed, or its
 *     token decreases. The exception is a deletion (a record that starts with GS), which a shard
 *     may drop after it has had it for `keep_deleted`, if the shard's floor is not earlier than
 *     it. The floor moves back. A shard contains a record that is older than a deletion that it
 *     dropped.
 *     If shards are plain, a shard and its sidecar count together: the latest of a key's record in
 *     the one and its deletion in the other is what the shard contains. Each write of either is
 *     checked, so the pair must be right between the two writes of a compiler, too.
 *   - An entry is deleted, or becomes a marker, although at that instant the shard contains
 *     neither its record nor a later one, and no exact copy was set aside with the reason.
 *   - Something is set aside that can be read with the current schema and is later than the
 *     shard's floor, is not an entry, or differs from the entry. An object that was set aside
 *     changes.
 *   - The schema loses a field.
 *   - The manifest describes a version of a shard that never existed, or an earlier version than
 *     it described before.
 *
 * Locks:
 *
 *   - Two nodes believe at the same time that they hold a shard's lock. A lock is granted while
 *     another node believes that it holds the lock, or is ended by a node other than the one that
 *     believes this (holder_view.h). A lock's tokens decrease.
 *   - A shard is written while another program may believe that it holds the shard's lock.
 *
 * The results:
 *
 *   - A put is reported as done, but its records are not in the store.
 *   - A reader gets a record that no node made, a deletion, a record older than one, or than a
 *     deletion, that was kept when the read began, or no record although one was kept that was
 *     neither deleted nor, outside the shard, as old as the shard's floor. A walk returns a key
 *     twice, out of order, or outside the requested range. A count is lower than the number of
 *     records at its start, or higher than the number at its end.
 *   - A reader gets an error that reports damage.
 *
 * At the end:
 *
 *   - The token of the only node that compiles is rejected. After everything was compiled, an
 *     entry is left, or, on a store that supports conditional deletes, a marker. A shard lacks the
 *     latest kept record of a key. */
#ifndef SIM_CHECKERS_INDEX_CHECKER_H
#define SIM_CHECKERS_INDEX_CHECKER_H

#include "base/instant.h"
#include "holdfast.h"
#include "lock/client_inside.h"
#include "sim/run.h"

#define CHECKED_KEYS_MAX 16

struct index_checker;

struct index_checker_options {
    const char *index;        /* its name */
    unsigned digits;          /* in the names of its shards */
    bool delete_conditional;  /* the store supports it */
    bool locks_vanish;        /* a node deletes locks, so locks prove nothing */
    struct view taken;        /* the shard whose lock another program holds; empty: none, ... */
    int64_t taken_until_us;   /* ... and until when, in true time, it may believe so */
    struct span keep_deleted; /* how long a shard must keep a deletion, at least */
    bool plain;               /* shards are plain */
};

struct index_checker *index_checker_new(struct run *run,
                                        const struct index_checker_options *options);
void index_checker_free(struct index_checker *checker);

/* ---- Operations and results of nodes --------------------------------------------------- */

/* Reports that from now on this client of the node may hold shard locks; NULL: the node no longer
 * has a client. */
void index_checker_client(struct index_checker *checker, struct node *node,
                          struct hf_client *client);

/* Reports that a node is about to put this record. The first field is the key, and the second is
 * the time. */
void index_checker_made(struct index_checker *checker, struct view record);

/* Reports that a put of these records succeeded: into the inbox, or directly into shards. */
void index_checker_told_put(struct index_checker *checker, const struct view *records,
                            size_t count);
void index_checker_told_straight(struct index_checker *checker, const struct view *records,
                                 size_t count);

/* Returns the current instant; pass it back at the end of the operation that begins now. */
uint64_t index_checker_now(const struct index_checker *checker);

void index_checker_told_get(struct index_checker *checker, uint64_t began, struct view key,
                            enum hf_status status, struct view record);
void index_checker_told_count(struct index_checker *checker, uint64_t began,
                              enum hf_status status, uint64_t count);

/* A walk over the index, in the memory of the node that performs it. */
struct checked_walk {
    struct index_checker *checker;
    uint64_t began;
    char prefix[32];
    char shard[8]; /* empty: all */
    bool since_given;
    struct instant since;
    bool shown[CHECKED_KEYS_MAX];
    char last_shard[8];
    size_t last; /* the number of the last key returned, plus one */
};
void index_checker_walks(struct index_checker *checker, struct checked_walk *walk);
void index_checker_shows(struct checked_walk *walk, struct view record);
void index_checker_walked(struct checked_walk *walk, enum hf_status status);

/* ---- Current state --------------------------------------------------------------------- */

/* The number of fields in the stored schema; 0 if there is no schema. */
size_t index_checker_fields(const struct index_checker *checker);

/* The number of entries in the store, not counting markers. */
size_t index_checker_entries(const struct index_checker *checker);

/* Called after the run. */
void index_checker_end(struct index_checker *checker);

#endif
