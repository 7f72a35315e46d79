/* bench_compact.c: what compaction must show.
 *
 *   plan    100,000 chunks: how long a worker that knows nothing yet takes to plan, how large the
 *           largest document is, and how much memory that takes
 *   run     one group of 64 chunks from lease to commit, beside the bare merger on the same files
 *   claims  1, 5, 16 and 64 worker processes on a Ceph gateway: writes to the lease table for each
 *           lease that was granted, and how many were in vain */
#include "base/check.h"
#include "compact/ingest.h"
#include "compact/worker.h"
#include "merge_data.h"
#include "place.h"
#include "store/observe.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEMORY (64 * MIB)

static void must(enum hf_status status, const struct hf_error *error, const char *what)
{
    if (status != HF_OK)
        bench_die("%s: %s: %s", what, hf_status_name(status), error->why);
}

/* ---- A bucket ------------------------------------------------------------------------ */

struct bucket {
    struct store *store;
    struct hf_client *client;
    struct shelf *shelf;
};

static void bucket_open(struct bucket *bucket, const char *url, struct observer observer)
{
    struct hf_error error;
    must(store_open(env_real(), view_of(url), &bucket->store, &error), &error, url);
    if (observer.saw)
        must(store_observe(bucket->store, observer, &bucket->store, &error), &error, url);
    must(client_new(bucket->store, NULL, &bucket->client, &error), &error, "client");
    must(shelf_open(bucket->store, bucket->client, VIEW("default"), &bucket->shelf, &error),
         &error, "shelf");
}

static void bucket_close(struct bucket *bucket)
{
    shelf_close(bucket->shelf);
    hf_client_close(bucket->client);
    store_close(bucket->store);
}

static struct compact_settings settings_of_records(void)
{
    struct compact_settings settings = compact_settings_default();
    settings.format = MERGE_USV;
    settings.key = VIEW("1");
    settings.time = VIEW("3");
    settings.backlog_max = 1000000;
    return settings;
}

static void make_catalog(const char *url, const struct compact_settings *settings)
{
    struct bucket bucket;
    struct hf_error error;
    bucket_open(&bucket, url, (struct observer){ NULL, NULL });
    must(shelf_create(bucket.shelf, settings, &error), &error, "create");
    bucket_close(&bucket);
}

/* ---- plan ---------------------------------------------------------------------------- */

#define PLAN_CHUNKS   100000
#define PLAN_PER_HOUR 40

struct new_chunk {
    char key[KEY_BYTES_MAX + 1];
    char home[PARTITION_BYTES_MAX + 1];
    struct mono_time drawn;
};

static void add_hour(struct shelf *shelf, const struct compact_settings *settings,
                     uint64_t hour)
{
    static struct new_chunk names[PLAN_PER_HOUR];
    struct chunk chunks[PLAN_PER_HOUR];
    struct hf_error error;
    struct slot *slot;
    int64_t ms = INT64_C(1700000000000) + (int64_t)hour * 3600000;
    for (int tries = 0; tries < 64; tries++) {
        for (size_t i = 0; i < PLAN_PER_HOUR; i++) {
            struct new_chunk *name = &names[i];
            must(shelf_home(shelf, VIEW("seed"), ms, name->home, &error), &error, "home");
            must(chunk_key_draw(env_real(), view_of(name->home), 0, ms, settings, name->key,
                                &name->drawn, &error),
                 &error, "draw");
            chunks[i] = (struct chunk){ .key = view_of(name->key),
                                        .size = 1000000,
                                        .rows_known = true,
                                        .rows = 10000,
                                        .min_ms = ms,
                                        .max_ms = ms + 1000,
                                        .writer = VIEW("bench") };
        }
        struct catalog_op op = { .kind = CATALOG_ADD,
                                 .chunks = chunks,
                                 .chunk_count = PLAN_PER_HOUR,
                                 .drawn = names[0].drawn };
        must(shelf_slot(shelf, view_of(names[0].home), &slot, &error), &error, "slot");
        enum hf_status status = slot_apply(slot, &op, (struct mono_time){ 0 });
        if (status == HF_OK)
            return;
        if (status == HF_UNAVAILABLE && op.full)
            must(slot_split(slot, &error), &error, "split");
        else if (status != HF_MISMATCH)
            must(status, &op.error, "add");
    }
    bench_die("an hour could not be added");
}

struct planned {
    size_t catalogs, chunks, groups;
    double planning_s;
};

