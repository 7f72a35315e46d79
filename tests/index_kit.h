/* index_kit.h: a bucket with the index `domains` in it, and a store in between that loses answers
 * and lets others write at the very moment that hurts most. */
#ifndef TESTS_INDEX_KIT_H
#define TESTS_INDEX_KIT_H

#include "index/inbox.h"
#include "store/observe.h"
#include "test.h"

/* Between fields. */
#define US "\x1f"

/* Forwards all calls. */
struct yard_store {
    struct store base;
    struct store *inner;
    unsigned conflict;   /* so many puts from now on are CONFLICT, whatever is there; */
    unsigned lose;       /* then so many are without an answer, and never happen; */
    unsigned lose_reply; /* then so many are without an answer, and were done; */
    unsigned refuse;     /* then so many are UNAVAILABLE; each of these counts down */
    unsigned lose_deletes;
    unsigned fail_batch; /* the so-manieth batch of gets from now on is UNAVAILABLE; 0: none */
    /* Called once, before the next batch of gets, or of puts; may be NULL. */
    void (*before_get)(void *argument);
    void (*before_put)(void *argument);
    void *argument;
};

struct yard {
    char *dir;
    struct meter meter; /* of what reaches the store */
    struct yard_store store;
    struct index *index;
    struct hf_error error;
};

/* "mem" or "sqlite", as the program's first argument says; false for anything else. */
bool yard_kind_set(int argc, char **argv);

/* The index has the fields domain (its key), name, updated_at (its time); two digits; takes entries
 * of other programs. */
void yard_open(struct yard *yard);
void yard_close(struct yard *yard);

/* A schema of these fields, as above but for them: "domain,name,updated_at". */
struct schema yard_schema(const char *fields);

/* Creates or extends the index `domains`. */
enum index_made yard_create(struct yard *yard, const char *fields);

/* Puts one record, and fails the test when it cannot. */
void yard_put(struct yard *yard, const char *record);

/* The shard of a key, and its entries. */
struct shard_id yard_shard(const char *key);
struct entry_list yard_list(struct yard *yard, struct shard_id shard);

/* Those that stand in no folder, of a shard ("a3") or of all (""). */
struct entry_list yard_flat(struct yard *yard, const char *shard);

/* The entries of this key's shard, listed and loaded. */
struct yard_load {
    struct entry_list list;
    struct entry_load load;
};
struct yard_load yard_load(struct yard *yard, const char *key);
void yard_load_release(struct yard_load *loaded);

void assert_view(struct view actual, const char *expected);

/* Objects below indexes/domains/, past the yard's store and the meter's eyes or not. */
void yard_write(struct yard *yard, const char *name, struct view bytes);

/* Writes so many entries of example.com, of 10:00 on 2026-02-06, into a folder of the inbox, every
 * tenth of them empty if asked for, without waiting for each. */
void yard_write_entries(struct yard *yard, const char *folder, size_t count, bool markers);

/* An object of this many zero bytes, without a byte of it in memory of ours. */
void yard_write_sparse(struct yard *yard, const char *name, uint64_t size);

bool yard_has(struct yard *yard, const char *name);
size_t yard_count(struct yard *yard, const char *folder);
char *yard_read(struct yard *yard, const char *name); /* to be freed; NULL: there is none */

/* How many calls of a kind were made since the last meter_reset, and in how many batches. */
uint64_t yard_calls(struct yard *yard, enum call_kind kind);
uint64_t yard_batches(struct yard *yard, enum call_kind kind);
uint64_t yard_received(struct yard *yard, enum call_kind kind); /* bytes */

#endif
