/* fsck_catalogs.c: all catalogs of a bucket or of one partition, and whether they make trees.
 *
 * Catalogs are found twice: in the listing of metadata/, and by who names them as a child. What
 * is only named is missing. What is only listed is a root, or the child of a split that came to
 * nothing, whose entries still stand in its parent: it is a stray, and means nothing. */
#include "base/check.h"
#include "compact/fsck_inside.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- The catalogs that we know of ---------------------------------------------------- */

struct fsck_catalog *fsck_find(const struct fsck *fsck, struct view partition)
{
    return map_get(&fsck->by_partition, partition);
}

static enum hf_status make_room(struct fsck *fsck, struct hf_error *error)
{
    if (fsck->catalog_count >= FSCK_CATALOGS_MAX)
        return error_set(
            error, HF_UNAVAILABLE,
            "there are more than %d catalogs: look through one partition at a time",
            FSCK_CATALOGS_MAX);
    if (fsck->catalog_count < fsck->catalog_capacity)
        return HF_OK;
    size_t capacity = fsck->catalog_capacity ? 2 * fsck->catalog_capacity : 16;
    void *grown = realloc(fsck->catalogs, capacity * sizeof *fsck->catalogs);
    if (!grown)
        return error_no_memory(error);
    fsck->catalogs = grown;
    fsck->catalog_capacity = capacity;
    return HF_OK;
}

