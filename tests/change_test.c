/* SPDX-License-Identifier: Apache-2.0 */
/* change_test.c: one object changed in one step by an `sqlite:` store: what the caller sees,
 * and the result if the object does not fit, if others wait in the same transaction, and if the
 * disk fails. */
#include "change_kit.h"
#include "fault_store.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- A change ------------------------------------------------------------------------ */

/* What the caller wants written, and what it was shown. */
struct wish {
    struct change_call call;
    struct view write; /* data NULL: nothing */
    bool make_quiet;
    void (*meanwhile)(void); /* called the first time, while the store's lock is held */
    unsigned decided;
    struct etag now;
    bool given;
    char body[64];
    size_t size;
};

static struct view decide(void *argument, const struct etag *now, struct view body)
{
    struct wish *wish = argument;
    wish->now = *now;
    wish->given = body.data != NULL;
    wish->size = body.size;
    if (body.size > 0)
        memcpy(wish->body, body.data, body.size < sizeof wish->body ? body.size : 64);
    if (wish->decided++ == 0 && wish->meanwhile)
        wish->meanwhile();
    wish->call.quiet = wish->call.quiet || wish->make_quiet;
    return wish->write;
}

static enum hf_status change(struct store *store, struct wish *wish, const char *key)
{
    wish->call.key = view_of(key);
    wish->call.decide = decide;
    wish->call.argument = wish;
    return store_change(store, &wish->call);
}

static struct etag etag_of(struct store *store, const char *key)
{
    struct buffer got = BUFFER_INIT(MIB);
    struct get_call get = { .key = view_of(key), .body = &got };
    store_get(store, &get);
    buffer_release(&got);
    return get.info.etag;
}

static bool shows(const struct wish *wish, struct view body)
{
    return wish->given && view_equal((struct view){ wish->body, wish->size }, body);
}

/* ---- What is shown ------------------------------------------------------------------- */

static void bytes_are_shown_unless_known(void **state)
{
    (void)state;
    struct store *store = open_store("s");
    struct etag first = put_text(store, "k", VIEW("one"));
    struct wish fresh = { .write = VIEW("two") };
    assert_status(HF_OK, change(store, &fresh, "k"), &fresh.call.error);
    assert_true(shows(&fresh, VIEW("one")) && etag_equal(&fresh.now, &first));
    assert_true(fresh.call.wrote && !etag_equal(&fresh.call.etag, &first));
    struct etag second = etag_of(store, "k");
    assert_true(etag_equal(&fresh.call.etag, &second));
    struct wish known = { .call = { .known = second }, .write = VIEW("three") };
    assert_status(HF_OK, change(store, &known, "k"), &known.call.error);
    assert_true(!known.given && etag_equal(&known.now, &second));
    struct wish outdated = { .call = { .known = second }, .write = VIEW("four") };
    assert_status(HF_OK, change(store, &outdated, "k"), &outdated.call.error);
    assert_true(shows(&outdated, VIEW("three")));
    assert_holds(store, "k", VIEW("four"));
    assert_int_equal(fresh.decided + known.decided + outdated.decided, 3);
    store_close(store);
}

static void absent_is_not_empty(void **state)
{
    (void)state;
    struct store *store = open_store("s");
    struct wish idle = { .write = { NULL, 0 } };
    assert_status(HF_OK, change(store, &idle, "k"), &idle.call.error);
    assert_true(!idle.given && idle.now.size == 0 && !idle.call.wrote &&
                idle.call.etag.size == 0);
    struct wish first = { .call = { .known = put_text(store, "other", VIEW("x")) },
                          .write = VIEW("") };
    assert_status(HF_OK, change(store, &first, "k"), &first.call.error);
    assert_true(!first.given && first.now.size == 0 && first.call.wrote);
    assert_holds(store, "k", VIEW(""));
    struct wish empty = { .write = VIEW("more") };
    assert_status(HF_OK, change(store, &empty, "k"), &empty.call.error);
    assert_true(empty.given && empty.size == 0 && empty.now.size > 0);
    assert_holds(store, "k", VIEW("more"));
    store_close(store);
}

