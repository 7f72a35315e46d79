/* SPDX-License-Identifier: Apache-2.0 */
/* bench_s3.c: measures the s3 store on a real Ceph gateway on loopback.
 *
 *   put      puts of 1 KiB on one connection, against bare libcurl sending the same signed puts
 *   many     rounds of 64 simultaneous puts, by 64 threads: on one store with 64 connections,
 *            against one handle per thread; on both sides a round ends when all its puts have ended
 *   list     100,000 keys listed, against bare libcurl fetching the same pages
 *   stream   the memory that put_file and get_file of 1 GiB need
 *
 * It starts its own cluster with SERVERS/ceph-up (--servers=, default tests/servers) in a new
 * folder below $TMPDIR or /tmp, and stops it. */
#include "bare_s3.h"
#include "base/hash.h"
#include "base/limits.h"
#include "client.h"
#include "env/env.h"
#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define BODY_BYTES   1024
#define MANY         64
#define LIST_KEYS    100000
#define STREAM_BYTES GIB

static struct hf_store *open_store(const char *parameters)
{
    char url[400];
    struct hf_store *store;
    struct hf_error error;
    snprintf(url, sizeof url, "s3://" CEPH_BUCKET "?endpoint=%s&etag=bare%s", bench_ceph(),
             parameters);
    must(hf_store_open(url, NULL, &store, &error), &error, url);
    return store;
}

/* ---- put ----------------------------------------------------------------------------- */

static void fill_body(char body[BODY_BYTES], unsigned number)
{
    memset(body, 'x', BODY_BYTES);
    snprintf(body, BODY_BYTES, "%u", number);
}

static void put(struct hf_store *store, const char *key, const char body[BODY_BYTES])
{
    struct hf_error error;
    must(hf_store_put(store, key, body, BODY_BYTES, NULL, NULL, &error), &error, "put");
}

static double puts_by_store(struct hf_store *store, double seconds)
{
    char body[BODY_BYTES], key[32];
    double start = now_s();
    unsigned done = 0;
    for (; now_s() - start < seconds; done++) {
        fill_body(body, done);
        snprintf(key, sizeof key, "put-%u", done % 64);
        put(store, key, body);
    }
    return done / (now_s() - start);
}

static double puts_by_libcurl(struct bare *bare, double seconds)
{
    char body[BODY_BYTES], key[32];
    double start = now_s();
    unsigned done = 0;
    for (; now_s() - start < seconds; done++) {
        fill_body(body, done);
        snprintf(key, sizeof key, "put-%u", done % 64);
        bare_put(bare, key, (struct view){ body, sizeof body });
    }
    return done / (now_s() - start);
}

static void bench_put(struct bench *bench)
{
    struct series ours = { .count = 0 }, theirs = ours;
    struct hf_store *store = open_store("&connections=1");
    struct bare bare;
    bare_open(&bare, bench_ceph());
    puts_by_libcurl(&bare, 0.5);
    for (size_t round = 0; round < bench->rounds; round++) {
        series_add(&ours, puts_by_store(store, bench->seconds));
        series_add(&theirs, puts_by_libcurl(&bare, bench->seconds));
    }
    bench_figure(bench, "puts of 1 KiB, one connection, hf_store_put", "puts/s", &ours);
    bench_figure(bench, "the same by bare libcurl", "puts/s", &theirs);
    bench_ratio(bench, "hf_store_put / bare libcurl", &ours, &theirs, 1 / 1.1);
    bare_close(&bare);
    hf_store_close(store);
}

/* ---- many ---------------------------------------------------------------------------- */

static char many_keys[MANY][32];

/* The threads of one run. The first one keeps the time, and announces the last round while it
 * is under way, so all threads end with it. */
struct putters {
    struct hf_store *store; /* NULL: each has a handle of libcurl */
    pthread_barrier_t barrier;
    double seconds;
    double start;
    double end;
    _Atomic unsigned last_round;
};

struct putter {
    pthread_t thread;
    size_t number;
    struct putters *all;
    struct bare bare;
};

static void put_round(struct putter *putter, unsigned round)
{
    const char *key = many_keys[putter->number];
    char body[BODY_BYTES];
    fill_body(body, round);
    if (putter->all->store)
        put(putter->all->store, key, body);
    else
        bare_put(&putter->bare, key, (struct view){ body, sizeof body });
}

