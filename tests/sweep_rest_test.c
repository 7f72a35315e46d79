/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_rest_test.c: how the sweeper handles transactions, unused tables, objects that no index
 * names, and partitions. The runs themselves are in sweep_test.c. */
#include "job_kit.h"
#include "key/record.h"
#include "lock/epoch.h"
#include "lock/expiry.h"
#include "sweep_kit.h"

#include <stdio.h>
#include <stdlib.h>

static struct hf_error error;

/* More than stands in a document. */
#define LARGE ((size_t)6000)

/* ---- Transactions -------------------------------------------------------------------- */

/* A transaction that has changed the keys a and b. */
static struct hf_txn *begin(struct sweep_kit *kit)
{
    const char *const names[] = { "a", "b" };
    struct hf_key_options options = HF_KEY_OPTIONS;
    struct hf_key *keys[2];
    struct hf_txn *txn;
    options.ttl_ms = 60000;
    publish(&kit->two, "a", "old a");
    publish(&kit->two, "b", "old b");
    MUST(hf_txn_begin(kit->two.client, NULL, &txn, &error));
    MUST(hf_txn_acquire(txn, names, 2, &options, 0, keys, &error));
    update(keys[0], "new a");
    update(keys[1], "new b");
    return txn;
}

/* Its process dies. */
static void die(struct sweep_kit *kit, struct hf_txn *txn)
{
    way_shut(&kit->two.way, "", REFUSE(HF_UNAVAILABLE));
    hf_txn_free(txn);
    way_open(&kit->two.way);
}

/* ... after the decision, before anything else. */
static void commit_and_die(struct sweep_kit *kit, struct hf_txn *txn)
{
    way_shut(&kit->two.way, "default/meta/", LOSE);
    MUST(hf_txn_commit(txn, NULL, &error));
    die(kit, txn);
}

static void read_both(struct sweep_kit *kit, const char *which)
{
    char a[16], b[16];
    snprintf(a, sizeof a, "%s a", which);
    snprintf(b, sizeof b, "%s b", which);
    reads(&kit->two, "a", a);
    reads(&kit->two, "b", b);
}

static size_t stages(struct sweep_kit *kit)
{
    return world_times(&kit->world, "default/meta/a.json", "\"stage\"") +
           world_times(&kit->world, "default/meta/b.json", "\"stage\"");
}

static void what_nobody_decided_is_rolled_back(void **state)
{
    struct sweep_kit *kit = *state;
    die(kit, begin(kit));
    enter(kit, "a");
    enter(kit, "b");
    assert_int_equal(stages(kit), 2);
    pass(kit, HOURS(2));
    struct sweep_report report = run(kit);
    assert_int_equal(report.leases_cleared, 2);
    assert_int_equal(report.stages_settled, 2);
    assert_int_equal(report.entries_deleted, 2);
    assert_int_equal(report.markers_deleted, 0);
    assert_int_equal(stages(kit), 0);
    read_both(kit, "old");
    assert_int_equal(objects(kit, TXN_RECORDS), 1); /* as long as somebody may ask */
    pass(kit, PAST_D);
    report = run(kit);
    assert_int_equal(report.markers_deleted, 1);
    assert_int_equal(report.entries_deleted, 1);
    assert_int_equal(objects(kit, ".txn-decisions/"), 0);
    publish(&kit->two, "a", "newer a");
}

static void what_is_committed_is_promoted(void **state)
{
    struct sweep_kit *kit = *state;
    commit_and_die(kit, begin(kit));
    enter(kit, "a");
    enter(kit, "b");
    pass(kit, HOURS(2));
    struct sweep_report report = run(kit);
    assert_int_equal(report.stages_settled, 2);
    assert_int_equal(stages(kit), 0);
    read_both(kit, "new");
    pass(kit, PAST_D);
    assert_int_equal(run(kit).markers_deleted, 1);
    read_both(kit, "new");
}

