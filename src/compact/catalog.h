/* catalog.h: the catalog of a partition: which chunks are data, which are no longer, and which
 * objects are being deleted. A document whose transitions are pure.
 *
 * A chunk's key stands in exactly one of these states of its catalog, and moves only to the
 * right:
 *
 *     (unknown) -> live -> tombstone -> retired       add; commit, retire; tend
 *     (unknown) ----------------------> condemned     condemn
 *
 * with two exceptions: undelete takes a tombstone back to live, and a split moves live entries
 * to the catalogs of its children, once, leaving a reference each. Retired and condemned keys
 * are `deleting`: the objects may be deleted, and no transition brings the key back. So
 * nothing that a catalog could ever name is deleted before a swap of that catalog has moved it
 * there, and "did my commit happen?" always has an answer. docs/design.md section 8.
 *
 * Invariants (catalog_check walks them all):
 *   1. a key stands once, among live, tombstones, deleting and references together;
 *   2. the home of an added, committed or condemned key is this partition (layout_home);
 *   3. a catalog with children has no live entries, and never will;
 *   4. sequences of a writer are given without a gap;
 *   5. a file that was added is not added again as long as its identity is known: while its chunk
 *      is live, a tombstone or being deleted, and for ever once a split has moved it. After a split
 *      a catalog comes to know no more files: so who does not find one there never will. */
#ifndef COMPACT_CATALOG_H
#define COMPACT_CATALOG_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/evidence.h"
#include "base/stamp.h"
#include "compact/settings.h"
#include "elect/cascade.h"

/* Past one of these add is refused with FULL (see catalog_status), and the partition splits.
 * Commits make it smaller and are not refused. */
#define CATALOG_LIVE_MAX       4096
#define CATALOG_LIVE_BYTES_MAX ((size_t)1024 * 1024)

/* Tombstones and what is being deleted. Past one of these nothing is planned until some are
 * gone. */
#define CATALOG_DEAD_MAX       32768
#define CATALOG_DEAD_BYTES_MAX ((size_t)4 * 1024 * 1024)

/* A larger document is not ours. */
#define CATALOG_BYTES_READ_MAX ((size_t)16 * 1024 * 1024)

#define CATALOG_WRITERS_MAX  1024 /* more are counted under CATALOG_WRITERS_REST */
#define CATALOG_WRITERS_REST "others"
#define CATALOG_CHILDREN     8
#define WRITER_BYTES_MAX     64
#define REASON_BYTES_MAX     200
#define CHUNK_BYTES_MAX      4096 /* one entry, encoded */

/* The identity of a file is the first 128 bits of a SHA-256, in hexadecimal. No two files share
 * them by accident; one who makes two that do, on purpose, keeps a file of its own out. The other
 * 128 bits would cost each entry, tombstone and deletion 32 bytes more. */
#define FILE_ID_DIGITS    32
#define FILE_ID_BYTES_MAX 64 /* that is read */

/* ---- What it holds ------------------------------------------------------------------- */

/* One live chunk, or one that was. Never changes in place: `raw` is what it says. Views are
 * those of `raw`, or of memory that the catalog keeps; in a request they are the caller's and
 * copied. */
struct chunk {
    struct view key;
    unsigned level;
    uint64_t size;
    bool rows_known; /* of formats that are made of records */
    uint64_t rows;
    int64_t min_ms,
        max_ms; /* of its records, since 1970; of when it came where there is no time */
    struct view writer;
    uint64_t sequence;   /* given by add; 0 for what was merged */
    struct view file_id; /* of the file that was added; empty: merged, or nobody knows */
    uint32_t crc32c;
    uint64_t rejects;       /* rows that its merge kept aside, under layout's kept folder */
    struct stamp since;     /* when it came to stand here like this: new, tried, or back */
    unsigned tries;         /* leases for it that ended without success */
    struct view quarantine; /* why it is left alone; empty: it is not */
    struct view raw;        /* the JSON object as it stands, unknown members included */
    struct view unknown;    /* those alone: ,"name":value,... */
    uint64_t serial;        /* of the catalog's index; */
    bool leaving;           /* its own, while it is changed */
};

/* Those that one swap made tombstones. */
struct grave {
    struct view into; /* the key that they were merged into; empty: retired or undone */
    struct stamp since;
    struct mono_time seen; /* on our boot-time clock: since when it stands there like this */
    bool unwritten;        /* it is not known yet to stand there: nothing was seen */
    bool undone;           /* what an undelete took back: its sources are live again, or were */
    struct chunk *chunks;
    size_t count;
    unsigned restamps;
    struct view raw; /* empty when it has to be encoded */
    struct view unknown;
    uint64_t serial;
    bool leaving;
};

enum deleting_how {
    DELETING_RETIRED,   /* was live once */
    DELETING_CONDEMNED, /* never was, and never will be */
};

