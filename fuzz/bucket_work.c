/* SPDX-License-Identifier: Apache-2.0 */
/* bucket_work.c: runs every part of the library on a bucket with arbitrary contents. */
#include "bucket_work.h"

#include "base/check.h"
#include "compact/care/pin.h"
#include "compact/fsck/fsck.h"
#include "compact/plan/plan.h"
#include "compact/work/jobs.h"
#include "compact/work/worker.h"
#include "index/compile.h"
#include "index/read.h"
#include "index/stats.h"
#include "key/key.h"
#include "lock/restore.h"
#include "store/bucket.h"
#include "store/observe.h"
#include "sweep/sweep.h"

#include <stdlib.h>

#define TXN_ID       "0123456789abcdef0123456789abcdef"
#define INDEX_NAME   "domains"
#define OBJECT       "obj"
#define WAIT_MS      5000
#define REQUESTS_MAX 100000
#define OBJECTS_MAX  64
#define OBJECT_READ  ((size_t)1 << 20)

static const char *const known_keys[] = {
    LAYOUT_BUCKET_KEY,
    LAYOUT_EPOCH_FOLDER "default.json",
    LAYOUT_EPOCH_COPY_FOLDER "default.json",
    LAYOUT_SWEEP_FOLDER "default.json",
    LAYOUT_SIGHT_FOLDER "default/state/orders/1/1-" TXN_ID,
    "default/meta/deploy.json",
    "default/meta/orders/1.json",
    "default/meta/orders/2.json",
    "default/paths.json",
    "default/inode/7.json",
    "default/state/orders/1/1-" TXN_ID,
    "default/.lease-index/2025010100/meta/deploy.json",
    LAYOUT_TXN_FOLDER TXN_ID,
    LAYOUT_TXN_EXPIRY_FOLDER "2025010100/" TXN_ID,
    OBJECT,
    OBJECT LAYOUT_BODY_FOLDER "1-1-" TXN_ID,
    "metadata/catalog.json",
    "metadata/compaction-leases.json",
    "metadata/compaction-jobs.json",
    "metadata/pause",
    "metadata/eu/catalog.json",
    "data/default/L0/2026/01/" TXN_ID ".usv",
    "indexes/" INDEX_NAME "/index.json",
    "indexes/" INDEX_NAME "/manifest.json",
    "indexes/" INDEX_NAME "/inbox/example.com.usv",
    "indexes/" INDEX_NAME "/inbox/a/example.com~20260206T100000-" TXN_ID ".usv",
    "indexes/" INDEX_NAME "/shards/a.usv",
    "indexes/" INDEX_NAME "/shards/a.lock",
    "roster/compact.default/" TXN_ID,
};
#define KNOWN_KEYS (sizeof known_keys / sizeof *known_keys)

/* ---- The bucket ---------------------------------------------------------------------- */

struct visit {
    struct view objects; /* as the input has them */
    unsigned parts;
    struct env *env;
    struct store *store;
    struct hf_client *client;
    uint64_t requests, writes; /* of the library */
};

static void count_request(void *argument, const struct observation *observation)
{
    struct visit *visit = argument;
    visit->writes += observation->kind == CALL_PUT || observation->kind == CALL_PUT_FILE ||
                     observation->kind == CALL_DELETE;
    check(++visit->requests <= REQUESTS_MAX);
}

/* Keys that no store accepts are skipped. */
static void fill(struct store *store, struct view objects)
{
    for (size_t i = 0; i < OBJECTS_MAX && objects.size > 0; i++) {
        struct view body = view_cut(&objects, '\xff');
        struct view key = view_cut(&body, '\xfe');
        if (key.size == 1)
            key = view_of(known_keys[(unsigned char)key.data[0] % KNOWN_KEYS]);
        struct put_call put = { .key = key, .body = body };
        enum hf_status status = store_put(store, &put);
        check(status == HF_OK || status == HF_INVALID);
    }
}

static void open_bucket(struct visit *visit)
{
    struct store *mem;
    struct hf_error error;
    check(store_open(visit->env, VIEW("mem:"), &mem, &error) == HF_OK);
    fill(mem, visit->objects);
    check(store_observe(mem, (struct observer){ count_request, visit }, &visit->store,
                        &error) == HF_OK);
}

/* Checks that a failure has a sentence. */
static enum hf_status told(enum hf_status status, const struct hf_error *error)
{
    check(status == HF_OK || (error->status == status && error->why[0] != '\0'));
    return status;
}

/* ---- Locks and fenced objects -------------------------------------------------------- */

