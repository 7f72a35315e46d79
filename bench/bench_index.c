/* SPDX-License-Identifier: Apache-2.0 */
/* bench_index.c: measures indexes.
 *
 *   get       1,000,000 records in 256 shards, on each local store: the cost of one key, with the
 *             store opened again and without, in time and in bytes; all keys of a prefix, all keys,
 *             and the memory used
 *   requests  the number of requests per folded record, at 100, 200 and 1,000 entries per shard
 *   compile   entries put and folded per second, by one process and by four
 *   peers     beside the obvious alternatives: one file per record, and an SQLite table, in Python
 *
 * Files are in the page cache. "cold" is a store that was just opened; "warm" a handle that has
 * read most shards before. */
#include "base/check.h"
#include "base/prng.h"
#include "index_data.h"
#include "place.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const kinds[] = { "sqlite", "dir" };
#define KIND_COUNT (sizeof kinds / sizeof kinds[0])

/* A separate store with its own name. "dir-unsynced" lets the kernel decide when files reach
 * the disk. */
static void url_of(const char *kind, const char *name, char url[700])
{
    bool dir = strncmp(kind, "dir", 3) == 0;
    bool synced = strcmp(kind, "dir-unsynced") != 0;
    char folder[600];
    snprintf(folder, sizeof folder, "%s/%s-%s", bench_folder(), name, kind);
    check(mkdir(folder, 0777) == 0 || errno == EEXIST);
    snprintf(url, 700, "%s:%s%s", dir ? "dir" : kind, folder,
             !dir     ? "/db"
             : synced ? ""
                      : "?sync=off");
}

static void remove_store(const char *kind, const char *name)
{
    char folder[600];
    snprintf(folder, sizeof folder, "%s/%s-%s", bench_folder(), name, kind);
    remove_tree(folder);
}

static struct tally *tally_new(void)
{
    struct tally *tally = bench_share_memory(sizeof *tally);
    return tally;
}

/* ---- In a process of its own --------------------------------------------------------- */

/* The result of a child, and its peak memory above the start. */
struct found {
    double took_s;
    uint64_t records;
    double memory_kib;
};

static struct found in_child(struct found (*work)(const char *url), const char *url)
{
    struct found found;
    int ends[2];
    fflush(NULL);
    check(pipe(ends) == 0);
    pid_t child = fork();
    check(child >= 0);
    if (child == 0) {
        double before = peak_kib();
        found = work(url);
        found.memory_kib = peak_kib() - before;
        check(write(ends[1], &found, sizeof found) == sizeof found);
        _exit(0);
    }
    close(ends[1]);
    if (read(ends[0], &found, sizeof found) != sizeof found)
        bench_die("a process died");
    close(ends[0]);
    waitpid(child, NULL, 0);
    return found;
}

/* ---- get ----------------------------------------------------------------------------- */

#define RECORDS  1000000
#define GETS     500
#define PREFIX   "h01" /* of 100,000 keys */
#define PREFIXED 100000

struct latencies {
    double us[GETS];
};

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void latencies_sort(struct latencies *latencies)
{
    qsort(latencies->us, GETS, sizeof latencies->us[0], compare_doubles);
}

static void get_one(struct desk *desk, uint64_t number)
{
    char key[DATA_KEY_MAX], expected[DATA_LINE_MAX];
    struct hf_index_record *record;
    struct hf_error error;
    size_t size;
    must(hf_index_get(desk->index, data_key(number, key), &record, &error), &error, "get");
    const char *text = hf_index_record_text(record, HF_INDEX_USV, /* first */ true, &size);
    struct view line = data_record(number, expected);
    if (!text || size < line.size || memcmp(text, line.data, line.size) != 0)
        bench_die("a wrong record of %s", key);
    hf_index_record_free(record);
}

/* A warm reader has read other keys of most shards before. */
#define WARMING_GETS 2000

static void read_keys(const char *url, bool cold, uint64_t seed, uint64_t records,
                      struct latencies *ret)
{
    struct prng prng = prng_seeded(seed);
    struct desk desk;
    if (!cold)
        desk_open(&desk, url, NULL);
    for (size_t i = 0; !cold && i < WARMING_GETS; i++)
        get_one(&desk, prng_below(&prng, records));
    for (size_t i = 0; i < GETS; i++) {
        double begun = now_s();
        if (cold)
            desk_open(&desk, url, NULL);
        get_one(&desk, prng_below(&prng, records));
        if (cold)
            desk_close(&desk);
        ret->us[i] = 1e6 * (now_s() - begun);
    }
    if (!cold)
        desk_close(&desk);
    latencies_sort(ret);
}

