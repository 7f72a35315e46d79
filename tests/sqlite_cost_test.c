/* SPDX-License-Identifier: Apache-2.0 */
/* sqlite_cost_test.c: what the most frequent operations cost on an `sqlite:` store: statements that
 * are prepared and run, syncs, and files that are opened. These counts do not depend on the
 * machine, so a change that makes them slower is seen here first. */
#include "holdfast.h"
#include "test.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- Counting -------------------------------------------------------------------------- */

static struct counts {
    unsigned prepared;
    unsigned prepared_late; /* while other processes could not write */
    unsigned steps;
    unsigned syncs;
    unsigned opened;
    unsigned writes;
} counts;

#define REPLACES __attribute__((visibility("default")))

/* These replace functions of SQLite and of the C library. */
REPLACES int sqlite3_prepare_v3(sqlite3 *handle, const char *sql, int size, unsigned flags,
                                sqlite3_stmt **ret_statement, const char **tail)
{
    static int (*next)(sqlite3 *, const char *, int, unsigned, sqlite3_stmt **, const char **);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "sqlite3_prepare_v3");
    counts.prepared++;
    counts.prepared_late += sqlite3_txn_state(handle, "main") == SQLITE_TXN_WRITE;
    return next(handle, sql, size, flags, ret_statement, tail);
}

REPLACES int sqlite3_step(sqlite3_stmt *statement)
{
    static int (*next)(sqlite3_stmt *);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "sqlite3_step");
    counts.steps++;
    return next(statement);
}

REPLACES int fdatasync(int fd)
{
    counts.syncs++;
    return (int)syscall(SYS_fdatasync, fd);
}

REPLACES int fsync(int fd)
{
    counts.syncs++;
    return (int)syscall(SYS_fsync, fd);
}

REPLACES ssize_t pwrite64(int fd, const void *bytes, size_t size, off_t offset)
{
    counts.writes++;
    return syscall(SYS_pwrite64, fd, bytes, size, offset);
}

REPLACES int openat(int folder, const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    unsigned mode = flags & O_CREAT ? va_arg(rest, unsigned) : 0;
    va_end(rest);
    counts.opened++;
    return (int)syscall(SYS_openat, folder, path, flags, mode);
}

static void count_anew(void)
{
    memset(&counts, 0, sizeof counts);
}

/* What the least of a few calls costs. On a slow machine, a call may also do what was due since,
 * such as looking at the epoch again. */
#define COUNT_LEAST(call)                                        \
    do {                                                         \
        struct counts least = { .steps = UINT_MAX };             \
        for (int turn = 0; turn < 5; turn++) {                   \
            count_anew();                                        \
            call;                                                \
            least = counts.steps < least.steps ? counts : least; \
        }                                                        \
        counts = least;                                          \
    } while (0)

/* ---- A store --------------------------------------------------------------------------- */

static char *folder;
static char url[300];
static struct hf_error error;

static struct hf_client *open_client(void)
{
    struct hf_client *client;
    assert_status(HF_OK, hf_client_open(url, NULL, &client, &error), &error);
    return client;
}

static void change(struct hf_client *client, const char *name)
{
    assert_status(HF_OK, hf_key_change(client, name, "x", 1, NULL, NULL, &error), &error);
}

/* What `holdfast run` asks of the store. */
static void take_and_release(struct hf_client *client)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct hf_lock *lock;
    options.no_renewal = true;
    assert_status(HF_OK, hf_lock_new(client, "x", &options, &lock, &error), &error);
    assert_status(HF_OK, hf_lock_acquire(lock, 0, &error), &error);
    assert_status(HF_OK, hf_lock_release(lock, &error), &error);
    hf_lock_free(lock);
}

static int make_store(void **state)
{
    (void)state;
    folder = test_dir_make();
    snprintf(url, sizeof url, "sqlite:%s/store.db", folder);
    struct hf_client *client = open_client();
    take_and_release(client);
    hf_client_close(client);
    return 0;
}

