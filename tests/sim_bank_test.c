/* SPDX-License-Identifier: Apache-2.0 */
/* sim_bank_test.c: the simulator's checks of keys and transactions, on objects and answers that
 * the test writes by hand: correct histories pass, and each fault is found. */
#include "checker_kit.h"
#include "sim/checkers/bank_checker.h"

#include <inttypes.h>
#include <stdio.h>

#define T1     "11111111111111111111111111111111"
#define T2     "22222222222222222222222222222222"
#define E1     "e1111111111111111111111111111111"
#define E2     "e2222222222222222222222222222222"
#define E3     "e3333333333333333333333333333333"
#define RECORD ".txn-decisions/m/"
#define BODY   "default/state/x/1-" E1
#define LATE   SPAN_S(100)
enum { X, Y, JAR };
static const char *const keys[] = { "x", "y", "jar" };

/* ---- Histories ------------------------------------------------------------------------- */

static void begin(struct history *history)
{
    struct bank_checker_options options = {
        .keys = keys, .key_count = 3, .pairs = 1, .late_bound = LATE
    };
    history->checker = bank_checker_new(&history->run, &options);
}

static void end(struct history *history)
{
    bank_checker_free(history->checker);
}

static const struct court court = { begin, end };

/* ---- What is written --------------------------------------------------------------------- */

/* One version: an operation, its balance and its ETag. */
struct version {
    uint64_t number, operation;
    int64_t balance;
    const char *etag;
    bool body;
};

static const char *version_text(struct history *history, const struct version *version,
                                uint64_t token)
{
    char state[64];
    bank_checker_text(version->operation, version->balance, 20, state);
    const char *what =
        version->body ? "\"body\":true" : text(history, "\"text\":\"%.20s\"", state);
    return text(history,
                "{\"version\":%" PRIu64 ",\"token\":%" PRIu64
                ",\"etag\":\"%s\",\"size\":20,%s}",
                version->number, token, version->etag, what);
}

/* A document: who holds it, what is published, and what is staged for whom. */
struct document {
    uint64_t active; /* the token of a lease; 0: none */
    uint64_t next_token;
    struct version now; /* without an ETag: none */
    uint64_t now_token;
    const char *txn; /* NULL: nothing is staged */
    uint64_t stage_token;
    struct version next; /* without an ETag: it changes nothing */
};

static void write_key(struct history *history, size_t key, const struct document *document)
{
    const char *lease = "", *now = "", *next = "", *stage = "";
    if (document->active > 0)
        lease = text(history,
                     "\"l\":{\"lease_id\":\"l\",\"token\":%" PRIu64 ",\"status\":\"active\"}",
                     document->active);
    if (document->now.etag)
        now = text(history, ",\"now\":%s",
                   version_text(history, &document->now, document->now_token));
    if (document->next.etag)
        next = text(history, ",\"next\":%s",
                    version_text(history, &document->next, document->stage_token));
    if (document->txn)
        stage = text(history, ",\"stage\":{\"txn\":\"%s\",\"token\":%" PRIu64 "%s}",
                     document->txn, document->stage_token, next);
    history_put(history, text(history, "default/meta/%s.json", keys[key]),
                text(history,
                     "{\"format\":\"holdfast.lease-table/1\",\"next_token\":%" PRIu64
                     ",\"leases\":{%s},\"state\":{\"old\":[]%s%s}}",
                     document->next_token > 0 ? document->next_token : 10, lease, now, stage));
}

#define WRITE(history, key, ...) write_key(history, key, &(struct document){ __VA_ARGS__ })

static void record(struct history *history, const char *id, const char *state,
                   const char *names)
{
    history_put(
        history, text(history, RECORD "%s", id),
        text(history,
             "{\"format\":\"holdfast.txn/1\",\"id\":\"%s\",\"state\":\"%s\",\"keys\":[%s]}", id,
             state, names));
}

static uint64_t asks(struct history *history, size_t key, const char *txn, int64_t balance)
{
    return bank_checker_writes(history->checker, key, view_of(txn), balance);
}

