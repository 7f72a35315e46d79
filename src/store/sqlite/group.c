#include "store/sqlite/group.h"

#include "base/check.h"
#include "base/parse.h"
#include "store/toolkit.h"

#include <inttypes.h>
#include <stdio.h>

/* Writes of one transaction, unless a single batch has more. */
#define GROUP_MAX 256

/* Pages of the WAL after which it is copied back into the database. */
#define CHECKPOINT_PAGES 1000

/* With more pages than this it is copied back before the store is closed, too. */
#define CLOSE_PAGES 64

/* A leader waits until this part of those who keep writing are back, but for at most half the
 * time that the last group took, in these bounds. */
#define GATHER_PART 8
#define GATHER_MIN  SPAN_US(100)
#define GATHER_MAX  SPAN_MS(1)

/* A leader whose own batch is done goes on for so long while others wait: to wake the next one,
 * with all the others being woken too, takes about as long as a transaction. One call among some
 * thousands returns that much later. */
#define LEAD_ON SPAN_MS(20)

/* What came of a transaction. */
enum outcome {
    COMMITTED,
    ROLLED_BACK, /* certainly */
    UNKNOWN,     /* it may show up after a crash */
};

/* ---- One write, inside the transaction ----------------------------------------------- */

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

/* OK with *ret_found false when there is no such row. */
static enum hf_status look_up(struct sqlite_writer *writer, struct sqlite_write *write,
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
        status = sqlite_error(write->error, connection->handle, code, "look for the object");
    sqlite_reset(connection, SQL_LOOKUP);
    *ret_found = code == SQLITE_ROW;
    return status;
}

/* Parameters that all statements of a put have in common. */
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

/* The commonest write, row to row by ETag, in one statement. *ret_done is false, and nothing
 * changed, when it is another write or does not apply: then it is done, or refused, step by
 * step. */
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

static int run_delete(struct sqlite_writer *writer, const struct sqlite_row *row)
{
    sqlite3_bind_int64(writer->connection.statements[SQL_DELETE], 1, row->id);
    return sqlite_run(&writer->connection, SQL_DELETE);
}

static void judge_and_run(struct sqlite_writer *writer, struct sqlite_write *write)
{
    struct sqlite_row row;
    bool found;
    if (look_up(writer, write, &row, &found) != HF_OK ||
        condition_judge(write->condition, found ? &row.info.etag : NULL, write->error) != HF_OK)
        return;
    int code = SQLITE_OK;
    if (!write->is_delete)
        code = run_put(writer, write, found ? &row : NULL);
    else if (found)
        code = run_delete(writer, &row);
    writer->removed = writer->removed || write->is_delete;
    if (code != SQLITE_OK)
        sqlite_error(write->error, writer->connection.handle, code, "write");
    else if (found)
        memcpy(write->replaced, row.file, sizeof row.file);
}

/* Writes what was decided, if anything. */
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
        error_set(write->error, HF_UNSUPPORTED, "what is to be written is too large for this");
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

static void note_loud(struct sqlite_writer *writer, const struct sqlite_write *write)
{
    writer->loud = writer->loud || (write->error->status == HF_OK && !write->quiet);
}

/* Whether an ETag was drawn in the transaction under way. */
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

/* Judges the row, or that there is none, before the caller may see it; *ret_body is what it is
 * shown. */
static enum hf_status look_before_change(struct sqlite_writer *writer,
                                         struct sqlite_write *write, sqlite3_stmt *fetch,
                                         struct sqlite_row *ret_row, struct view *ret_body)
{
    if (sqlite_row_read(fetch, ret_row, write->error) != HF_OK)
        return write->error->status;
    write->put_off = is_new_etag(writer, etag_view(&ret_row->info.etag));
    if (etag_equal(&ret_row->info.etag, &write->change->known))
        return HF_OK;
    if (ret_row->file[0] != '\0')
        return error_set(write->error, HF_UNSUPPORTED, "the object is too large for this");
    *ret_body = sqlite_row_last(fetch);
    if (ret_body->size != ret_row->info.size)
        return error_set(write->error, HF_CORRUPT, "the database has lost bytes of the object");
    return HF_OK;
}

/* Lets the caller see the row and decide. */
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
        status = look_before_change(writer, write, fetch, &row, &body);
    else if (code == SQLITE_DONE)
        write->put_off = writer->removed;
    else
        status = sqlite_error(write->error, connection->handle, code, "look for the object");
    bool decided = status == HF_OK && !write->put_off;
    if (decided)
        write->body = call->decide(call->argument, &row.info.etag, body);
    sqlite_reset(connection, SQL_FETCH);
    if (decided)
        write_decided(writer, write, code == SQLITE_ROW ? &row : NULL);
}