static enum hf_status plan_one(void *argument, struct slot *slot, const struct catalog *catalog,
                               const struct evidence *evidence, const struct hf_error *why)
{
    struct planned *planned = argument;
    struct plan_options options = { .force = false };
    struct plan plan;
    struct hf_error error;
    (void)evidence;
    if (!catalog)
        bench_die("%s: %s", slot->partition, why->why);
    double begun = now_s();
    must(plan_make(catalog, &options, &plan, &error), &error, "plan");
    planned->planning_s += now_s() - begun;
    planned->catalogs++;
    planned->chunks += catalog->live_count;
    planned->groups += plan.count;
    plan_release(&plan);
    return HF_OK;
}

static void saw_largest(void *argument, const struct observation *observation)
{
    uint64_t *largest = argument;
    if (observation->kind == CALL_GET && observation->bytes_received > *largest)
        *largest = observation->bytes_received;
}

static long peak_kib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* In a process of its own, so that the memory is that of planning alone. */
static void plan_cold(const char *url, int out)
{
    struct bucket bucket;
    struct planned planned = { 0 };
    struct hf_error error;
    uint64_t largest = 0;
    long before = peak_kib();
    double begun = now_s();
    bucket_open(&bucket, url, (struct observer){ saw_largest, &largest });
    must(shelf_walk(bucket.shelf, plan_one, &planned, &error), &error, "walk");
    double took = now_s() - begun;
    double answers[] = { took,
                         planned.planning_s,
                         (double)largest,
                         (double)(peak_kib() - before),
                         (double)planned.chunks,
                         (double)planned.groups,
                         (double)planned.catalogs };
    check(write(out, answers, sizeof answers) == sizeof answers);
    bucket_close(&bucket);
}

static void plan_in_child(const char *url, double answers[7])
{
    int ends[2];
    check(pipe(ends) == 0);
    pid_t child = fork();
    check(child >= 0);
    if (child == 0) {
        plan_cold(url, ends[1]);
        _exit(0);
    }
    close(ends[1]);
    if (read(ends[0], answers, 7 * sizeof *answers) != 7 * sizeof *answers)
        bench_die("a planning process died");
    close(ends[0]);
    waitpid(child, NULL, 0);
}

static void bench_plan(struct bench *bench)
{
    char url[700];
    struct bucket bucket;
    struct compact_settings settings = settings_of_records();
    struct series took = { .count = 0 }, planning = { .count = 0 };
    double answers[7] = { 0 };
    snprintf(url, sizeof url, "sqlite:%s/plan.db", bench_folder());
    make_catalog(url, &settings);
    bucket_open(&bucket, url, (struct observer){ NULL, NULL });
    for (uint64_t hour = 0; hour < PLAN_CHUNKS / PLAN_PER_HOUR; hour++)
        add_hour(bucket.shelf, &settings, hour);
    bucket_close(&bucket);
    for (size_t i = 0; i < bench->rounds; i++) {
        plan_in_child(url, answers);
        series_add(&took, answers[0] * 1e3);
        series_add(&planning, answers[1] * 1e3);
    }
    printf("  %.0f chunks in %.0f catalogs, %.0f groups, memory %.1f MiB\n", answers[4],
           answers[6], answers[5], answers[3] / 1024);
    bench_figure(bench, "plan, the pure part", "ms", &planning);
    bench_figure(bench, "plan of 100,000 chunks, cold, sqlite", "ms", &took);
    bench_bar(bench, "plan of 100,000 chunks", "ms", series_median(&took), 1000,
              /* at_most */ true);
    bench_bar(bench, "chunks that were planned", "", answers[4], PLAN_CHUNKS, false);
    bench_bar(bench, "largest document", "bytes", answers[2],
              (double)(CATALOG_LIVE_BYTES_MAX + CATALOG_DEAD_BYTES_MAX), true);
}

/* ---- run ----------------------------------------------------------------------------- */

#define RUN_RECORDS 4000000

static double merge_bare(const struct merge_data *data, const char *const *inputs)
{
    struct merge_options options = MERGE_OPTIONS;
    struct merge_result result;
    struct hf_error error;
    char output[700], rejects[700];
    snprintf(output, sizeof output, "%s/bare", data->folder);
    snprintf(rejects, sizeof rejects, "%s/bare.rejects", data->folder);
    options.format = MERGE_USV;
    options.key = VIEW("1");
    options.time = VIEW("3");
    options.threads = 2;
    options.memory_bytes = MEMORY;
    options.reject_path = rejects;
    double begun = now_s();
    must(merge_files(env_real(), &options, inputs, DATA_FILES, output, &result, &error), &error,
         "merge");
    double took = now_s() - begun;
    unlink(output);
    return took;
}