/* A key that was written under token 1, by operation 1, and is free. */
static void begin_with_x(struct history *history)
{
    uint64_t operation = asks(history, X, "", 0);
    WRITE(history, X, .active = 1);
    WRITE(history, X, .active = 1, .now = { 1, operation, 0, E1, false }, .now_token = 1);
    WRITE(history, X, .now = { 1, operation, 0, E1, false }, .now_token = 1);
}

/* x and y are taken for T1 under token 1 each, and 5 is to go from x to jar. */
#define TAKE(history, key) WRITE(history, key, .active = 1, .txn = T1, .stage_token = 1)
#define STAGE(history, key, operation, balance, stage_etag)       \
    WRITE(history, key, .active = 1, .txn = T1, .stage_token = 1, \
          .next = { 1, operation, balance, stage_etag, false })
#define HOLDS(history, key, operation, balance, now_etag) \
    WRITE(history, key, .now = { 1, operation, balance, now_etag, false }, .now_token = 1)

static void stage_transfer(struct history *history)
{
    record(history, T1, "pending", "");
    TAKE(history, X);
    TAKE(history, JAR);
    bank_checker_told_taken(history->checker, VIEW(T1), X);
    bank_checker_told_taken(history->checker, VIEW(T1), JAR);
    STAGE(history, X, asks(history, X, T1, 5), 5, E1);
    STAGE(history, JAR, asks(history, JAR, T1, -5), -5, E2);
    bank_checker_told_write(history->checker, 1, /* staged */ true, HF_OK);
    bank_checker_told_write(history->checker, 2, /* staged */ true, HF_OK);
}

static void commit_transfer(struct history *history)
{
    record(history, T1, "commit", "\"default/x\",\"default/jar\"");
    bank_checker_told_end(history->checker, VIEW(T1), HF_COMMIT, HF_OK, HF_COMMIT);
}

static void settle_transfer(struct history *history)
{
    HOLDS(history, X, 1, 5, E1);
    HOLDS(history, JAR, 2, -5, E2);
}

static void get(struct history *history, uint64_t began, size_t key, enum hf_status status,
                uint64_t operation, int64_t balance, const char *etag)
{
    char state[20];
    struct hf_key_info info = { .struct_size = sizeof info, .version = operation > 0 };
    snprintf(info.etag, sizeof info.etag, "%s", etag);
    bank_checker_text(operation, balance, sizeof state, state);
    bank_checker_told_get(history->checker, began, key, status,
                          (struct view){ state, sizeof state }, &info);
}

/* ---- Stories that are well --------------------------------------------------------------- */

static void a_transfer(struct history *history)
{
    uint64_t began = bank_checker_now(history->checker);
    stage_transfer(history);
    get(history, began, X, HF_NOT_FOUND, 0, 0, "");
    commit_transfer(history);
    get(history, began, X, HF_OK, 1, 5, E1); /* before it is promoted */
    settle_transfer(history);
    history_pass(history, LATE);
    take(history, RECORD T1);
    bank_checker_end(history->checker);
}

static void a_transfer_that_is_rolled_back(struct history *history)
{
    stage_transfer(history);
    record(history, T1, "rollback", "");
    bank_checker_told_end(history->checker, VIEW(T1), HF_COMMIT, HF_MISMATCH, HF_ROLLBACK);
    WRITE(history, X, .active = 0);
    WRITE(history, JAR, .active = 0);
    history_pass(history, LATE);
    take(history, RECORD T1);
    bank_checker_end(history->checker);
}

static void keys_given_back(struct history *history)
{
    record(history, T1, "pending", "");
    TAKE(history, X);
    WRITE(history, X, .active = 0);
}

static void a_body_that_is_replaced(struct history *history)
{
    asks(history, X, "", 0);
    asks(history, X, "", 0);
    WRITE(history, X, .active = 1);
    history_put(history, BODY, "1 0 ................");
    WRITE(history, X, .active = 1, .now = { 1, 1, 0, E1, true }, .now_token = 1);
    bank_checker_told_write(history->checker, 1, false, HF_OK);
    WRITE(history, X, .active = 1, .now = { 2, 2, 0, E2, false }, .now_token = 1);
    take(history, BODY);
    WRITE(history, X, .now = { 2, 2, 0, E2, false }, .now_token = 1);
    bank_checker_end(history->checker);
}

