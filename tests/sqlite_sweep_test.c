/* SPDX-License-Identifier: Apache-2.0 */
/* sqlite_sweep_test.c: how the sweep of the sqlite store tells the file of a dead writer from one
 * whose commit may still become visible, and which files it finds. */
#include "sqlite_steps.h"
#include "store/sqlite/files.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Syncs of the log, and whether they fail; locks of large files, and how often the log had been
 * synced at the last of them. */
static unsigned log_syncs, locks, log_syncs_at_lock;
static bool log_syncs_fail;

/* Of the rest, nothing has to be durable here. */
static int count_sync(int fd)
{
    char link[64], path[4200];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path);
    bool log = size > 4 && memcmp(path + size - 4, "-wal", 4) == 0;
    log_syncs += log;
    errno = EIO;
    return log && log_syncs_fail ? -1 : 0;
}

/* These replace functions of the C library. */
__attribute__((visibility("default"))) int fdatasync(int fd)
{
    return count_sync(fd);
}

__attribute__((visibility("default"))) int fsync(int fd)
{
    return count_sync(fd);
}

__attribute__((visibility("default"))) int flock(int fd, int operation)
{
    locks++;
    log_syncs_at_lock = log_syncs;
    return (int)syscall(SYS_flock, fd, operation);
}

static const struct view old = { big, LARGE };

static void make_store_with_a_large_object(void)
{
    struct store *store = open_store("s");
    put_text(store, "k", old);
    store_close(store);
}

/* Adds two files that no row names, with names like that of the only one. */
static void add_orphans(void)
{
    char name[300];
    DIR *walk = opendir(in_dir("s.objects"));
    assert_non_null(walk);
    const struct dirent *entry;
    do
        assert_non_null(entry = readdir(walk));
    while (entry->d_name[0] == '.');
    snprintf(name, sizeof name, "s.objects/%s", entry->d_name);
    closedir(walk);
    char *last = name + strlen(name) - 1;
    char digit = *last;
    for (int i = 1; i <= 2; i++) {
        *last = (char)('0' + (digit - '0' + i) % 8);
        write_file(name, "", 0);
    }
}

/* Opens the store, which sweeps, and closes it. Returns the number of large files that stay. */
static size_t sweep(void)
{
    log_syncs = locks = 0;
    store_close(open_store("s"));
    return count_files("s.objects");
}

/* Until its file is locked, a writer may be alive, and may then die and leave a commit that nobody
 * sees. */
static void files_are_locked_before_the_commit(void **state)
{
    (void)state;
    make_store_with_a_large_object();
    add_orphans();
    assert_int_equal(sweep(), 1);
    assert_int_equal(locks, 2);
    assert_int_equal(log_syncs_at_lock, 0);
    assert_int_equal(log_syncs, 1);
}

static void a_sweep_whose_commit_fails_removes_nothing(void **state)
{
    (void)state;
    make_store_with_a_large_object();
    add_orphans();
    log_syncs_fail = true;
    assert_int_equal(sweep(), 3);
    log_syncs_fail = false;
    assert_int_equal(sweep(), 1);
}

static void a_sweep_without_orphans_writes_nothing(void **state)
{
    (void)state;
    static char before[MIB], after[MIB];
    make_store_with_a_large_object();
    size_t size = read_whole("s-wal", before, sizeof before);
    assert_int_equal(sweep(), 1);
    assert_int_equal(log_syncs, 0);
    assert_int_equal(read_whole("s-wal", after, sizeof after), size);
    assert_memory_equal(before, after, size);
}

static void a_sweep_of_a_busy_database_removes_nothing(void **state)
{
    (void)state;
    sqlite3 *other;
    make_store_with_a_large_object();
    add_orphans();
    assert_int_equal(sqlite3_open(in_dir("s"), &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sweep(), 3);
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
    assert_int_equal(sweep(), 1);
}

/* A commit that could not be synced is seen by nobody while others have the store open, and by all
 * who read the log from the start. */
static void an_unseen_commit_does_not_lose_its_file(void **state)
{
    (void)state;
    make_store_with_a_large_object();
    struct store *idle = open_store("s"), *writer = open_store("s");
    struct put_call put = { .key = VIEW("k"), .body = { big, LARGE + 1 } };
    log_syncs_fail = true;
    assert_int_equal(store_put(writer, &put), HF_UNSURE);
    log_syncs_fail = false;
    store_close(writer);
    sweep();
    store_close(idle);
    struct store *store = open_store("s");
    assert_holds(store, "k", old);
    store_close(store);
    assert_int_equal(count_files("s.objects"), 1);
}

/* ---- A folder of many files ---------------------------------------------------------- */

#define MANY   100000 /* as many as a sweep usually looks at */
#define PREFIX "0123456789abcdef"

/* How many files with a row seem to come before those that are there, and how many are left. */
static unsigned named, named_left;

/* These replace functions of the C library. */
__attribute__((visibility("default"))) struct dirent *readdir(DIR *walk)
{
    static struct dirent entry;
    static struct dirent *(*real)(DIR *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "readdir64");
    if (named_left == 0)
        return real(walk);
    snprintf(entry.d_name, sizeof entry.d_name, PREFIX "%032x", named_left--);
    return &entry;
}

__attribute__((visibility("default"))) void rewinddir(DIR *walk)
{
    static void (*real)(DIR *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "rewinddir");
    named_left = named;
    real(walk);
}

/* What the sweep draws: how far it looks, and where it begins to remove. */
static uint64_t drawn[] = { 0, MANY };
static size_t draws;

static void draw(struct env *env, void *bytes, size_t size)
{
    (void)env;
    assert_int_equal(size, sizeof drawn[0]);
    memcpy(bytes, &drawn[draws++ % 2], size);
}

static bool is_other(void *argument, const char *name)
{
    return strcmp(argument, name) != 0;
}

static bool discard_nothing(void *argument)
{
    (void)argument;
    return true;
}

static void the_last_of_many_files_is_in_reach(void **state)
{
    (void)state;
    char orphan[] = PREFIX "ffffffffffffffffffffffffffffffff";
    struct env_ops ops = *env_real()->ops;
    struct env env = *env_real();
    ops.random = draw;
    env.ops = &ops;
    write_file(orphan, "", 0);
    int fd = open(in_dir(""), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    struct large_folder folder = { .env = &env, .fd = fd, .store_id = PREFIX };
    struct large_rows rows = { is_other, discard_nothing, orphan };
    named = named_left = MANY;
    large_folder_sweep(&folder, &rows);
    named = named_left = 0;
    assert_int_equal(access(in_dir(orphan), F_OK), -1);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("all files that no row names are locked before the commit of the sweep",
           files_are_locked_before_the_commit),
        IT("a sweep whose commit fails removes nothing",
           a_sweep_whose_commit_fails_removes_nothing),
        IT("a sweep that finds nothing to remove writes nothing",
           a_sweep_without_orphans_writes_nothing),
        IT("a sweep that finds the database busy removes nothing",
           a_sweep_of_a_busy_database_removes_nothing),
        IT("a commit that nobody sees yet does not lose its large file",
           an_unseen_commit_does_not_lose_its_file),
        IT("the last of very many large files is within the reach of a sweep",
           the_last_of_many_files_is_in_reach),
    };
    return sqlite_steps_run(tests, sizeof tests / sizeof tests[0]);
}
