/* SPDX-License-Identifier: Apache-2.0 */
/* sqlite_steps.h: the steps that the tests of the sqlite store share. */
#ifndef TESTS_SQLITE_STEPS_H
#define TESTS_SQLITE_STEPS_H

#include "store/store.h"
#include "test.h"

#define LARGE (SQLITE_INLINE_MAX + 1)

extern char *dir;           /* a new folder for each test */
extern char big[4 * LARGE]; /* full of 'b' when a test starts */

/* The path of a name in the folder; good for one more call. */
const char *in_dir(const char *name);

enum hf_status try_open(const char *name, struct store **ret_store, struct hf_error *error);
struct store *open_store(const char *name);
struct etag put_text(struct store *store, const char *key, struct view body);
void assert_holds(struct store *store, const char *key, struct view body);
enum hf_status get_status(struct store *store, const char *key, struct hf_error *ret_error);
size_t count_files(const char *name);
void write_file(const char *name, const void *bytes, size_t size);
size_t read_whole(const char *name, char *bytes, size_t size);
void run_sql(const char *name, const char *sql);

/* Runs in a child; what the child returns is its exit status. An assertion that fails there
 * aborts the child. */
int in_child(int (*run)(void));

int sqlite_steps_run(const struct CMUnitTest *tests, size_t count);

#endif
