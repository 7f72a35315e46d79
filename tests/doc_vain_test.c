/* SPDX-License-Identifier: Apache-2.0 */
/* doc_vain_test.c: a store that refuses puts although their conditions hold. It must not be asked
 * as often as it answers. */
#include "doc/doc_inside.h"
#include "doc_kit.h"
#include "test.h"

/* Ceph 16 refuses each put with If-Match once the bucket keeps versions. */
static struct add add_in_vain(struct kit *kit)
{
    kit->takes = SPAN_MS(2);
    kit_warm_up(kit);
    kit_script(kit, (const struct fate[]){ KIT_END }, PASS);
    script_rule(&kit->store, .on = ON_PUT, .fate = REFUSE(HF_CONFLICT));
    return add_of(&kit->env, 2);
}

/* After n failures in a row the limit is 2^n round trips: the pauses within ten seconds are 0.5 s
 * long, at most, and as many as that. */
static void assert_tried_a_few_times(struct kit *kit, struct add *add)
{
    assert_int_equal(kit_update(kit, add), HF_UNSURE);
    assert_in_range(kit->call_count, 40, 130);
    assert_true(kit->now_us >= add->op.deadline.us - 1000000);
    /* The first two conflicts could have been those of a crowd. The others teach nothing. */
    assert_in_range(kit->doc->crowd.pause.us, 1, 8 * 4 * 2000);
}

static void conflicts_that_nobody_caused(void **state)
{
    struct kit *kit = *state;
    struct add add = add_in_vain(kit);
    assert_tried_a_few_times(kit, &add);
}

static void urgent_conflicts_that_nobody_caused(void **state)
{
    struct kit *kit = *state;
    struct add add = add_in_vain(kit);
    add.op.urgent = true;
    assert_tried_a_few_times(kit, &add);
}

static void soon_conflicts_that_nobody_caused(void **state)
{
    struct kit *kit = *state;
    struct add add = add_in_vain(kit);
    add.op.soon = true;
    assert_tried_a_few_times(kit, &add);
}

/* A new document, whose first write is refused as if there were an object. */
static void births_in_vain(void **state)
{
    struct kit *kit = *state;
    kit->takes = SPAN_MS(2);
    kit_script(kit, (const struct fate[]){ KIT_END }, PASS);
    script_rule(&kit->store, .on = ON_PUT, .fate = REFUSE(HF_CONFLICT));
    kit->context.stub = true;
    struct add add = add_of(&kit->env, 2);
    assert_int_equal(kit_update(kit, &add), HF_TIMEOUT);
    assert_in_range(kit->call_count, 40, 130);
}

static unsigned doubts;

static void count_doubt(struct store *store, struct mono_time deadline)
{
    (void)store;
    (void)deadline;
    doubts++;
}

/* Each failed attempt is a put and a get. */
static void the_store_is_asked_now_and_then(void **state)
{
    struct kit *kit = *state;
    struct add add = add_in_vain(kit);
    kit->store.ops.doubt = count_doubt;
    doubts = 0;
    assert_int_equal(kit_update(kit, &add), HF_UNSURE);
    unsigned expected = 0;
    for (size_t failed = 2; failed <= kit->call_count / 2; failed *= 2)
        expected++;
    assert_in_range(expected, 4, 6);
    assert_int_equal(doubts, expected);
}

static void work_goes_on_after_conflicts_in_vain(void **state)
{
    struct kit *kit = *state;
    struct add add = add_in_vain(kit);
    assert_int_equal(kit_update(kit, &add), HF_UNSURE);
    script_reset(&kit->store);
    kit_script(kit, (const struct fate[]){ KIT_END }, PASS);
    assert_int_equal(kit_add(kit, 3), HF_OK);
    assert_false(doc_conflicts_in_vain(kit->doc));
    assert_int_equal(kit_times(kit, 3), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT("conflicts that no other client has caused are failures, with growing pauses",
            conflicts_that_nobody_caused),
        KIT("also those of an urgent operation", urgent_conflicts_that_nobody_caused),
        KIT("also those of one that is tried again soon", soon_conflicts_that_nobody_caused),
        KIT("also those of the first write of a new document", births_in_vain),
        KIT("the store is asked what is wrong after 2, 4, 8 ... of them",
            the_store_is_asked_now_and_then),
        KIT("and the first write that succeeds ends them",
            work_goes_on_after_conflicts_in_vain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