static void *put_by_thread(void *argument)
{
    struct putter *putter = argument;
    struct putters *all = putter->all;
    bare_open(&putter->bare, bench_ceph());
    put_round(putter, 0); /* connect */
    pthread_barrier_wait(&all->barrier);
    if (putter->number == 0)
        all->start = now_s();
    for (unsigned round = 0; round <= all->last_round; round++) {
        put_round(putter, round);
        if (putter->number == 0 && now_s() - all->start >= all->seconds)
            all->last_round = round;
        pthread_barrier_wait(&all->barrier);
    }
    if (putter->number == 0)
        all->end = now_s();
    bare_close(&putter->bare);
    return NULL;
}

static double many_by_threads(struct hf_store *store, double seconds)
{
    static struct putter putters[MANY];
    struct putters all = { .store = store, .seconds = seconds, .last_round = UINT_MAX };
    pthread_barrier_init(&all.barrier, NULL, MANY);
    for (size_t i = 0; i < MANY; i++) {
        putters[i] = (struct putter){ .number = i, .all = &all };
        if (pthread_create(&putters[i].thread, NULL, put_by_thread, &putters[i]) != 0)
            bench_die("no thread");
    }
    for (size_t i = 0; i < MANY; i++)
        pthread_join(putters[i].thread, NULL);
    pthread_barrier_destroy(&all.barrier);
    return MANY * (all.last_round + 1) / (all.end - all.start);
}

static void bench_many(struct bench *bench)
{
    struct series ours = { .count = 0 }, theirs = ours;
    struct hf_store *store = open_store("&connections=64");
    for (unsigned i = 0; i < MANY; i++)
        snprintf(many_keys[i], sizeof many_keys[i], "many-%u", i);
    many_by_threads(store, 0.5);
    for (size_t round = 0; round < bench->rounds; round++) {
        series_add(&ours, many_by_threads(store, bench->seconds));
        series_add(&theirs, many_by_threads(NULL, bench->seconds));
    }
    bench_figure(bench, "rounds of 64 puts by 64 threads, one store", "puts/s", &ours);
    bench_figure(bench, "the same with a libcurl handle each", "puts/s", &theirs);
    bench_ratio(bench, "one store / libcurl handles, 64 threads", &ours, &theirs, 0.9);
    hf_store_close(store);
}

/* ---- list ---------------------------------------------------------------------------- */

#define FILLERS 64

struct filler {
    struct hf_store *store;
    unsigned first; /* and every FILLERS-th behind it */
    struct env_task *task;
};

static void fill_keys(void *argument)
{
    struct filler *filler = argument;
    struct hf_error error;
    char key[32];
    for (unsigned i = filler->first; i < LIST_KEYS; i += FILLERS) {
        snprintf(key, sizeof key, "list/key-%08u", i);
        must(hf_store_put(filler->store, key, "x", 1, NULL, NULL, &error), &error, key);
    }
}

static void fill_bucket(struct hf_store *store)
{
    struct filler fillers[FILLERS];
    struct hf_error error;
    for (unsigned i = 0; i < FILLERS; i++) {
        fillers[i] = (struct filler){ store, i, NULL };
        must(env_task_start(env_real(), fill_keys, &fillers[i], &fillers[i].task, &error),
             &error, "task");
    }
    for (unsigned i = 0; i < FILLERS; i++)
        env_task_join(env_real(), fillers[i].task);
}

static bool count_entry(void *argument, const struct hf_store_entry *entry)
{
    (void)entry;
    ++*(unsigned *)argument;
    return true;
}

static double list_by_store(struct hf_store *store)
{
    unsigned seen = 0;
    struct hf_error error;
    double start = now_s();
    must(hf_store_list(store, "list/", NULL, count_entry, &seen, &error), &error, "list");
    if (seen != LIST_KEYS)
        bench_die("listed %u keys", seen);
    return now_s() - start;
}

/* Fetches the same pages and parses only the continuation token. */
static double list_by_libcurl(struct bare *bare)
{
    char query[256], after[64] = "";
    double start = now_s();
    for (unsigned page = 1; page <= LIST_KEYS / LIST_PAGE_MAX; page++) {
        snprintf(query, sizeof query,
                 "encoding-type=url&list-type=2&max-keys=1000&prefix=list%%2F%s%s",
                 after[0] ? "&start-after=" : "", after);
        bare_list(bare, query);
        snprintf(after, sizeof after, "list%%2Fkey-%08u", page * LIST_PAGE_MAX - 1);
    }
    return now_s() - start;
}

