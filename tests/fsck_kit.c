/* SPDX-License-Identifier: Apache-2.0 */
/* fsck_kit.c: builds a valid bucket, and makes each fault that fsck can find. */
#include "fsck_kit.h"

#include "compact/catalog/chunk_object.h"

#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>

#define AT_MS   INT64_C(1763200000000)
#define DAYS_MS INT64_C(86400000)

static void add_item(struct items *items, enum hf_fsck_kind kind, struct view key,
                     bool repaired)
{
    ASSERT(items->count < ITEMS_MAX);
    struct item *item = &items->items[items->count++];
    item->kind = kind;
    item->repaired = repaired;
    snprintf(item->key, sizeof item->key, "%.*s", VIEW_ARGS(key));
}

static bool is_made(const struct scene *scene, enum hf_fsck_kind kind, struct view key)
{
    const struct items *made = &scene->made;
    for (size_t i = 0; i < made->count; i++)
        if (made->items[i].kind == kind && view_equal(view_of(made->items[i].key), key))
            return true;
    return false;
}

static struct fate fail_bad_sectors(void *argument, struct script_call *call)
{
    bool bad = is_made(argument, HF_FSCK_UNREADABLE_OBJECT, call->key);
    return bad ? REFUSE(HF_UNAVAILABLE) : PASS;
}

/* As a store that dates its replies would show strays of three days ago. */
static void date_back_strays(void *argument, struct script_call *call)
{
    struct scene *scene = argument;
    if (scene->long_ago) {
        scene->bent.base.traits.clock = STORE_CLOCK_DATE;
        call->list->stamp = (struct store_stamp){ .known = true, .date = env_wall(env_real()) };
    }
    for (size_t i = 0; i < call->list->count && scene->long_ago; i++)
        if (is_made(scene, HF_FSCK_STRAY_CATALOG, call->list->entries[i].key))
            call->list->entries[i].info.modified.us -= 3 * DAYS_MS * 1000;
}

/* ---- Partitions and chunks ----------------------------------------------------------- */

struct compact_settings settings_of_test(void)
{
    struct compact_settings settings = compact_settings_default();
    settings.format = HF_MERGE_NDJSON;
    settings.key = VIEW("k");
    settings.grace_ms = 3600000;
    return settings;
}

void create(struct scene *scene, const char *partition, const struct compact_settings *settings)
{
    struct compact_settings usual = settings_of_test();
    struct hf_error error;
    struct catalog_tree *tree;
    MUST(catalog_tree_open(&scene->peer.way.base, scene->peer.client, view_of(partition), &tree,
                           &error));
    MUST(catalog_tree_create(tree, settings ? settings : &usual, &error));
    catalog_tree_close(tree);
}

const char *draw_partition(struct scene *scene, char name[PARTITION_BYTES_MAX + 1])
{
    snprintf(name, PARTITION_BYTES_MAX + 1, "part-%u", scene->partitions++);
    return name;
}

void apply(struct scene *scene, const char *partition, struct catalog_op *op)
{
    struct hf_error error;
    struct catalog_tree *tree;
    struct catalog_ref *ref;
    MUST(catalog_tree_open(&scene->peer.way.base, scene->peer.client, view_of(partition), &tree,
                           &error));
    MUST(catalog_tree_ref(tree, view_of(partition), &ref, &error));
    enum hf_status status = catalog_ref_apply(ref, op, (struct mono_time){ 0 });
    must(status, &op->error, "slot_apply", __LINE__);
    catalog_tree_close(tree);
}

void draw_chunk(struct scene *scene, const char *partition, unsigned level,
                struct made_chunk *made)
{
    struct compact_settings settings = settings_of_test();
    struct hf_error error;
    unsigned rows = 1 + (unsigned)prng_below(&scene->prng, 9);
    size_t size = 0;
    MUST(chunk_key_draw(
        env_real(), &(struct chunk_key_parts){ view_of(partition), level, AT_MS, &settings },
        made->key, &made->drawn, &error));
    for (unsigned i = 0; i < rows; i++)
        size += (size_t)snprintf(made->body + size, sizeof made->body - size,
                                 "{\"k\":\"%08x-%u\"}\n", (unsigned)prng_next(&scene->prng), i);
    made->chunk = (struct chunk){
        .key = view_of(made->key),
        .level = level,
        .size = size,
        .rows_known = true,
        .rows = rows,
        .min_ms = AT_MS,
        .max_ms = AT_MS + 1000,
        .writer = VIEW("w"),
        .crc32c = crc32c(0, view_of(made->body)),
    };
}

