/* SPDX-License-Identifier: Apache-2.0 */
/* change_kit.c: a disk that fails on request, and a process that keeps the database busy. */
#include "change_kit.h"

#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- The disk ------------------------------------------------------------------------ */

atomic_int syncs_to_fail, writes_to_fail, log_syncs;

static bool take_one(atomic_int *count)
{
    int left = atomic_load(count);
    while (left > 0)
        if (atomic_compare_exchange_weak(count, &left, left - 1))
            return true;
    return false;
}

static bool is_log(int fd)
{
    char link[64], path[4200];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path);
    return size > 4 && memcmp(path + size - 4, "-wal", 4) == 0;
}

/* Replaces fdatasync of the C library, with which SQLite syncs. */
__attribute__((visibility("default"))) int fdatasync(int fd)
{
    if (is_log(fd)) {
        atomic_fetch_add(&log_syncs, 1);
        if (take_one(&syncs_to_fail)) {
            errno = EIO;
            return -1;
        }
    }
    return (int)syscall(SYS_fdatasync, fd);
}

static ssize_t write_or_fail(int fd, const void *bytes, size_t size, off_t offset)
{
    if (is_log(fd) && take_one(&writes_to_fail)) {
        errno = ENOSPC;
        return -1;
    }
    return pwrite(fd, bytes, size, offset);
}

void disk_stand_between(void)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    const char *name = vfs->xGetSystemCall(vfs, "pwrite64") ? "pwrite64" : "pwrite";
    vfs->xSetSystemCall(vfs, name, (sqlite3_syscall_ptr)write_or_fail);
}

/* ---- Other processes ------------------------------------------------------------------ */

sqlite3 *keep_busy(const char *name)
{
    sqlite3 *other;
    assert_int_equal(sqlite3_open(in_dir(name), &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    return other;
}

static void see(void *argument, const struct observation *observation)
{
    struct seen *seen = argument;
    seen->kinds[observation->kind]++;
    seen->conflicts += observation->error->status == HF_CONFLICT;
    seen->failed += observation->error->status != HF_OK;
    seen->bytes_sent += observation->bytes_sent;
    seen->bytes_received += observation->bytes_received;
}

struct store *open_observed(struct seen *seen)
{
    struct store *store = NULL;
    struct hf_error error;
    const struct observer observer = { see, seen };
    assert_status(HF_OK, store_observe(open_store("s"), observer, &store, &error), &error);
    return store;
}

void assert_seen(struct seen *seen, unsigned gets, unsigned puts, unsigned failed)
{
    assert_int_equal(seen->kinds[CALL_GET], gets);
    assert_int_equal(seen->kinds[CALL_PUT], puts);
    assert_int_equal(seen->failed, failed);
    *seen = (struct seen){ .conflicts = seen->conflicts };
}
