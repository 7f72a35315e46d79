/* SPDX-License-Identifier: Apache-2.0 */
/* index_kit.h: a bucket with the index `domains`, behind a scripted store. */
#ifndef TESTS_INDEX_KIT_H
#define TESTS_INDEX_KIT_H

#include "index/inbox.h"
#include "meter.h"
#include "scripted_store.h"
#include "test.h"

/* The separator between fields. */
#define US "\x1f"

struct yard {
    char *dir;
    struct meter meter;  /* counts calls that reach the store */
    struct script store; /* in front of the store */
    struct index *index;
    struct hf_error error;
};

/* Sets the kind from the program's arguments: "mem" or "sqlite", and then "plain" if shards are to
 * be plain; false for anything else. */
bool yard_kind_set(int argc, char **argv);
bool yard_is_plain(void);

/* A scripted store that behaves like a network store: an object is changed by a get and a put,
 * and there are no notifications of writes. */
void yard_script(struct script *script, struct store *inner);

/* Opens an index with the fields domain (its key), name, updated_at (its time); two digits; it
 * accepts entries of other programs. */
void yard_open(struct yard *yard);
void yard_close(struct yard *yard);

/* Sets the fates of the next puts, in order. */
#define yard_puts_meet(yard, ...) \
    script_rule(&(yard)->store, .name = "puts", .on = ON_PUT, .fates = { __VA_ARGS__ })

/* A schema like the one above, with these fields: "domain,name,updated_at". */
struct schema yard_schema(const char *fields);

/* Creates or extends the index `domains`. */
enum index_made yard_create(struct yard *yard, const char *fields);

/* Puts one record, and fails the test if that fails. */
void yard_put(struct yard *yard, const char *record);

/* The shard of a key, and the entries of a shard. */
struct shard_id yard_shard(const char *key);
struct entry_list yard_list(struct yard *yard, struct shard_id shard);

/* Entries without a folder, of one shard ("a3") or of all (""). */
struct entry_list yard_flat(struct yard *yard, const char *shard);

/* The entries of the shard of this key, listed and loaded. */
struct yard_load {
    struct entry_list list;
    struct entry_load load;
};
struct yard_load yard_load(struct yard *yard, const char *key);
void yard_load_release(struct yard_load *loaded);

void assert_view(struct view actual, const char *expected);

/* Writes an object below indexes/domains/. This call and the next ones bypass the script. */
void yard_write(struct yard *yard, const char *name, struct view bytes);

/* Writes this many entries of example.com, with the time 10:00 on 2026-02-06, into a folder of
 * the inbox. With `markers`, every tenth is empty. Does not wait for each. */
void yard_write_entries(struct yard *yard, const char *folder, size_t count, bool markers);

/* An object of this many zero bytes, which are never in memory. */
void yard_write_sparse(struct yard *yard, const char *name, uint64_t size);

bool yard_has(struct yard *yard, const char *name);
size_t yard_count(struct yard *yard, const char *folder);
char *yard_read(struct yard *yard, const char *name); /* to be freed; NULL if missing */

/* The number of calls of a kind since the last meter_reset, and of batches. */
uint64_t yard_calls(struct yard *yard, enum call_kind kind);
uint64_t yard_batches(struct yard *yard, enum call_kind kind);
uint64_t yard_received(struct yard *yard, enum call_kind kind); /* bytes */

#endif
