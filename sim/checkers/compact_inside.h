/* SPDX-License-Identifier: Apache-2.0 */
/* compact_inside.h: the data of the compaction checker, shared by its source files. */
#ifndef SIM_CHECKERS_COMPACT_INSIDE_H
#define SIM_CHECKERS_COMPACT_INSIDE_H

#include "base/map.h"
#include "sim/checkers/catalog_checker.h"
#include "sim/checkers/compact_rows.h"
#include "sim/checkers/compact_version.h"

/* For how many incarnations of a node the checker remembers the boot. */
#define CHECKED_LIVES_MAX 64

/* A stamp in a document: its clock, and when it was written. */
struct checked_since {
    uint64_t clock;
    int64_t us;
    int64_t applied_us; /* true time */
    uint64_t boot;      /* a hash of the boot of the writer's machine; 0: unknown */
};

/* One version of an object that an outside writer put. */
struct outside_version {
    char *key;
    struct etag etag;
    uint64_t size;
    uint32_t crc32c;
    struct row *rows;
    size_t row_count;
};

/* The checker's data about a name under data/. */
struct checked_chunk {
    char *key;
    size_t number; /* among all */

    /* The object. */
    bool was_put;
    bool spoilt; /* damaged by the workload */
    uint64_t hash;
    struct row *rows; /* as first put; NULL: the contents are not rows */
    size_t row_count;
    const struct outside_version *adopted; /* the version that it adopted; NULL: none */
    bool own;                              /* ... and may delete */

    /* The name. */
    int64_t drawn_us;            /* -1: unknown */
    struct checked_lease *lease; /* the lease whose output it is */
    bool told_never;             /* a node was told that it is not, and will not be, live */

    /* Its state in the catalogs. */
    bool live; /* in a reachable catalog */
    bool ever_live, ever_deleting, ever_condemned, ever_pending;
    bool dropped;    /* once */
    int64_t came_us; /* since when it has been live */
    bool expired;    /* retention made it a tombstone */
    struct checked_since since;

    /* Tries counted because of leases. */
    uint64_t leases_ended_badly, tries_counted;
    bool begin_marked; /* whoever merges it must write first that it begins */
    bool asked_quarantine, asked_discard;
    unsigned partition_life; /* how many times the partition had been removed before */

    /* Used while two versions of a catalog are compared. */
    const struct listed *before, *after;
    unsigned must_count; /* leases of dead workers that this write settles */
    bool must_mark;      /* ... one of which had begun, and its lease did not say so */
    bool tried_alone;    /* under a lease that this write settles */
    bool undone;         /* its sources become live again by this write */
};

/* A path that is registered to a partition. */
struct checked_path {
    char *path, *partition;
    bool releasing;
    char *since;       /* the stamp of its mark, as raw text */
    int64_t marked_us; /* when it was marked with this stamp */
};

struct checked_lease {
    char *id;
    struct checked_chunk *output;
    struct checked_chunk *sources[LEASED_SOURCES_MAX];
    size_t source_count;
    struct node *owner; /* the node that wrote it, and its incarnation */
    uint32_t owner_life;
    bool bad;  /* when it ends, a try is counted for each source */
    bool died; /* expired or broken */
    bool completed, forgotten;
    bool unbegun;  /* it says that its merge has not begun */
    bool began;    /* the merge has begun, whatever the lease says */
    bool must_say; /* a source was marked when the lease was granted */
    bool seen;     /* in the version that is being read */
    size_t table;
};

struct checked_doc {
    struct checked_doc *next;
    char *key;
    char *partition;
    struct etag etag;
    struct catalog_version *now; /* NULL: not there */
    bool reachable;              /* the partition's own, or a child of a reachable one */
    int64_t marked_us;           /* when it was marked as being dropped */
};

struct checked_lease_table {
    char *key;
    struct leases_version *now;
};

struct checked_row {
    struct row row;
    bool added;
    int64_t added_us;
    const struct checked_chunk *chunk; /* in which it was added */
    bool expired;                      /* retention, a discard or a drop took it */
    bool ever_expired;
    unsigned live; /* how many live chunks had it at the last count */
};

struct checked_pin {
    struct catalog_checker *checker;
    struct checked_pin *next;
    struct node *node;
    struct hf_lock *lock;
    struct checked_chunk *chunks[16];
    size_t count;
};

