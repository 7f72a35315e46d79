/* SPDX-License-Identifier: Apache-2.0 */
/* db.c: opens the database of an sqlite store: recognises the file, creates the tables, prepares
 * the statements, and maps SQLite's result codes to ours. It refuses a database that belongs to
 * another program. */
#include "store/sqlite/db.h"

#include "base/check.h"
#include "base/no_space.h"
#include "base/parse.h"
#include "store/sqlite/log_file.h"
#include "store/toolkit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* "HOLD" in the header of the file. `file` and other tools recognise the file by it. */
#define APPLICATION_ID 0x484f4c44
#define LAYOUT_VERSION 1

#define TEXT_OF_(number) #number
#define TEXT_OF(number)  TEXT_OF_(number)

/* The body comes last, so the small columns of a row can be read without reading the body. The key
 * has its own index: a row of up to a page stays in one page, and a new body leaves the index
 * unchanged. */
#define LAYOUT_SQL                                                                       \
    "CREATE TABLE objects ("                                                             \
    " id INTEGER PRIMARY KEY,"                                                           \
    " key BLOB NOT NULL UNIQUE,"                                                         \
    " etag BLOB NOT NULL,"                                                               \
    " modified INTEGER NOT NULL,"                                                        \
    " size INTEGER NOT NULL,"                                                            \
    " file TEXT,"                                                                        \
    " body BLOB);"                                                                       \
    "CREATE UNIQUE INDEX objects_file ON objects (file) WHERE file IS NOT NULL;"         \
    "CREATE TABLE store (id TEXT NOT NULL);"                                             \
    "INSERT INTO store VALUES ('%s');"                                                   \
    "PRAGMA application_id = " TEXT_OF(APPLICATION_ID) ";"                               \
                                                       "PRAGMA user_version = " TEXT_OF( \
                                                           LAYOUT_VERSION) ";"

#define ROW_COLUMNS "id, etag, modified, size, file"

static const char *const statement_texts[SQL_COUNT] = {
    [SQL_BEGIN_WRITE] = "BEGIN IMMEDIATE",
    [SQL_COMMIT] = "COMMIT",
    [SQL_ROLLBACK] = "ROLLBACK",
    [SQL_BEGIN_TOGETHER] = "SAVEPOINT together",
    [SQL_BACK_TOGETHER] = "ROLLBACK TO together",
    [SQL_END_TOGETHER] = "RELEASE together",
    [SQL_LOOKUP] = "SELECT " ROW_COLUMNS " FROM objects WHERE key = ?1",
    [SQL_FETCH] = "SELECT " ROW_COLUMNS ", CASE WHEN etag = ?2 THEN NULL ELSE body END"
                  " FROM objects WHERE key = ?1",
    [SQL_SEEK] = "SELECT " ROW_COLUMNS ", key FROM objects WHERE key >= ?1 ORDER BY key",
    [SQL_SEEK_BEYOND] = "SELECT " ROW_COLUMNS ", key FROM objects WHERE key > ?1 ORDER BY key",
    [SQL_NAMED] = "SELECT 1 FROM objects WHERE file = ?1",
    [SQL_INSERT] = "INSERT INTO objects (key, etag, modified, size, file, body)"
                   " VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    [SQL_UPDATE] =
        "UPDATE objects SET etag = ?2, modified = ?3, size = ?4, file = ?5, body = ?6"
        " WHERE id = ?1",
    [SQL_SWAP] = "UPDATE objects SET etag = ?2, modified = ?3, size = ?4, body = ?6"
                 " WHERE key = ?1 AND etag = ?5 AND file IS NULL",
    [SQL_DELETE] = "DELETE FROM objects WHERE id = ?1",
    /* SQLite writes no page for an UPDATE that changes nothing. */
    [SQL_REWRITE] = "PRAGMA application_id = " TEXT_OF(APPLICATION_ID),
};

/* ---- Result codes -------------------------------------------------------------------- */

bool sqlite_is_busy(int code)
{
    int primary = code & 0xff;
    return primary == SQLITE_BUSY || primary == SQLITE_LOCKED || primary == SQLITE_PROTOCOL;
}

/* A failed system call is UNAVAILABLE (or DENIED), regardless of its errno: NOT_FOUND would refer
 * to an object, and INVALID to the request. */
