/* SPDX-License-Identifier: Apache-2.0 */
/* sqlite_io_test.c: an `sqlite:` store when reads, writes and syncs fail. Every result must be
 * true, also for a copy of the files taken at that moment, which is what a crash leaves.
 *
 * A layer between SQLite and its files counts SQLite's requests and fails one, or all that
 * contain a given word. */
#include "store/store.h"
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

/* ---- The layer ----------------------------------------------------------------------- */

#define FILE_HEADER_SIZE 100
#define POISON           "this page cannot be written"

static struct {
    long until; /* so many go well, then one fails; below 0: none */
    int write_code;
    _Atomic int read_code; /* not 0: every read of a page fails so */
    atomic_uint reads;
    bool stays; /* then all writes fail, too */
    bool fired;
} fault = { .until = -1 };

/* Syncs of the log, by SQLite and by the store, and of folders; and whether those of the log
 * fail. */
static unsigned log_syncs, folder_syncs;
static bool log_syncs_fail;

static int count_and_sync(long call, int fd)
{
    char link[64], path[4200] = "";
    struct stat file;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path);
    bool log = size > 4 && memcmp(path + size - 4, "-wal", 4) == 0;
    log_syncs += log;
    folder_syncs += fstat(fd, &file) == 0 && S_ISDIR(file.st_mode);
    errno = EIO;
    return log && log_syncs_fail ? -1 : (int)syscall(call, fd);
}

/* These replace functions of the C library. */
__attribute__((visibility("default"))) int fdatasync(int fd)
{
    return count_and_sync(SYS_fdatasync, fd);
}

__attribute__((visibility("default"))) int fsync(int fd)
{
    return count_and_sync(SYS_fsync, fd);
}

struct layer_file {
    sqlite3_file base;
    sqlite3_file *real;
};

static sqlite3_vfs *real_vfs;
static sqlite3_vfs layer_vfs;
static sqlite3_io_methods layer_methods;

static sqlite3_file *real_of(sqlite3_file *file)
{
    return ((struct layer_file *)(void *)file)->real;
}

static bool fails_now(void)
{
    if (fault.until < 0 || fault.until-- > 0)
        return false;
    fault.fired = true;
    return true;
}

static int layer_close(sqlite3_file *file)
{
    return real_of(file)->pMethods->xClose(real_of(file));
}

static int layer_read(sqlite3_file *file, void *bytes, int size, sqlite3_int64 offset)
{
    fault.reads++;
    if (fault.read_code && size > FILE_HEADER_SIZE)
        return fault.read_code;
    if (fails_now())
        return SQLITE_IOERR_READ;
    return real_of(file)->pMethods->xRead(real_of(file), bytes, size, offset);
}

static int layer_write(sqlite3_file *file, const void *bytes, int size, sqlite3_int64 offset)
{
    if (fails_now() || (fault.stays && fault.fired) ||
        memmem(bytes, (size_t)size, POISON, sizeof POISON - 1))
        return fault.write_code;
    return real_of(file)->pMethods->xWrite(real_of(file), bytes, size, offset);
}

static int layer_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    if (fails_now())
        return SQLITE_IOERR_TRUNCATE;
    return real_of(file)->pMethods->xTruncate(real_of(file), size);
}

static int layer_sync(sqlite3_file *file, int flags)
{
    if (fails_now())
        return SQLITE_IOERR_FSYNC;
    return real_of(file)->pMethods->xSync(real_of(file), flags);
}

static int layer_size(sqlite3_file *file, sqlite3_int64 *ret_size)
{
    return real_of(file)->pMethods->xFileSize(real_of(file), ret_size);
}

static int layer_lock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xLock(real_of(file), level);
}

static int layer_unlock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int layer_check_lock(sqlite3_file *file, int *ret_locked)
{
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), ret_locked);
}

static int layer_control(sqlite3_file *file, int operation, void *argument)
{
    return real_of(file)->pMethods->xFileControl(real_of(file), operation, argument);
}