static void staged_dropped_and_told_as_refused(struct history *history)
{
    stage_transfer(history);
    uint64_t second = asks(history, X, T1, 6);
    STAGE(history, X, second, 6, E3);
    record(history, T1, "rollback", "");
    WRITE(history, X, .active = 0);
    bank_checker_told_write(history->checker, second, /* staged */ true, HF_EXPIRED);
}

static void taken_anew_after_the_commit(struct history *history)
{
    stage_transfer(history);
    commit_transfer(history);
    settle_transfer(history);
    WRITE(history, X, .active = 2, .now = { 1, 1, 5, E1, false }, .now_token = 1, .txn = T1,
          .stage_token = 2);
    history_pass(history, LATE);
    take(history, RECORD T1);
}

static void two_stage_at_a_time(struct history *history)
{
    stage_transfer(history);
    uint64_t lower = asks(history, X, T1, 5), higher = asks(history, X, T1, 5);
    STAGE(history, X, higher, 5, E3);
    STAGE(history, X, lower, 5, E2);
    bank_checker_told_write(history->checker, lower, /* staged */ true, HF_OK);
    bank_checker_told_write(history->checker, higher, /* staged */ true, HF_OK);
    commit_transfer(history);
}

/* Under a lease alone. */
static void stage_alone(struct history *history)
{
    WRITE(history, X, .active = 1);
    WRITE(history, X, .active = 1, .txn = "", .stage_token = 1,
          .next = { 1, asks(history, X, "", 0), 0, E1, false });
}

static void published_over_what_was_staged(struct history *history)
{
    stage_alone(history);
    WRITE(history, X, .active = 1, .now = { 1, asks(history, X, "", 0), 0, E2, false },
          .now_token = 1);
    bank_checker_told_dropped(history->checker, 1);
}

static void a_removed_key_that_goes(struct history *history)
{
    WRITE(history, X, .active = 1);
    history_put(
        history, "default/meta/x.json",
        "{\"format\":\"holdfast.lease-table/1\",\"next_token\":10,\"leases\":{},\"state\":{}}");
    take(history, "default/meta/x.json");
    history_put(history, "default/meta/x.json", "{\"format\":\"holdfast.lease-table/1\"}");
}

/* ---- Keys -------------------------------------------------------------------------------- */

static void a_version_is_left_out(struct history *history)
{
    begin_with_x(history);
    uint64_t operation = asks(history, X, "", 0);
    WRITE(history, X, .active = 2, .now = { 1, 1, 0, E1, false }, .now_token = 1);
    WRITE(history, X, .active = 2, .now = { 3, operation, 0, E2, false }, .now_token = 2);
}

static void published_by_who_holds_nothing(struct history *history)
{
    begin_with_x(history);
    WRITE(history, X, .now = { 2, asks(history, X, "", 0), 0, E2, false }, .now_token = 1);
}

static void published_with_the_grant(struct history *history)
{
    WRITE(history, X, .active = 1, .now = { 1, asks(history, X, "", 0), 0, E1, false },
          .now_token = 1);
}

static void an_earlier_version_comes_back(struct history *history)
{
    asks(history, X, "", 0);
    asks(history, X, "", 0);
    WRITE(history, X, .active = 1);
    WRITE(history, X, .active = 1, .now = { 1, 1, 0, E1, false }, .now_token = 1);
    WRITE(history, X, .active = 1, .now = { 2, 2, 0, E2, false }, .now_token = 1);
    WRITE(history, X, .active = 1, .now = { 3, 1, 0, E1, false }, .now_token = 1);
}

static void lost_under_its_lease(struct history *history)
{
    stage_alone(history);
    WRITE(history, X, .active = 1);
}

static void published_after_its_lease(struct history *history)
{
    stage_alone(history);
    WRITE(history, X, .txn = "", .stage_token = 1, .next = { 1, 1, 0, E1, false });
    HOLDS(history, X, 1, 0, E1);
}

static void what_nobody_wrote(struct history *history)
{
    WRITE(history, X, .active = 1);
    WRITE(history, X, .active = 1, .now = { 1, 7, 0, E1, false }, .now_token = 1);
}