static enum hf_status system_error(struct hf_error *error, sqlite3 *handle, int code,
                                   const char *what)
{
    int number = sqlite3_system_errno(handle);
    enum hf_status status =
        number ? error_from_errno(error, number, what)
               : error_set(error, HF_UNAVAILABLE, "cannot %s: %s", what, sqlite3_errstr(code));
    if (status != HF_DENIED)
        error->status = HF_UNAVAILABLE;
    return error->status;
}

enum hf_status sqlite_error(struct hf_error *error, sqlite3 *handle, int code, const char *what)
{
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
        return error_set(error, HF_UNAVAILABLE, "cannot %s: the database is busy", what);
    case SQLITE_FULL: {
        const char *file = handle ? sqlite3_db_filename(handle, "main") : NULL;
        return error_set(error, HF_UNAVAILABLE, "cannot %s: " NO_SPACE_TEXT " of '%.100s'",
                         what, file && file[0] ? file : "the database");
    }
    case SQLITE_NOMEM: return error_no_memory(error);
    case SQLITE_CORRUPT:
        return error_set(error, HF_CORRUPT, "cannot %s: the database is damaged", what);
    case SQLITE_NOTADB:
        return error_set(error, HF_CORRUPT, "cannot %s: the file is not an SQLite database",
                         what);
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return error_set(error, HF_DENIED, "cannot %s: the database cannot be written to",
                         what);
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR: return system_error(error, handle, code, what);
    default:
        return error_set(error, HF_UNAVAILABLE, "cannot %s: %s", what, sqlite3_errstr(code));
    }
}

/* ---- Statements ---------------------------------------------------------------------- */

int sqlite_prepare(struct sqlite_connection *connection, enum sqlite_statement which)
{
    sqlite3_stmt **statement = &connection->statements[which];
    if (*statement)
        return SQLITE_OK;
    return sqlite3_prepare_v3(connection->handle, statement_texts[which], -1,
                              SQLITE_PREPARE_PERSISTENT, statement, NULL);
}

