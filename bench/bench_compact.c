/* SPDX-License-Identifier: Apache-2.0 */
/* bench_compact.c: measures compaction.
 *
 *   plan    100,000 chunks: how long a worker without a cache takes to plan, the size of the
 *           largest document, and the memory used
 *   run     one group of 64 chunks from lease to commit, beside the bare merger on the same files
 *   ranges  one group of 4 GiB, which is divided: one worker, two workers, and a worker that is
 *           killed when it has done 80 %; beside them, processes that only copy the same bytes
 *   claims  1, 5, 16 and 64 worker processes on a Ceph gateway: writes to the lease table per
 *           granted lease, and how many of them failed */
#include "base/check.h"
#include "base/limits.h"
#include "base/view.h"
#include "client.h"
#include "merge_data.h"
#include "place.h"

#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEMORY (64 * MIB)

/* ---- A bucket ------------------------------------------------------------------------ */

struct bucket {
    struct client at;
    struct hf_compact *compact;
};

static void bucket_open(struct bucket *bucket, const char *url, const char *scratch,
                        void (*trace)(void *argument, const struct hf_store_request *request),
                        void *argument)
{
    struct hf_compact_options options = HF_COMPACT_OPTIONS;
    struct hf_error error;
    options.scratch_folder = scratch;
    client_open(&bucket->at, url, trace, argument);
    must(hf_compact_open(bucket->at.client, NULL, &options, &bucket->compact, &error), &error,
         "partition");
}

static void bucket_close(struct bucket *bucket)
{
    hf_compact_close(bucket->compact);
    client_close(&bucket->at);
}

static struct hf_compact_settings settings_of_records(void)
{
    struct hf_compact_settings settings = HF_COMPACT_SETTINGS;
    settings.key = "1";
    settings.time = "3";
    settings.backlog_max = 1000000;
    return settings;
}

static void make_partition(const char *url, const struct hf_compact_settings *settings)
{
    struct bucket bucket;
    struct hf_error error;
    bucket_open(&bucket, url, NULL, NULL, NULL);
    must(hf_compact_create(bucket.compact, settings, &error), &error, "create");
    bucket_close(&bucket);
}

static void ingest(struct bucket *bucket, const char *const *paths, size_t count)
{
    struct hf_compact_ingest_options options = HF_COMPACT_INGEST_OPTIONS;
    struct hf_error error;
    options.writer = "bench";
    must(hf_compact_ingest(bucket->compact, paths, count, &options, NULL, &error), &error,
         "ingest");
}

/* A file of one record. */
static void write_small(const char *path, unsigned number, uint64_t hour)
{
    FILE *file = fopen(path, "w");
    check(file);
    fprintf(file, "key-%u\x1fvalue\x1f%" PRIu64 "\n", number,
            UINT64_C(1700000000000) + hour * 3600000);
    check(fclose(file) == 0);
}

/* ---- plan ---------------------------------------------------------------------------- */

#define PLAN_CHUNKS    100000
#define PLAN_PER_HOUR  40
#define PLAN_AT_ONCE   1000
#define DOCUMENT_BYTES (5 * MIB) /* of the largest catalog */

/* The chunks are small; a plan does not depend on their size. */
static void fill_for_plan(const char *url)
{
    static char paths[PLAN_AT_ONCE][700];
    const char *inputs[PLAN_AT_ONCE];
    struct bucket bucket;
    bucket_open(&bucket, url, NULL, NULL, NULL);
    for (unsigned from = 0; from < PLAN_CHUNKS; from += PLAN_AT_ONCE) {
        for (unsigned i = 0; i < PLAN_AT_ONCE; i++) {
            snprintf(paths[i], sizeof paths[i], "%s/plan-%u", bench_folder(), i);
            write_small(paths[i], from + i, (from + i) / PLAN_PER_HOUR);
            inputs[i] = paths[i];
        }
        ingest(&bucket, inputs, PLAN_AT_ONCE);
    }
    bucket_close(&bucket);
}

