/* SPDX-License-Identifier: Apache-2.0 */
/* change_doc_test.c: documents on an `sqlite:` store, which changes them in one step: the
 * requests that it takes, and what happens if the document does not fit or the step fails. */
#include "change_kit.h"
#include "tally.h"

struct desk {
    struct seen seen;
    struct store *store;
    struct doc_clock clock;
    struct doc *doc;
};

static void desk_open(struct desk *desk)
{
    struct hf_error error;
    *desk = (struct desk){ .seen = { .conflicts = 0 } };
    desk->store = open_observed(&desk->seen);
    clock_init(&desk->clock, desk->store);
    assert_status(HF_OK,
                  doc_new(desk->store, &desk->clock, VIEW("tally"), &tally_type, NULL,
                          &desk->doc, &error),
                  &error);
}

static void desk_close(struct desk *desk)
{
    doc_free(desk->doc);
    clock_release(&desk->clock);
    store_close(desk->store);
}

/* Raises counter 0 to `number`, and asserts that this is what it is then. */
static struct raise raise_to(struct desk *desk, uint64_t number, size_t padding)
{
    struct raise raise = raise_of(env_real(), 0, number);
    raise.padding = padding;
    assert_status(HF_OK, doc_update(desk->doc, &raise.op), &raise.op.error);
    struct seen seen = desk->seen;
    assert_int_equal(tally_read(desk->store, VIEW("tally")).counts[0], number);
    desk->seen = seen;
    return raise;
}

static void a_document_needs_one_request(void **state)
{
    (void)state;
    struct desk desk, other;
    desk_open(&desk);
    desk_open(&other);
    raise_to(&desk, 1, 0);
    desk.seen = (struct seen){ 0 };
    assert_int_equal(raise_to(&desk, 2, 0).applied, 1);
    assert_seen(&desk.seen, 0, 1, 0);
    raise_to(&other, 3, 0);
    /* To the version that it knows, before the step, and in the step to the one that is there. */
    assert_int_equal(raise_to(&desk, 4, 0).applied, 2);
    assert_seen(&desk.seen, 1, 1, 0);
    assert_int_equal(desk.seen.conflicts + other.seen.conflicts, 0);
    desk_close(&other);
    desk_close(&desk);
}

static void a_large_document_is_changed_by_get_and_put(void **state)
{
    (void)state;
    struct desk desk, other;
    desk_open(&desk);
    raise_to(&desk, 1, 0);
    raise_to(&desk, 2, LARGE);
    assert_int_equal(count_files("s.objects"), 1);
    desk.seen = (struct seen){ 0 };
    assert_int_equal(raise_to(&desk, 3, LARGE).applied, 1);
    assert_seen(&desk.seen, 0, 1, 0); /* it has learnt, and does not try in vain again */
    desk_open(&other);
    raise_to(&other, 4, LARGE);
    raise_to(&desk, 5, LARGE);
    raise_to(&desk, 6, 0);
    assert_int_equal(count_files("s.objects"), 0);
    desk.seen = (struct seen){ 0 };
    raise_to(&other, 7, 0);
    assert_int_equal(raise_to(&desk, 8, 0).applied, 2); /* small again: in one step */
    assert_int_equal(desk.seen.conflicts, 0);
    desk_close(&other);
    desk_close(&desk);
}

static void a_document_copes_with_being_decided_twice(void **state)
{
    (void)state;
    struct desk desk, other;
    desk_open(&desk);
    desk_open(&other);
    raise_to(&desk, 1, 0);
    atomic_store(&writes_to_fail, 1);
    assert_int_equal(raise_to(&desk, 2, 0).applied, 1); /* what was prepared serves again */
    raise_to(&other, 3, 0);
    atomic_store(&writes_to_fail, 1);
    struct raise raise = raise_to(&desk, 4, 0);
    assert_int_equal(raise.applied, 3); /* before the step, in it, and with a get and a put */
    assert_int_equal(desk.seen.conflicts, 0);
    desk.seen = (struct seen){ 0 };
    raise_to(&desk, 5, 0);
    assert_seen(&desk.seen, 0, 1, 0);
    desk_close(&other);
    desk_close(&desk);
}

static void a_document_settles_what_was_unsure(void **state)
{
    (void)state;
    struct desk desk;
    desk_open(&desk);
    raise_to(&desk, 1, 0);
    atomic_store(&syncs_to_fail, 2);
    struct raise raise = raise_to(&desk, 2, 0);
    assert_true(raise.op.doubt == DOC_DOUBT_OVER && raise.applied == 3);
    struct raise stuck = raise_of(env_real(), 0, 3);
    stuck.op.deadline = mono_add(env_now(env_real()), SPAN_MS(100));
    atomic_store(&syncs_to_fail, 1000000);
    assert_status(HF_UNSURE, doc_update(desk.doc, &stuck.op), &stuck.op.error);
    atomic_store(&syncs_to_fail, 0);
    desk_close(&desk);
    desk_open(&desk); /* now it may have happened, or not */
    uint64_t now = tally_read(desk.store, VIEW("tally")).counts[0];
    assert_true(now == 2 || now == 3);
    raise_to(&desk, 3, 0);
    raise_to(&desk, 4, 0);
    desk_close(&desk);
}

static void a_busy_database_leaves_the_document_as_it_is(void **state)
{
    (void)state;
    struct desk desk;
    desk_open(&desk);
    raise_to(&desk, 1, 0);
    sqlite3 *other = keep_busy("s");
    struct raise raise = raise_of(env_real(), 0, 2);
    raise.op.deadline = mono_add(env_now(env_real()), SPAN_MS(100));
    assert_status(HF_TIMEOUT, doc_update(desk.doc, &raise.op), &raise.op.error);
    sqlite3_close(other);
    desk.seen = (struct seen){ 0 };
    raise_to(&desk, 2, 0);
    assert_seen(&desk.seen, 1, 1, 0); /* its body has a change that was never written */
    desk_close(&desk);
}

static void a_damaged_document_is_corrupt_and_not_unsure(void **state)
{
    (void)state;
    struct desk desk;
    desk_open(&desk);
    raise_to(&desk, 1, 0);
    put_text(desk.store, "tally", VIEW("by hand"));
    struct raise raise = raise_of(env_real(), 0, 2);
    assert_status(HF_CORRUPT, doc_update(desk.doc, &raise.op), &raise.op.error);
    assert_true(raise.op.answer == DOC_DAMAGED && raise.applied == 1);
    assert_holds(desk.store, "tally", VIEW("by hand"));
    desk_close(&desk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a document is changed by one request, without conflicts",
           a_document_needs_one_request),
        IT("a document too large for a step is changed by get and put",
           a_large_document_is_changed_by_get_and_put),
        IT("a document copes with being decided twice",
           a_document_copes_with_being_decided_twice),
        IT("a document settles what was unsure", a_document_settles_what_was_unsure),
        IT("a busy database leaves a document as it is, ready for the next time",
           a_busy_database_leaves_the_document_as_it_is),
        IT("a damaged document is corrupt, not unsure",
           a_damaged_document_is_corrupt_and_not_unsure),
    };
    disk_stand_between();
    return sqlite_steps_run(tests, sizeof tests / sizeof tests[0]);
}
