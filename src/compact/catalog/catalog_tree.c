/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_tree.c: catalogs as documents: creates, shows and changes them, and walks the tree of a
 * partition. catalog.h defines their meaning. A catalog that cannot be read is never overwritten,
 * because nothing else records which chunks are data. */
#include "compact/catalog/catalog_tree.h"

#include "base/check.h"
#include "base/rule.h"
#include "store/retry.h"

#include <stdio.h>
#include <stdlib.h>

/* A read is retried if the store fails. */
#define SHOW_TRIES_MAX 3
#define SHOW_BACKOFF   SPAN_MS(50)

/* ---- A catalog as the body of a document --------------------------------------------- */

struct body {
    struct catalog *catalog; /* NULL: there is none */
};

static void catalog_body_free(void *argument)
{
    struct body *body = argument;
    catalog_free(body->catalog);
    free(body);
}

static enum hf_status catalog_body_decode(struct view bytes, struct mono_time arrived,
                                          const void *previous, void **ret_body,
                                          struct hf_error *error)
{
    const struct body *before = previous;
    struct body *body = calloc(1, sizeof *body);
    if (!body)
        return error_no_memory(error);
    enum hf_status status =
        catalog_decode(bytes, arrived, before ? before->catalog : NULL, &body->catalog, error);
    if (status == HF_OK)
        *ret_body = body;
    else
        free(body);
    return status;
}

/* A missing catalog also has a body, which is empty. Operations on it are refused after a fresh
 * read, except catalog_tree_create, which fills it in. */
static void *catalog_body_birth(void *context)
{
    (void)context;
    return calloc(1, sizeof(struct body));
}

static bool catalog_body_encode(const void *argument, struct view nonce, struct buffer *text)
{
    const struct body *body = argument;
    return body->catalog && catalog_encode(body->catalog, nonce, text);
}

static void catalog_body_written(void *argument, struct mono_time now)
{
    struct body *body = argument;
    catalog_written(body->catalog, now);
}

static const struct doc_type catalog_type = {
    .bytes_max = CATALOG_BYTES_READ_MAX,
    .decode = catalog_body_decode,
    .birth = catalog_body_birth,
    .encode = catalog_body_encode,
    .written = catalog_body_written,
    .free = catalog_body_free,
};

/* ---- References to catalogs ---------------------------------------------------------- */

static void read_route(const struct catalog *catalog, struct catalog_route *ret_route)
{
    ret_route->known = true;
    ret_route->child_count = catalog->child_count;
    ret_route->split_by = catalog->split_by;
    snprintf(ret_route->parent, sizeof ret_route->parent, "%.*s", VIEW_ARGS(catalog->parent));
    for (size_t i = 0; i < catalog->child_count; i++)
        snprintf(ret_route->children[i], sizeof ret_route->children[i], "%.*s",
                 VIEW_ARGS(catalog->children[i]));
}

/* Remembers where new chunks are routed. Called by the task that is updating the document. */
static void note_route(void *argument, const void *seen, const struct evidence *evidence)
{
    (void)evidence;
    struct catalog_ref *ref = argument;
    const struct catalog *catalog = ((const struct body *)seen)->catalog;
    if (!catalog)
        return;
    env_mutex_lock(&ref->tree->mutex);
    read_route(catalog, &ref->route);
    env_mutex_unlock(&ref->tree->mutex);
}

static void catalog_ref_free(struct catalog_ref *ref)
{
    doc_free(ref->doc);
    free(ref);
}