struct planned {
    double took_s;
    double chunks, groups;
    double largest_bytes; /* of a document */
    double memory_kib;
};

/* In a separate process, so only the memory of planning is measured. */
static struct planned plan_cold(const char *url)
{
    struct hf_compact_plan_report report = HF_COMPACT_PLAN_REPORT;
    struct counts asked = { .bytes_most = 0 };
    struct bucket bucket;
    struct hf_error error;
    double before = peak_kib();
    double begun = now_s();
    bucket_open(&bucket, url, NULL, counts_add, &asked);
    must(hf_compact_plan(bucket.compact, false, NULL, NULL, &report, &error), &error, "plan");
    struct planned planned = { .took_s = now_s() - begun,
                               .chunks = (double)report.chunks,
                               .groups = (double)report.groups,
                               .largest_bytes = (double)asked.bytes_most,
                               .memory_kib = peak_kib() - before };
    bucket_close(&bucket);
    return planned;
}

static struct planned plan_in_child(const char *url)
{
    struct planned planned;
    int ends[2];
    check(pipe(ends) == 0);
    pid_t child = fork();
    check(child >= 0);
    if (child == 0) {
        planned = plan_cold(url);
        check(write(ends[1], &planned, sizeof planned) == sizeof planned);
        _exit(0);
    }
    close(ends[1]);
    if (read(ends[0], &planned, sizeof planned) != sizeof planned)
        bench_die("a planning process died");
    close(ends[0]);
    waitpid(child, NULL, 0);
    return planned;
}

static void bench_plan(struct bench *bench)
{
    char url[700], unsynced[720];
    struct hf_compact_settings settings = settings_of_records();
    struct series took = { .count = 0 };
    struct planned planned = { 0 };
    snprintf(url, sizeof url, "sqlite:%s/plan.db", bench_folder());
    snprintf(unsynced, sizeof unsynced, "%s?sync=off", url);
    make_partition(url, &settings);
    fill_for_plan(unsynced);
    for (size_t i = 0; i < bench->rounds; i++) {
        planned = plan_in_child(url);
        series_add(&took, planned.took_s * 1e3);
    }
    printf("  %.0f chunks in %.0f groups, memory %.1f MiB\n", planned.chunks, planned.groups,
           planned.memory_kib / 1024);
    bench_figure(bench, "plan of 100,000 chunks, cold, sqlite", "ms", &took);
    bench_bar(bench, "plan of 100,000 chunks", "ms", series_median(&took), 1000,
              /* at_most */ true);
    /* Where a split of the catalog cuts an hour, a few chunks may be too few for a group. */
    bench_bar(bench, "chunks that were planned", "", planned.chunks, 0.99 * PLAN_CHUNKS, false);
    bench_bar(bench, "largest document", "bytes", planned.largest_bytes, DOCUMENT_BYTES, true);
}

/* ---- run ----------------------------------------------------------------------------- */

#define RUN_RECORDS 4000000

static double merge_bare(const struct merge_data *data, const char *const *inputs)
{
    struct hf_merge_options options = HF_MERGE_OPTIONS;
    struct hf_error error;
    char output[700], rejects[700];
    snprintf(output, sizeof output, "%s/bare", data->folder);
    snprintf(rejects, sizeof rejects, "%s/bare.rejects", data->folder);
    options.format = HF_MERGE_USV;
    options.key = "1";
    options.time = "3";
    options.threads = 2;
    options.memory_bytes = MEMORY;
    options.reject_path = rejects;
    double begun = now_s();
    must(hf_merge(inputs, DATA_FILES, output, &options, NULL, &error), &error, "merge");
    double took = now_s() - begun;
    unlink(output);
    return took;
}