static void keys_out_of_bounds_are_invalid(void **state)
{
    (void)state;
    struct store *store = open_store("s");
    struct wish wish = { .write = VIEW("x") };
    assert_status(HF_INVALID, change(store, &wish, ""), &wish.call.error);
    assert_int_equal(wish.decided, 0);
    store_close(store);
}

/* ---- Listeners ----------------------------------------------------------------------- */

static bool has_news(struct store *store, uint64_t *ticket)
{
    return store_listen(store, ticket, env_now(env_real()));
}

/* Takes in what has been heard so far. */
static uint64_t fresh_ticket(struct store *store)
{
    uint64_t ticket = 0;
    while (has_news(store, &ticket))
        ;
    return ticket;
}

static void deciding_on_nothing_writes_and_rings_nothing(void **state)
{
    (void)state;
    struct store *store = open_store("s");
    struct etag etag = put_text(store, "k", VIEW("1"));
    uint64_t ticket = fresh_ticket(store);
    int syncs = atomic_load(&log_syncs);
    struct wish idle = { .write = { NULL, 0 } };
    assert_status(HF_OK, change(store, &idle, "k"), &idle.call.error);
    assert_true(!idle.call.wrote && etag_equal(&idle.call.etag, &etag));
    assert_int_equal(atomic_load(&log_syncs), syncs);
    assert_false(has_news(store, &ticket));
    struct wish quiet = { .write = VIEW("2"), .make_quiet = true };
    assert_status(HF_OK, change(store, &quiet, "k"), &quiet.call.error);
    assert_false(has_news(store, &ticket));
    struct wish loud = { .write = VIEW("3") };
    assert_status(HF_OK, change(store, &loud, "k"), &loud.call.error);
    assert_true(has_news(store, &ticket));
    store_close(store);
}

static void put_quietly(struct store *store, const char *key, bool quiet)
{
    struct put_call call = { .key = view_of(key), .body = VIEW("x"), .quiet = quiet };
    assert_status(HF_OK, store_put(store, &call), &call.error);
}

static void delete (struct store *store, const char *key)
{
    struct delete_call call = { .key = view_of(key) };
    assert_status(HF_OK, store_delete(store, &call), &call.error);
}

static void expect_what_is_quiet(struct store *store)
{
    uint64_t ticket = fresh_ticket(store);
    put_quietly(store, "k", /* quiet */ true);
    assert_false(has_news(store, &ticket));
    put_quietly(store, "k", /* quiet */ false);
    assert_true(has_news(store, &ticket));
    ticket = fresh_ticket(store);
    store_ring(store);
    assert_true(has_news(store, &ticket));
    ticket = fresh_ticket(store);
    delete (store, "k");
    assert_true(has_news(store, &ticket));
    struct put_call mixed[2] = {
        { .key = VIEW("a"), .body = VIEW("1"), .quiet = true },
        { .key = VIEW("b"), .body = VIEW("1"), .quiet = false },
    };
    ticket = fresh_ticket(store);
    assert_status(HF_OK, store_put_many(store, mixed, 2), &mixed[0].error);
    assert_true(has_news(store, &ticket));
    store_close(store);
}

static void ignore(void *argument, const struct observation *observation)
{
    (void)argument;
    (void)observation;
}

static void quiet_puts_wake_nobody(void **state)
{
    (void)state;
    const struct observer observer = { ignore, NULL };
    const struct fault_plan no_faults = { .seed = 1 };
    char url[4200];
    struct store *store;
    struct hf_error error;
    expect_what_is_quiet(open_store("s"));
    snprintf(url, sizeof url, "dir:%s", in_dir("bucket"));
    assert_status(HF_OK, store_open(env_real(), view_of(url), &store, &error), &error);
    expect_what_is_quiet(store);
    assert_status(HF_OK, store_open(env_real(), VIEW("mem:"), &store, &error), &error);
    expect_what_is_quiet(store);
    assert_status(HF_OK, store_observe(open_store("s"), observer, &store, &error), &error);
    expect_what_is_quiet(store);
    assert_status(HF_OK, store_fault(open_store("s"), &no_faults, &store, &error), &error);
    expect_what_is_quiet(store);
}

/* ---- Too large ----------------------------------------------------------------------- */