static enum hf_status add_ref_locked(struct catalog_tree *tree, struct view partition,
                                     struct catalog_ref **ret_ref, struct hf_error *error)
{
    if (tree->refs.count >= CATALOG_TREE_CATALOGS_MAX)
        return error_set(error, HF_UNAVAILABLE, "%s has more than %d catalogs", tree->partition,
                         CATALOG_TREE_CATALOGS_MAX);
    char key[KEY_BYTES_MAX + 1];
    void *old;
    if (!layout_partition_valid(partition) ||
        !layout_partition_key(partition, LAYOUT_CATALOG, key))
        return error_set(error, HF_INVALID, "invalid partition name '%.*s'",
                         VIEW_ARGS(view_first(partition, 80)));
    struct catalog_ref *ref = calloc(1, sizeof *ref);
    if (!ref)
        return error_no_memory(error);
    ref->tree = tree;
    memcpy(ref->partition, partition.data, partition.size);
    enum hf_status status = doc_new(tree->store, client_clock(tree->client), view_of(key),
                                    &catalog_type, ref, &ref->doc, error);
    if (status != HF_OK) {
        free(ref);
        return status;
    }
    doc_observe(ref->doc, note_route, ref);
    if (!map_put(&tree->refs, view_of(ref->partition), ref, &old)) {
        catalog_ref_free(ref);
        return error_no_memory(error);
    }
    *ret_ref = ref;
    return HF_OK;
}

enum hf_status catalog_tree_ref(struct catalog_tree *tree, struct view partition,
                                struct catalog_ref **ret_ref, struct hf_error *error)
{
    env_mutex_lock(&tree->mutex);
    struct catalog_ref *ref = map_get(&tree->refs, partition);
    enum hf_status status = HF_OK;
    if (ref)
        *ret_ref = ref;
    else
        status = add_ref_locked(tree, partition, ret_ref, error);
    env_mutex_unlock(&tree->mutex);
    return status;
}

/* ---- Opening and closing ------------------------------------------------------------- */

enum hf_status catalog_tree_open(struct store *store, struct hf_client *client,
                                 struct view partition, struct catalog_tree **ret_tree,
                                 struct hf_error *error)
{
    if (!layout_partition_valid(partition))
        return error_set(error, HF_INVALID, "invalid partition name '%.*s'",
                         VIEW_ARGS(view_first(partition, 80)));
    struct catalog_tree *tree = calloc(1, sizeof *tree);
    if (!tree)
        return error_no_memory(error);
    tree->env = store->env;
    tree->store = store;
    tree->client = client;
    memcpy(tree->partition, partition.data, partition.size);
    env_mutex_init(tree->env, &tree->mutex);
    *ret_tree = tree;
    return HF_OK;
}

void catalog_tree_close(struct catalog_tree *tree)
{
    if (!tree)
        return;
    struct catalog_ref *ref;
    while ((ref = map_seek(&tree->refs, VIEW(""), /* beyond */ false))) {
        map_take(&tree->refs, view_of(ref->partition));
        catalog_ref_free(ref);
    }
    map_release(&tree->refs);
    doc_free(tree->jobs);
    env_mutex_release(&tree->mutex);
    free(tree);
}

/* ---- Checks -------------------------------------------------------------------------- */

static enum hf_status no_catalog(const struct catalog_ref *ref, struct hf_error *error)
{
    bool is_default = strcmp(ref->partition, LAYOUT_PARTITION_DEFAULT) == 0;
    return error_set(error, HF_NOT_FOUND,
                     "there is no partition '%s'; create it with 'holdfast compact create "
                     "--format csv --key FIELD%s%s'",
                     ref->partition, is_default ? "" : " --partition ",
                     is_default ? "" : ref->partition);
}

/* If a catalog was copied to another key, it must not be used as the catalog of that partition. */
static enum hf_status check_own(const struct catalog_ref *ref, const struct catalog *catalog,
                                struct hf_error *error)
{
    if (view_equal(catalog->partition, view_of(ref->partition)))
        return HF_OK;
    return error_set(error, HF_CORRUPT, "%.*s: this is the catalog of %.*s, not of %s",
                     VIEW_ARGS(doc_key(ref->doc)),
                     VIEW_ARGS(view_first(catalog->partition, PARTITION_BYTES_MAX)),
                     ref->partition);
}

/* Adds the object's key to the error. */
static void name_damaged(const struct catalog_ref *ref, struct hf_error *error)
{
    error_prefix(error, "%.*s", VIEW_ARGS(doc_key(ref->doc)));
}