static struct found walk(const char *url, const char *prefix)
{
    struct found found = { .records = 0 };
    struct hf_index_query query = HF_INDEX_QUERY;
    struct hf_index_cursor *cursor;
    struct hf_index_record *record;
    struct hf_error error;
    struct desk desk;
    enum hf_status status;
    double begun = now_s();
    desk_open(&desk, url, NULL);
    query.prefix = prefix;
    must(hf_index_cursor_open(desk.index, &query, &cursor, &error), &error, "cursor");
    while ((status = hf_index_cursor_next(cursor, &record, &error)) == HF_OK)
        found.records++;
    if (status != HF_NOT_FOUND)
        must(status, &error, "walk");
    hf_index_cursor_close(cursor);
    desk_close(&desk);
    found.took_s = now_s() - begun;
    return found;
}

static struct found walk_prefix(const char *url)
{
    return walk(url, PREFIX);
}

static struct found walk_all(const char *url)
{
    return walk(url, NULL);
}

static struct found count_all(const char *url)
{
    struct found found = { .records = 0 };
    struct hf_error error;
    struct desk desk;
    double begun = now_s();
    desk_open(&desk, url, NULL);
    must(hf_index_count(desk.index, /* query */ NULL, &found.records, &error), &error, "count");
    desk_close(&desk);
    found.took_s = now_s() - begun;
    return found;
}

static struct found load_all(const char *url)
{
    struct desk desk;
    desk_open(&desk, url, NULL);
    struct found found = { .took_s = desk_load(&desk, RECORDS) };
    desk_close(&desk);
    return found;
}

static void measure_gets(struct bench *bench, const char *kind, const char *url)
{
    struct series cold50 = { .count = 0 }, cold99 = { .count = 0 };
    struct series warm50 = { .count = 0 }, warm99 = { .count = 0 };
    struct latencies latencies;
    char name[100];
    for (size_t i = 0; i < bench->rounds; i++) {
        read_keys(url, /* cold */ true, i, RECORDS, &latencies);
        series_add(&cold50, latencies.us[GETS / 2]);
        series_add(&cold99, latencies.us[GETS * 99 / 100]);
        read_keys(url, /* cold */ false, i, RECORDS, &latencies);
        series_add(&warm50, latencies.us[GETS / 2]);
        series_add(&warm99, latencies.us[GETS * 99 / 100]);
    }
    struct {
        const char *what;
        const struct series *series;
    } rows[] = { { "get, cold, p50", &cold50 },
                 { "get, cold, p99", &cold99 },
                 { "get, warm, p50", &warm50 },
                 { "get, warm, p99", &warm99 } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(name, sizeof name, "%s: %s", kind, rows[i].what);
        bench_figure(bench, name, "us", rows[i].series);
    }
    snprintf(name, sizeof name, "%s: get, cold, p50", kind);
    bench_bar(bench, name, "us", series_median(&cold50), 2000, /* at_most */ true);
}

static bool note_size(void *argument, const struct hf_store_entry *entry)
{
    *(double *)argument = (double)entry->size;
    return true;
}

/* How much of a shard one key takes. */
static void measure_bytes(struct bench *bench, const char *kind, const char *url)
{
    struct tally *tally = tally_new();
    struct prng prng = prng_seeded(77);
    struct hf_error error;
    struct desk desk;
    double shard = 0;
    char name[100];
    desk_open(&desk, url, tally);
    must(hf_store_list(desk.at.store, "indexes/" DATA_NAME "/shards/00.usv", NULL, note_size,
                       &shard, &error),
         &error, "shard");
    const struct counts *asked = &tally->asked;
    unsigned long before = asked->bytes_received, calls = asked->calls[HF_STORE_CALL_GET];
    for (size_t i = 0; i < GETS; i++)
        get_one(&desk, prng_below(&prng, RECORDS));
    double bytes = (double)(asked->bytes_received - before) / GETS;
    printf("  %s: a get reads %.0f bytes in %.1f gets; a shard has %.0f\n", kind, bytes,
           (double)(asked->calls[HF_STORE_CALL_GET] - calls) / GETS, shard);
    snprintf(name, sizeof name, "%s: part of the shard that a get reads", kind);
    bench_bar(bench, name, "%", 100 * bytes / shard, 25, /* at_most */ true);
    desk_close(&desk);
    munmap(tally, sizeof *tally);
}