/* False when the write has spoiled the whole transaction; then it has the reason. */
static bool apply(struct sqlite_writer *writer, struct sqlite_write *write)
{
    bool swapped;
    write->replaced[0] = '\0';
    write->put_off = false;
    if (write->change) {
        change_row(writer, write);
        note_loud(writer, write);
        return sqlite3_get_autocommit(writer->connection.handle) == 0;
    }
    int code = swap_row(writer, write, &swapped);
    if (code != SQLITE_OK)
        sqlite_error(write->error, writer->connection.handle, code, "write");
    else if (swapped)
        error_clear(write->error);
    else
        judge_and_run(writer, write);
    note_loud(writer, write);
    return sqlite3_get_autocommit(writer->connection.handle) == 0;
}

/* ---- One transaction ----------------------------------------------------------------- */

static void roll_back(struct sqlite_writer *writer)
{
    if (!sqlite3_get_autocommit(writer->connection.handle))
        sqlite_run(&writer->connection, SQL_ROLLBACK);
    check(sqlite3_get_autocommit(writer->connection.handle));
}

/* A commit appends to the WAL, last of all the page that makes it valid, then syncs. On a full
 * disk that last page was not written whole; after any other failure it may have been, and who
 * opens the store next, after a crash or a close, before another commit has taken its place in
 * the WAL, would bring the transaction to light. */
static enum outcome commit(struct sqlite_writer *writer, struct hf_error *error)
{
    int code = sqlite_run(&writer->connection, SQL_COMMIT);
    if (code == SQLITE_OK)
        return COMMITTED;
    sqlite_error(error, writer->connection.handle, code, "commit");
    roll_back(writer);
    return (code & 0xff) == SQLITE_FULL || sqlite_is_busy(code) ? ROLLED_BACK : UNKNOWN;
}

/* Somebody removed the file or put another one in its place: what is written now is lost. */
static bool has_moved(struct sqlite_writer *writer)
{
    int moved = 0;
    sqlite3_file_control(writer->connection.handle, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    return moved != 0;
}

static int begin(struct sqlite_writer *writer)
{
    writer->loud = false;
    writer->removed = false;
    writer->etag_begun = writer->etag_count;
    int code = sqlite_run(&writer->connection, SQL_BEGIN_WRITE);
    if (code == SQLITE_OK && has_moved(writer)) {
        roll_back(writer);
        return SQLITE_READONLY_DBMOVED;
    }
    return code;
}

static void fail_begin(struct sqlite_writer *writer, struct sqlite_write *write, int code)
{
    if (code == SQLITE_READONLY_DBMOVED)
        error_set(write->error, HF_UNAVAILABLE,
                  "the file of the store was moved or removed; open it again");
    else
        sqlite_error(write->error, writer->connection.handle, code, "begin to write");
}

/* What was judged inside a transaction that is gone means nothing, a conflict neither. */
static void fail_commit(struct sqlite_write *write, enum outcome outcome,
                        const struct hf_error *reason)
{
    bool idle = write->change && !write->change->wrote;
    bool unsure = outcome == UNKNOWN && write->error->status == HF_OK && !idle;
    *write->error = *reason;
    write->error->status = unsure ? HF_UNSURE : HF_UNAVAILABLE;
}

/* ---- Writes one by one --------------------------------------------------------------- */

static void run_alone(struct sqlite_writer *writer, struct sqlite_write *write,
                      struct mono_time deadline)
{
    struct patience patience = patience_until(writer->database->env, deadline);
    int code;
    do
        code = begin(writer);
    while (sqlite_is_busy(code) && patience_wait(&patience));
    if (code != SQLITE_OK) {
        fail_begin(writer, write, code);
        return;
    }
    if (!apply(writer, write))
        return;
    struct hf_error reason;
    enum outcome outcome = commit(writer, &reason);
    if (outcome != COMMITTED)
        fail_commit(write, outcome, &reason);
}

/* ---- Lists of batches ---------------------------------------------------------------- */

static void append(struct sqlite_batches *list, struct sqlite_batch *batch)
{
    batch->next = NULL;
    if (list->last)
        list->last->next = batch;
    else
        list->first = batch;
    list->last = batch;
    list->count++;
}

static void put_first(struct sqlite_batches *list, struct sqlite_batch *batch)
{
    batch->next = list->first;
    list->first = batch;
    if (!list->last)
        list->last = batch;
    list->count++;
}

static void take_out(struct sqlite_batches *list, struct sqlite_batch *batch)
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

static void fail_batch(struct sqlite_batch *batch, const struct hf_error *error)
{
    for (size_t i = 0; i < batch->count; i++)
        *batch->writes[i].error = *error;
}

/* ---- What arrives -------------------------------------------------------------------- */

static void arrive(struct sqlite_writer *writer, struct sqlite_batch *batch)
{
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

/* Moves all that arrived behind those who wait already. */
static void receive(struct sqlite_writer *writer)
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
        append(&writer->waiting, in_order);
    }
}

