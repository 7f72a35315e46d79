/* SPDX-License-Identifier: Apache-2.0 */
/* db.h: one connection to the database of an sqlite store: recognising and creating the file,
 * prepared statements, and the meaning of SQLite's result codes.
 *
 * A connection is used by one task at a time. SQLite itself never waits for a lock, because its
 * sleep would bypass env. It returns BUSY, and the caller waits with a `patience`, outside any
 * transaction. */
#ifndef STORE_SQLITE_DB_H
#define STORE_SQLITE_DB_H

#include "store/sqlite/files.h"
#include "store/sqlite/log.h"
#include "store/store.h"

#include <limits.h>
#include <sqlite3.h>

#define STORE_ID_DIGITS 16

/* Shared by all connections of one open store. Once the store is open, only `log` changes. */
struct sqlite_database {
    struct env *env;
    char path[PATH_MAX]; /* absolute, without symbolic links: the same in all processes */
    bool durable;
    bool writable;
    char id[STORE_ID_DIGITS + 1]; /* random, chosen when the store was created */
    struct sqlite_log log;
};

enum sqlite_statement {
    SQL_BEGIN_WRITE,
    SQL_COMMIT,
    SQL_ROLLBACK,
    SQL_BEGIN_TOGETHER, /* the writes from here on take place together ... */
    SQL_BACK_TOGETHER,  /* ... or are undone; in both cases follows: */
    SQL_END_TOGETHER,
    SQL_LOOKUP, /* key: the row without its body */
    SQL_FETCH,  /* key, ETag: the row, with its body unless it has that ETag */
    SQL_SEEK,   /* key: rows from that key on, with their keys */
    SQL_SEEK_BEYOND,
    SQL_NAMED, /* file: whether a row names it */
    SQL_INSERT,
    SQL_UPDATE,
    SQL_SWAP, /* key, ETag: updates a row without a file if it still has that ETag */
    SQL_DELETE,
    SQL_REWRITE, /* writes a page as it is */
    SQL_COUNT
};

/* A statement is prepared when it is first needed, because a short-lived program needs few of them.
 * SQL_FETCH is prepared as soon as the connection is open. */
struct sqlite_connection {
    sqlite3 *handle;
    sqlite3_stmt *statements[SQL_COUNT];
};

/* Opens the store's first connection, the one that writes. Checks the file, creates missing tables,
 * and completes `database`, in which the caller has set env, path, durable and log. */
enum hf_status sqlite_database_open(struct sqlite_database *database,
                                    struct sqlite_connection *ret_writer,
                                    struct hf_error *error);

/* Waits until the deadline while another connection locks the whole database. */
enum hf_status sqlite_connection_open(const struct sqlite_database *database,
                                      struct mono_time deadline,
                                      struct sqlite_connection *ret_connection,
                                      struct hf_error *error);
void sqlite_connection_close(struct sqlite_connection *connection);

/* Prepares a statement, unless that has been done. Returns SQLITE_OK or an error code. */
int sqlite_prepare(struct sqlite_connection *connection, enum sqlite_statement which);

/* Runs a statement that returns no rows and whose parameters are bound, and prepares it if it has
 * none. Returns SQLITE_OK or an error code. */
int sqlite_run(struct sqlite_connection *connection, enum sqlite_statement which);

/* Runs SQL_LOOKUP: SQLITE_ROW, SQLITE_DONE, or an error code. sqlite_reset must follow. */
int sqlite_lookup(struct sqlite_connection *connection, struct view key);

/* SQLite's data_version, which changes when another connection commits. Values from different
 * connections cannot be compared. Returns false if it cannot be read now. */
bool sqlite_data_version(struct sqlite_connection *connection, uint64_t *ret_version);

/* Ends a statement that returned a row: views into the row become invalid, and its read
 * transaction ends. */
void sqlite_reset(struct sqlite_connection *connection, enum sqlite_statement which);

void sqlite_bind_view(sqlite3_stmt *statement, int parameter, struct view bytes);

/* The status and the error message for a result code. */
enum hf_status sqlite_error(struct hf_error *error, sqlite3 *handle, int code,
                            const char *what);

/* Whether the code means that another connection holds a lock, so that a retry may succeed. */
bool sqlite_is_busy(int code);

/* A row of the table of objects. */
struct sqlite_row {
    int64_t id;
    struct object_info info;
    char file[LARGE_NAME_SIZE]; /* empty: the body is in the row */
};

/* Reads the columns that every statement with rows starts with. CORRUPT if they are not valid. */
enum hf_status sqlite_row_read(sqlite3_stmt *statement, struct sqlite_row *ret_row,
                               struct hf_error *error);

/* The column after those: the body, or the key for SQL_SEEK. Valid until the next step. */
struct view sqlite_row_last(sqlite3_stmt *statement);

/* The longest pause of a `patience`. */
#define SQLITE_PAUSE_MAX SPAN_MS(2)

#endif
