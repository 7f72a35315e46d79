/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_tree.h: the catalogs of a partition as documents: one catalog or, after a split, a tree.
 *
 * When a catalog is full, CATALOG_CHILDREN new catalogs are put under random partition ids, with
 * *absent*, each with its share of the live entries. Then one swap of the parent replaces the
 * entries with references. Until that swap the children have no effect; fsck finds the children of
 * a failed split. The home of a name never changes: the parent records that the name moved, and the
 * child has its entry. */
#ifndef COMPACT_CATALOG_CATALOG_TREE_H
#define COMPACT_CATALOG_CATALOG_TREE_H

#include "base/layout.h"
#include "base/map.h"
#include "compact/catalog/catalog.h"
#include "doc/doc.h"
#include "lock/client.h"

#define CATALOG_TREE_CATALOGS_MAX 4096 /* of one partition */
#define CATALOG_TREE_DEPTH_MAX    3    /* 585 catalogs, two million live chunks */
#define CATALOG_TREE_SPLIT_TRIES  16

/* Where a catalog routes new chunks. Once a catalog has children, it keeps them. */
struct catalog_route {
    bool known; /* the catalog was read once */
    size_t child_count;
    enum split_by split_by;
    char children[CATALOG_CHILDREN][PARTITION_BYTES_MAX + 1];
    char parent[PARTITION_BYTES_MAX + 1]; /* empty: none */
};

/* One catalog. */
struct catalog_ref {
    struct catalog_tree *tree;
    struct doc *doc;
    char partition[PARTITION_BYTES_MAX + 1];
    struct catalog_route route; /* as last read; guarded by the catalog tree's mutex */
};

/* A partition with its children. Any task may call its functions. */
struct catalog_tree {
    struct env *env;
    struct store *store;
    struct hf_client *client; /* for leases and pins; its clock is ours */
    char partition[PARTITION_BYTES_MAX + 1];
    struct env_mutex mutex; /* guards what follows */
    struct map refs;        /* of struct catalog_ref, by partition */
    struct doc *jobs;       /* jobs.h; NULL until it is used */
};

/* Sends no request. */
enum hf_status catalog_tree_open(struct store *store, struct hf_client *client,
                                 struct view partition, struct catalog_tree **ret_tree,
                                 struct hf_error *error);
void catalog_tree_close(struct catalog_tree *tree);

/* Creates the catalog. CONFLICT: a catalog with other settings exists, or there are chunks whose
 * catalog is missing. Also returns OK if a catalog with equal settings exists. */
enum hf_status catalog_tree_create(struct catalog_tree *tree,
                                   const struct compact_settings *settings,
                                   struct hf_error *error);

/* The reference to a catalog, the partition's own or a child's; created on first use. */
enum hf_status catalog_tree_ref(struct catalog_tree *tree, struct view partition,
                                struct catalog_ref **ret_ref, struct hf_error *error);

/* Passes the catalog that is currently in the store to `look`, which may be NULL and must not call
 * the catalog tree. NOT_FOUND: there is no catalog. */
typedef void catalog_ref_look(void *argument, const struct catalog *catalog,
                              const struct evidence *evidence);
enum hf_status catalog_ref_show(struct catalog_ref *ref, catalog_ref_look *look, void *argument,
                                struct hf_error *error);

/* Applies an operation, and sets op->error. A zero deadline means CATALOG_TREE_PATIENCE from now.
 * Returns OK, the operation's refusal, NOT_FOUND if there is no catalog, UNSURE, TIMEOUT, or the
 * store's error. CORRUPT: the error names the object, which is left unchanged. After OK or a
 * refusal, the results in `op` are valid. */
#define CATALOG_TREE_PATIENCE SPAN_S(60)
enum hf_status catalog_ref_apply(struct catalog_ref *ref, struct catalog_op *op,
                                 struct mono_time deadline);