static void fill(const char *url, const char *const *inputs)
{
    static struct ingest_file files[DATA_FILES];
    struct ingest_options options = { .writer = VIEW("bench") };
    struct bucket bucket;
    struct hf_error error;
    bucket_open(&bucket, url, (struct observer){ NULL, NULL });
    for (size_t i = 0; i < DATA_FILES; i++)
        files[i] = (struct ingest_file){ .path = inputs[i] };
    must(ingest_files(bucket.shelf, files, DATA_FILES, &options, &error), &error, "ingest");
    bucket_close(&bucket);
}

static double run_once(const char *url, const char *scratch)
{
    struct worker_options options = { .mode = WORKER_ONCE,
                                      .jobs = 1,
                                      .memory_bytes = MEMORY,
                                      .force = true,
                                      .label = VIEW("bench") };
    struct worker_totals totals;
    struct bucket bucket;
    struct worker *worker;
    struct hf_error error;
    double begun = now_s();
    bucket_open(&bucket, url, (struct observer){ NULL, NULL });
    struct forge *forge = forge_files_new(env_real(), bucket.store, scratch, 2, &error);
    if (!forge)
        bench_die("forge: %s", error.why);
    must(worker_new(bucket.shelf, forge, &options, &worker, &error), &error, "worker");
    must(worker_run(worker, &totals, &error), &error, "run");
    worker_free(worker);
    forge_files_free(forge);
    bucket_close(&bucket);
    if (totals.groups_committed != 1)
        bench_die("%" PRIu64 " groups were committed, not one", totals.groups_committed);
    return now_s() - begun;
}

static void bench_run(struct bench *bench)
{
    struct merge_data data;
    struct compact_settings settings = settings_of_records();
    struct series bare = { .count = 0 }, dir = { .count = 0 }, sqlite = { .count = 0 };
    static char paths[DATA_FILES][700];
    const char *inputs[DATA_FILES];
    settings.group_max = DATA_FILES;
    settings.policy = POLICY_CASCADE;
    snprintf(data.folder, sizeof data.folder, "%s/run", bench_folder());
    data_make(&data, DATA_USV, RUN_RECORDS, /* shuffled */ false);
    for (size_t i = 0; i < DATA_FILES; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/in/%02zu", data.folder, i);
        inputs[i] = paths[i];
    }
    for (size_t round = 0; round < bench->rounds; round++) {
        char url[900], scratch[800], store[800];
        double mb = (double)data.bytes / 1e6;
        series_add(&bare, mb / merge_bare(&data, inputs));
        for (int kind = 0; kind < 2; kind++) {
            snprintf(store, sizeof store, "%s/store-%zu-%d", data.folder, round, kind);
            snprintf(scratch, sizeof scratch, "%s/scratch", data.folder);
            mkdir(store, 0777);
            mkdir(scratch, 0777);
            snprintf(url, sizeof url, "%s:%s%s", kind ? "sqlite" : "dir", store,
                     kind ? "/db" : "");
            make_catalog(url, &settings);
            fill(url, inputs);
            series_add(kind ? &sqlite : &dir, mb / run_once(url, scratch));
            remove_tree(store);
            remove_tree(scratch);
        }
    }
    data_remove(&data);
    bench_figure(bench, "the bare merger, 64 files", "MB/s", &bare);
    bench_figure(bench, "compact run on dir", "MB/s", &dir);
    bench_figure(bench, "compact run on sqlite", "MB/s", &sqlite);
    bench_ratio(bench, "run on dir over the bare merger", &dir, &bare, 0.7);
    bench_ratio(bench, "run on sqlite over the bare merger", &sqlite, &bare, 0.7);
}

/* ---- claims -------------------------------------------------------------------------- */

#define CLAIMS_EACH 6 /* groups for each worker */

struct tally {
    atomic_ulong puts, vain; /* of lease tables */
    atomic_ulong catalog_puts, catalog_vain;
    atomic_ulong claims, held;
};

static void saw_tables(void *argument, const struct observation *observation)
{
    struct tally *tally = argument;
    if (observation->kind != CALL_PUT)
        return;
    bool vain = observation->error->status != HF_OK;
    if (view_ends_with(observation->key, VIEW("compaction-leases.json"))) {
        atomic_fetch_add(&tally->puts, 1);
        atomic_fetch_add(&tally->vain, vain);
    } else if (view_ends_with(observation->key, VIEW("catalog.json"))) {
        atomic_fetch_add(&tally->catalog_puts, 1);
        atomic_fetch_add(&tally->catalog_vain, vain);
    }
}