/* Whatever the index of leases says: the record that goes looks after its keys. */
static void a_record_goes_when_all_is_applied(void **state)
{
    struct sweep_kit *kit = *state;
    struct sweep_options idle = by_hand();
    idle.mode = SWEEP_IDLE;
    commit_and_die(kit, begin(kit));
    pass(kit, HOURS(2));
    assert_int_equal(run(kit).ops, 0);
    pass(kit, PAST_D);
    way_shut(&kit->one.way, "default/meta/b", REFUSE(HF_UNAVAILABLE));
    struct sweep_report report = run_with(kit, &idle);
    assert_int_equal(report.failed, 1);
    assert_int_equal(report.markers_deleted, 0);
    assert_int_equal(objects(kit, TXN_RECORDS), 1);
    assert_int_equal(objects(kit, TXN_ENTRIES), 1);
    way_open(&kit->one.way);
    report = run_with(kit, &idle);
    assert_int_equal(report.stop, HF_SWEEP_STOP_DONE); /* its own work does not stop it */
    assert_int_equal(report.markers_deleted, 1);
    assert_int_equal(report.entries_deleted, 1);
    assert_int_equal(stages(kit), 0);
    assert_int_equal(objects(kit, ".txn-decisions/"), 0);
    read_both(kit, "new");
}

static void what_is_pending_for_long_is_over(void **state)
{
    struct sweep_kit *kit = *state;
    die(kit, begin(kit));
    pass(kit, PAST_D);
    struct sweep_report report = run(kit);
    assert_int_equal(report.rolled_back, 1);
    assert_int_equal(report.entries_moved, 1);
    assert_int_equal(report.markers_deleted, 0);
    assert_int_equal(objects(kit, TXN_ENTRIES), 1);
    pass(kit, PAST_D);
    report = run(kit);
    assert_int_equal(report.markers_deleted, 1);
    assert_int_equal(report.entries_deleted, 1);
    read_both(kit, "old");
    publish(&kit->two, "a", "newer a"); /* a missing record means the same */
    reads(&kit->two, "a", "newer a");
}

/* One that was begun and never written down. */
static void an_entry_without_a_record_goes(void **state)
{
    struct sweep_kit *kit = *state;
    world_write(&kit->world, TXN_ENTRIES "2026010710/0123456789abcdef0123456789abcdef",
                VIEW("{}"));
    struct sweep_report report = run(kit);
    assert_int_equal(report.entries_deleted, 1);
    assert_int_equal(report.markers_deleted, 0);
    assert_int_equal(objects(kit, ".txn-decisions/"), 0);
}

static void a_record_without_an_entry_is_found(void **state)
{
    struct sweep_kit *kit = *state;
    die(kit, begin(kit));
    struct list_call list = { .prefix = VIEW(TXN_ENTRIES) };
    must(store_list(kit->world.truth, &list), &list.error, "list", __LINE__);
    assert_int_equal(list.count, 1);
    struct delete_call lost = { .key = list.entries[0].key };
    must(store_delete(kit->world.truth, &lost), &lost.error, "delete", __LINE__);
    list_release(&list);
    pass(kit, PAST_D);
    assert_int_equal(run(kit).rolled_back, 0);
    assert_int_equal(run_full(kit).rolled_back, 1);
    pass(kit, PAST_D);
    assert_int_equal(run_full(kit).markers_deleted, 1);
    assert_int_equal(objects(kit, TXN_RECORDS), 0);
}

/* ---- Tables that nobody uses --------------------------------------------------------- */

static uint64_t epoch(struct sweep_kit *kit)
{
    uint64_t epoch;
    MUST(
        epoch_read(kit->world.truth, VIEW("default"), (struct mono_time){ 0 }, &epoch, &error));
    return epoch;
}

static uint64_t use(struct sweep_kit *kit, const char *name)
{
    struct hf_lock *lock = lock_held(&kit->two, name, 60000);
    uint64_t token = hf_lock_token(lock);
    IS(HF_OK, hf_lock_release(lock, &error));
    hf_lock_free(lock);
    return token;
}

static void tables_go_when_d_has_passed(void **state)
{
    struct sweep_kit *kit = *state;
    leave_locks(kit, "a", 3, 60000);
    uint64_t before = use(kit, "b");
    enter(kit, "b");
    pass(kit, HOURS(1));
    assert_int_equal(run(kit).entries_moved, 4);
    pass(kit, HOURS(24));
    assert_int_equal(run(kit).ops, 0);
    pass(kit, HOURS(2));
    assert_int_equal(epoch(kit), 0);
    struct sweep_report report = run(kit);
    assert_int_equal(report.tables_purged, 4);
    assert_int_equal(report.entries_deleted, 4);
    assert_int_equal(epoch(kit), 1); /* once for all of them */
    assert_int_equal(objects(kit, "default/"), 0);
    assert_true(use(kit, "b") > before);
}

