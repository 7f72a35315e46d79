/* shelf.c: catalogs as documents: making one, showing it, changing it, and walking the tree of a
 * partition. What a catalog means is in catalog.h; this file only carries it to and from the
 * store. A catalog that cannot be read is never written over: only a person knows what was in
 * it. */
#include "compact/shelf.h"

#include "base/check.h"
#include "base/rule.h"

#include <stdio.h>
#include <stdlib.h>

/* A look is tried again when the store could not just then. */
#define SHOW_TRIES_MAX 3
#define SHOW_BACKOFF   SPAN_MS(50)

/* ---- A catalog as the body of a document --------------------------------------------- */

struct body {
    struct catalog *catalog; /* NULL: there is none */
};

static void body_free(void *argument)
{
    struct body *body = argument;
    catalog_free(body->catalog);
    free(body);
}

static enum hf_status body_decode(struct view bytes, struct mono_time arrived,
                                  const void *previous, void **ret_body, struct hf_error *error)
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

/* That there is none is a body too, so that an operation is refused at once, by a fresh look, and
 * shelf_create has something to fill in. */
static enum hf_status body_birth(void *context, struct view key, struct mono_time deadline,
                                 void **ret_body, struct etag *ret_etag, struct hf_error *error)
{
    (void)context;
    (void)key;
    (void)deadline;
    (void)ret_etag;
    struct body *body = calloc(1, sizeof *body);
    if (!body)
        return error_no_memory(error);
    *ret_body = body;
    return HF_OK;
}

static bool body_encode(const void *argument, struct view nonce, struct buffer *text)
{
    const struct body *body = argument;
    return body->catalog && catalog_encode(body->catalog, nonce, text);
}

static void body_written(void *argument, struct mono_time now)
{
    struct body *body = argument;
    catalog_written(body->catalog, now);
}

static const struct doc_type catalog_type = {
    .bytes_max = CATALOG_BYTES_READ_MAX,
    .decode = body_decode,
    .birth = body_birth,
    .encode = body_encode,
    .written = body_written,
    .free = body_free,
};

/* ---- Slots --------------------------------------------------------------------------- */

static void read_route(const struct catalog *catalog, struct slot_route *ret_route)
{
    ret_route->known = true;
    ret_route->child_count = catalog->child_count;
    ret_route->split_by = catalog->split_by;
    snprintf(ret_route->parent, sizeof ret_route->parent, "%.*s", VIEW_ARGS(catalog->parent));
    for (size_t i = 0; i < catalog->child_count; i++)
        snprintf(ret_route->children[i], sizeof ret_route->children[i], "%.*s",
                 VIEW_ARGS(catalog->children[i]));
}

/* Remembers where new chunks go. Called by whichever task leads the document. */
static void note_route(void *argument, const void *seen, const struct evidence *evidence)
{
    (void)evidence;
    struct slot *slot = argument;
    const struct catalog *catalog = ((const struct body *)seen)->catalog;
    if (!catalog)
        return;
    env_mutex_lock(&slot->shelf->mutex);
    read_route(catalog, &slot->route);
    env_mutex_unlock(&slot->shelf->mutex);
}

static void slot_free(struct slot *slot)
{
    doc_free(slot->doc);
    free(slot);
}

static enum hf_status slot_new(struct shelf *shelf, struct view partition,
                               struct slot **ret_slot, struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    if (!layout_partition_valid(partition) ||
        !layout_partition_key(partition, LAYOUT_CATALOG, key))
        return error_set(error, HF_INVALID, "'%.*s' is no name of a partition",
                         VIEW_ARGS(view_first(partition, 80)));
    struct slot *slot = calloc(1, sizeof *slot);
    if (!slot)
        return error_no_memory(error);
    slot->shelf = shelf;
    memcpy(slot->partition, partition.data, partition.size);
    enum hf_status status = doc_new(shelf->store, &shelf->client->clock, view_of(key),
                                    &catalog_type, slot, &slot->doc, error);
    if (status != HF_OK) {
        free(slot);
        return status;
    }
    doc_observe(slot->doc, note_route, slot);
    *ret_slot = slot;
    return HF_OK;
}

