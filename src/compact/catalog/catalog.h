/* SPDX-License-Identifier: Apache-2.0 */
/* catalog.h: the catalog of a partition: which chunks are data, which are no longer data, and which
 * objects are being deleted. The catalog is a document whose transitions are pure.
 *
 * A chunk's key is in exactly one of these states in its catalog, and moves only to the right:
 *
 *     (unknown) -> live -> tombstone -> retired       add; commit, retire, discard; maintain
 *     (unknown) ----------------------> condemned     condemn
 *     (unknown) -> pending -> live                    range; the last range
 *                  pending -----------> condemned     condemn, maintain: the merge is given up
 *
 * There are two exceptions: undelete makes a tombstone live again, and a split moves live entries
 * to the catalogs of its children, once, and leaves a reference for each. Retired and condemned
 * keys are `deleting`: their objects may be deleted, and no transition brings the keys back. So an
 * object that a catalog could ever name is deleted only after a swap of that catalog has moved its
 * key to `deleting`, and "did my commit happen?" always has an answer. See docs/design.md section
 * 8.
 *
 * Invariants (tests/catalog_check.c checks them all):
 *   1. a key occurs once among live, tombstones, deleting and references together;
 *   2. the home of an added, committed or condemned key is this partition (layout_home);
 *   3. a catalog with children has no live entries, and never will;
 *   4. the sequence numbers of a writer have no gaps;
 *   5. a catalog that is being dropped has no live entries, and never will;
 *   6. the generation of a catalog is raised by each swap that moves live keys to deleting, and by
 *      the split. It never decreases. A removal of retired keys has the generation that its swap
 *      raised the catalog to, so a client that read the catalog at that generation or a later one
 *      saw these keys as deleting (compact/care/pin.h);
 *   7. a file is not added twice while its identity is known: as long as its chunk is live, a
 *      tombstone or deleting, and forever once a split has moved the chunk. No files are added to a
 *      catalog after its split, so a file that is unknown there stays unknown there;
 *   8. the identity of an adopted object is its key and its ETag. If the partition does not own the
 *      object, the object outlives its entry, so its identity is kept forever. */
#ifndef COMPACT_CATALOG_CATALOG_H
#define COMPACT_CATALOG_CATALOG_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/evidence.h"
#include "base/layout.h"
#include "base/stamp.h"
#include "compact/catalog/settings.h"
#include "elect/cascade.h"

/* At either limit an add is refused as `full`, and the catalog must be split. A commit is not
 * refused, because it makes the catalog smaller. */
#define CATALOG_LIVE_MAX       4096
#define CATALOG_LIVE_BYTES_MAX ((size_t)1024 * 1024)

/* At this number of kept identities, an object that the partition does not own is refused as `full`
 * too: the children of a split keep identities of their own. */
#define CATALOG_KEPT_FILES_MAX 32768

/* Limits for tombstones and deleting keys together. At either limit, nothing is planned until some
 * of them are dropped. */
#define CATALOG_DEAD_MAX       32768
#define CATALOG_DEAD_BYTES_MAX ((size_t)4 * 1024 * 1024)

/* A larger document was not written by Holdfast. */
#define CATALOG_BYTES_READ_MAX ((size_t)16 * 1024 * 1024)

#define CATALOG_WRITERS_MAX  1024 /* further ones are counted under CATALOG_WRITERS_REST */
#define CATALOG_WRITERS_REST "others"
#define CATALOG_CHILDREN     8
#define WRITER_BYTES_MAX     64
#define REASON_BYTES_MAX     200
#define CHUNK_BYTES_MAX      4096 /* one entry, encoded */

/* A chunk that has passed this many tests fails only together with others. It is quarantined, so
 * that the same groups are not tried for ever. */
#define CHUNK_TESTED_MAX 3