static enum hf_status ignore_sight(void *argument, const struct table_snapshot *sight,
                                   struct hf_error *error)
{
    (void)argument;
    check(sight->table || (sight->error.status != HF_OK && sight->error.why[0] != '\0'));
    return error_clear(error);
}

static void use_fenced(struct visit *visit, struct hf_lock *lock)
{
    struct hf_error error;
    void *data = NULL;
    size_t size;
    uint64_t token;
    if (told(hf_fenced_get(visit->client, OBJECT, OBJECT_READ, &data, &size, &token, &error),
             &error) == HF_OK)
        free(data);
    if (told(hf_fenced_put(lock, OBJECT, "new", 3, &error), &error) == HF_OK &&
        told(hf_fenced_get(visit->client, OBJECT, OBJECT_READ, &data, &size, &token, &error),
             &error) == HF_OK) {
        check(size == 3 && token == hf_lock_token(lock));
        free(data);
    }
    told(hf_fenced_delete(lock, OBJECT, &error), &error);
}

/* Held by text as well. */
static void use_lock(struct visit *visit, struct hf_lock *lock, bool fenced)
{
    char text[HF_LEASE_TEXT_MAX];
    struct hf_lock *adopted;
    struct hf_error error;
    check(hf_lock_token(lock) > 0);
    told(hf_lock_renew(lock, &error), &error);
    if (fenced)
        use_fenced(visit, lock);
    if (told(hf_lock_text(lock, text, &error), &error) == HF_OK &&
        told(hf_lock_adopt(visit->client, text, NULL, &adopted, &error), &error) == HF_OK)
        hf_lock_detach(adopted);
}

static void hold_lock(struct visit *visit, const char *scope, bool fenced)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct hf_lock *lock;
    struct hf_error error;
    options.ttl_ms = 10000;
    check(hf_lock_new(visit->client, scope, &options, &lock, &error) == HF_OK);
    if (told(hf_lock_acquire(lock, WAIT_MS, &error), &error) == HF_OK) {
        use_lock(visit, lock, fenced);
        told(hf_lock_complete(lock, "{}", &error), &error);
    }
    hf_lock_free(lock);
}

static void use_locks(struct visit *visit)
{
    struct table_reader look;
    struct hf_error error;
    table_reader_init(&look, visit->client);
    told(table_reader_list(&look, VIEW(""), ignore_sight, NULL, &error), &error);
    table_reader_release(&look);
    hold_lock(visit, "deploy", /* fenced */ true);
    hold_lock(visit, "path:/a/b", /* fenced */ true);
    hold_lock(visit, "tree:/a", /* fenced */ false);
    hold_lock(visit, "range:7:0-4096", /* fenced */ false);
}

/* ---- Keys and transactions ----------------------------------------------------------- */

static void read_key(struct visit *visit, const char *name)
{
    struct key_description description;
    struct hf_key_info info = HF_KEY_INFO;
    struct hf_error error;
    void *data;
    size_t size;
    if (told(hf_key_get(visit->client, name, OBJECT_READ, &data, &size, &info, &error),
             &error) == HF_OK)
        free(data);
    told(key_describe(visit->client, name, &description, &error), &error);
}

static void use_key(struct visit *visit, const char *name)
{
    struct hf_key_info info = HF_KEY_INFO;
    struct hf_key *key;
    struct hf_error error;
    read_key(visit, name);
    check(hf_key_new(visit->client, name, NULL, &key, &error) == HF_OK);
    if (told(hf_key_acquire(key, WAIT_MS, &info, &error), &error) == HF_OK) {
        told(hf_key_update(key, "new", 3, NULL, &info, &error), &error);
        told(hf_key_remove(key, NULL, &info, &error), &error);
        told(hf_key_release(key, HF_COMMIT, &error), &error);
    }
    hf_key_free(key);
    read_key(visit, name);
}

static void use_txn(struct visit *visit)
{
    static const char *const names[] = { "orders/1", "orders/2" };
    struct hf_txn_options join = { .struct_size = sizeof join, .id = TXN_ID };
    struct hf_key *keys[2];
    struct hf_txn *txn;
    struct hf_error error;
    if (told(hf_txn_begin(visit->client, &join, &txn, &error), &error) == HF_OK) {
        told(hf_txn_rollback(txn, NULL, &error), &error);
        hf_txn_free(txn);
    }
    if (told(hf_txn_begin(visit->client, NULL, &txn, &error), &error) != HF_OK)
        return;
    if (told(hf_txn_acquire(txn, names, 2, NULL, WAIT_MS, keys, &error), &error) == HF_OK) {
        told(hf_key_update(keys[0], "one", 3, NULL, NULL, &error), &error);
        told(hf_key_update(keys[1], "two", 3, NULL, NULL, &error), &error);
        told(hf_txn_commit(txn, NULL, &error), &error);
    }
    hf_txn_free(txn);
}

