/* SPDX-License-Identifier: Apache-2.0 */
/* sqlite_open_test.c: which files the sqlite store opens, which it refuses without changing them,
 * and how its first reads treat writes. */
#include "sqlite_steps.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Refused, with that status, a sentence, and the file as it was. */
static void assert_refused(const char *name, enum hf_status expected, const char *part)
{
    static char before[MIB], after[MIB];
    size_t size = read_whole(name, before, sizeof before);
    struct store *store = NULL;
    struct hf_error error;
    assert_int_equal(try_open(name, &store, &error), expected);
    assert_null(store);
    assert_non_null(strstr(error.why, part));
    assert_int_equal(read_whole(name, after, sizeof after), size);
    assert_memory_equal(before, after, size);
    char folder[64];
    snprintf(folder, sizeof folder, "%s.objects", name);
    assert_int_not_equal(access(in_dir(folder), F_OK), 0);
}

static void garbage_is_refused(void **state)
{
    (void)state;
    write_file("garbage", big, 10000);
    assert_refused("garbage", HF_CORRUPT, "not an SQLite database, and was not changed");
    write_file("short", "SQLite", 6);
    assert_refused("short", HF_CORRUPT, "not an SQLite database, and was not changed");
}

static void a_truncated_database_is_refused(void **state)
{
    (void)state;
    struct store *store = open_store("whole");
    for (int i = 0; i < 50; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        put_text(store, key, (struct view){ big, 2000 });
    }
    store_close(store);
    static char bytes[MIB];
    size_t size = read_whole("whole", bytes, sizeof bytes);
    write_file("half", bytes, size / 2);
    assert_refused("half", HF_CORRUPT, "damaged");
}

static void the_database_of_another_program_is_refused(void **state)
{
    (void)state;
    run_sql("other", "CREATE TABLE objects (id INTEGER)");
    assert_refused("other", HF_INVALID, "another program");
    run_sql("named", "PRAGMA application_id = 7");
    assert_refused("named", HF_INVALID, "another program");
}

static void a_newer_version_is_refused(void **state)
{
    (void)state;
    store_close(open_store("new"));
    assert_int_equal(rmdir(in_dir("new.objects")), 0);
    run_sql("new", "PRAGMA user_version = 99");
    assert_refused("new", HF_UNSUPPORTED, "newer version");
}

static void a_database_without_its_tables_is_refused(void **state)
{
    (void)state;
    store_close(open_store("bare"));
    assert_int_equal(rmdir(in_dir("bare.objects")), 0);
    run_sql("bare", "DROP TABLE objects");
    assert_refused("bare", HF_CORRUPT, "the expected layout");
}

static void a_folder_a_pipe_and_a_missing_path_are_refused(void **state)
{
    (void)state;
    struct store *store;
    struct hf_error error;
    assert_int_equal(mkdir(in_dir("folder"), 0777), 0);
    assert_status(HF_INVALID, try_open("folder", &store, &error), &error);
    assert_status(HF_INVALID, try_open("folder/", &store, &error), &error);
    assert_int_equal(mkfifo(in_dir("pipe"), 0666), 0);
    assert_status(HF_INVALID, try_open("pipe", &store, &error), &error);
    assert_int_not_equal(try_open("no/such/folder/file", &store, &error), HF_OK);
    assert_int_not_equal(access(in_dir("no"), F_OK), 0);
    write_file("file", "", 0);
    assert_int_not_equal(try_open("file/below", &store, &error), HF_OK);
}

/* Whoever made it: a copy of a store that names none of its objects would take those of the other
 * for orphans. */
static void a_link_to_the_objects_of_another_store_is_refused(void **state)
{
    (void)state;
    static char bytes[MIB];
    struct store *store = open_store("victim");
    put_text(store, "large", (struct view){ big, 2 * SQLITE_INLINE_MAX });
    store_close(store);
    run_sql("victim", "PRAGMA wal_checkpoint(TRUNCATE)");
    write_file("theirs", bytes, read_whole("victim", bytes, sizeof bytes));
    run_sql("theirs", "DELETE FROM objects");
    assert_int_equal(symlink("victim.objects", in_dir("theirs.objects")), 0);
    struct hf_error error;
    enum hf_status status = try_open("theirs", &store, &error);
    assert_int_equal(count_files("victim.objects"), 1);
    assert_status(HF_INVALID, status, &error);
    assert_non_null(strstr(error.why, "it is a symbolic link"));
    store = open_store("victim");
    assert_holds(store, "large", (struct view){ big, 2 * SQLITE_INLINE_MAX });
    store_close(store);
}

static void an_empty_file_is_a_new_store(void **state)
{
    (void)state;
    write_file("empty", "", 0);
    struct store *store = open_store("empty");
    put_text(store, "a", VIEW("1"));
    assert_holds(store, "a", VIEW("1"));
    store_close(store);
}

/* Users of one group share a store if their umask lets the group write. */
static void a_new_store_has_the_mode_that_the_umask_allows(void **state)
{
    (void)state;
    static const mode_t masks[] = { 0002, 0022, 0077 };
    static const char *const files[] = { "", "-wal", "-shm" };
    mode_t before = umask(022);
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
        char name[32], path[64];
        struct stat st;
        umask(masks[i]);
        snprintf(name, sizeof name, "mode-%zu", i);
        struct store *store = open_store(name);
        put_text(store, "k", VIEW("x"));
        for (size_t k = 0; k < sizeof files / sizeof files[0]; k++) {
            snprintf(path, sizeof path, "%s%s", name, files[k]);
            assert_int_equal(stat(in_dir(path), &st), 0);
            assert_int_equal(st.st_mode & 0777, 0666 & ~masks[i]);
        }
        store_close(store);
    }
    umask(before);
}

