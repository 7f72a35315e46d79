/* SPDX-License-Identifier: Apache-2.0 */
/* apply.c: puts, deletes and changes inside an open transaction of an sqlite store. It guards
 * against a write whose condition does not hold, and against a decision based on a row that may
 * still be rolled back. It does not know which task asked, nor when the transaction is
 * committed. */
#include "store/sqlite/apply.h"

#include "base/check.h"
#include "base/parse.h"
#include "store/toolkit.h"

/* ---- Preparing ----------------------------------------------------------------------- */

static bool is_swap(const struct sqlite_write *write)
{
    return !write->is_delete && !write->file && write->condition->kind == CONDITION_MATCH;
}

/* The statements of a write that usually suffice. Others are prepared when they are needed. The
 * first change of a connection does with SWAP: a short process needs it anyway, to release what it
 * has acquired, and to prepare UPDATE takes longer than to find the row once more. */
static const enum sqlite_statement *usual_statements(const struct sqlite_connection *connection,
                                                     const struct sqlite_write *write)
{
    static const enum sqlite_statement of_delete[] = { SQL_LOOKUP, SQL_DELETE, SQL_COUNT };
    static const enum sqlite_statement of_put[] = { SQL_LOOKUP, SQL_INSERT, SQL_UPDATE,
                                                    SQL_COUNT };
    static const enum sqlite_statement of_change[] = { SQL_UPDATE, SQL_COUNT };
    static const enum sqlite_statement of_swap[] = { SQL_SWAP, SQL_COUNT };
    if (write->change)
        return write->change->ready.data || !connection->statements[SQL_SWAP] ? of_swap
                                                                              : of_change;
    return write->is_delete ? of_delete : is_swap(write) ? of_swap : of_put;
}

void sqlite_prepare_write(struct sqlite_connection *connection,
                          const struct sqlite_write *write)
{
    for (const enum sqlite_statement *which = usual_statements(connection, write);
         *which != SQL_COUNT; which++)
        (void)sqlite_prepare(connection, *which);
}

/* ---- One write ----------------------------------------------------------------------- */

static void draw_etag(struct sqlite_writer *writer, struct etag *etag)
{
    uint64_t count = ++writer->etag_count;
    unsigned digits = (67 - (unsigned)__builtin_clzll(count)) / 4;
    struct view prefix = view_of(writer->etag_prefix);
    memcpy(etag->data, prefix.data, prefix.size);
    etag->data[prefix.size] = '-';
    etag->size = (uint8_t)(prefix.size + 1 + digits);
    for (size_t at = etag->size; digits > 0; digits--, count >>= 4)
        etag->data[--at] = "0123456789abcdef"[count & 15];
}

/* If there is no row for the key, returns OK and sets *ret_found to false. */
static enum hf_status find_object_row(struct sqlite_writer *writer, struct sqlite_write *write,
                                      struct sqlite_row *ret_row, bool *ret_found)
{
    struct sqlite_connection *connection = &writer->connection;
    int code = sqlite_lookup(connection, write->key);
    enum hf_status status = HF_OK;
    if (code == SQLITE_ROW)
        status = sqlite_row_read(connection->statements[SQL_LOOKUP], ret_row, write->error);
    else if (code != SQLITE_DONE)
        status = sqlite_error(write->error, connection->handle, code, "look up the object");
    sqlite_reset(connection, SQL_LOOKUP);
    *ret_found = code == SQLITE_ROW;
    return status;
}

/* Binds the parameters that all statements of a put share. */
static void bind_put(struct sqlite_writer *writer, struct sqlite_write *write,
                     sqlite3_stmt *statement)
{
    draw_etag(writer, &write->etag);
    sqlite_bind_view(statement, 2, etag_view(&write->etag));
    sqlite3_bind_int64(statement, 3, writer->modified.us);
    sqlite3_bind_int64(statement, 4, (int64_t)write->size);
    if (write->file)
        sqlite3_bind_null(statement, 6);
    else
        sqlite_bind_view(statement, 6, write->body);
}