/* ---- Showing ------------------------------------------------------------------------- */

struct viewer {
    const struct catalog_ref *ref;
    catalog_ref_look *look;
    void *argument;
    struct hf_error error; /* why it was not shown */
};

static void show_catalog(void *argument, const void *seen, const struct evidence *evidence)
{
    struct viewer *viewer = argument;
    const struct catalog *catalog = ((const struct body *)seen)->catalog;
    if (!catalog || catalog->is_dropped)
        no_catalog(viewer->ref, &viewer->error);
    else if (check_own(viewer->ref, catalog, &viewer->error) == HF_OK && viewer->look)
        viewer->look(viewer->argument, catalog, evidence);
}

enum hf_status catalog_ref_show(struct catalog_ref *ref, catalog_ref_look *look, void *argument,
                                struct hf_error *error)
{
    struct env *env = ref->tree->env;
    struct viewer viewer = { .ref = ref, .look = look, .argument = argument };
    struct mono_time deadline = mono_add(env_now(env), REQUEST_TIME);
    struct retry retry = { .store = ref->tree->store,
                           .pause = SHOW_BACKOFF,
                           .left = SHOW_TRIES_MAX - 1,
                           .until = deadline,
                           .conflicts_too = true };
    enum hf_status status;
    do
        status = doc_look(ref->doc, deadline, show_catalog, &viewer, error);
    while (retry_after(&retry, status));
    if (status == HF_OK) {
        *error = viewer.error;
        return viewer.error.status;
    }
    if (status == HF_NOT_FOUND)
        return no_catalog(ref, error);
    if (status == HF_CORRUPT || status == HF_UNSUPPORTED)
        name_damaged(ref, error);
    return status;
}

/* ---- Changing ------------------------------------------------------------------------ */

/* An operation on a catalog, as an operation on its document. */
struct change_op {
    struct doc_op op;
    const struct catalog_ref *ref;
    struct catalog_op *asked;
};

static enum hf_status apply_to_catalog(struct doc_op *op, void *argument,
                                       const struct evidence *evidence)
{
    struct change_op *change = (struct change_op *)(void *)op;
    struct body *body = argument;
    if (!body->catalog || (body->catalog->is_dropped && change->asked->kind != CATALOG_DROPPED))
        return no_catalog(change->ref, &op->error);
    enum hf_status status = check_own(change->ref, body->catalog, &op->error);
    if (status != HF_OK)
        return status;
    status = catalog_apply(body->catalog, change->asked, evidence);
    op->changed = change->asked->changed;
    op->found = change->asked->already;
    op->error = change->asked->error;
    return status;
}

enum hf_status catalog_ref_apply(struct catalog_ref *ref, struct catalog_op *op,
                                 struct mono_time deadline)
{
    struct env *env = ref->tree->env;
    struct change_op change = { .op = { .apply = apply_to_catalog }, .ref = ref, .asked = op };
    change.op.deadline =
        deadline.us > 0 ? deadline : mono_add(env_now(env), CATALOG_TREE_PATIENCE);
    enum hf_status status = doc_update(ref->doc, &change.op);
    op->error = change.op.error;
    op->doubted = change.op.doubt != DOC_DOUBT_NONE;
    if (change.op.answer == DOC_DAMAGED)
        name_damaged(ref, &op->error);
    return status;
}

bool catalog_ref_etag(struct catalog_ref *ref, struct etag *ret_etag)
{
    return doc_etag(ref->doc, ret_etag);
}

struct view catalog_ref_key(const struct catalog_ref *ref)
{
    return doc_key(ref->doc);
}

/* ---- Creating the first catalog ------------------------------------------------------ */

struct create_op {
    struct doc_op op;
    const struct catalog_ref *ref;
    bool has_chunks; /* although there is no catalog */
    const struct compact_settings *settings;
};

