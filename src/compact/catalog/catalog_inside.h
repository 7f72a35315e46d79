/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_inside.h: the internals of a catalog: its memory, an index of all keys, and the encoding
 * of its entries. For catalog*.c only.
 *
 * Strings are never freed one by one: they are in the document that was read, or in an arena. So
 * transitions leave unused memory behind. Once the arena is much larger than the entries,
 * catalog_apply encodes the catalog and decodes it again (catalog_renew). */
#ifndef COMPACT_CATALOG_CATALOG_INSIDE_H
#define COMPACT_CATALOG_CATALOG_INSIDE_H

#include "base/arena.h"
#include "base/members.h"
#include "compact/catalog/catalog.h"

/* ---- Index --------------------------------------------------------------------------- */

/* The state of a key, and the serial number of its live chunk, grave or removal. In each of the
 * three arrays the serial numbers are ascending, so a binary search finds the entry. They are not
 * encoded. */
struct key_slot {
    const char *data; /* NULL: empty */
    uint32_t size;
    uint32_t hash;
    uint64_t serial;
    enum chunk_state state;
};

struct key_index {
    struct key_slot *slots;
    size_t room; /* capacity: a power of two, or 0 */
    size_t count;
};

void key_index_release(struct key_index *index);

/* Makes room for this many more; false if out of memory. */
bool key_index_reserve(struct key_index *index, size_t more);

/* NULL if the key is not in the index. */
const struct key_slot *key_index_get(const struct key_index *index, struct view key);

/* Adds or replaces an entry; there must be room. The key's bytes are not copied. */
void key_index_put(struct key_index *index, struct view key, enum chunk_state state,
                   uint64_t serial);
void key_index_drop(struct key_index *index, struct view key);

/* ---- Memory -------------------------------------------------------------------------- */

struct catalog_inside {
    char *text;                              /* the document as it was read, or NULL */
    struct buffer space;                     /* its strings that contained escapes */
    struct arena arena;                      /* what was added since then */
    size_t spent;                            /* bytes allocated from the arena */
    struct buffer unknown, unknown_settings; /* unknown members: ,"name":value */
    size_t live_room, grave_room, removal_room, writer_room, reference_room;
    size_t moved_file_id_room, kept_file_id_room;
    struct key_index index;
    struct key_index files; /* from the identity of a file to its chunk */
    uint64_t serial;        /* the last serial number assigned */
    bool unwritten;         /* some grave or removal is not known to be in the store */
};

/* A catalog without settings, for the decoder; NULL if out of memory. */
struct catalog *catalog_blank(void);

void *catalog_take(struct catalog *catalog, size_t size);

/* Copies a string; data is NULL if out of memory. An empty string needs no memory. */
struct view catalog_keep(struct catalog *catalog, struct view text);
enum hf_status catalog_keep_settings(struct catalog *catalog,
                                     const struct compact_settings *settings,
                                     struct compact_settings *ret_kept, struct hf_error *error);

/* Each makes room for this many more elements at the end; false if out of memory. */
bool catalog_room_live(struct catalog *catalog, size_t more);
bool catalog_room_graves(struct catalog *catalog, size_t more);
bool catalog_room_removals(struct catalog *catalog, size_t more);
bool catalog_room_references(struct catalog *catalog, size_t more);
bool catalog_room_writers(struct catalog *catalog, size_t more);
bool catalog_room_moved_file_ids(struct catalog *catalog, size_t more);
bool catalog_room_kept_file_ids(struct catalog *catalog, size_t more);

/* ---- Parts --------------------------------------------------------------------------- */

/* The graves, the removals and the mark of a drop as one sequence. */
static inline size_t catalog_dead_parts(const struct catalog *catalog)
{
    return catalog->grave_count + catalog->removal_count + catalog->is_dropping;
}

static inline struct dead_part *catalog_dead_part(struct catalog *catalog, size_t index)
{
    if (index < catalog->grave_count)
        return &catalog->graves[index].part;
    index -= catalog->grave_count;
    return index < catalog->removal_count ? &catalog->removals[index].part : &catalog->dropping;
}

/* What an entry adds to live_bytes and dead_bytes: about its size in the document. */
size_t chunk_bytes(const struct chunk *chunk);
size_t grave_bytes(const struct grave *grave);
size_t removal_bytes(const struct removal *removal);

/* Makes room in both indexes for keys with file identities; false if out of memory. */
bool catalog_reserve_keys(struct catalog *catalog, size_t more);

/* The caller must have made room. These functions assign the serial number, update the counts, and
 * enter keys and file identities into the indexes. */
void catalog_push_live(struct catalog *catalog, const struct chunk *chunk);
void catalog_push_grave(struct catalog *catalog, const struct grave *grave);
void catalog_push_removal(struct catalog *catalog, const struct removal *removal);
void catalog_push_reference(struct catalog *catalog, struct view key, unsigned child);
void catalog_push_moved_file(struct catalog *catalog, struct view file_id);
void catalog_push_kept_file(struct catalog *catalog, struct view file_id);