static int layer_sector(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int layer_character(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int layer_shm_map(sqlite3_file *file, int region, int size, int extend,
                         void volatile **ret_memory)
{
    if (fails_now())
        return SQLITE_IOERR_SHMMAP;
    return real_of(file)->pMethods->xShmMap(real_of(file), region, size, extend, ret_memory);
}

static int layer_shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
    return real_of(file)->pMethods->xShmLock(real_of(file), offset, count, flags);
}

static void layer_shm_barrier(sqlite3_file *file)
{
    real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int layer_shm_unmap(sqlite3_file *file, int delete)
{
    return real_of(file)->pMethods->xShmUnmap(real_of(file), delete);
}

static int layer_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                      int *ret_flags)
{
    (void)vfs;
    struct layer_file *layer = (struct layer_file *)(void *)file;
    layer->real = (sqlite3_file *)(void *)(layer + 1);
    int code = real_vfs->xOpen(real_vfs, name, layer->real, flags, ret_flags);
    layer->base.pMethods = layer->real->pMethods ? &layer_methods : NULL;
    return code;
}

static int install_layer(void **state)
{
    (void)state;
    layer_methods = (sqlite3_io_methods){
        2,
        layer_close,
        layer_read,
        layer_write,
        layer_truncate,
        layer_sync,
        layer_size,
        layer_lock,
        layer_unlock,
        layer_check_lock,
        layer_control,
        layer_sector,
        layer_character,
        layer_shm_map,
        layer_shm_lock,
        layer_shm_barrier,
        layer_shm_unmap,
        NULL,
        NULL,
    };
    real_vfs = sqlite3_vfs_find(NULL);
    layer_vfs = *real_vfs;
    layer_vfs.zName = "layer";
    layer_vfs.szOsFile = (int)sizeof(struct layer_file) + real_vfs->szOsFile;
    layer_vfs.xOpen = layer_open;
    return sqlite3_vfs_register(&layer_vfs, /* as default */ 1);
}

/* ---- Steps --------------------------------------------------------------------------- */

static enum hf_status try_open(const char *folder, struct store **ret_store)
{
    char url[4200];
    struct hf_error error;
    snprintf(url, sizeof url, "sqlite:%s/s", folder);
    return store_open(env_real(), view_of(url), ret_store, &error);
}

static struct store *open_store(const char *folder)
{
    struct store *store = NULL;
    assert_int_equal(try_open(folder, &store), HF_OK);
    return store;
}

/* The first byte of the object, or 0 if there is none. */
static char first_byte(struct store *store, const char *key)
{
    struct buffer got = BUFFER_INIT(MIB);
    struct get_call get = { .key = view_of(key), .body = &got };
    enum hf_status status = store_get(store, &get);
    char byte = got.size > 0 ? got.data[0] : '\0';
    buffer_release(&got);
    if (status != HF_NOT_FOUND)
        assert_status(HF_OK, status, &get.error);
    return byte;
}

static void copy_file(const char *from, const char *to, const char *name)
{
    char path[4200];
    static char bytes[2 * MIB];
    snprintf(path, sizeof path, "%s/%s", from, name);
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    snprintf(path, sizeof path, "%s/%s", to, name);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

/* What a crash at this moment would leave: all that was written, synced or not. */
static char first_byte_after_crash(const char *folder, const char *key)
{
    char *copy = test_dir_make();
    copy_file(folder, copy, "s");
    copy_file(folder, copy, "s-wal");
    struct store *store = open_store(copy);
    char byte = first_byte(store, key);
    store_close(store);
    test_dir_remove(copy);
    return byte;
}

/* ---- Tests --------------------------------------------------------------------------- */

/* Lets the nth request of a put fail and holds the answer against what is there. True when the
 * put saw a failure at all. */
static bool put_with_fault(long n, int write_code, struct view body)
{
    char *folder = test_dir_make();
    struct store *store = open_store(folder);
    struct put_call old = { .key = VIEW("k"), .body = VIEW("old") };
    assert_status(HF_OK, store_put(store, &old), &old.error);
    fault.write_code = write_code;
    fault.fired = false;
    fault.until = n;
    struct put_call new = { .key = VIEW("k"), .body = body, .condition = if_match(&old.etag) };
    enum hf_status status = store_put(store, &new);
    fault.until = -1;
    char crashed = first_byte_after_crash(folder, "k");
    char now = first_byte(store, "k");
    if (status == HF_OK)
        assert_true(now == 'n' && crashed == 'n');
    else if (status == HF_UNAVAILABLE)
        assert_true(now == 'o' && crashed == 'o');
    else
        assert_int_equal(status, HF_UNSURE);
    assert_true(status == HF_OK || fault.fired);
    struct put_call again = { .key = VIEW("k"), .body = VIEW("again") };
    assert_status(HF_OK, store_put(store, &again), &again.error);
    assert_int_equal(first_byte(store, "k"), 'a');
    store_close(store);
    test_dir_remove(folder);
    return fault.fired;
}

static void a_put_is_answered_truly_whatever_fails(void **state)
{
    (void)state;
    static char large[SQLITE_INLINE_MAX];
    memset(large, 'n', sizeof large);
    const struct view bodies[] = { VIEW("new"), { large, sizeof large } };
    for (size_t i = 0; i < 2; i++) {
        long n = 0;
        while (put_with_fault(n, SQLITE_FULL, bodies[i]) && n < 200)
            n++;
        assert_true(n >= 2 && n < 200); /* the write of all pages, and the sync */
        while (n > 0)
            put_with_fault(--n, SQLITE_IOERR_WRITE, bodies[i]);
    }
}

/* Puts `key` and holds what is there against it, also after a crash. */
static void put_and_check(struct store *store, const char *folder, const char *key)
{
    struct put_call put = { .key = view_of(key), .body = view_of(key) };
    assert_status(HF_OK, store_put(store, &put), &put.error);
    assert_int_equal(first_byte(store, key), key[0]);
    assert_int_equal(first_byte_after_crash(folder, key), key[0]);
}

/* Two writers that share a log. What the first one could not write is not written later, over what
 * the second has written meanwhile. */
static void a_failed_commit_leaves_nothing_to_be_written(void **state)
{
    (void)state;
    static char large[SQLITE_INLINE_MAX];
    memset(large, 'n', sizeof large);
    bool fired = true;
    for (long n = 0; fired && n < 50; n++) {
        char *folder = test_dir_make();
        struct store *first = open_store(folder), *second = open_store(folder);
        put_and_check(first, folder, "a");
        fault.write_code = SQLITE_IOERR_WRITE;
        fault.fired = false;
        fault.stays = true;
        fault.until = n;
        struct put_call put = { .key = VIEW("k"), .body = { large, sizeof large } };
        store_put(first, &put);
        fault.until = -1;
        fault.stays = false;
        fired = fault.fired;
        put_and_check(second, folder, "b");
        put_and_check(first, folder, "c");
        put_and_check(second, folder, "d");
        assert_int_equal(first_byte(first, "b"), 'b');
        assert_int_equal(first_byte(second, "c"), 'c');
        store_close(first);
        store_close(second);
        test_dir_remove(folder);
    }
    assert_false(fired);
}

static void an_unsynced_commit_is_unsure(void **state)
{
    (void)state;
    char *folder = test_dir_make();
    struct store *store = open_store(folder);
    struct put_call put = { .key = VIEW("k"), .body = VIEW("1") };
    assert_status(HF_OK, store_put(store, &put), &put.error);
    int unsure = 0;
    for (long n = 0; n < 20; n++) {
        fault.write_code = SQLITE_FULL;
        fault.until = n;
        enum hf_status status = store_put(store, &put);
        fault.until = -1;
        unsure += status == HF_UNSURE;
    }
    assert_true(unsure > 0);
    store_close(store);
    test_dir_remove(folder);
}

static void one_that_cannot_be_written_does_not_spoil_the_others(void **state)
{
    (void)state;
    char *folder = test_dir_make();
    struct store *store = open_store(folder);
    fault.write_code = SQLITE_FULL;
    struct put_call puts[] = {
        { .key = VIEW("a"), .body = VIEW("good"), .condition = if_absent() },
        { .key = VIEW("b"), .body = VIEW(POISON), .condition = if_absent() },
        { .key = VIEW("b"), .body = VIEW("better"), .condition = if_absent() },
        { .key = VIEW("a"), .body = VIEW("late"), .condition = if_absent() },
    };
    assert_int_equal(store_put_many(store, puts, 4), HF_UNAVAILABLE);
    assert_status(HF_OK, puts[0].error.status, &puts[0].error);
    assert_status(HF_UNAVAILABLE, puts[1].error.status, &puts[1].error);
    assert_status(HF_OK, puts[2].error.status, &puts[2].error);
    assert_status(HF_CONFLICT, puts[3].error.status, &puts[3].error);
    assert_int_equal(first_byte(store, "a"), 'g');
    assert_int_equal(first_byte(store, "b"), 'b');
    assert_int_equal(first_byte_after_crash(folder, "b"), 'b');
    store_close(store);
    test_dir_remove(folder);
}

static void a_failed_read_is_not_a_missing_object(void **state)
{
    (void)state;
    char *folder = test_dir_make();
    struct store *store = open_store(folder);
    struct put_call put = { .key = VIEW("k"), .body = VIEW("1") };
    assert_status(HF_OK, store_put(store, &put), &put.error);
    store_close(store);
    bool fired = true;
    for (long n = 0; fired && n < 500; n++) {
        struct buffer got = BUFFER_INIT(64);
        struct get_call get = { .key = VIEW("k"), .body = &got };
        fault.fired = false;
        fault.until = n;
        enum hf_status status = try_open(folder, &store);
        if (status == HF_OK) {
            status = store_get(store, &get);
            fault.until = -1;
            store_close(store);
        }
        fault.until = -1;
        fired = fault.fired;
        if (status != HF_OK) {
            assert_true(fired);
            assert_int_equal(status, HF_UNAVAILABLE);
        }
        buffer_release(&got);
    }
    assert_false(fired);
    store = open_store(folder);
    assert_int_equal(first_byte(store, "k"), '1');
    store_close(store);
    test_dir_remove(folder);
}

/* Whatever code SQLite has for it: a swap that failed is not one that found nothing to do. */
/* Waits until the first read has found the database busy, and ends that after a put in vain. */
static void put_while_a_read_waits(void *argument)
{
    struct put_call put = { .key = VIEW("other"), .body = VIEW("1") };
    for (int i = 0; i < 5000 && fault.reads < 2; i++)
        env_sleep(env_real(), SPAN_MS(1));
    put.deadline = mono_add(env_now(env_real()), SPAN_MS(100));
    store_put(argument, &put);
    fault.read_code = SQLITE_OK;
}

static void a_write_keeps_its_deadline_while_a_read_waits(void **state)
{
    (void)state;
    char *folder = test_dir_make();
    struct env_task *task;
    struct hf_error error;
    struct store *other = open_store(folder), *store = open_store(folder);
    struct put_call put = { .key = VIEW("k"), .body = VIEW("1") };
    assert_status(HF_OK, store_put(other, &put), &put.error); /* pages to be read */
    fault.reads = 0;
    fault.read_code = SQLITE_BUSY;
    assert_status(HF_OK,
                  env_task_start(env_real(), put_while_a_read_waits, store, &task, &error),
                  &error);
    struct buffer body = BUFFER_INIT(100);
    struct get_call get = { .key = VIEW("k"),
                            .body = &body,
                            .deadline = mono_add(env_now(env_real()), SPAN_S(5)) };
    enum hf_status status = store_get(store, &get);
    env_task_join(env_real(), task);
    assert_status(HF_OK, status, &get.error);
    buffer_release(&body);
    store_close(other);
    store_close(store);
    test_dir_remove(folder);
}

static void a_read_that_opens_a_connection_keeps_its_deadline(void **state)
{
    (void)state;
    char *folder = test_dir_make();
    struct store *store = open_store(folder);
    struct buffer body = BUFFER_INIT(100);
    struct mono_time start = env_now(env_real());
    struct get_call get = { .key = VIEW("k"),
                            .body = &body,
                            .deadline = mono_add(start, SPAN_MS(100)) };
    for (int i = 0; i < 4; i++) /* by the write connection */
        assert_int_equal(first_byte(store, "k"), '\0');
    fault.read_code = SQLITE_BUSY;
    enum hf_status status = store_get(store, &get);
    fault.read_code = SQLITE_OK;
    assert_status(HF_UNAVAILABLE, status, &get.error);
    assert_true(mono_since(env_now(env_real()), start).us < SPAN_S(5).us);
    buffer_release(&body);
    store_close(store);
    test_dir_remove(folder);
}

static void a_swap_that_fails_is_not_done(void **state)
{
    (void)state;
    static const int codes[] = { SQLITE_IOERR_READ, SQLITE_IOERR_NOMEM, SQLITE_NOMEM,
                                 SQLITE_FULL, SQLITE_CORRUPT };
    static char body[3000];
    memset(body, 'o', sizeof body);
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        char *folder = test_dir_make();
        struct store *store = open_store(folder);
        struct etag etag = { 0 };
        for (int k = 0; k < 300; k++) { /* more than one page holds, so that a swap must read */
            char key[16];
            snprintf(key, sizeof key, "k%d", k);
            struct put_call put = { .key = view_of(key), .body = { body, sizeof body } };
            assert_status(HF_OK, store_put(store, &put), &put.error);
            if (k == 150)
                etag = put.etag;
        }
        store_close(store);
        store = open_store(folder);
        fault.read_code = codes[i];
        struct put_call swap = { .key = VIEW("k150"),
                                 .body = VIEW("new"),
                                 .condition = if_match(&etag) };
        enum hf_status status = store_put(store, &swap);
        fault.read_code = 0;
        if (first_byte(store, "k150") == 'o')
            assert_int_not_equal(status, HF_OK);
        store_close(store);
        test_dir_remove(folder);
    }
}

/* ---- What a dead writer left ---------------------------------------------------------- */

static enum hf_status get_k(struct store *store)
{
    struct buffer body = BUFFER_INIT(100);
    struct get_call get = { .key = VIEW("k"), .body = &body };
    enum hf_status status = store_get(store, &get);
    buffer_release(&body);
    return status;
}

static enum hf_status get_k_with_a_file(struct store *store)
{
    struct get_call get = { .key = VIEW("k") };
    FILE *file = tmpfile();
    assert_non_null(file);
    enum hf_status status = store_get_file(store, &get, fileno(file), NULL);
    fclose(file);
    return status;
}

static enum hf_status get_nothing(struct store *store)
{
    struct buffer body = BUFFER_INIT(100);
    struct get_call get = { .key = VIEW("none"), .body = &body };
    enum hf_status status = store_get(store, &get);
    buffer_release(&body);
    return status == HF_NOT_FOUND ? HF_OK : status;
}

static enum hf_status list_all(struct store *store)
{
    struct list_call list = { .max = 10 };
    enum hf_status status = store_list(store, &list);
    list_release(&list);
    return status;
}

static enum hf_status put_in_vain(struct store *store)
{
    struct put_call put = { .key = VIEW("k"), .body = VIEW("2"), .condition = if_absent() };
    enum hf_status status = store_put(store, &put);
    return status == HF_CONFLICT ? HF_OK : status;
}

static struct view decide_on_nothing(void *argument, const struct etag *etag, struct view body)
{
    (void)argument;
    (void)etag;
    (void)body;
    return (struct view){ NULL, 0 };
}

static enum hf_status change_nothing(struct store *store)
{
    struct change_call change = { .key = VIEW("k"), .decide = decide_on_nothing };
    return store_change(store, &change);
}

/* A folder with what a writer leaves that died between writing the log and syncing it. */
static char *leave_unsynced(void)
{
    char *folder = test_dir_make(), *copy = test_dir_make();
    struct store *store = open_store(folder);
    struct put_call put = { .key = VIEW("k"), .body = VIEW("1") };
    assert_status(HF_OK, store_put(store, &put), &put.error);
    copy_file(folder, copy, "s");
    copy_file(folder, copy, "s-wal");
    store_close(store);
    test_dir_remove(folder);
    return copy;
}

static void no_answer_precedes_the_sync(void **state)
{
    (void)state;
    static enum hf_status (*const calls[])(struct store *) = { get_k,       get_k_with_a_file,
                                                               get_nothing, list_all,
                                                               put_in_vain, change_nothing };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        char *folder = leave_unsynced();
        struct store *store = open_store(folder);
        log_syncs_fail = true;
        assert_int_equal(calls[i](store), HF_UNAVAILABLE);
        log_syncs_fail = false;
        log_syncs = 0;
        assert_int_equal(calls[i](store), HF_OK);
        assert_int_equal(log_syncs, 1);
        assert_int_equal(calls[i](store), HF_OK);
        assert_int_equal(log_syncs, 1);
        store_close(store);
        test_dir_remove(folder);
    }
}