static int run_put(struct sqlite_writer *writer, struct sqlite_write *write,
                   const struct sqlite_row *row)
{
    enum sqlite_statement which = row ? SQL_UPDATE : SQL_INSERT;
    int code = sqlite_prepare(&writer->connection, which);
    if (code != SQLITE_OK)
        return code;
    sqlite3_stmt *statement = writer->connection.statements[which];
    if (row)
        sqlite3_bind_int64(statement, 1, row->id);
    else
        sqlite_bind_view(statement, 1, write->key);
    bind_put(writer, write, statement);
    if (write->file)
        sqlite3_bind_text(statement, 5, write->file, -1, SQLITE_STATIC);
    else
        sqlite3_bind_null(statement, 5);
    return sqlite_run(&writer->connection, which);
}

/* Performs the most frequent kind of write, a replacement conditional on the ETag, in one
 * statement. *ret_done is false, and nothing has changed, if the ETag does not match or the object
 * has a file; the write then takes the general path. */
static int swap_row(struct sqlite_writer *writer, struct sqlite_write *write,
                    const struct etag *etag, bool *ret_done)
{
    int code = sqlite_prepare(&writer->connection, SQL_SWAP);
    *ret_done = false;
    if (code != SQLITE_OK)
        return code;
    sqlite3_stmt *statement = writer->connection.statements[SQL_SWAP];
    sqlite_bind_view(statement, 1, write->key);
    sqlite_bind_view(statement, 5, etag_view(etag));
    bind_put(writer, write, statement);
    code = sqlite_run(&writer->connection, SQL_SWAP);
    *ret_done = code == SQLITE_OK && sqlite3_changes(writer->connection.handle) == 1;
    return code;
}

static int delete_row(struct sqlite_writer *writer, const struct sqlite_row *row)
{
    int code = sqlite_prepare(&writer->connection, SQL_DELETE);
    if (code != SQLITE_OK)
        return code;
    sqlite3_bind_int64(writer->connection.statements[SQL_DELETE], 1, row->id);
    return sqlite_run(&writer->connection, SQL_DELETE);
}

static void check_and_write(struct sqlite_writer *writer, struct sqlite_write *write)
{
    struct sqlite_row row;
    bool found, swapped = false;
    int code = SQLITE_OK;
    if (is_swap(write))
        code = swap_row(writer, write, &write->condition->etag, &swapped);
    if (code != SQLITE_OK)
        sqlite_error(write->error, writer->connection.handle, code, "write");
    else if (swapped)
        error_clear(write->error);
    if (code != SQLITE_OK || swapped)
        return;
    if (find_object_row(writer, write, &row, &found) != HF_OK ||
        condition_check(write->condition, found ? &row.info.etag : NULL, write->error) != HF_OK)
        return;
    if (!write->is_delete)
        code = run_put(writer, write, found ? &row : NULL);
    else if (found)
        code = delete_row(writer, &row);
    writer->removed = writer->removed || write->is_delete;
    if (code != SQLITE_OK)
        sqlite_error(write->error, writer->connection.handle, code, "write");
    else if (found)
        memcpy(write->replaced, row.file, sizeof row.file);
}

/* Replaces the row that the caller was shown, or inserts one. */
static int put_decided(struct sqlite_writer *writer, struct sqlite_write *write,
                       const struct sqlite_row *row)
{
    sqlite3_stmt *const *statements = writer->connection.statements;
    bool swapped = false;
    int code = SQLITE_OK;
    if (row && row->file[0] == '\0' && statements[SQL_SWAP] && !statements[SQL_UPDATE])
        code = swap_row(writer, write, &row->info.etag, &swapped);
    return code != SQLITE_OK || swapped ? code : run_put(writer, write, row);
}