static void a_table_that_was_used_stays(void **state)
{
    struct sweep_kit *kit = *state;
    leave_locks(kit, "a", 1, 60000);
    pass(kit, HOURS(1));
    run(kit);
    use(kit, "a0");
    pass(kit, PAST_D);
    struct sweep_report report = run(kit);
    assert_int_equal(report.tables_purged, 0);
    assert_int_equal(report.entries_moved, 1);
    assert_int_equal(epoch(kit), 0);
    pass(kit, PAST_D);
    assert_int_equal(run(kit).tables_purged, 1);
}

/* ... up to the last moment. */
static void use_now(void *argument, const struct sweep_report *report)
{
    (void)report;
    leave_lock(&((struct sweep_kit *)argument)->two, "a0", 60000);
}

static void a_table_that_is_used_meanwhile_stays(void **state)
{
    struct sweep_kit *kit = *state;
    struct sweep_options options = by_hand();
    options.progress = use_now;
    options.argument = kit;
    leave_locks(kit, "a", 1, 60000);
    pass(kit, HOURS(1));
    run(kit);
    pass(kit, PAST_D);
    assert_int_equal(run_with(kit, &options).tables_purged, 0);
    assert_int_equal(leases(kit, "a0"), 1);
}

static void the_epoch_is_raised_once_an_hour(void **state)
{
    struct sweep_kit *kit = *state;
    leave_locks(kit, "a", 2, 60000);
    pass(kit, HOURS(1));
    run(kit);
    pass(kit, PAST_D);
    struct wall_time now = env_wall(&kit->env);
    kit->cursor.raised_hour = now.us / HOUR_SPAN.us; /* by an earlier run */
    struct sweep_report report = run(kit);
    assert_int_equal(report.tables_purged, 0);
    assert_int_equal(report.entries_moved, 2);
    assert_int_equal(epoch(kit), 0);
    pass(kit, HOURS(2));
    assert_int_equal(run(kit).tables_purged, 2);
    assert_int_equal(epoch(kit), 1);
}

/* Tokens that are below the epoch anyway need no other. */
static void the_epoch_is_raised_where_it_has_to_be(void **state)
{
    struct sweep_kit *kit = *state;
    struct hf_client *client = kit->two.client;
    uint64_t raised;
    uint64_t before = use(kit, "a0");
    enter(kit, "a0");
    pass(kit, HOURS(1));
    run(kit);
    pass(kit, PAST_D);
    struct epoch_ref ref =
        epoch_of_tables(&client->space, mono_add(env_now(&kit->env), SPAN_S(10)));
    MUST(epoch_raise(&ref, /* by */ 1, &raised, &error));
    assert_int_equal(run(kit).tables_purged, 1);
    assert_int_equal(epoch(kit), raised);
    assert_true(use(kit, "a0") > before);
}

static void what_holds_something_stays(void **state)
{
    struct sweep_kit *kit = *state;
    publish(&kit->two, "kept", "text");
    publish(&kit->two, "gone", "text");
    struct hf_key *key = key_held(&kit->two, "gone");
    MUST(hf_key_remove(key, NULL, NULL, &error));
    done(key);
    enter(kit, "kept");
    enter(kit, "gone");
    pass(kit, HOURS(1));
    struct sweep_report report = run(kit);
    assert_int_equal(report.entries_deleted, 1);
    assert_int_equal(report.entries_moved, 1);
    pass(kit, PAST_D);
    assert_int_equal(run(kit).tables_purged, 1);
    reads(&kit->two, "kept", "text");
    reads(&kit->two, "gone", NULL);
}

/* ---- Everything ---------------------------------------------------------------------- */

/* The listings of client one tell the date, as those of a store on the network. */
static void tell_date(void *argument, struct script_call *call)
{
    struct env *env = argument;
    call->list->stamp = (struct store_stamp){
        .known = true, .date = env_wall(env), .sent = env_now(env), .received = env_now(env)
    };
}