/* The identity of a file is the first 128 bits of a SHA-256, in hexadecimal. Collisions do not
 * happen by accident, and a client that constructs one only excludes its own file. The other 128
 * bits would take 32 bytes in each entry, tombstone and deletion. */
#define FILE_ID_DIGITS    32
#define FILE_ID_BYTES_MAX 64 /* longest identity that is read */

/* ---- Contents ------------------------------------------------------------------------ */

/* The deletion markers of a chunk, if the settings name a deleted field. */
struct chunk_markers {
    bool known;         /* false: the chunk may contain any markers */
    uint64_t count;     /* the chunk contains no more markers than this ... */
    int64_t ms;         /* ... and none with a later time; 0 if there are none */
    struct stamp since; /* the last of them was ingested at this time, or before */
};

/* A live chunk, or a former one. It never changes in place, because `raw` contains its encoding.
 * Its views point into `raw` or into the catalog's memory. In a request they belong to the caller
 * and are copied.
 *
 * The object of an adopted chunk was written by somebody else and stays where it is. Its chunk has
 * a name of its own all the same, which no object has: so leases, pins, splits and homes are as for
 * every other chunk. Only a read or a delete uses `object`, and only by its ETag
 * (chunk_object.h). */
struct chunk {
    struct view key;
    unsigned level;
    uint64_t size;
    bool rows_known; /* false for formats without records */
    uint64_t rows;
    /* The times of its records, since 1970. If records have no times: when it was added. If they
     * have, but there are none: 0. */
    int64_t min_ms, max_ms;
    struct view writer;
    uint64_t sequence;   /* assigned by add; 0 for a merged chunk */
    struct view file_id; /* identity of the added file; empty: merged, or unknown */
    uint32_t crc32c;
    struct chunk_markers markers;
    uint64_t rejects;       /* rows that its merge rejected, kept in layout's kept folder */
    struct view run;        /* id of the divided merge that made it; empty: none */
    struct stamp since;     /* when it was added, last tried, or restored */
    unsigned tries;         /* leases on it that ended without success */
    unsigned tested;        /* tests that it passed alone, after its groups had failed */
    bool mark_begin;        /* a worker may have died in its merge: see `mark_begin` below */
    unsigned key_kinds;     /* ndjson: what its key is (merge.h); 0: unknown */
    struct view quarantine; /* the reason; empty: not quarantined */
    struct view object;     /* adopted: the key of its object; empty: not adopted */
    struct view etag;       /* adopted: the version of that object */
    bool own;               /* adopted: the partition may delete this version */
    struct view raw;        /* its JSON object as in the document, with unknown members */
    struct view unknown;    /* the unknown members alone: ,"name":value,... */
    uint64_t serial;        /* for the catalog's index */
    bool leaving;           /* for the catalog's own use during a change */
};

/* What graves and removals have in common: when they were created, and their encoding. */
struct dead_part {
    struct stamp since;
    unsigned restamps;
    struct mono_time seen; /* boot-time clock: since when this process has seen it unchanged */
    bool unwritten;        /* not known to be in the store yet, so it has not been seen */
    struct view raw;       /* empty: must be encoded */
    struct view unknown;
    uint64_t serial;
    bool leaving;
};

/* The chunks that one swap turned into tombstones. */
struct grave {
    struct dead_part part;
    struct view into;     /* key of the chunk they were merged into; empty: retired or undone */
    struct view *targets; /* of a divided merge, whose id is `into` then; NULL: not divided */
    size_t target_count;
    bool undone; /* the target of an undone merge: its sources came back */
    /* Retired by age, by a swap that set the catalog's expired_ms to this; `before`: what it was
     * then. */
    bool by_age, had_before;
    int64_t expired_ms, before_ms;
    bool discarded; /* given up by an operator, whatever its age */
    struct chunk *chunks;
    size_t count;
};

/* Whether undelete brings all of its chunks back, or none. */
static inline bool grave_is_one(const struct grave *grave)
{
    return grave->into.size > 0 || grave->by_age;
}

