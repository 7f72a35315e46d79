/* SPDX-License-Identifier: Apache-2.0 */
/* fsck_catalogs.c: reads all catalogs of a bucket or partition and checks that they form trees.
 * Catalogs are found in the listing of metadata/ and as children of others. A catalog that is named
 * but not listed is missing. A catalog that is listed but not named is a root or a stray. A stray
 * is a child of a split that never swapped the parent. */
#include "base/check.h"
#include "compact/fsck/fsck_inside.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Known catalogs ------------------------------------------------------------------ */

struct fsck_catalog *fsck_find(const struct fsck *fsck, struct view partition)
{
    return map_get(&fsck->by_partition, partition);
}

/* Finds or adds the catalog of a partition. */
static enum hf_status take_catalog(struct fsck *fsck, struct view partition,
                                   struct fsck_catalog **ret_catalog, struct hf_error *error)
{
    struct fsck_catalog *catalog = fsck_find(fsck, partition);
    void *old;
    if (catalog) {
        *ret_catalog = catalog;
        return HF_OK;
    }
    if (fsck->catalog_count >= FSCK_CATALOGS_MAX)
        return error_set(error, HF_UNAVAILABLE,
                         "more than %d catalogs: check one partition at a time",
                         FSCK_CATALOGS_MAX);
    if (fsck->catalog_count == fsck->catalog_capacity) {
        size_t capacity = fsck->catalog_capacity ? 2 * fsck->catalog_capacity : 16;
        void *grown = realloc(fsck->catalogs, capacity * sizeof *fsck->catalogs);
        if (!grown)
            return error_no_memory(error);
        fsck->catalogs = grown;
        fsck->catalog_capacity = capacity;
    }
    catalog = arena_take(&fsck->arena, sizeof *catalog);
    if (!catalog)
        return error_no_memory(error);
    *catalog = (struct fsck_catalog){ .partition = arena_copy(&fsck->arena, partition) };
    if (!catalog->partition.data ||
        !map_put(&fsck->by_partition, catalog->partition, catalog, &old))
        return error_no_memory(error);
    fsck->catalogs[fsck->catalog_count++] = catalog;
    *ret_catalog = catalog;
    return HF_OK;
}

/* Notes an object in metadata/, which may be a catalog, a lease table, or something else. */
static enum hf_status note_listed(struct fsck *fsck, const struct list_entry *entry,
                                  struct hf_error *error)
{
    struct view leaf = view_from(entry->key, strlen(LAYOUT_CHUNK_FOLDER));
    struct view partition = VIEW(LAYOUT_PARTITION_DEFAULT);
    if (view_find(leaf, '/') < leaf.size) {
        partition = view_cut(&leaf, '/');
        if (view_equal(partition, VIEW(LAYOUT_PARTITION_DEFAULT)))
            return HF_OK; /* its documents are elsewhere */
    }
    bool is_catalog = view_equal(leaf, VIEW(LAYOUT_CATALOG));
    bool is_leases = view_equal(leaf, VIEW(LAYOUT_LEASES));
    if ((!is_catalog && !is_leases) || !layout_partition_valid(partition))
        return HF_OK;
    struct fsck_catalog *catalog;
    enum hf_status status = take_catalog(fsck, partition, &catalog, error);
    if (status != HF_OK)
        return status;
    catalog->has_leases |= is_leases;
    if (is_catalog) {
        catalog->listed = true;
        catalog->modified = entry->info.modified;
    }
    return HF_OK;
}

/* ---- Reading one --------------------------------------------------------------------- */

struct reading {
    struct fsck *fsck;
    struct fsck_catalog *catalog;
    bool with_names;
    enum hf_status status;
    struct hf_error error;
};

static bool copy_head(struct fsck *fsck, struct fsck_catalog *ours,
                      const struct catalog *theirs)
{
    ours->settings = theirs->settings;
    ours->child_count = theirs->child_count;
    ours->is_dropping = theirs->is_dropping;
    ours->marked = theirs->stray;
    ours->parent = arena_copy(&fsck->arena, theirs->parent);
    bool copied = ours->parent.data && compact_settings_keep(&ours->settings, &fsck->arena);
    for (size_t i = 0; i < theirs->child_count; i++) {
        ours->children[i] = arena_copy(&fsck->arena, theirs->children[i]);
        copied = copied && ours->children[i].data;
    }
    return copied;
}

