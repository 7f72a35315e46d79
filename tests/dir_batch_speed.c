/* SPDX-License-Identifier: Apache-2.0 */
/* dir_batch_speed.c: batches of 100 puts and deletes on a `dir:` store with sync, beside the same
 * calls one by one, and beside bare files that are written and synced the same way.
 *
 *   batch    100 new objects of 1 KiB in one folder, and their deletion */
#include "place.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BATCH      100
#define BODY_BYTES 1024

static char keys[BATCH][32];
static char body[BODY_BYTES];

static atomic_ulong syncs;

/* Replaces fsync of the C library, to count the calls. */
int fsync(int fd)
{
    atomic_fetch_add(&syncs, 1);
    return (int)syscall(SYS_fsync, fd);
}

static void fill_puts(struct put_call *puts)
{
    for (size_t i = 0; i < BATCH; i++)
        puts[i] = (struct put_call){ .key = view_of(keys[i]),
                                     .body = { body, sizeof body },
                                     .condition = if_absent() };
}

static void fill_deletes(struct delete_call *deletes)
{
    for (size_t i = 0; i < BATCH; i++)
        deletes[i] = (struct delete_call){ .key = view_of(keys[i]) };
}

static void must(enum hf_status status, const char *why)
{
    if (status != HF_OK)
        bench_die("%s", why);
}

/* Objects a second, put and deleted: `at_once` calls in a batch. */
static void store_round(struct store *store, size_t at_once, double *ret_puts,
                        double *ret_deletes)
{
    static struct put_call puts[BATCH];
    static struct delete_call deletes[BATCH];
    fill_puts(puts);
    fill_deletes(deletes);
    double begun = now_s();
    for (size_t i = 0; i < BATCH; i += at_once)
        must(store_put_many(store, puts + i, at_once), puts[i].error.why);
    *ret_puts = BATCH / (now_s() - begun);
    begun = now_s();
    for (size_t i = 0; i < BATCH; i += at_once)
        must(store_delete_many(store, deletes + i, at_once), deletes[i].error.why);
    *ret_deletes = BATCH / (now_s() - begun);
}

static void bare_must(int result)
{
    if (result < 0)
        bench_die("bare files: %s", strerror(errno));
}

/* All files are written, then all are synced, then all renamed, then the folder is synced. */
static double bare_round(int folder)
{
    static int fds[BATCH];
    char name[40];
    double begun = now_s();
    for (size_t i = 0; i < BATCH; i++) {
        snprintf(name, sizeof name, "new-%zu", i);
        fds[i] = openat(folder, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
        bare_must(fds[i]);
        bare_must((int)write(fds[i], body, sizeof body));
    }
    for (size_t i = 0; i < BATCH; i++)
        sync_file_range(fds[i], 0, 0, SYNC_FILE_RANGE_WRITE);
    for (size_t i = 0; i < BATCH; i++) {
        bare_must(fsync(fds[i]));
        close(fds[i]);
    }
    for (size_t i = 0; i < BATCH; i++) {
        char final[40];
        snprintf(name, sizeof name, "new-%zu", i);
        snprintf(final, sizeof final, "object-%zu", i);
        bare_must(renameat(folder, name, folder, final));
    }
    bare_must(fsync(folder));
    double rate = BATCH / (now_s() - begun);
    for (size_t i = 0; i < BATCH; i++) {
        snprintf(name, sizeof name, "object-%zu", i);
        bare_must(unlinkat(folder, name, 0));
    }
    return rate;
}

static void bench_batch(struct bench *bench)
{
    struct series puts = { .count = 0 }, deletes = puts, single = puts, bare = puts;
    char url[700];
    struct store *store;
    struct hf_error error;
    struct series put_syncs = puts;
    double put, delete;
    snprintf(url, sizeof url, "dir:%s/store", bench_folder());
    must(store_open(env_real(), view_of(url), &store, &error), error.why);
    int folder = open(bench_folder(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bare_must(folder);
    for (size_t i = 0; i < BATCH; i++)
        snprintf(keys[i], sizeof keys[i], "folder/object-%zu", i);
    for (size_t round = 0; round < bench->rounds; round++) {
        atomic_store(&syncs, 0);
        store_round(store, BATCH, &put, &delete);
        series_add(&put_syncs, (double)atomic_load(&syncs));
        series_add(&puts, put);
        series_add(&deletes, delete);
        store_round(store, 1, &put, &delete);
        series_add(&single, put);
        series_add(&bare, bare_round(folder));
    }
    close(folder);
    store_close(store);
    bench_figure(bench, "dir: puts in batches of 100, with sync", "puts/s", &puts);
    bench_figure(bench, "dir: deletes in batches of 100, with sync", "deletes/s", &deletes);
    bench_figure(bench, "dir: puts one by one, with sync", "puts/s", &single);
    bench_figure(bench, "bare files, synced together", "puts/s", &bare);
    bench_bar(bench, "dir: puts in batches of 100, with sync", "puts/s", series_median(&puts),
              6000, /* at_most */ false);
    /* A file each, the folder after the puts and after the deletes, and once the folder above it:
     * it is empty after the deletes, and then it is removed. */
    bench_bar(bench, "dir: fsyncs of 100 puts and 100 deletes", "", series_most(&put_syncs),
              BATCH + 3, /* at_most */ true);
}

int main(int argc, char **argv)
{
    static const struct bench_part parts[] = { { "batch", bench_batch }, { NULL, NULL } };
    struct bench bench = { .rounds = PAIRS, .seconds = 1 };
    return bench_main(&bench, parts, argc, argv);
}