enum deleting_how {
    DELETING_RETIRED,   /* was live once */
    DELETING_CONDEMNED, /* was never live, and never will be */
};

/* The object of an adopted chunk whose key is deleting. */
struct removal_object {
    struct view key; /* of the chunk */
    struct view object, etag;
    bool own; /* false: the object stays */
};

/* The keys that one swap moved to deleting. */
struct removal {
    struct dead_part part;
    enum deleting_how how;
    bool done; /* all objects were deleted once; they are deleted again before the drop */
    /* Of retired keys: the catalog's generation since which they are deleting. 0: unknown, because
     * a version without generations moved them; the next maintain sets it. */
    uint64_t generation;
    struct view *keys;
    size_t count;
    struct view *file_ids; /* of its chunks; fewer than keys, since not every chunk has one */
    size_t file_id_count;
    struct removal_object *objects; /* of its adopted chunks, in the order of their keys */
    size_t object_count;
};

struct writer {
    struct view name;
    uint64_t sequence; /* all numbers up to this one were added */
};

/* How new chunks are routed to a child: by the hour of their data or, if one hour has too many
 * chunks for a catalog, by key. */
enum split_by { SPLIT_BY_HOUR, SPLIT_BY_KEY };

struct reference {
    struct view key;
    unsigned child;
};

/* ---- Divided merges ------------------------------------------------------------------ */

/* A merge that is too large for one output is divided into ranges of keys (docs/design.md section
 * 8). Its record is in the catalog until the last range is done, which commits the merge, or until
 * the merge is given up. The outputs of finished ranges are pending until then. */

#define MERGE_ID_DIGITS    32
#define MERGE_RANGES_MAX   64
#define MERGE_STARTS_MAX   4096 /* sources times ranges */
#define MERGE_FROM_MAX     256  /* digits of the first key of a range */
#define CATALOG_MERGES_MAX 8    /* at once; more groups wait */

/* One range of keys, and its output once it is done. */
struct range {
    struct view from; /* its first possible key, in hexadecimal; empty: the first range */
    const uint64_t
        *starts; /* of its part of each source; the part ends where the next starts */
    unsigned tries;
    bool done;
    struct chunk target; /* if done, like the rest */
    uint64_t rows_in, superseded;
    uint64_t deleted;     /* deletion markers that were dropped */
    const uint64_t *crcs; /* CRC32C of its part of each source */
    struct view unknown;
};

struct divided_merge {
    struct view id;
    unsigned level;
    struct stamp since;
    bool drops_markers;   /* its ranges drop the deletion markers of the sources */
    struct view *sources; /* keys */
    size_t source_count;
    struct range *ranges;
    size_t range_count;
    struct view unknown;
};

/* The size of a range's part of a source. */
uint64_t range_part(const struct divided_merge *merge, size_t range, size_t source,
                    uint64_t source_size);

/* The name on which the job of a range has its lease. It looks like the key of a chunk, so its home
 * is the partition. Parsing returns false for any other name; `ret_id` points into it. */
#define RANGE_LEASE_MAX (PARTITION_BYTES_MAX + MERGE_ID_DIGITS + 40)
const char *range_lease_name(struct view partition, const struct divided_merge *merge,
                             size_t range, char ret_name[RANGE_LEASE_MAX + 1]);
bool range_lease_parse(struct view name, struct view *ret_id, size_t *ret_range);