static void tokens_that_fall(struct history *history)
{
    WRITE(history, X, .next_token = 10);
    WRITE(history, X, .next_token = 9);
}

static void a_document_that_goes(struct history *history)
{
    begin_with_x(history);
    take(history, "default/meta/x.json");
}

static void a_document_that_is_none(struct history *history)
{
    history_put(history, "default/meta/x.json", "{\"leases\":");
}

static void a_body_that_is_not_there(struct history *history)
{
    asks(history, X, "", 0);
    WRITE(history, X, .active = 1);
    WRITE(history, X, .active = 1, .now = { 1, 1, 0, E1, true }, .now_token = 1);
}

static void a_body_that_goes(struct history *history)
{
    asks(history, X, "", 0);
    WRITE(history, X, .active = 1);
    history_put(history, BODY, "1 0 ................");
    WRITE(history, X, .active = 1, .now = { 1, 1, 0, E1, true }, .now_token = 1);
    take(history, BODY);
}

static void a_body_written_twice(struct history *history)
{
    history_put(history, BODY, "1 0 ................");
    history_put(history, BODY, "1 0 ................");
}

/* ---- Stages ------------------------------------------------------------------------------ */

static void taken_without_a_record(struct history *history)
{
    TAKE(history, X);
}

static void taken_under_no_lease(struct history *history)
{
    record(history, T1, "pending", "");
    WRITE(history, X, .txn = T1, .stage_token = 1);
}

static void published_though_it_is_taken(struct history *history)
{
    record(history, T1, "pending", "");
    TAKE(history, X);
    WRITE(history, X, .active = 1, .txn = T1, .stage_token = 1,
          .now = { 1, asks(history, X, "", 0), 0, E1, false }, .now_token = 1);
}

static void promoted_before_the_decision(struct history *history)
{
    stage_transfer(history);
    HOLDS(history, X, 1, 5, E1);
}

static void dropped_after_the_commit(struct history *history)
{
    stage_transfer(history);
    commit_transfer(history);
    WRITE(history, X, .active = 0);
}

static void let_go_before_the_decision(struct history *history)
{
    stage_transfer(history);
    WRITE(history, X, .active = 0);
}

static void given_back_after_it_was_told(struct history *history)
{
    record(history, T1, "pending", "");
    TAKE(history, X);
    bank_checker_told_taken(history->checker, VIEW(T1), X);
    WRITE(history, X, .active = 0);
}

static void staged_after_the_commit(struct history *history)
{
    stage_transfer(history);
    commit_transfer(history);
    STAGE(history, X, asks(history, X, T1, 5), 5, E3);
}

static void taken_up_under_another_lease(struct history *history)
{
    stage_transfer(history);
    WRITE(history, X, .active = 2, .txn = T1, .stage_token = 2);
}

/* ---- Records ----------------------------------------------------------------------------- */

static void born_as_a_commit(struct history *history)
{
    record(history, T1, "commit", "");
}

static void decided_twice(struct history *history)
{
    record(history, T1, "pending", "");
    record(history, T1, "rollback", "");
    record(history, T1, "commit", "");
}

static void begun_after_its_end(struct history *history)
{
    record(history, T1, "rollback", "");
    history_pass(history, LATE);
    take(history, RECORD T1);
    record(history, T1, "pending", "");
}

static void a_participant_without_its_stage(struct history *history)
{
    record(history, T1, "pending", "");
    record(history, T1, "commit", "\"default/x\"");
}

static void a_stage_that_is_not_named(struct history *history)
{
    stage_transfer(history);
    record(history, T1, "commit", "\"default/x\"");
}

static void a_key_that_was_taken_is_not(struct history *history)
{
    record(history, T1, "pending", "");
    bank_checker_told_taken(history->checker, VIEW(T1), Y);
    record(history, T1, "commit", "");
}

static void not_what_was_staged_last(struct history *history)
{
    stage_transfer(history);
    bank_checker_told_write(history->checker, asks(history, X, T1, 5), true, HF_UNSURE);
    STAGE(history, X, 3, 5, E3);
    bank_checker_told_write(history->checker, 3, /* staged */ true, HF_OK);
    STAGE(history, X, 1, 5, E1);
    record(history, T1, "commit", "\"default/x\",\"default/jar\"");
}

