/* SPDX-License-Identifier: Apache-2.0 */
/* sqlite.c: the `sqlite:` store, the embedded default: objects as rows of one SQLite file, large
 * ones as files beside it. Safe to share between processes, durable, and never left half-written by
 * a crash.
 *
 * All of a process's writes go through one connection (group.c), and reads through a few others
 * (readers.c). If a row names a file, the row is read first and the file opened after it. If the
 * object was replaced in between, the file is gone and the row is read again. */
#include "base/check.h"
#include "base/parse.h"
#include "store/backends.h"
#include "store/sqlite/db.h"
#include "store/sqlite/group.h"
#include "store/sqlite/readers.h"
#include "store/stream.h"
#include "store/toolkit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Every writer of FILE opens and closes FILE-bell to notify listeners. If that file were a database
 * too, closing it would drop all locks of this process on it. */
#define WRITE_NOTIFY_ENDING "-bell"

/* How many times an object may be replaced between reading its row and opening its file. */
#define VANISHED_MAX 64

struct sqlite_store {
    struct store base;
    struct sqlite_database database;
    struct large_folder folder;
    struct write_notify notify;
    struct sqlite_writer writer;
    pid_t pid; /* SQLite's connections must not be used after a fork */
    struct sqlite_readers readers;
};

static struct sqlite_store *sqlite_of(struct store *store)
{
    return (struct sqlite_store *)store;
}

/* ---- Reading one object -------------------------------------------------------------- */

/* Looks up the object and checks the conditions of the get. If they hold and ret_row->file is
 * empty, the range is in call->body. If ret_row->file contains a name, the range is in that file.
 * Returns SQLITE_OK, or a code that is not in call->error yet. Does not call env while the row is
 * being read. */
static int fetch_row(struct sqlite_connection *reader, struct get_call *call,
                     struct sqlite_row *ret_row, uint64_t *ret_length)
{
    sqlite3_stmt *statement = reader->statements[SQL_FETCH];
    sqlite_bind_view(statement, 1, call->key);
    sqlite_bind_view(statement, 2, etag_view(&call->none_match));
    int code = sqlite3_step(statement);
    if (code == SQLITE_DONE)
        get_check(call, NULL, ret_length);
    else if (code == SQLITE_ROW && sqlite_row_read(statement, ret_row, &call->error) == HF_OK &&
             get_check(call, &ret_row->info, ret_length) == HF_OK && ret_row->file[0] == '\0') {
        struct view body = sqlite_row_last(statement);
        if (body.size != ret_row->info.size)
            error_set(&call->error, HF_CORRUPT,
                      "the object in the database is shorter or longer than recorded");
        else
            get_append(call,
                       view_first(view_from(body, (size_t)call->offset), (size_t)*ret_length));
    }
    sqlite_reset(reader, SQL_FETCH);
    return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code;
}

/* A connection for reading, taken when it is first needed. */
struct row_reader {
    struct sqlite_store *sqlite;
    struct mono_time deadline; /* for the connection */
    struct sqlite_connection connection;
    bool taken;
};

static enum hf_status row_reader_init(struct row_reader *reader, struct sqlite_store *sqlite,
                                      struct mono_time deadline, struct hf_error *error)
{
    *reader = (struct row_reader){ .sqlite = sqlite,
                                   .deadline = local_deadline(sqlite->base.env, deadline) };
    return store_is_forked(sqlite->pid, error) ? error->status : error_clear(error);
}

/* Reads a row with the write connection, if it is lent. After an error, a reader is asked. */
static bool fetch_row_lent(struct sqlite_store *sqlite, struct get_call *call,
                           struct sqlite_row *ret_row, uint64_t *ret_length)
{
    struct sqlite_connection writer;
    if (!sqlite_readers_lend(&sqlite->readers, &writer))
        return false;
    int code = fetch_row(&writer, call, ret_row, ret_length);
    sqlite_writer_take_back(&sqlite->writer);
    return code == SQLITE_OK;
}