int sqlite_run(struct sqlite_connection *connection, enum sqlite_statement which)
{
    int code = sqlite_prepare(connection, which);
    if (code != SQLITE_OK)
        return code;
    code = sqlite3_step(connection->statements[which]);
    check(code != SQLITE_ROW);
    sqlite3_reset(connection->statements[which]);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

void sqlite_reset(struct sqlite_connection *connection, enum sqlite_statement which)
{
    sqlite3_reset(connection->statements[which]);
}

/* The bytes must stay valid until the statement is reset. An empty view is bound as an empty
 * value, not as NULL. Binding can fail only for a parameter that does not exist. */
void sqlite_bind_view(sqlite3_stmt *statement, int parameter, struct view bytes)
{
    const char *data = bytes.size > 0 ? bytes.data : "";
    check(sqlite3_bind_blob64(statement, parameter, data, bytes.size, SQLITE_STATIC) ==
          SQLITE_OK);
}

int sqlite_lookup(struct sqlite_connection *connection, struct view key)
{
    int code = sqlite_prepare(connection, SQL_LOOKUP);
    if (code != SQLITE_OK)
        return code;
    sqlite_bind_view(connection->statements[SQL_LOOKUP], 1, key);
    return sqlite3_step(connection->statements[SQL_LOOKUP]);
}

static struct view column_view(sqlite3_stmt *statement, int column)
{
    const char *data = sqlite3_column_blob(statement, column);
    int size = sqlite3_column_bytes(statement, column);
    return (struct view){ data ? data : "", data ? (size_t)size : 0 };
}

enum hf_status sqlite_row_read(sqlite3_stmt *statement, struct sqlite_row *ret_row,
                               struct hf_error *error)
{
    struct view file = column_view(statement, 4);
    int64_t size = sqlite3_column_int64(statement, 3);
    *ret_row = (struct sqlite_row){
        .id = sqlite3_column_int64(statement, 0),
        .info = { .size = (uint64_t)size, .modified = { sqlite3_column_int64(statement, 2) } },
    };
    if (!etag_set(&ret_row->info.etag, column_view(statement, 1)) || size < 0 ||
        (file.size > 0 && !large_name_is_good(file)))
        return error_set(error, HF_CORRUPT, "a row of the database is not valid");
    memcpy(ret_row->file, file.data, file.size);
    return HF_OK;
}

struct view sqlite_row_last(sqlite3_stmt *statement)
{
    return column_view(statement, 5);
}

/* ---- Recognising the file ------------------------------------------------------------ */

enum file_kind { FILE_OURS, FILE_NEW, FILE_FOREIGN, FILE_NEWER };

static int run_text(sqlite3 *handle, const char *sql)
{
    return sqlite3_exec(handle, sql, NULL, NULL, NULL);
}

/* Prepares a query of one number and reads it. The query is not ended: until the caller finalizes
 * it, what it has read cannot change for this connection. */
static int begin_query(sqlite3 *handle, const char *sql, sqlite3_stmt **ret_query,
                       int64_t *ret_number)
{
    int code = sqlite3_prepare_v2(handle, sql, -1, ret_query, NULL);
    if (code != SQLITE_OK)
        return code;
    code = sqlite3_step(*ret_query);
    if (code == SQLITE_ROW) {
        *ret_number = sqlite3_column_int64(*ret_query, 0);
        code = SQLITE_OK;
    }
    return code;
}

static int query_number(sqlite3 *handle, const char *sql, int64_t *ret_number)
{
    sqlite3_stmt *query = NULL;
    int code = begin_query(handle, sql, &query, ret_number);
    sqlite3_finalize(query);
    return code;
}

bool sqlite_data_version(struct sqlite_connection *connection, uint64_t *ret_version)
{
    int64_t version = 0;
    if (query_number(connection->handle, "PRAGMA data_version", &version) != SQLITE_OK)
        return false;
    *ret_version = (uint64_t)version;
    return true;
}

/* The values must be read in one transaction, because another process may be creating the tables.
 * The first query, which is ended last, keeps it open. Only a file without an application is new,
 * and only if it has no tables either. */
static int identify_file(sqlite3 *handle, enum file_kind *ret_kind)
{
    int64_t tables = 0;
    int64_t application = 0;
    int64_t version = 0;
    sqlite3_stmt *first = NULL;
    int code = begin_query(handle, "PRAGMA application_id", &first, &application);
    if (code == SQLITE_OK)
        code = query_number(handle, "PRAGMA user_version", &version);
    if (code == SQLITE_OK && application == 0 && version == 0)
        code = query_number(handle, "SELECT count(*) FROM sqlite_schema", &tables);
    sqlite3_finalize(first);
    *ret_kind = tables == 0 && application == 0 && version == 0 ? FILE_NEW
                : application != APPLICATION_ID                 ? FILE_FOREIGN
                : version == LAYOUT_VERSION                     ? FILE_OURS
                                                                : FILE_NEWER;
    return code;
}

/* ---- Creating the layout ------------------------------------------------------------- */

static int column_is_wal(void *argument, int count, char **values, char **names)
{
    (void)names;
    *(bool *)argument = count == 1 && values[0] && sqlite3_stricmp(values[0], "wal") == 0;
    return 0;
}

static int switch_to_wal(sqlite3 *handle)
{
    bool done = false;
    int code = sqlite3_exec(handle, "PRAGMA journal_mode = WAL", column_is_wal, &done, NULL);
    return code == SQLITE_OK && !done ? SQLITE_NOLFS : code;
}

/* Several processes may find a new file at the same time. The first to get the write lock
 * creates the tables, and the others find them. */
static int create_layout(sqlite3 *handle, const char *store_id)
{
    char sql[sizeof LAYOUT_SQL + STORE_ID_DIGITS];
    snprintf(sql, sizeof sql, LAYOUT_SQL, store_id);
    enum file_kind kind;
    int code = run_text(handle, "BEGIN IMMEDIATE");
    if (code != SQLITE_OK)
        return code;
    code = identify_file(handle, &kind);
    if (code == SQLITE_OK && kind == FILE_NEW)
        code = run_text(handle, sql);
    if (code == SQLITE_OK)
        code = run_text(handle, "COMMIT");
    if (!sqlite3_get_autocommit(handle))
        run_text(handle, "ROLLBACK");
    return code;
}

/* Opens the first connection, as far as another process can delay it. The caller
 * retries while the database is busy. */
static int prepare_file(struct sqlite_database *database, sqlite3 *handle,
                        enum file_kind *ret_kind)
{
    int code = identify_file(handle, ret_kind);
    if (code != SQLITE_OK || *ret_kind == FILE_FOREIGN || *ret_kind == FILE_NEWER)
        return code;
    database->writable = sqlite3_db_readonly(handle, "main") == 0;
    if (!database->writable)
        return SQLITE_OK;
    if (*ret_kind == FILE_NEW)
        code = run_text(handle, "PRAGMA auto_vacuum = NONE");
    if (code == SQLITE_OK && !log_file_is_open(handle)) /* identify_file has opened a log */
        code = switch_to_wal(handle);
    if (code == SQLITE_OK && *ret_kind == FILE_NEW) {
        code = create_layout(handle, database->id);
        if (code == SQLITE_OK)
            code = identify_file(handle, ret_kind);
    }
    return code;
}

static enum hf_status read_store_id(struct sqlite_database *database, sqlite3 *handle,
                                    struct hf_error *error)
{
    sqlite3_stmt *statement;
    int code = sqlite3_prepare_v2(handle, "SELECT id FROM store", -1, &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    struct view id = code == SQLITE_ROW ? column_view(statement, 0) : VIEW("");
    bool good = id.size == STORE_ID_DIGITS;
    for (size_t i = 0; i < id.size; i++)
        good = good && hex_digit(id.data[i]) >= 0;
    if (good)
        memcpy(database->id, id.data, id.size);
    sqlite3_finalize(statement);
    if (good)
        return HF_OK;
    if (code == SQLITE_ROW || code == SQLITE_DONE || code == SQLITE_ERROR)
        return error_set(error, HF_CORRUPT,
                         "the database does not contain the id of the store");
    return sqlite_error(error, handle, code, "read the id of the store");
}

/* ---- Connections --------------------------------------------------------------------- */

/* The path is absolute, so SQLite cannot mistake it for a URI or for ":memory:". */
static enum hf_status open_sqlite_handle(const struct sqlite_database *database, int flags,
                                         sqlite3 **ret_handle, struct hf_error *error)
{
    sqlite3 *handle = NULL;
    check(database->path[0] == '/');
    int code = sqlite3_open_v2(database->path, &handle,
                               flags | SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
                                   SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE,
                               sqlite_log_vfs(&database->log));
    if (code != SQLITE_OK) {
        enum hf_status status = handle ? sqlite_error(error, handle, code, "open the database")
                                       : error_no_memory(error);
        sqlite3_close(handle);
        return status;
    }
    *ret_handle = handle;
    return HF_OK;
}

/* Whether SQLite syncs each commit unless it is told otherwise. To ask is cheaper than to tell. */
static bool syncs_by_default(void)
{
    return sqlite3_compileoption_used("DEFAULT_SYNCHRONOUS=2") &&
           sqlite3_compileoption_used("DEFAULT_WAL_SYNCHRONOUS=2");
}

/* group.c runs the checkpoints. Some builds of SQLite overwrite deleted data by default, which
 * would double the writes. */
static int set_up_handle(const struct sqlite_database *database, sqlite3 *handle)
{
    /* No checkpoint when the last connection is closed: it takes less time to read a short WAL at
     * the next open than to remove it. (group.c checkpoints a long one.) */
    sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)NULL);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, (int *)NULL);
    sqlite3_wal_autocheckpoint(handle, 0);
    int code = run_text(handle, "PRAGMA secure_delete = OFF");
    if (code != SQLITE_OK || (database->durable && syncs_by_default()))
        return code;
    return run_text(handle, database->durable ? "PRAGMA synchronous = FULL"
                                              : "PRAGMA synchronous = OFF");
}