static void named_after_the_decision(struct history *history)
{
    record(history, T1, "pending", "");
    record(history, T1, "commit", "");
    record(history, T1, "commit", "\"default/x\"");
}

static void a_record_that_goes_too_soon(struct history *history)
{
    record(history, T1, "rollback", "");
    history_pass(history, SPAN_US(LATE.us / 2));
    take(history, RECORD T1);
}

static void a_pending_record_that_goes(struct history *history)
{
    record(history, T1, "pending", "");
    history_pass(history, LATE);
    take(history, RECORD T1);
}

static void a_record_that_goes_before_its_stages(struct history *history)
{
    stage_transfer(history);
    commit_transfer(history);
    history_pass(history, LATE);
    take(history, RECORD T1);
}

static void a_record_that_goes_before_a_key_that_was_only_read(struct history *history)
{
    record(history, T1, "pending", "");
    TAKE(history, X);
    record(history, T1, "commit", "\"default/x\"");
    history_pass(history, LATE);
    take(history, RECORD T1);
}

static void without_a_removal(struct history *history)
{
    stage_transfer(history);
    uint64_t removal = bank_checker_removes(history->checker, X, VIEW(T1));
    bank_checker_told_write(history->checker, removal, /* staged */ true, HF_OK);
    record(history, T1, "commit", "\"default/x\",\"default/jar\"");
}

static void anothers_record(struct history *history)
{
    history_put(history, RECORD T1, "{\"id\":\"" T2 "\",\"state\":\"pending\"}");
}

/* ---- Money ------------------------------------------------------------------------------- */

static void money_is_made(struct history *history)
{
    WRITE(history, JAR, .active = 1);
    WRITE(history, JAR, .active = 1, .now = { 1, asks(history, JAR, "", 3), 3, E1, false },
          .now_token = 1);
}

static void a_pair_is_overdrawn(struct history *history)
{
    record(history, T1, "pending", "");
    TAKE(history, Y);
    TAKE(history, JAR);
    STAGE(history, Y, asks(history, Y, T1, -5), -5, E1);
    STAGE(history, JAR, asks(history, JAR, T1, 5), 5, E2);
    record(history, T1, "commit", "\"default/y\",\"default/jar\"");
}

/* ---- Answers ----------------------------------------------------------------------------- */

static void told_as_done_and_is_not(struct history *history)
{
    bank_checker_told_write(history->checker, asks(history, X, "", 0), /* staged */ false,
                            HF_OK);
}

static void told_as_refused_and_is_there(struct history *history)
{
    begin_with_x(history);
    bank_checker_told_write(history->checker, 1, /* staged */ false, HF_FENCED);
}

static void told_as_refused_and_staged(struct history *history)
{
    stage_transfer(history);
    bank_checker_told_write(history->checker, 1, /* staged */ true, HF_EXPIRED);
}

static void told_as_refused_and_comes_later(struct history *history)
{
    bank_checker_told_write(history->checker, asks(history, X, "", 0), /* staged */ false,
                            HF_EXPIRED);
    WRITE(history, X, .active = 1);
    WRITE(history, X, .active = 1, .now = { 1, 1, 0, E1, false }, .now_token = 1);
}

static void done_against_its_condition(struct history *history)
{
    begin_with_x(history);
    bank_checker_told_impossible(history->checker, 1, HF_OK);
}

static void told_as_dropped_and_is_published(struct history *history)
{
    begin_with_x(history);
    bank_checker_told_dropped(history->checker, 1);
}

static void told_as_published_and_is_not(struct history *history)
{
    bank_checker_told_published(history->checker, asks(history, X, "", 0));
}

static void told_as_committed_and_is_not(struct history *history)
{
    stage_transfer(history);
    bank_checker_told_end(history->checker, VIEW(T1), HF_COMMIT, HF_OK, HF_COMMIT);
}

static void told_as_rolled_back_and_is_committed(struct history *history)
{
    stage_transfer(history);
    commit_transfer(history);
    bank_checker_told_end(history->checker, VIEW(T1), HF_ROLLBACK, HF_OK, HF_ROLLBACK);
}