/* The same with any connection. Waits while another one briefly locks the whole database. */
static enum hf_status fetch_row_patiently(struct row_reader *rows, struct get_call *call,
                                          struct sqlite_row *ret_row, uint64_t *ret_length)
{
    struct sqlite_store *sqlite = rows->sqlite;
    struct sqlite_connection *reader = &rows->connection;
    if (!rows->taken && fetch_row_lent(sqlite, call, ret_row, ret_length))
        return call->error.status;
    if (!rows->taken &&
        sqlite_reader_take(&sqlite->readers, rows->deadline, reader, &call->error) != HF_OK)
        return call->error.status;
    rows->taken = true;
    int code = fetch_row(reader, call, ret_row, ret_length);
    if (sqlite_is_busy(code)) {
        struct patience patience =
            patience_until(sqlite->base.env, local_deadline(sqlite->base.env, call->deadline),
                           SQLITE_PAUSE_MAX);
        while (sqlite_is_busy(code) && patience_wait(&patience))
            code = fetch_row(reader, call, ret_row, ret_length);
    }
    if (code != SQLITE_OK)
        sqlite_error(&call->error, reader->handle, code, "read the object");
    return call->error.status;
}

/* Finds an object. If *ret_fd is -1 after OK, the range is in call->body. Otherwise the range must
 * be read from *ret_fd, a file that contains the whole object. */
static enum hf_status find_object(struct row_reader *rows, struct get_call *call, int *ret_fd,
                                  uint64_t *ret_length)
{
    struct sqlite_row row;
    *ret_fd = -1;
    for (int i = 0; i < VANISHED_MAX; i++) {
        if (fetch_row_patiently(rows, call, &row, ret_length) != HF_OK || row.file[0] == '\0')
            return call->error.status;
        enum hf_status status =
            large_file_read(&rows->sqlite->folder, row.file, ret_fd, &call->error);
        if (status != HF_NOT_FOUND)
            return status;
    }
    return error_set(&call->error, HF_CORRUPT, "the file of the object is missing: %s",
                     row.file);
}

static enum hf_status check_size(struct get_call *call, int fd)
{
    uint64_t size;
    if (file_size(fd, &size, &call->error) != HF_OK)
        return call->error.status;
    if (size == call->info.size)
        return HF_OK;
    return error_set(&call->error, HF_CORRUPT,
                     "the file of the object has %llu bytes instead of %llu",
                     (unsigned long long)size, (unsigned long long)call->info.size);
}

/* No answer but a provisional one may depend on a commit that is not durable. */
static void settle_gets(struct sqlite_store *sqlite, struct get_call *calls, size_t count)
{
    struct hf_error error;
    size_t first = 0;
    while (first < count && calls[first].provisional)
        first++;
    if (first < count && sqlite_log_settle(&sqlite->database.log, &error) != HF_OK)
        CALLS_FAIL(calls, count, error);
}

static void sqlite_get(struct store *store, struct get_call *calls, size_t count)
{
    struct sqlite_store *sqlite = sqlite_of(store);
    struct row_reader rows;
    struct hf_error error;
    if (row_reader_init(&rows, sqlite, calls[0].deadline, &error) != HF_OK) {
        CALLS_FAIL(calls, count, error);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        int fd;
        uint64_t length;
        if (find_object(&rows, &calls[i], &fd, &length) != HF_OK || fd < 0)
            continue;
        if (check_size(&calls[i], fd) == HF_OK)
            get_append_file(&calls[i], fd, length,
                            "the file of the object is shorter than expected");
        close(fd);
    }
    if (rows.taken)
        sqlite_reader_give_back(&sqlite->readers, &rows.connection);
    settle_gets(sqlite, calls, count);
}

/* Finds an object that the caller wants as a file: in *ret_fd, or, if it is small, with *ret_fd
 * -1 and its bytes in `small`. */