static struct sqlite_batch *first_waiting(struct sqlite_writer *writer)
{
    if (!writer->waiting.first)
        receive(writer);
    return writer->waiting.first;
}

/* The next batch for a group that has so many writes, or NULL: the group is full, or nobody
 * waits. */
static struct sqlite_batch *take_next(struct sqlite_writer *writer, size_t writes)
{
    struct sqlite_batch *batch = first_waiting(writer);
    if (!batch || (writes > 0 && writes + batch->count > GROUP_MAX))
        return NULL;
    take_out(&writer->waiting, batch);
    return batch;
}

/* Takes out those whose time is over, answered. */
static void take_late(struct sqlite_writer *writer, struct sqlite_batches *ret_late)
{
    struct hf_error busy;
    error_set(&busy, HF_UNAVAILABLE, "the database was busy for all the time allowed");
    struct mono_time now = env_now(writer->database->env);
    receive(writer);
    for (struct sqlite_batch *batch = writer->waiting.first, *next; batch; batch = next) {
        next = batch->next;
        if (mono_before(now, batch->deadline))
            continue;
        take_out(&writer->waiting, batch);
        fail_batch(batch, &busy);
        append(ret_late, batch);
    }
}

/* ---- A group ------------------------------------------------------------------------- */

/* Runs what waits and what arrives meanwhile, up to a change that has to begin a group. False when
 * the transaction is gone. */
static bool apply_all(struct sqlite_writer *writer, struct sqlite_batches *ret_group)
{
    struct sqlite_batch *batch;
    bool good = true;
    for (size_t writes = 0; good && (batch = take_next(writer, writes));
         writes += batch->count) {
        append(ret_group, batch);
        for (size_t i = 0; good && i < batch->count; i++)
            good = apply(writer, &batch->writes[i]);
        if (good && batch->writes[0].put_off) {
            check(batch->count == 1 && ret_group->count > 1);
            take_out(ret_group, batch);
            put_first(&writer->waiting, batch);
            break;
        }
    }
    return good;
}

static void run_each_alone(struct sqlite_writer *writer, struct sqlite_batches *group)
{
    for (struct sqlite_batch *batch = group->first; batch; batch = batch->next)
        for (size_t i = 0; i < batch->count; i++)
            run_alone(writer, &batch->writes[i], batch->deadline);
}

static void fail_all(struct sqlite_batches *group, enum outcome outcome,
                     const struct hf_error *reason)
{
    for (struct sqlite_batch *batch = group->first; batch; batch = batch->next)
        for (size_t i = 0; i < batch->count; i++)
            fail_commit(&batch->writes[i], outcome, reason);
}

/* Its transaction is open: does it all. */
static void run_group(struct sqlite_writer *writer, struct sqlite_batches *ret_group)
{
    struct hf_error reason;
    enum outcome outcome = apply_all(writer, ret_group) ? commit(writer, &reason) : ROLLED_BACK;
    if (outcome == ROLLED_BACK)
        run_each_alone(writer, ret_group);
    else if (outcome == UNKNOWN)
        fail_all(ret_group, outcome, &reason);
}

/* Copies the WAL back once it is long; before a group, when those of the last one have their
 * answers. FULL takes the write lock, so that a steady stream of writers elsewhere cannot make
 * the WAL grow without end; where it cannot have the lock it does what it can, and it is tried
 * again some pages later. It loses nothing if it fails. */
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

/* SQLite calls this when a commit that wrote to the WAL is done and its lock given up: not for a
 * group of writes that were all refused. */
static int note_commit(void *argument, sqlite3 *handle, const char *name, int pages)
{
    struct sqlite_writer *writer = argument;
    (void)handle;
    (void)name;
    writer->wal_pages = pages;
    if (writer->loud)
        bell_ring(writer->bell);
    return SQLITE_OK;
}

/* ---- News ------------------------------------------------------------------------ */

/* Once told that it is done, a batch may be gone. */
static void tell(struct sqlite_batch *batch, enum sqlite_news news)
{
    env_mutex_lock(&batch->mutex);
    batch->news = news;
    env_cond_signal(&batch->told);
    env_mutex_unlock(&batch->mutex);
}

static enum sqlite_news wait_for_news(struct sqlite_batch *batch)
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

static bool is_among(const struct sqlite_batches *list, const struct sqlite_batch *wanted)
{
    const struct sqlite_batch *batch = list->first;
    while (batch && batch != wanted)
        batch = batch->next;
    return batch != NULL;
}

