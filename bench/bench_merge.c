/* SPDX-License-Identifier: Apache-2.0 */
/* bench_merge.c: measures `holdfast merge` beside the tools that people use today.
 *
 *   sorted    5,000,000 records in 64 sorted USV files, latest wins: beside sort -m and mawk,
 *             DuckDB, and wc -l, which only reads; with one thread and with two
 *   unsorted  the same records shuffled: beside sort and mawk, in the same memory, enforced by a
 *             kernel limit; and in a tenth of the input's size
 *   ndjson    641 MB in sorted files, beside DuckDB
 *   csv       502 MB in sorted files, all fields quoted
 *   parquet   32 files of 250,000 rows, beside the same library of DuckDB, which a program that
 *             does nothing else gives the same statement, memory and threads
 *   others    for information: a dict of Python, an upsert into SQLite, zstd; a tenth of the data
 *
 * Every program runs as its users would run it. The time of every program counts until its
 * output is on disk. Inputs are in the page cache. Every output is compared byte for byte with
 * the known result of the generated data. */
#include "bench.h"
#include "merge_data.h"
#include "place.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define RECORDS     5000000
#define ROUNDS_SLOW PAIRS_INTERVAL /* for parts that take seconds */

/* ---- Programs ------------------------------------------------------------------------ */

/* Command lines of a shell in the folder of the data: from in/ to out. */
#define MERGE_USV "exec \"$HOLDFAST\" merge --quiet --format usv --key 1 --time 3 -o out"

/* As an expert would run them: bytes compared as bytes, all files merged in one pass where
 * stated, the fastest awk. Programs that must spill do so next to the output, as ours does. */
#define SORT "TMPDIR=. LC_ALL=C sort -t \"$US\" -k 1,1 -k 3,3"
#define LATEST                                                        \
    " | LC_ALL=C mawk -F \"$US\" '$1 != key && NR > 1 { print line }" \
    " { key = $1; line = $0 } END { if (NR) print line }' >out && sync out"

#define DUCKDB(format) "node \"$PEERS/duckdb.mjs\" " format " out 'in/*' && sync out"
#define PYTHON(way)    "TMPDIR=. python3 \"$PEERS/latest.py\" " way " out in/* && sync out"

struct contender {
    const char *name;
    const char *command;
    size_t rounds; /* at most; 0: all */
    bool writes_nothing;
    struct series ms, cpu_ms, rss_mib;
};