static enum hf_status find_file(struct sqlite_store *sqlite, struct get_call *call,
                                struct buffer *small, int *ret_fd, uint64_t *ret_length)
{
    struct row_reader rows;
    if (row_reader_init(&rows, sqlite, call->deadline, &call->error) != HF_OK)
        return call->error.status;
    struct buffer *asked = call->body;
    call->body = small;
    enum hf_status status = find_object(&rows, call, ret_fd, ret_length);
    call->body = asked;
    if (rows.taken)
        sqlite_reader_give_back(&sqlite->readers, &rows.connection);
    settle_gets(sqlite, call, 1);
    if (call->error.status == status)
        return status;
    if (*ret_fd >= 0)
        close(*ret_fd);
    *ret_fd = -1;
    return call->error.status;
}

static void sqlite_get_file(struct store *store, struct get_call *call, int fd,
                            const struct progress *progress)
{
    struct buffer small = BUFFER_INIT(SQLITE_INLINE_MAX);
    int from = -1;
    uint64_t length = 0;
    enum hf_status status = find_file(sqlite_of(store), call, &small, &from, &length);
    if (status == HF_OK && from >= 0) {
        if (check_size(call, from) == HF_OK)
            file_copy(from, call->offset, length, fd, progress, &call->error);
        close(from);
    } else if (status == HF_OK &&
               file_write_at(fd, buffer_view(&small), 0, &call->error) == HF_OK) {
        progress_step(progress, length, length, &call->error);
    }
    buffer_release(&small);
}

/* Small objects are rows, not files, and cannot be lent. */
static void sqlite_lend_file(struct store *store, struct get_call *call, int *ret_fd)
{
    struct buffer small = BUFFER_INIT(SQLITE_INLINE_MAX);
    int fd = -1;
    uint64_t length = 0;
    enum hf_status status = find_file(sqlite_of(store), call, &small, &fd, &length);
    buffer_release(&small);
    if (status == HF_OK && fd < 0)
        error_set(&call->error, HF_UNSUPPORTED, "the object is too small to be a file");
    else if (status == HF_OK && check_size(call, fd) == HF_OK)
        *ret_fd = fd;
    else if (status == HF_OK)
        close(fd);
}

/* ---- Listing ------------------------------------------------------------------------- */

static bool is_next(const struct list_cursor *cursor, struct view key)
{
    int order = view_compare(key, cursor->from);
    return cursor->beyond ? order > 0 : order >= 0;
}

/* Offers rows from the cursor on, until the cursor jumps ahead or the page ends. Returns SQLITE_ROW
 * if it must be called again, SQLITE_DONE at the end, and otherwise the error code. */
static int list_stretch(struct sqlite_connection *reader, struct list_call *call,
                        struct list_cursor *cursor)
{
    enum sqlite_statement which = cursor->beyond ? SQL_SEEK_BEYOND : SQL_SEEK;
    int code = sqlite_prepare(reader, which);
    if (code != SQLITE_OK)
        return code;
    sqlite3_stmt *statement = reader->statements[which];
    char start[sizeof cursor->space];
    memcpy(start, cursor->from.data, cursor->from.size);
    sqlite_bind_view(statement, 1, (struct view){ start, cursor->from.size });
    bool going = true;
    while (going && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        struct sqlite_row row;
        struct view key = sqlite_row_last(statement);
        if (!is_next(cursor, key))
            break;
        going = sqlite_row_read(statement, &row, &call->error) == HF_OK &&
                list_offer(call, cursor, key, &row.info);
    }
    sqlite_reset(reader, which);
    return going ? code : SQLITE_DONE;
}