/* The one of a partition, new or not. */
static enum hf_status take_catalog(struct fsck *fsck, struct view partition,
                                   struct fsck_catalog **ret_catalog, struct hf_error *error)
{
    struct fsck_catalog *catalog = fsck_find(fsck, partition);
    void *old;
    if (catalog) {
        *ret_catalog = catalog;
        return HF_OK;
    }
    enum hf_status status = make_room(fsck, error);
    if (status != HF_OK)
        return status;
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

/* One object of metadata/: the catalog or the lease table of some partition, or something else. */
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

static bool copy_text(struct fsck *fsck, struct view *text)
{
    *text = arena_copy(&fsck->arena, *text);
    return text->data;
}

static bool copy_head(struct fsck *fsck, struct fsck_catalog *ours,
                      const struct catalog *theirs)
{
    ours->parent = theirs->parent;
    ours->settings = theirs->settings;
    ours->child_count = theirs->child_count;
    bool copied =
        copy_text(fsck, &ours->parent) && compact_settings_keep(&ours->settings, &fsck->arena);
    for (size_t i = 0; i < theirs->child_count && copied; i++) {
        ours->children[i] = theirs->children[i];
        copied = copy_text(fsck, &ours->children[i]);
    }
    return copied;
}

static bool add_name(struct reading *reading, struct fsck_name name)
{
    struct fsck *fsck = reading->fsck;
    check(fsck->name_count < fsck->name_capacity);
    name.catalog = reading->catalog;
    name.key = arena_copy(&fsck->arena, name.key);
    if (name.key.data)
        fsck->names[fsck->name_count++] = name;
    return name.key.data;
}

static bool add_chunks(struct reading *reading, const struct chunk *chunks, size_t count,
                       enum chunk_state state)
{
    bool added = true;
    for (size_t i = 0; i < count && added; i++)
        added = add_name(reading, (struct fsck_name){
                                      .key = chunks[i].key,
                                      .state = (uint8_t)state,
                                      .size = chunks[i].size,
                                      .rows = chunks[i].rows,
                                      .rows_known = chunks[i].rows_known,
                                      .crc32c = chunks[i].crc32c,
                                      .quarantined = chunks[i].quarantine.size > 0,
                                  });
    return added;
}

static bool add_names(struct reading *reading, const struct catalog *catalog)
{
    bool added = add_chunks(reading, catalog->live, catalog->live_count, CHUNK_LIVE);
    for (size_t i = 0; i < catalog->grave_count && added; i++)
        added = add_chunks(reading, catalog->graves[i].chunks, catalog->graves[i].count,
                           CHUNK_TOMBSTONE);
    for (size_t i = 0; i < catalog->removal_count && added; i++) {
        const struct removal *removal = &catalog->removals[i];
        struct fsck_name name = {
            .state = removal->how == DELETING_RETIRED ? CHUNK_RETIRED : CHUNK_CONDEMNED,
            .done = removal->done,
        };
        for (size_t j = 0; j < removal->count && added; j++) {
            name.key = removal->keys[j];
            added = add_name(reading, name);
        }
    }
    for (size_t i = 0; i < catalog->reference_count && added; i++)
        added = add_name(reading,
                         (struct fsck_name){ .key = catalog->references[i].key,
                                             .state = CHUNK_MOVED,
                                             .child = (uint8_t)catalog->references[i].child });
    return added;
}

static enum hf_status room_for_names(struct fsck *fsck, size_t more, struct hf_error *error)
{
    size_t wanted = fsck->name_count + more;
    if (wanted > FSCK_NAMES_MAX)
        return error_set(error, HF_UNAVAILABLE,
                         "the catalogs have more than %d keys: look through one partition at a "
                         "time",
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

static void read_body(void *argument, const struct catalog *catalog,
                      const struct evidence *evidence)
{
    (void)evidence;
    struct reading *reading = argument;
    struct fsck *fsck = reading->fsck;
    size_t names = !reading->with_names
                       ? 0
                       : catalog->live_count + catalog->dead_count + catalog->reference_count;
    reading->status = room_for_names(fsck, names, &reading->error);
    if (reading->status != HF_OK)
        return;
    reading->catalog->first = fsck->name_count;
    if (!copy_head(fsck, reading->catalog, catalog) ||
        (reading->with_names && !add_names(reading, catalog)))
        reading->status = error_no_memory(&reading->error);
    reading->catalog->count = fsck->name_count - reading->catalog->first;
}

static void tell_damaged(struct fsck *fsck, const struct fsck_catalog *catalog,
                         enum hf_status status, const char *why)
{
    char key[KEY_BYTES_MAX + 1];
    if (layout_partition_key(catalog->partition, LAYOUT_CATALOG, key))
        fsck_tell(
            fsck, FSCK_BAD_CATALOG, view_of(key), catalog->partition, why, false,
            status == HF_UNSUPPORTED
                ? "look again with a program that knows it"
                : "restore it from a copy; until then nothing that it may know is touched");
}

/* A child that somebody names; in scope when that is. */
static enum hf_status take_child(struct fsck *fsck, struct view partition, bool in_scope,
                                 struct hf_error *error)
{
    struct fsck_catalog *child = NULL;
    enum hf_status status = take_catalog(fsck, partition, &child, error);
    if (status != HF_OK)
        return status;
    check(child);
    child->named = true;
    child->in_scope |= in_scope;
    return HF_OK;
}

/* Reads it as it is now; children of it that we did not know of are taken along. */
static enum hf_status read_catalog(struct fsck *fsck, struct fsck_catalog *catalog,
                                   bool with_names, struct hf_error *error)
{
    struct reading reading = { .fsck = fsck, .catalog = catalog, .with_names = with_names };
    enum hf_status status = fsck_show(fsck, catalog->partition, read_body, &reading, error);
    if (fsck_is_damage(status))
        status = fsck_show(fsck, catalog->partition, read_body, &reading, error);
    catalog->state = status == HF_OK ? FSCK_READ : FSCK_UNREAD;
    if (status == HF_NOT_FOUND) {
        catalog->state = FSCK_ABSENT;
        return error_clear(error);
    }
    if (fsck_is_damage(status)) {
        catalog->state = FSCK_DAMAGED;
        if (with_names)
            tell_damaged(fsck, catalog, status, error->why);
        return error_clear(error);
    }
    if (status == HF_OK && reading.status != HF_OK) {
        *error = reading.error;
        status = reading.status;
    }
    for (size_t i = 0; i < catalog->child_count && status == HF_OK; i++)
        status = take_child(fsck, catalog->children[i], with_names, error);
    return status;
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
    enum hf_status status = HF_OK;
    bool found = true;
    while (found && status == HF_OK) { /* ends: each round reads some that were unread */
        found = false;
        for (size_t i = 0; i < fsck->catalog_count && status == HF_OK; i++) {
            struct fsck_catalog *catalog = fsck->catalogs[i];
            if (!catalog->in_scope || catalog->state != FSCK_UNREAD)
                continue;
            found = true;
            status = read_catalog(fsck, catalog, /* with_names */ true, error);
            if (status == HF_OK)
                status = fsck_go_on(fsck, error);
        }
    }
    return status;
}

/* The other partitions: only which catalogs they name, since what a split of ours may have left
 * is under an id that says nothing, and what another names is no stray. */
static enum hf_status read_others(struct fsck *fsck, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < fsck->catalog_count && status == HF_OK; i++)
        if (!fsck->catalogs[i]->in_scope && fsck->catalogs[i]->listed)
            status = read_catalog(fsck, fsck->catalogs[i], /* with_names */ false, error);
    return status;
}

static enum hf_status read_possible_strays(struct fsck *fsck, struct hf_error *error)
{
    enum hf_status status = read_others(fsck, error);
    for (size_t i = 0; i < fsck->catalog_count && status == HF_OK; i++) {
        struct fsck_catalog *catalog = fsck->catalogs[i];
        const struct fsck_catalog *parent = fsck_find(fsck, catalog->parent);
        if (catalog->in_scope || catalog->named || catalog->state != FSCK_READ || !parent ||
            !parent->in_scope)
            continue;
        catalog->in_scope = true;
        status = read_catalog(fsck, catalog, /* with_names */ true, error);
    }
    return status;
}

static enum hf_status read_all(struct fsck *fsck, struct hf_error *error)
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

/* ---- Whether they make trees --------------------------------------------------------- */

static bool names_child(const struct fsck_catalog *parent, struct view child)
{
    for (size_t i = 0; i < parent->child_count; i++)
        if (view_equal(parent->children[i], child))
            return true;
    return false;
}

/* Whether a catalog names this child, or says that this is its parent, as it stands now. */
struct naming {
    struct view other;
    bool as_child, as_parent;
};

static void look_for_name(void *argument, const struct catalog *catalog,
                          const struct evidence *evidence)
{
    (void)evidence;
    struct naming *naming = argument;
    naming->as_parent = view_equal(catalog->parent, naming->other);
    naming->as_child = false;
    for (size_t i = 0; i < catalog->child_count; i++)
        naming->as_child |= view_equal(catalog->children[i], naming->other);
}

/* `catalog` names `other`, which is not there: is that so? */
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
    status = fsck_show(fsck, catalog->partition, look_for_name, &naming, error);
    if (status != HF_OK)
        return fsck_is_damage(status) || status == HF_NOT_FOUND ? error_clear(error) : status;
    if (!naming.as_child && !naming.as_parent)
        return HF_OK;
    snprintf(why, sizeof why, "%.*s names it as its %s", VIEW_ARGS(catalog->partition),
             naming.as_child ? "child" : "parent");
    fsck_tell(fsck, FSCK_MISSING_CATALOG, view_of(key), other->partition, why, false,
              "restore it from a copy; its chunks are not lost, but nobody can find them");
    other->state = FSCK_ABSENT;
    other->missed = true;
    return HF_OK;
}

static enum hf_status check_children(struct fsck *fsck, const struct fsck_catalog *catalog,
                                     struct hf_error *error)
{
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < catalog->child_count && status == HF_OK; i++) {
        struct fsck_catalog *child = fsck_find(fsck, catalog->children[i]);
        check(child);
        if (child->state == FSCK_ABSENT)
            status = check_missing(fsck, catalog, child, error);
        if (child->state == FSCK_READ && !view_equal(child->parent, catalog->partition)) {
            char why[HF_WHY_MAX];
            snprintf(why, sizeof why,
                     "%.*s names it as its child, and it says it is one of %.*s",
                     VIEW_ARGS(catalog->partition), VIEW_ARGS(child->parent));
            tell_damaged(fsck, child, HF_CORRUPT, why);
        }
    }
    return status;
}