/* Tells the first of those who are answered, who tells the next; but not by way of the leader, who
 * has other things to do. */
static void finish(struct sqlite_batches *answered, struct sqlite_batch *own)
{
    if (is_among(answered, own)) {
        take_out(answered, own);
        own->next = NULL;
        tell(own, NEWS_DONE);
    }
    if (answered->first)
        tell(answered->first, NEWS_DONE);
}

/* ---- Leading --------------------------------------------------------------------- */

/* Begins a transaction, waiting for other processes as long as anybody here has the time. */
static int begin_patiently(struct sqlite_writer *writer, struct sqlite_batch *own)
{
    struct mono_time never = { MOMENT_FAR };
    struct patience patience = patience_until(writer->database->env, never);
    int code;
    while (sqlite_is_busy(code = begin(writer))) {
        struct sqlite_batches late = { NULL, NULL, 0 };
        patience_wait(&patience);
        take_late(writer, &late);
        finish(&late, own);
        if (!writer->waiting.first)
            break;
    }
    return code;
}

static void fail_group(struct sqlite_writer *writer, int code, struct sqlite_batches *ret_group)
{
    struct sqlite_batch *batch;
    for (size_t writes = 0; (batch = take_next(writer, writes)); writes += batch->count) {
        append(ret_group, batch);
        for (size_t i = 0; i < batch->count; i++)
            fail_begin(writer, &batch->writes[i], code);
    }
}

/* Waits a little for others to join, if the last group lets expect them: tasks that write all
 * the time have just been answered and are about to come back. With a few of them aboard it is
 * time to go: the others arrive while these are seen to. */
static void gather(struct sqlite_writer *writer)
{
    struct env *env = writer->database->env;
    size_t wanted = writer->crowd / GATHER_PART;
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

/* Makes the first who waits lead next. Who arrives while nobody leads sees that, and leads; who
 * arrived just before may have been overlooked, so there is a second look. */
static void pass_on(struct sqlite_writer *writer)
{
    do {
        struct sqlite_batch *next = first_waiting(writer);
        if (next) {
            tell(next, NEWS_LEAD);
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
    gather(writer);
    take_late(writer, &late);
    finish(&late, own);
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
    writer->crowd =
        ret_group->count + writer->waiting.count + atomic_load(&writer->arrived_count);
}

/* Nobody may wait any more, when the last leader took our own batch along. */
static void lead(struct sqlite_writer *writer, struct sqlite_batch *own)
{
    struct env *env = writer->database->env;
    struct mono_time until = mono_add(env_now(env), LEAD_ON);
    while (first_waiting(writer)) {
        struct sqlite_batches group = { NULL, NULL, 0 };
        run_waiting(writer, own, &group);
        bool go_on = mono_before(env_now(env), until);
        if (!go_on)
            pass_on(writer);
        finish(&group, own);
        if (!go_on)
            return;
    }
    pass_on(writer);
}

void sqlite_writer_submit(struct sqlite_writer *writer, struct sqlite_batch *batch)
{
    env_mutex_init(writer->database->env, &batch->mutex);
    env_cond_init(writer->database->env, &batch->told);
    batch->news = NEWS_NONE;
    arrive(writer, batch);
    bool leads = try_to_lead(writer);
    do {
        if (leads)
            lead(writer, batch);
        leads = wait_for_news(batch) == NEWS_LEAD;
    } while (leads);
    if (batch->next)
        tell(batch->next, NEWS_DONE);
    env_cond_release(&batch->told);
    env_mutex_release(&batch->mutex);
}

/* ---- Lending ------------------------------------------------------------------------- */

/* Whoever leads has the connection to itself, for whatever it wants. */
bool sqlite_writer_lend(struct sqlite_writer *writer, struct sqlite_connection *ret_reader)
{
    bool lent = try_to_lead(writer);
    if (lent)
        *ret_reader = writer->connection;
    return lent;
}

void sqlite_writer_take_back(struct sqlite_writer *writer)
{
    pass_on(writer);
}

/* ---- Life ---------------------------------------------------------------------------- */

void sqlite_writer_init(struct sqlite_writer *writer, const struct sqlite_database *database,
                        const struct sqlite_connection *connection, const struct bell *bell)
{
    *writer = (struct sqlite_writer){
        .database = database,
        .bell = bell,
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
    /* Who opens an idle store does not know how much of the WAL was copied back, and appends to
     * all of it: only an empty one is a fresh start. */
    if (writer->wal_pages > CLOSE_PAGES)
        (void)sqlite3_wal_checkpoint_v2(writer->connection.handle, "main",
                                        SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    sqlite_connection_close(&writer->connection);
    env_cond_release(&writer->gathered);
    env_mutex_release(&writer->gather_mutex);
}