static void told_as_rolled_back_and_committed_later(struct history *history)
{
    stage_transfer(history);
    bank_checker_told_end(history->checker, VIEW(T1), HF_COMMIT, HF_EXPIRED, HF_ROLLBACK);
    commit_transfer(history);
}

static void told_as_decided_otherwise(struct history *history)
{
    stage_transfer(history);
    commit_transfer(history);
    bank_checker_told_end(history->checker, VIEW(T1), HF_COMMIT, HF_MISMATCH, HF_COMMIT);
}

static void told_as_not_committed_and_is(struct history *history)
{
    stage_transfer(history);
    commit_transfer(history);
    bank_checker_told_not_committed(history->checker, VIEW(T1));
}

static void told_something_strange(struct history *history)
{
    bank_checker_told_end(history->checker, VIEW(T1), HF_COMMIT, HF_INVALID, HF_COMMIT);
}

/* ---- Readers ----------------------------------------------------------------------------- */

static void shown_what_is_staged(struct history *history)
{
    stage_transfer(history);
    get(history, bank_checker_now(history->checker), X, HF_OK, 1, 5, E1);
}

static void shown_what_was_before(struct history *history)
{
    stage_transfer(history);
    commit_transfer(history);
    get(history, bank_checker_now(history->checker), X, HF_NOT_FOUND, 0, 0, "");
}

static void shown_damage(struct history *history)
{
    begin_with_x(history);
    get(history, bank_checker_now(history->checker), X, HF_CORRUPT, 0, 0, "");
}

static void shown_what_nobody_writes(struct history *history)
{
    struct hf_key_info info = { .struct_size = sizeof info, .version = 1 };
    bank_checker_told_get(history->checker, 0, X, HF_OK, VIEW("hello"), &info);
}

/* ---- The end ----------------------------------------------------------------------------- */

static void leased_in_the_end(struct history *history)
{
    WRITE(history, X, .active = 1);
    bank_checker_end(history->checker);
}

static void taken_in_the_end(struct history *history)
{
    record(history, T1, "pending", "");
    TAKE(history, X);
    bank_checker_end(history->checker);
}

static void a_record_in_the_end(struct history *history)
{
    record(history, T1, "rollback", "");
    bank_checker_end(history->checker);
}

static void a_body_in_the_end(struct history *history)
{
    history_put(history, BODY, "1 0 ................");
    bank_checker_end(history->checker);
}

/* ---- The table --------------------------------------------------------------------------- */

static void good_stories_pass(void **state)
{
    (void)state;
    TELL(&court, { a_transfer, NULL }, { a_transfer_that_is_rolled_back, NULL },
         { keys_given_back, NULL }, { a_body_that_is_replaced, NULL },
         { staged_dropped_and_told_as_refused, NULL }, { a_removed_key_that_goes, NULL },
         { taken_anew_after_the_commit, NULL }, { two_stage_at_a_time, NULL },
         { published_over_what_was_staged, NULL });
}

static void keys_change_under_their_leases_only(void **state)
{
    (void)state;
    TELL(&court, { a_version_is_left_out, "x has version 3 after 1" },
         { published_by_who_holds_nothing, "published under token 1, which was not active" },
         { published_with_the_grant, "published under token 1, which was not active" },
         { an_earlier_version_comes_back, "x holds operation 1 a second time" },
         { lost_under_its_lease, "has lost what token 1 staged, which is active" },
         { published_after_its_lease, "has what token 1 staged, which was not active" },
         { what_nobody_wrote, "x holds what nobody has written there" },
         { tokens_that_fall, "tokens of x fall" },
         { a_document_that_goes, "the document of x goes, which holds something" },
         { a_document_that_is_none, "what was written to x is no key" },
         { a_body_that_is_not_there, "which is not there" },
         { a_body_that_goes, "goes, which its document names" },
         { a_body_written_twice, "is written twice" });
}