static void a_commit_is_the_sync(void **state)
{
    (void)state;
    char *folder = leave_unsynced();
    log_syncs = 0;
    struct store *store = open_store(folder);
    struct buffer body = BUFFER_INIT(100);
    struct get_call get = { .key = VIEW("k"), .body = &body, .provisional = true };
    assert_status(HF_OK, store_get(store, &get), &get.error);
    assert_int_equal(log_syncs, 0);
    struct put_call put = { .key = VIEW("k"), .body = VIEW("2") };
    assert_status(HF_OK, store_put(store, &put), &put.error);
    assert_int_equal(log_syncs, 1);
    assert_int_equal(first_byte(store, "k"), '2');
    assert_int_equal(log_syncs, 1);
    buffer_release(&body);
    store_close(store);
    test_dir_remove(folder);
}

/* The name of the only file in the folder of large objects. */
static void find_large_file(const char *folder, char path[4200])
{
    snprintf(path, 4200, "%s/s.objects", folder);
    DIR *walk = opendir(path);
    assert_non_null(walk);
    const struct dirent *entry;
    do
        assert_non_null(entry = readdir(walk));
    while (entry->d_name[0] == '.');
    snprintf(path, 4200, "%s/s.objects/%s", folder, entry->d_name);
    closedir(walk);
}

