/* SPDX-License-Identifier: Apache-2.0 */
/* group.c: commits the writes of many tasks in one transaction, led by one of the tasks. No
 * write is reported as done before its commit, and one failing write does not fail the others. */
#include "store/sqlite/group.h"

#include "base/check.h"
#include "store/sqlite/apply.h"
#include "store/sqlite/log_file.h"
#include "store/toolkit.h"

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
 * transaction. As a result, one call in a few thousand returns that much later, and later by a wait
 * for the turn of this process if another process writes. */
#define LEAD_ON SPAN_MS(20)

/* A task that leads. */
struct leader {
    struct sqlite_batch *own; /* NULL: has been answered */
    struct mono_time until;   /* when it hands over, once its own batch has been answered */
};

/* The outcome of a transaction. */
enum outcome {
    COMMITTED,
    ROLLED_BACK, /* definitely not done */
    UNKNOWN,     /* it may appear after a crash */
};

/* ---- One transaction ----------------------------------------------------------------- */

void sqlite_roll_back(struct sqlite_writer *writer)
{
    if (!sqlite3_get_autocommit(writer->connection.handle))
        sqlite_run(&writer->connection, SQL_ROLLBACK);
    check(sqlite3_get_autocommit(writer->connection.handle));
}

/* A commit appends its pages to the WAL and then syncs the WAL. The last of these pages makes the
 * commit valid. If the disk is full, that page was not completely written. After any other failure
 * it may have been written. The next process that opens the store would then make the transaction
 * visible, unless another commit overwrites that part of the WAL first. So the outcome is
 * unknown.
 *
 * A transaction that wrote nothing has synced nothing either, and its answers may depend on a
 * commit of a dead writer. */
static enum outcome commit_transaction(struct sqlite_writer *writer, struct hf_error *error)
{
    if (writer->database->durable)
        log_file_gather(writer->connection.handle);
    int code = sqlite_run(&writer->connection, SQL_COMMIT);
    bool whole = log_file_gathered(writer->connection.handle);
    check(code != SQLITE_OK || whole);
    if (code == SQLITE_OK)
        return sqlite_log_settle(&writer->database->log, error) == HF_OK ? COMMITTED
                                                                         : ROLLED_BACK;
    sqlite_error(error, writer->connection.handle, code, "commit");
    sqlite_roll_back(writer);
    return (code & 0xff) == SQLITE_FULL || sqlite_is_busy(code) ? ROLLED_BACK : UNKNOWN;
}

/* A transaction that has begun can always be ended. */
static int prepare_ends(struct sqlite_connection *connection)
{
    int code = sqlite_prepare(connection, SQL_COMMIT);
    return code == SQLITE_OK ? sqlite_prepare(connection, SQL_ROLLBACK) : code;
}

/* From here to the end of the commit no other process can write, even if this process is stopped.
 * So nothing that can be done earlier or later is done in between. */
static int begin_transaction(struct sqlite_writer *writer)
{
    int code = prepare_ends(&writer->connection);
    if (code != SQLITE_OK)
        return code;
    int moved = 0; /* if somebody moved or replaced the file, further writes would be lost */
    sqlite3_file_control(writer->connection.handle, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    if (moved)
        return SQLITE_READONLY_DBMOVED;
    writer->wakes_listeners = false;
    writer->removed = false;
    writer->etag_begun = writer->etag_count;
    return sqlite_run(&writer->connection, SQL_BEGIN_WRITE);
}

static void fail_begin(struct sqlite_writer *writer, struct sqlite_write *write, int code)
{
    if (code == SQLITE_READONLY_DBMOVED)
        error_set(write->error, HF_UNAVAILABLE,
                  "the file of the store was moved or removed; open it again");
    else
        sqlite_error(write->error, writer->connection.handle, code, "start writing");
}

/* Whether the writes, which take place together, would change nothing. */
static bool is_idle(const struct sqlite_write *writes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!writes[i].change || writes[i].change->wrote)
            return false;
    return true;
}

/* A result that was computed in a lost transaction does not count, not even a conflict. A change
 * that wrote nothing cannot appear later, so it is never UNSURE. */
static void fail_commit(struct sqlite_write *writes, size_t count, enum outcome outcome,
                        const struct hf_error *reason)
{
    bool may_appear = outcome == UNKNOWN && !is_idle(writes, count);
    for (size_t i = 0; i < count; i++) {
        bool unsure = may_appear && writes[i].error->status == HF_OK;
        *writes[i].error = *reason;
        writes[i].error->status = unsure ? HF_UNSURE : HF_UNAVAILABLE;
    }
}

