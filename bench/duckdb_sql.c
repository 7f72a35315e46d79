/* SPDX-License-Identifier: Apache-2.0 */
/* duckdb_sql.c: duckdb_sql LIBRARY SQL...: runs statements with DuckDB's library and does nothing
 * else: the plainest program beside which `holdfast merge --format parquet` can be measured. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    unsigned long long counts[3];
    void *pointers[3];
} duck_result;

static void *function(void *library, const char *name)
{
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) {
        fprintf(stderr, "duckdb_sql: %s\n", dlerror());
        exit(1);
    }
    return found;
}

int main(int count, char **words)
{
    void *library = dlopen(count > 1 ? words[1] : "", RTLD_NOW | RTLD_LOCAL);
    void *database = NULL, *connection = NULL;
    int (*open)(const char *, void **);
    int (*connect)(void *, void **);
    int (*query)(void *, const char *, duck_result *);
    const char *(*error_of)(duck_result *);
    *(void **)&open = function(library, "duckdb_open");
    *(void **)&connect = function(library, "duckdb_connect");
    *(void **)&query = function(library, "duckdb_query");
    *(void **)&error_of = function(library, "duckdb_result_error");
    if (open(NULL, &database) != 0 || connect(database, &connection) != 0)
        return 1;
    for (int i = 2; i < count; i++) {
        duck_result result = { { 0 }, { NULL } };
        if (query(connection, words[i], &result) != 0) {
            fprintf(stderr, "duckdb_sql: %s\n", error_of(&result));
            return 1;
        }
    }
    return 0;
}