static void leases_without_an_entry_are_found(void **state)
{
    struct sweep_kit *kit = *state;
    leave_lock(&kit->two, "over", 60000);
    leave_lock(&kit->two, "inode:7", 60000);
    pass(kit, SPAN_S(3000));
    leave_lock(&kit->two, "live", 3600000);
    world_write(&kit->world, "other/meta/over.json", VIEW("not of this namespace"));
    world_write(&kit->world, "default/readme", VIEW("nor a table"));
    pass(kit, SPAN_S(1200));
    assert_int_equal(run(kit).ops, 0);
    struct sweep_report report = run_full(kit);
    assert_int_equal(report.ops, 3);
    assert_int_equal(report.leases_cleared, 2);
    assert_int_equal(report.failed, 0);
    assert_int_equal(leases(kit, "live"), 1);
    assert_int_equal(leases(kit, "over"), 0);
}

/* Where nobody can tell for how long a table stands, the index is told of it. */
static void a_full_sweep_purges_tables_too(void **state)
{
    struct sweep_kit *kit = *state;
    use(kit, "a");
    pass(kit, PAST_D);
    assert_int_equal(run_full(kit).tables_purged, 0);
    assert_int_equal(objects(kit, ENTRIES), 1);
    pass(kit, PAST_D);
    assert_int_equal(run(kit).tables_purged, 1);
    use(kit, "a");
    script_rule(&kit->one.way, .on = ON_LIST, .reply = tell_date, .argument = &kit->env);
    pass(kit, HOURS(24)); /* not past it: there is the skew */
    assert_int_equal(run_full(kit).tables_purged, 0);
    pass(kit, HOURS(1));
    assert_int_equal(run_full(kit).tables_purged, 1);
    assert_int_equal(objects(kit, "default/"), 0);
}

/* A holder of k has written a body, and nobody knows whether its document names it. */
static void leave_body(struct sweep_kit *kit, const char *text)
{
    struct hf_key *key = key_held(&kit->two, "k");
    MUST(hf_key_update(key, text, LARGE, NULL, NULL, &error));
    way_shut(&kit->two.way, "default/meta/", LOSE);
    IS(HF_UNSURE, hf_key_update(key, text + 1, LARGE, NULL, NULL, &error));
    hf_key_detach(key);
    way_open(&kit->two.way);
}

static void states_that_nothing_names_go(void **state)
{
    struct sweep_kit *kit = *state;
    char *text = bytes_of(LARGE + 1, 1);
    leave_body(kit, text);
    assert_int_equal(bodies(&kit->world, "k"), 2);
    assert_int_equal(run_full(kit).states_deleted, 0); /* its holder may still name it */
    assert_int_equal(bodies(&kit->world, "k"), 2);
    pass(kit, HOURS(1));
    struct sweep_report report = run_full(kit);
    assert_int_equal(report.leases_cleared, 1);
    assert_int_equal(report.states_deleted, 1);
    assert_int_equal(report.failed, 0);
    assert_int_equal(bodies(&kit->world, "k"), 1);
    text[LARGE] = '\0'; /* what is published is still there */
    void *data;
    size_t size;
    MUST(hf_key_get(kit->two.client, "k", LARGE, &data, &size, NULL, &error));
    assert_memory_equal(data, text, LARGE);
    hf_free(data);
    free(text);
    world_write(&kit->world, "default/state/k/readme", VIEW("?"));
    assert_int_equal(run_full(kit).failed, 1); /* not ours */
    assert_int_equal(bodies(&kit->world, "k"), 2);
}

/* A write that names it may still be under way: the document is written first, so that it comes too
 * late. */
static void a_state_goes_after_a_swap(void **state)
{
    struct sweep_kit *kit = *state;
    char *text = bytes_of(LARGE + 1, 1);
    leave_body(kit, text);
    enter(kit, "k");
    pass(kit, HOURS(1));
    assert_int_equal(run(kit).leases_cleared, 1);
    char *before = world_text(&kit->world, DOCUMENT);
    assert_int_equal(run_full(kit).states_deleted, 1);
    char *after = world_text(&kit->world, DOCUMENT);
    assert_string_not_equal(before, after);
    assert_int_equal(run_full(kit).states_deleted,
                     0); /* and where there is nothing to delete */
    char *again = world_text(&kit->world, DOCUMENT);
    assert_string_equal(again, after); /* it is left alone */
    free(before);
    free(after);
    free(again);
    free(text);
}