/* ---- Strays -------------------------------------------------------------------------- */

/* A stray and its parent, as that is now. */
struct straying {
    const struct fsck *fsck;
    const struct fsck_catalog *stray;
    bool named;
    bool as_born; /* nothing was ever added to it, merged or retired in it */
    int64_t late_bound_ms;
};

static void look_at_parent(void *argument, const struct catalog *parent,
                           const struct evidence *evidence)
{
    (void)evidence;
    struct straying *straying = argument;
    const struct fsck_catalog *stray = straying->stray;
    const struct fsck_name *names = straying->fsck->names;
    straying->named = false;
    for (size_t i = 0; i < parent->child_count; i++)
        straying->named |= view_equal(parent->children[i], stray->partition);
    straying->late_bound_ms = parent->settings.late_bound_ms;
    straying->as_born = true;
    for (size_t i = stray->first; i < stray->first + stray->count; i++)
        straying->as_born &= names[i].state == CHUNK_LIVE &&
                             !view_equal(layout_home(names[i].key), stray->partition);
}

/* The swap that would name a stray is sent within D/2 of drawing its name, and lands within D of
 * that; so after twice D it will not come any more. Only then, and when nobody has ever worked
 * with it (as with one whose parent came back from a backup), does nobody miss it. */
static const char *mend_stray(struct fsck *fsck, const struct straying *straying,
                              struct view key, bool *ret_done, char why[HF_WHY_MAX])
{
    struct hf_error error;
    struct object_info info;
    bool there;
    struct span bound = { 2 * straying->late_bound_ms * 1000 };
    *ret_done = false;
    if (!straying->as_born)
        return "it was used, and its parent does not know it: compare the two by hand";
    if (fsck_proven_age(fsck, straying->stray->modified).us <= bound.us)
        return "it can be deleted once it is older than twice the late bound";
    if (!fsck_all_can_be_read(fsck))
        return "it can be deleted once all catalogs can be read";
    if (!fsck->options->repair)
        return "can be deleted";
    if (fsck_object(fsck, key, &there, &info, &error) == HF_OK &&
        (!there || fsck_delete(fsck, key, &info.etag, &error) == HF_OK)) {
        *ret_done = true;
        return "deleted";
    }
    snprintf(why, HF_WHY_MAX, "could not be deleted: %.120s", error.why);
    return why;
}

