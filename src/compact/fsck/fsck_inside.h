/* SPDX-License-Identifier: Apache-2.0 */
/* fsck_inside.h: what the files of fsck share.
 *
 * The bucket changes while fsck reads it, so the first pass only collects suspects. Each suspect is
 * checked again before it is reported, in an order that rules out false findings:
 *   an object that should exist      the object first, *then* its catalog: a chunk leaves the
 *                                    catalog before its object is deleted
 *   an object that should not exist  its catalog first, *then* the object: an object is deleted
 *                                    before the catalog drops its name */
#ifndef COMPACT_FSCK_FSCK_INSIDE_H
#define COMPACT_FSCK_FSCK_INSIDE_H

#include "base/arena.h"
#include "base/map.h"
#include "compact/fsck/fsck.h"

/* How many times an unanswered request is sent. */
#define FSCK_TRIES 3

enum fsck_catalog_state {
    FSCK_UNREAD, /* not read, or out of scope */
    FSCK_READ,
    FSCK_DAMAGED, /* exists but cannot be read: its keys are unknown */
    FSCK_ABSENT,
};

struct fsck_catalog {
    struct view partition;
    struct view parent;
    struct view children[CATALOG_CHILDREN];
    size_t child_count;
    struct compact_settings settings;
    enum fsck_catalog_state state;
    bool listed;               /* in the listing of metadata/ */
    bool named;                /* as a child, by a catalog that was read */
    bool missed;               /* another catalog names it, and it is missing */
    bool stray;                /* its parent exists but does not name it, so it is not in use */
    bool in_scope;             /* belongs to the bucket or partition being checked */
    bool has_leases;           /* its lease table is in the listing */
    bool is_dropping;          /* its children may have been removed already */
    struct stamp marked;       /* as a stray, by an earlier fsck */
    struct wall_time modified; /* according to the listing */
    size_t first, count;       /* its names, until they are sorted */
};

/* The entry of one key in one catalog. A moved key is in two catalogs: as MOVED in its home, and
 * with its state in the catalog that has its entry now, its holder. */
struct fsck_name {
    struct view key;
    struct fsck_catalog *catalog;
    uint64_t size, rows;
    uint64_t found_size; /* in the listing, if it is `seen` there */
    uint32_t crc32c;
    uint8_t state; /* enum chunk_state */
    uint8_t child; /* for MOVED */
    bool rows_known, quarantined;
    bool done; /* deleting: its object was deleted once */
    bool seen;
    struct view object, etag; /* of an adopted chunk that is live or a tombstone */
};

/* A lease that had ended but was unsettled at the first read. */
struct fsck_lease {
    struct view id;
    struct fsck_catalog *catalog;
    struct fsck_lease *next; /* leases of one table are adjacent */
    struct view output;      /* from the second read */
    const char *why;
};

struct fsck {
    struct env *env;
    struct store *store;
    struct hf_client *client;
    const struct fsck_options *options;
    struct hf_fsck_report *report;
    struct span age;
    struct view root; /* empty: the whole bucket */
    struct arena arena;
    struct fsck_catalog **catalogs;
    size_t catalog_count, catalog_capacity;
    struct map by_partition;
    struct fsck_name *names;
    size_t name_count, name_capacity;
    struct fsck_lease *leases;
    struct fsck_orphans *orphans; /* fsck_objects.c */
    struct wall_time newest;      /* latest modification time in the listing */
    struct wall_time dated;       /* the store's own date; 0 if it gives none */
    uint64_t chunks_done, chunks_total;
};

/* ---- Reporting (fsck.c) -------------------------------------------------------------- */

/* What was done about a finding or, if nothing was, what can be done. */
struct fsck_repair {
    const char *text;
    bool done;
};
#define FSCK_BY_REPAIR \
    "'holdfast compact fsck --repair'" /* for advice about what it can repair */
static inline struct fsck_repair fsck_advice(const char *text)
{
    return (struct fsck_repair){ .text = text };
}

/* Counts and reports a finding. */
void fsck_report_finding(struct fsck *fsck, enum hf_fsck_kind kind, struct view key,
                         struct view partition, const char *why, struct fsck_repair repair);

/* CANCELLED if the caller stops the check. */
enum hf_status fsck_go_on(struct fsck *fsck, struct hf_error *error);

/* The minimum age of an object, by the clock that dated it. */
struct span fsck_age_of(const struct fsck *fsck, struct wall_time modified);