/* Keys that one swap moved to deleting. */
struct removal {
    enum deleting_how how;
    bool done; /* all its objects were deleted once; they are again when it is dropped */
    struct stamp since;
    struct mono_time seen;
    bool unwritten;
    struct view *keys;
    size_t count;
    struct view *file_ids; /* that its chunks had: not one for each key */
    size_t file_id_count;
    unsigned restamps;
    struct view raw;
    struct view unknown;
    uint64_t serial;
    bool leaving;
};

struct writer {
    struct view name;
    uint64_t sequence; /* all up to this were added */
};

/* How new chunks find their child: by the hour of their data, or by key when one hour is too
 * much. */
enum split_by { SPLIT_BY_HOUR, SPLIT_BY_KEY };

struct reference {
    struct view key;
    unsigned child;
};

struct catalog {
    struct view partition;
    struct view parent;               /* empty: none */
    unsigned depth;                   /* 0: has no parent */
    struct compact_settings settings; /* its texts are the catalog's */
    struct chunk *live;               /* in the order in which they came */
    size_t live_count;
    size_t live_bytes;
    struct grave *graves; /* oldest first */
    size_t grave_count;
    struct removal *removals; /* oldest first */
    size_t removal_count;
    size_t dead_count; /* keys in graves and removals */
    size_t dead_bytes;
    struct writer *writers; /* in byte order: the state vector */
    size_t writer_count;
    struct cascade cascade;
    struct stamp due; /* cascade: when there came to be a target */
    struct view children[CATALOG_CHILDREN];
    size_t child_count; /* 0 or CATALOG_CHILDREN */
    enum split_by split_by;
    struct reference *references;
    size_t reference_count;
    struct view *moved_file_ids; /* that the chunks had which a split moved */
    size_t moved_file_id_count;
    struct catalog_inside *inside; /* memory, an index by key, unknown members */
};

/* An empty one. */
enum hf_status catalog_new(struct view partition, struct view parent, unsigned depth,
                           const struct compact_settings *settings,
                           struct catalog **ret_catalog, struct hf_error *error);
void catalog_free(struct catalog *catalog);

/* Reads a document that arrived at this moment. Graves and removals that stood unchanged in
 * `previous` (may be NULL) keep the moment since which they were seen. CORRUPT when it is not a
 * catalog of this partition, UNSUPPORTED when of a later version. */
enum hf_status catalog_decode(struct view text, struct mono_time arrived,
                              const struct catalog *previous, struct catalog **ret_catalog,
                              struct hf_error *error);

/* False when it does not fit or without memory. */
bool catalog_encode(const struct catalog *catalog, struct view nonce, struct buffer *text);

/* For doc_type.written: what was applied is known to stand in the store since now at the latest,
 * and is seen from now on. Nothing is proven by watching (stamp.h) before that. */
void catalog_written(struct catalog *catalog, struct mono_time now);

/* For a split: takes over a live entry of the parent as it stands, into a catalog that nobody
 * knows yet. UNAVAILABLE without memory. */
enum hf_status catalog_adopt(struct catalog *catalog, const struct chunk *chunk,
                             struct hf_error *error);

/* Then what does not go by entries, once all were adopted: watermarks of writers, unknown members
 * of the settings and `due` are the parent's; counts[L] is the live entries of level L - 1. */
enum hf_status catalog_inherit(struct catalog *child, const struct catalog *parent,
                               struct hf_error *error);

/* Aborts when an invariant does not hold. */
void catalog_check(const struct catalog *catalog);

enum chunk_state {
    CHUNK_UNKNOWN,
    CHUNK_LIVE,
    CHUNK_TOMBSTONE,
    CHUNK_RETIRED,
    CHUNK_CONDEMNED,
    CHUNK_MOVED, /* to a child */
};

/* The hour that a moment, in milliseconds since 1970, is in. */
static inline int64_t hour_of_ms(int64_t ms)
{
    const int64_t hour_ms = INT64_C(3600000);
    return ms / hour_ms - (ms % hour_ms < 0);
}

const char *chunk_state_name(enum chunk_state state);
enum chunk_state catalog_state(const struct catalog *catalog, struct view key);

/* The live chunk of a key, or NULL. */
const struct chunk *catalog_find(const struct catalog *catalog, struct view key);

/* Whether a file of this identity was added, and is not forgotten yet. */
bool catalog_knows_file(const struct catalog *catalog, struct view file_id);

/* Into which child a chunk belongs. */
unsigned catalog_route(const struct catalog *catalog, struct view key, int64_t min_ms);
unsigned split_route(struct view partition, enum split_by by, struct view key, int64_t min_ms);

/* How full it is for those who write: 100 and more means wait. In percent: level-0 chunks of
 * the most that may wait, and the dead of the most that there may be. */