static enum hf_status apply_create(struct doc_op *op, void *argument,
                                   const struct evidence *evidence)
{
    (void)evidence;
    struct create_op *create = (struct create_op *)(void *)op;
    struct body *body = argument;
    struct catalog *created;
    if (body->catalog && !body->catalog->is_dropped) {
        enum hf_status status = check_own(create->ref, body->catalog, &op->error);
        if (status != HF_OK)
            return status;
        if (body->catalog->is_dropping)
            return error_set(&op->error, HF_CONFLICT,
                             "the partition is being dropped; create it again once 'holdfast "
                             "compact drop' reports that nothing is left of it");
        if (compact_settings_equal(&body->catalog->settings, create->settings))
            return HF_OK;
        return error_set(&op->error, HF_CONFLICT,
                         "the partition exists with other settings; change them with 'holdfast "
                         "compact set'");
    }
    struct view partition = view_of(create->ref->partition);
    if (create->has_chunks)
        return error_set(&op->error, HF_CONFLICT,
                         "there are chunks under " LAYOUT_DATA_FOLDER "%.*s/ whose catalog is "
                         "missing: restore it, or move the chunks away first",
                         VIEW_ARGS(partition));
    enum hf_status status = catalog_new(partition, /* parent */ VIEW(""), /* depth */ 0,
                                        create->settings, &created, &op->error);
    if (status != HF_OK)
        return status;
    catalog_free(body->catalog); /* a document that stood for an absent catalog */
    body->catalog = created;
    op->changed = true;
    return HF_OK;
}

#define LIST_TRIES_MAX 5
#define LIST_WAIT      SPAN_MS(100)

/* If the catalog of existing chunks was lost, a new catalog would not name these chunks, and fsck
 * would condemn them as orphans. */
static enum hf_status look_for_chunks(struct catalog_tree *tree, bool *ret_found,
                                      struct hf_error *error)
{
    char prefix[sizeof LAYOUT_DATA_FOLDER + PARTITION_BYTES_MAX + 1];
    snprintf(prefix, sizeof prefix, LAYOUT_DATA_FOLDER "%s/", tree->partition);
    struct retry retry = { .store = tree->store,
                           .pause = LIST_WAIT,
                           .left = LIST_TRIES_MAX - 1 };
    enum hf_status status;
    do {
        struct list_call list = { .prefix = view_of(prefix), .max = 1 };
        status = store_list(tree->store, &list);
        *ret_found = status == HF_OK && list.count > 0;
        *error = list.error;
        list_release(&list);
    } while (retry_after(&retry, status));
    return status;
}

enum hf_status catalog_tree_create(struct catalog_tree *tree,
                                   const struct compact_settings *settings,
                                   struct hf_error *error)
{
    struct catalog_ref *ref;
    bool has_chunks = false;
    client_active(tree->client);
    enum hf_status status = compact_settings_check(settings, error);
    if (status == HF_OK)
        status = catalog_tree_ref(tree, view_of(tree->partition), &ref, error);
    if (status == HF_OK)
        status = look_for_chunks(tree, &has_chunks, error);
    if (status != HF_OK)
        return status;
    struct create_op create = { .op = { .apply = apply_create },
                                .ref = ref,
                                .has_chunks = has_chunks,
                                .settings = settings };
    create.op.deadline = mono_add(env_now(tree->env), CATALOG_TREE_PATIENCE);
    status = doc_update(ref->doc, &create.op);
    *error = create.op.error;
    if (create.op.answer == DOC_DAMAGED)
        name_damaged(ref, error);
    return status;
}

/* ---- The tree ------------------------------------------------------------------------ */

static bool copy_route(struct catalog_ref *ref, struct catalog_route *ret_route)
{
    env_mutex_lock(&ref->tree->mutex);
    *ret_route = ref->route;
    env_mutex_unlock(&ref->tree->mutex);
    return ret_route->known;
}

/* A copy of the known route. The catalog is read only if it was never read: an outdated route does
 * no harm, because a catalog that has been split refuses the add. */
static enum hf_status route_of(struct catalog_ref *ref, struct catalog_route *ret_route,
                               struct hf_error *error)
{
    if (copy_route(ref, ret_route))
        return HF_OK;
    enum hf_status status = catalog_ref_show(ref, /* look */ NULL, NULL, error);
    check(status != HF_OK || copy_route(ref, ret_route));
    return status;
}

