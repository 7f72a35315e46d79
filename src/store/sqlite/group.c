/* SPDX-License-Identifier: Apache-2.0 */
/* group.c: commits the writes of many tasks in one transaction, led by one of the tasks. No
 * write is reported as done before its commit, and one failing write does not fail the others. */
#include "store/sqlite/group.h"

#include "base/check.h"
#include "base/parse.h"
#include "store/toolkit.h"

#include <inttypes.h>
#include <stdio.h>

/* The maximum number of writes per transaction, unless a single batch has more. */
#define GROUP_MAX 256

/* The WAL is checkpointed (copied back into the database) when it has this many pages. */
#define CHECKPOINT_PAGES 1000

/* If the WAL has more pages than this, it is also checkpointed when the store is closed. */
#define CLOSE_PAGES 64

/* A leader waits until this fraction of the active writers has queued again, but at most half the
 * time that the last group took, within these bounds. */
#define GATHER_PART 8
#define GATHER_MIN  SPAN_US(100)
#define GATHER_MAX  SPAN_MS(1)

/* A leader whose own batch is done continues to lead for this long while others are waiting. A new
 * leader would have to be woken while all the other tasks wake too, which takes about as long as a
 * transaction. As a result, one call in a few thousand returns that much later. */
#define LEAD_ON SPAN_MS(20)

/* The outcome of a transaction. */
enum outcome {
    COMMITTED,
    ROLLED_BACK, /* definitely not done */
    UNKNOWN,     /* it may appear after a crash */
};

/* ---- One write inside a transaction -------------------------------------------------- */

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
    sqlite3_stmt *lookup = connection->statements[SQL_LOOKUP];
    sqlite_bind_view(lookup, 1, write->key);
    int code = sqlite3_step(lookup);
    enum hf_status status = HF_OK;
    if (code == SQLITE_ROW)
        status = sqlite_row_read(lookup, ret_row, write->error);
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
 * statement. *ret_done is false, and nothing has changed, if the write is of another kind or the
 * ETag does not match; the write then takes the general path. */
static int swap_row(struct sqlite_writer *writer, struct sqlite_write *write, bool *ret_done)
{
    sqlite3_stmt *statement = writer->connection.statements[SQL_SWAP];
    *ret_done = false;
    if (write->is_delete || write->file || write->condition->kind != CONDITION_MATCH)
        return SQLITE_OK;
    sqlite_bind_view(statement, 1, write->key);
    sqlite_bind_view(statement, 5, etag_view(&write->condition->etag));
    bind_put(writer, write, statement);
    int code = sqlite_run(&writer->connection, SQL_SWAP);
    *ret_done = code == SQLITE_OK && sqlite3_changes(writer->connection.handle) == 1;
    return code;
}

