/* judge_index.h: judges an index by what its nodes are told and by what the store applied.
 *
 * The judge reads names, entries, shards, the schema and locks by itself. It is told of each record
 * before anybody puts it, so it knows every record there can be by its bytes. A record is *kept*
 * from the moment at which it is in the store, as an entry that can be read or in its shard. While
 * it is in no shard, the program that wrote the entry may write something older over it, or what
 * cannot be read, and has lost it itself then. It fails the run when
 *
 *   what is in the store
 *   - a shard loses a record, has an older one than before, one that nobody made, one of another
 *     shard, or not in the order of keys; or is no shard, or its token falls;
 *   - an entry goes, or becomes a marker, and neither is its record, or a later one, in the shard
 *     at that moment, nor an exact copy and its reason aside;
 *   - something is set aside that could be read by the schema as it was when it was written, or
 *     that is no entry, or otherwise than it is; or what is aside changes;
 *   - the schema loses a field;
 *   - the manifest says of a shard what it never was, or was before what it said last;
 *
 *   what locks are worth
 *   - two nodes believe at once to hold the lock of a shard, one is granted while another believes,
 *     or is ended by another node than the one that believes (belief.h); tokens of a lock fall;
 *   - a shard is written while another program may believe to hold its lock;
 *
 *   what nodes are told
 *   - a put is told as done, and its records are not there;
 *   - a reader is shown a record that nobody made, or an older one than had been kept when it began
 *     to read, or none; a walk shows a key twice, out of order, or that was not asked for; a count
 *     is too low for when it began, or too high for when it ended;
 *   - a reader is told that something is damaged;
 *
 *   and in the end: the only one who compiles is fenced; when all was compiled, an entry is left,
 *   or a marker on a store that deletes by ETag; a shard has not the latest of all that is kept. */
#ifndef SIM_JUDGE_INDEX_H
#define SIM_JUDGE_INDEX_H

#include "base/instant.h"
#include "holdfast.h"
#include "lock/client.h"
#include "sim/run.h"

#define JUDGED_KEYS_MAX 16

struct judge_index;

struct judge_index_options {
    const char *index;       /* its name */
    unsigned digits;         /* of its shards */
    bool delete_conditional; /* of the store */
    bool locks_vanish;       /* somebody deletes them: then locks are worth nothing */
    struct view taken;       /* the shard whose lock another program holds; empty: none ... */
    int64_t taken_until_us;  /* ... and until when, in true time, it may believe to */
};

struct judge_index *judge_index_new(struct run *run, const struct judge_index_options *options);
void judge_index_free(struct judge_index *judge);

/* ---- What nodes do and are told -------------------------------------------------------- */

/* From now on this client of the node may hold locks of shards; NULL: none, any more. */
void judge_index_client(struct judge_index *judge, struct node *node, struct hf_client *client);

/* Somebody is going to put this record: its key is the first field, its time the second. */
void judge_index_made(struct judge_index *judge, struct view record);

/* A put of these was told as done: into the inbox, or straight into shards. */
void judge_index_told_put(struct judge_index *judge, const struct view *records, size_t count);
void judge_index_told_straight(struct judge_index *judge, const struct view *records,
                               size_t count);

/* A moment, to be given back at the end of what began there. */
uint64_t judge_index_now(const struct judge_index *judge);

void judge_index_told_get(struct judge_index *judge, uint64_t began, struct view key,
                          enum hf_status status, struct view record);
void judge_index_told_count(struct judge_index *judge, uint64_t began, enum hf_status status,
                            uint64_t count);

/* A walk, in the memory of who walks. */
struct judged_walk {
    struct judge_index *judge;
    uint64_t began;
    char prefix[32];
    char shard[8]; /* empty: all */
    bool since_given;
    struct instant since;
    bool shown[JUDGED_KEYS_MAX];
    char last_shard[8];
    size_t last; /* the number of the key that was shown last, plus one */
};
void judge_index_walks(struct judge_index *judge, struct judged_walk *walk);
void judge_index_shows(struct judged_walk *walk, struct view record);
void judge_index_walked(struct judged_walk *walk, enum hf_status status);

/* ---- What there is --------------------------------------------------------------------- */

/* Fields of the schema as it is in the store; 0: there is none. */
size_t judge_index_fields(const struct judge_index *judge);

/* Entries in the store, markers not counted. */
size_t judge_index_entries(const struct judge_index *judge);

/* After the run. */
void judge_index_end(struct judge_index *judge);

#endif