/* A body that is staged for a transaction is named. */
static void states_that_are_staged_stay(void **state)
{
    struct sweep_kit *kit = *state;
    const char *const names[] = { "a" };
    struct hf_key *key;
    struct hf_txn *txn;
    char *text = bytes_of(LARGE, 1);
    MUST(hf_txn_begin(kit->two.client, NULL, &txn, &error));
    MUST(hf_txn_acquire(txn, names, 1, NULL, 0, &key, &error));
    MUST(hf_key_update(key, text, LARGE, NULL, NULL, &error));
    run_full(kit);
    assert_int_equal(bodies(&kit->world, "a"), 1);
    commit_and_die(kit, txn);
    pass(kit, HOURS(1));
    assert_int_equal(run_full(kit).stages_settled, 1);
    assert_int_equal(bodies(&kit->world, "a"), 1);
    void *data;
    size_t size;
    MUST(hf_key_get(kit->two.client, "a", LARGE, &data, &size, NULL, &error));
    assert_memory_equal(data, text, LARGE);
    hf_free(data);
    free(text);
}

static void states_that_are_named_as_old_go(void **state)
{
    struct sweep_kit *kit = *state;
    char *text = bytes_of(LARGE, 1);
    struct hf_key *key = key_held(&kit->two, "k");
    MUST(hf_key_update(key, text, LARGE, NULL, NULL, &error));
    way_shut(&kit->two.way, "default/state/", REFUSE(HF_UNAVAILABLE));
    update(key, "short");
    done(key);
    way_open(&kit->two.way);
    assert_int_equal(bodies(&kit->world, "k"), 1);
    assert_int_equal(world_times(&kit->world, DOCUMENT, "\"old\""), 1);
    struct sweep_report report = run_full(kit);
    assert_int_equal(report.states_deleted, 1);
    assert_int_equal(bodies(&kit->world, "k"), 0);
    assert_int_equal(world_times(&kit->world, DOCUMENT, "\"old\""), 0);
    reads(&kit->two, "k", "short");
    free(text);
}

/* A state of k, which nothing names any more since its document is gone. */
static char *lose_document(struct sweep_kit *kit)
{
    char *text = bytes_of(LARGE, 1);
    struct hf_key *key = key_held(&kit->two, "k");
    MUST(hf_key_update(key, text, LARGE, NULL, NULL, &error));
    done(key);
    free(text);
    char *document = world_text(&kit->world, DOCUMENT);
    struct delete_call call = { .key = VIEW(DOCUMENT) };
    assert_int_equal(store_delete(kit->world.truth, &call), HF_OK);
    assert_int_equal(bodies(&kit->world, "k"), 1);
    return document;
}

#define SIGHTS ".holdfast/sight/default/state/k/"

static void a_state_without_its_document_waits(void **state)
{
    struct sweep_kit *kit = *state;
    struct sweep_options dry = by_hand();
    free(lose_document(kit));
    dry.full = dry.dry_run = true;
    run_with(kit, &dry);
    assert_int_equal(objects(kit, SIGHTS), 0);
    assert_int_equal(run_full(kit).states_deleted, 0);
    assert_int_equal(objects(kit, SIGHTS), 1); /* since now it is seen */
    pass(kit, HOURS(47));
    assert_int_equal(run_full(kit).states_deleted, 0);
    assert_int_equal(run_with(kit, &dry).states_deleted, 0);
    pass(kit, HOURS(2));
    assert_int_equal(run_with(kit, &dry).states_deleted, 1);
    assert_int_equal(run_full(kit).states_deleted, 1);
    assert_int_equal(bodies(&kit->world, "k"), 0);
    assert_int_equal(objects(kit, SIGHTS), 0);
}

static void a_document_that_comes_back_keeps_its_state(void **state)
{
    struct sweep_kit *kit = *state;
    char *document = lose_document(kit);
    assert_int_equal(run_full(kit).states_deleted, 0);
    world_write(&kit->world, DOCUMENT, view_of(document));
    pass(kit, HOURS(49));
    assert_int_equal(run_full(kit).states_deleted, 0);
    assert_int_equal(bodies(&kit->world, "k"), 1);
    assert_int_equal(objects(kit, SIGHTS), 0); /* what was seen is over */
    free(document);
}

