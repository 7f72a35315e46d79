/* SPDX-License-Identifier: Apache-2.0 */
/* compact_version.h: parses catalogs and the lease tables of chunks for the checkers. It is
 * a second implementation of docs/formats.md, and uses no code from src/compact or
 * src/lease. */
#ifndef SIM_CHECKERS_COMPACT_VERSION_H
#define SIM_CHECKERS_COMPACT_VERSION_H

#include "base/view.h"

#include <stdint.h>

/* ---- A catalog ----------------------------------------------------------------------- */

struct checked_chunk;

enum listed_state {
    LISTED_NOWHERE,
    LISTED_LIVE,
    LISTED_TOMBSTONE,
    LISTED_RETIRED,
    LISTED_CONDEMNED,
    LISTED_MOVED,
    LISTED_PENDING, /* the output of a finished range; `group` is the merge */
};

/* A key of a catalog. */
struct listed {
    struct view key;
    enum listed_state state;
    size_t group; /* tombstone or deleting name: its target; moved key: the child; output of a
                   * range: its merge */
    size_t range; /* of such an output */
    /* For a live key or a tombstone: */
    uint64_t level, size, crc32c, tries, tested;
    bool rows_known, quarantined, mark_begin;
    uint64_t rows;
    int64_t min_ms, max_ms;
    struct view run;
    struct view object, etag; /* of an adopted chunk */
    bool own;
    struct checked_chunk *chunk; /* the checker's data about the key */
};

/* The keys that one write turned into tombstones, or moved to the deleting list. */
struct listed_group {
    struct view into;     /* empty: retired or undone */
    struct view *targets; /* of a divided merge; all its tombstones have the same ones */
    size_t target_count;
    struct view since; /* the stamp, as raw text */
    bool condemned;
};

#define LISTED_CHILDREN_MAX 16

/* A divided merge. */
struct listed_merge {
    struct view id;
    struct view *sources;
    size_t source_count;
    size_t range_count;
};

/* One version of a catalog, with a copy of its text. */
struct catalog_version {
    char *text;
    struct view partition;
    struct view policy;
    struct listed *entries;
    size_t count;
    struct listed_group *groups;
    size_t group_count;
    struct listed_merge *merges;
    size_t merge_count;
    struct view children[LISTED_CHILDREN_MAX];
    size_t child_count;
    bool dropping, dropped; /* its partition is being dropped; nothing is left of it */
};

/* Returns NULL if the text is not a catalog. The memory belongs to no node. */
struct catalog_version *catalog_version_read(struct view text);
void catalog_version_free(struct catalog_version *version);

/* "9f86d081884c7d65:1763200000000000". */
bool listed_stamp_read(struct view text, uint64_t *ret_clock, int64_t *ret_us);

/* ---- A lease table of chunks --------------------------------------------------------- */

#define LEASED_SOURCES_MAX 64

enum leased_blame { LEASED_NOBODY, LEASED_GROUP, LEASED_CHUNK };

/* A lease that names an output; leases without an output are omitted. */
struct leased {
    struct view id, status, output;
    struct view sources[LEASED_SOURCES_MAX];
    size_t source_count;
    enum leased_blame blame; /* from its note */
    bool unbegun;            /* its note says that its merge has not begun */
};

struct leases_version {
    char *text;
    struct leased *leases;
    size_t count;
};

struct leases_version *leases_version_read(struct view text);
void leases_version_free(struct leases_version *version);

#endif