/* Its parent did not name it when that was read. One that it names by now is read again, since
 * it may have changed. */
static enum hf_status check_stray(struct fsck *fsck, struct fsck_catalog *catalog,
                                  const struct fsck_catalog *parent, struct hf_error *error)
{
    struct straying straying = { .fsck = fsck, .stray = catalog };
    char key[KEY_BYTES_MAX + 1], why[HF_WHY_MAX], text[HF_WHY_MAX];
    bool repaired;
    enum hf_status status =
        fsck_show(fsck, parent->partition, look_at_parent, &straying, error);
    if (status != HF_OK)
        return fsck_is_damage(status) || status == HF_NOT_FOUND ? error_clear(error) : status;
    catalog->stray = true;
    if (straying.named) {
        catalog->stray = false;
        for (size_t i = catalog->first; i < catalog->first + catalog->count; i++)
            fsck->names[i].catalog = NULL;
        return read_catalog(fsck, catalog, /* with_names */ true, error);
    }
    if (fsck_age_of(fsck, catalog->modified).us < fsck->age.us ||
        !layout_partition_key(catalog->partition, LAYOUT_CATALOG, key))
        return HF_OK;
    const char *repair = mend_stray(fsck, &straying, view_of(key), &repaired, text);
    snprintf(why, sizeof why, "%.*s, which it says it is a child of, does not name it",
             VIEW_ARGS(parent->partition));
    fsck_tell(fsck, FSCK_STRAY_CATALOG, view_of(key), catalog->partition, why, repaired,
              repair);
    return HF_OK;
}

/* The parent that it says it has; NULL for none. In one partition we do not ask for that of its
 * root. */
static enum hf_status parent_of(struct fsck *fsck, const struct fsck_catalog *catalog,
                                struct fsck_catalog **ret_parent, struct hf_error *error)
{
    *ret_parent = NULL;
    bool asked = catalog->state == FSCK_READ && catalog->in_scope &&
                 !view_equal(catalog->partition, fsck->root) &&
                 layout_partition_valid(catalog->parent);
    return asked ? take_catalog(fsck, catalog->parent, ret_parent, error) : HF_OK;
}

static enum hf_status find_missing(struct fsck *fsck, const struct fsck_catalog *catalog,
                                   struct hf_error *error)
{
    struct fsck_catalog *parent;
    enum hf_status status = parent_of(fsck, catalog, &parent, error);
    if (status == HF_OK && parent && parent->state == FSCK_UNREAD && !parent->listed)
        status = check_missing(fsck, catalog, parent, error);
    if (status == HF_OK && catalog->state == FSCK_READ && catalog->in_scope)
        status = check_children(fsck, catalog, error);
    return status;
}

static enum hf_status find_stray(struct fsck *fsck, struct fsck_catalog *catalog,
                                 struct hf_error *error)
{
    struct fsck_catalog *parent;
    enum hf_status status = parent_of(fsck, catalog, &parent, error);
    bool unnamed = status == HF_OK && parent && parent->state == FSCK_READ &&
                   !names_child(parent, catalog->partition) && !catalog->named;
    return unnamed ? check_stray(fsck, catalog, parent, error) : status;
}

/* Strays last: only when nothing is missing is one thrown away. */
static enum hf_status check_trees(struct fsck *fsck, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < fsck->catalog_count && status == HF_OK; i++)
        status = find_missing(fsck, fsck->catalogs[i], error);
    for (size_t i = 0; i < fsck->catalog_count && status == HF_OK; i++)
        status = find_stray(fsck, fsck->catalogs[i], error);
    return status;
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

static void count_all(struct fsck *fsck)
{
    struct fsck_report *report = fsck->report;
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
    enum hf_status status = read_all(fsck, error);
    if (status == HF_OK)
        status = check_trees(fsck, error);
    if (status == HF_OK)
        status = read_all_in_scope(fsck, error); /* children that came to be named meanwhile */
    if (status == HF_OK) {
        sort_names(fsck);
        count_all(fsck);
    }
    return status;
}
