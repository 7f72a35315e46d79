/* inbox.h: the entries of a shard: listed, read, cleared away, set aside. */
#ifndef INDEX_INBOX_H
#define INDEX_INBOX_H

#include "index/index.h"

/* An object of the inbox, as a listing showed it. */
struct entry {
    struct view object; /* its key */
    struct entry_name name;
    struct view key; /* of the record, as the name tells it; data NULL: hashed, or a stray */
    uint64_t size;   /* 0: a marker, which says nothing */
    struct etag etag;
    struct wall_time modified; /* by the store's clock; for display */
};

struct entry_list {
    struct arena arena;
    struct entry *entries;
    size_t count, capacity;
    bool more; /* there are others behind the last: it was enough */
};

void entry_list_release(struct entry_list *list);

/* Entries that one list takes, markers not counted. */
#define INBOX_LIST_MAX 1000000

/* Lists what is in the folder of a shard, markers left out, up to `max` entries. Lists that folder
 * only. `after` is the key of the last entry of the list before, or empty. */
enum hf_status inbox_list(struct index *index, struct shard_id shard, struct view after,
                          size_t max, struct entry_list *ret_list, struct hf_error *error);

/* Lists those that stand in no shard's folder: of all shards, or of one (its text not empty). OK
 * and empty, without a request, when the index takes none from others. */
enum hf_status inbox_list_flat(struct index *index, struct shard_id shard,
                               struct entry_list *ret_list, struct hf_error *error);

/* ---- Reading --------------------------------------------------------------------------- */

enum entry_state {
    ENTRY_READ,     /* `record` is the latest of those in it */
    ENTRY_VANISHED, /* it is gone, or has become a marker: somebody has folded it */
    ENTRY_BAD,      /* it cannot be read: why.why */
    ENTRY_FAILED,   /* the store does not give it just now: why */
};

struct entry_body {
    enum entry_state state;
    struct etag etag;     /* of what was read */
    struct record record; /* points into `arena` of the load */
    struct hf_error why;
};

struct entry_load {
    struct arena arena;
    struct entry_body *bodies; /* one for each entry that was asked for */
    size_t count;
    uint64_t bytes; /* that it keeps in memory, of records and of what is none */
};

void entry_load_release(struct entry_load *load);

/* How many of these entries can be loaded together: up to `bytes_max` and BATCH_MAX of them, and at
 * least one. */
size_t inbox_batch(const struct entry *entries, size_t count, uint64_t bytes_max);

/* Reads them, all in one batch. An entry that is larger than a record may be is ENTRY_BAD,
 * unread. One whose record has more fields than the schema, or whose key or time is not that of
 * its name, is ENTRY_BAD only by the schema as it is afterwards: it is refreshed once. OK unless
 * out of memory; what the store did not give is ENTRY_FAILED, each by itself. */
enum hf_status inbox_load(struct index *index, const struct entry *entries, size_t count,
                          struct entry_load *ret_load, struct hf_error *error);

/* ---- Clearing away --------------------------------------------------------------------- */

/* An entry of the version that was folded, or set aside. */
struct cleared {
    struct view object;
    bool foreign;
    struct etag etag;
};

struct clear_report {
    uint64_t deleted;
    uint64_t marked; /* became markers */
    uint64_t newer;  /* foreign ones that were written again meanwhile: left */
    uint64_t left;   /* without an answer, or refused: somebody clears them later */
};

/* Clears them away, in batches. Never what was not folded: ours by name, those of others by
 * ETag. Only to be called for what is known to be in the shard, or aside. What fails is left,
 * counted, and the first reason told in `why`, whose status is OK when there was none. */
void inbox_clear(struct index *index, const struct cleared *cleared, size_t count,
                 struct clear_report *ret_report, struct hf_error *why);

/* Keeps a copy of an entry of this version, and why: aside/<id>.usv and aside/<id>.json; of any
 * size, streamed. To be cleared afterwards. NOT_FOUND or CONFLICT: it is gone or another by now. */
enum hf_status inbox_set_aside(struct index *index, const struct entry *entry,
                               const struct etag *etag, const char *reason,
                               struct hf_error *error);

#endif