static enum hf_status add_slot_locked(struct shelf *shelf, struct view partition,
                                      struct slot **ret_slot, struct hf_error *error)
{
    if (shelf->slots.count >= SHELF_CATALOGS_MAX)
        return error_set(error, HF_UNAVAILABLE, "%s has more than %d catalogs",
                         shelf->partition, SHELF_CATALOGS_MAX);
    struct slot *slot;
    void *old;
    enum hf_status status = slot_new(shelf, partition, &slot, error);
    if (status != HF_OK)
        return status;
    if (!map_put(&shelf->slots, view_of(slot->partition), slot, &old)) {
        slot_free(slot);
        return error_no_memory(error);
    }
    *ret_slot = slot;
    return HF_OK;
}

enum hf_status shelf_slot(struct shelf *shelf, struct view partition, struct slot **ret_slot,
                          struct hf_error *error)
{
    env_mutex_lock(&shelf->mutex);
    struct slot *slot = map_get(&shelf->slots, partition);
    enum hf_status status = HF_OK;
    if (slot)
        *ret_slot = slot;
    else
        status = add_slot_locked(shelf, partition, ret_slot, error);
    env_mutex_unlock(&shelf->mutex);
    return status;
}

/* ---- The shelf ----------------------------------------------------------------------- */

enum hf_status shelf_open(struct store *store, struct hf_client *client, struct view partition,
                          struct shelf **ret_shelf, struct hf_error *error)
{
    if (!layout_partition_valid(partition))
        return error_set(error, HF_INVALID, "'%.*s' is no name of a partition",
                         VIEW_ARGS(view_first(partition, 80)));
    struct shelf *shelf = calloc(1, sizeof *shelf);
    if (!shelf)
        return error_no_memory(error);
    shelf->env = store->env;
    shelf->store = store;
    shelf->client = client;
    memcpy(shelf->partition, partition.data, partition.size);
    env_mutex_init(shelf->env, &shelf->mutex);
    *ret_shelf = shelf;
    return HF_OK;
}

void shelf_close(struct shelf *shelf)
{
    if (!shelf)
        return;
    struct slot *slot;
    while ((slot = map_seek(&shelf->slots, VIEW(""), /* beyond */ false))) {
        map_take(&shelf->slots, view_of(slot->partition));
        slot_free(slot);
    }
    map_release(&shelf->slots);
    doc_free(shelf->jobs);
    env_mutex_release(&shelf->mutex);
    free(shelf);
}

/* ---- Whether it is what it should be ------------------------------------------------- */

static enum hf_status no_catalog(const struct slot *slot, struct hf_error *error)
{
    return error_set(error, HF_NOT_FOUND,
                     "there is no partition '%s'; create it with 'holdfast compact create'",
                     slot->partition);
}

/* A catalog that was copied to another place must not be taken for the one of that place. */
static enum hf_status check_own(const struct slot *slot, const struct catalog *catalog,
                                struct hf_error *error)
{
    if (view_equal(catalog->partition, view_of(slot->partition)))
        return HF_OK;
    return error_set(error, HF_CORRUPT, "%.*s: it is the catalog of %.*s, not of %s",
                     VIEW_ARGS(doc_key(slot->doc)),
                     VIEW_ARGS(view_first(catalog->partition, PARTITION_BYTES_MAX)),
                     slot->partition);
}

/* What cannot be read is named. */
static void name_damaged(const struct slot *slot, struct hf_error *error)
{
    error_prefix(error, "%.*s", VIEW_ARGS(doc_key(slot->doc)));
}

/* ---- Showing ------------------------------------------------------------------------- */

struct sight {
    const struct slot *slot;
    slot_look *look;
    void *argument;
    struct hf_error error; /* why it was not shown */
};

static void show(void *argument, const void *seen, const struct evidence *evidence)
{
    struct sight *sight = argument;
    const struct catalog *catalog = ((const struct body *)seen)->catalog;
    if (!catalog)
        no_catalog(sight->slot, &sight->error);
    else if (check_own(sight->slot, catalog, &sight->error) == HF_OK)
        sight->look(sight->argument, catalog, evidence);
}

static bool worth_another_look(enum hf_status status)
{
    return status == HF_UNAVAILABLE || status == HF_TIMEOUT || status == HF_CONFLICT;
}