void sqlite_connection_close(struct sqlite_connection *connection)
{
    for (int i = 0; i < SQL_COUNT; i++)
        sqlite3_finalize(connection->statements[i]);
    check(sqlite3_close(connection->handle) == SQLITE_OK);
    *connection = (struct sqlite_connection){ 0 };
}

static enum hf_status finish_connection(const struct sqlite_database *database,
                                        struct sqlite_connection *connection,
                                        struct mono_time deadline, struct hf_error *error)
{
    struct patience patience = patience_until(database->env, deadline, SQLITE_PAUSE_MAX);
    int code;
    do {
        code = set_up_handle(database, connection->handle);
        if (code ==
            SQLITE_OK) /* it names every column, so it shows whether the layout is ours */
            code = sqlite_prepare(connection, SQL_FETCH);
    } while (sqlite_is_busy(code) && patience_wait(&patience));
    if (code == SQLITE_OK)
        return HF_OK;
    if ((code & 0xff) == SQLITE_ERROR)
        return error_set(error, HF_CORRUPT,
                         "the tables of the database differ from the expected layout");
    return sqlite_error(error, connection->handle, code, "open the database");
}

enum hf_status sqlite_connection_open(const struct sqlite_database *database,
                                      struct mono_time deadline,
                                      struct sqlite_connection *ret_connection,
                                      struct hf_error *error)
{
    struct sqlite_connection connection = { 0 };
    if (open_sqlite_handle(database, 0, &connection.handle, error) != HF_OK)
        return error->status;
    if (finish_connection(database, &connection, deadline, error) != HF_OK) {
        sqlite_connection_close(&connection);
        return error->status;
    }
    *ret_connection = connection;
    return HF_OK;
}