/* By the dates of the store, where it has some. */
static void dates_tell_since_when_a_state_is_there(void **state)
{
    struct sweep_kit *kit = *state;
    free(lose_document(kit));
    script_rule(&kit->one.way, .on = ON_LIST, .reply = tell_date, .argument = &kit->env);
    pass(kit, HOURS(48)); /* not past it: there is the skew */
    assert_int_equal(run_full(kit).states_deleted, 0);
    pass(kit, HOURS(1));
    assert_int_equal(run_full(kit).states_deleted, 1);
    assert_int_equal(objects(kit, SIGHTS), 0);
}

#define NONCE_TEXT "0123456789abcdef0123456789abcdef"
#define OBJECT     "data/object"

/* An object written with token 3, and bodies beside it that nothing names. */
static void write_fenced(struct sweep_kit *kit, const char *text)
{
    for (int i = 0; i < 2; i++)
        use(kit, "writer");
    struct hf_lock *lock = lock_held(&kit->two, "writer", 60000);
    assert_int_equal(hf_lock_token(lock), 3);
    MUST(hf_fenced_put(lock, OBJECT, text, LARGE, &error));
    IS(HF_OK, hf_lock_release(lock, &error));
    hf_lock_free(lock);
    const char *const beside[] = { OBJECT ".hf/2-7-" NONCE_TEXT,
                                   OBJECT ".hf/3-9-" NONCE_TEXT,
                                   OBJECT ".hf/12-1-" NONCE_TEXT,
                                   "data/never.hf/1-1-" NONCE_TEXT,
                                   OBJECT ".hf/readme",
                                   "data/plain.hf/1-1-" NONCE_TEXT,
                                   "data/plain" };
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
        world_write(&kit->world, beside[i], VIEW("?"));
}

static void read_fenced(struct sweep_kit *kit, const char *text)
{
    void *data;
    size_t size;
    MUST(hf_fenced_get(kit->two.client, OBJECT, LARGE, &data, &size, NULL, &error));
    assert_int_equal(size, LARGE);
    assert_memory_equal(data, text, LARGE);
    hf_free(data);
}

static void bodies_of_fenced_objects_go(void **state)
{
    struct sweep_kit *kit = *state;
    char *text = bytes_of(LARGE, 1);
    write_fenced(kit, text);
    size_t before = objects(kit, "data/");
    pass(kit, PAST_D);
    assert_int_equal(run_full(kit).bodies_deleted, 1); /* of the lower token */
    assert_null(world_text(&kit->world, OBJECT ".hf/2-7-" NONCE_TEXT));
    assert_int_equal(objects(kit, "data/"), before - 1);
    read_fenced(kit, text);
    script_rule(&kit->one.way, .on = ON_LIST, .reply = tell_date, .argument = &kit->env);
    assert_int_equal(run_full(kit).bodies_deleted, 0); /* a swap sent late may name them */
    pass(kit, PAST_D);
    const char *young = OBJECT ".hf/3-8-" NONCE_TEXT;
    world_write(&kit->world, young, VIEW("?"));
    assert_int_equal(run_full(kit).bodies_deleted, 3); /* what is old: also where no fence is */
    assert_null(world_text(&kit->world, OBJECT ".hf/12-1-" NONCE_TEXT));
    char *still = world_text(&kit->world, young); /* its fence may be under way */
    assert_non_null(still);
    free(still);
    assert_int_equal(objects(kit, "data/plain"), 2); /* what is no fence says nothing */
    assert_int_equal(objects(kit, OBJECT ".hf/readme"), 1);
    read_fenced(kit, text);
    pass(kit, PAST_D);
    assert_int_equal(run_full(kit).bodies_deleted, 0);
    pass(kit, PAST_D);
    assert_int_equal(run_full(kit).bodies_deleted, 1);
    assert_int_equal(run_full(kit).bodies_deleted, 0);
    read_fenced(kit, text);
    free(text);
}