static void use_keys(struct visit *visit)
{
    use_key(visit, "orders/1");
    use_txn(visit);
    use_key(visit, "deploy");
}

/* ---- Sweeping and restoring ---------------------------------------------------------- */

static void sweep_all(struct visit *visit, bool full)
{
    struct sweep_options options = { .settings = SWEEP_SETTINGS, .mode = SWEEP_MANUAL };
    struct sweep_memory memory;
    struct sweep_report report;
    struct hf_error error;
    options.full = full;
    options.settings.all_namespaces = true;
    if (told(sweep_recall(visit->client, /* all */ true, &memory, &error), &error) != HF_OK)
        return;
    told(sweep_run(visit->client, &options, &memory.cursor, &report, &error), &error);
    memory.last = report;
    sweep_report_add(&memory.total, &report);
    told(sweep_remember(visit->client, /* all */ true, &memory, &error), &error);
}

static void use_sweep(struct visit *visit)
{
    struct hf_sweep_due due;
    struct sweep_names names;
    struct sweep_memory memory;
    struct hf_error error;
    if (told(sweep_names_find(visit->client, /* all */ true, (struct mono_time){ 0 }, &names,
                              &error),
             &error) == HF_OK) {
        told(sweep_due(visit->client, &names, &due, &error), &error);
        told(sweep_recall_sum(visit->client, &names, &memory, &error), &error);
        sweep_names_release(&names);
    }
    sweep_all(visit, /* full */ false);
    sweep_all(visit, /* full */ true);
    env_sleep(visit->env, SPAN_S(3 * 86400)); /* the awaited event has come */
    sweep_all(visit, /* full */ false);
    sweep_all(visit, /* full */ true);
}

static enum hf_status ignore_namespace(void *argument, const char *ns, struct hf_error *error)
{
    (void)argument;
    check(ns[0] != '\0');
    return error_clear(error);
}

static void use_restore(struct visit *visit)
{
    struct epoch_findings sight;
    struct hf_error error;
    uint64_t epoch, repaired = 0;
    told(restore_namespaces(visit->store, &(struct namespace_walk){ .each = ignore_namespace },
                            &error),
         &error);
    told(restore_check_epoch(visit->client, &sight, &error), &error);
    if (told(restore_repair(visit->client, &sight, &repaired, &error), &error) == HF_OK)
        check(!sight.known || repaired >= sight.epoch);
    if (told(restore_epoch(visit->client, &epoch, &error), &error) == HF_OK) {
        check(epoch > repaired);
        told(restore_table(visit->client, VIEW("default/meta/deploy.json"), epoch, SPAN_S(2),
                           "fuzz", &error),
             &error);
    }
}

/* ---- Compaction ---------------------------------------------------------------------- */

static void ignore_finding(void *argument, const struct fsck_finding *finding)
{
    (void)argument;
    check(finding->kind < HF_FSCK_KIND_COUNT && finding->why[0] != '\0');
}

static enum hf_status plan_catalog(void *argument, struct catalog_ref *ref,
                                   const struct catalog *catalog,
                                   const struct evidence *evidence, const struct hf_error *why)
{
    struct plan_options options = { .force = *(bool *)argument };
    struct hf_error error;
    struct plan plan;
    (void)ref;
    (void)evidence;
    check(catalog || why->why[0] != '\0');
    if (catalog && told(plan_make(catalog, &options, &plan, &error), &error) == HF_OK)
        plan_release(&plan);
    return HF_OK;
}

/* Merges in files, as the program does. */
static void work(struct visit *visit, struct catalog_tree *tree, bool force)
{
    struct worker_options options = {
        .mode = HF_COMPACT_ONCE, .jobs = 1, .memory_bytes = 16 * MIB, .force = force
    };
    struct hf_compact_totals totals;
    struct worker *worker;
    struct hf_error error;
    struct merger *merger = file_merger_new(visit->env, visit->store, "/tmp", 1, &error);
    check(merger != NULL);
    if (told(worker_new(tree, merger, &options, &worker, &error), &error) == HF_OK) {
        told(worker_run(worker, &totals, &error), &error);
        worker_free(worker);
    }
    file_merger_free(merger);
}

