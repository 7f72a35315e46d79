/* sqlite.c: objects as rows of one SQLite file, large ones as files beside it: the embedded
 * default. Safe among processes, durable, and never left half-written by a crash.
 *
 * Writing goes through one connection a process (group.c), reading through a few others
 * (readers.c).
 * A row that names a file is read first and the file opened after; should the object have been
 * replaced in between, the file is gone and the row is read again. */
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

/* FILE-bell is rung by all who write to FILE. It is opened and closed, which would end all locks
 * of this process on the file if that were a database too. */
#define BELL_ENDING "-bell"

/* So often an object may be replaced between reading its row and opening its file. */
#define VANISHED_MAX 64

struct sqlite_store {
    struct store base;
    struct sqlite_database database;
    struct large_folder folder;
    struct bell bell;
    struct sqlite_writer writer;
    pid_t pid; /* SQLite's connections do not survive a fork */
    struct sqlite_readers readers;
};

static struct sqlite_store *sqlite_of(struct store *store)
{
    return (struct sqlite_store *)store;
}

static bool is_forked(struct sqlite_store *sqlite, struct hf_error *error)
{
    if (getpid() == sqlite->pid)
        return false;
    error_set(error, HF_INVALID, "the store was opened before fork; open it again");
    return true;
}

static struct mono_time deadline_of(struct sqlite_store *sqlite, struct mono_time asked)
{
    if (asked.us > 0)
        return asked;
    return mono_add(env_now(sqlite->base.env), SPAN_MS(STORE_TIMEOUT_MS));
}

/* ---- Reading one object -------------------------------------------------------------- */

/* Looks the object up and judges the get. OK with an empty ret_row->file: the range stands in
 * call->body. OK with a name: it is to be read from that file. SQLITE_OK, or a code that
 * call->error does not show yet. No call of env is made while the row is read. */
static int fetch(struct sqlite_connection *reader, struct get_call *call,
                 struct sqlite_row *ret_row, uint64_t *ret_length)
{
    sqlite3_stmt *statement = reader->statements[SQL_FETCH];
    sqlite_bind_view(statement, 1, call->key);
    sqlite_bind_view(statement, 2, etag_view(&call->none_match));
    int code = sqlite3_step(statement);
    if (code == SQLITE_DONE)
        get_judge(call, NULL, ret_length);
    else if (code == SQLITE_ROW && sqlite_row_read(statement, ret_row, &call->error) == HF_OK &&
             get_judge(call, &ret_row->info, ret_length) == HF_OK && ret_row->file[0] == '\0') {
        struct view body = sqlite_row_last(statement);
        if (body.size != ret_row->info.size)
            error_set(&call->error, HF_CORRUPT, "the database has lost bytes of the object");
        else
            get_append(call,
                       view_first(view_from(body, (size_t)call->offset), (size_t)*ret_length));
    }
    sqlite_reset(reader, SQL_FETCH);
    return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code;
}

/* The same, waiting out those who lock the whole database for a moment. */
static enum hf_status fetch_patiently(struct sqlite_store *sqlite,
                                      struct sqlite_connection *reader, struct get_call *call,
                                      struct sqlite_row *ret_row, uint64_t *ret_length)
{
    int code = fetch(reader, call, ret_row, ret_length);
    if (sqlite_is_busy(code)) {
        struct patience patience =
            patience_until(sqlite->base.env, deadline_of(sqlite, call->deadline));
        while (sqlite_is_busy(code) && patience_wait(&patience))
            code = fetch(reader, call, ret_row, ret_length);
    }
    if (code != SQLITE_OK)
        sqlite_error(&call->error, reader->handle, code, "read the object");
    return call->error.status;
}

/* Finds an object. OK: the range stands in call->body and *ret_fd is -1, or it is to be read
 * from *ret_fd, which has the whole object. */
static enum hf_status find(struct sqlite_store *sqlite, struct sqlite_connection *reader,
                           struct get_call *call, int *ret_fd, uint64_t *ret_length)
{
    struct sqlite_row row;
    *ret_fd = -1;
    for (int i = 0; i < VANISHED_MAX; i++) {
        if (fetch_patiently(sqlite, reader, call, &row, ret_length) != HF_OK ||
            row.file[0] == '\0')
            return call->error.status;
        enum hf_status status =
            large_file_read(&sqlite->folder, row.file, ret_fd, &call->error);
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
                     "the file of the object has %llu bytes, not the %llu it was written with",
                     (unsigned long long)size, (unsigned long long)call->info.size);
}