uint64_t catalog_pressure(const struct catalog *catalog);

/* Whether nothing may be planned: there are too many dead. */
bool catalog_is_clogged(const struct catalog *catalog);

/* The hash of the settings and of all live entries as they stand, in order: by it a split knows
 * that nothing changed since its children were made. */
uint64_t catalog_live_hash(const struct catalog *catalog);

/* ---- Transitions --------------------------------------------------------------------- */

enum catalog_op_kind {
    CATALOG_ADD,        /* chunks */
    CATALOG_COMMIT,     /* keys (the sources), target */
    CATALOG_CONDEMN,    /* keys; with blame, a try is counted for the sources */
    CATALOG_RETIRE,     /* chunks whose max time is before cutoff_ms become tombstones */
    CATALOG_TEND,       /* what is past grace goes to deleting; done; drop */
    CATALOG_UNDELETE,   /* keys[0] */
    CATALOG_QUARANTINE, /* keys, reason; an empty reason takes it back, and the tries too */
    CATALOG_SPLIT,      /* children, split_by, live_hash */
    CATALOG_SET,        /* settings */
};

enum condemned { CONDEMN_DONE, CONDEMN_HAPPENED };

/* Whose fault a failed job was. */
enum blame {
    BLAME_NOBODY, /* the worker's or the store's: nothing is counted */
    BLAME_GROUP,  /* nobody knows: a try of each source is counted */
    BLAME_CHUNK,  /* of `culprit`: it is quarantined at once */
};

/* What is asked, and what came of it. Requests are kept by the caller until the operation is
 * done, and may be applied many times. */
struct catalog_op {
    enum catalog_op_kind kind;

    /* Asked. */
    const struct chunk *chunks; /* add; `sequence`, `since`, `raw` are not looked at */
    size_t chunk_count;
    const struct view *keys;
    size_t key_count;
    struct chunk target;    /* commit */
    struct mono_time drawn; /* add, commit, split: when the oldest of the new names was drawn */
    enum blame blame;       /* condemn; counted only if the key was not condemned before */
    const struct view *sources;
    size_t source_count;
    struct view culprit;
    struct view reason; /* of a failure or a quarantine, for people */
    int64_t cutoff_ms;  /* retire */
    size_t most; /* retire, tend: move at most so many keys; 0: no bound. A grave is moved
                  * whole, the first one also when it is larger */
    const struct view
        *done; /* tend: one key each of removals whose objects were deleted, by us, since
                                they were there */
    size_t done_count;
    const struct view *gone; /* tend: the same of removals past D that were deleted once more */
    size_t gone_count;
    bool restamp; /* tend: by one who does not live long (see stamp.h) */
    struct view children[CATALOG_CHILDREN]; /* split */
    enum split_by split_by;
    uint64_t live_hash;
    const struct compact_settings *settings; /* set */

    /* Answered. */
    bool changed;
    bool already;                  /* add, commit, undelete, split: it had happened before */
    bool *ret_known;               /* add: one for each chunk; may be NULL. Its file was added
                                    * before, under another key: this one is not, and never will
                                    * be unless it is asked for again */
    bool full;                     /* add: refused with UNAVAILABLE since it must split */
    enum condemned *ret_condemned; /* one for each key; may be NULL */
    size_t moved;                  /* retire, tend, undelete: so many keys were moved */
    struct hf_error error;
};

/* Applies one operation at the time that the evidence tells. OK, or a refusal, which leaves the
 * catalog as it was:
 *   add         UNAVAILABLE full: split, then ask its children. CONFLICT some key is condemned:
 *               it must be put anew under another name. EXPIRED the names were drawn more than
 *               D/2 ago. MISMATCH it has children: ask the right one. OK with `already` if all
 *               of them were added, whatever became of them since, or their files are known
 *   commit      CONFLICT some source is not live any more, or the target is condemned: condemn
 *               it. EXPIRED as above. OK with `already` if it happened, whatever became of it
 *   condemn     OK; ret_condemned tells. UNAVAILABLE only when there are twice as many dead as
 *               there may be
 *   undelete    NOT_FOUND no tombstone. CONFLICT what it was merged into is not live any more,
 *               or it was split: it cannot be undone. OK with `already` if it is live. All that
 *               was merged with it comes back, and what it was merged into becomes a tombstone,
 *               for good; of what was retired only the one that is asked for comes back
 *   quarantine  NOT_FOUND not live
 *   split       CONFLICT the live entries changed. MISMATCH it has other children. EXPIRED as
 *               above
 *   set         INVALID it changes what chunks are made of, and there are some
 *   INVALID     keys of another home or twice, a level or text out of bounds
 *   UNAVAILABLE out of memory: `error` says so */
enum hf_status catalog_apply(struct catalog *catalog, struct catalog_op *op,
                             const struct evidence *evidence);

#endif