static double run_once(const char *url, const char *scratch)
{
    struct hf_compact_worker_options options = HF_COMPACT_WORKER_OPTIONS;
    struct hf_compact_totals totals = HF_COMPACT_TOTALS;
    struct bucket bucket;
    struct hf_error error;
    options.force = true;
    options.jobs = 1;
    options.threads = 2;
    options.memory_bytes = MEMORY;
    options.label = "bench";
    double begun = now_s();
    bucket_open(&bucket, url, scratch, NULL, NULL);
    must(hf_compact_run(bucket.compact, &options, &totals, &error), &error, "run");
    bucket_close(&bucket);
    if (totals.groups_committed != 1)
        bench_die("%" PRIu64 " groups were committed, not one", totals.groups_committed);
    return now_s() - begun;
}

static void bench_run(struct bench *bench)
{
    struct merge_data data;
    struct hf_compact_settings settings = settings_of_records();
    struct series bare = { .count = 0 }, dir = { .count = 0 }, sqlite = { .count = 0 };
    static char paths[DATA_FILES][700];
    const char *inputs[DATA_FILES];
    settings.group_max = DATA_FILES;
    settings.policy = HF_COMPACT_CASCADE;
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
            struct bucket bucket;
            make_partition(url, &settings);
            bucket_open(&bucket, url, scratch, NULL, NULL);
            ingest(&bucket, inputs, DATA_FILES);
            bucket_close(&bucket);
            series_add(kind ? &sqlite : &dir, mb / run_once(url, scratch));
            remove_tree(store);
            remove_tree(scratch);
        }
    }
    data_remove(&data);
    bench_figure(bench, "the bare merger, 64 files", "MB/s", &bare);
    bench_figure(bench, "compact run on dir", "MB/s", &dir);
    bench_figure(bench, "compact run on sqlite", "MB/s", &sqlite);
    bench_ratio(bench, "run on dir over the bare merger", &dir, &bare, 0.85);
    bench_ratio(bench, "run on sqlite over the bare merger", &sqlite, &bare, 0.85);
}

/* ---- ranges -------------------------------------------------------------------------- */

/* A group of four merged chunks is divided into about 16 ranges. The store has the group, and the
 * outputs of one merge of it: outputs that are no longer needed are deleted at once, so the disk
 * needs about two and a half times the size of the group. */
#define RANGES_CHUNKS 4
#define RANGES_WANTED 16
#define RANGES_ROUNDS 3
#define RANGES_MIB    4096

/* What the workers have done, for the process that measures. */
struct progress {
    _Atomic uint64_t ranges, done, read_bytes; /* of the merge; finished; read, even in vain */
};

struct ranges_bench {
    char folder[700], url[800];
    uint64_t group_bytes;
    struct progress *progress; /* shared with the workers */
};

/* Each file is sorted, and has every eighth key. */
static void write_sorted(const char *path, unsigned number, uint64_t bytes)
{
    static const char value[] =
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    FILE *file = fopen(path, "w");
    check(file);
    for (uint64_t written = 0, i = number; written < bytes; i += 2 * RANGES_CHUNKS) {
        int size = fprintf(file, "key-%016" PRIx64 "\x1f%s\x1f%d\n", i, value, 1700000000);
        check(size > 0);
        written += (uint64_t)size;
    }
    check(fclose(file) == 0);
}

/* The chunks that are no longer live, and a source of the last merge. */
struct dead_chunks {
    char (*keys)[1025];
    size_t count, room;
    char source[1025];
    uint64_t live_bytes;
};

static bool note_chunk(void *argument, const struct hf_chunk_info *chunk)
{
    struct dead_chunks *dead = argument;
    if (chunk->state == HF_CHUNK_LIVE)
        dead->live_bytes += chunk->size;
    if (chunk->state != HF_CHUNK_TOMBSTONE)
        return true;
    if (chunk->level > 0 && chunk->into[0])
        snprintf(dead->source, sizeof dead->source, "%s", chunk->key);
    if (dead->count == dead->room) {
        dead->room = 2 * dead->room + 64;
        dead->keys = realloc(dead->keys, dead->room * sizeof *dead->keys);
        check(dead->keys);
    }
    snprintf(dead->keys[dead->count++], sizeof dead->keys[0], "%s", chunk->key);
    return true;
}