static void one_missing_folder_is_created(void **state)
{
    (void)state;
    struct store *store = open_store("fresh/store.db");
    put_text(store, "a", VIEW("1"));
    store_close(store);
    store = open_store("fresh/store.db");
    assert_holds(store, "a", VIEW("1"));
    store_close(store);
}

static void names_that_mean_something_to_sqlite_are_plain_names(void **state)
{
    (void)state;
    static const char *const urls[] = { "sqlite::memory:", "sqlite:file:x%3Fmode=memory" };
    static const char *const names[] = { ":memory:", "file:x?mode=memory" };
    int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(chdir(dir), 0);
    for (size_t i = 0; i < 2; i++) {
        struct store *store;
        struct hf_error error;
        assert_status(HF_OK, store_open(env_real(), view_of(urls[i]), &store, &error), &error);
        assert_int_equal(fchdir(here), 0);
        put_text(store, "a", VIEW("1"));
        assert_holds(store, "a", VIEW("1")); /* a reader opens the file after the chdir */
        store_close(store);
        assert_int_equal(chdir(dir), 0);
        assert_int_equal(access(names[i], F_OK), 0);
    }
    assert_int_equal(fchdir(here), 0);
    close(here);
}

static void urls_it_cannot_make_sense_of_are_invalid(void **state)
{
    (void)state;
    static const char *const urls[] = { "sqlite://host/path", "sqlite:x?sink=off",
                                        "sqlite:x?sync=maybe", "sqlite:..", "sqlite:/" };
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        struct store *store = NULL;
        struct hf_error error;
        assert_int_equal(store_open(env_real(), view_of(urls[i]), &store, &error), HF_INVALID);
        assert_null(store);
    }
}

static void without_a_name_it_is_the_store_of_the_user(void **state)
{
    (void)state;
    struct store *store;
    struct hf_error error;
    unsetenv("XDG_STATE_HOME");
    setenv("HOME", dir, 1);
    assert_status(HF_OK, store_open(env_real(), VIEW("sqlite:"), &store, &error), &error);
    store_close(store);
    assert_int_equal(access(in_dir(".local/state/holdfast/store.db"), F_OK), 0);
    setenv("XDG_STATE_HOME", in_dir("state"), 1);
    assert_status(HF_OK, store_open(env_real(), VIEW("sqlite:"), &store, &error), &error);
    store_close(store);
    assert_int_equal(access(in_dir("state/holdfast/store.db"), F_OK), 0);
    unsetenv("XDG_STATE_HOME");
    unsetenv("HOME");
    assert_status(HF_INVALID, store_open(env_real(), VIEW("sqlite:"), &store, &error), &error);
}

/* ---- The first reads ----------------------------------------------------------------- */

/* Called before bytes of a large object are read. Replaces a function of the C library. */
static void (*before_large_read)(void);

__attribute__((visibility("default"))) ssize_t pread64(int fd, void *bytes, size_t size,
                                                       off64_t offset)
{
    if (before_large_read && size > SQLITE_INLINE_MAX)
        before_large_read();
    return syscall(SYS_pread64, fd, bytes, size, offset);
}

struct writer_beside {
    struct store *store;
    struct put_call put;
    atomic_bool ended;
    bool in_time;
    struct env_task *task;
};

static struct writer_beside beside;

static void put_beside(void *argument)
{
    (void)argument;
    store_put(beside.store, &beside.put);
    beside.ended = true;
}

static void write_beside(void)
{
    struct hf_error error;
    before_large_read = NULL;
    assert_status(HF_OK, env_task_start(env_real(), put_beside, NULL, &beside.task, &error),
                  &error);
    for (int i = 0; i < 3000 && !beside.ended; i++)
        env_sleep(env_real(), SPAN_MS(1));
    beside.in_time = beside.ended;
}

static void a_write_does_not_wait_for_the_bytes_of_a_large_object(void **state)
{
    (void)state;
    struct store *store = open_store("s");
    put_text(store, "large", (struct view){ big, LARGE });
    beside = (struct writer_beside){ .store = store,
                                     .put = { .key = VIEW("k"), .body = VIEW("1") } };
    before_large_read = write_beside;
    assert_holds(store, "large", (struct view){ big, LARGE });
    env_task_join(env_real(), beside.task);
    assert_true(beside.in_time);
    assert_status(HF_OK, beside.put.error.status, &beside.put.error);
    store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("garbage is refused and stays as it is", garbage_is_refused),
        IT("a truncated database is refused and stays as it is",
           a_truncated_database_is_refused),
        IT("the database of another program is refused and stays as it is",
           the_database_of_another_program_is_refused),
        IT("a newer version is refused and stays as it is", a_newer_version_is_refused),
        IT("a database without its tables is refused and stays as it is",
           a_database_without_its_tables_is_refused),
        IT("a folder, a pipe and a missing path are refused",
           a_folder_a_pipe_and_a_missing_path_are_refused),
        IT("a link to the objects of another store is refused",
           a_link_to_the_objects_of_another_store_is_refused),
        IT("an empty file is a new store", an_empty_file_is_a_new_store),
        IT("a new store has the mode that the umask allows",
           a_new_store_has_the_mode_that_the_umask_allows),
        IT("one missing folder is created", one_missing_folder_is_created),
        IT("names that mean something to SQLite are plain names",
           names_that_mean_something_to_sqlite_are_plain_names),
        IT("URLs it cannot make sense of are invalid",
           urls_it_cannot_make_sense_of_are_invalid),
        IT("without a name it is the store of the user",
           without_a_name_it_is_the_store_of_the_user),
        IT("a write does not wait while a read copies a large object",
           a_write_does_not_wait_for_the_bytes_of_a_large_object),
    };
    return sqlite_steps_run(tests, sizeof tests / sizeof tests[0]);
}
