/* SPDX-License-Identifier: Apache-2.0 */
/* bench_processes.c: measures processes that share one sqlite file.
 *
 *   pairs   8 and 64 processes, each of which acquires and releases its own lock, beside bare
 *           SQLite doing two updates per pair: as it is, and behind a queue (flock)
 *
 * Each side reports how often all processes were done, and how evenly: the least of a process to
 * the most. */
#include "client.h"
#include "env/env.h"
#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES_MAX 64

/* Memory that all processes share. */
struct tally {
    pthread_barrier_t start;
    atomic_bool over;
    atomic_ulong done;
    atomic_ulong each[PROCESSES_MAX];
};

struct worker {
    const char *url; /* of bare SQLite: the path */
    unsigned process;
    struct tally *tally;
};

static struct tally *new_tally(unsigned processes)
{
    struct tally *tally = bench_share_memory(sizeof *tally);
    bench_barrier(&tally->start, processes + 1);
    return tally;
}

/* ---- Locks --------------------------------------------------------------------------- */

static void pair(struct worker *worker)
{
    char name[40];
    struct hf_lock *lock;
    struct hf_error error;
    struct client opened;
    client_open(&opened, worker->url, NULL, NULL);
    snprintf(name, sizeof name, "own-%u", worker->process);
    must(hf_lock_new(opened.client, name, NULL, &lock, &error), &error, "new");
    pthread_barrier_wait(&worker->tally->start);
    while (!atomic_load(&worker->tally->over)) {
        must(hf_lock_acquire(lock, 0, &error), &error, "acquire");
        must(hf_lock_release(lock, &error), &error, "release");
        atomic_fetch_add(&worker->tally->done, 1);
        atomic_fetch_add(&worker->tally->each[worker->process], 1);
    }
    hf_lock_free(lock);
    client_close(&opened);
}

/* ---- Bare SQLite --------------------------------------------------------------------- */

/* A row like that of a lock: its bytes are about as many. */
#define BARE_BYTES 500

static void bare_must(sqlite3 *handle, int code)
{
    if (code != SQLITE_OK && code != SQLITE_DONE)
        bench_die("bare SQLite: %s", sqlite3_errmsg(handle));
}

static sqlite3_stmt *bare_statement(sqlite3 *handle, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    bare_must(handle, sqlite3_prepare_v2(handle, sql, -1, &statement, NULL));
    return statement;
}

static void bare_step(sqlite3 *handle, sqlite3_stmt *statement)
{
    bare_must(handle, sqlite3_step(statement));
    bare_must(handle, sqlite3_reset(statement));
}

static sqlite3 *bare_open(const char *path)
{
    sqlite3 *handle = NULL;
    if (sqlite3_open(path, &handle) != SQLITE_OK)
        bench_die("bare SQLite: cannot open %s", path);
    sqlite3_busy_timeout(handle, 60000);
    bare_must(handle,
              sqlite3_exec(handle, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL", NULL,
                           NULL, NULL));
    return handle;
}

static void bare_create(const char *path)
{
    sqlite3 *handle = bare_open(path);
    bare_must(handle, sqlite3_exec(handle,
                                   "CREATE TABLE rows (id INTEGER PRIMARY KEY, key TEXT UNIQUE,"
                                   " version INTEGER, body BLOB);"
                                   "BEGIN",
                                   NULL, NULL, NULL));
    sqlite3_stmt *insert =
        bare_statement(handle, "INSERT INTO rows VALUES (?1, 'own-' || ?1, 0, zeroblob(500))");
    for (int i = 0; i < PROCESSES_MAX; i++) {
        sqlite3_bind_int(insert, 1, i);
        bare_step(handle, insert);
    }
    sqlite3_finalize(insert);
    bare_must(handle, sqlite3_exec(handle, "COMMIT", NULL, NULL, NULL));
    sqlite3_close(handle);
}

