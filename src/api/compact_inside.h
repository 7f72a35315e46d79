/* SPDX-License-Identifier: Apache-2.0 */
/* compact_inside.h: declarations that src/api/compact*.c share. */
#ifndef API_COMPACT_INSIDE_H
#define API_COMPACT_INSIDE_H

#include "base/arena.h"
#include "base/map.h"
#include "base/options.h"
#include "compact/catalog/catalog_tree.h"
#include "compact/work/allow_exec.h"

#include <stdatomic.h>

struct hf_compact {
    atomic_size_t users; /* the caller, until it closes the handle; workers; readers */
    struct hf_client *client;
    struct catalog_tree *tree;
    struct allow_exec allowed; /* commands that may run here */
    const char *scratch;
    void (*trouble)(void *argument, const struct hf_compact_trouble *trouble);
    void *argument;
    struct arena arena;     /* for the strings in the options */
    struct env_mutex mutex; /* guards the members below */
    struct map texts;       /* strings in reported settings, one copy each */
    struct arena kept;
};

/* Adds a user: a worker or a reader may outlive the caller's handle. */
struct hf_compact *compact_keep(struct hf_compact *compact);

/* A walk over the catalogs. `look` copies what is needed while it has access to the catalog; `told`
 * uses the copy afterwards, when no lock is held. A catalog that cannot be read is reported to the
 * caller; the walk continues, and ends with the status of that catalog. If `told` returns false,
 * the walk ends with OK. */
struct compact_walk {
    enum hf_status (*look)(void *argument, struct catalog_ref *ref,
                           const struct catalog *catalog, const struct evidence *evidence);
    bool (*told)(void *argument); /* may be NULL */
    void *argument;
    bool quiet; /* do not report problems, only return their status */
};
enum hf_status compact_walk(struct hf_compact *compact, const struct compact_walk *walk,
                            struct hf_error *error);

/* Reports to the caller why a part cannot be read. */
void compact_tell_trouble(struct hf_compact *compact, const char *part,
                          const struct hf_error *why);

/* Copies a string into the arena; "" for an empty string. NULL if memory runs out. */
const char *text_in(struct arena *arena, struct view text);

/* Copies a chunk into the arena, except the name of its catalog. False if memory runs out. */
bool chunk_info_copy(struct arena *arena, const char *partition, enum hf_chunk_state state,
                     const struct chunk *chunk, struct view into,
                     struct hf_chunk_info *ret_info);

/* The names of all catalogs of the partition, including those that cannot be read. */
struct catalog_list {
    struct arena arena;
    struct view *names;
    size_t count;
};
enum hf_status catalog_list_read(struct hf_compact *compact, struct catalog_list *ret_names,
                                 struct hf_error *error);
void catalog_list_release(struct catalog_list *names);

/* Chunks that are being merged now. */
struct chunk_leases {
    struct arena arena;
    struct map keys;
    struct map barred;      /* partitions whose tables are damaged or grant nothing */
    struct view home;       /* the partition being read */
    struct hf_error damage; /* the first table that cannot be read */
    /* Called with each table; may be NULL. */
    void (*also)(void *argument, const struct lease_table *table,
                 const struct evidence *evidence);
    void *argument;
    bool failed; /* out of memory */
};
#define CHUNK_LEASES_INIT                                         \
    (struct chunk_leases)                                         \
    {                                                             \
        .arena = ARENA_INIT, .keys = MAP_INIT, .barred = MAP_INIT \
    }

/* Reads the table of each catalog once. A table that cannot be read is reported to the caller and
 * recorded in `damage`; the other tables are still read. */
enum hf_status chunk_leases_read(struct hf_compact *compact, struct chunk_leases *leased,
                                 struct hf_error *error);
void chunk_leases_release(struct chunk_leases *leased);
bool chunk_leases_have(void *leased, struct view key);

/* Whether the command in the settings, if any, may run here; if not, `why` contains the reason. */
bool command_may_run(const struct hf_compact *compact, const struct compact_settings *settings,
                     struct hf_error *why);

/* What a caller is told about a source. It has a key only if it was added to the catalog. */
struct ingest_file;
struct hf_compact_ingested ingested_of(const struct ingest_file *file);

#endif
