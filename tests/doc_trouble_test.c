/* SPDX-License-Identifier: Apache-2.0 */
/* doc_trouble_test.c: repeats a series of updates. Each time another request, two requests, or
 * another allocation fails, in every possible way. An update reported as done must be in the
 * store once, one reported as not done must never appear, one reported as unsure may appear at
 * most once, and nothing may leak. */
#include "alloc.h"
#include "doc_kit.h"
#include "test.h"

/* ---- The story ----------------------------------------------------------------------- */

#define STORY_OPS 9

struct told {
    struct add adds[STORY_OPS];
    size_t count;
};

static struct add *begin(struct kit *kit, struct told *told)
{
    struct add *add = &told->adds[told->count++];
    *add = add_of(&kit->env, told->count);
    return add;
}

static void ignore(void *argument, const void *body, const struct evidence *evidence)
{
    (void)argument;
    (void)body;
    (void)evidence;
}

/* Ends early only where there is no memory to go on. */
static void tell(struct kit *kit, struct told *told)
{
    struct hf_error error;
    kit_update(kit, begin(kit, told)); /* the document's first */
    kit_update(kit, begin(kit, told)); /* warm */
    kit_other_adds(kit, 100);
    kit_update(kit, begin(kit, told)); /* a conflict */
    struct add *refused = begin(kit, told);
    refused->unless = 100;
    kit_update(kit, refused);
    struct add *fickle = begin(kit, told); /* refused when it is tried again */
    fickle->refuse_from = 2;
    kit_update(kit, fickle);
    doc_look(kit->doc, mono_add(env_now(&kit->env), KIT_DEADLINE), ignore, NULL, &error);
    struct add *one = begin(kit, told), *two = begin(kit, told); /* one is in the other's way */
    two->unless = one->id;
    doc_update_many(kit->doc, (struct doc_op *[]){ &one->op, &two->op }, 2);
    struct add *settle = begin(kit, told);
    settle->touch_nothing = true;
    settle->op.settle = true;
    kit_update(kit, settle);
    if (kit_cold(kit))
        kit_update(kit, begin(kit, told));
}

static void judge_one(const struct add *add, size_t times)
{
    enum hf_status status = add->op.error.status;
    bool good = status == HF_OK       ? times == 1 || add->touch_nothing
                : status == HF_UNSURE ? times <= 1
                                      : times == 0;
    if (!good)
        fail_msg("operation %d was told %s (%s) and is in the store %zu times", (int)add->id,
                 hf_status_name(status), add->op.error.why, times);
}

static void judge(struct kit *kit, const struct told *told)
{
    script_deliver(&kit->store);
    struct ledger *ledger = ledger_read(kit->mem);
    assert_non_null(ledger); /* the other process was not in trouble */
    assert_int_equal(ledger_times(ledger, 100), 1);
    for (size_t i = 0; i < told->count; i++)
        judge_one(&told->adds[i], ledger_times(ledger, told->adds[i].id));
    for (size_t i = 0; i < ledger->count; i++)
        assert_true(ledger->entries[i].id == 100 || ledger->entries[i].id <= told->count);
    ledger_drop(ledger);
}

/* How a document is born, and changed. */
enum way { WAY_PLAIN, WAY_STUB, WAY_STEPS, WAY_STUB_AND_STEPS, WAYS };

static void set_way(struct kit *kit, enum way way)
{
    kit->context.stub = way == WAY_STUB || way == WAY_STUB_AND_STEPS;
    if (way == WAY_STEPS || way == WAY_STUB_AND_STEPS)
        script_take_steps(&kit->store);
}

/* ---- Requests in trouble ------------------------------------------------------------- */

/* What can become of a call; late writes land so many calls later, 0: in the end. */
static const struct trouble {
    enum fate_kind kind;
    enum hf_status status;
    size_t lands_after;
} troubles[] = {
    { FATE_REFUSE, HF_UNAVAILABLE, 0 }, { FATE_REFUSE, HF_UNSURE, 0 },
    { FATE_LOSE_REPLY, HF_UNSURE, 0 },  { FATE_LATE, HF_UNSURE, 0 },
    { FATE_LATE, HF_UNSURE, 1 },        { FATE_LATE, HF_UNSURE, 2 },
    { FATE_LATE, HF_UNSURE, 3 },        { FATE_TWICE, HF_OK, 0 },
    { FATE_REFUSE, HF_CONFLICT, 0 },    { FATE_REFUSE, HF_DENIED, 0 },
    { FATE_REFUSE, HF_CORRUPT, 0 },     { FATE_REFUSE, HF_UNSUPPORTED, 0 },
    { FATE_DECIDED, HF_UNSURE, 0 },     { FATE_DECIDED, HF_UNAVAILABLE, 0 },
    { FATE_AGAIN, HF_OK, 0 },
};
#define TROUBLES (sizeof troubles / sizeof troubles[0])