static void too_large_is_unsupported_and_changes_nothing(void **state)
{
    (void)state;
    struct store *store = open_store("s");
    struct etag large = put_text(store, "large", (struct view){ big, LARGE });
    struct etag small = put_text(store, "small", VIEW("1"));
    uint64_t ticket = fresh_ticket(store);
    struct wish before = { .write = VIEW("2") };
    assert_status(HF_UNSUPPORTED, change(store, &before, "large"), &before.call.error);
    assert_int_equal(before.decided, 0);
    struct wish after = { .write = { big, LARGE } };
    assert_status(HF_UNSUPPORTED, change(store, &after, "small"), &after.call.error);
    assert_int_equal(after.decided, 1);
    assert_true(!after.call.wrote && after.call.etag.size == 0);
    struct etag now = etag_of(store, "large");
    assert_true(etag_equal(&now, &large));
    now = etag_of(store, "small");
    assert_true(etag_equal(&now, &small));
    assert_int_equal(count_files("s.objects"), 1);
    assert_false(has_news(store, &ticket));
    struct wish largest = { .write = { big, SQLITE_INLINE_MAX } };
    assert_status(HF_OK, change(store, &largest, "small"), &largest.call.error);
    assert_holds(store, "small", (struct view){ big, SQLITE_INLINE_MAX });
    store_close(store);
}

static void a_small_one_in_the_place_of_a_large_one_removes_its_file(void **state)
{
    (void)state;
    struct store *store = open_store("s");
    struct wish wish = { .call = { .known = put_text(store, "k", (struct view){ big, LARGE }) },
                         .write = VIEW("small") };
    assert_int_equal(count_files("s.objects"), 1);
    assert_status(HF_OK, change(store, &wish, "k"), &wish.call.error);
    assert_false(wish.given);
    assert_int_equal(count_files("s.objects"), 0);
    assert_holds(store, "k", VIEW("small"));
    store_close(store);
}

static void a_row_that_lost_bytes_is_corrupt(void **state)
{
    (void)state;
    struct store *store = open_store("s");
    put_text(store, "k", VIEW("whole"));
    store_close(store);
    run_sql("s", "UPDATE objects SET body = x'00'");
    store = open_store("s");
    struct wish wish = { .write = VIEW("new") };
    assert_status(HF_CORRUPT, change(store, &wish, "k"), &wish.call.error);
    assert_int_equal(wish.decided, 0);
    store_close(store);
}

/* ---- Many in one transaction --------------------------------------------------------- */

/* Somebody who calls the store while another's decision is being made, and so waits for the same
 * transaction. */
struct mate {
    void (*run)(struct mate *mate);
    atomic_int tid;
    struct env_task *task;
    enum hf_status status;
    struct wish wish;
};

#define MATES_MAX 8

static struct {
    struct store *store;
    struct mate mates[MATES_MAX];
    size_t count;
} crowd;

static void run_mate(void *argument)
{
    struct mate *mate = argument;
    atomic_store(&mate->tid, (int)syscall(SYS_gettid));
    mate->run(mate);
}

static bool sleeps(int tid)
{
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    const char *state = strrchr(line, ')');
    return state && state[1] == ' ' && state[2] == 'S';
}

/* Starts them one by one. There is nothing else that they could sleep for than their turn: nobody
 * but the leader, who is in the middle of a decision, touches the store. */
static void let_all_come(void)
{
    for (size_t i = 0; i < crowd.count; i++) {
        struct mate *mate = &crowd.mates[i];
        struct hf_error error;
        assert_status(HF_OK, env_task_start(env_real(), run_mate, mate, &mate->task, &error),
                      &error);
        int slept = 0;
        for (int spin = 0; spin < 10000 && slept < 3; spin++) {
            int tid = atomic_load(&mate->tid);
            slept = tid > 0 && sleeps(tid) ? slept + 1 : 0;
            env_sleep(env_real(), SPAN_US(500));
        }
        assert_true(slept == 3);
    }
}

static void wait_for_all(void)
{
    for (size_t i = 0; i < crowd.count; i++)
        env_task_join(env_real(), crowd.mates[i].task);
}

static void crowd_init(struct store *store)
{
    memset(&crowd, 0, sizeof crowd);
    crowd.store = store;
}