struct catalog {
    struct view partition;
    struct view parent;               /* empty: none */
    unsigned depth;                   /* 0: has no parent */
    uint64_t generation;              /* see invariant 6 */
    struct compact_settings settings; /* strings are in the catalog's memory */
    struct chunk *live;               /* in the order in which they were added */
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
    struct hf_cascade cascade;
    struct stamp due; /* cascade: when a level became the target */
    struct view children[CATALOG_CHILDREN];
    size_t child_count; /* 0 or CATALOG_CHILDREN */
    enum split_by split_by;
    uint64_t split_generation; /* since which it has children; 0: unknown, as in a removal */
    struct reference *references;
    size_t reference_count;
    struct view *moved_file_ids; /* of the chunks that a split moved */
    size_t moved_file_id_count;
    bool has_floor; /* deletion markers up to floor_ms were dropped: older data is refused */
    int64_t floor_ms;
    bool has_expired; /* chunks were retired by age: records before expired_ms are not shown */
    int64_t expired_ms;
    struct stamp stray; /* fsck saw then that its parent did not name it; 0: never */
    bool is_dropping;   /* the partition is being dropped, and this catalog is marked */
    bool is_dropped;    /* nothing is left of it; the document stands for an absent catalog */
    struct dead_part dropping;
    struct view
        *kept_file_ids; /* of adopted objects that are not ours, and no longer entries */
    size_t kept_file_id_count;
    struct divided_merge merges[CATALOG_MERGES_MAX]; /* oldest first */
    size_t merge_count;
    struct catalog_inside *inside; /* memory, an index by key, unknown members */
};

/* An empty catalog. */
enum hf_status catalog_new(struct view partition, struct view parent, unsigned depth,
                           const struct compact_settings *settings,
                           struct catalog **ret_catalog, struct hf_error *error);
void catalog_free(struct catalog *catalog);

/* Decodes a document that arrived at this time. Graves and removals that are unchanged since
 * `previous` (may be NULL) keep the time at which they were first seen. CORRUPT: not a catalog of
 * this partition. UNSUPPORTED: a newer version. */
enum hf_status catalog_decode(struct view text, struct mono_time arrived,
                              const struct catalog *previous, struct catalog **ret_catalog,
                              struct hf_error *error);

/* INVALID: no catalog can list such a chunk, because a member of it is out of bounds or its entry
 * is too long. For a client that is about to add it; the sequence number and the stamps, which the
 * add assigns, are taken at their longest. UNAVAILABLE: out of memory. */
enum hf_status catalog_check_chunk(const struct chunk *chunk, struct hf_error *error);

/* False if it does not fit, or if out of memory. */
bool catalog_encode(const struct catalog *catalog, struct view nonce, struct buffer *text);

/* For doc_type.written: the last change is in the store now, and counts as seen from this time on.
 * Before that, watching it proves nothing (stamp.h). */
void catalog_written(struct catalog *catalog, struct mono_time now);

/* For a split: copies a live entry of the parent into a child catalog that nobody can reach
 * yet. UNAVAILABLE: out of memory. */
enum hf_status catalog_copy_entry(struct catalog *catalog, const struct chunk *chunk,
                                  struct hf_error *error);

/* For a split, after all entries have been copied: copies the writers' watermarks and the unknown
 * settings from the parent, and `due` if a level of the child is the target. catalog_copy_entry
 * has already set counts[L] to the number of live entries of level L - 1. */
enum hf_status catalog_inherit(struct catalog *child, const struct catalog *parent,
                               struct hf_error *error);

/* ---- Deletion markers: README.md, rules 22 to 25 ------------------------------------- */

/* Whether a merge of these live chunks may drop their deletion markers now. OK: the merge may drop
 * them if it commits with `drops_markers`, which checks this again. NOT_FOUND: there are none.
 * CONFLICT: the error says what prevents it. */
enum hf_status catalog_check_markers(const struct catalog *catalog, const struct view *keys,
                                     size_t count, const struct evidence *evidence,
                                     struct hf_error *error);

/* INVALID, with a sentence, if the data of this chunk is refused because markers were dropped that
 * could have deleted it. */
enum hf_status catalog_check_floor(const struct catalog *catalog, const struct chunk *chunk,
                                   struct hf_error *error);