static void measure_walks(struct bench *bench, const char *kind, const char *url)
{
    struct {
        const char *what;
        struct found (*work)(const char *url);
        uint64_t records;
        struct series rate, memory;
    } walks[] = { { .what = "query --prefix", .work = walk_prefix, .records = PREFIXED },
                  { .what = "all records", .work = walk_all, .records = RECORDS },
                  { .what = "count", .work = count_all, .records = RECORDS } };
    char name[100];
    for (size_t i = 0; i < sizeof walks / sizeof walks[0]; i++) {
        for (size_t round = 0; round < bench->rounds; round++) {
            struct found found = in_child(walks[i].work, url);
            if (found.records != walks[i].records)
                bench_die("%s: %" PRIu64 " records", walks[i].what, found.records);
            series_add(&walks[i].rate, (double)found.records / found.took_s);
            series_add(&walks[i].memory, found.memory_kib);
        }
        snprintf(name, sizeof name, "%s: %s", kind, walks[i].what);
        bench_figure(bench, name, "keys/s", &walks[i].rate);
        snprintf(name, sizeof name, "%s: %s, memory", kind, walks[i].what);
        bench_bar(bench, name, "KiB", series_most(&walks[i].memory), 16 * 1024,
                  /* at_most */ true);
    }
}

static void bench_get(struct bench *bench)
{
    for (size_t i = 0; i < KIND_COUNT; i++) {
        char url[700], name[100];
        struct series rate = { .count = 0 };
        url_of(kinds[i], "get", url);
        series_add(&rate, RECORDS / in_child(load_all, url).took_s);
        snprintf(name, sizeof name, "%s: 1,000,000 records straight into shards", kinds[i]);
        bench_figure(bench, name, "keys/s", &rate);
        measure_gets(bench, kinds[i], url);
        measure_bytes(bench, kinds[i], url);
        measure_walks(bench, kinds[i], url);
        remove_store(kinds[i], "get");
    }
}

/* ---- requests ------------------------------------------------------------------------ */

#define SHARD "a3"

static void compile_one(struct desk *desk, uint64_t entries)
{
    struct hf_index_compile_options options = HF_INDEX_COMPILE_OPTIONS;
    struct hf_index_compile_report report = HF_INDEX_COMPILE_REPORT;
    struct hf_error error;
    options.shard = SHARD;
    must(hf_index_compile(desk->index, &options, &report, &error), &error, "compile");
    if (report.folded.entries != entries || report.folded.deleted != entries)
        bench_die("%" PRIu64 " entries were folded, %" PRIu64 " deleted", report.folded.entries,
                  report.folded.deleted);
}

/* Puts this many new records of one shard, folds them, and counts the requests. */
static void requests_of(struct bench *bench, const char *kind, struct desk *desk,
                        struct tally *tally, uint64_t *next, size_t entries)
{
    static uint64_t numbers[PUT_MAX];
    const struct counts *asked = &tally->asked;
    char name[100];
    for (size_t i = 0; i < entries; i++) {
        numbers[i] = data_in_shard(*next, SHARD);
        *next = numbers[i] + 1;
    }
    desk_put(desk, numbers, entries, entries);
    memset(tally, 0, sizeof *tally);
    snprintf(tally->folder, sizeof tally->folder, "indexes/" DATA_NAME "/inbox/" SHARD "/");
    compile_one(desk, entries);
    double each = (double)counts_all(asked);
    unsigned long deletes = asked->calls[HF_STORE_CALL_DELETE];
    unsigned long batches = asked->batches[HF_STORE_CALL_DELETE];
    double together = each - (double)(deletes - batches);
    printf("  %s, %zu entries: %lu gets, %lu puts, %lu deletes in %lu batches, %lu listings\n",
           kind, entries, asked->calls[HF_STORE_CALL_GET], asked->calls[HF_STORE_CALL_PUT],
           deletes, batches, asked->calls[HF_STORE_CALL_LIST]);
    if (tally->lists_elsewhere > 0)
        bench_die("%lu listings were not of the shard", tally->lists_elsewhere);
    snprintf(name, sizeof name, "%s, %zu entries: deletes one by one", kind, entries);
    bench_bar(bench, name, "a rec.", each / (double)entries, 2.1, /* at_most */ true);
    snprintf(name, sizeof name, "%s, %zu entries: many deletes a request", kind, entries);
    bench_bar(bench, name, "a rec.", together / (double)entries, 1.1, /* at_most */ true);
}