static void sqlite_list(struct store *store, struct list_call *call)
{
    struct sqlite_store *sqlite = sqlite_of(store);
    struct sqlite_connection reader;
    struct mono_time deadline = local_deadline(sqlite->base.env, call->deadline);
    if (store_is_forked(sqlite->pid, &call->error) ||
        sqlite_reader_take(&sqlite->readers, deadline, &reader, &call->error) != HF_OK)
        return;
    struct patience patience = patience_until(sqlite->base.env, deadline, SQLITE_PAUSE_MAX);
    struct list_cursor cursor;
    list_start(call, &cursor);
    int code;
    do
        code = list_stretch(&reader, call, &cursor);
    while (code == SQLITE_ROW || (sqlite_is_busy(code) && patience_wait(&patience)));
    if (code != SQLITE_DONE)
        sqlite_error(&call->error, reader.handle, code, "list the objects");
    sqlite_reader_give_back(&sqlite->readers, &reader);
    struct hf_error error;
    if (sqlite_log_settle(&sqlite->database.log, &error) != HF_OK)
        call->error = error;
}

/* ---- Writing ------------------------------------------------------------------------- */

/* A put in progress: the call, and the file that holds a large body. */
struct put {
    struct put_call *call;
    struct large_file file; /* fd -1: no file */
};

static void write_init(struct sqlite_write *write, struct put *put, uint64_t size)
{
    *write = (struct sqlite_write){
        .key = put->call->key,
        .body = put->call->body,
        .size = size,
        .quiet = put->call->quiet,
        .file = put->file.fd >= 0 ? put->file.name : NULL,
        .condition = &put->call->condition,
        .error = &put->call->error,
    };
}

static void put_finish(struct sqlite_store *sqlite, struct put *put,
                       const struct sqlite_write *write)
{
    enum hf_status status = put->call->error.status;
    if (status == HF_OK)
        put->call->etag = write->etag;
    /* After UNSURE the row may still appear and name the file. If it does not, a later sweep
     * removes the file. */
    if (put->file.fd >= 0 && (status == HF_OK || status == HF_UNSURE))
        large_file_keep(&put->file);
    else if (put->file.fd >= 0)
        large_file_drop(&sqlite->folder, &put->file);
    if (status == HF_OK && write->replaced[0] != '\0')
        large_name_remove(&sqlite->folder, write->replaced);
}

/* Writes a body that is too large for a row to a file of its own. */
static enum hf_status put_prepare(struct sqlite_store *sqlite, struct put *put)
{
    struct put_call *call = put->call;
    put->file.fd = -1;
    error_clear(&call->error);
    if (call->body.size <= SQLITE_INLINE_MAX)
        return HF_OK;
    bool given;
    if (large_file_new(&sqlite->folder, /* given */ -1, &put->file, &given, &call->error) ==
            HF_OK &&
        file_write_at(put->file.fd, call->body, 0, &call->error) == HF_OK &&
        large_file_sync(&sqlite->folder, &put->file, &call->error) == HF_OK)
        return HF_OK;
    if (put->file.fd >= 0)
        large_file_drop(&sqlite->folder, &put->file);
    return call->error.status;
}

static void submit_writes(struct sqlite_store *sqlite, struct sqlite_write *writes,
                          size_t count, struct mono_time asked)
{
    struct sqlite_batch batch = {
        .writes = writes,
        .count = count,
        .deadline = local_deadline(sqlite->base.env, asked),
    };
    if (count > 0)
        sqlite_writer_submit(&sqlite->writer, &batch);
}

/* Prepares the puts, moves those that succeeded to the front, and writes them together. */
static void put_batch(struct sqlite_store *sqlite, struct put *puts,
                      struct sqlite_write *writes, struct put_call *calls, size_t count)
{
    size_t ready = 0;
    bool files = false;
    for (size_t i = 0; i < count; i++) {
        struct put *put = &puts[ready];
        put->call = &calls[i];
        if (put_prepare(sqlite, put) == HF_OK) {
            write_init(&writes[ready++], put, calls[i].body.size);
            files = files || put->file.fd >= 0;
        }
    }
    struct hf_error error;
    /* The names of the files must be durable before a row refers to them. */
    bool synced = !files || large_folder_sync(&sqlite->folder, &error) == HF_OK;
    if (synced)
        submit_writes(sqlite, writes, ready, calls[0].deadline);
    for (size_t i = 0; i < ready; i++) {
        if (!synced)
            puts[i].call->error = error;
        put_finish(sqlite, &puts[i], &writes[i]);
    }
}