enum chunk_state {
    CHUNK_UNKNOWN,
    CHUNK_LIVE,
    CHUNK_TOMBSTONE,
    CHUNK_RETIRED,
    CHUNK_CONDEMNED,
    CHUNK_MOVED,   /* to a child */
    CHUNK_PENDING, /* the output of a range that is done; its merge is not committed yet */
};

/* The hour of a timestamp in milliseconds since 1970. */
static inline int64_t hour_of_ms(int64_t ms)
{
    const int64_t hour_ms = INT64_C(3600000);
    return ms / hour_ms - (ms % hour_ms < 0);
}

const char *chunk_state_name(enum chunk_state state);
enum chunk_state catalog_state(const struct catalog *catalog, struct view key);

static inline bool chunk_is_adopted(const struct chunk *chunk)
{
    return chunk->object.size > 0;
}

/* Whether the chunk has no records, so that its times mean nothing. */
static inline bool chunk_is_empty(const struct chunk *chunk)
{
    return chunk->rows_known && chunk->rows == 0;
}

/* Whether any entry is adopted or was. Such a catalog has the second version of the format, which
 * programs that do not know adopted objects refuse. */
bool catalog_has_adopted(const struct catalog *catalog);

/* The live chunk of a key, or NULL. */
const struct chunk *catalog_find(const struct catalog *catalog, struct view key);

/* Where a moved key went, and the removal of a deleting key; NULL if there is none. */
const struct reference *catalog_reference(const struct catalog *catalog, struct view key);
struct removal *catalog_removal_by_key(const struct catalog *catalog, struct view key);

/* Whether a file with this identity was added and is still remembered. */
bool catalog_knows_file(const struct catalog *catalog, struct view file_id);

/* The child that a chunk belongs to. */
unsigned split_route(struct view partition, enum split_by by, struct view key, int64_t min_ms);

/* The record of a divided merge, or NULL; and whether it can no longer be committed, because a
 * source of it is no longer what it was, or because no range is left to commit it. */
const struct divided_merge *catalog_merge(const struct catalog *catalog, struct view id);
bool catalog_merge_is_broken(const struct catalog *catalog, const struct divided_merge *merge);

/* The divided merge that is not broken and has this source; NULL: none. */
const struct divided_merge *catalog_merge_of_source(const struct catalog *catalog,
                                                    struct view key);

/* How full the catalog is, in percent: level-0 chunks relative to backlog_max, or dead keys
 * relative to their limits, whichever is larger. Writers wait while it is 100 or more. */
uint64_t catalog_pressure(const struct catalog *catalog);

/* Whether planning must pause because there are too many dead keys. */
bool catalog_is_clogged(const struct catalog *catalog);

/* Chunks whose newest record is earlier are past retention. INT64_MIN: none is. */
int64_t catalog_cutoff(const struct catalog *catalog, int64_t now_ms);

/* NOT_FOUND, with a sentence, if the partition is being dropped. For a client that is about to
 * ingest, merge or read. */
enum hf_status catalog_check_dropping(const struct catalog *catalog, struct hf_error *error);

/* Whether a marked catalog lists no name any more, and was provably marked D ago: then no client
 * can add a name to it, and no abandoned put can take effect. */
bool catalog_is_spent(const struct catalog *catalog, const struct evidence *evidence);

/* Whether a version without generations has moved keys to deleting, or split the catalog, and no
 * maintain has set their generations since. */
bool catalog_lacks_generations(const struct catalog *catalog);

/* A hash of the settings and of all live entries, in order. A split uses it to detect a change
 * since its children were made. */
uint64_t catalog_live_hash(const struct catalog *catalog);

/* ---- Transitions --------------------------------------------------------------------- */

