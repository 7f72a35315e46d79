/* SPDX-License-Identifier: Apache-2.0 */
/* dir_listing_test.c: listings of a `dir:` store on a file system where a file that is overwritten
 * moves to the end of its directory, and a stream ends at what was the end when it was opened or
 * last positioned (btrfs). Simulated: functions of the C library are replaced for one directory. */
#include "store/store.h"
#include "test.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define FILES 5

/* ---- A directory as btrfs shows it ----------------------------------------------------- */

static struct {
    ino_t inode; /* 0: none */
    struct dirent names[FILES];
    long positions[FILES];
    long last;    /* the last position that was given to a file */
    long changes; /* the time at which the directory changed */
    DIR *stream;
    long at, end;
    long reads;     /* since the listing began */
    long overwrite; /* at this read, and ... */
    long until;     /* ... at each of the following up to this one: */
    int which;
} simulated;

static bool is_simulated(int fd)
{
    struct stat st;
    return simulated.inode != 0 && fstatat(fd, "", &st, AT_EMPTY_PATH) == 0 &&
           st.st_ino == simulated.inode;
}

#define REPLACES __attribute__((visibility("default")))

REPLACES int fstatfs(int fd, struct statfs *system)
{
    int result = (int)syscall(SYS_fstatfs, fd, system);
    if (result == 0 && is_simulated(fd))
        system->f_type = BTRFS_SUPER_MAGIC;
    return result;
}

REPLACES int fstat(int fd, struct stat *st)
{
    int result = fstatat(fd, "", st, AT_EMPTY_PATH);
    if (result == 0 && is_simulated(fd))
        st->st_ctim.tv_nsec = simulated.changes;
    return result;
}

REPLACES DIR *fdopendir(int fd)
{
    DIR *(*real)(int) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "fdopendir");
    DIR *stream = real(fd);
    if (stream && is_simulated(fd)) {
        simulated.stream = stream;
        simulated.at = 0;
        simulated.end = simulated.last;
    }
    return stream;
}

REPLACES long telldir(DIR *stream)
{
    long (*real)(DIR *) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "telldir");
    return stream == simulated.stream ? simulated.at : real(stream);
}

REPLACES void seekdir(DIR *stream, long position)
{
    void (*real)(DIR *, long) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "seekdir");
    if (stream != simulated.stream) {
        real(stream, position);
        return;
    }
    simulated.at = position;
    simulated.end = simulated.last;
}

static int find_next(void)
{
    int next = -1;
    for (int i = 0; i < FILES; i++)
        if (simulated.positions[i] >= simulated.at && simulated.positions[i] <= simulated.end &&
            (next < 0 || simulated.positions[i] < simulated.positions[next]))
            next = i;
    return next;
}

REPLACES struct dirent *readdir(DIR *stream)
{
    struct dirent *(*real)(DIR *) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, sizeof(long) == 8 ? "readdir" : "readdir64");
    if (stream != simulated.stream)
        return real(stream);
    long read = simulated.reads++;
    if (read >= simulated.overwrite && read <= simulated.until) {
        simulated.positions[simulated.which] = ++simulated.last;
        simulated.changes++;
    }
    int found = find_next();
    simulated.at = INT_MAX;
    if (found < 0)
        return NULL;
    simulated.at = simulated.positions[found] + 1;
    int next = find_next();
    simulated.at = next < 0 ? INT_MAX : simulated.positions[next];
    return &simulated.names[found];
}

/* ---- Listings -------------------------------------------------------------------------- */

static struct store *open_simulated(const char *folder)
{
    char url[URL_BYTES_MAX];
    struct hf_error error;
    struct store *store = NULL;
    struct stat st;
    memset(&simulated, 0, sizeof simulated);
    snprintf(url, sizeof url, "dir:%s?sync=off", folder);
    assert_status(HF_OK, store_open(env_real(), view_of(url), &store, &error), &error);
    for (int i = 0; i < FILES; i++) {
        struct dirent *entry = &simulated.names[i];
        snprintf(entry->d_name, sizeof entry->d_name, "k%d", i);
        entry->d_type = DT_REG;
        simulated.positions[i] = simulated.last = 2 + i;
        struct put_call put = { .key = view_of(entry->d_name), .body = VIEW("1") };
        assert_status(HF_OK, store_put(store, &put), &put.error);
    }
    assert_int_equal(stat(folder, &st), 0);
    simulated.inode = st.st_ino;
    return store;
}

/* Lists all, while a file is overwritten at some reads. Returns the number of reads. */
static long list_all(struct store *store, int which, long first, long last)
{
    simulated.reads = 0;
    simulated.which = which;
    simulated.overwrite = first;
    simulated.until = last;
    struct list_call list = { .max = 100 };
    assert_status(HF_OK, store_list(store, &list), &list.error);
    assert_int_equal(list.count, FILES);
    for (size_t i = 0; i < FILES; i++)
        assert_true(view_equal(list.entries[i].key, view_of(simulated.names[i].d_name)));
    list_release(&list);
    return simulated.reads;
}

static void overwritten_at_any_moment(void **state)
{
    (void)state;
    char *folder = test_dir_make();
    struct store *store = open_simulated(folder);
    for (int which = 0; which < FILES; which++)
        for (long at = 0; list_all(store, which, at, at) > at; at++)
            ;
    store_close(store);
    test_dir_remove(folder);
}

static void overwritten_again_and_again(void **state)
{
    (void)state;
    char *folder = test_dir_make();
    struct store *store = open_simulated(folder);
    for (int which = 0; which < FILES; which++)
        for (long times = 1; times < 40; times++)
            assert_true(list_all(store, which, 0, times) > times);
    store_close(store);
    test_dir_remove(folder);
}

/* No listing could be complete, but it ends. */
static void overwritten_all_the_time(void **state)
{
    (void)state;
    char *folder = test_dir_make();
    struct store *store = open_simulated(folder);
    simulated.until = LONG_MAX;
    struct list_call list = { .deadline = mono_add(env_now(env_real()), SPAN_MS(20)) };
    assert_status(HF_UNAVAILABLE, store_list(store, &list), &list.error);
    list_release(&list);
    store_close(store);
    test_dir_remove(folder);
}

static void left_alone(void **state)
{
    (void)state;
    char *folder = test_dir_make();
    struct store *store = open_simulated(folder);
    /* Each file and the end; then the last file and the end. */
    assert_int_equal(list_all(store, 0, LONG_MAX, LONG_MAX), FILES + 3);
    store_close(store);
    test_dir_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("an object that is overwritten moves in its folder, and is listed all the same",
           overwritten_at_any_moment),
        IT("an object that is overwritten again and again is listed",
           overwritten_again_and_again),
        IT("a listing of a folder that changes all the time ends at its deadline",
           overwritten_all_the_time),
        IT("of a folder that does not change, only the end is read twice", left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