static void add_fsck_name(struct reading *reading, struct fsck_name name)
{
    struct fsck *fsck = reading->fsck;
    check(fsck->name_count < fsck->name_capacity);
    name.catalog = reading->catalog;
    name.key = arena_copy(&fsck->arena, name.key);
    bool copied = name.key.data != NULL;
    if (name.object.size > 0) {
        name.object = arena_copy(&fsck->arena, name.object);
        name.etag = arena_copy(&fsck->arena, name.etag);
        copied = copied && name.object.data && name.etag.data;
    }
    if (copied)
        fsck->names[fsck->name_count++] = name;
    else
        reading->status = error_no_memory(&reading->error);
}

static void add_chunks(struct reading *reading, const struct chunk *chunks, size_t count,
                       enum chunk_state state)
{
    for (size_t i = 0; i < count; i++)
        add_fsck_name(reading, (struct fsck_name){
                                   .key = chunks[i].key,
                                   .state = (uint8_t)state,
                                   .size = chunks[i].size,
                                   .rows = chunks[i].rows,
                                   .rows_known = chunks[i].rows_known,
                                   .crc32c = chunks[i].crc32c,
                                   .quarantined = chunks[i].quarantine.size > 0,
                                   .object = chunks[i].object,
                                   .etag = chunks[i].etag,
                               });
}

static void add_names(struct reading *reading, const struct catalog *catalog)
{
    add_chunks(reading, catalog->live, catalog->live_count, CHUNK_LIVE);
    for (size_t i = 0; i < catalog->grave_count; i++)
        add_chunks(reading, catalog->graves[i].chunks, catalog->graves[i].count,
                   CHUNK_TOMBSTONE);
    for (size_t i = 0; i < catalog->removal_count; i++) {
        const struct removal *removal = &catalog->removals[i];
        struct fsck_name name = {
            .state = removal->how == DELETING_RETIRED ? CHUNK_RETIRED : CHUNK_CONDEMNED,
            .done = removal->done,
        };
        for (size_t j = 0; j < removal->count; j++) {
            name.key = removal->keys[j];
            add_fsck_name(reading, name);
        }
    }
    for (size_t i = 0; i < catalog->reference_count; i++)
        add_fsck_name(reading,
                      (struct fsck_name){ .key = catalog->references[i].key,
                                          .state = CHUNK_MOVED,
                                          .child = (uint8_t)catalog->references[i].child });
    /* An output of a divided merge is no orphan, although it is not live yet. */
    for (size_t i = 0; i < catalog->merge_count; i++)
        for (size_t j = 0; j < catalog->merges[i].range_count; j++)
            if (catalog->merges[i].ranges[j].done)
                add_chunks(reading, &catalog->merges[i].ranges[j].target, 1, CHUNK_PENDING);
}

static enum hf_status room_for_names(struct fsck *fsck, size_t more, struct hf_error *error)
{
    size_t wanted = fsck->name_count + more;
    if (wanted > FSCK_NAMES_MAX)
        return error_set(error, HF_UNAVAILABLE,
                         "the catalogs have more than %d keys: check one partition at a time",
                         FSCK_NAMES_MAX);
    if (wanted <= fsck->name_capacity)
        return HF_OK;
    size_t capacity = wanted < FSCK_NAMES_MAX / 2 ? 2 * wanted : FSCK_NAMES_MAX;
    void *grown = realloc(fsck->names, capacity * sizeof *fsck->names);
    if (!grown)
        return error_no_memory(error);
    fsck->names = grown;
    fsck->name_capacity = capacity;
    return HF_OK;
}

static void copy_catalog(void *argument, const struct catalog *catalog,
                         const struct evidence *evidence)
{
    (void)evidence;
    struct reading *reading = argument;
    struct fsck *fsck = reading->fsck;
    size_t names = !reading->with_names
                       ? 0
                       : catalog->live_count + catalog->dead_count + catalog->reference_count +
                             catalog->merge_count * MERGE_RANGES_MAX;
    reading->status = room_for_names(fsck, names, &reading->error);
    if (reading->status != HF_OK)
        return;
    reading->catalog->first = fsck->name_count;
    if (!copy_head(fsck, reading->catalog, catalog))
        reading->status = error_no_memory(&reading->error);
    else if (reading->with_names)
        add_names(reading, catalog);
    reading->catalog->count = fsck->name_count - reading->catalog->first;
}