static int remove_store(void **state)
{
    (void)state;
    test_dir_remove(folder);
    return 0;
}

/* ---- Costs ------------------------------------------------------------------------------- */

/* BEGIN, UPDATE, COMMIT. No file is opened: nobody waits who would have to be woken, or who may be
 * gone. */
static void a_change_is_three_statements(void **state)
{
    (void)state;
    count_anew();
    struct hf_client *client = open_client();
    assert_int_not_equal(counts.opened, 0);
    change(client, "k");
    change(client, "k");
    COUNT_LEAST(change(client, "k"));
    assert_int_equal(counts.steps, 3);
    assert_int_equal(counts.prepared, 0);
    assert_int_equal(counts.syncs, 1);
    assert_int_equal(counts.writes, 1); /* the page and its header in the log */
    assert_int_equal(counts.opened, 0);
    hf_client_close(client);
}

static void transfer(struct hf_client *client)
{
    const char *names[] = { "a", "b" };
    struct hf_key *keys[2];
    struct hf_txn *txn;
    assert_status(HF_OK, hf_txn_begin(client, NULL, &txn, &error), &error);
    assert_status(HF_OK, hf_txn_acquire(txn, names, 2, NULL, 0, keys, &error), &error);
    for (int i = 0; i < 2; i++)
        assert_status(HF_OK, hf_key_update(keys[i], "x", 1, NULL, NULL, &error), &error);
    assert_status(HF_OK, hf_txn_commit(txn, NULL, &error), &error);
    hf_txn_free(txn);
}

/* BEGIN, the two keys, the record and its entry, which are looked up and inserted, COMMIT; BEGIN,
 * the record and the two keys, COMMIT. */
static void a_transfer_is_two_commits(void **state)
{
    (void)state;
    struct hf_client *client = open_client();
    change(client, "a");
    change(client, "b");
    transfer(client);
    COUNT_LEAST(transfer(client));
    assert_int_equal(counts.steps, 13);
    assert_int_equal(counts.prepared, 0);
    assert_int_equal(counts.syncs, 2);
    assert_int_equal(counts.writes, 2);
    assert_int_equal(counts.opened, 0);
    hf_client_close(client);
}

/* The statements to read a row and to swap it, and BEGIN, COMMIT and ROLLBACK. */
static void a_short_process_prepares_five(void **state)
{
    (void)state;
    struct hf_client *client = open_client();
    count_anew();
    hf_client_close(client);
    client = open_client();
    assert_int_equal(counts.prepared, 1);
    take_and_release(client);
    assert_int_equal(counts.prepared, 5);
    assert_int_equal(counts.prepared_late, 0);
    assert_int_equal(counts.syncs, 2);
    COUNT_LEAST(take_and_release(client));
    assert_int_equal(counts.prepared, 0);
    assert_int_equal(counts.steps, 6);
    assert_int_equal(counts.syncs, 2);
    hf_client_close(client);
}

/* A new object, a new version of it, and a delete. */
static void nothing_is_prepared_while_others_wait(void **state)
{
    (void)state;
    struct hf_store *store;
    assert_status(HF_OK, hf_store_open(url, NULL, &store, &error), &error);
    count_anew();
    for (int i = 0; i < 2; i++)
        assert_status(HF_OK, hf_store_put(store, "o", "body", 4, NULL, NULL, &error), &error);
    assert_status(HF_OK, hf_store_delete(store, "o", NULL, &error), &error);
    assert_int_equal(counts.prepared, 7); /* the three, LOOKUP, INSERT, UPDATE, DELETE */
    assert_int_equal(counts.prepared_late, 0);
    hf_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a change in one write is three statements and a sync",
           a_change_is_three_statements),
        IT("a transfer between two keys is two commits, each with one write to the log",
           a_transfer_is_two_commits),
        IT("a process that takes a lock and releases it prepares five statements",
           a_short_process_prepares_five),
        IT("no statement is prepared while other processes wait",
           nothing_is_prepared_while_others_wait),
    };
    return cmocka_run_group_tests(tests, make_store, remove_store);
}