static void a_damaged_table_is_replaced(void **state)
{
    struct sweep_kit *kit = *state;
    world_write(&kit->world, LAYOUT_EPOCH_FOLDER "default.json",
                VIEW("{\"format\":\"" LAYOUT_EPOCH_FORMAT "\",\"epoch\":0}"));
    world_write(&kit->world, "default/meta/a.json", VIEW("{"));
    struct sweep_report report = run_full(kit);
    assert_int_equal(report.failed, 0);
    assert_int_equal(objects(kit, LAYOUT_KEPT_FOLDER), 1);
    assert_int_equal(leases(kit, "a"), 1); /* the barrier */
}

static void a_full_sweep_goes_on_where_it_stopped(void **state)
{
    struct sweep_kit *kit = *state;
    struct sweep_options options = by_hand();
    uint64_t ops = 0, cleared = 0;
    int runs = 0;
    options.full = true;
    options.settings.ops_max = 3;
    for (int i = 0; i < 10; i++)
        leave_lock(&kit->two, (char[]){ (char)('a' + i), '\0' }, 60000);
    pass(kit, HOURS(1));
    for (; cleared < 10 && runs < 20; runs++) {
        struct sweep_report report = run_with(kit, &options);
        assert_true(report.ops <= 3);
        ops += report.ops;
        cleared += report.leases_cleared;
    }
    assert_int_equal(cleared, 10);
    assert_int_equal(ops, 10);
    assert_int_equal(runs, 4);
}

static void a_dry_run_of_everything_writes_nothing(void **state)
{
    struct sweep_kit *kit = *state;
    struct sweep_options options = by_hand();
    char *text = bytes_of(LARGE + 1, 1);
    options.full = true;
    options.dry_run = true;
    write_fenced(kit, text);
    script_rule(&kit->one.way, .on = ON_LIST, .reply = tell_date, .argument = &kit->env);
    pass(kit, PAST_D);
    leave_body(kit, text);
    die(kit, begin(kit));
    pass(kit, PAST_D);
    uint64_t before = fingerprint(kit);
    struct sweep_report would = run_with(kit, &options);
    assert_true(fingerprint(kit) == before);
    struct sweep_report did = run_full(kit);
    assert_int_equal(would.leases_cleared, did.leases_cleared);
    assert_int_equal(would.stages_settled, did.stages_settled);
    assert_int_equal(would.states_deleted, did.states_deleted);
    assert_int_equal(would.bodies_deleted, did.bodies_deleted);
    assert_int_equal(would.tables_purged, did.tables_purged);
    assert_int_equal(would.rolled_back, did.rolled_back);
    assert_true(did.leases_cleared == 3 && did.stages_settled == 2 && did.states_deleted == 1);
    assert_true(did.bodies_deleted == 4 && did.tables_purged == 1);
    free(text);
}

/* Whichever call fails, a later run does the rest; nothing that is needed is lost. */
static void any_call_of_a_full_sweep_may_fail(void **state)
{
    struct sweep_kit *kit = *state;
    const struct fate fates[] = { REFUSE(HF_UNAVAILABLE), LOSE, LOSE_REPLY };
    struct sweep_options options = by_hand();
    struct sweep_report report;
    char *text = bytes_of(LARGE + 1, 1);
    options.full = true;
    for (size_t i = 0; i < 3; i++) {
        bool failed = true;
        for (long n = 0; failed; n++) {
            leave_body(kit, text);
            commit_and_die(kit, begin(kit));
            pass(kit, HOURS(1));
            way_fail(&kit->one.way, n, fates[i]);
            sweep_run(kit->one.client, &options, &kit->cursor, &report, &error);
            failed = way_has_failed(&kit->one.way);
            run_full(kit);
            run_full(kit);
            assert_int_equal(bodies(&kit->world, "k"), 1);
            assert_int_equal(stages(kit), 0);
            read_both(kit, "new");
            pass(kit, PAST_D);
            run(kit);
            assert_int_equal(objects(kit, ".txn-decisions/"), 0);
        }
    }
    free(text);
}

/* ---- Partitions ---------------------------------------------------------------------- */

static struct sweep_report maintain(struct bench *bench, bool dry_run)
{
    struct sweep_options options = by_hand();
    struct sweep_cursor cursor = { 0 };
    struct sweep_report report;
    options.dry_run = dry_run;
    MUST(sweep_run(bench->hands[0].peer.client, &options, &cursor, &report, &error));
    return report;
}

