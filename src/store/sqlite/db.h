/* db.h: one connection to the database of an sqlite store: how the file is recognised
 * and laid out, its prepared statements, and what SQLite's result codes mean to us.
 *
 * A connection is used by one task at a time. SQLite is never asked to wait: it would sleep by
 * itself, past env. It answers BUSY, and whoever asked waits with a `patience`, outside any
 * transaction. */
#ifndef STORE_SQLITE_DB_H
#define STORE_SQLITE_DB_H

#include "store/sqlite/files.h"
#include "store/store.h"

#include <limits.h>
#include <sqlite3.h>

#define STORE_ID_DIGITS 16

/* What all connections of one open store share. Never changes once it is open. */
struct sqlite_database {
    struct env *env;
    char path[PATH_MAX]; /* absolute, without symbolic links, so that all who open it agree */
    bool durable;
    bool writable;
    char id[STORE_ID_DIGITS + 1]; /* drawn when the store was created */
};

enum sqlite_statement {
    SQL_BEGIN_WRITE,
    SQL_COMMIT,
    SQL_ROLLBACK,
    SQL_LOOKUP, /* key: the row without its body */
    SQL_FETCH,  /* key, ETag: the row, with its body unless it has that ETag */
    SQL_SEEK,   /* key: rows from there on, with their keys */
    SQL_SEEK_BEYOND,
    SQL_NAMED, /* file: is there a row that names it? */
    SQL_INSERT,
    SQL_UPDATE,
    SQL_SWAP, /* key, ETag: an update of a row without a file, if it still has that ETag */
    SQL_DELETE,
    SQL_COUNT
};

struct sqlite_connection {
    sqlite3 *handle;
    sqlite3_stmt *statements[SQL_COUNT];
};

/* Opens the store's first connection, the one that writes: checks the file, creates what is
 * missing, fills in the rest of `database`, whose env, path and durable are set. */
enum hf_status sqlite_database_open(struct sqlite_database *database,
                                    struct sqlite_connection *ret_writer,
                                    struct hf_error *error);

enum hf_status sqlite_connection_open(const struct sqlite_database *database,
                                      struct sqlite_connection *ret_connection,
                                      struct hf_error *error);
void sqlite_connection_close(struct sqlite_connection *connection);

/* Runs a statement that gives no rows and has its parameters bound. SQLITE_OK or why not. */
int sqlite_run(struct sqlite_connection *connection, enum sqlite_statement which);

/* SQLite's number for what others have committed: that of another connection says nothing. False
 * when it cannot be told at this moment. */
bool sqlite_data_version(struct sqlite_connection *connection, uint64_t *ret_version);

/* Ends a statement that gave a row: the views into it die, and its read transaction ends. */
void sqlite_reset(struct sqlite_connection *connection, enum sqlite_statement which);

void sqlite_bind_view(sqlite3_stmt *statement, int parameter, struct view bytes);

/* Status and sentence for a result code. */
enum hf_status sqlite_error(struct hf_error *error, sqlite3 *handle, int code,
                            const char *what);

/* Somebody else has the lock that was wanted: the same may work a little later. */
bool sqlite_is_busy(int code);

/* A row of the table of objects. */
struct sqlite_row {
    int64_t id;
    struct object_info info;
    char file[LARGE_NAME_SIZE]; /* empty: the body stands in the row */
};

/* Reads what every statement that gives rows starts with. CORRUPT if it makes no sense. */
enum hf_status sqlite_row_read(sqlite3_stmt *statement, struct sqlite_row *ret_row,
                               struct hf_error *error);

/* The column behind those: the body, or for SQL_SEEK the key. Dies with the next step. */
struct view sqlite_row_last(sqlite3_stmt *statement);

/* Waiting for somebody else's lock: short at first, longer later, never in step with others. */
struct patience {
    struct env *env;
    struct mono_time deadline;
    struct span pause;
};

struct patience patience_until(struct env *env, struct mono_time deadline);

/* Sleeps; false, at once, when the time is over. */
bool patience_wait(struct patience *patience);

#endif