enum hf_status catalog_tree_home(struct catalog_tree *tree, struct view key_seed,
                                 int64_t min_ms, char ret_partition[PARTITION_BYTES_MAX + 1],
                                 struct hf_error *error)
{
    char partition[PARTITION_BYTES_MAX + 1];
    snprintf(partition, sizeof partition, "%s", tree->partition);
    for (unsigned depth = 0; depth <= CATALOG_TREE_DEPTH_MAX; depth++) {
        struct catalog_ref *ref;
        struct catalog_route route;
        enum hf_status status = catalog_tree_ref(tree, view_of(partition), &ref, error);
        if (status == HF_OK)
            status = route_of(ref, &route, error);
        if (status != HF_OK)
            return status;
        if (route.child_count == 0) {
            memcpy(ret_partition, partition, sizeof partition);
            return HF_OK;
        }
        unsigned child = split_route(view_of(partition), route.split_by, key_seed, min_ms);
        memcpy(partition, route.children[child], sizeof partition);
    }
    return error_set(error, HF_CORRUPT, "the catalogs of %s are more than %d levels deep",
                     tree->partition, CATALOG_TREE_DEPTH_MAX);
}

struct file_look {
    const struct view *file_ids;
    size_t count;
    bool *known;
};

static void look_for_files(void *argument, const struct catalog *catalog,
                           const struct evidence *evidence)
{
    struct file_look *look = argument;
    (void)evidence;
    for (size_t i = 0; i < look->count; i++)
        look->known[i] = look->known[i] || catalog_knows_file(catalog, look->file_ids[i]);
}

enum hf_status catalog_ref_files_above(struct catalog_ref *ref, const struct view *file_ids,
                                       size_t count, bool *known, struct hf_error *error)
{
    struct file_look look = { file_ids, count, known };
    struct catalog_route route;
    enum hf_status status = route_of(ref, &route, error);
    unsigned depth = 0;
    while (status == HF_OK && route.parent[0]) {
        if (depth++ > CATALOG_TREE_DEPTH_MAX)
            return error_set(error, HF_CORRUPT,
                             "the catalogs of %s are more than %d levels deep",
                             ref->tree->partition, CATALOG_TREE_DEPTH_MAX);
        struct catalog_ref *parent = NULL;
        status = catalog_tree_ref(ref->tree, view_of(route.parent), &parent, error);
        if (status == HF_OK && RULE(PARENTS_KNOW_THE_FILE))
            status = catalog_ref_show(parent, look_for_files, &look, error);
        if (status == HF_OK)
            status = route_of(parent, &route, error);
    }
    return status;
}

/* A walk through the tree. */
struct walk {
    struct catalog_tree *tree;
    catalog_tree_visit *visit;
    void *argument;
    struct queued *first, *last;
    size_t count;                  /* catalogs queued so far */
    catalog_tree_between *between; /* may be NULL */
    struct queued *at;             /* the catalog that is being visited */
    struct catalog_route route;    /* its route */
    enum hf_status ended;          /* status with which the visitor ended the walk */
    struct hf_error why;           /* what is wrong with the catalog being visited */
};

struct queued {
    struct catalog_ref *ref;
    struct catalog_ref *parent; /* NULL: none */
    unsigned depth;
    struct queued *next;
};

static enum hf_status queue_catalog(struct walk *walk, struct view partition,
                                    struct catalog_ref *parent, unsigned depth,
                                    struct hf_error *error)
{
    struct catalog_ref *ref = NULL;
    if (walk->count >= CATALOG_TREE_CATALOGS_MAX)
        return error_set(error, HF_UNAVAILABLE, "%s has more than %d catalogs",
                         walk->tree->partition, CATALOG_TREE_CATALOGS_MAX);
    enum hf_status status = catalog_tree_ref(walk->tree, partition, &ref, error);
    if (status != HF_OK)
        return status;
    struct queued *queued = malloc(sizeof *queued);
    if (!queued)
        return error_no_memory(error);
    *queued = (struct queued){ .ref = ref, .parent = parent, .depth = depth };
    if (walk->last)
        walk->last->next = queued;
    else
        walk->first = queued;
    walk->last = queued;
    walk->count++;
    return HF_OK;
}