void put_chunk(struct scene *scene, const struct made_chunk *made)
{
    world_write(&scene->world, made->key, view_of(made->body));
}

void add_chunk(struct scene *scene, const char *partition, const struct made_chunk *made)
{
    struct catalog_op op = {
        .kind = CATALOG_ADD, .chunks = &made->chunk, .chunk_count = 1, .drawn = made->drawn
    };
    apply(scene, partition, &op);
}

/* A live chunk and its object. */
void make_chunk(struct scene *scene, const char *partition, struct made_chunk *made)
{
    draw_chunk(scene, partition, 0, made);
    put_chunk(scene, made);
    add_chunk(scene, partition, made);
}

void merge_two(struct scene *scene, const char *partition, const struct made_chunk sources[2],
               struct made_chunk *target)
{
    draw_chunk(scene, partition, 1, target);
    put_chunk(scene, target);
    struct view keys[2] = { sources[0].chunk.key, sources[1].chunk.key };
    struct catalog_op op = { .kind = CATALOG_COMMIT,
                             .keys = keys,
                             .key_count = 2,
                             .target = target->chunk,
                             .drawn = target->drawn };
    apply(scene, partition, &op);
}

void make_merged(struct scene *scene, const char *partition, struct made_chunk sources[2],
                 struct made_chunk *target)
{
    for (int i = 0; i < 2; i++)
        make_chunk(scene, partition, &sources[i]);
    merge_two(scene, partition, sources, target);
}

static void delete_object(struct scene *scene, const char *key)
{
    struct delete_call call = { .key = view_of(key) };
    must(store_delete(scene->world.truth, &call), &call.error, key, __LINE__);
}

void split(struct scene *scene, const char *partition)
{
    struct hf_error error;
    struct catalog_tree *tree;
    struct catalog_ref *ref;
    MUST(catalog_tree_open(&scene->peer.way.base, scene->peer.client, view_of(partition), &tree,
                           &error));
    MUST(catalog_tree_ref(tree, view_of(partition), &ref, &error));
    MUST(catalog_ref_split(ref, &error));
    catalog_tree_close(tree);
}

void catalog_of(const char *partition, char key[KEY_BYTES_MAX + 1])
{
    assert_true(layout_partition_key(view_of(partition), LAYOUT_CATALOG, key));
}

/* Writes a catalog with one chunk of another catalog (or none), as no transition would. */
static void write_catalog(struct scene *scene, const char *partition, const char *parent,
                          const struct catalog *from, const struct chunk *chunk)
{
    struct compact_settings settings = settings_of_test();
    struct buffer text = BUFFER_INIT(CATALOG_BYTES_READ_MAX);
    char key[KEY_BYTES_MAX + 1];
    struct catalog *catalog;
    struct hf_error error;
    MUST(catalog_new(view_of(partition), view_of(parent), *parent ? 1 : 0, &settings, &catalog,
                     &error));
    if (from) {
        MUST(catalog_copy_entry(catalog, chunk, &error));
        MUST(catalog_inherit(catalog, from, &error));
    }
    assert_true(catalog_encode(catalog, VIEW("0123456789abcdef0123456789abcdef"), &text));
    catalog_of(partition, key);
    world_write(&scene->world, key, buffer_view(&text));
    buffer_release(&text);
    catalog_free(catalog);
}

void merge_catalog(struct scene *scene, const char *partition, const char *parent)
{
    write_catalog(scene, partition, parent, NULL, NULL);
}