static void bench_requests(struct bench *bench)
{
    static const size_t sizes[] = { 100, 200, 1000 };
    static const char *const places[] = { "mem", "sqlite", "ceph" };
    struct tally *tally = tally_new();
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        char url[900];
        struct desk desk;
        uint64_t next = 0;
        if (strcmp(places[i], "ceph") == 0)
            snprintf(url, sizeof url, "s3://" CEPH_BUCKET "/requests?endpoint=%s&etag=bare",
                     bench_ceph());
        else if (strcmp(places[i], "mem") == 0)
            snprintf(url, sizeof url, "mem:");
        else
            url_of(places[i], "requests", url);
        desk_open(&desk, url, tally);
        uint64_t first = data_in_shard(0, SHARD);
        next = first + 1;
        desk_put(&desk, &first, 1, 1); /* warm: the lock and the shard are there */
        compile_one(&desk, 1);
        for (size_t size = 0; size < sizeof sizes / sizeof sizes[0]; size++)
            requests_of(bench, places[i], &desk, tally, &next, sizes[size]);
        desk_close(&desk);
    }
    munmap(tally, sizeof *tally);
}

/* ---- compile ------------------------------------------------------------------------- */

#define COMPILE_ENTRIES 20000
#define SYNCED_ENTRIES  1000 /* on a folder, where each is a file that is synced */

static void numbers_from(uint64_t first, size_t count, uint64_t *numbers)
{
    for (size_t i = 0; i < count; i++)
        numbers[i] = first + i;
}

static uint64_t compile_once(const char *url)
{
    struct hf_index_compile_options options = HF_INDEX_COMPILE_OPTIONS;
    struct hf_index_compile_report report = HF_INDEX_COMPILE_REPORT;
    struct hf_error error;
    struct desk desk;
    options.wait_ms = 0;
    desk_open(&desk, url, NULL);
    must(hf_index_compile(desk.index, &options, &report, &error), &error, "compile");
    desk_close(&desk);
    return report.folded.entries;
}

/* A compile skips shards that are locked, so each process repeats it until everything is
 * folded. */
static double compile_by(const char *url, unsigned processes, uint64_t entries)
{
    atomic_ulong *folded = bench_share_memory(sizeof *folded);
    atomic_init(folded, 0);
    fflush(NULL);
    double begun = now_s();
    for (unsigned i = 0; i < processes; i++) {
        pid_t child = fork();
        check(child >= 0);
        if (child == 0) {
            while (*folded < entries && now_s() - begun < 300)
                atomic_fetch_add(folded, compile_once(url));
            _exit(*folded < entries);
        }
    }
    for (unsigned i = 0; i < processes; i++) {
        int status;
        if (wait(&status) < 0 || status != 0)
            bench_die("a compiler failed");
    }
    double took = now_s() - begun;
    munmap(folded, sizeof *folded);
    return took;
}

static void measure_compile(struct bench *bench, const char *kind, size_t entries)
{
    static uint64_t numbers[COMPILE_ENTRIES];
    static const unsigned crews[] = { 1, 4 };
    struct series put = { .count = 0 }, folded[2] = { { .count = 0 }, { .count = 0 } };
    char url[700], name[100];
    uint64_t next = 0;
    url_of(kind, "compile", url);
    for (size_t round = 0; round < bench->rounds; round++)
        for (size_t crew = 0; crew < 2; crew++) {
            struct desk desk;
            numbers_from(next, entries, numbers);
            next += entries;
            desk_open(&desk, url, NULL);
            double took = desk_put(&desk, numbers, entries, PUT_MAX);
            desk_close(&desk);
            if (crew == 0)
                series_add(&put, (double)entries / took);
            series_add(&folded[crew], (double)entries / compile_by(url, crews[crew], entries));
        }
    snprintf(name, sizeof name, "%s: put of %zu, 1,000 at once", kind, entries);
    bench_figure(bench, name, "keys/s", &put);
    for (size_t crew = 0; crew < 2; crew++) {
        snprintf(name, sizeof name, "%s: compile, %u process%s", kind, crews[crew],
                 crews[crew] > 1 ? "es" : "");
        bench_figure(bench, name, "keys/s", &folded[crew]);
    }
    remove_store(kind, "compile");
}