static void sqlite_put(struct store *store, struct put_call *calls, size_t count)
{
    struct sqlite_store *sqlite = sqlite_of(store);
    struct hf_error error;
    if (store_is_forked(sqlite->pid, &error)) {
        CALLS_FAIL(calls, count, error);
        return;
    }
    struct put one_put;
    struct sqlite_write one_write;
    if (count == 1) {
        put_batch(sqlite, &one_put, &one_write, calls, 1);
        return;
    }
    struct put *puts = calloc(count, sizeof *puts);
    struct sqlite_write *writes = calloc(count, sizeof *writes);
    error_no_memory(&error);
    if (puts && writes)
        put_batch(sqlite, puts, writes, calls, count);
    else
        CALLS_FAIL(calls, count, error);
    free(puts);
    free(writes);
}

/* Checks the condition early, so that gigabytes are not copied for a put that must fail. The commit
 * checks it again. */
static enum hf_status check_put_early(struct sqlite_store *sqlite, struct put_call *call)
{
    if (call->condition.kind == CONDITION_ALWAYS)
        return HF_OK;
    struct sqlite_connection reader;
    if (sqlite_reader_take(&sqlite->readers, local_deadline(sqlite->base.env, call->deadline),
                           &reader, &call->error) != HF_OK)
        return call->error.status;
    int code = sqlite_lookup(&reader, call->key);
    struct sqlite_row row;
    enum hf_status status = error_clear(&call->error);
    if (code == SQLITE_ROW)
        status = sqlite_row_read(reader.statements[SQL_LOOKUP], &row, &call->error);
    if (status == HF_OK && (code == SQLITE_ROW || code == SQLITE_DONE))
        status = condition_check(&call->condition, code == SQLITE_ROW ? &row.info.etag : NULL,
                                 &call->error);
    sqlite_reset(&reader, SQL_LOOKUP);
    sqlite_reader_give_back(&sqlite->readers, &reader);
    struct hf_error error;
    if (status != HF_OK && sqlite_log_settle(&sqlite->database.log, &error) != HF_OK) {
        call->error = error;
        status = error.status;
    }
    return status;
}

static void put_large_file(struct sqlite_store *sqlite, struct put_call *call, int fd,
                           uint64_t size, const struct progress *progress)
{
    struct put put = { .call = call, .file = { .fd = -1 } };
    struct sqlite_write write = { 0 };
    bool given;
    if (check_put_early(sqlite, call) != HF_OK ||
        large_file_new(&sqlite->folder, call->give ? fd : -1, &put.file, &given,
                       &call->error) != HF_OK)
        return;
    if ((given || file_copy(fd, 0, size, put.file.fd, progress, &call->error) == HF_OK) &&
        large_file_sync(&sqlite->folder, &put.file, &call->error) == HF_OK &&
        large_folder_sync(&sqlite->folder, &call->error) == HF_OK) {
        write_init(&write, &put, size);
        submit_writes(sqlite, &write, 1, call->deadline);
    }
    put_finish(sqlite, &put, &write);
}

static void put_small_file(struct sqlite_store *sqlite, struct put_call *call, int fd,
                           uint64_t size, const struct progress *progress)
{
    struct put put = { .call = call, .file = { .fd = -1 } };
    struct sqlite_write write;
    size_t got;
    char *body = malloc(SQLITE_INLINE_MAX);
    if (!body) {
        error_no_memory(&call->error);
        return;
    }
    if (file_read_at(fd, body, (size_t)size, 0, &got, &call->error) == HF_OK &&
        progress_step(progress, got, got, &call->error)) {
        write_init(&write, &put, got);
        write.body = (struct view){ body, got };
        submit_writes(sqlite, &write, 1, call->deadline);
        put_finish(sqlite, &put, &write);
    }
    free(body);
}

