/* SPDX-License-Identifier: Apache-2.0 */
/* bench_store.c: measures the local stores.
 *
 *   sqlite   durable conditional puts of 1 KiB at 64 tasks, against bare SQLite doing the same in
 *            transactions of the same size (our mean in that round; transactions of 64 are shown
 *            too), and against a loop of tmp + fsync + rename + fsync
 *   mem      puts per second
 *   dir      eight processes on distinct keys without sync, on one core and on two
 *   stream   the memory that put_file and get_file of 1 GiB need
 *   contend  eight processes on one sqlite store (a figure without a limit)
 *
 * Everything happens in a new folder below $TMPDIR or /tmp (or --dir), which is removed
 * afterwards. */
#include "base/limits.h"
#include "base/prng.h"
#include "client.h"
#include "env/env.h"
#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define TASKS         64
#define KEYS_PER_TASK 16
#define BODY_BYTES    1024
#define PROCESSES     8
#define STREAM_BYTES  GIB

/* ---- Helpers ------------------------------------------------------------------------- */

static struct hf_store *open_store(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

static struct hf_store *open_store(const char *format, ...)
{
    char url[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(url, sizeof url, format, args);
    va_end(args);
    struct hf_store *store;
    struct hf_error error;
    must(hf_store_open(url, NULL, &store, &error), &error, url);
    return store;
}

/* Puts only if the object is absent, or has this ETag, which is then replaced by the new one. */
static void put_by_etag(struct hf_store *store, const char *key, const char *body, size_t size,
                        char etag[HF_ETAG_MAX])
{
    struct hf_store_put_options options = HF_STORE_PUT_OPTIONS;
    struct hf_object_info info = HF_OBJECT_INFO;
    struct hf_error error;
    options.if_absent = etag[0] == '\0';
    options.if_match = etag[0] ? etag : NULL;
    must(hf_store_put(store, key, body, size, &options, &info, &error), &error, "put");
    memcpy(etag, info.etag, HF_ETAG_MAX);
}

/* ---- Tasks that put over and over ---------------------------------------------------- */

/* Each task uses its own keys at random, so the puts of one transaction are as scattered in the
 * file as in practice. */
struct putter {
    struct hf_store *store;
    unsigned number;
    struct prng prng;
    double until;
    uint64_t done;
    char etags[KEYS_PER_TASK][HF_ETAG_MAX];
    struct env_task *task;
};

/* Conditional from the first put on: absent, then by the ETag of the last one. */
static void put_over_and_over(void *argument)
{
    struct putter *putter = argument;
    char body[BODY_BYTES];
    memset(body, 'x', sizeof body);
    for (putter->done = 0; now_s() < putter->until; putter->done++) {
        size_t n = prng_below(&putter->prng, KEYS_PER_TASK);
        char key[32];
        snprintf(key, sizeof key, "task-%02u/key-%02zu", putter->number, n);
        memcpy(body, &putter->done, sizeof putter->done);
        put_by_etag(putter->store, key, body, sizeof body, putter->etags[n]);
    }
}

/* Puts a second of `tasks` tasks together. */
static double putters_run(struct putter *putters, unsigned tasks, double seconds)
{
    struct hf_error error;
    double start = now_s();
    for (unsigned i = 0; i < tasks; i++) {
        putters[i].until = start + seconds;
        if (env_task_start(env_real(), put_over_and_over, &putters[i], &putters[i].task,
                           &error) != HF_OK)
            bench_die("%s", error.why);
    }
    uint64_t done = 0;
    for (unsigned i = 0; i < tasks; i++) {
        env_task_join(env_real(), putters[i].task);
        done += putters[i].done;
    }
    return (double)done / (now_s() - start);
}

static struct putter *putters_new(struct hf_store *store, unsigned tasks)
{
    struct putter *putters = calloc(tasks, sizeof *putters);
    if (!putters)
        bench_die("out of memory");
    for (unsigned i = 0; i < tasks; i++) {
        putters[i].store = store;
        putters[i].number = i;
        putters[i].prng = prng_seeded(i);
    }
    return putters;
}

/* ---- Bare SQLite --------------------------------------------------------------------- */

struct bare {
    sqlite3 *handle;
    sqlite3_stmt *begin, *commit, *insert, *update;
    uint64_t etags[TASKS][KEYS_PER_TASK];
    struct prng prngs[TASKS]; /* the same sequences as the tasks of ours have */
    uint64_t writes;
};

static void bare_check(struct bare *bare, int code)
{
    if (code != SQLITE_OK && code != SQLITE_DONE)
        bench_die("bare SQLite: %s", sqlite3_errmsg(bare->handle));
}

static sqlite3_stmt *bare_prepare(struct bare *bare, const char *sql)
{
    sqlite3_stmt *statement;
    bare_check(bare, sqlite3_prepare_v2(bare->handle, sql, -1, &statement, NULL));
    return statement;
}

static void bare_run(struct bare *bare, sqlite3_stmt *statement)
{
    bare_check(bare, sqlite3_step(statement));
    bare_check(bare, sqlite3_reset(statement));
}

/* The same layout and settings as ours. */
static void bare_open(struct bare *bare, const char *path)
{
    *bare = (struct bare){ .handle = NULL };
    for (unsigned i = 0; i < TASKS; i++)
        bare->prngs[i] = prng_seeded(i);
    if (sqlite3_open_v2(path, &bare->handle,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK)
        bench_die("bare SQLite: cannot open %s", path);
    bare_check(bare, sqlite3_exec(bare->handle,
                                  "PRAGMA auto_vacuum = NONE; PRAGMA journal_mode = WAL;"
                                  "PRAGMA synchronous = FULL; PRAGMA secure_delete = OFF;"
                                  "CREATE TABLE objects (id INTEGER PRIMARY KEY,"
                                  " key BLOB NOT NULL UNIQUE, etag BLOB NOT NULL,"
                                  " modified INTEGER NOT NULL, size INTEGER NOT NULL,"
                                  " file TEXT, body BLOB)",
                                  NULL, NULL, NULL));
    bare->begin = bare_prepare(bare, "BEGIN IMMEDIATE");
    bare->commit = bare_prepare(bare, "COMMIT");
    bare->insert = bare_prepare(bare, "INSERT INTO objects (key, etag, modified, size, body)"
                                      " VALUES (?1, ?2, ?3, ?4, ?5)");
    bare->update = bare_prepare(bare, "UPDATE objects SET etag = ?2, modified = ?3, size = ?4,"
                                      " body = ?5 WHERE key = ?1 AND etag = ?6");
}

static void bare_close(struct bare *bare)
{
    sqlite3_finalize(bare->begin);
    sqlite3_finalize(bare->commit);
    sqlite3_finalize(bare->insert);
    sqlite3_finalize(bare->update);
    sqlite3_close(bare->handle);
}

static void bare_put(struct bare *bare, unsigned task, char *body)
{
    size_t n = prng_below(&bare->prngs[task], KEYS_PER_TASK);
    char key[32], old[40], new[40];
    uint64_t *etag = &bare->etags[task][n];
    sqlite3_stmt *statement = *etag ? bare->update : bare->insert;
    int key_size = snprintf(key, sizeof key, "task-%02u/key-%02zu", task, n);
    int old_size = snprintf(old, sizeof old, "0123456789abcdef-%" PRIx64, *etag);
    *etag = ++bare->writes;
    int new_size = snprintf(new, sizeof new, "0123456789abcdef-%" PRIx64, *etag);
    memcpy(body, &bare->writes, sizeof bare->writes);
    sqlite3_bind_blob(statement, 1, key, key_size, SQLITE_STATIC);
    sqlite3_bind_blob(statement, 2, new, new_size, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 3, env_wall(env_real()).us);
    sqlite3_bind_int64(statement, 4, BODY_BYTES);
    sqlite3_bind_blob(statement, 5, body, BODY_BYTES, SQLITE_STATIC);
    if (statement == bare->update)
        sqlite3_bind_blob(statement, 6, old, old_size, SQLITE_STATIC);
    bare_run(bare, statement);
    if (sqlite3_changes(bare->handle) != 1)
        bench_die("bare SQLite: an update lost its condition");
}

static double bare_measure(struct bare *bare, unsigned size, double seconds)
{
    char body[BODY_BYTES];
    memset(body, 'x', sizeof body);
    uint64_t done = 0;
    double start = now_s();
    while (now_s() < start + seconds) {
        bare_run(bare, bare->begin);
        for (unsigned i = 0; i < size; i++, done++)
            bare_put(bare, (unsigned)(done % TASKS), body);
        bare_run(bare, bare->commit);
    }
    return (double)done / (now_s() - start);
}

/* Transactions committed to a database so far: a counter in the header of the WAL's index, which
 * the file format of SQLite documents. */
static uint32_t count_commits(const char *path)
{
    char index[700];
    uint32_t header[3];
    snprintf(index, sizeof index, "%s-shm", path);
    int fd = open(index, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || pread(fd, header, sizeof header, 0) != sizeof header)
        bench_die("%s: %s", index, strerror(errno));
    close(fd);
    return header[2];
}

/* ---- A file for each put ------------------------------------------------------------- */

static void replace_durably(int folder_fd, const char *name, const char *body)
{
    int fd = openat(folder_fd, "tmp", O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
    if (fd < 0 || write(fd, body, BODY_BYTES) != BODY_BYTES || fsync(fd) != 0 ||
        close(fd) != 0 || renameat(folder_fd, "tmp", folder_fd, name) != 0 ||
        fsync(folder_fd) != 0)
        bench_die("plain file: %s", strerror(errno));
}

static double plain_measure(double seconds)
{
    char path[600], body[BODY_BYTES];
    snprintf(path, sizeof path, "%s/plain", bench_folder());
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        bench_die("%s: %s", path, strerror(errno));
    int folder_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    memset(body, 'x', sizeof body);
    uint64_t done = 0;
    double start = now_s();
    for (; now_s() < start + seconds; done++) {
        char name[32];
        snprintf(name, sizeof name, "key-%04u", (unsigned)(done % (TASKS * KEYS_PER_TASK)));
        replace_durably(folder_fd, name, body);
    }
    close(folder_fd);
    return (double)done / (now_s() - start);
}

struct sqlite_sides {
    struct series ours, sizes, same, bare, share, plain, single;
};

static void sqlite_round(struct sqlite_sides *sides, struct putter *putters, struct bare *other,
                         double seconds)
{
    char path[600];
    snprintf(path, sizeof path, "%s/ours.db", bench_folder());
    uint32_t commits = count_commits(path);
    double rate = putters_run(putters, TASKS, seconds);
    uint64_t done = 0;
    for (unsigned i = 0; i < TASKS; i++)
        done += putters[i].done;
    double size = (double)done / (double)(count_commits(path) - commits);
    series_add(&sides->ours, rate);
    series_add(&sides->sizes, size);
    series_add(&sides->same, bare_measure(other, (unsigned)(size + 0.5), seconds));
    double bare = bare_measure(other, TASKS, seconds);
    series_add(&sides->bare, bare);
    series_add(&sides->share, 100 * rate / bare);
    series_add(&sides->plain, plain_measure(seconds));
    series_add(&sides->single, putters_run(putters, 1, seconds / 4));
}

static void bench_sqlite(struct bench *bench)
{
    struct sqlite_sides sides = { .ours = { .count = 0 } };
    char path[600];
    snprintf(path, sizeof path, "%s/bare.db", bench_folder());
    struct bare other;
    bare_open(&other, path);
    struct hf_store *store = open_store("sqlite:%s/ours.db", bench_folder());
    struct putter *putters = putters_new(store, TASKS);
    putters_run(putters, TASKS, 0.1);
    for (size_t round = 0; round < bench->rounds; round++)
        sqlite_round(&sides, putters, &other, bench->seconds);
    free(putters);
    hf_store_close(store);
    bare_close(&other);
    bench_figure(bench, "sqlite: durable 1 KiB puts by ETag, 64 tasks", "puts/s", &sides.ours);
    bench_figure(bench, "sqlite: puts that went into one transaction", "puts", &sides.sizes);
    bench_figure(bench, "sqlite: the same, 1 task", "puts/s", &sides.single);
    bench_figure(bench, "bare SQLite, transactions of the same size", "puts/s", &sides.same);
    bench_figure(bench, "bare SQLite, transactions of 64", "puts/s", &sides.bare);
    bench_figure(bench, "sqlite: as a part of that", "%", &sides.share);
    bench_figure(bench, "tmp + fsync + rename + fsync of the folder", "puts/s", &sides.plain);
    bench_ratio(bench, "sqlite: over bare SQLite in transactions of the same size", &sides.ours,
                &sides.same, 0.8);
    bench_ratio(bench, "sqlite: over a file a put", &sides.ours, &sides.plain, 10);
}

/* ---- mem ----------------------------------------------------------------------------- */

static double mem_measure(struct hf_store *store, double seconds)
{
    enum { KEYS = 1024, TURN = 1024 };
    static char etags[KEYS][HF_ETAG_MAX];
    char body[64] = "body";
    uint64_t done = 0;
    double start = now_s();
    for (; now_s() < start + seconds; done += TURN)
        for (unsigned i = 0; i < TURN; i++) {
            char key[] = "key-0000";
            memcpy(key + 4,
                   &(char[]){ (char)('a' + i / 256), (char)('a' + i / 16 % 16),
                              (char)('a' + i % 16) },
                   3);
            put_by_etag(store, key, body, sizeof body, etags[i]);
        }
    return (double)done / (now_s() - start);
}

static void bench_mem(struct bench *bench)
{
    struct series rates = { .count = 0 };
    struct hf_store *store = open_store("mem:");
    for (size_t round = 0; round < bench->rounds; round++)
        series_add(&rates, mem_measure(store, bench->seconds / 2));
    hf_store_close(store);
    bench_figure(bench, "mem: puts by ETag of 64 bytes, 1 task", "puts/s", &rates);
    bench_bar(bench, "mem: puts a second", "puts/s", series_median(&rates), 1000000,
              /* at_most */ false);
}

/* ---- Processes ----------------------------------------------------------------------- */

/* Memory that the children of one measurement share. */
struct crew {
    volatile int ready;
    volatile int go;
    volatile double until;
    uint64_t done[PROCESSES];
};

static void run_on_cores(unsigned cores)
{
    cpu_set_t all, some;
    CPU_ZERO(&some);
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        bench_die("sched_getaffinity: %s", strerror(errno));
    unsigned taken = 0;
    for (size_t cpu = 0; cpu < CPU_SETSIZE && taken < cores; cpu++)
        if (CPU_ISSET(cpu, &all)) {
            CPU_SET(cpu, &some);
            taken++;
        }
    if (taken < cores || sched_setaffinity(0, sizeof some, &some) != 0)
        bench_die("there are not %u cores to run on", cores);
}

static void start_together(struct crew *crew, unsigned cores)
{
    run_on_cores(cores);
    __atomic_add_fetch(&crew->ready, 1, __ATOMIC_SEQ_CST);
    while (!crew->go)
        usleep(100);
}

static void put_into_store(struct crew *crew, unsigned number, const char *url, unsigned cores)
{
    struct hf_store *store = open_store("%s", url);
    struct putter *putter = putters_new(store, 1);
    putter->number = number;
    putter->prng = prng_seeded(number);
    start_together(crew, cores);
    putter->until = crew->until;
    put_over_and_over(putter);
    crew->done[number] = putter->done;
    hf_store_close(store);
}

/* The same file-system calls, each process in its own folders, without any lock: the limit of
 * the file system itself with a second core. */
static void put_into_files(struct crew *crew, unsigned number, const char *path, unsigned cores)
{
    char own[740], new[760], name[780], body[BODY_BYTES];
    snprintf(own, sizeof own, "%s-%u", path, number);
    snprintf(new, sizeof new, "%s/new", own);
    memset(body, 'x', sizeof body);
    if (mkdir(own, 0777) != 0)
        bench_die("%s: %s", own, strerror(errno));
    start_together(crew, cores);
    for (uint64_t done = 0; now_s() < crew->until; done++, crew->done[number] = done) {
        snprintf(name, sizeof name, "%s/key-%u", own, (unsigned)(done % KEYS_PER_TASK));
        int fd = open(new, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
        unsigned how = done < KEYS_PER_TASK ? RENAME_NOREPLACE : RENAME_EXCHANGE;
        if (fd < 0 || write(fd, body, sizeof body) != BODY_BYTES ||
            fsetxattr(fd, "user.holdfast", body, 60, 0) != 0 || close(fd) != 0 ||
            renameat2(AT_FDCWD, new, AT_FDCWD, name, how) != 0 ||
            (how == RENAME_EXCHANGE && unlink(new) != 0))
            bench_die("plain files: %s", strerror(errno));
    }
}

typedef void crew_work(struct crew *crew, unsigned number, const char *place, unsigned cores);

/* Puts a second of eight processes together. */
static double crew_measure(crew_work *work, const char *place, unsigned cores, double seconds)
{
    struct crew *crew = bench_share_memory(sizeof *crew);
    *crew = (struct crew){ .go = 0 };
    pid_t pids[PROCESSES];
    for (unsigned i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        if (pids[i] < 0)
            bench_die("fork: %s", strerror(errno));
        if (pids[i] == 0) {
            work(crew, i, place, cores);
            _exit(0);
        }
    }
    while (crew->ready < PROCESSES)
        usleep(1000);
    double start = now_s();
    crew->until = start + seconds;
    __atomic_store_n(&crew->go, 1, __ATOMIC_SEQ_CST);
    uint64_t done = 0;
    for (unsigned i = 0; i < PROCESSES; i++) {
        int status;
        if (waitpid(pids[i], &status, 0) < 0 || status != 0)
            bench_die("a child failed");
        done += crew->done[i];
    }
    munmap(crew, sizeof *crew);
    return (double)done / seconds;
}

/* A bench_folder() for each measurement: each starts with *absent*. */
static void bench_dir(struct bench *bench)
{
    struct series ours[2] = { { .count = 0 } }, bare[2] = { { .count = 0 } };
    char place[700];
    for (size_t round = 0; round < bench->rounds; round++)
        for (unsigned cores = 1; cores <= 2; cores++) {
            snprintf(place, sizeof place, "dir:%s/dir-%zu-%u?sync=off", bench_folder(), round,
                     cores);
            series_add(&ours[cores - 1],
                       crew_measure(put_into_store, place, cores, bench->seconds));
            snprintf(place, sizeof place, "%s/files-%zu-%u", bench_folder(), round, cores);
            series_add(&bare[cores - 1],
                       crew_measure(put_into_files, place, cores, bench->seconds));
        }
    bench_figure(bench, "dir: 8 processes without sync on 1 core", "puts/s", &ours[0]);
    bench_figure(bench, "dir: 8 processes without sync on 2 cores", "puts/s", &ours[1]);
    bench_figure(bench, "bare files, no locks, on 1 core", "puts/s", &bare[0]);
    bench_figure(bench, "bare files, no locks, on 2 cores", "puts/s", &bare[1]);
    bench_ratio(bench, "dir: 2 cores over 1", &ours[1], &ours[0], 1.6);
    bench_ratio(bench, "bare files: 2 cores over 1 (what is to be had)", &bare[1], &bare[0], 0);
}

static void bench_contend(struct bench *bench)
{
    struct series rates = { .count = 0 };
    char url[700];
    for (size_t round = 0; round < bench->rounds; round++) {
        snprintf(url, sizeof url, "sqlite:%s/contend-%zu.db", bench_folder(), round);
        series_add(&rates, crew_measure(put_into_store, url, 2, bench->seconds));
    }
    bench_figure(bench, "sqlite: 8 processes of 1 task on one file", "puts/s", &rates);
}

/* ---- Streams ------------------------------------------------------------------------- */

static void write_source(const char *path, uint64_t size)
{
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
    char *piece = malloc(MIB);
    if (fd < 0 || !piece)
        bench_die("%s: %s", path, strerror(errno));
    for (uint64_t at = 0; at < size; at += MIB) {
        memset(piece, (int)(at / MIB % 251), MIB);
        if (write(fd, piece, MIB) != (ssize_t)MIB)
            bench_die("%s: %s", path, strerror(errno));
    }
    free(piece);
    close(fd);
}

static void compare_files(const char *one, const char *two)
{
    FILE *a = fopen(one, "r"), *b = fopen(two, "r");
    static char left[65536], right[65536];
    size_t got;
    if (!a || !b)
        bench_die("%s: %s", two, strerror(errno));
    do {
        got = fread(left, 1, sizeof left, a);
        if (fread(right, 1, sizeof right, b) != got || memcmp(left, right, got) != 0)
            bench_die("%s: not the bytes that were put", two);
    } while (got > 0);
    fclose(a);
    fclose(b);
}

static _Noreturn void stream_child(const char *url, const char *source, const char *target)
{
    struct hf_store *store = open_store("%s", url);
    int from = open(source, O_RDONLY | O_CLOEXEC);
    int to = open(target, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0666);
    struct hf_store_put_options put = HF_STORE_PUT_OPTIONS;
    struct hf_store_get_options get = HF_STORE_GET_OPTIONS;
    struct hf_object_info info = HF_OBJECT_INFO;
    struct hf_error error;
    if (from < 0 || to < 0)
        bench_die("%s: %s", from < 0 ? source : target, strerror(errno));
    put.if_absent = true;
    must(hf_store_put_file(store, "large", from, &put, &info, &error), &error, "put_file");
    get.if_match = info.etag;
    must(hf_store_get_file(store, "large", to, &get, NULL, &error), &error, "get_file");
    hf_store_close(store);
    _exit(0);
}

/* Peak memory of a child that puts and gets, in MiB; how long it took, in seconds. The child is
 * a fresh program image, or it would count ours. */
static double stream_measure(const char *url, double *ret_seconds)
{
    char source[600], target[600];
    snprintf(source, sizeof source, "%s/source", bench_folder());
    snprintf(target, sizeof target, "%s/target", bench_folder());
    double start = now_s();
    pid_t pid = fork();
    if (pid < 0)
        bench_die("fork: %s", strerror(errno));
    if (pid == 0) {
        execl("/proc/self/exe", "bench_store", "--stream-child", url, source, target,
              (char *)NULL);
        bench_die("exec: %s", strerror(errno));
    }
    int status;
    struct rusage usage;
    if (wait4(pid, &status, 0, &usage) < 0 || status != 0)
        bench_die("the streaming child failed");
    *ret_seconds = now_s() - start;
    compare_files(source, target);
    unlink(target);
    return (double)usage.ru_maxrss / 1024;
}

static void bench_stream(struct bench *bench)
{
    char source[600];
    snprintf(source, sizeof source, "%s/source", bench_folder());
    write_source(source, STREAM_BYTES);
    static const char *const kinds[] = { "dir", "sqlite" };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct series memory = { .count = 0 }, rate = memory;
        char url[700], name[100];
        double seconds;
        snprintf(url, sizeof url, "%s:%s/stream-%s", kinds[i], bench_folder(), kinds[i]);
        series_add(&memory, stream_measure(url, &seconds));
        series_add(&rate, 2.0 * (double)(STREAM_BYTES / MIB) / seconds);
        snprintf(name, sizeof name, "%s: put_file and get_file of 1 GiB", kinds[i]);
        bench_figure(bench, name, "MiB/s", &rate);
        snprintf(name, sizeof name, "%s: peak memory of it", kinds[i]);
        bench_bar(bench, name, "MiB", series_median(&memory), 64, /* at_most */ true);
        remove_tree(url + strlen(kinds[i]) + 1);
    }
    unlink(source);
}

/* ---- Program ------------------------------------------------------------------------- */

static const struct bench_part parts[] = {
    { "sqlite", bench_sqlite }, { "contend", bench_contend }, { "mem", bench_mem },
    { "dir", bench_dir },       { "stream", bench_stream },   { NULL, NULL },
};

int main(int argc, char **argv)
{
    struct bench bench = { .rounds = PAIRS, .seconds = 0.5 };
    if (argc == 5 && strcmp(argv[1], "--stream-child") == 0)
        stream_child(argv[2], argv[3], argv[4]);
    return bench_main(&bench, parts, argc, argv);
}
