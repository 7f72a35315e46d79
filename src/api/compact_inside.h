/* compact_inside.h: what the files of holdfast/compact.h share. For src/api/compact*.c only. */
#ifndef API_COMPACT_INSIDE_H
#define API_COMPACT_INSIDE_H

#include "base/arena.h"
#include "base/map.h"
#include "base/options.h"
#include "compact/allow_exec.h"
#include "compact/shelf.h"

struct hf_compact {
    struct hf_client *client;
    struct shelf *shelf;
    struct allow_exec allowed; /* commands of the bucket that may run here */
    const char *scratch;
    void (*trouble)(void *argument, const struct hf_compact_trouble *trouble);
    void *argument;
    struct arena arena;     /* of the texts of the options */
    struct env_mutex mutex; /* guards what follows */
    struct map texts;       /* of settings that were shown: each once, for as long as we live */
    struct arena kept;
};

/* What a walk over the catalogs finds, in steps: `look` copies what is needed while the catalog is
 * there, `told` uses it afterwards, when no lock of ours is held. A catalog that cannot be read is
 * told to the caller, the rest goes on, and the walk ends with that status. False of `told` ends
 * the walk: OK. */
struct compact_walk {
    enum hf_status (*look)(void *argument, struct slot *slot, const struct catalog *catalog,
                           const struct evidence *evidence);
    bool (*told)(void *argument, struct slot *slot); /* may be NULL */
    void *argument;
};
enum hf_status compact_walk(struct hf_compact *compact, const struct compact_walk *walk,
                            struct hf_error *error);

/* Tells the caller what stands in the way of a part. */
void compact_tell_trouble(struct hf_compact *compact, const char *part,
                          const struct hf_error *why);

/* A text of the arena, "" for an empty one; NULL without memory. */
const char *text_in(struct arena *arena, struct view text);

/* The same of a chunk, and of the name of a catalog that is all there is. False without memory. */
bool chunk_info_copy(struct arena *arena, const struct slot *slot, enum hf_chunk_state state,
                     const struct chunk *chunk, struct view into,
                     struct hf_chunk_info *ret_info);

/* ---- Leased chunks ------------------------------------------------------------------- */

/* The catalogs of the partition by name, those too that cannot be read. */
struct catalog_list {
    struct arena arena;
    struct view *names;
    size_t count;
};
enum hf_status catalog_list_read(struct hf_compact *compact, struct catalog_list *ret_names,
                                 struct hf_error *error);
void catalog_list_release(struct catalog_list *names);

/* Chunks that somebody merges at present. */
struct chunk_leases {
    struct arena arena;
    struct map keys;
    struct map barred;      /* partitions whose tables grant nothing, or cannot be read */
    struct view home;       /* that is looked at */
    struct hf_error damage; /* the first table that cannot be read */
    bool failed;            /* out of memory */
};
#define CHUNK_LEASES_INIT                                         \
    (struct chunk_leases)                                         \
    {                                                             \
        .arena = ARENA_INIT, .keys = MAP_INIT, .barred = MAP_INIT \
    }

/* A table that cannot be read is told to the caller, and the rest goes on: `damage` says so. */
enum hf_status chunk_leases_read(struct hf_compact *compact, const struct catalog_list *names,
                                 struct chunk_leases *ret_leased, struct hf_error *error);
void chunk_leases_release(struct chunk_leases *leased);
bool chunk_leases_have(void *leased, struct view key);

/* ---- Settings ------------------------------------------------------------------------ */

/* Views of the caller's texts. INVALID: a number that is in no table. */
enum hf_status settings_from_caller(const struct hf_compact_settings *given,
                                    struct compact_settings *ret_settings,
                                    struct hf_error *error);

#endif