/* Appends a range of a file to call->body. */
static enum hf_status append_range(struct get_call *call, int fd, uint64_t length)
{
    struct buffer *body = call->body;
    if (length > body->max - body->size || !buffer_reserve(body, (size_t)length))
        return get_append(call, (struct view){ NULL, (size_t)length }); /* says why not */
    size_t got;
    if (file_read_at(fd, body->data + body->size, (size_t)length, call->offset, &got,
                     &call->error) != HF_OK)
        return call->error.status;
    if (got < length)
        return error_set(&call->error, HF_CORRUPT, "the file of the object was cut short");
    body->size += got;
    return HF_OK;
}

static void get_one(struct sqlite_store *sqlite, struct sqlite_connection *reader,
                    struct get_call *call)
{
    int fd;
    uint64_t length;
    if (find(sqlite, reader, call, &fd, &length) != HF_OK || fd < 0)
        return;
    if (check_size(call, fd) == HF_OK)
        append_range(call, fd, length);
    close(fd);
}

static void sqlite_get(struct store *store, struct get_call *calls, size_t count)
{
    struct sqlite_store *sqlite = sqlite_of(store);
    struct sqlite_connection reader;
    struct hf_error error;
    struct mono_time deadline = deadline_of(sqlite, calls[0].deadline);
    if (is_forked(sqlite, &error) ||
        sqlite_reader_take_briefly(&sqlite->readers, deadline, &reader, &error) != HF_OK) {
        get_fail_all(calls, count, &error);
        return;
    }
    for (size_t i = 0; i < count; i++)
        get_one(sqlite, &reader, &calls[i]);
    sqlite_reader_give_back(&sqlite->readers, &reader);
}

/* Finds an object that is to be a file: *ret_fd, or -1 and the bytes in `small`, since they are
 * few. */