/* Copies the entry of a live chunk from its catalog. */
struct borrowing {
    struct scene *scene;
    struct view key;
    const char *partition, *parent;
};

static void merge_copy(void *argument, const struct catalog *catalog,
                       const struct evidence *evidence)
{
    (void)evidence;
    struct borrowing *borrowing = argument;
    const struct chunk *chunk = catalog_find(catalog, borrowing->key);
    ASSERT(chunk);
    write_catalog(borrowing->scene, borrowing->partition, borrowing->parent, catalog, chunk);
}

void copy_into(struct scene *scene, const char *from, struct view chunk, const char *partition,
               const char *parent)
{
    struct borrowing borrowing = { scene, chunk, partition, parent };
    struct hf_error error;
    struct catalog_tree *tree;
    struct catalog_ref *ref;
    MUST(catalog_tree_open(&scene->peer.way.base, scene->peer.client, view_of(from), &tree,
                           &error));
    MUST(catalog_tree_ref(tree, view_of(from), &ref, &error));
    MUST(catalog_ref_show(ref, merge_copy, &borrowing, &error));
    catalog_tree_close(tree);
}

/* ---- Faults -------------------------------------------------------------------------- */

void note(struct scene *scene, enum hf_fsck_kind kind, const char *key)
{
    add_item(&scene->made, kind, view_of(key), false);
}

static void lose_object(struct scene *scene)
{
    struct made_chunk made;
    make_chunk(scene, "default", &made);
    delete_object(scene, made.key);
    note(scene, HF_FSCK_MISSING_OBJECT, made.key);
}

static void cut_object(struct scene *scene)
{
    struct made_chunk made;
    make_chunk(scene, "default", &made);
    size_t size = prng_below(&scene->prng, made.chunk.size);
    world_write(&scene->world, made.key, (struct view){ made.body, size });
    note(scene, HF_FSCK_WRONG_SIZE, made.key);
}

static void flip_a_bit(struct scene *scene)
{
    struct made_chunk made;
    make_chunk(scene, "default", &made);
    made.body[prng_below(&scene->prng, made.chunk.size)] ^=
        (char)(1 << prng_below(&scene->prng, 7));
    world_write(&scene->world, made.key, (struct view){ made.body, made.chunk.size });
    note(scene, HF_FSCK_WRONG_CHECKSUM, made.key);
}

static void count_wrong(struct scene *scene)
{
    struct made_chunk made;
    draw_chunk(scene, "default", 0, &made);
    made.chunk.rows += prng_below(&scene->prng, 2) ? 1 : UINT64_MAX;
    put_chunk(scene, &made);
    add_chunk(scene, "default", &made);
    note(scene, HF_FSCK_WRONG_ROWS, made.key);
}

/* An adopted object, which its owner then rewrites with equally many bytes. */
static void rewrite_object(struct scene *scene)
{
    struct made_chunk made;
    char object[64], file_id[FILE_ID_DIGITS + 1];
    draw_chunk(scene, "default", 0, &made);
    snprintf(object, sizeof object, "raw/%u.ndjson", scene->partitions++);
    world_write(&scene->world, object, view_of(made.body));
    struct list_call list = { .prefix = view_of(object), .max = 1 };
    must(store_list(scene->world.truth, &list), &list.error, object, __LINE__);
    made.chunk.object = view_of(object);
    made.chunk.etag = etag_view(&list.entries[0].info.etag);
    object_identity(made.chunk.object, made.chunk.etag, file_id);
    made.chunk.file_id = view_of(file_id);
    add_chunk(scene, "default", &made);
    list_release(&list);
    world_write(&scene->world, object, view_of(made.body));
    note(scene, HF_FSCK_REWRITTEN, made.key);
}

static void break_object(struct scene *scene)
{
    struct made_chunk made;
    make_chunk(scene, "default", &made);
    note(scene, HF_FSCK_UNREADABLE_OBJECT, made.key);
}

static void lose_tombstone(struct scene *scene)
{
    struct made_chunk sources[2], target;
    make_merged(scene, "default", sources, &target);
    size_t which = prng_below(&scene->prng, 2);
    delete_object(scene, sources[which].key);
    note(scene, HF_FSCK_MISSING_TOMBSTONE, sources[which].key);
}

