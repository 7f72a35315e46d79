/* shelf.h: the catalogs of a bucket as documents: a partition and, once it was split, the tree
 * of its children.
 *
 * A partition starts as one catalog. When that is full, CATALOG_CHILDREN new ones are written
 * under random partition ids, with *absent*, each with its part of the live entries; then one
 * swap of the parent puts references in the place of the entries. Until then the children mean
 * nothing; what a split that came to nothing left is found by fsck. A name stays where its key
 * says for ever: the parent answers for it (it moved), the child has it. */
#ifndef COMPACT_SHELF_H
#define COMPACT_SHELF_H

#include "base/layout.h"
#include "compact/catalog.h"
#include "doc/doc.h"
#include "lock/client.h"

#define SHELF_CATALOGS_MAX 4096 /* of one partition */
#define SHELF_DEPTH_MAX    3    /* 585 catalogs, two million live chunks */
#define SHELF_SPLIT_TRIES  16

/* Where a catalog sends new chunks. Once it has children it always will. */
struct slot_route {
    bool known; /* we have seen the catalog */
    size_t child_count;
    enum split_by split_by;
    char children[CATALOG_CHILDREN][PARTITION_BYTES_MAX + 1];
    char parent[PARTITION_BYTES_MAX + 1]; /* empty: none */
};

/* One catalog as we know it. */
struct slot {
    struct shelf *shelf;
    struct doc *doc;
    char partition[PARTITION_BYTES_MAX + 1];
    struct slot_route route; /* as last seen; guarded by the shelf's mutex */
};

/* One partition with its children. Its calls are for any task. */
struct shelf {
    struct env *env;
    struct store *store;
    struct hf_client *client; /* for leases and pins; its clock is ours */
    char partition[PARTITION_BYTES_MAX + 1];
    struct env_mutex mutex; /* guards what follows */
    struct map slots;       /* of struct slot, by partition */
    struct doc *jobs;       /* jobs.h; NULL until it is used */
};

/* Asks nothing of the store. */
enum hf_status shelf_open(struct store *store, struct hf_client *client, struct view partition,
                          struct shelf **ret_shelf, struct hf_error *error);
void shelf_close(struct shelf *shelf);

/* Makes the catalog. CONFLICT when there is one with other settings; OK when they are the
 * same. */
enum hf_status shelf_create(struct shelf *shelf, const struct compact_settings *settings,
                            struct hf_error *error);

/* The slot of a catalog, the partition's own or one of its children: made when it is new to
 * us. */
enum hf_status shelf_slot(struct shelf *shelf, struct view partition, struct slot **ret_slot,
                          struct hf_error *error);

/* Shows a catalog as it is in the store now. NOT_FOUND "there is no catalog ...; make one with
 * compact create". The look must not ask the shelf. */
typedef void slot_look(void *argument, const struct catalog *catalog,
                       const struct evidence *evidence);
enum hf_status slot_show(struct slot *slot, slot_look *look, void *argument,
                         struct hf_error *error);

/* Applies an operation. A deadline of zero: SHELF_PATIENCE from now. OK, the operation's
 * refusal, NOT_FOUND where there is no catalog, UNSURE, TIMEOUT or why the store cannot. CORRUPT
 * names the object, which is left as it is. op->error is set. After OK, or a refusal, what it
 * answered holds. */
#define SHELF_PATIENCE SPAN_S(60)
enum hf_status slot_apply(struct slot *slot, struct catalog_op *op, struct mono_time deadline);

/* Calls `visit` for each catalog of the partition, parents before children; anything but OK
 * ends the walk, and is what it returns. One that cannot be read (corrupt, of a later version,
 * a child that is missing) is visited too, with its slot, `catalog` NULL and the reason, so that
 * the rest goes on; a store that does not answer ends it. NOT_FOUND when there is no catalog at
 * all. The catalog lives for the call only, and visit must not ask the shelf. One conditional
 * get for each catalog, one after the other. */
typedef enum hf_status shelf_visit(void *argument, struct slot *slot,
                                   const struct catalog *catalog,
                                   const struct evidence *evidence, const struct hf_error *why);
enum hf_status shelf_walk(struct shelf *shelf, shelf_visit *visit, void *argument,
                          struct hf_error *error);

/* The same, with a call behind each visit, which may ask the shelf; anything but OK ends the
 * walk. */
typedef enum hf_status shelf_between(void *argument, struct slot *slot);
enum hf_status shelf_walk_slowly(struct shelf *shelf, shelf_visit *visit,
                                 shelf_between *between, void *argument,
                                 struct hf_error *error);

/* Splits a catalog, full or not; OK also when somebody else has. UNSURE: the swap of the parent
 * may still land; ask again. UNAVAILABLE: it is as it was. */
enum hf_status slot_split(struct slot *slot, struct hf_error *error);

/* The catalog that a new chunk of this time belongs to, so that it can be named after it; where
 * one hour has too much for one catalog, the seed (any bytes) spreads them. By what we last saw
 * of the tree: when somebody has split that catalog since, adding to it is refused with
 * MISMATCH, and from then on this answers with a child. The chunk must then be put anew under
 * another name, and its old key condemned. */
enum hf_status shelf_home(struct shelf *shelf, struct view key_seed, int64_t min_ms,
                          char ret_partition[PARTITION_BYTES_MAX + 1], struct hf_error *error);

/* Which of these files were added to a catalog above this one before it was split. Since such a
 * catalog comes to know no more of them, and this one looks for itself when they are added to it,
 * each file is added once, if it is always led to the same catalog: shelf_home is to be asked with
 * what the file alone decides. `known` is the caller's; those that are known are set. One get for
 * each catalog above. */
enum hf_status slot_files_above(struct slot *slot, const struct view *file_ids, size_t count,
                                bool *known, struct hf_error *error);

/* A new key: data/<partition>/L<level>/<yyyy>/<mm>/<32 random digits>.<format>[.gz|.zst]; year
 * and month of `ms`. ret_drawn: when, on the boot-time clock. */
enum hf_status chunk_key_draw(struct env *env, struct view partition, unsigned level,
                              int64_t ms, const struct compact_settings *settings,
                              char ret_key[KEY_BYTES_MAX + 1], struct mono_time *ret_drawn,
                              struct hf_error *error);

/* Pause and resume: an object. `why` and `by` are for people. */
enum hf_status shelf_pause(struct shelf *shelf, struct view why, struct view by,
                           struct hf_error *error);
enum hf_status shelf_resume(struct shelf *shelf, struct hf_error *error);
enum hf_status shelf_is_paused(struct shelf *shelf, bool *ret_paused, char ret_why[HF_WHY_MAX],
                               struct hf_error *error);

#endif