/* Forgets a file identity if it belongs to the entry with this serial number. */
void catalog_forget_file(struct catalog *catalog, struct view file_id, uint64_t serial);

/* These remove the entries that are marked `leaving`. The index is unchanged. */
void catalog_sweep_live(struct catalog *catalog);
void catalog_sweep_graves(struct catalog *catalog);
void catalog_sweep_removals(struct catalog *catalog);

/* Finds an entry by serial number; NULL if there is none. */
struct chunk *catalog_live_of(const struct catalog *catalog, uint64_t serial);
struct grave *catalog_grave_of(const struct catalog *catalog, uint64_t serial);
struct removal *catalog_removal_of(const struct catalog *catalog, uint64_t serial);
struct chunk *catalog_live_by_key(const struct catalog *catalog, struct view key);
struct grave *catalog_grave_by_key(const struct catalog *catalog, struct view key);

/* The index of a writer in the state vector, or the index at which to insert it. */
size_t writer_place(const struct writer *writers, size_t count, struct view name);

/* Whether the number of each live chunk was assigned to its writer, or to CATALOG_WRITERS_REST. */
bool catalog_sequences_hold(const struct catalog *catalog);

/* ---- Encoding of parts (catalog_entry.c) --------------------------------------------- */

/* The longest entry that is read: an entry of CHUNK_BYTES_MAX bytes becomes longer when its chunk
 * is quarantined. */
#define CHUNK_BYTES_READ_MAX (2 * CHUNK_BYTES_MAX)
#define CHUNK_TRIES_MAX      1000000
#define CHUNK_MS_MAX         (INT64_C(1) << 53)
#define CHUNK_NUMBER_MAX     ((uint64_t)INT64_MAX)
#define CATALOG_DEPTH_MAX    64
#define GENERATION_MAX       (UINT64_C(1) << 53)

/* The maximum number of keys in a document that is read: live, dead and moved keys together. */
#define CATALOG_KEYS_READ_MAX ((size_t)256 * 1024)

/* INVALID: such a chunk cannot be in a catalog. */
enum hf_status chunk_check(const struct chunk *chunk, struct hf_error *error);

/* Sets `raw`, and copies strings into the catalog's memory. INVALID: the entry is too long. */
enum hf_status chunk_keep(struct catalog *catalog, struct chunk *chunk, struct hf_error *error);
/* The same for a chunk whose strings are in the catalog's memory; UNAVAILABLE: out of memory. */
enum hf_status chunk_seal(struct catalog *catalog, struct chunk *chunk, size_t bytes_max,
                          struct hf_error *error);

void grave_write(const struct grave *grave, struct buffer *text);
void removal_write(const struct removal *removal, struct buffer *text);

/* Appends an array of strings; `before` ends with its opening bracket. */
void texts_write(struct buffer *text, struct view before, const struct view *texts,
                 size_t count);

/* The state of the decoder. */
struct part_reader {
    struct json_reader json;
    struct catalog *catalog;
    const struct catalog *previous; /* may be NULL */
    struct mono_time arrived;
    struct buffer items; /* items of the array being read */
    size_t key_count;    /* keys read so far, including file identities */
    bool later;          /* the document has an unknown version */
    bool split_by_known;
    bool no_memory;
};

/* Decodes an object into the struct `part`, and keeps members that are not in the table. */
bool part_members_read(struct part_reader *reader, const struct member_table *table, void *part,
                       struct buffer *unknown);

bool part_no_memory(struct part_reader *reader);
bool key_read(struct part_reader *reader, struct view *ret_key);
bool file_id_read(struct part_reader *reader, struct view *ret_file_id);
bool chunk_read(struct part_reader *reader, struct chunk *ret_chunk);
bool grave_read(struct part_reader *reader, struct grave *ret_grave);

/* Decode an array of strings, each with `read`, and one of numbers. */
bool texts_read(struct part_reader *reader,
                bool (*read)(struct part_reader *reader, struct view *ret_text),
                struct view **ret_texts, size_t *ret_count);
bool numbers_read(struct part_reader *reader, uint64_t **ret_numbers, size_t *ret_count);
bool removal_read(struct part_reader *reader, struct removal *ret_removal);

/* ---- Transitions --------------------------------------------------------------------- */

typedef enum hf_status catalog_transition(struct catalog *catalog, struct catalog_op *op,
                                          const struct evidence *evidence);