static void sqlite_put_file(struct store *store, struct put_call *call, int fd,
                            const struct progress *progress)
{
    struct sqlite_store *sqlite = sqlite_of(store);
    uint64_t size;
    if (store_is_forked(sqlite->pid, &call->error) ||
        file_size(fd, &size, &call->error) != HF_OK)
        return;
    if (size <= SQLITE_INLINE_MAX)
        put_small_file(sqlite, call, fd, size, progress);
    else
        put_large_file(sqlite, call, fd, size, progress);
}

static void remove_batch(struct sqlite_store *sqlite, struct sqlite_write *writes,
                         struct delete_call *calls, size_t count)
{
    for (size_t i = 0; i < count; i++)
        writes[i] = (struct sqlite_write){
            .is_delete = true,
            .key = calls[i].key,
            .condition = &calls[i].condition,
            .error = &calls[i].error,
        };
    submit_writes(sqlite, writes, count, calls[0].deadline);
    for (size_t i = 0; i < count; i++)
        if (calls[i].error.status == HF_OK && writes[i].replaced[0] != '\0')
            large_name_remove(&sqlite->folder, writes[i].replaced);
}

static void sqlite_remove(struct store *store, struct delete_call *calls, size_t count)
{
    struct sqlite_store *sqlite = sqlite_of(store);
    struct hf_error error;
    struct sqlite_write one;
    struct sqlite_write *writes = count == 1 ? &one : calloc(count, sizeof *writes);
    error_no_memory(&error);
    if (writes && !store_is_forked(sqlite->pid, &error))
        remove_batch(sqlite, writes, calls, count);
    else
        CALLS_FAIL(calls, count, error);
    if (writes != &one)
        free(writes);
}

/* ---- Changing in one step ------------------------------------------------------------ */

static void sqlite_change(struct store *store, struct change_call *calls, size_t count,
                          bool together)
{
    struct sqlite_store *sqlite = sqlite_of(store);
    struct sqlite_write writes[EACH_MAX];
    struct hf_error error;
    bool forked = store_is_forked(sqlite->pid, &error);
    if (!forked && !sqlite->database.writable) /* a get may be enough */
        error_set(&error, HF_UNSUPPORTED, "the database cannot be written to");
    if (forked || !sqlite->database.writable) {
        CALLS_FAIL(calls, count, error);
        return;
    }
    for (size_t i = 0; i < count; i++)
        writes[i] = (struct sqlite_write){ .key = calls[i].key,
                                           .change = &calls[i],
                                           .error = &calls[i].error };
    struct sqlite_batch batch = {
        .writes = writes,
        .count = count,
        .together = together && count > 1,
        .deadline = local_deadline(sqlite->base.env, calls[0].deadline),
    };
    sqlite_writer_submit(&sqlite->writer, &batch);
    for (size_t i = 0; i < count; i++)
        if (calls[i].error.status == HF_OK && writes[i].replaced[0] != '\0')
            large_name_remove(&sqlite->folder, writes[i].replaced);
}

/* ---- Changes by others --------------------------------------------------------------- */

/* Uses the write connection, whose data_version does not count our own commits. */
static bool sqlite_peer_changes(struct store *store, uint64_t *ret_mark)
{
    struct sqlite_store *sqlite = sqlite_of(store);
    struct sqlite_connection connection;
    if (store_is_forked(sqlite->pid, /* error */ NULL) ||
        !sqlite_writer_lend(&sqlite->writer, &connection))
        return false;
    bool told = sqlite_data_version(&connection, ret_mark);
    sqlite_writer_take_back(&sqlite->writer);
    return told;
}

/* ---- Opening and closing ------------------------------------------------------------- */

/* A forked child must not touch any SQLite state, so its memory is not freed. */
static void sqlite_close(struct store *store)
{
    struct sqlite_store *sqlite = sqlite_of(store);
    bool forked = getpid() != sqlite->pid;
    if (!forked) {
        sqlite_readers_close_all(&sqlite->readers);
        sqlite_writer_release(&sqlite->writer);
    }
    sqlite_log_release(&sqlite->database.log, forked);
    write_notify_release(&sqlite->notify);
    large_folder_close(&sqlite->folder);
    sqlite_readers_release(&sqlite->readers);
    free(sqlite);
}

