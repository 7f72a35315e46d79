/* SPDX-License-Identifier: Apache-2.0 */
/* sqlite_steps.c: steps that the tests of the sqlite store share. */
#include "sqlite_steps.h"

#include <dirent.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

char *dir;
char big[4 * LARGE];

static int make_dir(void **state)
{
    (void)state;
    dir = test_dir_make();
    memset(big, 'b', sizeof big);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    test_dir_remove(dir);
    return 0;
}

const char *in_dir(const char *name)
{
    static char path[2][4096];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
    return path[turn];
}

enum hf_status try_open(const char *name, struct store **ret_store, struct hf_error *error)
{
    char url[4200];
    snprintf(url, sizeof url, "sqlite:%s", in_dir(name));
    return store_open(env_real(), view_of(url), ret_store, error);
}

struct store *open_store(const char *name)
{
    struct store *store = NULL;
    struct hf_error error;
    assert_status(HF_OK, try_open(name, &store, &error), &error);
    return store;
}

struct etag put_text(struct store *store, const char *key, struct view body)
{
    struct put_call call = { .key = view_of(key), .body = body };
    assert_status(HF_OK, store_put(store, &call), &call.error);
    return call.etag;
}

void assert_holds(struct store *store, const char *key, struct view body)
{
    struct buffer got = BUFFER_INIT(MIB);
    struct get_call call = { .key = view_of(key), .body = &got };
    assert_status(HF_OK, store_get(store, &call), &call.error);
    assert_true(view_equal(buffer_view(&got), body));
    buffer_release(&got);
}

enum hf_status get_status(struct store *store, const char *key, struct hf_error *ret_error)
{
    struct buffer got = BUFFER_INIT(MIB);
    struct get_call call = { .key = view_of(key), .body = &got };
    enum hf_status status = store_get(store, &call);
    buffer_release(&got);
    *ret_error = call.error;
    return status;
}

size_t count_files(const char *name)
{
    DIR *walk = opendir(in_dir(name));
    assert_non_null(walk);
    size_t count = 0;
    const struct dirent *entry;
    while ((entry = readdir(walk)))
        count += entry->d_name[0] != '.';
    closedir(walk);
    return count;
}

void write_file(const char *name, const void *bytes, size_t size)
{
    FILE *file = fopen(in_dir(name), "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

size_t read_whole(const char *name, char *bytes, size_t size)
{
    FILE *file = fopen(in_dir(name), "r");
    assert_non_null(file);
    size_t got = fread(bytes, 1, size, file);
    fclose(file);
    return got;
}

void run_sql(const char *name, const char *sql)
{
    sqlite3 *handle;
    assert_int_equal(sqlite3_open(in_dir(name), &handle), SQLITE_OK);
    assert_int_equal(sqlite3_exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(handle);
}

int in_child(int (*run)(void))
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("CMOCKA_TEST_ABORT", "1", 1);
        _exit(run());
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Runs each in a folder of its own. */
int sqlite_steps_run(const struct CMUnitTest *tests, size_t count)
{
    struct CMUnitTest *rows = calloc(count, sizeof *rows);
    assert_non_null(rows);
    for (size_t i = 0; i < count; i++) {
        rows[i] = tests[i];
        rows[i].setup_func = make_dir;
        rows[i].teardown_func = remove_dir;
    }
    int failed = _cmocka_run_group_tests("sqlite", rows, count, NULL, NULL);
    free(rows);
    return failed;
}