static struct mate *crowd_add(void (*run)(struct mate *mate))
{
    struct mate *mate = &crowd.mates[crowd.count++];
    mate->run = run;
    return mate;
}

static void put_b(struct mate *mate)
{
    struct put_call call = { .key = VIEW("b"), .body = VIEW("b1"), .condition = if_absent() };
    mate->status = store_put(crowd.store, &call);
}

static void put_b_again(struct mate *mate)
{
    put_b(mate);
}

static void delete_d(struct mate *mate)
{
    struct delete_call call = { .key = VIEW("d") };
    mate->status = store_delete(crowd.store, &call);
}

static void change_a(struct mate *mate)
{
    mate->status = change(crowd.store, &mate->wish, "a");
}

static void change_c(struct mate *mate)
{
    mate->status = change(crowd.store, &mate->wish, "c");
}

static void change_d(struct mate *mate)
{
    mate->status = change(crowd.store, &mate->wish, "d");
}

static void changes_and_puts_share_a_commit(void **state)
{
    (void)state;
    struct store *store = open_store("s");
    put_text(store, "a", VIEW("a0"));
    put_text(store, "c", VIEW("c0"));
    put_text(store, "d", VIEW("d0"));
    crowd_init(store);
    const struct mate *wins = crowd_add(put_b);
    const struct mate *loses = crowd_add(put_b_again);
    struct mate *changes = crowd_add(change_c);
    const struct mate *removes = crowd_add(delete_d);
    changes->wish.write = VIEW("c1");
    struct wish wish = { .write = VIEW("a1"), .meanwhile = let_all_come };
    int syncs = atomic_load(&log_syncs);
    assert_status(HF_OK, change(store, &wish, "a"), &wish.call.error);
    wait_for_all();
    assert_int_equal(atomic_load(&log_syncs), syncs + 1);
    assert_int_equal(wins->status, HF_OK);
    assert_int_equal(loses->status, HF_CONFLICT);
    assert_int_equal(changes->status, HF_OK);
    assert_int_equal(removes->status, HF_OK);
    assert_true(shows(&changes->wish, VIEW("c0")));
    assert_holds(store, "a", VIEW("a1"));
    assert_holds(store, "b", VIEW("b1"));
    assert_holds(store, "c", VIEW("c1"));
    struct hf_error error;
    assert_int_equal(get_status(store, "d", &error), HF_NOT_FOUND);
    store_close(store);
}

static void a_change_sees_what_others_have_committed_only(void **state)
{
    (void)state;
    struct store *store = open_store("s");
    struct etag old = put_text(store, "a", VIEW("a0"));
    crowd_init(store);
    struct mate *mate = crowd_add(change_a);
    mate->wish.write = VIEW("a2");
    struct wish wish = { .write = VIEW("a1"), .meanwhile = let_all_come };
    int syncs = atomic_load(&log_syncs);
    assert_status(HF_OK, change(store, &wish, "a"), &wish.call.error);
    wait_for_all();
    assert_int_equal(atomic_load(&log_syncs), syncs + 2);
    assert_true(shows(&mate->wish, VIEW("a1")));
    assert_true(etag_equal(&mate->wish.now, &wish.call.etag));
    assert_holds(store, "a", VIEW("a2"));

    old = put_text(store, "a", VIEW("a3"));
    crowd_init(store);
    mate = crowd_add(change_a);
    mate->wish.write = VIEW("a5");
    wish = (struct wish){ .write = VIEW("a4"), .meanwhile = let_all_come };
    atomic_store(&syncs_to_fail, 1);
    assert_status(HF_UNSURE, change(store, &wish, "a"), &wish.call.error);
    wait_for_all();
    assert_int_equal(mate->status, HF_OK);
    assert_true(shows(&mate->wish, VIEW("a3")) && etag_equal(&mate->wish.now, &old));
    assert_holds(store, "a", VIEW("a5"));
    store_close(store);
}