static void leave_object(struct scene *scene)
{
    struct made_chunk made;
    draw_chunk(scene, "default", (unsigned)prng_below(&scene->prng, 3), &made);
    put_chunk(scene, &made);
    note(scene, HF_FSCK_UNREFERENCED, made.key);
}

static void leave_foreign(struct scene *scene)
{
    char key[64];
    switch (prng_below(&scene->prng, 3)) {
    case 0: snprintf(key, sizeof key, "data/notes-%u.txt", scene->partitions++); break;
    case 1: snprintf(key, sizeof key, "data/default/L0/%u.ndjson", scene->partitions++); break;
    default: snprintf(key, sizeof key, "data/x/2026/%u/x", scene->partitions++); break;
    }
    world_write(&scene->world, key, VIEW("hello\n"));
    note(scene, HF_FSCK_FOREIGN, key);
}

static void land_late(struct scene *scene)
{
    struct made_chunk made;
    draw_chunk(scene, "default", 1, &made);
    struct catalog_op condemn = { .kind = CATALOG_CONDEMN,
                                  .keys = &made.chunk.key,
                                  .key_count = 1 };
    apply(scene, "default", &condemn);
    struct catalog_op done = { .kind = CATALOG_MAINTAIN,
                               .done = &made.chunk.key,
                               .done_count = 1 };
    apply(scene, "default", &done);
    put_chunk(scene, &made);
    note(scene, HF_FSCK_LINGERING, made.key);
}

/* Picks one of the children. */
struct childing {
    unsigned which;
    char name[PARTITION_BYTES_MAX + 1];
};

static void name_child(void *argument, const struct catalog *catalog,
                       const struct evidence *evidence)
{
    (void)evidence;
    struct childing *childing = argument;
    ASSERT(catalog->child_count == CATALOG_CHILDREN);
    snprintf(childing->name, sizeof childing->name, "%.*s",
             VIEW_ARGS(catalog->children[childing->which]));
}

static struct childing child_of(struct scene *scene, const char *partition, unsigned which)
{
    struct childing childing = { .which = which % CATALOG_CHILDREN };
    struct hf_error error;
    struct catalog_tree *tree;
    struct catalog_ref *ref;
    MUST(catalog_tree_open(&scene->peer.way.base, scene->peer.client, view_of(partition), &tree,
                           &error));
    MUST(catalog_tree_ref(tree, view_of(partition), &ref, &error));
    MUST(catalog_ref_show(ref, name_child, &childing, &error));
    catalog_tree_close(tree);
    return childing;
}

static void cut_catalog(struct scene *scene)
{
    char partition[PARTITION_BYTES_MAX + 1], key[KEY_BYTES_MAX + 1];
    struct made_chunk made;
    create(scene, draw_partition(scene, partition), NULL);
    make_chunk(scene, partition, &made);
    catalog_of(partition, key);
    char *text = world_text(&scene->world, key);
    ASSERT(text);
    world_write(&scene->world, key, view_first(view_of(text), strlen(text) / 2));
    free(text);
    note(scene, HF_FSCK_BAD_CATALOG, key);
}

/* A child that names the wrong parent. */
static void disown_catalog(struct scene *scene)
{
    char partition[PARTITION_BYTES_MAX + 1], key[KEY_BYTES_MAX + 1];
    create(scene, draw_partition(scene, partition), NULL);
    split(scene, partition);
    struct childing child = child_of(scene, partition, (unsigned)prng_next(&scene->prng));
    merge_catalog(scene, child.name, "default");
    catalog_of(child.name, key);
    note(scene, HF_FSCK_BAD_CATALOG, key);
}

static void spoil_catalog(struct scene *scene)
{
    if (prng_below(&scene->prng, 2))
        cut_catalog(scene);
    else
        disown_catalog(scene);
}