static void partitions_are_maintained(void **state)
{
    struct bench bench;
    struct compact_settings settings = bench_settings();
    char output[KEY_BYTES_MAX + 1];
    (void)state;
    settings.late_bound_ms = 300;
    bench_open(&bench, 2, &settings);
    bench_add(&bench, 3);
    struct order *order = bench_order(&bench.hands[0]);
    ASSERT(run_job(&bench.hands[0], order).end == HF_COMPACT_END_COMMITTED);
    order_free(order);
    bench_add(&bench, 3);
    order = bench_order(&bench.hands[0]);
    hand_dies_with(&bench.hands[1], order, 0, output);
    order_free(order);
    pass_ms(2);
    struct sweep_report report = maintain(&bench, /* dry_run */ true);
    assert_int_equal(report.ops, 1);
    assert_int_equal(report.outputs_condemned + report.chunks_deleted, 0);
    assert_int_equal(bench_audit(&bench).condemned, 0);
    report = maintain(&bench, /* dry_run */ false);
    assert_int_equal(report.ops, 1);
    assert_int_equal(report.failed, 0);
    assert_int_equal(report.outputs_condemned, 1);
    assert_int_equal(report.chunks_deleted, 3 + 1); /* sources, and the output */
    assert_int_equal(report.names_dropped, 0);
    pass_ms(400);
    assert_int_equal(maintain(&bench, /* dry_run */ false).names_dropped, 4);
    SOUND(&bench);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SWEEP("a transaction that nobody decided is rolled back, its record purged D later",
              what_nobody_decided_is_rolled_back),
        SWEEP("what a transaction has committed is promoted", what_is_committed_is_promoted),
        SWEEP("a record goes only when all its keys were seen without their stages",
              a_record_goes_when_all_is_applied),
        SWEEP("what is pending for longer than D is rolled back, then purged",
              what_is_pending_for_long_is_over),
        SWEEP("an entry without a record goes", an_entry_without_a_record_goes),
        SWEEP("a record without an entry is found by a full sweep",
              a_record_without_an_entry_is_found),
        SWEEP("tables that nobody uses go when D has passed, and the epoch is raised once",
              tables_go_when_d_has_passed),
        SWEEP("a table that was used since stays", a_table_that_was_used_stays),
        SWEEP("a table that is used meanwhile stays", a_table_that_is_used_meanwhile_stays),
        SWEEP("the epoch is raised once an hour", the_epoch_is_raised_once_an_hour),
        SWEEP("the epoch is not raised where it is above the tokens",
              the_epoch_is_raised_where_it_has_to_be),
        SWEEP("a table that holds a state stays, that of a removed one goes",
              what_holds_something_stays),
        SWEEP("leases that the index does not know are found by a full sweep",
              leases_without_an_entry_are_found),
        SWEEP("a full sweep purges tables too, or tells the index of them",
              a_full_sweep_purges_tables_too),
        SWEEP("states that nothing names and nobody can name go", states_that_nothing_names_go),
        SWEEP("a state goes after a swap of its document", a_state_goes_after_a_swap),
        SWEEP("a state without its document goes 2 D after it was first seen",
              a_state_without_its_document_waits),
        SWEEP("a document that comes back keeps its state",
              a_document_that_comes_back_keeps_its_state),
        SWEEP("a state without its document goes 2 D after its date",
              dates_tell_since_when_a_state_is_there),
        SWEEP("states that are staged stay", states_that_are_staged_stay),
        SWEEP("states that are named as old go", states_that_are_named_as_old_go),
        SWEEP("bodies of fenced objects that nobody can name go, others stay",
              bodies_of_fenced_objects_go),
        SWEEP("a damaged table is replaced", a_damaged_table_is_replaced),
        SWEEP("a full sweep goes on where it stopped", a_full_sweep_goes_on_where_it_stopped),
        SWEEP("a dry run of everything writes nothing, and tells what a run then does",
              a_dry_run_of_everything_writes_nothing),
        SWEEP("whichever call of a full sweep fails, a later one does the rest",
              any_call_of_a_full_sweep_may_fail),
        IT("partitions are tended: outputs condemned, chunks deleted, names dropped D later",
           partitions_are_maintained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
