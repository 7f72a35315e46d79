/* catalog_inside.h: what a catalog keeps to itself: its memory, an index of all keys, and the
 * encoding of its parts. For catalog*.c only.
 *
 * Texts are never freed one by one: they lie in the document that was read or in an arena.
 * Transitions therefore leave garbage behind; once that is more than what is in use,
 * catalog_apply writes the catalog and reads it back (catalog_renew). */
#ifndef COMPACT_CATALOG_INSIDE_H
#define COMPACT_CATALOG_INSIDE_H

#include "base/arena.h"
#include "base/json.h"
#include "compact/catalog.h"

/* ---- Index --------------------------------------------------------------------------- */

/* Where a key stands: its state, and the serial number of its live chunk, grave or removal.
 * Serial numbers rise in each of the three arrays, so a number leads to its place by halving;
 * they are not written. */
struct key_slot {
    const char *data; /* NULL: empty */
    uint32_t size;
    uint32_t hash;
    uint64_t serial;
    enum chunk_state state;
};

struct key_index {
    struct key_slot *slots;
    size_t room; /* a power of two, or 0 */
    size_t count;
};

void key_index_release(struct key_index *index);

/* Room for so many more; false without memory. */
bool key_index_reserve(struct key_index *index, size_t more);

/* NULL when it is not there. */
const struct key_slot *key_index_get(const struct key_index *index, struct view key);

/* Puts or replaces; there must be room. The bytes of the key stay the caller's. */
void key_index_put(struct key_index *index, struct view key, enum chunk_state state,
                   uint64_t serial);
void key_index_drop(struct key_index *index, struct view key);

/* ---- Memory -------------------------------------------------------------------------- */

struct catalog_inside {
    char *text;                              /* the document as it was read, or NULL */
    struct buffer space;                     /* texts of it that had escapes */
    struct arena arena;                      /* what came since */
    size_t spent;                            /* bytes of the arena */
    struct buffer unknown, unknown_settings; /* members: ,"name":value */
    size_t live_room, grave_room, removal_room, writer_room, reference_room;
    size_t moved_file_id_room;
    struct key_index index;
    struct key_index files; /* by the identity of a file: where its chunk stands */
    uint64_t serial;        /* the last one that was given */
    bool unwritten;         /* some grave or removal is */
};

/* Without settings, for decode; NULL without memory. */
struct catalog *catalog_blank(void);

void *catalog_take(struct catalog *catalog, size_t size);

/* An empty text needs no memory; else data is NULL without it. */
struct view catalog_keep(struct catalog *catalog, struct view text);
enum hf_status catalog_keep_settings(struct catalog *catalog,
                                     const struct compact_settings *settings,
                                     struct compact_settings *ret_kept, struct hf_error *error);

/* Room behind the last one, for so many more; false without memory. */
bool catalog_room_live(struct catalog *catalog, size_t more);
bool catalog_room_graves(struct catalog *catalog, size_t more);
bool catalog_room_removals(struct catalog *catalog, size_t more);
bool catalog_room_references(struct catalog *catalog, size_t more);
bool catalog_room_writers(struct catalog *catalog, size_t more);
bool catalog_room_moved_file_ids(struct catalog *catalog, size_t more);

/* ---- Parts --------------------------------------------------------------------------- */

/* What a part counts in live_bytes and dead_bytes: about what it takes in the document. */
size_t chunk_bytes(const struct chunk *chunk);
size_t grave_bytes(const struct grave *grave);
size_t removal_bytes(const struct removal *removal);

/* Of both indexes: so many keys, each with the identity of a file; false without memory. */
bool catalog_reserve_keys(struct catalog *catalog, size_t more);

/* These need room, give the serial number, count, and enter the keys into the index, and the
 * identities of files into theirs. */
void catalog_push_live(struct catalog *catalog, const struct chunk *chunk);
void catalog_push_grave(struct catalog *catalog, const struct grave *grave);
void catalog_push_removal(struct catalog *catalog, const struct removal *removal);
void catalog_push_reference(struct catalog *catalog, struct view key, unsigned child);
void catalog_push_moved_file(struct catalog *catalog, struct view file_id);

/* The file is not known any more by what has this serial number. */
void catalog_forget_file(struct catalog *catalog, struct view file_id, uint64_t serial);

/* These take out what is marked as leaving; the index is not touched. */
void catalog_sweep_live(struct catalog *catalog);
void catalog_sweep_graves(struct catalog *catalog);
void catalog_sweep_removals(struct catalog *catalog);

/* By serial number; NULL when there is none. */
struct chunk *catalog_live_of(const struct catalog *catalog, uint64_t serial);
struct grave *catalog_grave_of(const struct catalog *catalog, uint64_t serial);
struct removal *catalog_removal_of(const struct catalog *catalog, uint64_t serial);
struct chunk *catalog_live_by_key(const struct catalog *catalog, struct view key);

/* Where a writer stands in the state vector, or would. */
size_t writer_place(const struct writer *writers, size_t count, struct view name);

/* Whether every live chunk's number is one that its writer was given, or the rest of them. */
bool catalog_sequences_hold(const struct catalog *catalog);

/* ---- Encoding of parts (catalog_entry.c) --------------------------------------------- */