static void a_taken_key_is_its_transactions(void **state)
{
    (void)state;
    TELL(&court, { taken_without_a_record, "x is taken for " T1 ", which has no record" },
         { taken_under_no_lease, "x is taken under token 1, which is not active" },
         { published_though_it_is_taken, "x is published though it is taken for " T1 },
         { promoted_before_the_decision, "whose record does not say commit" },
         { dropped_after_the_commit, "x has lost what " T1 " staged, whose record says" },
         { let_go_before_the_decision, "x is let go by " T1 " before it is decided" },
         { given_back_after_it_was_told, "x is let go by " T1 " before it is decided" },
         { staged_after_the_commit, "x is staged for " T1 " after its commit" },
         { taken_up_under_another_lease, "x is let go by " T1 " before it is decided" });
}

static void a_record_is_decided_once(void **state)
{
    (void)state;
    TELL(&court, { born_as_a_commit, "is committed, and was not pending" },
         { decided_twice, "changes its decision" },
         { begun_after_its_end, "changes its decision" },
         { a_participant_without_its_stage, "is committed, and x has not its stage" },
         { a_stage_that_is_not_named, "is committed without naming jar" },
         { a_key_that_was_taken_is_not, "does not hold y, which it was told to have" },
         { not_what_was_staged_last, "without what was told as staged in x" },
         { named_after_the_decision, "has other participants than before" },
         { a_record_that_goes_too_soon, "us after its decision" },
         { a_pending_record_that_goes, "goes, which is pending" },
         { a_record_that_goes_before_its_stages, "which says commit, and x has its stage" },
         { a_record_that_goes_before_a_key_that_was_only_read,
           "which says commit, and x has its stage" },
         { without_a_removal, "without what was told as staged in x" },
         { anothers_record, "is no record of it" });
}

static void money_is_neither_made_nor_lost(void **state)
{
    (void)state;
    TELL(&court, { money_is_made, "all balances come to 3" },
         { a_pair_is_overdrawn, "x and y are overdrawn: -5" });
}

static void answers_are_true(void **state)
{
    (void)state;
    TELL(&court, { told_as_done_and_is_not, "is told as done, and is not there" },
         { told_as_refused_and_is_there, "is told FENCED, and is there" },
         { told_as_refused_and_staged, "is told EXPIRED, and is there" },
         { told_as_refused_and_comes_later, "which was told as not done" },
         { done_against_its_condition, "is told as done, against its condition" },
         { told_as_dropped_and_is_published, "is told as dropped, and is published" },
         { told_as_published_and_is_not, "is told as published, and is not" },
         { told_as_committed_and_is_not, "is told as committed, and is not" },
         { told_as_rolled_back_and_is_committed, "is told as rolled back, and is committed" },
         { told_as_rolled_back_and_committed_later, "and was told as rolled back" },
         { told_as_decided_otherwise, "is told as decided otherwise, and was not" },
         { told_as_not_committed_and_is, "is told as not done, and was made" },
         { told_something_strange, "is told INVALID" });
}

static void readers_see_what_is_so(void **state)
{
    (void)state;
    TELL(&court, { shown_what_is_staged, "which it did not hold since it began to read" },
         { shown_what_was_before, "which it did not hold since it began to read" },
         { shown_damage, "a reader of x is told CORRUPT" },
         { shown_what_nobody_writes, "is shown what nobody writes" });
}

static void nothing_is_left_in_the_end(void **state)
{
    (void)state;
    TELL(&court, { leased_in_the_end, "in the end x is leased under token 1" },
         { taken_in_the_end, "in the end x is taken for '" T1 "'" },
         { a_record_in_the_end, "in the end the record of " T1 " is left" },
         { a_body_in_the_end, "is left, which nothing names" });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("good stories pass", good_stories_pass),
        IT("keys change under their leases only", keys_change_under_their_leases_only),
        IT("a taken key is its transaction's", a_taken_key_is_its_transactions),
        IT("a record is decided once, and stays as long as it must", a_record_is_decided_once),
        IT("money is neither made nor lost", money_is_neither_made_nor_lost),
        IT("answers are true", answers_are_true),
        IT("readers see what is so", readers_see_what_is_so),
        IT("nothing is left in the end", nothing_is_left_in_the_end),
    };
    return cmocka_run_group_tests_name("sim_bank_test", tests, NULL, NULL);
}
