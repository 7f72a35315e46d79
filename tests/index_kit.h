/* index_kit.h: a bucket with the index `domains` in it, and a scripted store in between. */
#ifndef TESTS_INDEX_KIT_H
#define TESTS_INDEX_KIT_H

#include "index/inbox.h"
#include "scripted_store.h"
#include "test.h"

/* Between fields. */
#define US "\x1f"

struct yard {
    char *dir;
    struct meter meter;  /* of what reaches the store */
    struct script store; /* in front of it */
    struct index *index;
    struct hf_error error;
};

/* "mem" or "sqlite", as the program's first argument says; false for anything else. */
bool yard_kind_set(int argc, char **argv);

/* A scripted store as network stores are: objects are changed by a get and a put, and nothing tells
 * of writes. */
void yard_script(struct script *script, struct store *inner);

/* The index has the fields domain (its key), name, updated_at (its time); two digits; takes entries
 * of other programs. */
void yard_open(struct yard *yard);
void yard_close(struct yard *yard);

/* The next puts meet these fates, one by one. */
#define yard_puts_meet(yard, ...) \
    script_rule(&(yard)->store, .name = "puts", .on = ON_PUT, .fates = { __VA_ARGS__ })

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