enum catalog_op_kind {
    CATALOG_ADD,        /* chunks */
    CATALOG_COMMIT,     /* keys (the sources), target */
    CATALOG_CONDEMN,    /* keys; with blame, a try is counted for the sources */
    CATALOG_RETIRE,     /* chunks that end before cutoff_ms become tombstones */
    CATALOG_MAINTAIN,   /* move graves past grace to deleting; mark done; drop */
    CATALOG_UNDELETE,   /* keys[0] */
    CATALOG_QUARANTINE, /* keys, reason; an empty reason lifts it and resets the tries */
    CATALOG_SPLIT,      /* children, split_by, live_hash */
    CATALOG_SET,        /* settings */
    CATALOG_DISCARD,    /* keys[0], which is quarantined, becomes a tombstone */
    CATALOG_PASS,       /* keys[0] passed its test alone; its tries are reset */
    CATALOG_DROP,       /* mark as dropping, and turn all live chunks into tombstones */
    CATALOG_DROPPED,    /* the end of a drop, if the document cannot be deleted */
    CATALOG_DIVIDE,     /* merge */
    CATALOG_RANGE,      /* id, range, target, rows_in, superseded, crcs */
    CATALOG_STRAY, /* its parent does not name it: stamp it, unless its stamp is readable */
};

enum condemned { CONDEMN_DONE, CONDEMN_HAPPENED };

/* A request and its result. The request must stay valid until the operation is done, because it may
 * be applied several times. */
struct catalog_op {
    enum catalog_op_kind kind;

    /* The request. */
    const struct chunk *chunks; /* add; `sequence`, `since`, `raw` are ignored */
    size_t chunk_count;
    const struct view *keys;
    size_t key_count;
    struct chunk target;  /* commit; its markers are computed from the sources */
    bool drops_markers;   /* commit, range: the merge dropped the markers of its sources */
    bool markers_counted; /* commit, range: otherwise, it kept no more than markers_kept */
    uint64_t markers_kept;
    struct mono_time drawn; /* add, commit, split: when the oldest new name was generated */
    int64_t late_bound_ms;  /* ... and the D that its client has read; 0: the present one */
    enum hf_compact_blame blame; /* condemn; counted only if the key was not condemned before */
    const struct view *sources;
    size_t source_count;
    /* condemn, without blame: a worker that had leased the sources died, perhaps before its merge
     * began. From now on, a worker that merges one of them writes that it begins before it does. */
    bool mark_begin;
    struct view culprit;
    struct view reason; /* of a failure or a quarantine, for people */
    int64_t cutoff_ms;  /* retire */
    /* retire: that of the settings from which the cutoff was made; 0: it was not */
    int64_t retention_ms;
    /* maintain: the maximum number of keys to move; 0: no limit. A grave is always moved as a
     * whole, and the first one is moved even if it exceeds the limit. */
    size_t most;
    /* maintain: one key of each removal whose objects we have deleted since its move. */
    const struct view *done;
    size_t done_count;
    /* maintain: the same for removals past D whose objects were deleted again. */
    const struct view *gone;
    size_t gone_count;
    bool restamp; /* maintain: set by a short-lived process (see stamp.h) */
    struct view children[CATALOG_CHILDREN]; /* split */
    enum split_by split_by;
    uint64_t live_hash;
    /* set; add: those with which the chunks were examined, or NULL */
    const struct compact_settings *settings;
    /* set: the settings from which those were made; what differs is changed. NULL: all is. */
    const struct compact_settings *before;
    const struct divided_merge *merge; /* divide; the outputs are ignored */
    struct view id;                    /* range: of the merge, like the rest */
    size_t range;
    uint64_t rows_in, superseded, deleted;
    const uint64_t *crcs; /* one per source */