static struct dead_chunks list_dead(struct bucket *bucket)
{
    struct dead_chunks dead = { .keys = NULL };
    struct hf_error error;
    must(hf_compact_chunks(bucket->compact, HF_CHUNKS_ALL, note_chunk, &dead, &error), &error,
         "chunks");
    return dead;
}

/* Deletes the objects of all tombstones now, instead of after their grace period: nothing restores
 * them any more. */
static void delete_dead(struct bucket *bucket)
{
    struct hf_store_delete_options options = HF_STORE_DELETE_OPTIONS;
    struct dead_chunks dead = list_dead(bucket);
    struct hf_error error;
    options.force = true;
    for (size_t i = 0; i < dead.count; i++) {
        enum hf_status status =
            hf_store_delete(hf_client_store(bucket->at.client), dead.keys[i], &options, &error);
        if (status != HF_NOT_FOUND)
            must(status, &error, "delete");
    }
    free(dead.keys);
}

/* Merged chunks, which only a forced run merges further. */
static void fill_for_ranges(struct ranges_bench *ranges, uint64_t bytes)
{
    struct hf_compact_settings settings = settings_of_records();
    struct bucket bucket;
    struct hf_error error;
    settings.level0_count = 2;
    settings.level1_bytes = UINT64_C(1) << 40;
    settings.output_max = bytes / RANGES_WANTED;
    settings.ttl_ms = 5000;
    make_partition(ranges->url, &settings);
    bucket_open(&bucket, ranges->url, ranges->folder, NULL, NULL);
    for (unsigned i = 0; i < 2 * RANGES_CHUNKS; i++) {
        char path[900];
        const char *input = path;
        snprintf(path, sizeof path, "%s/file-%u", ranges->folder, i);
        write_sorted(path, i, bytes / (2 * RANGES_CHUNKS));
        ingest(&bucket, &input, 1);
        unlink(path);
        if (i % 2 == 0)
            continue;
        must(hf_compact_run(bucket.compact, NULL, NULL, &error), &error, "run");
        delete_dead(&bucket);
    }
    struct dead_chunks dead = list_dead(&bucket);
    ranges->group_bytes = dead.live_bytes;
    free(dead.keys);
    bucket_close(&bucket);
}

static bool note_range(void *argument, const struct hf_compact_event *event)
{
    struct progress *progress = argument;
    if (event->group && event->group->ranges > 0)
        progress->ranges = event->group->ranges;
    if (event->kind != HF_COMPACT_ENDED)
        return true;
    progress->read_bytes += event->result->merged_bytes;
    progress->done += event->result->end == HF_COMPACT_END_RANGE ||
                      event->result->end == HF_COMPACT_END_COMMITTED;
    return true;
}

/* A worker in a process of its own. It ends when nothing is left to do, for others either. */
static pid_t start_worker(const struct ranges_bench *ranges)
{
    struct hf_compact_worker_options options = HF_COMPACT_WORKER_OPTIONS;
    struct bucket bucket;
    struct hf_error error;
    pid_t child = fork();
    check(child >= 0);
    if (child > 0)
        return child;
    options.mode = HF_COMPACT_DRAIN;
    options.force = true;
    options.jobs = 1;
    options.threads = 1;
    options.memory_bytes = MEMORY;
    options.event = note_range;
    options.argument = ranges->progress;
    bucket_open(&bucket, ranges->url, ranges->folder, NULL, NULL);
    must(hf_compact_run(bucket.compact, &options, NULL, &error), &error, "run");
    bucket_close(&bucket);
    _exit(0);
}