static void claim_all(const char *url, struct tally *tally, int gate)
{
    struct worker_options options = { .mode = WORKER_DRAIN,
                                      .jobs = 1,
                                      .memory_bytes = MERGE_MEMORY_MIN,
                                      .label = VIEW("bench") };
    struct worker_totals totals;
    struct bucket bucket;
    struct worker *worker;
    struct hf_error error;
    char scratch[700], byte;
    snprintf(scratch, sizeof scratch, "%s/claims-%d", bench_folder(), (int)getpid());
    mkdir(scratch, 0777);
    bucket_open(&bucket, url, (struct observer){ saw_tables, tally });
    struct forge *forge = forge_files_new(env_real(), bucket.store, scratch, 1, &error);
    if (!forge)
        bench_die("forge: %s", error.why);
    must(worker_new(bucket.shelf, forge, &options, &worker, &error), &error, "worker");
    check(read(gate, &byte, 1) == 0); /* all at once */
    must(worker_run(worker, &totals, &error), &error, "run");
    atomic_fetch_add(&tally->claims, totals.claims);
    atomic_fetch_add(&tally->held, totals.claims_held);
    worker_free(worker);
    forge_files_free(forge);
    bucket_close(&bucket);
}

static void fill_small(const char *url, unsigned groups)
{
    static struct ingest_file files[2 * 64 * CLAIMS_EACH];
    static char paths[2 * 64 * CLAIMS_EACH][700];
    struct ingest_options options = { .writer = VIEW("bench") };
    struct bucket bucket;
    struct hf_error error;
    for (unsigned i = 0; i < 2 * groups; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/small-%u", bench_folder(), i);
        FILE *file = fopen(paths[i], "w");
        check(file);
        fprintf(file, "key-%u\x1fvalue\x1f%" PRId64 "\n", i,
                INT64_C(1700000000000) + (int64_t)(i / 2) * 3600000);
        fclose(file);
        files[i] = (struct ingest_file){ .path = paths[i] };
    }
    bucket_open(&bucket, url, (struct observer){ NULL, NULL });
    must(ingest_files(bucket.shelf, files, 2 * groups, &options, &error), &error, "ingest");
    bucket_close(&bucket);
}

static void claims_of(struct bench *bench, struct tally *tally, unsigned workers)
{
    char url[900], name[100];
    int gate[2];
    struct compact_settings settings = settings_of_records();
    snprintf(url, sizeof url, "s3://" CEPH_BUCKET "/claims-%u?endpoint=%s&etag=bare", workers,
             bench_ceph());
    settings.level0_count = 2;
    make_catalog(url, &settings);
    fill_small(url, workers * CLAIMS_EACH);
    memset(tally, 0, sizeof *tally);
    check(pipe(gate) == 0);
    for (unsigned i = 0; i < workers; i++) {
        pid_t child = fork();
        check(child >= 0);
        if (child == 0) {
            close(gate[1]);
            claim_all(url, tally, gate[0]);
            _exit(0);
        }
    }
    close(gate[0]);
    sleep(2); /* until all have opened their store */
    double begun = now_s();
    close(gate[1]);
    for (unsigned i = 0; i < workers; i++)
        wait(NULL);
    double took = now_s() - begun;
    double claims = (double)tally->claims;
    printf("  %2u workers: %.0f claims in %.1f s, %.2f puts a claim (one to take, one to give "
           "back), %.1f %% in vain, %lu refused; catalog %.2f puts a commit, %.1f %% in vain\n",
           workers, claims, took, (double)tally->puts / claims,
           100.0 * (double)tally->vain / (double)tally->puts, tally->held,
           (double)tally->catalog_puts / claims,
           100.0 * (double)tally->catalog_vain / (double)tally->catalog_puts);
    struct series series = { .count = 0 };
    series_add(&series, (double)tally->puts / claims);
    snprintf(name, sizeof name, "%u workers", workers);
    bench_figure(bench, name, "lease puts a claim", &series);
    bench_bar(bench, "claims that succeeded", "", claims, workers * CLAIMS_EACH, false);
}

static void bench_claims(struct bench *bench)
{
    static const unsigned sizes[] = { 1, 5, 16, 64 };
    struct tally *tally =
        mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(tally != MAP_FAILED);
    printf(
        "  (the design that this comes from expects conflicts of 0 %%, < 2 %%, < 5 %% at 1, 2, "
        "5 compactors that each claim once in 10 s)\n");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        claims_of(bench, tally, sizes[i]);
    munmap(tally, sizeof *tally);
}

int main(int argc, char **argv)
{
    static const struct bench_part parts[] = {
        { "plan", bench_plan }, { "run", bench_run }, { "claims", bench_claims }, { NULL, NULL }
    };
    struct bench bench = { .rounds = PAIRS, .seconds = 1 };
    return bench_main(&bench, parts, argc, argv);
}