/* A file that no row names may be named by a row again after a power loss, if the commit that
 * replaced it is not durable. */
static void a_file_is_swept_after_the_sync(void **state)
{
    (void)state;
    static char large[SQLITE_INLINE_MAX + 1];
    char path[4200];
    char *folder = test_dir_make();
    struct store *store = open_store(folder);
    struct put_call put = { .key = VIEW("k"), .body = { large, sizeof large } };
    assert_status(HF_OK, store_put(store, &put), &put.error);
    store_close(store);
    find_large_file(folder, path);
    char *last = path + strlen(path) - 1;
    *last = *last == '0' ? '1' : '0'; /* a file of this store that no row names */
    FILE *orphan = fopen(path, "w");
    assert_non_null(orphan);
    fclose(orphan);
    for (int fails = 1; fails >= 0; fails--) {
        log_syncs = 0;
        log_syncs_fail = fails;
        store_close(open_store(folder));
        assert_int_equal(access(path, F_OK), fails ? 0 : -1);
        assert_true(log_syncs > 0);
    }
    test_dir_remove(folder);
}

/* ---- The name of the log --------------------------------------------------------------- */

/* How often a folder is synced when the store is opened, written to and closed. */
static unsigned folder_syncs_of_a_put(const char *folder)
{
    struct store *store = open_store(folder);
    struct put_call put = { .key = VIEW("k"), .body = VIEW("1") };
    folder_syncs = 0;
    assert_status(HF_OK, store_put(store, &put), &put.error);
    store_close(store);
    return folder_syncs;
}