/* Writes the bytes that the caller decided on, if any. */
static void write_decided(struct sqlite_writer *writer, struct sqlite_write *write,
                          const struct sqlite_row *row)
{
    struct change_call *call = write->change;
    call->etag = row ? row->info.etag : (struct etag){ 0 };
    write->size = write->body.size;
    write->quiet = call->quiet;
    if (!write->body.data) {
        write->quiet = true;
        error_clear(write->error);
        return;
    }
    if (write->body.size > SQLITE_INLINE_MAX) {
        error_set(write->error, HF_UNSUPPORTED,
                  "the new contents are too large for a change in one step");
        return;
    }
    int code = put_decided(writer, write, row);
    if (code != SQLITE_OK) {
        sqlite_error(write->error, writer->connection.handle, code, "write");
        return;
    }
    call->wrote = true;
    call->etag = write->etag;
    if (row)
        memcpy(write->replaced, row->file, sizeof row->file);
    error_clear(write->error);
}

/* Whether the current transaction has generated this ETag. */
static bool is_new_etag(const struct sqlite_writer *writer, struct view etag)
{
    struct view prefix = view_of(writer->etag_prefix);
    uint64_t count = 0;
    if (etag.size <= prefix.size || memcmp(etag.data, prefix.data, prefix.size) != 0)
        return false;
    for (size_t i = prefix.size + 1; i < etag.size; i++)
        count = count << 4 | (uint64_t)hex_digit(etag.data[i]);
    return count > writer->etag_begun;
}

/* Checks the row before the caller may see it. *ret_body is the body to show. */
static enum hf_status check_changed_row(struct sqlite_writer *writer,
                                        struct sqlite_write *write, sqlite3_stmt *fetch,
                                        struct sqlite_row *ret_row, struct view *ret_body)
{
    if (sqlite_row_read(fetch, ret_row, write->error) != HF_OK)
        return write->error->status;
    /* If this group wrote the row, the caller must not see it: the group may still be rolled
     * back. */
    write->postponed = is_new_etag(writer, etag_view(&ret_row->info.etag));
    if (etag_equal(&ret_row->info.etag, &write->change->known))
        return HF_OK;
    if (ret_row->file[0] != '\0')
        return error_set(write->error, HF_UNSUPPORTED,
                         "the object is too large for a change in one step");
    *ret_body = sqlite_row_last(fetch);
    if (ret_body->size != ret_row->info.size)
        return error_set(write->error, HF_CORRUPT,
                         "the object in the database is shorter or longer than recorded");
    return HF_OK;
}

/* Writes what the caller has prepared for the version that it knows. No decision is needed, because
 * the row has an ETag that was committed earlier. False: it has another version, or a file. */
static bool swap_prepared(struct sqlite_writer *writer, struct sqlite_write *write)
{
    struct change_call *call = write->change;
    bool swapped = false;
    write->body = call->ready;
    write->size = call->ready.size;
    if (!call->ready.data || write->size > SQLITE_INLINE_MAX)
        return false;
    int code = swap_row(writer, write, &call->known, &swapped);
    if (code != SQLITE_OK)
        sqlite_error(write->error, writer->connection.handle, code, "write");
    if (!swapped)
        return code != SQLITE_OK;
    call->wrote = true;
    call->etag = write->etag;
    write->quiet = call->quiet;
    error_clear(write->error);
    return true;
}

/* Shows the row to the caller, which decides what to write. */
static void change_row(struct sqlite_writer *writer, struct sqlite_write *write)
{
    struct change_call *call = write->change;
    struct sqlite_connection *connection = &writer->connection;
    sqlite3_stmt *fetch = connection->statements[SQL_FETCH];
    struct sqlite_row row = { .id = 0 };
    struct view body = { NULL, 0 };
    enum hf_status status = HF_OK;
    call->wrote = false;
    if (swap_prepared(writer, write))
        return;
    sqlite_bind_view(fetch, 1, write->key);
    sqlite_bind_view(fetch, 2, etag_view(&call->known));
    int code = sqlite3_step(fetch);
    if (code == SQLITE_ROW)
        status = check_changed_row(writer, write, fetch, &row, &body);
    else if (code == SQLITE_DONE)
        /* The row may be missing only because this group, which is not committed yet, has deleted
         * it. */
        write->postponed = writer->removed;
    else
        status = sqlite_error(write->error, connection->handle, code, "look up the object");
    bool decided = status == HF_OK && !write->postponed;
    if (decided)
        write->body = call->decide(call->argument, &row.info.etag, body);
    sqlite_reset(connection, SQL_FETCH);
    if (decided)
        write_decided(writer, write, code == SQLITE_ROW ? &row : NULL);
}