static void bench_list(struct bench *bench)
{
    struct series ours = { .count = 0 }, theirs = ours;
    struct hf_store *store = open_store("");
    struct bare bare;
    bare_open(&bare, bench_ceph());
    fill_bucket(store);
    list_by_libcurl(&bare);
    for (size_t round = 0; round < bench->rounds; round++) {
        series_add(&ours, list_by_store(store) * 1000);
        series_add(&theirs, list_by_libcurl(&bare) * 1000);
    }
    bench_figure(bench, "100,000 keys by hf_store_list", "ms", &ours);
    bench_figure(bench, "the same pages by bare libcurl", "ms", &theirs);
    bench_ratio_at_most(bench, "hf_store_list / bare libcurl, in time", &ours, &theirs, 1.2);
    bare_close(&bare);
    hf_store_close(store);
}

/* ---- stream -------------------------------------------------------------------------- */

static uint64_t hash_of_file(int fd)
{
    char *piece = malloc(MIB);
    uint64_t hash = 0;
    ssize_t got;
    for (off_t at = 0; (got = pread(fd, piece, MIB, at)) > 0; at += got)
        hash = hash * 31 + hash_xxh3((struct view){ piece, (size_t)got });
    free(piece);
    return hash;
}

static void write_source(int fd)
{
    char *piece = malloc(MIB);
    for (size_t at = 0; at < STREAM_BYTES / MIB; at++) {
        env_random(env_real(), piece, MIB);
        if (write(fd, piece, MIB) != (ssize_t)MIB)
            bench_die("the source cannot be written");
    }
    free(piece);
}

/* In a separate process, whose memory is measured. */
static void stream_child(int source, int target, bool conditional)
{
    struct hf_store *store = open_store("");
    struct hf_store_put_options options = HF_STORE_PUT_OPTIONS;
    struct hf_error error;
    options.if_absent = conditional;
    must(hf_store_put_file(store, "stream", source, &options, NULL, &error), &error, "put");
    must(hf_store_get_file(store, "stream", target, NULL, NULL, &error), &error, "get");
    must(hf_store_delete(store, "stream", NULL, &error), &error, "delete");
    hf_store_close(store);
    _exit(0);
}

static int open_scratch(const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", bench_folder(), name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        bench_die("%s: %s", path, strerror(errno));
    return fd;
}

static void bench_stream_way(struct bench *bench, int source, bool conditional)
{
    struct series rate = { .count = 0 };
    int target = open_scratch("target"), status;
    struct rusage usage;
    char name[64];
    double start = now_s();
    pid_t pid = fork();
    if (pid == 0)
        stream_child(source, target, conditional);
    if (wait4(pid, &status, 0, &usage) < 0 || status != 0)
        bench_die("the streaming child failed");
    series_add(&rate, 2.0 * (double)(STREAM_BYTES / MIB) / (now_s() - start));
    if (hash_of_file(source) != hash_of_file(target))
        bench_die("what came down is not what went up");
    const char *way = conditional ? "one put" : "in parts";
    snprintf(name, sizeof name, "1 GiB up, %s, and down", way);
    bench_figure(bench, name, "MiB/s", &rate);
    snprintf(name, sizeof name, "peak memory of it, %s", way);
    bench_bar(bench, name, "MiB", (double)usage.ru_maxrss / 1024, 64, /* at_most */ true);
    close(target);
}

static void bench_stream(struct bench *bench)
{
    bench_ceph(); /* by us, not by a child whose memory is measured */
    int source = open_scratch("source");
    write_source(source);
    bench_stream_way(bench, source, /* conditional */ true);
    bench_stream_way(bench, source, /* conditional */ false);
    close(source);
}

/* ---- Program ------------------------------------------------------------------------- */

static const struct bench_part parts[] = {
    { "stream", bench_stream }, { "put", bench_put }, { "many", bench_many },
    { "list", bench_list },     { NULL, NULL },
};

int main(int argc, char **argv)
{
    struct bench bench = { .rounds = PAIRS, .seconds = 0.7 };
    curl_global_init(CURL_GLOBAL_DEFAULT);
    return bench_main(&bench, parts, argc, argv);
}