static void an_absence_is_seen_when_it_is_committed_only(void **state)
{
    (void)state;
    struct store *store = open_store("s");
    put_text(store, "d", VIEW("d0"));
    crowd_init(store);
    const struct mate *removes = crowd_add(delete_d);
    struct mate *changes = crowd_add(change_d);
    changes->wish.write = VIEW("d1");
    struct wish wish = { .write = VIEW("a1"), .meanwhile = let_all_come };
    atomic_store(&syncs_to_fail, 1);
    assert_status(HF_UNSURE, change(store, &wish, "a"), &wish.call.error);
    wait_for_all();
    assert_int_equal(removes->status, HF_UNSURE);
    assert_int_equal(changes->status, HF_OK);
    assert_true(shows(&changes->wish, VIEW("d0")));
    assert_holds(store, "d", VIEW("d1"));
    store_close(store);
}

static void who_decides_on_nothing_beside_a_quiet_write_wakes_nobody(void **state)
{
    (void)state;
    struct store *store = open_store("s");
    put_text(store, "a", VIEW("a0"));
    put_text(store, "c", VIEW("c0"));
    uint64_t ticket = fresh_ticket(store);
    crowd_init(store);
    const struct mate *idle = crowd_add(change_c);
    struct wish wish = { .write = VIEW("a1"), .make_quiet = true, .meanwhile = let_all_come };
    assert_status(HF_OK, change(store, &wish, "a"), &wish.call.error);
    wait_for_all();
    assert_true(idle->status == HF_OK && idle->wish.decided == 1);
    assert_false(has_news(store, &ticket));
    store_close(store);
}

/* ---- Failures ------------------------------------------------------------------------ */

static void it_is_decided_again_when_its_group_failed(void **state)
{
    (void)state;
    struct store *store = open_store("s");
    struct etag old = put_text(store, "a", VIEW("a0"));
    crowd_init(store);
    const struct mate *mate = crowd_add(put_b);
    struct wish wish = { .write = VIEW("a1"), .meanwhile = let_all_come };
    atomic_store(&writes_to_fail, 1);
    assert_status(HF_OK, change(store, &wish, "a"), &wish.call.error);
    wait_for_all();
    assert_int_equal(wish.decided, 2);
    assert_true(shows(&wish, VIEW("a0")) && etag_equal(&wish.now, &old));
    assert_int_equal(mate->status, HF_OK);
    assert_holds(store, "a", VIEW("a1"));
    assert_holds(store, "b", VIEW("b1"));
    store_close(store);
}

static void without_room_it_is_unavailable_and_nothing_was_written(void **state)
{
    (void)state;
    struct store *store = open_store("s");
    struct etag old = put_text(store, "k", VIEW("1"));
    struct wish wish = { .write = VIEW("2") };
    uint64_t ticket = fresh_ticket(store);
    atomic_store(&writes_to_fail, 1000);
    assert_status(HF_UNAVAILABLE, change(store, &wish, "k"), &wish.call.error);
    atomic_store(&writes_to_fail, 0);
    assert_true(!wish.call.wrote && wish.call.etag.size == 0);
    assert_false(has_news(store, &ticket));
    struct etag now = etag_of(store, "k");
    assert_true(etag_equal(&now, &old));
    store_close(store);
    store = open_store("s");
    assert_holds(store, "k", VIEW("1"));
    store_close(store);
}

static void an_unsynced_commit_is_unsure_for_who_wrote_alone(void **state)
{
    (void)state;
    struct store *store = open_store("s");
    put_text(store, "a", VIEW("a0"));
    put_text(store, "c", VIEW("c0"));
    crowd_init(store);
    struct mate *idle = crowd_add(change_c);
    struct wish wish = { .write = VIEW("a1"), .meanwhile = let_all_come };
    atomic_store(&syncs_to_fail, 1);
    assert_status(HF_UNSURE, change(store, &wish, "a"), &wish.call.error);
    wait_for_all();
    assert_true(!wish.call.wrote && wish.call.etag.size == 0);
    assert_int_equal(idle->wish.decided, 1);
    assert_int_equal(idle->status, HF_UNAVAILABLE);
    assert_holds(store, "a", VIEW("a0"));
    store_close(store);
}