/* Two updates per pair, each a transaction of its own; behind a queue if there is one. */
static void bare_pairs(struct worker *worker, int queue)
{
    struct tally *tally = worker->tally;
    sqlite3 *handle = bare_open(worker->url);
    sqlite3_stmt *begin = bare_statement(handle, "BEGIN IMMEDIATE");
    sqlite3_stmt *commit = bare_statement(handle, "COMMIT");
    sqlite3_stmt *update =
        bare_statement(handle,
                       "UPDATE rows SET version = version + 1, body = ?2 WHERE key = ?1");
    char key[32], body[BARE_BYTES];
    snprintf(key, sizeof key, "own-%u", worker->process);
    memset(body, '.', sizeof body);
    sqlite3_bind_text(update, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_blob(update, 2, body, sizeof body, SQLITE_STATIC);
    pthread_barrier_wait(&tally->start);
    for (unsigned long i = 1; !atomic_load(&tally->over); i++) {
        if (queue >= 0 && flock(queue, LOCK_EX) != 0)
            bench_die("flock: %s", strerror(errno));
        bare_step(handle, begin);
        bare_step(handle, update);
        bare_step(handle, commit);
        if (queue >= 0)
            flock(queue, LOCK_UN);
        atomic_fetch_add(&tally->done, i % 2 == 0);
        atomic_fetch_add(&tally->each[worker->process], i % 2 == 0);
    }
    sqlite3_finalize(begin);
    sqlite3_finalize(commit);
    sqlite3_finalize(update);
    sqlite3_close(handle);
}

static void bare_pair(struct worker *worker)
{
    bare_pairs(worker, -1);
}

static void bare_pair_queued(struct worker *worker)
{
    char path[700];
    snprintf(path, sizeof path, "%s.queue", worker->url);
    int queue = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (queue < 0)
        bench_die("%s: %s", path, strerror(errno));
    bare_pairs(worker, queue);
    close(queue);
}

/* ---- Side by side ------------------------------------------------------------------- */

struct crowd {
    const char *name;
    void (*work)(struct worker *worker);
    struct series rate, fairness;
};

/* Runs all processes for a while. Returns how long that was, in seconds. */
static double run_processes(struct bench *bench, const struct crowd *crowd,
                            struct worker worker, unsigned processes)
{
    for (unsigned i = 0; i < processes; i++) {
        worker.process = i;
        pid_t pid = fork();
        if (pid < 0)
            bench_die("fork: %s", strerror(errno));
        if (pid == 0) {
            crowd->work(&worker);
            _exit(0);
        }
    }
    pthread_barrier_wait(&worker.tally->start);
    double start = now_s();
    env_sleep(env_real(), SPAN_US((int64_t)(bench->seconds * 1e6)));
    atomic_store(&worker.tally->over, true);
    double took = now_s() - start;
    int status;
    while (wait(&status) > 0)
        if (status != 0)
            bench_die("a worker process failed");
    return took;
}

static void run_crowd(struct bench *bench, struct crowd *crowd, unsigned processes)
{
    static unsigned number;
    char url[700];
    bool bare = crowd->work != pair;
    snprintf(url, sizeof url, "%s%s/crowd-%u.db", bare ? "" : "sqlite:", bench_folder(),
             ++number);
    if (bare)
        bare_create(url);
    struct worker worker = { .url = url, .tally = new_tally(processes) };
    double took = run_processes(bench, crowd, worker, processes);
    unsigned long least = ULONG_MAX, most = 1;
    for (unsigned i = 0; i < processes; i++) {
        unsigned long done = atomic_load(&worker.tally->each[i]);
        least = done < least ? done : least;
        most = done > most ? done : most;
    }
    series_add(&crowd->rate, (double)atomic_load(&worker.tally->done) / took);
    series_add(&crowd->fairness, (double)least / (double)most);
    munmap(worker.tally, sizeof *worker.tally);
}

static void beside_bare(struct bench *bench, unsigned processes, double bar)
{
    enum { OURS, STARVING, FAIR, COUNT };
    struct crowd crowds[COUNT] = {
        [OURS] = { .name = "a lock each", .work = pair },
        [STARVING] = { .name = "bare SQLite, two updates per pair", .work = bare_pair },
        [FAIR] = { .name = "the same behind flock", .work = bare_pair_queued },
    };
    char name[100], text[RATIO_TEXT_MAX];
    for (size_t round = 0; round < bench->rounds; round++)
        for (size_t i = 0; i < COUNT; i++)
            run_crowd(bench, &crowds[i], processes);
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, "sqlite, %u processes: %s", processes, crowds[i].name);
        bench_figure(bench, name, "/s", &crowds[i].rate);
        if (!bench->json)
            printf("  %-52s %12.2f       (the least of a process to the most)\n", "",
                   series_median(&crowds[i].fairness));
    }
    struct ratio ratio = series_ratio_interval(&crowds[OURS].rate, &crowds[FAIR].rate);
    if (!bench->json)
        printf("  %-52s %12.3g x       (%s)\n", "a lock each / bare SQLite behind flock",
               ratio.median, ratio_text(ratio, text));
    snprintf(name, sizeof name, "%u processes: of bare SQLite behind flock", processes);
    bench_bar(bench, name, "x", ratio.median, bar, /* at_most */ false);
    snprintf(name, sizeof name, "%u processes: the least of a process to the most", processes);
    bench_bar(bench, name, "", series_median(&crowds[OURS].fairness), 0.5,
              /* at_most */ false);
}

static void bench_pairs(struct bench *bench)
{
    beside_bare(bench, 8, 0.8);
    beside_bare(bench, 64, 0.7);
}

static const struct bench_part parts[] = {
    { "pairs", bench_pairs },
    { NULL, NULL },
};

int main(int argc, char **argv)
{
    struct bench bench = { .rounds = 5, .seconds = 2 };
    return bench_main(&bench, parts, argc, argv);
}