static enum hf_status find_file(struct sqlite_store *sqlite, struct get_call *call,
                                struct buffer *small, int *ret_fd, uint64_t *ret_length)
{
    struct sqlite_connection reader;
    struct mono_time deadline = deadline_of(sqlite, call->deadline);
    if (is_forked(sqlite, &call->error) ||
        sqlite_reader_take_briefly(&sqlite->readers, deadline, &reader, &call->error) != HF_OK)
        return call->error.status;
    struct buffer *asked = call->body;
    call->body = small;
    enum hf_status status = find(sqlite, &reader, call, ret_fd, ret_length);
    call->body = asked;
    sqlite_reader_give_back(&sqlite->readers, &reader);
    return status;
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

/* Small objects are rows, and no files. */
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

/* Offers rows from the cursor on until one has to be jumped to, or all is said. Returns
 * SQLITE_ROW when it is to be called again, SQLITE_DONE at the end, else what went wrong. */
static int list_stretch(struct sqlite_connection *reader, struct list_call *call,
                        struct list_cursor *cursor)
{
    enum sqlite_statement which = cursor->beyond ? SQL_SEEK_BEYOND : SQL_SEEK;
    sqlite3_stmt *statement = reader->statements[which];
    char start[sizeof cursor->space];
    memcpy(start, cursor->from.data, cursor->from.size);
    sqlite_bind_view(statement, 1, (struct view){ start, cursor->from.size });
    int code;
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
    struct mono_time deadline = deadline_of(sqlite, call->deadline);
    if (is_forked(sqlite, &call->error) ||
        sqlite_reader_take(&sqlite->readers, deadline, &reader, &call->error) != HF_OK)
        return;
    struct patience patience = patience_until(sqlite->base.env, deadline);
    struct list_cursor cursor;
    list_start(call, &cursor);
    int code;
    do
        code = list_stretch(&reader, call, &cursor);
    while (code == SQLITE_ROW || (sqlite_is_busy(code) && patience_wait(&patience)));
    if (code != SQLITE_DONE)
        sqlite_error(&call->error, reader.handle, code, "list the objects");
    sqlite_reader_give_back(&sqlite->readers, &reader);
}

/* ---- Writing ------------------------------------------------------------------------- */

/* A put on its way: the call, and the file that holds a large body. */
struct put {
    struct put_call *call;
    struct large_file file; /* fd -1: none */
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
    if (put->file.fd >= 0 && (status == HF_OK || status == HF_UNSURE))
        large_file_keep(&put->file);
    else if (put->file.fd >= 0)
        large_file_drop(&sqlite->folder, &put->file);
    if (status == HF_OK && write->replaced[0] != '\0')
        large_name_remove(&sqlite->folder, write->replaced);
}

/* Bodies of more than a row takes go into a file of their own. */
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

/* Prepares `count` puts; those that can go on stand first afterwards. Returns how many. */
static size_t prepare_all(struct sqlite_store *sqlite, struct put *puts,
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
    if (!files || large_folder_sync(&sqlite->folder, &error) == HF_OK)
        return ready;
    for (size_t i = 0; i < ready; i++) {
        puts[i].call->error = error;
        put_finish(sqlite, &puts[i], &writes[i]);
    }
    return 0;
}

static void submit(struct sqlite_store *sqlite, struct sqlite_write *writes, size_t count,
                   struct mono_time asked)
{
    struct sqlite_batch batch = {
        .writes = writes,
        .count = count,
        .deadline = deadline_of(sqlite, asked),
    };
    if (count > 0)
        sqlite_writer_submit(&sqlite->writer, &batch);
}

static void put_all(struct sqlite_store *sqlite, struct put *puts, struct sqlite_write *writes,
                    struct put_call *calls, size_t count)
{
    size_t ready = prepare_all(sqlite, puts, writes, calls, count);
    submit(sqlite, writes, ready, calls[0].deadline);
    for (size_t i = 0; i < ready; i++)
        put_finish(sqlite, &puts[i], &writes[i]);
}

static void sqlite_put(struct store *store, struct put_call *calls, size_t count)
{
    struct sqlite_store *sqlite = sqlite_of(store);
    struct hf_error error;
    if (is_forked(sqlite, &error)) {
        put_fail_all(calls, count, &error);
        return;
    }
    struct put one_put;
    struct sqlite_write one_write;
    if (count == 1) {
        put_all(sqlite, &one_put, &one_write, calls, 1);
        return;
    }
    struct put *puts = calloc(count, sizeof *puts);
    struct sqlite_write *writes = calloc(count, sizeof *writes);
    error_no_memory(&error);
    if (puts && writes)
        put_all(sqlite, puts, writes, calls, count);
    else
        put_fail_all(calls, count, &error);
    free(puts);
    free(writes);
}

/* A look at the condition before gigabytes are copied in vain. It may fail only what would have
 * failed at this moment. */
static enum hf_status judge_early(struct sqlite_store *sqlite, struct put_call *call)
{
    if (call->condition.kind == CONDITION_ALWAYS)
        return HF_OK;
    struct sqlite_connection reader;
    if (sqlite_reader_take(&sqlite->readers, deadline_of(sqlite, call->deadline), &reader,
                           &call->error) != HF_OK)
        return call->error.status;
    sqlite3_stmt *lookup = reader.statements[SQL_LOOKUP];
    sqlite_bind_view(lookup, 1, call->key);
    int code = sqlite3_step(lookup);
    struct sqlite_row row;
    enum hf_status status = error_clear(&call->error);
    if (code == SQLITE_ROW)
        status = sqlite_row_read(lookup, &row, &call->error);
    if (status == HF_OK && (code == SQLITE_ROW || code == SQLITE_DONE))
        status = condition_judge(&call->condition, code == SQLITE_ROW ? &row.info.etag : NULL,
                                 &call->error);
    sqlite_reset(&reader, SQL_LOOKUP);
    sqlite_reader_give_back(&sqlite->readers, &reader);
    return status;
}

static void put_large_file(struct sqlite_store *sqlite, struct put_call *call, int fd,
                           uint64_t size, const struct progress *progress)
{
    struct put put = { .call = call, .file = { .fd = -1 } };
    struct sqlite_write write = { 0 };
    bool given;
    if (judge_early(sqlite, call) != HF_OK ||
        large_file_new(&sqlite->folder, call->give ? fd : -1, &put.file, &given,
                       &call->error) != HF_OK)
        return;
    if ((given || file_copy(fd, 0, size, put.file.fd, progress, &call->error) == HF_OK) &&
        large_file_sync(&sqlite->folder, &put.file, &call->error) == HF_OK &&
        large_folder_sync(&sqlite->folder, &call->error) == HF_OK) {
        write_init(&write, &put, size);
        submit(sqlite, &write, 1, call->deadline);
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
        submit(sqlite, &write, 1, call->deadline);
        put_finish(sqlite, &put, &write);
    }
    free(body);
}

static void sqlite_put_file(struct store *store, struct put_call *call, int fd,
                            const struct progress *progress)
{
    struct sqlite_store *sqlite = sqlite_of(store);
    uint64_t size;
    if (is_forked(sqlite, &call->error) || file_size(fd, &size, &call->error) != HF_OK)
        return;
    if (size <= SQLITE_INLINE_MAX)
        put_small_file(sqlite, call, fd, size, progress);
    else
        put_large_file(sqlite, call, fd, size, progress);
}

static void remove_all(struct sqlite_store *sqlite, struct sqlite_write *writes,
                       struct delete_call *calls, size_t count)
{
    for (size_t i = 0; i < count; i++)
        writes[i] = (struct sqlite_write){
            .is_delete = true,
            .key = calls[i].key,
            .condition = &calls[i].condition,
            .error = &calls[i].error,
        };
    submit(sqlite, writes, count, calls[0].deadline);
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
    if (writes && !is_forked(sqlite, &error))
        remove_all(sqlite, writes, calls, count);
    else
        delete_fail_all(calls, count, &error);
    if (writes != &one)
        free(writes);
}

/* ---- In one step --------------------------------------------------------------------- */

static void sqlite_change(struct store *store, struct change_call *call)
{
    struct sqlite_store *sqlite = sqlite_of(store);
    struct sqlite_write write = { .key = call->key, .change = call, .error = &call->error };
    if (is_forked(sqlite, &call->error))
        return;
    if (!sqlite->database.writable) { /* a get may do */
        error_set(&call->error, HF_UNSUPPORTED, "the database cannot be written to");
        return;
    }
    submit(sqlite, &write, 1, call->deadline);
    if (call->error.status == HF_OK && write.replaced[0] != '\0')
        large_name_remove(&sqlite->folder, write.replaced);
}

/* ---- Listening ----------------------------------------------------------------------- */

static bool sqlite_listens(const struct store *store)
{
    const struct sqlite_store *sqlite = (const struct sqlite_store *)store;
    return getpid() == sqlite->pid && bell_listens(&sqlite->bell);
}

/* A forked child finds out why at its next call. */
static void sqlite_ring(struct store *store)
{
    bell_ring(&sqlite_of(store)->bell);
}

static bool sqlite_listen(struct store *store, uint64_t *ticket, struct mono_time until)
{
    struct sqlite_store *sqlite = sqlite_of(store);
    return is_forked(sqlite, /* error */ NULL) || bell_listen(&sqlite->bell, ticket, until);
}

/* By the connection that writes, so that our own commits do not count. */
static bool sqlite_peer_changes(struct store *store, uint64_t *ret_mark)
{
    struct sqlite_store *sqlite = sqlite_of(store);
    struct sqlite_connection connection;
    if (is_forked(sqlite, /* error */ NULL) ||
        !sqlite_writer_lend(&sqlite->writer, &connection))
        return false;
    bool told = sqlite_data_version(&connection, ret_mark);
    sqlite_writer_take_back(&sqlite->writer);
    return told;
}

/* ---- Opening and closing ------------------------------------------------------------- */

/* In a forked child nothing of SQLite may be touched: its memory is left behind. */
static void sqlite_close(struct store *store)
{
    struct sqlite_store *sqlite = sqlite_of(store);
    if (getpid() == sqlite->pid) {
        sqlite_readers_close_all(&sqlite->readers);
        sqlite_writer_release(&sqlite->writer);
    }
    bell_release(&sqlite->bell, is_forked(sqlite, /* error */ NULL));
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
    .listens = sqlite_listens,
    .listen = sqlite_listen,
    .ring = sqlite_ring,
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
            "pass --store URL or set HOLDFAST_STORE");
    int size = snprintf(path, PATH_MAX, "%s%s/holdfast/store.db", given ? state : home,
                        given ? "" : "/.local/state");
    if (size < 0 || size >= PATH_MAX)
        return error_set(error, HF_INVALID, "the path of the state folder is too long");
    return HF_OK;
}