/* The same for an object that is deleted without a transition that would make the deletion safe.
 * Only the store's own times are compared; 0 if the store gives none. */
struct span fsck_proven_age(const struct fsck *fsck, struct wall_time modified);

/* ---- Looking (fsck_look.c) ----------------------------------------------------------- */

/* Whether the status means that a document exists but cannot be used. */
bool fsck_is_damage(enum hf_status status);

/* Passes the current catalog of a partition to `look`. Returns OK, NOT_FOUND, damage, or the
 * store's error. */
enum hf_status fsck_show(struct fsck *fsck, struct view partition, catalog_ref_look *look,
                         void *argument, struct hf_error *error);

/* Applies an operation to it. */
enum hf_status fsck_apply(struct fsck *fsck, struct view partition, struct catalog_op *op,
                          struct hf_error *error);

/* The current state and catalog of a key. */
struct fsck_place {
    enum chunk_state state; /* never MOVED */
    bool hidden;            /* a catalog on the way is missing or damaged: the state is
                             * unknown */
    bool homeless;          /* its home has no catalog */
    bool moved;             /* found through references */
    char partition[PARTITION_BYTES_MAX + 1];
    /* For a live chunk: its recorded size, rows and checksum. */
    uint64_t size, rows;
    uint32_t crc32c;
    bool rows_known, quarantined;
    bool done; /* for deleting keys */
};

/* Follows a key from this catalog through the references that splits left. Returns OK, regardless
 * of what it finds, or the store's error. */
enum hf_status fsck_follow(struct fsck *fsck, struct view partition, struct view key,
                           struct fsck_place *ret_place, struct hf_error *error);

/* Whether an object exists now, and the store's information about it (ret_info may be NULL). */
enum hf_status fsck_object(struct fsck *fsck, struct view key, bool *ret_there,
                           struct object_info *ret_info, struct hf_error *error);

/* Calls `each` for all objects of a prefix, page by page. */
typedef enum hf_status fsck_each(struct fsck *fsck, const struct list_entry *entry,
                                 struct hf_error *error);
enum hf_status fsck_list(struct fsck *fsck, struct view prefix, fsck_each *each,
                         struct hf_error *error);

/* Deletes an object. If the store supports conditional deletes, the object is deleted only if it
 * still has this ETag (may be NULL). */
enum hf_status fsck_delete(struct fsck *fsck, struct view key, const struct etag *etag,
                           struct hf_error *error);

/* ---- The parts ----------------------------------------------------------------------- */

/* fsck_catalogs.c: reads all catalogs in scope, reports faults in their trees, and sorts all names,
 * with the holder of each key first. */
enum hf_status fsck_catalogs(struct fsck *fsck, struct hf_error *error);
struct fsck_catalog *fsck_find(const struct fsck *fsck, struct view partition);

/* Whether no catalog is damaged or missing. Otherwise the unread catalog may name any object, so
 * nothing is deleted. */
bool fsck_all_can_be_read(const struct fsck *fsck);

/* The first name of a key, or NULL. Its other names follow. */
struct fsck_name *fsck_name(const struct fsck *fsck, struct view key);

/* fsck_names.c: finds keys that are in two catalogs, or in the wrong one. */
enum hf_status fsck_names(struct fsck *fsck, struct hf_error *error);

/* fsck_objects.c: compares the listing of data/ with the names, and finds unknown objects and
 * objects that should be gone. */
enum hf_status fsck_objects(struct fsck *fsck, struct hf_error *error);

/* fsck_chunks.c: checks whether the object of each chunk exists, and its contents. */
enum hf_status fsck_chunks(struct fsck *fsck, struct hf_error *error);

/* fsck_leases.c: checks the lease tables, which are read once before the objects and once at the
 * end. */
/* Checks the list of paths whose objects partitions have adopted. */
enum hf_status fsck_adopted(struct fsck *fsck, struct hf_error *error);

enum hf_status fsck_leases_first(struct fsck *fsck, struct hf_error *error);
enum hf_status fsck_leases_again(struct fsck *fsck, struct hf_error *error);

/* Which of these keys are outputs of unsettled leases. Such keys are not orphans. An unreadable
 * table names no outputs. */
enum hf_status fsck_claimed(struct fsck *fsck, struct view partition, const struct view *keys,
                            size_t count, bool *ret_claimed, struct hf_error *error);

#endif
