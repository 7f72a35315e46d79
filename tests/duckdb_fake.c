/* SPDX-License-Identifier: Apache-2.0 */
/* duckdb_fake.c: DuckDB's library with a query function that does what real libraries do on bad
 * days. parquet_test.py compiles it and links it with the real library, whose path is REAL; all
 * other functions are the real ones.
 *
 * A query that names a file with one of these marks in its bytes crashes, hangs, takes memory
 * without end, or ends the process; `late` crashes after it has written the output. On the mark
 * `escape`, the queries in the file ESCAPES are
 * run first, on the same connection, and ESCAPES.out tells which of them succeeded. With
 * LACKS_PARQUET, it cannot read Parquet. */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MARK     "holdfast-test-"
#define FD_PLACE "/proc/self/fd/"

typedef struct {
    unsigned long long counts[3];
    void *pointers[3];
} result;

typedef int query_function(void *connection, const char *sql, result *out);

static void *real(const char *name)
{
    return dlsym(dlopen(REAL, RTLD_NOW), name);
}

static void try_to_escape(void *connection)
{
    query_function *query = (query_function *)real("duckdb_query");
    void (*destroy)(result *) = (void (*)(result *))real("duckdb_destroy_result");
    FILE *in = fopen(ESCAPES, "r"), *out = fopen(ESCAPES ".out", "w");
    char line[4096];
    while (in && out && fgets(line, sizeof line, in)) {
        result answer = { { 0 }, { 0 } };
        int failed = query(connection, line, &answer);
        fprintf(out, "%s %s", failed ? "refused" : "escaped", line);
        destroy(&answer);
    }
    fclose(in);
    fclose(out);
}

static void eat_memory(void)
{
    for (;;) {
        char *bytes = malloc(1 << 24);
        if (!bytes)
            abort();
        memset(bytes, 1, 1 << 24);
    }
}

/* The word after the mark in a file. */
static void find_mark(const char *path, char word[16])
{
    static char bytes[1 << 20];
    int fd = open(path, O_RDONLY);
    ssize_t size = fd < 0 ? 0 : pread(fd, bytes, sizeof bytes, 0);
    char *at = size > 0 ? memmem(bytes, (size_t)size, MARK, strlen(MARK)) : NULL;
    word[0] = '\0';
    for (int i = 0; at && i < 15; i++) {
        char c = at[strlen(MARK) + (size_t)i];
        word[i] = c >= 'a' && c <= 'z' ? c : '\0';
        word[i + 1] = '\0';
        if (!word[i])
            break;
    }
    if (fd >= 0)
        close(fd);
}

int duckdb_query(void *connection, const char *sql, result *out);
int duckdb_query(void *connection, const char *sql, result *out)
{
    int is_setting = strncmp(sql, "SET ", 4) == 0, crashes_late = 0;
    for (const char *at = sql; !is_setting && (at = strstr(at, FD_PLACE));
         at += strlen(FD_PLACE)) {
        char path[64], word[16];
        size_t digits = strspn(at + strlen(FD_PLACE), "0123456789");
        snprintf(path, sizeof path, "%.*s", (int)(strlen(FD_PLACE) + digits), at);
        find_mark(path, word);
        if (strcmp(word, "crash") == 0)
            raise(11);
        crashes_late |= strcmp(word, "late") == 0 && strncmp(sql, "COPY ", 5) == 0;
        if (strcmp(word, "hang") == 0)
            for (;;)
                pause();
        if (strcmp(word, "eat") == 0)
            eat_memory();
        if (strcmp(word, "leave") == 0)
            _exit(0);
        if (strcmp(word, "escape") == 0)
            try_to_escape(connection);
    }
    char *copy = strdup(sql);
#ifdef LACKS_PARQUET
    for (char *call = copy; (call = strstr(call, "read_parquet(")); call++)
        call[0] = 'x';
#endif
    int failed = ((query_function *)real("duckdb_query"))(connection, copy, out);
    free(copy);
    if (crashes_late)
        raise(11);
    return failed;
}