enum hf_status slot_show(struct slot *slot, slot_look *look, void *argument,
                         struct hf_error *error)
{
    struct env *env = slot->shelf->env;
    struct sight sight = { .slot = slot, .look = look, .argument = argument };
    struct mono_time deadline = mono_add(env_now(env), REQUEST_TIME);
    struct span backoff = SHOW_BACKOFF;
    enum hf_status status = doc_look(slot->doc, deadline, show, &sight, error);
    for (int tries = 1; worth_another_look(status) && tries < SHOW_TRIES_MAX; tries++) {
        env_sleep(env, env_jitter(env, backoff));
        backoff.us *= 2;
        if (!mono_before(env_now(env), deadline))
            break;
        status = doc_look(slot->doc, deadline, show, &sight, error);
    }
    if (status == HF_OK) {
        *error = sight.error;
        return sight.error.status;
    }
    if (status == HF_NOT_FOUND)
        return no_catalog(slot, error);
    if (status == HF_CORRUPT || status == HF_UNSUPPORTED)
        name_damaged(slot, error);
    return status;
}

/* ---- Changing ------------------------------------------------------------------------ */

/* An operation on a catalog, as an operation on its document. */
struct slot_op {
    struct doc_op op;
    const struct slot *slot;
    struct catalog_op *asked;
};

static enum hf_status apply(struct doc_op *op, void *argument, const struct evidence *evidence)
{
    struct slot_op *change = (struct slot_op *)(void *)op;
    struct body *body = argument;
    if (!body->catalog)
        return no_catalog(change->slot, &op->error);
    enum hf_status status = check_own(change->slot, body->catalog, &op->error);
    if (status != HF_OK)
        return status;
    status = catalog_apply(body->catalog, change->asked, evidence);
    op->changed = change->asked->changed;
    op->found = change->asked->already;
    op->error = change->asked->error;
    return status;
}

enum hf_status slot_apply(struct slot *slot, struct catalog_op *op, struct mono_time deadline)
{
    struct env *env = slot->shelf->env;
    struct slot_op change = { .op = { .apply = apply }, .slot = slot, .asked = op };
    change.op.deadline = deadline.us > 0 ? deadline : mono_add(env_now(env), SHELF_PATIENCE);
    enum hf_status status = doc_update(slot->doc, &change.op);
    op->error = change.op.error;
    if (change.op.answer == DOC_DAMAGED)
        name_damaged(slot, &op->error);
    return status;
}

/* ---- Making the first one ------------------------------------------------------------ */

struct create_op {
    struct doc_op op;
    const struct slot *slot;
    bool has_chunks; /* though there is no catalog */
    const struct compact_settings *settings;
};

static enum hf_status apply_create(struct doc_op *op, void *argument,
                                   const struct evidence *evidence)
{
    (void)evidence;
    struct create_op *create = (struct create_op *)(void *)op;
    struct body *body = argument;
    if (body->catalog) {
        enum hf_status status = check_own(create->slot, body->catalog, &op->error);
        if (status != HF_OK)
            return status;
        if (compact_settings_equal(&body->catalog->settings, create->settings))
            return HF_OK;
        return error_set(
            &op->error, HF_CONFLICT,
            "there is a catalog already, with other settings: change them with compact set");
    }
    struct view partition = view_of(create->slot->partition);
    if (create->has_chunks)
        return error_set(&op->error, HF_CONFLICT,
                         "there are chunks under " LAYOUT_DATA_FOLDER "%.*s/ whose catalog is "
                         "gone: bring that back, or move them away first",
                         VIEW_ARGS(partition));
    enum hf_status status = catalog_new(partition, /* parent */ VIEW(""), /* depth */ 0,
                                        create->settings, &body->catalog, &op->error);
    op->changed = status == HF_OK;
    return status;
}

#define LIST_TRIES_MAX 5
#define LIST_WAIT      SPAN_MS(100)

/* A new catalog would not know chunks that are there, and fsck would take them for nobody's. */
static enum hf_status look_for_chunks(struct shelf *shelf, bool *ret_found,
                                      struct hf_error *error)
{
    char prefix[sizeof LAYOUT_DATA_FOLDER + PARTITION_BYTES_MAX + 1];
    snprintf(prefix, sizeof prefix, LAYOUT_DATA_FOLDER "%s/", shelf->partition);
    enum hf_status status = HF_UNAVAILABLE;
    for (int i = 0; i < LIST_TRIES_MAX && status == HF_UNAVAILABLE; i++) {
        struct list_call list = { .prefix = view_of(prefix), .max = 1 };
        if (i > 0)
            env_sleep(shelf->env, env_jitter(shelf->env, LIST_WAIT));
        status = store_list(shelf->store, &list);
        *ret_found = status == HF_OK && list.count > 0;
        *error = list.error;
        list_release(&list);
    }
    return status;
}