static void a_busy_database_is_unavailable_in_time(void **state)
{
    (void)state;
    struct store *store = open_store("s");
    put_text(store, "k", VIEW("1"));
    sqlite3 *other = keep_busy("s");
    struct mono_time start = env_now(env_real());
    struct wish wish = { .call = { .deadline = mono_add(start, SPAN_MS(50)) },
                         .write = VIEW("2") };
    assert_status(HF_UNAVAILABLE, change(store, &wish, "k"), &wish.call.error);
    assert_true(mono_since(env_now(env_real()), start).us < 1000000);
    assert_int_equal(wish.decided, 0);
    sqlite3_close(other);
    wish.call.deadline = (struct mono_time){ 0 };
    assert_status(HF_OK, change(store, &wish, "k"), &wish.call.error);
    store_close(store);
}

/* ---- Through the observer ------------------------------------------------------------ */

static void a_change_is_told_as_what_others_would_have_asked(void **state)
{
    (void)state;
    struct seen seen = { 0 };
    struct store *store = open_observed(&seen);
    uint64_t ticket = fresh_ticket(store);
    struct wish wish = { .write = VIEW("one"), .make_quiet = true };
    assert_status(HF_OK, change(store, &wish, "k"), &wish.call.error);
    assert_false(has_news(store, &ticket));
    assert_int_equal(seen.bytes_sent, 3);
    assert_seen(&seen, 1, 1, 1); /* a get that found nothing */
    struct wish known = { .call = { .known = wish.call.etag }, .write = VIEW("two") };
    assert_status(HF_OK, change(store, &known, "k"), &known.call.error);
    assert_seen(&seen, 0, 1, 0);
    assert_status(HF_OK, change(store, &known, "k"), &known.call.error);
    assert_int_equal(seen.bytes_received, 3);
    assert_seen(&seen, 1, 1, 0);
    struct wish idle = { .write = { NULL, 0 } };
    assert_status(HF_OK, change(store, &idle, "k"), &idle.call.error);
    assert_seen(&seen, 1, 0, 0);
    struct wish large = { .write = { big, LARGE } };
    assert_status(HF_UNSUPPORTED, change(store, &large, "k"), &large.call.error);
    assert_seen(&seen, 0, 0, 0);
    struct wish unsure = { .call = { .known = idle.call.etag }, .write = VIEW("three") };
    atomic_store(&syncs_to_fail, 1);
    assert_status(HF_UNSURE, change(store, &unsure, "k"), &unsure.call.error);
    assert_seen(&seen, 0, 1, 1);
    store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("the bytes are shown unless the caller has them", bytes_are_shown_unless_known),
        IT("an absent object and an empty one are told apart", absent_is_not_empty),
        IT("a key out of bounds is invalid", keys_out_of_bounds_are_invalid),
        IT("deciding on nothing writes nothing and rings nothing",
           deciding_on_nothing_writes_and_rings_nothing),
        IT("a quiet put wakes nobody; a ring, a delete and any other put do",
           quiet_puts_wake_nobody),
        IT("what is too large for a row is unsupported, and nothing is changed",
           too_large_is_unsupported_and_changes_nothing),
        IT("a small object in the place of a large one removes its file",
           a_small_one_in_the_place_of_a_large_one_removes_its_file),
        IT("a row that has lost bytes is corrupt", a_row_that_lost_bytes_is_corrupt),
        IT("changes, puts and deletes of many tasks share a commit",
           changes_and_puts_share_a_commit),
        IT("a change sees only what others have committed",
           a_change_sees_what_others_have_committed_only),
        IT("a change sees that an object is gone only when that is committed",
           an_absence_is_seen_when_it_is_committed_only),
        IT("who decides on nothing beside a quiet write wakes nobody",
           who_decides_on_nothing_beside_a_quiet_write_wakes_nobody),
        IT("it is decided again when its group has failed",
           it_is_decided_again_when_its_group_failed),
        IT("without room on the disk it is unavailable, and nothing was written",
           without_room_it_is_unavailable_and_nothing_was_written),
        IT("a commit without a sync is unsure for those who wrote, and unavailable for others",
           an_unsynced_commit_is_unsure_for_who_wrote_alone),
        IT("while the database is busy it is unavailable in time, and not decided",
           a_busy_database_is_unavailable_in_time),
        IT("a change is told to an observer as the requests that it stands for",
           a_change_is_told_as_what_others_would_have_asked),
    };
    disk_stand_between();
    return sqlite_steps_run(tests, sizeof tests / sizeof tests[0]);
}