static bool in_transaction(const struct sqlite_writer *writer)
{
    return sqlite3_get_autocommit(writer->connection.handle) == 0;
}

static void note_listeners(struct sqlite_writer *writer, const struct sqlite_write *write)
{
    writer->wakes_listeners =
        writer->wakes_listeners || (write->error->status == HF_OK && !write->quiet);
}

static void apply_write(struct sqlite_writer *writer, struct sqlite_write *write)
{
    write->replaced[0] = '\0';
    write->postponed = false;
    if (write->change)
        change_row(writer, write);
    else
        check_and_write(writer, write);
}

bool sqlite_apply(struct sqlite_writer *writer, struct sqlite_write *write)
{
    apply_write(writer, write);
    note_listeners(writer, write);
    return in_transaction(writer);
}

/* ---- Several writes together --------------------------------------------------------- */

/* None of the writes takes place: because of this one, which failed, was refused, or must wait. */
static void withdraw_all(struct sqlite_write *writes, size_t count,
                         const struct sqlite_write *because)
{
    struct hf_error error = *because->error;
    bool postponed = because->postponed;
    for (size_t i = 0; i < count; i++) {
        writes[i].change->wrote = false;
        writes[i].quiet = true;
        writes[i].postponed = postponed;
        writes[i].replaced[0] = '\0';
        *writes[i].error = error;
    }
}

/* Applies the writes in order, up to the one because of which none of them takes place. NULL: all
 * were applied. */
static const struct sqlite_write *apply_until_refused(struct sqlite_writer *writer,
                                                      struct sqlite_write *writes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        apply_write(writer, &writes[i]);
        if (!in_transaction(writer) || writes[i].postponed || writes[i].change->refused ||
            writes[i].error->status != HF_OK)
            return &writes[i];
    }
    return NULL;
}

/* The transaction contains only these writes, so the caller undoes them by ending it. */
static bool apply_first(struct sqlite_writer *writer, struct sqlite_write *writes, size_t count,
                        bool *ret_spoiled)
{
    const struct sqlite_write *because = apply_until_refused(writer, writes, count);
    if (because)
        withdraw_all(writes, count, because);
    *ret_spoiled = because != NULL;
    return in_transaction(writer);
}

/* Other writes of the transaction are kept if these are refused. */
static bool apply_after_others(struct sqlite_writer *writer, struct sqlite_write *writes,
                               size_t count)
{
    const struct sqlite_write *because = NULL;
    int code = sqlite_run(&writer->connection, SQL_BEGIN_TOGETHER);
    if (code == SQLITE_OK)
        because = apply_until_refused(writer, writes, count);
    if (because)
        withdraw_all(writes, count, because);
    if (!in_transaction(writer))
        return false;
    if (because)
        code = sqlite_run(&writer->connection, SQL_BACK_TOGETHER);
    if (code == SQLITE_OK)
        code = sqlite_run(&writer->connection, SQL_END_TOGETHER);
    if (code != SQLITE_OK) { /* which of the writes are in the transaction is not known */
        sqlite_error(writes[0].error, writer->connection.handle, code, "write together");
        withdraw_all(writes, count, &writes[0]);
        sqlite_roll_back(writer);
        return false;
    }
    return true;
}

bool sqlite_apply_together(struct sqlite_writer *writer, struct sqlite_write *writes,
                           size_t count, bool first, bool *ret_spoiled)
{
    *ret_spoiled = false;
    bool open = first ? apply_first(writer, writes, count, ret_spoiled)
                      : apply_after_others(writer, writes, count);
    for (size_t i = 0; open && i < count; i++)
        note_listeners(writer, &writes[i]);
    return open;
}