/* The key of the catalog's document, and its ETag as last read or written; false: unknown. */
struct view catalog_ref_key(const struct catalog_ref *ref);
bool catalog_ref_etag(struct catalog_ref *ref, struct etag *ret_etag);

/* Calls `visit` for each catalog of the partition, parents first. If `visit` returns any status
 * other than OK, the walk ends with that status. For a catalog that cannot be read (corrupt, newer
 * version, missing child), `catalog` is NULL and `why` is the reason; the others are still visited.
 * A store that does not answer ends the walk. NOT_FOUND: there is no catalog at all. The catalog is
 * valid only during the call, and `visit` must not call the catalog tree. Costs one conditional get
 * per catalog, one after another. */
typedef enum hf_status catalog_tree_visit(void *argument, struct catalog_ref *ref,
                                          const struct catalog *catalog,
                                          const struct evidence *evidence,
                                          const struct hf_error *why);
enum hf_status catalog_tree_walk(struct catalog_tree *tree, catalog_tree_visit *visit,
                                 void *argument, struct hf_error *error);

/* The same, but calls `between` after each visit. `between` may use the catalog tree; if it does
 * not return OK, the walk ends. */
typedef enum hf_status catalog_tree_between(void *argument, struct catalog_ref *ref);
enum hf_status catalog_tree_walk_slowly(struct catalog_tree *tree, catalog_tree_visit *visit,
                                        catalog_tree_between *between, void *argument,
                                        struct hf_error *error);

/* Splits a catalog, full or not. Also returns OK if another client has split it. UNSURE: the
 * parent's swap may still take effect; call again. UNAVAILABLE: nothing changed. */
enum hf_status catalog_ref_split(struct catalog_ref *ref, struct hf_error *error);

/* The catalog for a new chunk with this timestamp; the chunk's name will contain the catalog's
 * partition. If one hour has too many chunks for a catalog, the seed (any bytes) spreads them. Uses
 * the tree as last read: if that catalog has been split since then, the add is refused with
 * MISMATCH, and the next call returns a child. Then put the chunk under a new name and condemn the
 * old one. */
enum hf_status catalog_tree_home(struct catalog_tree *tree, struct view key_seed,
                                 int64_t min_ms, char ret_partition[PARTITION_BYTES_MAX + 1],
                                 struct hf_error *error);

/* Which of these files were added to an ancestor of this catalog before that ancestor was split. No
 * files are added to an ancestor any more, and an add to this catalog checks the catalog's own
 * files. So each file is added once, provided that it is always routed to the same catalog: call
 * catalog_tree_home with values that depend on the file alone. Sets known[i] for known files. Costs
 * one get per ancestor. */
enum hf_status catalog_ref_files_above(struct catalog_ref *ref, const struct view *file_ids,
                                       size_t count, bool *known, struct hf_error *error);

/* Generates a new key: data/<partition>/L<level>/<yyyy>/<mm>/<32 random
 * digits>.<format>[.gz|.zst], with the year and month of `ms`. ret_drawn: when it was generated, on
 * the boot-time clock. */
struct chunk_key_parts {
    struct view partition;
    unsigned level;
    int64_t ms;
    const struct compact_settings *settings;
};
enum hf_status chunk_key_draw(struct env *env, const struct chunk_key_parts *parts,
                              char ret_key[KEY_BYTES_MAX + 1], struct mono_time *ret_drawn,
                              struct hf_error *error);

/* Pauses and resumes compaction by means of an object. `why` and `by` are for people. */
enum hf_status catalog_tree_pause(struct catalog_tree *tree, struct view why, struct view by,
                                  struct hf_error *error);
enum hf_status catalog_tree_resume(struct catalog_tree *tree, struct hf_error *error);
enum hf_status catalog_tree_is_paused(struct catalog_tree *tree, bool *ret_paused,
                                      char ret_why[HF_WHY_MAX], struct hf_error *error);

#endif