static void check_bucket(struct visit *visit, bool repair)
{
    struct fsck_options options = { .repair = repair, .tell = ignore_finding };
    struct hf_fsck_report report;
    struct hf_error error;
    told(fsck_run(visit->store, visit->client, VIEW(""), &options, &report, &error), &error);
}

static void look_at_jobs(struct catalog_tree *tree)
{
    struct arena arena = ARENA_INIT;
    struct job_record *records;
    char why[HF_WHY_MAX];
    struct hf_error error;
    size_t count;
    bool paused;
    told(jobs_read(tree, &arena, &records, &count, &error), &error);
    told(catalog_tree_is_paused(tree, &paused, why, &error), &error);
    arena_release(&arena);
}

static void use_compaction(struct visit *visit)
{
    struct catalog_tree *tree;
    struct maintain_options options = { .short_lived = true };
    struct maintain_report maintained = { 0 };
    struct hf_error error;
    bool force = false;
    check(catalog_tree_open(visit->store, visit->client, VIEW("default"), &tree, &error) ==
          HF_OK);
    told(catalog_tree_walk(tree, plan_catalog, &force, &error), &error);
    force = true;
    told(catalog_tree_walk(tree, plan_catalog, &force, &error), &error);
    look_at_jobs(tree);
    check_bucket(visit, /* repair */ false);
    work(visit, tree, /* force */ false);
    work(visit, tree, /* force */ true);
    env_sleep(visit->env, SPAN_S(3 * 86400)); /* the grace period and D have passed */
    told(maintain_round(tree, &options, &maintained, &error), &error);
    told(catalog_tree_resume(tree, &error), &error);
    check_bucket(visit, /* repair */ true);
    catalog_tree_close(tree);
}

/* ---- Indexes ------------------------------------------------------------------------- */

static enum hf_status ignore_record(void *argument, const struct record *record,
                                    struct hf_error *error)
{
    (void)argument;
    check(record->key.size > 0 && record->key.size <= INDEX_KEY_BYTES_MAX);
    return error_clear(error);
}

static void read_index(struct index *index)
{
    const struct index_visitor visitor = { .show = ignore_record };
    struct index_query query = { .prefix = VIEW("") };
    struct buffer bytes = BUFFER_INIT(INDEX_RECORD_BYTES_MAX);
    struct hf_index_progress totals;
    struct index_stats index_stats;
    struct hf_error error;
    uint64_t count;
    told(index_get(index, VIEW("example.com"), &bytes, &error), &error);
    buffer_release(&bytes);
    told(index_walk(index, &query, &visitor, &totals, &error), &error);
    told(index_count(index, /* query */ NULL, &visitor, &count, &error), &error);
    if (told(index_stats_take(index, NULL, NULL, &index_stats, &error), &error) == HF_OK)
        index_stats_release(&index_stats);
}

/* Of more digits than this an index is walked for minutes. */
#define DIGITS_MAX 2

static void use_index(struct visit *visit)
{
    struct compile_options options = COMPILE_OPTIONS;
    struct hf_index_compile_report totals;
    struct index *index;
    struct hf_error error;
    if (told(index_open(visit->store, visit->client, VIEW(INDEX_NAME), &index, &error),
             &error) != HF_OK)
        return;
    options.once = true;
    options.ttl = SPAN_S(10);
    if (index->schema.digits <= DIGITS_MAX) {
        read_index(index);
        told(index_compile(index, &options, &totals, &error), &error);
        read_index(index);
    }
    index_close(index);
}

/* ---- All of it ----------------------------------------------------------------------- */

static void (*const parts[])(struct visit *) = { use_locks,   use_keys,       use_sweep,
                                                 use_restore, use_compaction, use_index };
#define PARTS (sizeof parts / sizeof *parts)

void bucket_work(struct env *env, unsigned which, struct view objects)
{
    struct visit visit = { .env = env, .parts = which, .objects = objects };
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct hf_error error;
    open_bucket(&visit);
    enum hf_status status = told(bucket_check(visit.store, BUCKET_LOCKS, &error), &error);
    check(status != HF_UNSUPPORTED || visit.writes == 0);
    if (status == HF_OK) {
        check(client_new(visit.store, &options, &visit.client, &error) == HF_OK);
        for (size_t i = 0; i < PARTS; i++)
            if (visit.parts & 1U << i)
                parts[i](&visit);
        hf_client_close(visit.client);
    }
    store_close(visit.store);
}