static const struct store_ops sqlite_ops = {
    .name = "sqlite",
    .get = sqlite_get,
    .put = sqlite_put,
    .remove = sqlite_remove,
    .list = sqlite_list,
    .get_file = sqlite_get_file,
    .put_file = sqlite_put_file,
    .lend_file = sqlite_lend_file,
    .change = sqlite_change,
    .peer_changes = sqlite_peer_changes,
    .close = sqlite_close,
};

enum hf_status sqlite_default_path(char path[PATH_MAX], struct hf_error *error)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    bool given = state && state[0] == '/';
    if (!given && (!home || home[0] != '/'))
        return error_set(
            error, HF_INVALID,
            "cannot locate the default store: neither XDG_STATE_HOME nor HOME is set; "
            "name the file in the URL");
    int size = snprintf(path, PATH_MAX, "%s%s/holdfast/store.db", given ? state : home,
                        given ? "" : "/.local/state");
    if (size < 0 || size >= PATH_MAX)
        return error_set(error, HF_INVALID, "the path of the state folder is too long");
    return HF_OK;
}

/* Creates the directories of the default store as needed, accessible to the user only. */
static enum hf_status make_default_folders(struct view given, struct hf_error *error)
{
    struct hf_error none;
    char path[PATH_MAX];
    if (sqlite_default_path(path, &none) != HF_OK || !view_equal(given, view_of(path)))
        return HF_OK;
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        if (folder_make(path, 0700, error) != HF_OK)
            return error->status;
        *at = '/';
    }
    return HF_OK;
}

/* Makes the path absolute, and creates the directory of the file, but not its parents. */
static enum hf_status given_path(struct view given, char path[PATH_MAX], struct hf_error *error)
{
    char folder[PATH_MAX];
    size_t name_at = given.size;
    while (name_at > 0 && given.data[name_at - 1] != '/')
        name_at--;
    struct view name = view_from(given, name_at);
    if (given.size >= sizeof folder || name.size == 0 || view_equal(name, VIEW(".")) ||
        view_equal(name, VIEW("..")))
        return error_set(error, HF_INVALID,
                         "the URL must name a file, with a path of at most %d bytes",
                         PATH_MAX - 1);
    static const char *const reserved[] = { WRITE_NOTIFY_ENDING, WRITE_QUEUE_ENDING };
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
        if (view_ends_with(name, view_of(reserved[i])))
            return error_set(error, HF_INVALID,
                             "names that end in '%s' are reserved; choose another name",
                             reserved[i]);
    struct view above = name_at > 0 ? view_first(given, name_at) : VIEW(".");
    memcpy(folder, above.data, above.size);
    folder[above.size] = '\0';
    if (access(folder, F_OK) != 0 && folder_make(folder, 0777, error) != HF_OK)
        return error->status;
    char *real = realpath(folder, NULL);
    if (!real)
        return error_from_errno(error, errno, "find its folder");
    int size = snprintf(path, PATH_MAX, "%s/%.*s", real, VIEW_ARGS(name));
    free(real);
    if (size < 0 || size >= PATH_MAX)
        return error_set(error, HF_INVALID, "the path is too long");
    return HF_OK;
}

static bool is_named(void *argument, const char *name)
{
    struct sqlite_writer *writer = argument;
    if (sqlite_prepare(&writer->connection, SQL_NAMED) != SQLITE_OK)
        return true;
    sqlite3_stmt *statement = writer->connection.statements[SQL_NAMED];
    sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
    int code = sqlite3_step(statement);
    sqlite_reset(&writer->connection, SQL_NAMED);
    return code != SQLITE_DONE;
}

static bool discard_unseen(void *argument)
{
    return sqlite_writer_discard_unseen(argument);
}

