/* compact_judge.h: what the judge of compaction knows, for its own files. */
#ifndef SIM_COMPACT_JUDGE_H
#define SIM_COMPACT_JUDGE_H

#include "base/map.h"
#include "sim/compact_rows.h"
#include "sim/compact_version.h"
#include "sim/judge_catalog.h"

/* Lives of a node whose boot is remembered: the last so many. */
#define JUDGED_LIVES_MAX 64

/* A stamp of a document: by which clock, and when it came to stand there. */
struct judged_since {
    uint64_t clock;
    int64_t us;
    int64_t applied_us; /* true time */
    uint64_t boot;      /* of the machine whose process wrote it, hashed; 0: nobody knows */
};

/* What is known of a name under data/. */
struct judged_chunk {
    char *key;
    size_t number; /* among all */

    /* The object. */
    bool was_put;
    bool spoilt; /* damaged by us */
    uint64_t hash;
    struct row *rows; /* as it was first put; NULL: they are none */
    size_t row_count;

    /* The name. */
    int64_t drawn_us;           /* -1: unknown */
    struct judged_lease *lease; /* whose output it is */
    bool told_never;            /* somebody was told that it is not, and will not be, live */

    /* What its catalogs say. */
    bool live; /* in one that can be reached */
    bool ever_live, ever_deleting, ever_condemned;
    bool dropped;    /* once */
    int64_t came_us; /* since when it is live */
    bool expired;    /* retention made it a tombstone */
    struct judged_since since;

    /* Whom leases blame. */
    uint64_t leases_ended_badly, tries_counted;
    bool asked_quarantine;

    /* While two versions of a catalog are compared. */
    const struct listed *before, *after;
    unsigned must_count; /* leases that just died, by this write */
    bool tried_alone;    /* by a lease that this write settles */
    bool undone;         /* its sources come back by this write */
};

struct judged_lease {
    char *id;
    struct judged_chunk *output;
    struct judged_chunk *sources[LEASED_SOURCES_MAX];
    size_t source_count;
    struct node *owner; /* whose write it came with, of which life */
    uint32_t owner_life;
    bool bad;  /* ended so that each source has a try more */
    bool died; /* expired or broken */
    bool completed, forgotten;
    bool seen; /* in the version that is being read */
    size_t table;
};

struct judged_doc {
    struct judged_doc *next;
    char *key;
    char *partition;
    struct etag etag;
    struct catalog_version *now; /* NULL: not there */
    bool reachable;              /* the partition's own, or a child of one that is */
};

struct judged_lease_table {
    char *key;
    struct leases_version *now;
};

struct judged_row {
    struct row row;
    bool added;
    const struct judged_chunk *chunk; /* in which it was added */
    bool expired;                     /* retention took it */
    unsigned live;                    /* in so many chunks, as counted last */
};

struct judged_pin {
    struct judge_catalog *judge;
    struct judged_pin *next;
    struct node *node;
    struct hf_lock *lock;
    struct judged_chunk *chunks[16];
    size_t count;
};

struct judge_catalog {
    struct run *run;
    struct judge_catalog_options options;
    struct bucket_watch watch;
    struct node_watch node_watches[NODES_MAX];
    bool condemns_any[NODES_MAX + 1];
    uint64_t boots[NODES_MAX + 1][JUDGED_LIVES_MAX]; /* in which boot each life of a node ran */
    char unsettled[WORLD_FAILURE_MAX];
    bool spoiling;
    struct map by_key;
    struct judged_chunk **chunks;
    size_t chunk_count;
    struct map by_lease;
    struct judged_lease **leases;
    size_t lease_count;
    struct judged_lease_table *tables;
    size_t table_count;
    struct judged_doc *docs;
    struct judged_row *rows;   /* by number */
    unsigned newest[ROW_KEYS]; /* of each key, the highest number that was added */
    unsigned row_last;
    int64_t newest_ms; /* of all that was ever in a catalog */
    struct judged_pin *pins;
};

static inline struct world *catalog_world(const struct judge_catalog *judge)
{
    return judge->run->world;
}

static inline int64_t catalog_now_us(const struct judge_catalog *judge)
{
    return world_now_us(judge->run->world);
}

/* judge_catalog.c */
struct judged_chunk *judged_chunk_of(struct judge_catalog *judge, struct view key);
void judged_map_put(struct map *map, struct view key, void *value);
char *judged_copy(struct view text);

/* When the write that takes effect just now left. */
int64_t judged_sent_us(const struct judge_catalog *judge);

/* Whether some catalog has ever had it. */
static inline bool judged_is_settled(const struct judged_chunk *chunk)
{
    return chunk->ever_live || chunk->ever_deleting;
}

/* compact_diff.c */
void judge_catalog_written(struct judge_catalog *judge, struct judged_doc *doc,
                           struct catalog_version *now);
struct judged_doc *judged_doc_of(struct judge_catalog *judge, struct view partition);

/* compact_lease.c */
void judge_leases_written(struct judge_catalog *judge, struct view key, struct view body);

#endif