static void lose_catalog(struct scene *scene)
{
    char partition[PARTITION_BYTES_MAX + 1], key[KEY_BYTES_MAX + 1];
    create(scene, draw_partition(scene, partition), NULL);
    for (int i = 0; i < 12; i++) {
        struct made_chunk made;
        make_chunk(scene, partition, &made);
    }
    split(scene, partition);
    catalog_of(child_of(scene, partition, (unsigned)prng_next(&scene->prng)).name, key);
    if (prng_below(&scene->prng, 2)) /* its children name it too */
        catalog_of(partition, key);
    delete_object(scene, key);
    note(scene, HF_FSCK_MISSING_CATALOG, key);
}

void draw_id(struct scene *scene, char id[PARTITION_BYTES_MAX + 1])
{
    snprintf(id, PARTITION_BYTES_MAX + 1, "%016llx%016llx",
             (unsigned long long)prng_next(&scene->prng),
             (unsigned long long)prng_next(&scene->prng));
}

static void leave_stray(struct scene *scene)
{
    struct made_chunk made;
    char id[PARTITION_BYTES_MAX + 1], key[KEY_BYTES_MAX + 1];
    make_chunk(scene, "default", &made);
    draw_id(scene, id);
    copy_into(scene, "default", made.chunk.key, id, "default");
    catalog_of(id, key);
    note(scene, HF_FSCK_STRAY_CATALOG, key);
}

static void have_twice(struct scene *scene)
{
    struct made_chunk made;
    char partition[PARTITION_BYTES_MAX + 1];
    make_chunk(scene, "default", &made);
    create(scene, draw_partition(scene, partition), NULL);
    split(scene, partition);
    struct childing child = child_of(scene, partition, (unsigned)prng_next(&scene->prng));
    copy_into(scene, "default", made.chunk.key, child.name, partition);
    note(scene, HF_FSCK_TWICE, made.key);
}

/* A chunk in the tree of another partition, which its own partition does not know. */
static void lead_astray(struct scene *scene)
{
    struct made_chunk made;
    char partition[PARTITION_BYTES_MAX + 1], other[PARTITION_BYTES_MAX + 1];
    create(scene, draw_partition(scene, partition), NULL);
    split(scene, partition);
    create(scene, draw_partition(scene, other), NULL);
    make_chunk(scene, other, &made);
    struct childing child = child_of(scene, partition, (unsigned)prng_next(&scene->prng));
    copy_into(scene, other, made.chunk.key, child.name, partition);
    merge_catalog(scene, other, "");
    note(scene, HF_FSCK_WRONG_HOME, made.key);
}

/* A chunk in another child than the one that its home names. */
static void swap_child(struct scene *scene)
{
    struct made_chunk made;
    char partition[PARTITION_BYTES_MAX + 1];
    create(scene, draw_partition(scene, partition), NULL);
    make_chunk(scene, partition, &made);
    unsigned which = split_route(view_of(partition), SPLIT_BY_KEY, made.chunk.key, AT_MS);
    split(scene, partition);
    struct childing right = child_of(scene, partition, which);
    struct childing wrong = child_of(scene, partition, which + 1);
    copy_into(scene, right.name, made.chunk.key, wrong.name, partition);
    merge_catalog(scene, right.name, partition);
    note(scene, HF_FSCK_WRONG_HOME, made.key);
}

static void misplace(struct scene *scene)
{
    if (prng_below(&scene->prng, 2))
        lead_astray(scene);
    else
        swap_child(scene);
}

/* A lease to merge a chunk into an output of this partition. */
static struct hf_lock *lease(struct scene *scene, const struct made_chunk *source,
                             const char *partition, struct made_chunk *output)
{
    char scope[KEY_BYTES_MAX + 16];
    struct hf_error error;
    draw_chunk(scene, partition, 1, output);
    snprintf(scope, sizeof scope, "chunk:%s", source->key);
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.output = output->key;
    struct hf_lock *lock = lock_with(&scene->peer, scope, &options);
    MUST(hf_lock_acquire(lock, 0, &error));
    return lock;
}