static void end_worker(pid_t child)
{
    int status;
    check(waitpid(child, &status, 0) == child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        bench_die("a worker failed");
}

/* Undoes the merge, so that it can be measured again. */
static void undo_merge(const struct ranges_bench *ranges)
{
    struct bucket bucket;
    struct hf_error error;
    bucket_open(&bucket, ranges->url, ranges->folder, NULL, NULL);
    struct dead_chunks dead = list_dead(&bucket);
    if (!dead.source[0])
        bench_die("the workers ended without a merge: %" PRIu64 " of %" PRIu64 " ranges",
                  ranges->progress->done, ranges->progress->ranges);
    must(hf_compact_undelete(bucket.compact, dead.source, NULL, &error), &error, "undelete");
    free(dead.keys);
    delete_dead(&bucket);
    bucket_close(&bucket);
}

static double merge_by(const struct ranges_bench *ranges, unsigned workers)
{
    pid_t children[2];
    *ranges->progress = (struct progress){ 0 };
    double begun = now_s();
    for (unsigned i = 0; i < workers; i++)
        children[i] = start_worker(ranges);
    for (unsigned i = 0; i < workers; i++)
        end_worker(children[i]);
    return now_s() - begun;
}

/* ---- The same bytes, copied ----------------------------------------------------------- */

/* What two workers can gain depends on the disk. So processes that do nothing but read the same
 * chunks, write files of the same size and sync them are measured beside the workers. */

#define COPY_BYTES (256 * KIB)

static int chunk_files[RANGES_CHUNKS];
static size_t chunk_file_count;

static int open_chunk_file(const char *path, const struct stat *info, int kind,
                           struct FTW *walk)
{
    (void)walk;
    if (kind != FTW_F || (uint64_t)info->st_size < MIB)
        return 0;
    if (chunk_file_count == RANGES_CHUNKS)
        bench_die("more chunks than expected");
    chunk_files[chunk_file_count] = open(path, O_RDONLY);
    check(chunk_files[chunk_file_count++] >= 0);
    return 0;
}

static void copy_piece(int to, int from, off_t at, off_t end)
{
    static char bytes[COPY_BYTES];
    while (at < end) {
        size_t left = (size_t)(end - at), wanted = left < COPY_BYTES ? left : COPY_BYTES;
        ssize_t got = pread(from, bytes, wanted, at);
        check(got > 0 && write(to, bytes, (size_t)got) == got);
        at += got;
    }
}

/* Every so many of the files that a merge would write. */
static _Noreturn void copy_share(const struct ranges_bench *ranges, unsigned first,
                                 unsigned step)
{
    for (unsigned piece = first; piece < RANGES_WANTED; piece += step) {
        char path[900];
        struct stat info;
        snprintf(path, sizeof path, "%s/copy-%u", ranges->folder, piece);
        int to = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        check(to >= 0);
        for (size_t i = 0; i < chunk_file_count; i++) {
            check(fstat(chunk_files[i], &info) == 0);
            copy_piece(to, chunk_files[i], info.st_size * piece / RANGES_WANTED,
                       info.st_size * (piece + 1) / RANGES_WANTED);
        }
        check(fsync(to) == 0);
        close(to);
    }
    _exit(0);
}

static double copy_by(const struct ranges_bench *ranges, unsigned workers)
{
    pid_t children[2];
    double begun = now_s();
    for (unsigned i = 0; i < workers; i++) {
        children[i] = fork();
        check(children[i] >= 0);
        if (children[i] == 0)
            copy_share(ranges, i, workers);
    }
    for (unsigned i = 0; i < workers; i++)
        end_worker(children[i]);
    double took = now_s() - begun;
    for (unsigned piece = 0; piece < RANGES_WANTED; piece++) {
        char path[900];
        snprintf(path, sizeof path, "%s/copy-%u", ranges->folder, piece);
        unlink(path);
    }
    return took;
}

/* ---- All rounds ------------------------------------------------------------------------ */

/* The share of the bytes that the successor of a killed worker reads: what was left, and what the
 * killed worker had begun. */
static double merge_after_kill(const struct ranges_bench *ranges)
{
    struct progress *progress = ranges->progress;
    *progress = (struct progress){ 0 };
    pid_t child = start_worker(ranges);
    while (progress->ranges == 0 || 5 * progress->done < 4 * progress->ranges) {
        if (waitpid(child, NULL, WNOHANG) != 0)
            bench_die("a worker ended before it could be killed");
        usleep(1000);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    printf("  killed after %" PRIu64 " of %" PRIu64 " ranges\n", progress->done,
           progress->ranges);
    *progress = (struct progress){ 0 };
    end_worker(start_worker(ranges));
    return (double)progress->read_bytes / (double)ranges->group_bytes;
}

static void bench_ranges(struct bench *bench)
{
    struct series one = { .count = 0 }, two = { .count = 0 };
    struct series copied = { .count = 0 }, copied_by_two = { .count = 0 };
    struct ranges_bench ranges;
    uint64_t mib = bench->mib ? bench->mib : RANGES_MIB;
    char name[100];
    ranges.progress = bench_share_memory(sizeof *ranges.progress);
    snprintf(ranges.folder, sizeof ranges.folder, "%s/ranges", bench_folder());
    snprintf(ranges.url, sizeof ranges.url, "dir:%s/store", ranges.folder);
    mkdir(ranges.folder, 0777);
    fill_for_ranges(&ranges, mib * MIB);
    double mb = (double)ranges.group_bytes / 1e6;
    check(nftw(ranges.folder, open_chunk_file, /* folders open */ 16, FTW_PHYS) == 0);
    size_t rounds = bench->rounds < RANGES_ROUNDS ? bench->rounds : RANGES_ROUNDS;
    for (size_t round = 0; round < rounds; round++) {
        series_add(&one, mb / merge_by(&ranges, 1));
        undo_merge(&ranges);
        series_add(&two, mb / merge_by(&ranges, 2));
        undo_merge(&ranges);
        series_add(&copied, mb / copy_by(&ranges, 1));
        series_add(&copied_by_two, mb / copy_by(&ranges, 2));
    }
    while (chunk_file_count > 0)
        close(chunk_files[--chunk_file_count]);
    double share = merge_after_kill(&ranges);
    remove_tree(ranges.folder);
    munmap(ranges.progress, sizeof *ranges.progress);
    snprintf(name, sizeof name, "a group of %" PRIu64 " MiB, one worker", mib);
    bench_figure(bench, name, "MB/s", &one);
    bench_figure(bench, "the same, two workers", "MB/s", &two);
    bench_ratio(bench, "two workers over one", &two, &one, 1.6);
    bench_figure(bench, "the same bytes copied and synced, one process", "MB/s", &copied);
    bench_figure(bench, "the same, two processes", "MB/s", &copied_by_two);
    bench_bar(bench, "read again after a kill at 80 %", "of the bytes", share, 0.25,
              /* at most */ true);
}

/* ---- claims -------------------------------------------------------------------------- */

#define CLAIMS_EACH 6 /* groups for each worker */

struct tally {
    atomic_ulong puts, vain; /* of lease tables */
    atomic_ulong catalog_puts, catalog_vain;
    atomic_ulong claims, held;
};

static void count_tables(void *argument, const struct hf_store_request *request)
{
    struct tally *tally = argument;
    struct view key = { request->key, request->key_size };
    bool vain = request->status != HF_OK;
    if (request->call != HF_STORE_CALL_PUT)
        return;
    if (view_ends_with(key, VIEW("compaction-leases.json"))) {
        atomic_fetch_add(&tally->puts, 1);
        atomic_fetch_add(&tally->vain, vain);
    } else if (view_ends_with(key, VIEW("catalog.json"))) {
        atomic_fetch_add(&tally->catalog_puts, 1);
        atomic_fetch_add(&tally->catalog_vain, vain);
    }
}

static void claim_all(const char *url, struct tally *tally, int gate)
{
    struct hf_compact_worker_options options = HF_COMPACT_WORKER_OPTIONS;
    struct hf_compact_totals totals = HF_COMPACT_TOTALS;
    struct bucket bucket;
    struct hf_error error;
    char scratch[700], byte;
    options.mode = HF_COMPACT_DRAIN;
    options.memory_bytes = HF_MERGE_MEMORY_MIN;
    options.jobs = 1;
    options.threads = 1;
    options.label = "bench";
    snprintf(scratch, sizeof scratch, "%s/claims-%d", bench_folder(), (int)getpid());
    mkdir(scratch, 0777);
    bucket_open(&bucket, url, scratch, count_tables, tally);
    check(read(gate, &byte, 1) == 0); /* all at once */
    must(hf_compact_run(bucket.compact, &options, &totals, &error), &error, "run");
    atomic_fetch_add(&tally->claims, totals.claims);
    atomic_fetch_add(&tally->held, totals.claims_held);
    bucket_close(&bucket);
}

static void fill_small(const char *url, unsigned groups)
{
    static char paths[2 * 64 * CLAIMS_EACH][700];
    static const char *inputs[2 * 64 * CLAIMS_EACH];
    struct bucket bucket;
    for (unsigned i = 0; i < 2 * groups; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/small-%u", bench_folder(), i);
        write_small(paths[i], i, i / 2);
        inputs[i] = paths[i];
    }
    bucket_open(&bucket, url, NULL, NULL, NULL);
    ingest(&bucket, inputs, 2 * groups);
    bucket_close(&bucket);
}

static void claims_of(struct bench *bench, struct tally *tally, unsigned workers)
{
    char url[900], name[100];
    int gate[2];
    struct hf_compact_settings settings = settings_of_records();
    snprintf(url, sizeof url, "s3://" CEPH_BUCKET "/claims-%u?endpoint=%s&etag=bare", workers,
             bench_ceph());
    settings.level0_count = 2;
    make_partition(url, &settings);
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
    printf("  %2u workers: %.0f claims in %.1f s, %.2f puts a claim, %.1f %% in "
           "vain, %lu refused; catalog %.2f puts a commit, %.1f %% in vain\n",
           workers, claims, took, (double)tally->puts / claims,
           100.0 * (double)tally->vain / (double)tally->puts, tally->held,
           (double)tally->catalog_puts / claims,
           100.0 * (double)tally->catalog_vain / (double)tally->catalog_puts);
    struct series series = { .count = 0 };
    series_add(&series, (double)tally->puts / claims);
    snprintf(name, sizeof name, "%u workers", workers);
    bench_figure(bench, name, "lease puts a claim", &series);
    if (workers == 16)
        bench_bar(bench, "lease puts a claim, 16 workers", "", (double)tally->puts / claims,
                  2.5, /* at_most */ true);
    bench_bar(bench, "claims that succeeded", "", claims, workers * CLAIMS_EACH, false);
}

static void bench_claims(struct bench *bench)
{
    static const unsigned sizes[] = { 1, 5, 16, 64 };
    struct tally *tally = bench_share_memory(sizeof *tally);
    printf(
        "  (the design that this comes from expects conflicts of 0 %%, < 2 %%, < 5 %% at 1, 2, "
        "5 compactors that each claim once in 10 s)\n");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        claims_of(bench, tally, sizes[i]);
    munmap(tally, sizeof *tally);
}

int main(int argc, char **argv)
{
    static const struct bench_part parts[] = { { "plan", bench_plan },
                                               { "run", bench_run },
                                               { "ranges", bench_ranges },
                                               { "claims", bench_claims },
                                               { NULL, NULL } };
    struct bench bench = { .rounds = PAIRS, .seconds = 1 };
    return bench_main(&bench, parts, argc, argv);
}