static void check_and_write(struct sqlite_writer *writer, struct sqlite_write *write)
{
    struct sqlite_row row;
    bool found;
    if (find_object_row(writer, write, &row, &found) != HF_OK ||
        condition_check(write->condition, found ? &row.info.etag : NULL, write->error) != HF_OK)
        return;
    int code = SQLITE_OK;
    if (!write->is_delete)
        code = run_put(writer, write, found ? &row : NULL);
    else if (found) {
        sqlite3_bind_int64(writer->connection.statements[SQL_DELETE], 1, row.id);
        code = sqlite_run(&writer->connection, SQL_DELETE);
    }
    writer->removed = writer->removed || write->is_delete;
    if (code != SQLITE_OK)
        sqlite_error(write->error, writer->connection.handle, code, "write");
    else if (found)
        memcpy(write->replaced, row.file, sizeof row.file);
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
    int code = run_put(writer, write, row);
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

/* False if the write has ended the whole transaction; its error contains the reason. */
static bool apply_write(struct sqlite_writer *writer, struct sqlite_write *write)
{
    bool swapped = false;
    write->replaced[0] = '\0';
    write->postponed = false;
    int code = write->change ? SQLITE_OK : swap_row(writer, write, &swapped);
    if (write->change)
        change_row(writer, write);
    else if (code != SQLITE_OK)
        sqlite_error(write->error, writer->connection.handle, code, "write");
    else if (swapped)
        error_clear(write->error);
    else
        check_and_write(writer, write);
    writer->wakes_listeners =
        writer->wakes_listeners || (write->error->status == HF_OK && !write->quiet);
    return sqlite3_get_autocommit(writer->connection.handle) == 0;
}

/* ---- One transaction ----------------------------------------------------------------- */

static void roll_back_transaction(struct sqlite_writer *writer)
{
    if (!sqlite3_get_autocommit(writer->connection.handle))
        sqlite_run(&writer->connection, SQL_ROLLBACK);
    check(sqlite3_get_autocommit(writer->connection.handle));
}

/* A commit appends its pages to the WAL and then syncs the WAL. The last of these pages makes the
 * commit valid. If the disk is full, that page was not completely written. After any other failure
 * it may have been written. The next process that opens the store would then make the transaction
 * visible, unless another commit overwrites that part of the WAL first. So the outcome is
 * unknown. */
static enum outcome commit_transaction(struct sqlite_writer *writer, struct hf_error *error)
{
    int code = sqlite_run(&writer->connection, SQL_COMMIT);
    if (code == SQLITE_OK)
        return COMMITTED;
    sqlite_error(error, writer->connection.handle, code, "commit");
    roll_back_transaction(writer);
    return (code & 0xff) == SQLITE_FULL || sqlite_is_busy(code) ? ROLLED_BACK : UNKNOWN;
}

static int begin_transaction(struct sqlite_writer *writer)
{
    writer->wakes_listeners = false;
    writer->removed = false;
    writer->etag_begun = writer->etag_count;
    int code = sqlite_run(&writer->connection, SQL_BEGIN_WRITE);
    if (code != SQLITE_OK)
        return code;
    int moved = 0; /* if somebody moved or replaced the file, further writes would be lost */
    sqlite3_file_control(writer->connection.handle, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    if (!moved)
        return SQLITE_OK;
    roll_back_transaction(writer);
    return SQLITE_READONLY_DBMOVED;
}

static void fail_begin(struct sqlite_writer *writer, struct sqlite_write *write, int code)
{
    if (code == SQLITE_READONLY_DBMOVED)
        error_set(write->error, HF_UNAVAILABLE,
                  "the file of the store was moved or removed; open it again");
    else
        sqlite_error(write->error, writer->connection.handle, code, "start writing");
}

/* A result that was computed in a lost transaction does not count, not even a conflict. */
static void fail_commit(struct sqlite_write *write, enum outcome outcome,
                        const struct hf_error *reason)
{
    /* A change that wrote nothing cannot appear later, so it is never UNSURE. */
    bool idle = write->change && !write->change->wrote;
    bool unsure = outcome == UNKNOWN && write->error->status == HF_OK && !idle;
    *write->error = *reason;
    write->error->status = unsure ? HF_UNSURE : HF_UNAVAILABLE;
}

/* ---- Writes one by one --------------------------------------------------------------- */

static void run_write_alone(struct sqlite_writer *writer, struct sqlite_write *write,
                            struct mono_time deadline)
{
    struct patience patience =
        patience_until(writer->database->env, deadline, SQLITE_PAUSE_MAX);
    int code;
    do
        code = begin_transaction(writer);
    while (sqlite_is_busy(code) && patience_wait(&patience));
    if (code != SQLITE_OK) {
        fail_begin(writer, write, code);
        return;
    }
    if (!apply_write(writer, write))
        return;
    struct hf_error reason;
    enum outcome outcome = commit_transaction(writer, &reason);
    if (outcome != COMMITTED)
        fail_commit(write, outcome, &reason);
}

/* ---- Lists of batches ---------------------------------------------------------------- */

static void batches_append(struct sqlite_batches *list, struct sqlite_batch *batch)
{
    batch->next = NULL;
    if (list->last)
        list->last->next = batch;
    else
        list->first = batch;
    list->last = batch;
    list->count++;
}

static void batches_prepend(struct sqlite_batches *list, struct sqlite_batch *batch)
{
    batch->next = list->first;
    list->first = batch;
    if (!list->last)
        list->last = batch;
    list->count++;
}

static void batches_remove(struct sqlite_batches *list, struct sqlite_batch *batch)
{
    struct sqlite_batch *before = NULL;
    struct sqlite_batch **link = &list->first;
    while (*link != batch) {
        before = *link;
        link = &before->next;
    }
    *link = batch->next;
    if (list->last == batch)
        list->last = before;
    list->count--;
}

/* ---- Arrivals ------------------------------------------------------------------------ */

static void add_arrival(struct sqlite_writer *writer, struct sqlite_batch *batch)
{
    /* Counted before it is in the list, because the leader subtracts what it finds in the list. */
    size_t count = atomic_fetch_add(&writer->arrived_count, 1) + 1;
    struct sqlite_batch *first = atomic_load(&writer->arrived);
    do
        batch->next = first;
    while (!atomic_compare_exchange_weak(&writer->arrived, &first, batch));
    size_t wanted = atomic_load(&writer->wanted);
    if (wanted > 0 && count >= wanted) {
        env_mutex_lock(&writer->gather_mutex);
        env_cond_signal(&writer->gathered);
        env_mutex_unlock(&writer->gather_mutex);
    }
}

/* Appends all new arrivals to the waiting batches, in order. */
static void queue_arrivals(struct sqlite_writer *writer)
{
    struct sqlite_batch *latest = atomic_exchange(&writer->arrived, NULL);
    struct sqlite_batch *in_order = NULL;
    size_t count = 0;
    for (struct sqlite_batch *next; latest; latest = next, count++) {
        next = latest->next;
        latest->next = in_order;
        in_order = latest;
    }
    atomic_fetch_sub(&writer->arrived_count, count);
    for (struct sqlite_batch *next; in_order; in_order = next) {
        next = in_order->next;
        batches_append(&writer->waiting, in_order);
    }
}

static struct sqlite_batch *first_waiting(struct sqlite_writer *writer)
{
    if (!writer->waiting.first)
        queue_arrivals(writer);
    return writer->waiting.first;
}

/* The next batch for a group that has this many writes. NULL: the group is full, or no batch is
 * waiting. */
static struct sqlite_batch *take_next_batch(struct sqlite_writer *writer, size_t writes)
{
    struct sqlite_batch *batch = first_waiting(writer);
    if (!batch || (writes > 0 && writes + batch->count > GROUP_MAX))
        return NULL;
    batches_remove(&writer->waiting, batch);
    return batch;
}

/* Removes and fails the batches whose deadline has passed. */
static void fail_late_batches(struct sqlite_writer *writer, struct sqlite_batches *ret_late)
{
    struct hf_error busy;
    error_set(&busy, HF_UNAVAILABLE, "the database was busy until the deadline");
    struct mono_time now = env_now(writer->database->env);
    queue_arrivals(writer);
    for (struct sqlite_batch *batch = writer->waiting.first, *next; batch; batch = next) {
        next = batch->next;
        if (mono_before(now, batch->deadline))
            continue;
        batches_remove(&writer->waiting, batch);
        for (size_t i = 0; i < batch->count; i++)
            *batch->writes[i].error = busy;
        batches_append(ret_late, batch);
    }
}

/* ---- A group ------------------------------------------------------------------------- */

/* Runs the waiting batches and those that arrive in the meantime, up to a change that must start a
 * new group. False if the transaction was rolled back. */
static bool apply_batches(struct sqlite_writer *writer, struct sqlite_batches *ret_group)
{
    struct sqlite_batch *batch;
    size_t writes = 0;
    while ((batch = take_next_batch(writer, writes))) {
        batches_append(ret_group, batch);
        for (size_t i = 0; i < batch->count; i++)
            if (!apply_write(writer, &batch->writes[i]))
                return false;
        if (batch->writes[0].postponed) {
            check(batch->count == 1 && ret_group->count > 1);
            batches_remove(ret_group, batch);
            batches_prepend(&writer->waiting, batch);
            break;
        }
        writes += batch->count;
    }
    return true;
}

/* Runs and commits a group in the open transaction. If it is rolled back as a whole, each write
 * is retried alone. */
static void run_group(struct sqlite_writer *writer, struct sqlite_batches *ret_group)
{
    struct hf_error reason;
    enum outcome outcome =
        apply_batches(writer, ret_group) ? commit_transaction(writer, &reason) : ROLLED_BACK;
    if (outcome == COMMITTED)
        return;
    for (struct sqlite_batch *batch = ret_group->first; batch; batch = batch->next)
        for (size_t i = 0; i < batch->count; i++)
            if (outcome == ROLLED_BACK)
                run_write_alone(writer, &batch->writes[i], batch->deadline);
            else
                fail_commit(&batch->writes[i], outcome, &reason);
}

/* Checkpoints the WAL once it has grown large. This happens before a group, when the tasks of the
 * last group have been answered. FULL takes the write lock; otherwise a steady stream of other
 * writers could let the WAL grow without bound. If the lock is busy, the checkpoint copies as much
 * as it can, and is retried some pages later. A failure loses nothing. */
static void checkpoint(struct sqlite_writer *writer)
{
    if (writer->wal_pages < writer->checkpoint_at)
        return;
    int pages = 0;
    int copied = 0;
    int code = sqlite3_wal_checkpoint_v2(writer->connection.handle, "main",
                                         SQLITE_CHECKPOINT_FULL, &pages, &copied);
    bool whole = code == SQLITE_OK && copied == pages;
    writer->checkpoint_at = CHECKPOINT_PAGES + (whole ? 0 : writer->wal_pages);
    writer->wal_pages = 0;
}

/* SQLite calls this after a commit that wrote to the WAL, when the lock is released. It is not
 * called for a group whose writes were all refused. */
static int note_commit(void *argument, sqlite3 *handle, const char *name, int pages)
{
    struct sqlite_writer *writer = argument;
    (void)handle;
    (void)name;
    writer->wal_pages = pages;
    if (writer->wakes_listeners)
        write_notify_ring(writer->notify);
    return SQLITE_OK;
}

/* ---- Waking tasks ---------------------------------------------------------------- */

/* Once a batch has been marked done, the task that owns it may free it. */
static void wake_batch(struct sqlite_batch *batch, enum sqlite_news news)
{
    env_mutex_lock(&batch->mutex);
    batch->news = news;
    env_cond_signal(&batch->told);
    env_mutex_unlock(&batch->mutex);
}

static enum sqlite_news wait_until_woken(struct sqlite_batch *batch)
{
    env_mutex_lock(&batch->mutex);
    while (batch->news == NEWS_NONE)
        env_cond_wait(&batch->told, &batch->mutex);
    enum sqlite_news news = batch->news;
    if (news == NEWS_LEAD)
        batch->news = NEWS_NONE;
    env_mutex_unlock(&batch->mutex);
    return news;
}

static bool batches_contain(const struct sqlite_batches *list,
                            const struct sqlite_batch *wanted)
{
    const struct sqlite_batch *batch = list->first;
    while (batch && batch != wanted)
        batch = batch->next;
    return batch != NULL;
}

/* Wakes the first of the answered tasks, which wakes the next, and so on. The leader's own
 * batch is taken out of the chain, because the leader may be busy with the next group. */
static void wake_answered(struct sqlite_batches *answered, struct sqlite_batch *own)
{
    if (batches_contain(answered, own)) {
        batches_remove(answered, own);
        own->next = NULL;
        wake_batch(own, NEWS_DONE);
    }
    if (answered->first)
        wake_batch(answered->first, NEWS_DONE);
}

/* ---- Leading --------------------------------------------------------------------- */

/* Begins a transaction. Waits for other processes as long as any batch has time left. */
static int begin_patiently(struct sqlite_writer *writer, struct sqlite_batch *own)
{
    struct mono_time never = { MOMENT_FAR };
    struct patience patience = patience_until(writer->database->env, never, SQLITE_PAUSE_MAX);
    int code;
    while (sqlite_is_busy(code = begin_transaction(writer))) {
        struct sqlite_batches late = { NULL, NULL, 0 };
        patience_wait(&patience);
        fail_late_batches(writer, &late);
        wake_answered(&late, own);
        if (!writer->waiting.first)
            break;
    }
    return code;
}

static void fail_group(struct sqlite_writer *writer, int code, struct sqlite_batches *ret_group)
{
    struct sqlite_batch *batch;
    for (size_t writes = 0; (batch = take_next_batch(writer, writes)); writes += batch->count) {
        batches_append(ret_group, batch);
        for (size_t i = 0; i < batch->count; i++)
            fail_begin(writer, &batch->writes[i], code);
    }
}

/* Waits briefly for others to join, if the last group suggests that they will: tasks that write
 * continuously have just been answered and are about to return. Once some of them are here, the
 * group starts, and the others arrive while it runs. */
static void wait_for_writers(struct sqlite_writer *writer)
{
    struct env *env = writer->database->env;
    size_t wanted = writer->active_tasks / GATHER_PART;
    size_t waiting = writer->waiting.count;
    if (waiting + atomic_load(&writer->arrived_count) >= wanted)
        return;
    struct span at_most = SPAN_US(writer->group_took.us / 2);
    at_most = span_smaller(at_most.us < GATHER_MIN.us ? GATHER_MIN : at_most, GATHER_MAX);
    struct mono_time until = mono_add(env_now(env), at_most);
    env_mutex_lock(&writer->gather_mutex);
    atomic_store(&writer->wanted, wanted - waiting);
    while (waiting + atomic_load(&writer->arrived_count) < wanted &&
           env_cond_wait_until(&writer->gathered, &writer->gather_mutex, until))
        ;
    atomic_store(&writer->wanted, 0);
    env_mutex_unlock(&writer->gather_mutex);
}

static bool try_to_lead(struct sqlite_writer *writer)
{
    bool led = false;
    return atomic_compare_exchange_strong(&writer->led, &led, true);
}

/* Makes the first waiting task the next leader. A task that arrives while nobody leads becomes
 * the leader itself. A task that arrived just before that may have been missed, so the loop
 * checks again. */
static void hand_over_lead(struct sqlite_writer *writer)
{
    do {
        struct sqlite_batch *next = first_waiting(writer);
        if (next) {
            wake_batch(next, NEWS_LEAD);
            return;
        }
        atomic_store(&writer->led, false);
    } while (atomic_load(&writer->arrived) && try_to_lead(writer));
}

static void run_waiting(struct sqlite_writer *writer, struct sqlite_batch *own,
                        struct sqlite_batches *ret_group)
{
    struct env *env = writer->database->env;
    struct sqlite_batches late = { NULL, NULL, 0 };
    wait_for_writers(writer);
    fail_late_batches(writer, &late);
    wake_answered(&late, own);
    if (!writer->waiting.first)
        return;
    struct mono_time start = env_now(env);
    writer->modified = env_wall(env);
    checkpoint(writer);
    int code = begin_patiently(writer, own);
    if (code == SQLITE_OK)
        run_group(writer, ret_group);
    else
        fail_group(writer, code, ret_group);
    writer->group_took = mono_since(env_now(env), start);
    writer->active_tasks =
        ret_group->count + writer->waiting.count + atomic_load(&writer->arrived_count);
}

/* There may be nothing to do: the previous leader may have run our own batch. */
static void lead(struct sqlite_writer *writer, struct sqlite_batch *own)
{
    struct env *env = writer->database->env;
    struct mono_time until = mono_add(env_now(env), LEAD_ON);
    while (first_waiting(writer)) {
        struct sqlite_batches group = { NULL, NULL, 0 };
        run_waiting(writer, own, &group);
        bool go_on = mono_before(env_now(env), until);
        if (!go_on)
            hand_over_lead(writer);
        wake_answered(&group, own);
        if (!go_on)
            return;
    }
    hand_over_lead(writer);
}

void sqlite_writer_submit(struct sqlite_writer *writer, struct sqlite_batch *batch)
{
    env_mutex_init(writer->database->env, &batch->mutex);
    env_cond_init(writer->database->env, &batch->told);
    batch->news = NEWS_NONE;
    add_arrival(writer, batch);
    bool leads = try_to_lead(writer);
    do {
        if (leads)
            lead(writer, batch);
        leads = wait_until_woken(batch) == NEWS_LEAD;
    } while (leads);
    if (batch->next)
        wake_batch(batch->next, NEWS_DONE);
    env_cond_release(&batch->told);
    env_mutex_release(&batch->mutex);
}

/* ---- Lending ------------------------------------------------------------------------- */

/* The leader has exclusive use of the connection, so a reader borrows it by becoming the
 * leader. */
bool sqlite_writer_lend(struct sqlite_writer *writer, struct sqlite_connection *ret_reader)
{
    bool lent = try_to_lead(writer);
    if (lent)
        *ret_reader = writer->connection;
    return lent;
}

void sqlite_writer_take_back(struct sqlite_writer *writer)
{
    hand_over_lead(writer);
}

/* ---- Creating and releasing ---------------------------------------------------------- */

void sqlite_writer_init(struct sqlite_writer *writer, const struct sqlite_database *database,
                        const struct sqlite_connection *connection,
                        const struct write_notify *notify)
{
    *writer = (struct sqlite_writer){
        .database = database,
        .notify = notify,
        .connection = *connection,
        .checkpoint_at = CHECKPOINT_PAGES,
    };
    env_random_hex(database->env, 16, writer->etag_prefix);
    env_mutex_init(database->env, &writer->gather_mutex);
    env_cond_init(database->env, &writer->gathered);
    sqlite3_wal_hook(connection->handle, note_commit, writer);
}

void sqlite_writer_release(struct sqlite_writer *writer)
{
    /* The next process that opens an idle store does not know how much of the WAL has been
     * checkpointed, and appends to the end of it. A WAL is written from its start again only if it
     * is empty. */
    if (writer->wal_pages > CLOSE_PAGES)
        (void)sqlite3_wal_checkpoint_v2(writer->connection.handle, "main",
                                        SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    sqlite_connection_close(&writer->connection);
    env_cond_release(&writer->gathered);
    env_mutex_release(&writer->gather_mutex);
}