static void leave_lease(struct scene *scene)
{
    struct made_chunk source, output;
    struct hf_error error;
    make_chunk(scene, "default", &source);
    struct hf_lock *lock = lease(scene, &source, "default", &output);
    if (prng_below(&scene->prng, 2))
        put_chunk(scene, &output);
    MUST(hf_lock_fail(lock, "{\"blame\":\"nobody\",\"why\":\"a test\"}", &error));
    hf_lock_free(lock);
    note(scene, HF_FSCK_UNSETTLED_LEASE, output.key);
}

static void spoil_leases(struct scene *scene)
{
    char partition[PARTITION_BYTES_MAX + 1], key[KEY_BYTES_MAX + 1];
    create(scene, draw_partition(scene, partition), NULL);
    assert_true(layout_partition_key(view_of(partition), LAYOUT_LEASES, key));
    world_write(&scene->world, key, VIEW("{ \"format\": \"holdfast.leases/1\", "));
    note(scene, HF_FSCK_BAD_LEASES, key);
}

static void (*const faults[HF_FSCK_KIND_COUNT])(struct scene *scene) = {
    [HF_FSCK_MISSING_OBJECT] = lose_object,
    [HF_FSCK_WRONG_SIZE] = cut_object,
    [HF_FSCK_WRONG_CHECKSUM] = flip_a_bit,
    [HF_FSCK_WRONG_ROWS] = count_wrong,
    [HF_FSCK_UNREADABLE_OBJECT] = break_object,
    [HF_FSCK_MISSING_TOMBSTONE] = lose_tombstone,
    [HF_FSCK_UNREFERENCED] = leave_object,
    [HF_FSCK_FOREIGN] = leave_foreign,
    [HF_FSCK_LINGERING] = land_late,
    [HF_FSCK_BAD_CATALOG] = spoil_catalog,
    [HF_FSCK_MISSING_CATALOG] = lose_catalog,
    [HF_FSCK_STRAY_CATALOG] = leave_stray,
    [HF_FSCK_TWICE] = have_twice,
    [HF_FSCK_WRONG_HOME] = misplace,
    [HF_FSCK_UNSETTLED_LEASE] = leave_lease,
    [HF_FSCK_BAD_LEASES] = spoil_leases,
    [HF_FSCK_REWRITTEN] = rewrite_object,
};

void make_fault(struct scene *scene, enum hf_fsck_kind kind)
{
    assert_non_null(faults[kind]);
    faults[kind](scene);
}

/* ---- Looking ------------------------------------------------------------------------- */

static void tell(void *argument, const struct fsck_finding *finding)
{
    struct scene *scene = argument;
    ASSERT(finding->why && finding->why[0] && finding->repair);
    add_item(&scene->found, finding->kind, finding->key, finding->repaired);
}

static bool go_on(void *argument, uint64_t done, uint64_t total, uint64_t bytes)
{
    (void)bytes;
    struct scene *scene = argument;
    ASSERT(done <= total || total == 0);
    return !scene->cancelled;
}

enum hf_status try_fsck(struct scene *scene, const char *partition, struct fsck_options options,
                        struct hf_error *error)
{
    options.tell = tell;
    options.go_on = go_on;
    options.argument = scene;
    scene->found.count = 0;
    return fsck_run(&scene->bent.base, scene->peer.client, view_of(partition), &options,
                    &scene->report, error);
}

void fsck(struct scene *scene, struct fsck_options options)
{
    struct hf_error error;
    MUST(try_fsck(scene, "", options, &error));
    ASSERT(scene->report.found == scene->found.count);
}

int by_kind_and_key(const void *left, const void *right)
{
    const struct item *a = left, *b = right;
    return a->kind != b->kind ? (a->kind > b->kind) - (a->kind < b->kind)
                              : strcmp(a->key, b->key);
}

void show_items(const char *what, const struct items *items)
{
    fprintf(stderr, "# %s:\n", what);
    for (size_t i = 0; i < items->count; i++)
        fprintf(stderr, "#   %s %s%s\n", hf_fsck_kind_name(items->items[i].kind),
                items->items[i].key, items->items[i].repaired ? " (repaired)" : "");
}