/* Creates an empty file, which SQLite accepts as a new database. SQLite itself would create a file
 * that only its owner can write to, whatever the umask, and does not report why it cannot create
 * it. If another process, or a link, is there by now, SQLite opens that. */
static enum hf_status create_database_file(const char *path, struct hf_error *error)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno != EEXIST)
        return error_from_errno(error, errno, "create the file");
    if (fd >= 0)
        close(fd);
    return HF_OK;
}

static enum hf_status check_database_path(const struct sqlite_database *database,
                                          struct hf_error *error)
{
    struct stat st;
    if (stat(database->path, &st) != 0)
        return create_database_file(database->path, error);
    if (S_ISDIR(st.st_mode))
        return error_set(error, HF_INVALID, "it is a folder; name a file in it");
    if (!S_ISREG(st.st_mode))
        return error_set(error, HF_INVALID, "it is not a regular file");
    return HF_OK;
}

static enum hf_status open_first(struct sqlite_database *database,
                                 struct sqlite_connection *connection, struct hf_error *error)
{
    /* Used if this process creates the store. */
    env_random_hex(database->env, STORE_ID_DIGITS, database->id);
    if (open_sqlite_handle(database, SQLITE_OPEN_CREATE, &connection->handle, error) != HF_OK)
        return error->status;
    struct mono_time deadline = mono_add(env_now(database->env), SPAN_MS(STORE_TIMEOUT_MS));
    struct patience patience = patience_until(database->env, deadline, SQLITE_PAUSE_MAX);
    enum file_kind kind = FILE_NEW;
    int code;
    do
        code = prepare_file(database, connection->handle, &kind);
    while (sqlite_is_busy(code) && patience_wait(&patience));
    if (code == SQLITE_NOLFS)
        return error_set(
            error, HF_UNSUPPORTED,
            "its file system does not support shared memory, which SQLite's WAL needs");
    if ((code & 0xff) == SQLITE_CANTOPEN && sqlite3_db_readonly(connection->handle, "main"))
        return error_set(
            error, HF_DENIED,
            "it is read-only, and SQLite can read such a file only while a process that "
            "may write to it has it open");
    if ((code & 0xff) == SQLITE_NOTADB)
        return error_set(error, HF_CORRUPT,
                         "the file is not an SQLite database, and was not changed; check the "
                         "path in the URL");
    if (code != SQLITE_OK)
        return sqlite_error(error, connection->handle, code, "read the database");
    if (kind == FILE_FOREIGN)
        return error_set(error, HF_INVALID, "the database belongs to another program");
    if (kind == FILE_NEWER)
        return error_set(error, HF_UNSUPPORTED,
                         "the database was written by a newer version of holdfast");
    if (kind == FILE_NEW)
        return error_set(error, HF_DENIED, "it is empty and cannot be written to");
    if (read_store_id(database, connection->handle, error) != HF_OK)
        return error->status;
    const char *real = sqlite3_db_filename(connection->handle, "main");
    check(real && real[0] == '/' && strlen(real) < sizeof database->path);
    memmove(database->path, real, strlen(real) + 1);
    return finish_connection(database, connection, deadline, error);
}

enum hf_status sqlite_database_open(struct sqlite_database *database,
                                    struct sqlite_connection *ret_writer,
                                    struct hf_error *error)
{
    struct sqlite_connection connection = { 0 };
    if (check_database_path(database, error) != HF_OK)
        return error->status;
    if (open_first(database, &connection, error) != HF_OK) {
        sqlite_connection_close(&connection);
        return error->status;
    }
    *ret_writer = connection;
    return HF_OK;
}