static void report_bad_catalog(struct fsck *fsck, const struct fsck_catalog *catalog,
                               enum hf_status status, const char *why)
{
    char key[KEY_BYTES_MAX + 1];
    if (layout_partition_key(catalog->partition, LAYOUT_CATALOG, key))
        fsck_report_finding(fsck, HF_FSCK_BAD_CATALOG, view_of(key), catalog->partition, why,
                            fsck_advice(status == HF_UNSUPPORTED
                                            ? "check again with a newer version of holdfast"
                                            : "restore it from a copy; until then no object "
                                              "that it may name is deleted"));
}

/* Reads the current catalog, and adds its unknown children to the list. */
static enum hf_status read_catalog(struct fsck *fsck, struct fsck_catalog *catalog,
                                   bool with_names, struct hf_error *error)
{
    struct reading reading = { .fsck = fsck, .catalog = catalog, .with_names = with_names };
    enum hf_status status = fsck_show(fsck, catalog->partition, copy_catalog, &reading, error);
    /* Nothing is reported after a single read. */
    if (fsck_is_damage(status))
        status = fsck_show(fsck, catalog->partition, copy_catalog, &reading, error);
    catalog->state = status == HF_OK ? FSCK_READ : FSCK_UNREAD;
    if (status == HF_NOT_FOUND) {
        catalog->state = FSCK_ABSENT;
        return error_clear(error);
    }
    if (fsck_is_damage(status)) {
        catalog->state = FSCK_DAMAGED;
        if (with_names)
            report_bad_catalog(fsck, catalog, status, error->why);
        return error_clear(error);
    }
    if (status == HF_OK && reading.status != HF_OK) {
        *error = reading.error;
        status = reading.status;
    }
    if (status != HF_OK)
        return status;
    for (size_t i = 0; i < catalog->child_count; i++) {
        struct fsck_catalog *child = NULL;
        status = take_catalog(fsck, catalog->children[i], &child, error);
        if (status != HF_OK)
            return status;
        check(child);
        child->named = true;
        child->in_scope |= with_names; /* in scope if its parent is */
    }
    return HF_OK;
}

bool fsck_all_can_be_read(const struct fsck *fsck)
{
    for (size_t i = 0; i < fsck->catalog_count; i++)
        if (fsck->catalogs[i]->state == FSCK_DAMAGED ||
            (fsck->catalogs[i]->state == FSCK_ABSENT && fsck->catalogs[i]->missed))
            return false;
    return true;
}

/* ---- Reading all --------------------------------------------------------------------- */

static enum hf_status read_all_in_scope(struct fsck *fsck, struct hf_error *error)
{
    bool found = true;
    while (found) { /* terminates: each round reads some unread catalogs */
        found = false;
        for (size_t i = 0; i < fsck->catalog_count; i++) {
            struct fsck_catalog *catalog = fsck->catalogs[i];
            if (!catalog->in_scope || catalog->state != FSCK_UNREAD)
                continue;
            found = true;
            enum hf_status status = read_catalog(fsck, catalog, /* with_names */ true, error);
            if (status == HF_OK)
                status = fsck_go_on(fsck, error);
            if (status != HF_OK)
                return status;
        }
    }
    return HF_OK;
}