static bool same_items(struct items *a, struct items *b)
{
    bool same = a->count == b->count;
    qsort(a->items, a->count, sizeof a->items[0], by_kind_and_key);
    qsort(b->items, b->count, sizeof b->items[0], by_kind_and_key);
    for (size_t i = 0; i < a->count && same; i++)
        same = by_kind_and_key(&a->items[i], &b->items[i]) == 0;
    return same;
}

void found_what_was_made(struct scene *scene, int line)
{
    if (same_items(&scene->made, &scene->found))
        return;
    show_items("made", &scene->made);
    show_items("found", &scene->found);
    FAIL("line %d: what was found is not what was made", line);
}
/* ---- Scenes -------------------------------------------------------------------------- */

/* Leases: one is completed; the others are held, with their outputs already put, by clients
 * that are about to commit them. */
static void furnish_leases(struct scene *scene, const struct made_chunk sources[2])
{
    struct made_chunk output;
    struct hf_error error;
    struct hf_lock *lock = lease(scene, &sources[0], "default", &output);
    MUST(hf_lock_complete(lock, NULL, &error));
    hf_lock_free(lock);
    scene->held[0] = lease(scene, &sources[0], "default", &output);
    put_chunk(scene, &output);
    scene->held[1] = lease(scene, &sources[1], child_of(scene, "logs", 5).name, &output);
    put_chunk(scene, &output);
}

/* A condemned chunk whose object has not been deleted yet. */
static void furnish_condemned(struct scene *scene)
{
    struct made_chunk made;
    draw_chunk(scene, "default", 1, &made);
    struct catalog_op condemn = { .kind = CATALOG_CONDEMN,
                                  .keys = &made.chunk.key,
                                  .key_count = 1 };
    apply(scene, "default", &condemn);
    put_chunk(scene, &made);
}

static void furnish(struct scene *scene)
{
    struct made_chunk sources[2], target, leased[2];
    create(scene, "default", NULL);
    create(scene, "logs", NULL);
    for (int i = 0; i < 6; i++)
        make_chunk(scene, i < 2 ? "default" : "logs", &target);
    make_chunk(scene, "default", &leased[0]);
    make_chunk(scene, "logs", &leased[1]);
    make_merged(scene, "default", sources, &target);
    make_merged(scene, "logs", sources, &target);
    split(scene, "logs");
    furnish_leases(scene, leased);
    furnish_condemned(scene);
}

struct scene *scene_open(uint64_t seed)
{
    struct scene *scene = calloc(1, sizeof *scene);
    assert_non_null(scene);
    world_open(&scene->world);
    peer_open(&scene->peer, &scene->world, NULL);
    script_init(&scene->bent, &scene->peer.way.base);
    script_rule(&scene->bent, .on = ON_GET_FILE, .decide = fail_bad_sectors, .argument = scene);
    script_rule(&scene->bent, .on = ON_LIST, .reply = date_back_strays, .argument = scene);
    scene->prng = prng_seeded(seed);
    furnish(scene);
    return scene;
}

void scene_close(struct scene *scene)
{
    for (int i = 0; i < 2; i++)
        hf_lock_free(scene->held[i]);
    store_close(&scene->bent.base);
    peer_close(&scene->peer);
    world_close(&scene->world);
    free(scene);
}

void dump(struct scene *scene, struct buffer *text)
{
    struct list_call list = { .prefix = VIEW("") };
    must(store_list(scene->world.truth, &list), &list.error, "list", __LINE__);
    ASSERT(!list.more);
    for (size_t i = 0; i < list.count; i++) {
        struct get_call get = { .key = list.entries[i].key, .body = text };
        buffer_print(text, "\n%.*s %lld %.*s\n", VIEW_ARGS(list.entries[i].key),
                     (long long)list.entries[i].info.modified.us,
                     VIEW_ARGS(etag_view(&list.entries[i].info.etag)));
        must(store_get(scene->world.truth, &get), &get.error, "get", __LINE__);
    }
    list_release(&list);
    ASSERT(!text->failed);
}