static size_t lands_before[2]; /* calls */

static void land(struct kit *kit, size_t call)
{
    if (call == lands_before[0] || call == lands_before[1])
        script_deliver(&kit->store);
}

static void set_trouble(struct kit *kit, int which, size_t call, size_t trouble)
{
    const struct trouble *what = &troubles[trouble];
    kit->fates[call] = (struct fate){ what->kind, what->status };
    lands_before[which] = what->lands_after > 0 ? call + what->lands_after : SIZE_MAX;
}

/* Two calls in trouble, which may be the same. Returns how many calls there were. */
static size_t tell_with_trouble(enum way way, const size_t calls[2], const size_t which[2])
{
    static struct kit kit;
    struct told told = { 0 };
    assert_true(kit_open(&kit));
    kit_script(&kit, SCRIPT(PASS), PASS);
    kit.fate_count = KIT_CALLS_MAX;
    set_way(&kit, way);
    kit.before = land;
    set_trouble(&kit, 0, calls[0], which[0]);
    set_trouble(&kit, 1, calls[1], which[1]);
    tell(&kit, &told);
    assert_int_equal(told.count, STORY_OPS);
    size_t count = kit.call_count;
    judge(&kit, &told);
    kit_close(&kit);
    assert_int_equal(ledger_bodies(), 0);
    return count;
}

static void each_call(enum way way)
{
    for (size_t trouble = 0; trouble < TROUBLES; trouble++) {
        size_t count = SIZE_MAX;
        for (size_t call = 0; call < count; call++)
            count = tell_with_trouble(way, (size_t[]){ call, call },
                                      (size_t[]){ trouble, trouble });
        assert_in_range(count, 10, 40);
    }
}

static void each_call_in_trouble(void **state)
{
    (void)state;
    for (enum way way = WAY_PLAIN; way < WAYS; way++)
        each_call(way);
}

static void each_two(enum way way)
{
    for (size_t one = 0; one < TROUBLES; one++)
        for (size_t two = 0; two < TROUBLES; two++) {
            size_t count = SIZE_MAX;
            for (size_t call = 0; call < count; call++)
                for (size_t ahead = 1; ahead <= 8; ahead++)
                    count = tell_with_trouble(way, (size_t[]){ call, call + ahead },
                                              (size_t[]){ one, two });
        }
}

static void each_two_calls_in_trouble(void **state)
{
    (void)state;
    for (enum way way = WAY_PLAIN; way < WAYS; way++)
        each_two(way);
}

/* ---- Memory in trouble --------------------------------------------------------------- */

static bool tell_without_memory(long allocations, enum way way, size_t trouble)
{
    static struct kit kit;
    struct told told = { 0 };
    alloc_fail_after(allocations);
    if (!kit_open(&kit)) {
        assert_true(alloc_stop());
        return true;
    }
    kit_script(&kit, SCRIPT(PASS), PASS);
    set_way(&kit, way);
    kit.fate_count = KIT_CALLS_MAX;
    set_trouble(&kit, 0, 2, trouble);
    tell(&kit, &told);
    bool failed = alloc_stop();
    judge(&kit, &told);
    kit_close(&kit);
    assert_int_equal(ledger_bodies(), 0);
    return failed;
}

static void each_allocation(void **state)
{
    (void)state;
    for (enum way way = WAY_PLAIN; way < WAYS; way++)
        for (size_t trouble = 0; trouble < TROUBLES; trouble++) {
            long n = 0;
            while (tell_without_memory(n, way, trouble))
                n++;
            assert_in_range(n, 10, 500);
        }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        IT("each call in trouble: what is told is so", each_call_in_trouble),
        IT("each allocation failing: what is told is so, and nothing leaks", each_allocation),
    };
    const struct CMUnitTest pairs[] = {
        IT("each two calls near each other in trouble: what is told is so",
           each_two_calls_in_trouble),
    };
    if (argc > 1 && strcmp(argv[1], "pairs") == 0)
        return cmocka_run_group_tests(pairs, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