enum hf_status shelf_create(struct shelf *shelf, const struct compact_settings *settings,
                            struct hf_error *error)
{
    struct slot *slot;
    bool has_chunks = false;
    client_active(shelf->client);
    enum hf_status status = compact_settings_check(settings, error);
    if (status == HF_OK)
        status = shelf_slot(shelf, view_of(shelf->partition), &slot, error);
    if (status == HF_OK)
        status = look_for_chunks(shelf, &has_chunks, error);
    if (status != HF_OK)
        return status;
    struct create_op create = { .op = { .apply = apply_create },
                                .slot = slot,
                                .has_chunks = has_chunks,
                                .settings = settings };
    create.op.deadline = mono_add(env_now(shelf->env), SHELF_PATIENCE);
    status = doc_update(slot->doc, &create.op);
    *error = create.op.error;
    if (create.op.answer == DOC_DAMAGED)
        name_damaged(slot, error);
    return status;
}

/* ---- The tree ------------------------------------------------------------------------ */

static void no_look(void *argument, const struct catalog *catalog,
                    const struct evidence *evidence)
{
    (void)argument;
    (void)catalog;
    (void)evidence;
}

static bool copy_route(struct slot *slot, struct slot_route *ret_route)
{
    env_mutex_lock(&slot->shelf->mutex);
    *ret_route = slot->route;
    env_mutex_unlock(&slot->shelf->mutex);
    return ret_route->known;
}

/* A copy of what we know; asks the store only when we never saw it. */
static enum hf_status route_of(struct slot *slot, struct slot_route *ret_route,
                               struct hf_error *error)
{
    if (copy_route(slot, ret_route))
        return HF_OK;
    enum hf_status status = slot_show(slot, no_look, NULL, error);
    check(status != HF_OK || copy_route(slot, ret_route));
    return status;
}