/* A larger entry is not ours: one of CHUNK_BYTES_MAX may have got a quarantine. */
#define CHUNK_BYTES_READ_MAX (2 * CHUNK_BYTES_MAX)
#define CHUNK_TRIES_MAX      1000000
#define CHUNK_MS_MAX         (INT64_C(1) << 53)
#define CHUNK_NUMBER_MAX     ((uint64_t)INT64_MAX)
#define CATALOG_DEPTH_MAX    64

/* Of live, dead and moved together in a document that is read. */
#define CATALOG_KEYS_READ_MAX ((size_t)256 * 1024)

/* INVALID when it could not stand in a catalog. */
enum hf_status chunk_check(const struct chunk *chunk, struct hf_error *error);

/* Sets `raw`, and moves texts that are not the catalog's into its memory. INVALID when it is
 * too long. */
enum hf_status chunk_keep(struct catalog *catalog, struct chunk *chunk, struct hf_error *error);
/* The same when all texts are the catalog's already; UNAVAILABLE without memory. */
enum hf_status chunk_seal(struct catalog *catalog, struct chunk *chunk, size_t bytes_max,
                          struct hf_error *error);

void grave_write(const struct grave *grave, struct buffer *text);
void removal_write(const struct removal *removal, struct buffer *text);

/* What decoding a part needs. */
struct part_reader {
    struct json_reader json;
    struct catalog *catalog;
    struct mono_time arrived;
    struct chunk *chunks; /* of the grave that is read; grows */
    size_t chunk_room;
    struct view *keys; /* of the removal that is read; grows */
    size_t key_room;
    size_t key_count; /* of all that was read, identities of files included */
    bool no_memory;
};

bool part_no_memory(struct part_reader *reader);
bool file_id_read(struct part_reader *reader, struct view *ret_file_id);
bool chunk_read(struct part_reader *reader, struct chunk *ret_chunk);
bool grave_read(struct part_reader *reader, struct grave *ret_grave);
bool removal_read(struct part_reader *reader, struct removal *ret_removal);

/* A member that is not known: kept behind the others as ,"name":value. */
bool member_keep(struct json_reader *reader, struct view name, struct buffer *unknown);

/* ---- Transitions --------------------------------------------------------------------- */

enum hf_status catalog_apply_add(struct catalog *catalog, struct catalog_op *op,
                                 const struct evidence *evidence);
enum hf_status catalog_apply_commit(struct catalog *catalog, struct catalog_op *op,
                                    const struct evidence *evidence);
enum hf_status catalog_apply_condemn(struct catalog *catalog, struct catalog_op *op,
                                     const struct evidence *evidence);
enum hf_status catalog_apply_quarantine(struct catalog *catalog, struct catalog_op *op,
                                        const struct evidence *evidence);
enum hf_status catalog_apply_retire(struct catalog *catalog, struct catalog_op *op,
                                    const struct evidence *evidence);
enum hf_status catalog_apply_tend(struct catalog *catalog, struct catalog_op *op,
                                  const struct evidence *evidence);
enum hf_status catalog_apply_undelete(struct catalog *catalog, struct catalog_op *op,
                                      const struct evidence *evidence);
enum hf_status catalog_apply_split(struct catalog *catalog, struct catalog_op *op,
                                   const struct evidence *evidence);
enum hf_status catalog_apply_set(struct catalog *catalog, struct catalog_op *op,
                                 const struct evidence *evidence);

/* EXPIRED when a name was drawn too long ago to come into a catalog. */
enum hf_status catalog_name_age(const struct catalog *catalog, struct catalog_op *op,
                                const struct evidence *evidence);

/* INVALID for a key that is none, or of another home. */
enum hf_status catalog_check_key(const struct catalog *catalog, struct view key,
                                 struct hf_error *error);

/* INVALID when a key is asked for twice. */
enum hf_status catalog_check_twice(const struct view *keys, size_t count,
                                   struct hf_error *error);

/* A grave of now. */
struct grave catalog_new_grave(const struct evidence *evidence, struct view into,
                               struct chunk *chunks, size_t count);

/* `target`: what cascade_target was before; sets `due` when there came to be one. */
unsigned catalog_cascade(const struct catalog *catalog);
void catalog_set_due(struct catalog *catalog, unsigned target, const struct evidence *evidence);

/* An entry came to stand at this level: it counts towards the next one. */
void catalog_count_entry(struct catalog *catalog, unsigned level);

/* A reason for people, as it is kept: text, of bounded size, never empty. */
struct reason {
    char text[REASON_BYTES_MAX];
    size_t size;
};
struct reason reason_make(unsigned tries, struct view why);

/* Live chunks as they will be, to be put in their places once nothing can fail any more. */
struct blamed {
    struct chunk *chunks;
    size_t count;
};

/* Prepares what a condemn counts against its sources. Frees nothing: `chunks` is the caller's to
 * free. */
enum hf_status blame_prepare(struct catalog *catalog, struct catalog_op *op,
                             const struct evidence *evidence, struct blamed *blamed);
void blame_apply(struct catalog *catalog, const struct blamed *blamed);

/* Takes one chunk out of a grave that has it, and marks the grave as leaving when it was the
 * last. The index is not touched. */
void catalog_exhume(struct catalog *catalog, struct grave *grave, struct view key);

#endif