bool sqlite_writer_discard_unseen(struct sqlite_writer *writer)
{
    struct hf_error ignored;
    if (sqlite_prepare(&writer->connection, SQL_REWRITE) != SQLITE_OK ||
        begin_transaction(writer) != SQLITE_OK)
        return false;
    if (sqlite_run(&writer->connection, SQL_REWRITE) == SQLITE_OK)
        return commit_transaction(writer, &ignored) == COMMITTED;
    sqlite_roll_back(writer);
    return false;
}

/* ---- Writes by themselves ------------------------------------------------------------ */

/* How many writes of a batch take place together or not at all. */
static size_t unit_of(const struct sqlite_batch *batch)
{
    return batch->together ? batch->count : 1;
}

/* False if the transaction has ended. *ret_spoiled: it must not be committed, because it contains
 * nothing but part of this unit, which was refused. */
static bool apply_unit(struct sqlite_writer *writer, const struct sqlite_batch *batch,
                       struct sqlite_write *unit, bool first, bool *ret_spoiled)
{
    *ret_spoiled = false;
    return batch->together
               ? sqlite_apply_together(writer, unit, batch->count, first, ret_spoiled)
               : sqlite_apply(writer, unit);
}

/* Ends a transaction in which everything was refused. A commit would sync the pages that were
 * restored. That a change was refused may depend on what another process wrote and did not
 * sync. */
static enum outcome drop_transaction(struct sqlite_writer *writer, struct hf_error *error)
{
    sqlite_roll_back(writer);
    return sqlite_log_settle(&writer->database->log, error) == HF_OK ? COMMITTED : ROLLED_BACK;
}