/* Another file with the contents and the mark of the log takes its place. */
static void replace_by_copy(const char *folder)
{
    char log[4200], kept[4200], mark[64];
    snprintf(log, sizeof log, "%s/s-wal", folder);
    snprintf(kept, sizeof kept, "%s/kept", folder);
    ssize_t size = lgetxattr(log, "user.holdfast", mark, sizeof mark);
    assert_true(size > 0);
    assert_int_equal(rename(log, kept), 0);
    char *elsewhere = test_dir_make();
    copy_file(folder, elsewhere, "kept");
    char from[4200];
    snprintf(from, sizeof from, "%s/kept", elsewhere);
    assert_int_equal(rename(from, log), 0);
    assert_int_equal(lsetxattr(log, "user.holdfast", mark, (size_t)size, 0), 0);
    test_dir_remove(elsewhere);
}

static void the_folder_is_synced_for_a_new_log(void **state)
{
    (void)state;
    char *above = test_dir_make();
    char folder[1000], moved[1000];
    snprintf(folder, sizeof folder, "%s/one", above);
    snprintf(moved, sizeof moved, "%s/two", above);
    assert_int_equal(mkdir(folder, 0777), 0);
    if (lsetxattr(folder, "user.holdfast", "", 0, 0) != 0)
        skip(); /* without extended attributes, it is synced each time */
    assert_true(folder_syncs_of_a_put(folder) > 0);
    assert_int_equal(folder_syncs_of_a_put(folder), 0);
    replace_by_copy(folder);
    assert_true(folder_syncs_of_a_put(folder) > 0);
    assert_int_equal(folder_syncs_of_a_put(folder), 0);
    assert_int_equal(rename(folder, moved), 0);
    assert_true(folder_syncs_of_a_put(moved) > 0);
    assert_int_equal(folder_syncs_of_a_put(moved), 0);
    test_dir_remove(above);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a commit that failed leaves nothing to be written later",
           a_failed_commit_leaves_nothing_to_be_written),
        IT("a put is answered truly whatever request to the disk fails",
           a_put_is_answered_truly_whatever_fails),
        IT("a commit that was written but not synced is unsure", an_unsynced_commit_is_unsure),
        IT("one write that cannot be stored does not spoil the others of its group",
           one_that_cannot_be_written_does_not_spoil_the_others),
        IT("a failed read is unavailable, not a missing object",
           a_failed_read_is_not_a_missing_object),
        IT("a write keeps its deadline while the first read waits for the database",
           a_write_keeps_its_deadline_while_a_read_waits),
        IT("a read that opens a connection ends at its deadline",
           a_read_that_opens_a_connection_keeps_its_deadline),
        IT("a swap that fails is not told as done", a_swap_that_fails_is_not_done),
        IT("what a dead writer left is synced before any answer depends on it",
           no_answer_precedes_the_sync),
        IT("the first commit syncs what a dead writer left, and a provisional read waits for "
           "it",
           a_commit_is_the_sync),
        IT("a large file that no row names is removed only after the sync",
           a_file_is_swept_after_the_sync),
        IT("the folder is synced for a log that is new, copied or moved, and not again",
           the_folder_is_synced_for_a_new_log),
    };
    return cmocka_run_group_tests(tests, install_layer, NULL);
}