static void set_path(const char *name, const char *folder, const char *file)
{
    char path[2 * PATH_MAX], found[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    if (!realpath(path, found))
        bench_die("%s: %s", path, strerror(errno));
    setenv(name, found, 1);
}

/* Environment variables that the command lines use. */
static void set_environment(void)
{
    char self[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    if (size < 0)
        bench_die("/proc/self/exe: %s", strerror(errno));
    self[size] = '\0';
    const char *folder = dirname(self);
    set_path("HOLDFAST", folder, "../src/cli/holdfast");
    set_path("HOLDFAST_PARQUET", folder, "../src/parquet/holdfast-parquet");
    set_path("DUCKDB_SQL", folder, "duckdb_sql");
    set_path("PEERS", ".", "bench/peers");
    setenv("US", "\x1f", 1);
}

static double ms_of(struct timeval time)
{
    return 1e3 * (double)time.tv_sec + (double)time.tv_usec / 1e3;
}

static pid_t start_command(const char *command, const char *folder)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        bench_die("fork: %s", strerror(errno));
    if (pid == 0) {
        if (chdir(folder) == 0)
            execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void run_in(const char *command, const char *folder)
{
    int status;
    pid_t pid = start_command(command, folder);
    if (waitpid(pid, &status, 0) != pid || status != 0)
        bench_die("failed: %s", command);
}

static void run_command(const char *command, const struct merge_data *data)
{
    run_in(command, data->folder);
}

/* It is when it loads: its packages are for some machines only. */
static bool has_duckdb(void)
{
    int status;
    pid_t pid = start_command("exec node -e 'import(\"@duckdb/node-api\")' 2>/dev/null",
                              getenv("PEERS"));
    bool has = waitpid(pid, &status, 0) == pid && status == 0;
    if (!has)
        fputs("  DuckDB is not installed (tools/bench.sh does that): not measured\n", stderr);
    return has;
}

/* The library that the tests use, unless another one is named. */
static bool has_duckdb_library(void)
{
    char path[PATH_MAX];
    struct utsname machine;
    bool is_arm = uname(&machine) == 0 && strcmp(machine.machine, "aarch64") == 0;
    if (getenv("HOLDFAST_DUCKDB"))
        return true;
    if (realpath(
            is_arm ? "tests/servers/node_modules/@duckdb/node-bindings-linux-arm64/libduckdb.so"
                   : "tests/servers/node_modules/@duckdb/node-bindings-linux-x64/libduckdb.so",
            path)) {
        setenv("HOLDFAST_DUCKDB", path, 1);
        return true;
    }
    fputs("  DuckDB's library is not installed (make setup-test does that): not measured\n",
          stderr);
    return false;
}

static void run_once(struct contender *contender, const struct merge_data *data)
{
    int status;
    struct rusage usage;
    double start = now_s();
    pid_t pid = start_command(contender->command, data->folder);
    if (wait4(pid, &status, 0, &usage) != pid || status != 0)
        bench_die("failed: %s", contender->command);
    series_add(&contender->ms, 1e3 * (now_s() - start));
    series_add(&contender->cpu_ms, ms_of(usage.ru_utime) + ms_of(usage.ru_stime));
    series_add(&contender->rss_mib, (double)usage.ru_maxrss / 1024);
    if (!contender->writes_nothing)
        run_command("if [ -e out.zst ]; then zstd -q -d --rm out.zst; fi;"
                    " cmp out expected && rm out",
                    data);
}

static size_t rounds_of(const struct contender *contender, size_t rounds)
{
    return contender->rounds && contender->rounds < rounds ? contender->rounds : rounds;
}

/* All in turn, round by round, so other load of the machine affects all alike. A contender
 * without a command is skipped. */
static void run_rounds(struct bench *bench, struct contender *contenders, size_t count,
                       const struct merge_data *data)
{
    for (size_t round = 0; round < bench->rounds; round++)
        for (size_t i = 0; i < count; i++)
            if (contenders[i].command && round < rounds_of(&contenders[i], bench->rounds))
                run_once(&contenders[i], data);
}

/* ---- Figures ------------------------------------------------------------------------- */

static void print_times(struct bench *bench, const struct contender *contenders, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (contenders[i].command)
            bench_figure(bench, contenders[i].name, "ms", &contenders[i].ms);
}

/* How many times as fast ours is, in wall time. */
static void bar_faster(struct bench *bench, const char *name, const struct contender *ours,
                       const struct contender *theirs, double bar)
{
    if (theirs->command)
        bench_ratio(bench, name, &theirs->ms, &ours->ms, bar);
}

/* The most of all rounds. */
static void bar_memory(struct bench *bench, const char *name, const struct contender *ours,
                       double bar_mib)
{
    bench_bar(bench, name, "MiB", series_most(&ours->rss_mib), bar_mib, /* at_most */ true);
}

static void bar_cpu(struct bench *bench, const char *name, const struct contender *ours,
                    const struct contender *theirs, double bar)
{
    bench_ratio_at_most(bench, name, &ours->cpu_ms, &theirs->cpu_ms, bar);
}

/* Megabytes of input a second. */
static struct series rates_of(const struct contender *contender, const struct merge_data *data)
{
    struct series rates = { .count = 0 };
    for (size_t i = 0; i < contender->ms.count; i++)
        series_add(&rates, (double)data->bytes / 1e3 / contender->ms.values[i]);
    return rates;
}

static void make_data(struct bench *bench, struct merge_data *data, enum data_format format,
                      uint64_t records, bool shuffled)
{
    set_environment();
    data_make(data, format, records, shuffled);
    if (!bench->json)
        printf("  %" PRIu64 " %s records in %d files, %.1f MB\n", records,
               shuffled ? "shuffled" : "sorted", DATA_FILES, (double)data->bytes / 1e6);
}

/* ---- Parts --------------------------------------------------------------------------- */

static void bench_sorted(struct bench *bench)
{
    enum { OURS, ONE, TWO, WC, SORT_ONE_PASS, SORT_PLAIN, DUCK, COUNT };
    struct contender c[COUNT] = {
        [OURS] = { .name = "sorted: holdfast merge", .command = MERGE_USV " in/*" },
        [ONE] = { .name = "sorted: holdfast merge --threads 1",
                  .command = MERGE_USV " --threads 1 in/*" },
        [TWO] = { .name = "sorted: holdfast merge --threads 2",
                  .command = MERGE_USV " --threads 2 in/*" },
        [WC] = { .name = "sorted: wc -l",
                 .command = "wc -l in/* >/dev/null",
                 .writes_nothing = true },
        [SORT_ONE_PASS] = { .name = "sorted: sort -m --batch-size=64 + mawk",
                            .command = SORT " -m --batch-size=64 in/*" LATEST },
        [SORT_PLAIN] = { .name = "sorted: sort -m + mawk",
                         .command = SORT " -m in/*" LATEST,
                         .rounds = ROUNDS_SLOW },
        [DUCK] = { .name = "sorted: DuckDB", .command = DUCKDB("usv"), .rounds = ROUNDS_SLOW },
    };
    struct merge_data data;
    make_data(bench, &data, DATA_USV, RECORDS, /* shuffled */ false);
    if (!has_duckdb())
        c[DUCK].command = NULL;
    run_rounds(bench, c, COUNT, &data);
    print_times(bench, c, COUNT);
    bench_figure(bench, "sorted: holdfast merge, CPU", "ms", &c[OURS].cpu_ms);
    bench_figure(bench, "sorted: wc -l, CPU", "ms", &c[WC].cpu_ms);
    bench_figure(bench, "sorted: holdfast merge --threads 2, memory", "MiB", &c[TWO].rss_mib);
    bar_faster(bench, "sorted: beside sort -m + mawk", &c[OURS], &c[SORT_PLAIN], 5);
    bar_faster(bench, "sorted: beside sort -m --batch-size=64 + mawk", &c[OURS],
               &c[SORT_ONE_PASS], 5);
    bar_faster(bench, "sorted: beside DuckDB", &c[OURS], &c[DUCK], 8);
    bar_faster(bench, "sorted: two threads beside one", &c[TWO], &c[ONE], 1.5);
    bar_cpu(bench, "sorted: CPU beside wc -l", &c[OURS], &c[WC], 4);
    bar_memory(bench, "sorted: memory", &c[OURS], 16);
    data_remove(&data);
}

/* The kernel refuses more than the setting, all data of the program and its libraries counted. */
#define WITHIN(mib)      "ulimit -d $((" mib " * 1024)) && " MERGE_USV " --memory " mib "MiB in/*"
#define SORT_WITHIN(mib) SORT " -S " mib "M --batch-size=64 in/*" LATEST

static void bench_unsorted(struct bench *bench)
{
    enum { OURS, SORTED, OURS_SMALL, SORT_SMALL, COUNT };
    struct contender c[COUNT] = {
        [OURS] = { .name = "unsorted: holdfast merge --memory 64MiB",
                   .command = WITHIN("64"),
                   .rounds = ROUNDS_SLOW },
        [SORTED] = { .name = "unsorted: sort -S 64M + mawk",
                     .command = SORT_WITHIN("64"),
                     .rounds = ROUNDS_SLOW },
        [OURS_SMALL] = { .name = "unsorted: holdfast merge --memory 48MiB",
                         .command = WITHIN("48"),
                         .rounds = ROUNDS_SLOW },
        [SORT_SMALL] = { .name = "unsorted: sort -S 48M + mawk",
                         .command = SORT_WITHIN("48"),
                         .rounds = ROUNDS_SLOW },
    };
    struct merge_data data;
    make_data(bench, &data, DATA_USV, RECORDS, /* shuffled */ true);
    run_rounds(bench, c, COUNT, &data);
    print_times(bench, c, COUNT);
    bench_figure(bench, "unsorted: sort -S 64M + mawk, memory", "MiB", &c[SORTED].rss_mib);
    bar_faster(bench, "unsorted: beside sort + mawk in 64 MiB", &c[OURS], &c[SORTED], 2);
    bar_faster(bench, "unsorted: beside sort + mawk in 48 MiB", &c[OURS_SMALL], &c[SORT_SMALL],
               2);
    bar_memory(bench, "unsorted: memory of 64 MiB", &c[OURS], 64);
    bar_memory(bench, "unsorted: memory of 48 MiB", &c[OURS_SMALL], 48);
    bench_bar(bench, "unsorted: input beside 48 MiB of memory", "x",
              (double)data.bytes / (48 << 20), 10, /* at_most */ false);
    data_remove(&data);
}

/* One of the two must hold: so fast, or so much faster than DuckDB. */
static void bench_ndjson(struct bench *bench)
{
    enum { OURS, DUCK, COUNT };
    struct contender c[COUNT] = {
        [OURS] = { .name = "ndjson: holdfast merge",
                   .command =
                       "exec \"$HOLDFAST\" merge --quiet --format ndjson --key id --time at"
                       " -o out in/*" },
        [DUCK] = { .name = "ndjson: DuckDB",
                   .command = DUCKDB("ndjson"),
                   .rounds = ROUNDS_SLOW },
    };
    struct merge_data data;
    make_data(bench, &data, DATA_NDJSON, RECORDS, /* shuffled */ false);
    if (!has_duckdb())
        c[DUCK].command = NULL;
    run_rounds(bench, c, COUNT, &data);
    print_times(bench, c, COUNT);
    struct series rates = rates_of(&c[OURS], &data);
    bench_figure(bench, "ndjson: input of holdfast merge", "MB/s", &rates);
    if (series_median(&rates) >= 400 || !c[DUCK].command)
        bench_bar(bench, "ndjson: input", "MB/s", series_median(&rates), 400,
                  /* at_most */ false);
    else
        bar_faster(bench, "ndjson: beside DuckDB", &c[OURS], &c[DUCK], 3);
    data_remove(&data);
}

static void bench_csv(struct bench *bench)
{
    struct contender ours = { .name = "csv: holdfast merge",
                              .command =
                                  "exec \"$HOLDFAST\" merge --quiet --format csv --key id"
                                  " --time at -o out in/*" };
    struct merge_data data;
    make_data(bench, &data, DATA_CSV, RECORDS, /* shuffled */ false);
    run_rounds(bench, &ours, 1, &data);
    print_times(bench, &ours, 1);
    struct series rates = rates_of(&ours, &data);
    bench_figure(bench, "csv: input of holdfast merge", "MB/s", &rates);
    bench_bar(bench, "csv: input", "MB/s", series_median(&rates), 300, /* at_most */ false);
    data_remove(&data);
}

/* ---- Parquet ------------------------------------------------------------------------- */

#define PARQUET_FILES  32
#define PARQUET_ROWS   250000
#define PARQUET_MEMORY "512MiB"

#define PARQUET_OURS                                                                        \
    "exec \"$HOLDFAST\" merge --quiet --format parquet --key id --time updated --threads 2" \
    " --memory " PARQUET_MEMORY " -o out in/*"

/* What somebody would write who wants the same: the latest row of each id, ties decided by all
 * columns, in the order of ids. Of the ways to say it, this one was the fastest. */
#define PARQUET_RAW(out)                                                                     \
    "\"$DUCKDB_SQL\" \"$HOLDFAST_DUCKDB\" \"SET threads = 2\" \"SET memory_limit = "         \
    "'" PARQUET_MEMORY "'\" \"SET temp_directory = 'temporary'\" \"COPY (SELECT * FROM "     \
    "read_parquet('in/*', union_by_name = true) QUALIFY row_number() OVER (PARTITION BY id " \
    "ORDER BY updated DESC, name DESC, seq DESC, token DESC, value DESC) = 1 ORDER BY id) "  \
    "TO '" out "' (FORMAT parquet, COMPRESSION zstd)\" && sync " out

static void make_parquet(const char *folder)
{
    char command[2048];
    for (int i = 0; i < PARQUET_FILES; i++) {
        snprintf(command, sizeof command,
                 "mkdir -p in && \"$DUCKDB_SQL\" \"$HOLDFAST_DUCKDB\" \"COPY (SELECT "
                 "(hash(i * %d + %d) %% %d)::BIGINT AS id, make_timestamp(1700000000000000 + "
                 "(hash(i + %d * 7919) %% 1000000000)::BIGINT * 1000) AS updated, 'user-' || "
                 "(hash(i) %% 1000) AS name, (hash(i + 1) %% 100000) / 100.0 AS value, i AS "
                 "seq, md5(i::VARCHAR) AS token FROM range(%d) t(i)) TO 'in/%02d.parquet'\"",
                 PARQUET_FILES, i, PARQUET_FILES * PARQUET_ROWS, i, PARQUET_ROWS, i);
        run_in(command, folder);
    }
}

static void bench_parquet(struct bench *bench)
{
    enum { OURS, RAW, COUNT };
    struct contender c[COUNT] = {
        [OURS] = { .name = "parquet: holdfast merge", .command = PARQUET_OURS },
        [RAW] = { .name = "parquet: DuckDB's library alone", .command = PARQUET_RAW("out") },
    };
    struct merge_data data;
    set_environment();
    if (!has_duckdb_library())
        return;
    snprintf(data.folder, sizeof data.folder, "%s/parquet", bench_folder());
    if (mkdir(data.folder, 0700) != 0)
        bench_die("%s: %s", data.folder, strerror(errno));
    make_parquet(data.folder);
    run_in(PARQUET_RAW("expected"), data.folder);
    size_t rounds = bench->rounds;
    bench->rounds = rounds < ROUNDS_SLOW ? rounds : ROUNDS_SLOW;
    run_rounds(bench, c, COUNT, &data);
    bench->rounds = rounds;
    print_times(bench, c, COUNT);
    bench_figure(bench, "parquet: holdfast merge, memory", "MiB", &c[OURS].rss_mib);
    bench_figure(bench, "parquet: DuckDB's library alone, memory", "MiB", &c[RAW].rss_mib);
    bench_ratio_at_most(bench, "parquet: beside DuckDB's library", &c[OURS].ms, &c[RAW].ms,
                        1.15);
    bench_bar(bench, "parquet: peak memory beyond DuckDB's", "MiB",
              series_most(&c[OURS].rss_mib) - series_most(&c[RAW].rss_mib), 16,
              /* at_most */ true);
    bench_bar(bench, "parquet: median of memory beyond DuckDB's", "MiB",
              series_median(&c[OURS].rss_mib) - series_median(&c[RAW].rss_mib), 16,
              /* at_most */ true);
    data_remove(&data);
}

static void bench_others(struct bench *bench)
{
    struct contender c[] = {
        { .name = "others: holdfast merge", .command = MERGE_USV " in/*" },
        { .name = "others: holdfast merge, zstd output", .command = MERGE_USV ".zst in/*" },
        { .name = "others: holdfast merge, zstd to zstd", .command = MERGE_USV ".zst zstd/*" },
        { .name = "others: sort -m + mawk", .command = SORT " -m --batch-size=64 in/*" LATEST },
        { .name = "others: dict of Python", .command = PYTHON("dict"), .rounds = 1 },
        { .name = "others: upsert into SQLite", .command = PYTHON("sqlite"), .rounds = 1 },
    };
    struct merge_data data;
    make_data(bench, &data, DATA_USV, RECORDS / 10, /* shuffled */ false);
    run_command("mkdir zstd && zstd -q in/* --output-dir-flat zstd", &data);
    run_rounds(bench, c, sizeof c / sizeof c[0], &data);
    print_times(bench, c, sizeof c / sizeof c[0]);
    data_remove(&data);
}

static const struct bench_part parts[] = {
    { "sorted", bench_sorted },
    { "unsorted", bench_unsorted },
    { "ndjson", bench_ndjson },
    { "csv", bench_csv },
    { "parquet", bench_parquet },
    { "others", bench_others },
    { NULL, NULL },
};

int main(int argc, char **argv)
{
    struct bench bench = { .rounds = PAIRS, .seconds = 1 };
    return bench_main(&bench, parts, argc, argv);
}