static enum hf_status read_possible_strays(struct fsck *fsck, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    /* Other partitions are read only to learn which catalogs they name. A stray has a random id, so
     * its name does not show which partition it belongs to. A catalog that another partition names
     * is not a stray of ours. */
    for (size_t i = 0; i < fsck->catalog_count; i++) {
        if (!fsck->catalogs[i]->in_scope && fsck->catalogs[i]->listed)
            status = read_catalog(fsck, fsck->catalogs[i], /* with_names */ false, error);
        if (status != HF_OK)
            return status;
    }
    for (size_t i = 0; i < fsck->catalog_count; i++) {
        struct fsck_catalog *catalog = fsck->catalogs[i];
        const struct fsck_catalog *parent = fsck_find(fsck, catalog->parent);
        if (catalog->in_scope || catalog->named || catalog->state != FSCK_READ || !parent ||
            !parent->in_scope)
            continue;
        catalog->in_scope = true;
        status = read_catalog(fsck, catalog, /* with_names */ true, error);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

static enum hf_status read_catalogs(struct fsck *fsck, struct hf_error *error)
{
    struct fsck_catalog *root;
    enum hf_status status = fsck_list(fsck, VIEW(LAYOUT_CHUNK_FOLDER), note_listed, error);
    if (status != HF_OK)
        return status;
    if (fsck->root.size == 0) {
        for (size_t i = 0; i < fsck->catalog_count; i++)
            fsck->catalogs[i]->in_scope = fsck->catalogs[i]->listed;
        return read_all_in_scope(fsck, error);
    }
    status = take_catalog(fsck, fsck->root, &root, error);
    if (status != HF_OK)
        return status;
    root->in_scope = true;
    status = read_all_in_scope(fsck, error);
    if (status == HF_OK && root->state == FSCK_ABSENT)
        return error_set(error, HF_NOT_FOUND, "there is no partition '%.*s'",
                         VIEW_ARGS(fsck->root));
    return status == HF_OK ? read_possible_strays(fsck, error) : status;
}

/* ---- Trees --------------------------------------------------------------------------- */

static bool names_include(const struct view *names, size_t count, struct view name)
{
    for (size_t i = 0; i < count; i++)
        if (view_equal(names[i], name))
            return true;
    return false;
}

/* Whether the current catalog names this child, or this parent. */
struct naming {
    struct view other;
    bool as_child, as_parent;
};

static void check_naming(void *argument, const struct catalog *catalog,
                         const struct evidence *evidence)
{
    (void)evidence;
    struct naming *naming = argument;
    naming->as_parent = view_equal(catalog->parent, naming->other);
    naming->as_child = names_include(catalog->children, catalog->child_count, naming->other);
}

/* `catalog` named `other`, which was missing. Checks whether both are still true. */
static enum hf_status check_missing(struct fsck *fsck, const struct fsck_catalog *catalog,
                                    struct fsck_catalog *other, struct hf_error *error)
{
    struct naming naming = { .other = other->partition };
    char key[KEY_BYTES_MAX + 1], why[HF_WHY_MAX];
    bool there;
    if (!layout_partition_key(other->partition, LAYOUT_CATALOG, key))
        return HF_OK;
    enum hf_status status = fsck_object(fsck, view_of(key), &there, NULL, error);
    if (status != HF_OK || there)
        return status;
    status = fsck_show(fsck, catalog->partition, check_naming, &naming, error);
    if (status != HF_OK)
        return fsck_is_damage(status) || status == HF_NOT_FOUND ? error_clear(error) : status;
    if (!naming.as_child && !naming.as_parent)
        return HF_OK;
    snprintf(why, sizeof why, "%.*s names it as its %s", VIEW_ARGS(catalog->partition),
             naming.as_child ? "child" : "parent");
    fsck_report_finding(
        fsck, HF_FSCK_MISSING_CATALOG, view_of(key), other->partition, why,
        fsck_advice(
            "restore it from a copy; its chunks still exist, but no catalog lists them"));
    other->state = FSCK_ABSENT;
    other->missed = true;
    return HF_OK;
}

static enum hf_status check_named_children(struct fsck *fsck,
                                           const struct fsck_catalog *catalog,
                                           struct hf_error *error)
{
    for (size_t i = 0; i < catalog->child_count; i++) {
        struct fsck_catalog *child = fsck_find(fsck, catalog->children[i]);
        check(child);
        if (child->state == FSCK_ABSENT && !catalog->is_dropping) {
            enum hf_status status = check_missing(fsck, catalog, child, error);
            if (status != HF_OK)
                return status;
        }
        if (child->state == FSCK_READ && !view_equal(child->parent, catalog->partition)) {
            char why[HF_WHY_MAX];
            snprintf(why, sizeof why,
                     "%.*s names it as its child, but it names %.*s as its parent",
                     VIEW_ARGS(catalog->partition), VIEW_ARGS(child->parent));
            report_bad_catalog(fsck, child, HF_CORRUPT, why);
        }
    }
    return HF_OK;
}

/* ---- Strays -------------------------------------------------------------------------- */

/* A stray and the current state of its parent. */
struct stray_check {
    const struct fsck *fsck;
    const struct fsck_catalog *stray;
    bool named;
    bool as_born; /* nothing was ever added, merged or retired in it */
    bool is_old;  /* the swap that would name it can no longer take effect */
};

/* That swap is sent within D/2 of generating the name of the child, and takes effect within D after
 * that. So after 2 D it can no longer take effect. The age of the child must be proven: by the
 * store's own dates or, if it gives none, by the stamp with which an earlier fsck marked it. */
static bool is_old_stray(const struct stray_check *suspect,
                         const struct compact_settings *settings,
                         const struct evidence *evidence)
{
    struct span bound = SPAN_MS(2 * settings->late_bound_ms);
    return fsck_proven_age(suspect->fsck, suspect->stray->modified).us > bound.us ||
           stamp_passed(suspect->stray->marked, evidence->now, bound,
                        SPAN_MS(settings->skew_tolerance_ms), evidence);
}

static void look_at_parent(void *argument, const struct catalog *parent,
                           const struct evidence *evidence)
{
    struct stray_check *suspect = argument;
    const struct fsck_catalog *stray = suspect->stray;
    const struct fsck_name *names = suspect->fsck->names;
    suspect->named = names_include(parent->children, parent->child_count, stray->partition);
    suspect->is_old = is_old_stray(suspect, &parent->settings, evidence);
    suspect->as_born = true;
    for (size_t i = stray->first; i < stray->first + stray->count; i++)
        suspect->as_born &= names[i].state == CHUNK_LIVE &&
                            !view_equal(layout_home(names[i].key), stray->partition);
}

/* A store that gives no dates can prove the age of a stray only by a stamp. */
static struct fsck_repair mark_stray(struct fsck *fsck, const struct stray_check *suspect,
                                     char why[HF_WHY_MAX])
{
    struct catalog_op mark = { .kind = CATALOG_STRAY };
    struct hf_error error;
    if (!fsck->options->repair || fsck->dated.us > 0)
        return fsck_advice("it can be deleted once it is older than twice the late bound");
    if (fsck_apply(fsck, suspect->stray->partition, &mark, &error) == HF_OK)
        return fsck_advice("marked; it can be deleted once twice the late bound has passed "
                           "since it was marked");
    snprintf(why, HF_WHY_MAX, "could not be marked: %.120s", error.why);
    return fsck_advice(why);
}

/* A stray is deleted only if it was never used: one that was used may belong to a parent that was
 * restored from a backup. */
static struct fsck_repair repair_stray(struct fsck *fsck, const struct stray_check *suspect,
                                       struct view key, char why[HF_WHY_MAX])
{
    struct hf_error error;
    struct object_info info;
    bool there;
    if (!suspect->as_born)
        return fsck_advice(
            "it was used, but its parent does not name it: compare the two by hand");
    if (!suspect->is_old)
        return mark_stray(fsck, suspect, why);
    if (!fsck_all_can_be_read(fsck))
        return fsck_advice("it can be deleted once all catalogs can be read");
    if (!fsck->options->repair)
        return fsck_advice("can be deleted with " FSCK_BY_REPAIR);
    if (fsck_object(fsck, key, &there, &info, &error) == HF_OK &&
        (!there || fsck_delete(fsck, key, &info.etag, &error) == HF_OK))
        return (struct fsck_repair){ "deleted", .done = true };
    snprintf(why, HF_WHY_MAX, "could not be deleted: %.120s", error.why);
    return fsck_advice(why);
}

/* The parent did not name the child when it was read. If the parent names it now, the child is read
 * again, because it may have changed. */
static enum hf_status check_stray(struct fsck *fsck, struct fsck_catalog *catalog,
                                  const struct fsck_catalog *parent, struct hf_error *error)
{
    struct stray_check suspect = { .fsck = fsck, .stray = catalog };
    char key[KEY_BYTES_MAX + 1], why[HF_WHY_MAX], text[HF_WHY_MAX];
    enum hf_status status = fsck_show(fsck, parent->partition, look_at_parent, &suspect, error);
    if (status != HF_OK)
        return fsck_is_damage(status) || status == HF_NOT_FOUND ? error_clear(error) : status;
    catalog->stray = true;
    if (suspect.named) {
        catalog->stray = false;
        for (size_t i = catalog->first; i < catalog->first + catalog->count; i++)
            fsck->names[i].catalog = NULL;
        return read_catalog(fsck, catalog, /* with_names */ true, error);
    }
    if (fsck_age_of(fsck, catalog->modified).us < fsck->age.us ||
        !layout_partition_key(catalog->partition, LAYOUT_CATALOG, key))
        return HF_OK;
    struct fsck_repair repair = repair_stray(fsck, &suspect, view_of(key), text);
    snprintf(why, sizeof why, "it names %.*s as its parent, which does not name it",
             VIEW_ARGS(parent->partition));
    fsck_report_finding(fsck, HF_FSCK_STRAY_CATALOG, view_of(key), catalog->partition, why,
                        repair);
    return HF_OK;
}

/* The parent that the catalog names, or NULL. If only one partition is checked, the parent of its
 * root is ignored. */
static enum hf_status find_parent(struct fsck *fsck, const struct fsck_catalog *catalog,
                                  struct fsck_catalog **ret_parent, struct hf_error *error)
{
    *ret_parent = NULL;
    bool asked = catalog->state == FSCK_READ && catalog->in_scope &&
                 !view_equal(catalog->partition, fsck->root) &&
                 layout_partition_valid(catalog->parent);
    return asked ? take_catalog(fsck, catalog->parent, ret_parent, error) : HF_OK;
}

/* Strays are checked last, because none may be deleted while any catalog is missing. */
static enum hf_status check_trees(struct fsck *fsck, struct hf_error *error)
{
    struct fsck_catalog *parent;
    for (size_t i = 0; i < fsck->catalog_count; i++) {
        struct fsck_catalog *catalog = fsck->catalogs[i];
        enum hf_status status = find_parent(fsck, catalog, &parent, error);
        if (status == HF_OK && parent && parent->state == FSCK_UNREAD && !parent->listed)
            status = check_missing(fsck, catalog, parent, error);
        if (status == HF_OK && catalog->state == FSCK_READ && catalog->in_scope)
            status = check_named_children(fsck, catalog, error);
        if (status != HF_OK)
            return status;
    }
    for (size_t i = 0; i < fsck->catalog_count; i++) {
        struct fsck_catalog *catalog = fsck->catalogs[i];
        enum hf_status status = find_parent(fsck, catalog, &parent, error);
        bool names_parent = status == HF_OK && parent && parent->state == FSCK_READ;
        if (names_parent && !catalog->named &&
            !names_include(parent->children, parent->child_count, catalog->partition))
            status = check_stray(fsck, catalog, parent, error);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

/* ---- Names --------------------------------------------------------------------------- */

static int by_key(const void *left, const void *right)
{
    const struct fsck_name *a = left, *b = right;
    int order = view_compare(a->key, b->key);
    if (order == 0)
        order = (a->state == CHUNK_MOVED) - (b->state == CHUNK_MOVED);
    return order != 0 ? order : view_compare(a->catalog->partition, b->catalog->partition);
}

static void sort_names(struct fsck *fsck)
{
    size_t kept = 0;
    for (size_t i = 0; i < fsck->name_count; i++)
        if (fsck->names[i].catalog && !fsck->names[i].catalog->stray)
            fsck->names[kept++] = fsck->names[i];
    fsck->name_count = kept;
    if (kept > 0)
        qsort(fsck->names, kept, sizeof *fsck->names, by_key);
}

struct fsck_name *fsck_name(const struct fsck *fsck, struct view key)
{
    size_t low = 0, high = fsck->name_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (view_compare(fsck->names[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < fsck->name_count && view_equal(fsck->names[low].key, key);
    return found ? &fsck->names[low] : NULL;
}

static void count_names(struct fsck *fsck)
{
    struct hf_fsck_report *report = fsck->report;
    for (size_t i = 0; i < fsck->catalog_count; i++)
        report->catalogs +=
            fsck->catalogs[i]->in_scope &&
            (fsck->catalogs[i]->state == FSCK_READ || fsck->catalogs[i]->state == FSCK_DAMAGED);
    for (size_t i = 0; i < fsck->name_count; i++) {
        enum chunk_state state = fsck->names[i].state;
        report->chunks += state == CHUNK_LIVE;
        report->tombstones += state == CHUNK_TOMBSTONE;
        report->deleting += state == CHUNK_RETIRED || state == CHUNK_CONDEMNED;
    }
    fsck->chunks_total = report->chunks;
}

enum hf_status fsck_catalogs(struct fsck *fsck, struct hf_error *error)
{
    enum hf_status status = read_catalogs(fsck, error);
    if (status == HF_OK)
        status = check_trees(fsck, error);
    if (status == HF_OK)
        status = read_all_in_scope(fsck, error); /* reads children named since then */
    if (status == HF_OK) {
        sort_names(fsck);
        count_names(fsck);
    }
    return status;
}