static void bench_compile(struct bench *bench)
{
    measure_compile(bench, "sqlite", COMPILE_ENTRIES);
    measure_compile(bench, "dir-unsynced", COMPILE_ENTRIES);
    measure_compile(bench, "dir", SYNCED_ENTRIES);
}

/* ---- peers --------------------------------------------------------------------------- */

#define PEER_RECORDS 100000
#define PEER_SINGLE  500
#define PEER_PREFIX  "h0012"        /* of 1,000 keys */
#define PEER_ROUNDS  PAIRS_INTERVAL /* each takes most of a minute */

enum measure { PUT, PUT_MANY, GET, PREFIX_MS, SCAN, MEASURES };
static const struct {
    const char *name, *what, *unit;
    bool less; /* is better */
} measures[MEASURES] = {
    [PUT] = { "put", "put, one by one", "keys/s", false },
    [PUT_MANY] = { "put_many", "put, many at once", "keys/s", false },
    [GET] = { "get", "get, warm, p50", "us", true },
    [PREFIX_MS] = { "prefix", "1,000 keys of a prefix", "ms", true },
    [SCAN] = { "scan", "all keys", "keys/s", false },
};

struct contender {
    const char *name;
    size_t records;
    struct series series[MEASURES];
};

/* Walks over a few records show nothing. */
static bool measures_of(const struct contender *contender, size_t measure)
{
    return contender->records == PEER_RECORDS || (measure != PREFIX_MS && measure != SCAN);
}

/* Runs bench/peers/index.py, which prints one figure a line. */
static void run_peer(struct contender *peer, size_t single)
{
    char command[2000], folder[600], records[600], name[32];
    double value;
    snprintf(folder, sizeof folder, "%s/peer", bench_folder());
    snprintf(records, sizeof records, "%s/records-%zu", bench_folder(), peer->records);
    write_records(records, peer->records);
    check(mkdir(folder, 0777) == 0);
    snprintf(command, sizeof command,
             "exec python3 bench/peers/index.py %s '%s' '%s' %zu " PEER_PREFIX, peer->name,
             folder, records, single);
    FILE *out = popen(command, "r");
    check(out);
    while (fscanf(out, "%31s %lf", name, &value) == 2)
        for (size_t i = 0; i < MEASURES; i++)
            if (strcmp(name, measures[i].name) == 0 && measures_of(peer, i))
                series_add(&peer->series[i], value);
    if (pclose(out) != 0)
        bench_die("failed: %s", command);
    remove_tree(folder);
    unlink(records);
}

static void walk_ours(struct contender *ours, const char *url)
{
    struct found found = walk(url, PEER_PREFIX);
    if (found.records != 1000)
        bench_die("%" PRIu64 " keys of the prefix", found.records);
    series_add(&ours->series[PREFIX_MS], 1e3 * found.took_s);
    found = walk_all(url);
    if (found.records != ours->records)
        bench_die("%" PRIu64 " keys", found.records);
    series_add(&ours->series[SCAN], (double)found.records / found.took_s);
}

/* Ours, on the same records: put, then compiled, then read. */
static void run_ours(struct contender *ours)
{
    static uint64_t numbers[PEER_RECORDS];
    static struct latencies latencies;
    char url[700];
    struct desk desk;
    numbers_from(0, PEER_RECORDS, numbers);
    url_of(ours->name, "peers", url);
    desk_open(&desk, url, NULL);
    double single = desk_put(&desk, numbers, PEER_SINGLE, 1);
    size_t many = ours->records - PEER_SINGLE;
    double rest = desk_put(&desk, numbers + PEER_SINGLE, many, PUT_MAX);
    desk_close(&desk);
    compile_by(url, 1, ours->records);
    series_add(&ours->series[PUT], PEER_SINGLE / single);
    series_add(&ours->series[PUT_MANY], (double)many / rest);
    read_keys(url, /* cold */ false, 5, ours->records, &latencies);
    series_add(&ours->series[GET], latencies.us[GETS / 2]);
    if (measures_of(ours, SCAN))
        walk_ours(ours, url);
    remove_store(ours->name, "peers");
}