    /* The result. */
    bool changed;
    bool doubted;                  /* an earlier attempt got no reply, so it may have changed
                                    * what this one found; set by catalog_ref_apply */
    bool already;                  /* add, commit, undelete, split: it was done before */
    bool *ret_known;               /* add: one per chunk; may be NULL. The file was added
                                    * before under another key, so this chunk is not added */
    bool full;                     /* add: refused with UNAVAILABLE; the catalog must be
                                    * split */
    bool other_settings;           /* add: refused with MISMATCH; the partition's records are
                                    * read in another way since */
    bool below_floor;              /* add: refused with INVALID; see catalog_check_floor */
    bool needs_markers;            /* commit, range: not done, because the merge had dropped
                                    * markers; merge again, and keep them */
    bool wrong_sum;                /* range: refused with CORRUPT; see below */
    enum condemned *ret_condemned; /* one per key; may be NULL */
    size_t moved;                  /* retire, maintain, undelete: keys that were moved */
    bool committed;                /* range: it was the last one, and the merge is committed */
    struct hf_error error;
};

/* Applies one operation at the time given by the evidence. Returns OK, or a refusal that leaves
 * the catalog unchanged:
 *   add         UNAVAILABLE: full; split, then use the children. CONFLICT: a key is condemned; put
 *               the chunk under another name. EXPIRED: a name was generated more than D/2 ago.
 *               MISMATCH: the catalog has children; use the right one. MISMATCH with
 *               `other_settings`: examine the chunks again. OK with `already`: all
 *               chunks were added before, even if they are gone now, or their files are known.
 *               INVALID with `below_floor`: a chunk has records at or below the floor
 *   commit      CONFLICT: a source is no longer live, or the target is condemned; condemn the
 *               target. EXPIRED: as for add. OK with `already`: it was committed before, even if
 *               the target is gone now
 *   condemn     OK: the results are in ret_condemned. UNAVAILABLE: dead keys have reached twice
 *               their limit
 *   undelete    NOT_FOUND: no tombstone. CONFLICT: the target of the merge is no longer live, or
 *               the catalog was split, so the merge cannot be undone. OK with `already`: the chunk
 *               is live. All sources of the merge become live again, and its target becomes a
 *               tombstone permanently. Chunks that one swap retired by age become live together, in
 *               the reverse order of such swaps; CONFLICT: it is not the last one, or the partition
 *               was split, so other catalogs still hide their records. Any other retired chunk
 *               becomes live alone
 *   quarantine  NOT_FOUND: not live
 *   discard     NOT_FOUND: not live. CONFLICT: it is not quarantined. UNAVAILABLE: there are too
 *               many dead keys. OK with `already`: it is a tombstone
 *   split       CONFLICT: the live entries changed. MISMATCH: it has other children. EXPIRED: as
 *               for add
 *   set         INVALID: it changes how chunks are read, and there are chunks
 *   divide      CONFLICT: a source is not live, has failed, or is in another divided merge.
 *               UNAVAILABLE: there are too many divided merges. OK with `already`: it was done
 *               before
 *   range       CONFLICT: the merge was given up, the range is done, the target is condemned, or
 *               it lacks markers that must be kept; condemn the target. CORRUPT with `wrong_sum`:
 *               it is the last range, and the rows or checksums of all ranges together are not
 *               those of the sources. EXPIRED: as for add. OK with `already`: it was done before.
 *               OK with `needs_markers`: it was the last range, and the markers that the ranges
 *               have dropped must be kept; all outputs without them, like this target, are
 *               condemned, and their ranges must be merged again
 *   stray       OK with `already`: it has a stamp of this clock. UNAVAILABLE: the time is unknown
 *   pass        OK, whether or not the chunk is still live; a repetition changes nothing
 *   drop        OK with `already`: it was marked before
 *   dropped     CONFLICT: it is not marked, lists a name, or was marked less than D ago
 *   add, commit, undelete, quarantine, discard, split, set
 *               NOT_FOUND (commit: CONFLICT): the partition is being dropped. An add or commit that
 *               happened before is still OK with `already`
 *   any         INVALID: a key has another home or occurs twice, or a level or string is out of
 *               bounds. UNAVAILABLE: out of memory; `error` says so */
enum hf_status catalog_apply(struct catalog *catalog, struct catalog_op *op,
                             const struct evidence *evidence);

#endif
