/* fsck_inside.h: what the files of fsck have in common.
 *
 * Everything moves while fsck looks. So the first look only gathers suspects; each is looked at
 * again before it is told, in the order in which the bucket itself changes:
 *
 *   an object that should be there   the object first, *then* its catalog: it leaves the catalog
 *                                    before it is deleted
 *   one that should not be there     its catalog first, *then* the object: it is deleted before
 *                                    the catalog forgets it */
#ifndef COMPACT_FSCK_INSIDE_H
#define COMPACT_FSCK_INSIDE_H

#include "base/arena.h"
#include "base/map.h"
#include "compact/fsck.h"

/* A request that the store does not answer is made so often. */
#define FSCK_TRIES 3

enum fsck_catalog_state {
    FSCK_UNREAD, /* not looked at, or out of what was asked for */
    FSCK_READ,
    FSCK_DAMAGED, /* it is there, and cannot be read: nothing is known of its keys */
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
    bool named;                /* as a child, by one that was read */
    bool missed;               /* another names it, and it is not there */
    bool stray;                /* its parent is there and does not name it: it means nothing */
    bool in_scope;             /* belongs to what was asked for */
    bool has_leases;           /* the listing has a lease table beside it */
    struct wall_time modified; /* by the listing */
    size_t first, count;       /* its names, until they are sorted */
};

/* What one catalog says of one key. A key that was split off stands in two: MOVED in the one, and
 * as what it is in the other, its holder. */
struct fsck_name {
    struct view key;
    struct fsck_catalog *catalog;
    uint64_t size, rows;
    uint64_t found_size; /* in the listing, if it is `seen` there */
    uint32_t crc32c;
    uint8_t state; /* enum chunk_state */
    uint8_t child; /* of MOVED */
    bool rows_known, quarantined;
    bool done; /* of what is deleting: its object was deleted once */
    bool seen;
};

/* A lease that was over and not settled when we looked first. */
struct fsck_lease {
    struct view id;
    struct fsck_catalog *catalog;
    struct fsck_lease *next; /* those of one table follow each other */
    struct view output;      /* by the second look */
    const char *why;
};

struct fsck {
    struct env *env;
    struct store *store;
    struct hf_client *client;
    const struct fsck_options *options;
    struct fsck_report *report;
    struct span age;
    struct view root; /* empty: all of the bucket */
    struct arena arena;
    struct fsck_catalog **catalogs;
    size_t catalog_count, catalog_capacity;
    struct map by_partition;
    struct fsck_name *names;
    size_t name_count, name_capacity;
    struct fsck_lease *leases;
    struct fsck_orphans *orphans; /* fsck_objects.c */
    struct wall_time newest;      /* modified, of all that was listed */
    struct wall_time dated;       /* the store's own date; 0 where it tells none */
    uint64_t chunks_done, chunks_total;
};

/* ---- Telling (fsck.c) ---------------------------------------------------------------- */

/* Counts a finding and tells it. `repair` is what was done or can be. */
void fsck_tell(struct fsck *fsck, enum fsck_kind kind, struct view key, struct view partition,
               const char *why, bool repaired, const char *repair);

/* CANCELLED when the caller wants no more. */
enum hf_status fsck_go_on(struct fsck *fsck, struct hf_error *error);

/* How old an object is at least, by the clock that dated it. */
struct span fsck_age_of(const struct fsck *fsck, struct wall_time modified);

/* The same of what is to be deleted without a transition that makes that safe: only times that
 * the store told are compared. */
struct span fsck_proven_age(const struct fsck *fsck, struct wall_time modified);

/* ---- Looking (fsck_look.c) ----------------------------------------------------------- */

/* Whether it says that a document is there and is none that can be used. */
bool fsck_is_damage(enum hf_status status);

/* Shows the catalog of a partition as it is now: OK, NOT_FOUND, damage, or why the store
 * cannot. */
enum hf_status fsck_show(struct fsck *fsck, struct view partition, slot_look *look,
                         void *argument, struct hf_error *error);

/* Applies an operation to it. */
enum hf_status fsck_apply(struct fsck *fsck, struct view partition, struct catalog_op *op,
                          struct hf_error *error);

/* Where a key is now. */
struct fsck_place {
    enum chunk_state state; /* never MOVED */
    bool hidden;            /* a catalog on the way is missing or damaged: nobody knows */
    bool homeless;          /* there is no catalog to begin with */
    bool moved;             /* it was followed through references */
    char partition[PARTITION_BYTES_MAX + 1];
    /* Of live ones: what it should be. */
    uint64_t size, rows;
    uint32_t crc32c;
    bool rows_known, quarantined;
    bool done; /* of deleting ones */
};

/* Follows a key from this catalog through the references that splits left. OK whatever is
 * found, or why the store cannot. */
enum hf_status fsck_follow(struct fsck *fsck, struct view partition, struct view key,
                           struct fsck_place *ret_place, struct hf_error *error);

/* Whether an object is there now, and what the store says of it (ret_info may be NULL). */
enum hf_status fsck_object(struct fsck *fsck, struct view key, bool *ret_there,
                           struct object_info *ret_info, struct hf_error *error);

/* Calls `each` for all objects of a prefix, page by page. */
typedef enum hf_status fsck_each(struct fsck *fsck, const struct list_entry *entry,
                                 struct hf_error *error);
enum hf_status fsck_list(struct fsck *fsck, struct view prefix, fsck_each *each,
                         struct hf_error *error);

/* Deletes an object, if it is still the one of this ETag where the store can see to that. */
enum hf_status fsck_delete(struct fsck *fsck, struct view key, const struct etag *etag,
                           struct hf_error *error);

/* ---- The parts ----------------------------------------------------------------------- */

/* fsck_catalogs.c: finds and reads all catalogs of what was asked for, tells what is wrong with
 * their tree, and leaves all their names, sorted, each key's holders first. */
enum hf_status fsck_catalogs(struct fsck *fsck, struct hf_error *error);
struct fsck_catalog *fsck_find(const struct fsck *fsck, struct view partition);

/* Whether none is damaged or missed. Else something may be known that nobody can tell us of, even
 * where it does not belong: so nothing is thrown away. */
bool fsck_all_can_be_read(const struct fsck *fsck);

/* The first name of a key, or NULL. Its others follow. */
struct fsck_name *fsck_name(const struct fsck *fsck, struct view key);

/* fsck_names.c: keys that two catalogs have, or one that must not. */
enum hf_status fsck_names(struct fsck *fsck, struct hf_error *error);

/* fsck_objects.c: the listing of data/ beside the names: what is not known, and what should be
 * gone. */
enum hf_status fsck_objects(struct fsck *fsck, struct hf_error *error);

/* fsck_chunks.c: each chunk that should be there: whether it is, and what is in it. */
enum hf_status fsck_chunks(struct fsck *fsck, struct hf_error *error);

/* fsck_leases.c: the lease tables, looked at once at the beginning and once at the end. */
enum hf_status fsck_leases_first(struct fsck *fsck, struct hf_error *error);
enum hf_status fsck_leases_again(struct fsck *fsck, struct hf_error *error);

/* Which of these keys a lease that is not settled names as its output: such a key has somebody
 * who answers for it. A table that cannot be read names none. */
enum hf_status fsck_claimed(struct fsck *fsck, struct view partition, const struct view *keys,
                            size_t count, bool *ret_claimed, struct hf_error *error);

#endif