/* How many times as good ours is, of each measure; for information. */
static void print_beside(const struct contender *ours, const struct contender *theirs)
{
    for (size_t i = 0; i < MEASURES; i++) {
        const struct series *a = &ours->series[i], *b = &theirs->series[i];
        struct ratio ratio =
            measures[i].less ? series_ratio_interval(b, a) : series_ratio_interval(a, b);
        char text[RATIO_TEXT_MAX];
        if (ratio.pairs > 0)
            printf("  ours on %-12s beside %-10s  %-24s %9.3g x  (%s)\n", ours->name,
                   theirs->name, measures[i].what, ratio.median, ratio_text(ratio, text));
    }
}

static void print_contender(struct bench *bench, const char *whose, const struct contender *one)
{
    char name[100];
    for (size_t i = 0; i < MEASURES; i++) {
        snprintf(name, sizeof name, "%s %s, %zu: %s", whose, one->name, one->records,
                 measures[i].what);
        if (one->series[i].count > 0)
            bench_figure(bench, name, measures[i].unit, &one->series[i]);
    }
}

static void bench_peers(struct bench *bench)
{
    enum { SQLITE, DIR, UNSYNCED, FILES = 0, FILES_SYNC, TABLE, EACH };
    struct contender ours[EACH] = {
        [SQLITE] = { .name = "sqlite", .records = PEER_RECORDS },
        [DIR] = { .name = "dir", .records = 2 * PEER_SINGLE },
        [UNSYNCED] = { .name = "dir-unsynced", .records = PEER_RECORDS },
    };
    struct contender peers[EACH] = {
        [FILES] = { .name = "files", .records = PEER_RECORDS },
        [FILES_SYNC] = { .name = "files-sync", .records = 2 * PEER_SINGLE },
        [TABLE] = { .name = "sqlite", .records = PEER_RECORDS },
    };
    size_t rounds = bench->rounds < PEER_ROUNDS ? bench->rounds : PEER_ROUNDS;
    for (size_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < EACH; i++) {
            run_peer(&peers[i], PEER_SINGLE);
            run_ours(&ours[i]);
        }
    for (size_t i = 0; i < EACH; i++)
        print_contender(bench, "ours on", &ours[i]);
    for (size_t i = 0; i < EACH; i++)
        print_contender(bench, "Python,", &peers[i]);
    if (!bench->json) {
        print_beside(&ours[SQLITE], &peers[TABLE]);
        print_beside(&ours[SQLITE], &peers[FILES_SYNC]);
        print_beside(&ours[DIR], &peers[FILES_SYNC]);
        print_beside(&ours[UNSYNCED], &peers[FILES]);
    }
    bench_ratio(bench, "put, one by one: sqlite beside synced files", &ours[SQLITE].series[PUT],
                &peers[FILES_SYNC].series[PUT], 1);
    /* Times, so theirs over ours: 0.5 means that a get takes twice as long as theirs. */
    bench_ratio(bench, "get, warm: our speed, of that of Python's sqlite3",
                &peers[TABLE].series[GET], &ours[SQLITE].series[GET], 0.5);
    bench_ratio(bench, "all keys: sqlite beside files", &ours[SQLITE].series[SCAN],
                &peers[FILES].series[SCAN], 10);
    bench_ratio(bench, "all keys: dir beside files", &ours[UNSYNCED].series[SCAN],
                &peers[FILES].series[SCAN], 10);
}

int main(int argc, char **argv)
{
    static const struct bench_part parts[] = { { "get", bench_get },
                                               { "requests", bench_requests },
                                               { "compile", bench_compile },
                                               { "peers", bench_peers },
                                               { NULL, NULL } };
    struct bench bench = { .rounds = PAIRS_INTERVAL, .seconds = 1 };
    return bench_main(&bench, parts, argc, argv);
}