catalog_transition catalog_apply_add, catalog_apply_commit, catalog_apply_condemn,
    catalog_apply_quarantine, catalog_apply_retire, catalog_apply_discard,
    catalog_apply_maintain, catalog_apply_undelete, catalog_apply_split, catalog_apply_set,
    catalog_apply_pass, catalog_apply_drop, catalog_apply_dropped, catalog_apply_divide,
    catalog_apply_range, catalog_apply_stray;

/* Whether the entry has provably been in the catalog for this long. */
bool catalog_has_stood(const struct catalog *catalog, const struct dead_part *part,
                       int64_t span_ms, const struct evidence *evidence);

/* EXPIRED: a name was generated too long ago to be added to a catalog. */
enum hf_status catalog_name_age(const struct catalog *catalog, struct catalog_op *op,
                                const struct evidence *evidence);

/* Whether a change from one to the other would affect how existing chunks are read. */
bool catalog_reads_otherwise(const struct compact_settings *a,
                             const struct compact_settings *b);

/* INVALID: the key is malformed or has another home. */
enum hf_status catalog_check_key(const struct catalog *catalog, struct view key,
                                 struct hf_error *error);

/* INVALID: a key occurs twice. */
enum hf_status catalog_check_twice(const struct view *keys, size_t count,
                                   struct hf_error *error);

/* A new dead part and a new grave, stamped with the current time. */
struct dead_part catalog_new_part(const struct evidence *evidence);
struct grave catalog_new_grave(const struct evidence *evidence, struct view into,
                               struct chunk *chunks, size_t count);

/* The target level of the cascade, or 0; and, given an earlier result as `target`, updates `due`:
 * sets it if a level has become the target since then, and clears it if there is no target. */
unsigned catalog_cascade(const struct catalog *catalog);
void catalog_set_due(struct catalog *catalog, unsigned target, const struct evidence *evidence);

/* An entry was added at this level and counts towards the next one. */
void catalog_count_entry(struct catalog *catalog, unsigned level);

/* The markers of these live chunks together: what their merge contains if it keeps them. */
struct chunk_markers catalog_markers_of(const struct catalog *catalog, const struct view *keys,
                                        size_t count, const struct evidence *evidence);

/* What a commit, or a finished range, leaves of the markers of its sources. */
struct chunk_markers catalog_markers_left(const struct catalog_op *op,
                                          struct chunk_markers markers);

/* Data at or below this time is refused from now on. The floor never sinks. */
void catalog_raise_floor(struct catalog *catalog, int64_t ms);

/* A reason for people to read: bounded in size, never empty. */
struct reason {
    char text[REASON_BYTES_MAX];
    size_t size;
};
struct reason reason_make(unsigned tries, struct view why);

/* Prepared copies of chunks. They replace the originals once nothing can fail any more. */
struct blamed {
    struct chunk *chunks;
    size_t count;
};

/* Prepares the tries that a condemn counts against its sources. The caller frees `chunks`. */
enum hf_status blame_prepare(struct catalog *catalog, struct catalog_op *op,
                             const struct evidence *evidence, struct blamed *blamed);
void blame_apply(struct catalog *catalog, const struct blamed *blamed);

/* Whether a key in this state was once live, that is, added or committed. */
bool chunk_was_live(enum chunk_state state);

/* Commits targets in place of live sources. The caller has checked everything, and raises the floor
 * if markers were dropped; the targets are in the catalog's memory, but not sealed. UNAVAILABLE:
 * out of memory. */
enum hf_status catalog_commit(struct catalog *catalog, struct catalog_op *op,
                              const struct grave *into, const struct view *sources,
                              size_t source_count, struct chunk *targets, size_t target_count,
                              const struct evidence *evidence);

/* ---- Divided merges (catalog_divide.c) ----------------------------------------------- */

/* What a condemn counts against the range whose lease has ended. */
struct range_blame {
    struct divided_merge *merge; /* NULL: none */
    size_t range;
    bool gives_up;
};

/* If the source of a condemn is the lease of a range, changes the operation so that it blames the
 * sources of the merge only if the merge is given up. */
struct range_blame divided_blame(struct catalog *catalog, struct catalog_op *op);

/* Counts the try, or gives the merge up. Its outputs are appended to the removal, which has
 * room. */
void divided_count_try(struct catalog *catalog, const struct range_blame *blame,
                       struct removal *removal);

/* Gives up the merges that can no longer be committed. */
enum hf_status divided_drop_broken(struct catalog *catalog, struct catalog_op *op,
                                   const struct evidence *evidence);

void divided_write(const struct divided_merge *merge, struct buffer *text);

/* Decodes a record. An output whose key is known in another state was condemned by an earlier
 * version, so its range is to be done again. */
bool divided_read(struct part_reader *reader, struct divided_merge *ret_merge);

/* Takes a chunk out of its grave, and marks the grave `leaving` if that empties it. The index is
 * unchanged. */
void catalog_exhume(struct catalog *catalog, struct grave *grave, struct view key);

#endif