struct catalog_checker {
    struct run *run;
    struct catalog_checker_options options;
    struct bucket_watch watch;
    struct node_watch node_watches[NODES_MAX];
    bool condemns_any[NODES_MAX + 1];
    /* The boot in which each incarnation of a node ran. */
    uint64_t boots[NODES_MAX + 1][CHECKED_LIVES_MAX];
    char unsettled[WORLD_FAILURE_MAX];
    bool spoiling;
    struct map by_key;
    struct checked_chunk **chunks;
    size_t chunk_count;
    struct map by_lease;
    struct checked_lease **leases;
    size_t lease_count;
    struct checked_lease_table *tables;
    size_t table_count;
    struct checked_doc *docs;
    struct checked_row *rows;  /* by number */
    unsigned newest[ROW_KEYS]; /* the highest number that was added for each key */
    unsigned row_last;
    int64_t newest_ms; /* the newest time that was ever in a catalog */
    struct checked_pin *pins;
    struct outside_version **versions;
    size_t version_count;
    struct checked_path *paths; /* in the current document */
    size_t path_count;
    unsigned partition_life;
};

static inline struct world *catalog_world(const struct catalog_checker *checker)
{
    return checker->run->world;
}

static inline int64_t catalog_now_us(const struct catalog_checker *checker)
{
    return world_now_us(checker->run->world);
}

/* catalog_checker.c */
struct checked_chunk *checked_chunk_of(struct catalog_checker *checker, struct view key);
void checked_map_put(struct map *map, struct view key, void *value);
char *checked_copy(struct view text);

/* When the write that is taking effect was sent. */
int64_t checked_sent_us(const struct catalog_checker *checker);

/* Whether any catalog has ever contained the chunk. */
static inline bool checked_is_settled(const struct checked_chunk *chunk)
{
    return chunk->ever_live || chunk->ever_deleting || chunk->ever_pending;
}

/* compact_diff.c */
void catalog_checker_written(struct catalog_checker *checker, struct checked_doc *doc,
                             struct catalog_version *now);
struct checked_doc *checked_doc_of(const struct catalog_checker *checker,
                                   struct view partition);

/* compact_live.c: fails the run unless all live chunks together have the rows that they must. */
void checked_live_rows(struct catalog_checker *checker);

/* Fails the run unless this version of a catalog may be removed now. */
void checker_removed(struct catalog_checker *checker, const struct checked_doc *doc,
                     const struct catalog_version *version);

/* adopt_checker.c: objects of outside writers, which are put below these folders. */
#define CHECKED_RAW "raw/"
#define CHECKED_OWN "own/"
bool checked_is_outside(struct view key);
void checked_outside_changed(struct catalog_checker *checker,
                             const struct bucket_change *change);

/* The document that registers paths was written. */
void checked_paths_written(struct catalog_checker *checker, struct view body);

/* The last catalog of the partition was removed. What is adopted by a partition that is created
 * afterwards may have been adopted before. */
void checked_partition_removed(struct catalog_checker *checker);

/* Whether a chunk may add rows that another chunk has added before. */
bool checked_adopts_anew(const struct catalog_checker *checker,
                         const struct checked_chunk *before, const struct checked_chunk *chunk);

/* The chunk of an entry that names an object comes to be live: finds the version. Fails the run if
 * there never was such a version. */
void checked_adopts(struct catalog_checker *checker, struct checked_chunk *chunk);

/* Whether the bucket still has the version. */
bool checked_is_there(const struct catalog_checker *checker,
                      const struct outside_version *version);
void checked_adopted_free(struct catalog_checker *checker);

/* catalog_checker.c: an object is deleted, whose chunk this is. */
void checked_object_deleted(struct catalog_checker *checker, const struct checked_chunk *chunk);

/* compact_lease.c */
/* A lease on this name ended badly. If the name is that of a range, a try may be counted for each
 * source of its merge, when that is given up. */
void checker_bad_range(struct catalog_checker *checker, const struct checked_chunk *name);

/* Whether the lease under which this output was made names this range of the merge with this id. */
bool checked_made_for(const struct checked_chunk *output, struct view id, size_t range);
void checker_leases_written(struct catalog_checker *checker, struct view key, struct view body);

#endif