static void run_unit_alone(struct sqlite_writer *writer, const struct sqlite_batch *batch,
                           struct sqlite_write *unit)
{
    size_t count = unit_of(batch);
    struct patience patience =
        patience_until(writer->database->env, batch->deadline, SQLITE_PAUSE_MAX);
    int code;
    do
        code = begin_transaction(writer);
    while (sqlite_is_busy(code) && patience_wait(&patience));
    for (size_t i = 0; code != SQLITE_OK && i < count; i++)
        fail_begin(writer, &unit[i], code);
    bool spoiled;
    if (code != SQLITE_OK || !apply_unit(writer, batch, unit, /* first */ true, &spoiled))
        return;
    struct hf_error reason;
    enum outcome outcome =
        spoiled ? drop_transaction(writer, &reason) : commit_transaction(writer, &reason);
    if (outcome != COMMITTED)
        fail_commit(unit, count, outcome, &reason);
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

/* A change that must not see what this group has written. If it is the only one of its batch, the
 * batch waits for the next group; otherwise the change is refused, and its caller tries again. */
static void refuse_postponed(struct sqlite_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        if (batch->writes[i].postponed) {
            batch->writes[i].postponed = false;
            error_set(batch->writes[i].error, HF_CONFLICT,
                      "another change of this object is not committed yet");
        }
}

/* Runs the waiting batches and those that arrive in the meantime, up to a change that must start a
 * new group. If the first of them take place together and are refused, the group ends there, and is
 * rolled back. False if the transaction was rolled back. */
static bool apply_batches(struct sqlite_writer *writer, struct sqlite_batches *ret_group)
{
    struct sqlite_batch *batch;
    size_t writes = 0;
    bool spoiled = false;
    while (!spoiled && (batch = take_next_batch(writer, writes))) {
        batches_append(ret_group, batch);
        bool first = ret_group->count == 1;
        for (size_t i = 0; i < batch->count; i += unit_of(batch))
            if (!apply_unit(writer, batch, &batch->writes[i], first, &spoiled))
                return false;
        if (batch->count > unit_of(batch))
            refuse_postponed(batch);
        if (batch->writes[0].postponed) {
            check(ret_group->count > 1);
            batches_remove(ret_group, batch);
            batches_prepend(&writer->waiting, batch);
            break;
        }
        writes += batch->count;
    }
    return true;
}

static bool group_is_idle(const struct sqlite_batches *group)
{
    for (const struct sqlite_batch *batch = group->first; batch; batch = batch->next)
        if (!is_idle(batch->writes, batch->count))
            return false;
    return true;
}

static enum outcome commit_group(struct sqlite_writer *writer,
                                 const struct sqlite_batches *group, struct hf_error *error)
{
    return group_is_idle(group) ? drop_transaction(writer, error)
                                : commit_transaction(writer, error);
}

/* Runs and commits a group in the open transaction. If it is rolled back as a whole, each write
 * is retried alone. */
static void run_group(struct sqlite_writer *writer, struct sqlite_batches *ret_group)
{
    struct hf_error reason;
    enum outcome outcome = apply_batches(writer, ret_group)
                               ? commit_group(writer, ret_group, &reason)
                               : ROLLED_BACK;
    if (outcome == COMMITTED)
        return;
    for (struct sqlite_batch *batch = ret_group->first; batch; batch = batch->next)
        for (size_t i = 0; i < batch->count; i += unit_of(batch))
            if (outcome == ROLLED_BACK)
                run_unit_alone(writer, batch, &batch->writes[i]);
            else
                fail_commit(&batch->writes[i], unit_of(batch), outcome, &reason);
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

/* SQLite calls this after a commit that wrote to the WAL and synced it, when the lock is released.
 * It is not called for a group whose writes were all refused. */
static int note_commit(void *argument, sqlite3 *handle, const char *name, int pages)
{
    struct sqlite_writer *writer = argument;
    (void)handle;
    (void)name;
    writer->wal_pages = pages;
    sqlite_log_committed(&writer->database->log);
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
static void wake_answered(struct sqlite_batches *answered, struct leader *leader)
{
    if (batches_contain(answered, leader->own)) {
        batches_remove(answered, leader->own);
        leader->own->next = NULL;
        wake_batch(leader->own, NEWS_DONE);
        leader->own = NULL;
    }
    if (answered->first)
        wake_batch(answered->first, NEWS_DONE);
}

/* ---- Leading --------------------------------------------------------------------- */

/* Other batches may have later deadlines than the leader's. */
static bool must_hand_over(const struct sqlite_writer *writer, const struct leader *leader)
{
    return !leader->own && !mono_before(env_now(writer->database->env), leader->until);
}

/* Begins a transaction. Waits for other processes as long as any batch has time left and the leader
 * may lead: in the queue, or, if it is our turn and a process that does not queue holds the lock,
 * by trying again. */
static int begin_patiently(struct sqlite_writer *writer, struct leader *leader)
{
    struct mono_time never = { MOMENT_FAR };
    struct patience patience = patience_until(writer->database->env, never, SQLITE_PAUSE_MAX);
    int code;
    while (sqlite_is_busy(code = begin_transaction(writer))) {
        struct sqlite_batches late = { NULL, NULL, 0 };
        if (!write_queue_wait(&writer->queue))
            patience_wait(&patience);
        fail_late_batches(writer, &late);
        wake_answered(&late, leader);
        if (!writer->waiting.first || must_hand_over(writer, leader))
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

static void prepare_waiting(struct sqlite_writer *writer)
{
    for (const struct sqlite_batch *batch = writer->waiting.first; batch; batch = batch->next)
        for (size_t i = 0; i < batch->count; i++)
            sqlite_prepare_write(&writer->connection, &batch->writes[i]);
}

/* If the database stays busy, the batches that have time left continue to wait. */
static void run_waiting(struct sqlite_writer *writer, struct leader *leader,
                        struct sqlite_batches *ret_group)
{
    struct env *env = writer->database->env;
    struct sqlite_batches late = { NULL, NULL, 0 };
    wait_for_writers(writer);
    write_queue_enter(&writer->queue);
    fail_late_batches(writer, &late);
    wake_answered(&late, leader);
    if (!writer->waiting.first) {
        write_queue_leave(&writer->queue);
        return;
    }
    struct mono_time start = env_now(env);
    writer->modified = env_wall(env);
    checkpoint(writer);
    prepare_waiting(writer);
    int code = begin_patiently(writer, leader);
    if (code == SQLITE_OK)
        run_group(writer, ret_group);
    else if (!sqlite_is_busy(code))
        fail_group(writer, code, ret_group);
    write_queue_leave(&writer->queue);
    writer->group_took = mono_since(env_now(env), start);
    writer->active_tasks =
        ret_group->count + writer->waiting.count + atomic_load(&writer->arrived_count);
}

/* There may be nothing to do: the previous leader may have run our own batch. */
static void lead(struct sqlite_writer *writer, struct sqlite_batch *own)
{
    struct env *env = writer->database->env;
    struct leader leader = { .until = mono_add(env_now(env), LEAD_ON) };
    queue_arrivals(writer);
    if (batches_contain(&writer->waiting, own))
        leader.own = own;
    while (first_waiting(writer)) {
        struct sqlite_batches group = { NULL, NULL, 0 };
        run_waiting(writer, &leader, &group);
        bool go_on = mono_before(env_now(env), leader.until);
        if (!go_on)
            hand_over_lead(writer);
        wake_answered(&group, &leader);
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

void sqlite_writer_init(struct sqlite_writer *writer, struct sqlite_database *database,
                        const struct sqlite_connection *connection,
                        const struct write_notify *notify)
{
    *writer = (struct sqlite_writer){
        .database = database,
        .notify = notify,
        .connection = *connection,
        .checkpoint_at = CHECKPOINT_PAGES,
    };
    write_queue_init(&writer->queue, database->env, database->path);
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
    write_queue_release(&writer->queue);
    env_cond_release(&writer->gathered);
    env_mutex_release(&writer->gather_mutex);
}