enum hf_status shelf_home(struct shelf *shelf, struct view key_seed, int64_t min_ms,
                          char ret_partition[PARTITION_BYTES_MAX + 1], struct hf_error *error)
{
    char partition[PARTITION_BYTES_MAX + 1];
    snprintf(partition, sizeof partition, "%s", shelf->partition);
    for (unsigned depth = 0; depth <= SHELF_DEPTH_MAX; depth++) {
        struct slot *slot;
        struct slot_route route;
        enum hf_status status = shelf_slot(shelf, view_of(partition), &slot, error);
        if (status == HF_OK)
            status = route_of(slot, &route, error);
        if (status != HF_OK)
            return status;
        if (route.child_count == 0) {
            memcpy(ret_partition, partition, sizeof partition);
            return HF_OK;
        }
        unsigned child = split_route(view_of(partition), route.split_by, key_seed, min_ms);
        memcpy(partition, route.children[child], sizeof partition);
    }
    return error_set(error, HF_CORRUPT, "the catalogs of %s are more than %d deep",
                     shelf->partition, SHELF_DEPTH_MAX);
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

enum hf_status slot_files_above(struct slot *slot, const struct view *file_ids, size_t count,
                                bool *known, struct hf_error *error)
{
    struct file_look look = { file_ids, count, known };
    struct slot_route route;
    enum hf_status status = route_of(slot, &route, error);
    for (unsigned depth = 0; status == HF_OK && route.parent[0]; depth++) {
        if (depth > SHELF_DEPTH_MAX)
            return error_set(error, HF_CORRUPT, "the catalogs of %s are more than %d deep",
                             slot->shelf->partition, SHELF_DEPTH_MAX);
        struct slot *parent = NULL;
        status = shelf_slot(slot->shelf, view_of(route.parent), &parent, error);
        if (status == HF_OK && RULE(PARENTS_KNOW_THE_FILE))
            status = slot_show(parent, look_for_files, &look, error);
        if (status == HF_OK)
            status = route_of(parent, &route, error);
    }
    return status;
}

/* One catalog of a walk. */
struct walk {
    struct shelf *shelf;
    shelf_visit *visit;
    void *argument;
    struct queued *first, *last;
    size_t count;            /* ever queued */
    shelf_between *between;  /* may be NULL */
    struct queued *at;       /* the one that is being visited */
    struct slot_route route; /* of that one */
    enum hf_status ended;    /* by the visitor */
    struct hf_error why;     /* it is not what it should be */
};

struct queued {
    struct slot *slot;
    struct slot *parent; /* NULL: none */
    unsigned depth;
    struct queued *next;
};

static enum hf_status queue(struct walk *walk, struct view partition, struct slot *parent,
                            unsigned depth, struct hf_error *error)
{
    struct slot *slot = NULL;
    if (walk->count >= SHELF_CATALOGS_MAX)
        return error_set(error, HF_UNAVAILABLE, "%s has more than %d catalogs",
                         walk->shelf->partition, SHELF_CATALOGS_MAX);
    enum hf_status status = shelf_slot(walk->shelf, partition, &slot, error);
    if (status != HF_OK)
        return status;
    struct queued *queued = malloc(sizeof *queued);
    if (!queued)
        return error_no_memory(error);
    *queued = (struct queued){ .slot = slot, .parent = parent, .depth = depth };
    if (walk->last)
        walk->last->next = queued;
    else
        walk->first = queued;
    walk->last = queued;
    walk->count++;
    return HF_OK;
}

/* A child says whose it is and how deep, so no mistake in a document leads a walk in circles. */
static bool is_child_of(const struct catalog *catalog, const struct queued *at)
{
    struct view parent = at->parent ? view_of(at->parent->partition) : VIEW("");
    return catalog->depth == at->depth && view_equal(catalog->parent, parent);
}

static void visit_one(void *argument, const struct catalog *catalog,
                      const struct evidence *evidence)
{
    struct walk *walk = argument;
    if (!is_child_of(catalog, walk->at)) {
        error_set(&walk->why, HF_CORRUPT, "the catalog of %s does not belong where it is named",
                  walk->at->slot->partition);
        return;
    }
    const struct hf_error fine = { .status = HF_OK };
    read_route(catalog, &walk->route);
    walk->ended = walk->visit(walk->argument, walk->at->slot, catalog, evidence, &fine);
}

/* What a catalog says of itself, and does to itself only. */
static bool is_its_own_trouble(enum hf_status status, const struct queued *at)
{
    return status == HF_CORRUPT || status == HF_UNSUPPORTED ||
           (status == HF_NOT_FOUND && at->parent);
}

static enum hf_status queue_children(struct walk *walk, const struct queued *at,
                                     struct hf_error *error)
{
    enum hf_status status = HF_OK;
    if (walk->route.child_count > 0 && at->depth >= SHELF_DEPTH_MAX)
        return error_set(error, HF_CORRUPT, "the catalogs of %s are more than %d deep",
                         walk->shelf->partition, SHELF_DEPTH_MAX);
    for (size_t i = 0; i < walk->route.child_count && status == HF_OK; i++)
        status = queue(walk, view_of(walk->route.children[i]), at->slot, at->depth + 1, error);
    return status;
}

/* Visits one, and puts its children in line. `error` is left alone when the visitor ends it. */
static enum hf_status walk_one(struct walk *walk, struct queued *at, struct hf_error *error)
{
    struct hf_error why;
    walk->at = at;
    error_clear(&walk->why);
    enum hf_status status = slot_show(at->slot, visit_one, walk, &why);
    if (status == HF_OK && walk->why.status != HF_OK) {
        why = walk->why;
        status = why.status;
    }
    if (status == HF_OK && walk->ended == HF_OK && walk->between)
        walk->ended = walk->between(walk->argument, at->slot);
    if (status == HF_OK)
        return walk->ended != HF_OK ? walk->ended : queue_children(walk, at, error);
    if (!is_its_own_trouble(status, at)) {
        *error = why;
        return status;
    }
    struct evidence evidence = { .nonce = VIEW("") };
    clock_evidence(&walk->shelf->client->clock, &evidence);
    return walk->visit(walk->argument, at->slot, /* catalog */ NULL, &evidence, &why);
}

enum hf_status shelf_walk(struct shelf *shelf, shelf_visit *visit, void *argument,
                          struct hf_error *error)
{
    return shelf_walk_slowly(shelf, visit, /* between */ NULL, argument, error);
}

enum hf_status shelf_walk_slowly(struct shelf *shelf, shelf_visit *visit,
                                 shelf_between *between, void *argument, struct hf_error *error)
{
    struct walk walk = {
        .shelf = shelf, .visit = visit, .between = between, .argument = argument
    };
    error_clear(error);
    enum hf_status status =
        queue(&walk, view_of(shelf->partition), /* parent */ NULL, /* depth */ 0, error);
    while (walk.first) {
        struct queued *at = walk.first;
        walk.first = at->next;
        if (!walk.first)
            walk.last = NULL;
        if (status == HF_OK)
            status = walk_one(&walk, at, error);
        free(at);
    }
    if (status != HF_OK && error->status == HF_OK) /* the visitor did not say why */
        error_set(error, status, "%s", hf_status_text(status));
    return status;
}
