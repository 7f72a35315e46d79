/* SPDX-License-Identifier: Apache-2.0 */
/* bench_latency.c: how long operations take on stores with latency, where what counts is how many
 * requests wait for each other. All are warm and uncontended, on a store in memory with 20 ms added
 * to each request, on one with latencies like those of S3, and on Ceph.
 *
 *   fixed    20 ms a request: the time of each operation in round trips of 20 ms
 *   s3like   the same operations with latencies like those of S3, in milliseconds
 *   ceph     the same on Ceph */
#include "index_data.h"
#include "place.h"

#include <stdio.h>

#define FIXED_MS  20
#define TIMES     20 /* of each operation in one round */
#define KEYS      10
#define BODY_SIZE 100

struct scene {
    struct desk desk;
    struct hf_lock *lock;
    struct hf_key *key;
    uint64_t next; /* the next record to put */
};

static char body[BODY_SIZE];

static void lock_and_release(struct scene *scene)
{
    struct hf_error error;
    must(hf_lock_acquire(scene->lock, 0, &error), &error, "acquire");
    must(hf_lock_release(scene->lock, &error), &error, "release");
}

static void change_key(struct scene *scene)
{
    struct hf_error error;
    must(hf_key_acquire(scene->key, 60000, NULL, &error), &error, "acquire");
    must(hf_key_update(scene->key, body, sizeof body, NULL, NULL, &error), &error, "update");
    must(hf_key_release(scene->key, HF_COMMIT, &error), &error, "release");
}

/* Until the commit is known. */
static void change_many_keys(struct scene *scene)
{
    static const char *const names[KEYS] = { "a/0", "a/1", "a/2", "a/3", "a/4",
                                             "a/5", "a/6", "a/7", "a/8", "a/9" };
    struct hf_key *keys[KEYS];
    struct hf_txn *txn;
    struct hf_error error;
    struct hf_txn_change changes[KEYS];
    must(hf_txn_begin(scene->desk.at.client, NULL, &txn, &error), &error, "begin");
    must(hf_txn_acquire(txn, names, KEYS, NULL, 60000, keys, &error), &error, "acquire");
    for (size_t i = 0; i < KEYS; i++)
        changes[i] =
            (struct hf_txn_change){ .key = keys[i], .data = body, .size = sizeof body };
    must(hf_txn_update(txn, changes, KEYS, &error), &error, "update");
    must(hf_txn_commit(txn, NULL, &error), &error, "commit");
    hf_txn_free(txn);
}

static void put_record(struct scene *scene)
{
    uint64_t number = scene->next++;
    desk_put(&scene->desk, &number, 1, 1);
}

static void get_record(struct scene *scene)
{
    char key[DATA_KEY_MAX];
    struct hf_index_record *record;
    struct hf_error error;
    must(hf_index_get(scene->desk.index, data_key(0, key), &record, &error), &error, "get");
    hf_index_record_free(record);
}

/* The most round trips that each may take, with some room for the sleeps' own cost; 0: a figure
 * only. */
static const struct {
    const char *what;
    void (*work)(struct scene *scene);
    double trips_max;
} operations[] = {
    { "lock: acquire and release", lock_and_release, 2.3 },
    { "key: acquire, update, release", change_key, 3.4 },
    { "transaction over 10 keys", change_many_keys, 6 },
    { "index: put a record", put_record, 1.2 },
    { "index: get a record", get_record, 2.3 },
};
#define OPERATIONS (sizeof operations / sizeof operations[0])

static void scene_open(struct scene *scene, const char *url)
{
    struct hf_error error;
    desk_open(&scene->desk, url, NULL);
    scene->next = 0;
    must(hf_lock_new(scene->desk.at.client, "lock", NULL, &scene->lock, &error), &error,
         "lock");
    must(hf_key_new(scene->desk.at.client, "key", NULL, &scene->key, &error), &error, "key");
    put_record(scene);
    must(hf_index_compile(scene->desk.index, NULL, NULL, &error), &error, "compile");
    for (size_t i = 0; i < OPERATIONS; i++)
        operations[i].work(scene);
}

static void scene_close(struct scene *scene)
{
    hf_key_free(scene->key);
    hf_lock_free(scene->lock);
    desk_close(&scene->desk);
}

/* Milliseconds per operation; each round adds its mean. */
static void measure(struct bench *bench, const char *url, struct series series[OPERATIONS])
{
    struct scene scene;
    scene_open(&scene, url);
    for (size_t round = 0; round < bench->rounds; round++)
        for (size_t i = 0; i < OPERATIONS; i++) {
            double begun = now_s();
            for (size_t n = 0; n < TIMES; n++)
                operations[i].work(&scene);
            series_add(&series[i], 1e3 * (now_s() - begun) / TIMES);
        }
    scene_close(&scene);
}

static void print_figures(struct bench *bench, const char *kind,
                          const struct series series[OPERATIONS])
{
    char name[100];
    for (size_t i = 0; i < OPERATIONS; i++) {
        snprintf(name, sizeof name, "%s: %s", kind, operations[i].what);
        bench_figure(bench, name, "ms", &series[i]);
    }
}

static void bench_fixed(struct bench *bench)
{
    struct series series[OPERATIONS] = { { .count = 0 } };
    char url[32], name[100];
    snprintf(url, sizeof url, "mem:?delay=%dms", FIXED_MS);
    measure(bench, url, series);
    print_figures(bench, "20 ms a request", series);
    for (size_t i = 0; i < OPERATIONS; i++) {
        snprintf(name, sizeof name, "20 ms a request: %s", operations[i].what);
        if (operations[i].trips_max > 0)
            bench_bar(bench, name, "trips", series_median(&series[i]) / FIXED_MS,
                      operations[i].trips_max, /* at_most */ true);
    }
}

static void bench_s3like(struct bench *bench)
{
    struct series series[OPERATIONS] = { { .count = 0 } };
    measure(bench, "s3like+mem:?delay=1us", series); /* with a delay it counts as remote */
    print_figures(bench, "latencies like S3", series);
}

static void bench_on_ceph(struct bench *bench)
{
    struct series series[OPERATIONS] = { { .count = 0 } };
    char url[300];
    snprintf(url, sizeof url, "s3://" CEPH_BUCKET "/latency?endpoint=%s&etag=bare",
             bench_ceph());
    measure(bench, url, series);
    print_figures(bench, "Ceph", series);
}

int main(int argc, char **argv)
{
    static const struct bench_part parts[] = { { "fixed", bench_fixed },
                                               { "s3like", bench_s3like },
                                               { "ceph", bench_on_ceph },
                                               { NULL, NULL } };
    struct bench bench = { .rounds = 5, .seconds = 1 };
    return bench_main(&bench, parts, argc, argv);
}