/* The folders of the user's own store are made as needed, for the user alone. */
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

/* Makes the path absolute and creates the folder of the file, one level, if there is none. */
static enum hf_status given_path(struct view given, char path[PATH_MAX], struct hf_error *error)
{
    char folder[PATH_MAX];
    size_t name_at = given.size;
    while (name_at > 0 && given.data[name_at - 1] != '/')
        name_at--;
    struct view name = view_from(given, name_at);
    if (given.size >= sizeof folder || name.size == 0 || view_equal(name, VIEW(".")) ||
        view_equal(name, VIEW("..")))
        return error_set(error, HF_INVALID, "a path of at most %d bytes to a file is needed",
                         PATH_MAX - 1);
    struct view ending = VIEW(BELL_ENDING);
    if (name.size >= ending.size &&
        view_equal(view_from(name, name.size - ending.size), ending))
        return error_set(error, HF_INVALID,
                         "a name that ends in '%s' is the bell of another store", BELL_ENDING);
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
    struct sqlite_connection *connection = argument;
    sqlite3_stmt *statement = connection->statements[SQL_NAMED];
    sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
    int code = sqlite3_step(statement);
    sqlite_reset(connection, SQL_NAMED);
    return code != SQLITE_DONE;
}

static enum hf_status open_parts(struct sqlite_store *sqlite, struct hf_error *error)
{
    struct sqlite_connection writer;
    if (sqlite_database_open(&sqlite->database, &writer, error) != HF_OK)
        return error->status;
    bool writable = sqlite->database.writable;
    if (large_folder_open(&sqlite->folder, sqlite->database.path, writable, error) != HF_OK) {
        sqlite_connection_close(&writer);
        return error->status;
    }
    if (writable)
        large_folder_sweep(&sqlite->folder, is_named, &writer);
    char bell_name[PATH_MAX + sizeof BELL_ENDING];
    snprintf(bell_name, sizeof bell_name, "%s" BELL_ENDING, sqlite->database.path);
    bell_init(&sqlite->bell, sqlite->base.env, AT_FDCWD, bell_name, sqlite->database.path,
              writable);
    sqlite_writer_init(&sqlite->writer, &sqlite->database, &writer, &sqlite->bell);
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
        .traits = { .delete_conditional = true,
                    .put_file_conditional = true,
                    .etag_fresh = true,
                    .list_ordered = true,
                    .clock = STORE_CLOCK_BOOT },
    };
    sqlite->database.env = env;
    sqlite->database.durable = durable;
    sqlite->folder = (struct large_folder){
        .env = env, .fd = -1, .durable = durable, .store_id = sqlite->database.id
    };
    sqlite->pid = getpid();
    return sqlite;
}

static enum hf_status read_url(const struct url *url, bool *ret_durable, char path[PATH_MAX],
                               struct hf_error *error)
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
    if (read_url(url, &durable, path, error) != HF_OK) {
        error_prefix(error, "sqlite:%.*s", VIEW_ARGS(view_first(url->path, 100)));
        return error->status;
    }
    struct sqlite_store *sqlite = store_new(env, durable);
    if (!sqlite)
        return error_no_memory(error);
    memcpy(sqlite->database.path, path, sizeof path);
    if (open_parts(sqlite, error) != HF_OK) {
        error_prefix(error, "sqlite:%.100s", path);
        free(sqlite);
        return error->status;
    }
    sqlite_readers_init(&sqlite->readers, &sqlite->database, &sqlite->writer);
    *ret_store = &sqlite->base;
    return HF_OK;
}