static void sweep_large_objects(struct sqlite_store *sqlite)
{
    struct large_rows rows = { is_named, discard_unseen, &sqlite->writer };
    large_folder_sweep(&sqlite->folder, &rows);
}

static enum hf_status open_database_parts(struct sqlite_store *sqlite, struct hf_error *error)
{
    struct sqlite_connection writer;
    if (sqlite_database_open(&sqlite->database, &writer, error) != HF_OK)
        return error->status;
    bool writable = sqlite->database.writable;
    if (large_folder_open(&sqlite->folder, sqlite->database.path, writable, error) != HF_OK) {
        sqlite_connection_close(&writer);
        return error->status;
    }
    char write_notify_name[PATH_MAX + sizeof WRITE_NOTIFY_ENDING];
    snprintf(write_notify_name, sizeof write_notify_name, "%s" WRITE_NOTIFY_ENDING,
             sqlite->database.path);
    write_notify_init(&sqlite->notify, sqlite->base.env, AT_FDCWD, write_notify_name,
                      sqlite->database.path, writable);
    sqlite->base.notify = &sqlite->notify;
    sqlite_writer_init(&sqlite->writer, &sqlite->database, &writer, &sqlite->notify);
    if (writable)
        sweep_large_objects(sqlite);
    return HF_OK;
}

static struct sqlite_store *store_new(struct env *env, bool durable)
{
    struct sqlite_store *sqlite = calloc(1, sizeof *sqlite);
    if (!sqlite)
        return NULL;
    sqlite->base = (struct store){
        .ops = &sqlite_ops,
        .env = env,
        .traits = TRAITS_OF_OURS,
    };
    sqlite->database.env = env;
    sqlite->database.durable = durable;
    if (!sqlite_log_init(&sqlite->database.log, sqlite->database.path, durable)) {
        free(sqlite);
        return NULL;
    }
    sqlite->folder = (struct large_folder){
        .env = env, .fd = -1, .durable = durable, .store_id = sqlite->database.id
    };
    sqlite->pid = getpid();
    return sqlite;
}

static enum hf_status read_sqlite_url(const struct url *url, bool *ret_durable,
                                      char path[PATH_MAX], struct hf_error *error)
{
    static const char *const parameters[] = { "sync", NULL };
    struct view sync = url_parameter(url, "sync");
    *ret_durable = true;
    if (url_only_parameters(url, parameters, error) != HF_OK)
        return error->status;
    if (sync.data && parse_switch(sync, ret_durable, error) != HF_OK) {
        error_prefix(error, "sync");
        return error->status;
    }
    if (url->host.size > 0)
        return error_set(error, HF_INVALID, "write sqlite:FILE, without '//' in front of FILE");
    char own[PATH_MAX];
    struct view given = url->path;
    if (given.size == 0) {
        if (sqlite_default_path(own, error) != HF_OK)
            return error->status;
        given = view_of(own);
    }
    if (make_default_folders(given, error) != HF_OK)
        return error->status;
    return given_path(given, path, error);
}

enum hf_status sqlite_store_open(struct env *env, const struct url *url,
                                 struct store **ret_store, struct hf_error *error)
{
    bool durable;
    char path[PATH_MAX] = "";
    if (read_sqlite_url(url, &durable, path, error) != HF_OK) {
        error_prefix(error, "sqlite:%.*s", VIEW_ARGS(view_first(url->path, 100)));
        return error->status;
    }
    struct sqlite_store *sqlite = store_new(env, durable);
    if (!sqlite)
        return error_no_memory(error);
    memcpy(sqlite->database.path, path, sizeof path);
    if (open_database_parts(sqlite, error) != HF_OK) {
        error_prefix(error, "sqlite:%.100s", path);
        sqlite_log_release(&sqlite->database.log, /* forked */ false);
        free(sqlite);
        return error->status;
    }
    sqlite_readers_init(&sqlite->readers, &sqlite->database, &sqlite->writer);
    *ret_store = &sqlite->base;
    return HF_OK;
}