static void visit_one(void *argument, const struct catalog *catalog,
                      const struct evidence *evidence)
{
    struct walk *walk = argument;
    const struct catalog_ref *above = walk->at->parent;
    struct view parent = above ? view_of(above->partition) : VIEW("");
    /* A child must name its parent and depth, so a faulty document cannot make a walk
     * loop. */
    if (catalog->depth != walk->at->depth || !view_equal(catalog->parent, parent)) {
        error_set(&walk->why, HF_CORRUPT, "the catalog of %s names another parent or depth",
                  walk->at->ref->partition);
        return;
    }
    const struct hf_error fine = { .status = HF_OK };
    read_route(catalog, &walk->route);
    walk->ended = walk->visit(walk->argument, walk->at->ref, catalog, evidence, &fine);
}

static enum hf_status queue_children(struct walk *walk, const struct queued *at,
                                     struct hf_error *error)
{
    if (walk->route.child_count > 0 && at->depth >= CATALOG_TREE_DEPTH_MAX)
        return error_set(error, HF_CORRUPT, "the catalogs of %s are more than %d levels deep",
                         walk->tree->partition, CATALOG_TREE_DEPTH_MAX);
    for (size_t i = 0; i < walk->route.child_count; i++) {
        enum hf_status status = queue_catalog(walk, view_of(walk->route.children[i]), at->ref,
                                              at->depth + 1, error);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

/* Visits one catalog and queues its children. `error` is unchanged if the visitor ends the
 * walk. */
static enum hf_status walk_one(struct walk *walk, struct queued *at, struct hf_error *error)
{
    struct hf_error why;
    walk->at = at;
    error_clear(&walk->why);
    enum hf_status status = catalog_ref_show(at->ref, visit_one, walk, &why);
    if (status == HF_OK && walk->why.status != HF_OK) {
        why = walk->why;
        status = why.status;
    }
    if (status == HF_OK && walk->ended == HF_OK && walk->between)
        walk->ended = walk->between(walk->argument, at->ref);
    if (status == HF_OK)
        return walk->ended != HF_OK ? walk->ended : queue_children(walk, at, error);
    /* An unreadable catalog, or a missing child, does not stop the walk. */
    if (status != HF_CORRUPT && status != HF_UNSUPPORTED &&
        (status != HF_NOT_FOUND || !at->parent)) {
        *error = why;
        return status;
    }
    struct evidence evidence = { .nonce = VIEW("") };
    clock_evidence(client_clock(walk->tree->client), &evidence);
    return walk->visit(walk->argument, at->ref, /* catalog */ NULL, &evidence, &why);
}

enum hf_status catalog_tree_walk(struct catalog_tree *tree, catalog_tree_visit *visit,
                                 void *argument, struct hf_error *error)
{
    return catalog_tree_walk_slowly(tree, visit, /* between */ NULL, argument, error);
}

enum hf_status catalog_tree_walk_slowly(struct catalog_tree *tree, catalog_tree_visit *visit,
                                        catalog_tree_between *between, void *argument,
                                        struct hf_error *error)
{
    struct walk walk = {
        .tree = tree, .visit = visit, .between = between, .argument = argument
    };
    error_clear(error);
    enum hf_status status =
        queue_catalog(&walk, view_of(tree->partition), /* parent */ NULL, /* depth */ 0, error);
    while (walk.first) {
        struct queued *at = walk.first;
        walk.first = at->next;
        if (!walk.first)
            walk.last = NULL;
        if (status == HF_OK)
            status = walk_one(&walk, at, error);
        free(at);
    }
    if (status != HF_OK && error->status == HF_OK) /* the visitor gave no reason */
        error_set(error, status, "%s", hf_status_text(status));
    return status;
}
