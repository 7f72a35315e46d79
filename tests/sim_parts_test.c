/* SPDX-License-Identifier: Apache-2.0 */
/* sim_parts_test.c: the parts of the simulator: fibers, owned memory, drifting clocks, lines of
 * the trace. */
#include "base/prng.h"
#include "sim/trace.h"
#include "sim/world/clock.h"
#include "sim/world/fiber.h"
#include "sim/world/heap.h"
#include "test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Fibers -------------------------------------------------------------------------- */

struct turns {
    char text[16];
    size_t count;
};

static struct turns turns;

static void note_turn(char c)
{
    turns.text[turns.count++] = c;
    turns.text[turns.count] = '\0';
}

static void take_three_turns(void *argument)
{
    char mine[64];
    memset(mine, *(char *)argument, sizeof mine);
    for (int i = 0; i < 3; i++) {
        note_turn(mine[i * 20]);
        fiber_give_way();
    }
}

static void fibers_take_turns(void **state)
{
    (void)state;
    turns = (struct turns){ 0 };
    char a = 'a', b = 'b';
    struct fiber *first = fiber_new(take_three_turns, &a);
    struct fiber *second = fiber_new(take_three_turns, &b);
    for (int i = 0; i < 3; i++) {
        assert_true(fiber_resume(first));
        assert_true(fiber_resume(second));
        assert_false(fiber_inside());
    }
    assert_false(fiber_resume(first));
    assert_false(fiber_resume(second));
    assert_string_equal(turns.text, "ababab");
    fiber_free(first);
    fiber_free(second);
}

static void stacks_are_used_again(void **state)
{
    (void)state;
    char a = 'a';
    fiber_pool_release();
    for (int i = 0; i < 1000; i++) {
        turns = (struct turns){ 0 };
        struct fiber *fiber = fiber_new(take_three_turns, &a);
        for (int k = 0; k < i % 3; k++)
            fiber_resume(fiber); /* half-way: freed where it stands */
        fiber_free(fiber);
    }
    assert_int_equal(fiber_stack_count(), 1);
    fiber_pool_release();
    assert_int_equal(fiber_stack_count(), 0);
}

static int deep(int depth);
static int (*volatile deeper)(int) = deep; /* so that no compiler makes a loop of it */

static int deep(int depth)
{
    volatile char frame[1024];
    frame[depth % 1024] = (char)depth;
    return depth == 0 ? 0 : deeper(depth - 1) + frame[depth % 1024];
}

static void go_deep(void *argument)
{
    deep(*(int *)argument);
}

/* How the child ends that goes so deep: 0 if it comes back. */
static int status_of_depth(int depth)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, STDERR_FILENO);
        struct fiber *fiber = fiber_new(go_deep, &depth);
        fiber_resume(fiber);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void a_deep_stack_hits_the_guard(void **state)
{
    (void)state;
    assert_int_equal(status_of_depth(100), 0);
    assert_int_not_equal(status_of_depth(4000), 0);
}

/* ---- Memory -------------------------------------------------------------------------- */

/* A compiler that sees a block go unused does without it. */
static void *volatile last_block;

static void *used(void *block)
{
    last_block = block;
    return block;
}

static void memory_has_an_owner(void **state)
{
    (void)state;
    struct heap heap = HEAP_INIT;
    struct heap *before = heap_enter(&heap);
    char *text = used(strdup("mine"));
    char *other = used(malloc(100));
    int *many = used(calloc(10, sizeof *many));
    heap_enter(before);
    assert_int_equal(heap.count, 3);
    assert_int_equal(many[9], 0);
    other = realloc(other, 5000); /* stays with its owner */
    assert_non_null(other);
    assert_int_equal(heap.count, 3);
    assert_int_equal(heap.bytes, 5 + 5000 + 40);
    free(text);
    assert_int_equal(heap.count, 2);
    heap_drop(&heap);
    assert_int_equal(heap.count, 0);
}

static void an_allocation_fails_on_demand(void **state)
{
    (void)state;
    struct heap heap = HEAP_INIT;
    heap.fail_in = 2;
    struct heap *before = heap_enter(&heap);
    void *first = used(malloc(1)), *second = used(malloc(1)), *third = used(malloc(1));
    heap_enter(before);
    assert_non_null(first);
    assert_null(second);
    assert_non_null(third);
    heap_drop(&heap);
}

/* ---- Clocks and lines ---------------------------------------------------------------- */

static void clocks_can_be_read_backwards(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(7);
    for (int i = 0; i < 20000; i++) {
        struct sim_clock clock = {
            .true_base_us = (int64_t)prng_below(&prng, 1000000),
            .local_base_us = (int64_t)prng_below(&prng, INT64_C(1) << 50),
            .drift_ppm =
                (int64_t)prng_below(&prng, 2 * CLOCK_DRIFT_PPM_MAX + 1) - CLOCK_DRIFT_PPM_MAX,
        };
        int64_t span = (int64_t)prng_below(&prng, UINT64_C(1) << (i % 56));
        int64_t local = clock.local_base_us + span;
        int64_t when = clock_when(&clock, local);
        assert_true(clock_at(&clock, when) >= local);
        assert_true(when == clock.true_base_us || clock_at(&clock, when - 1) < local);
    }
}

static void lines_are_readable(void **state)
{
    (void)state;
    assert_string_equal(trace_text(VIEW("a/b\n\xff\\")).text, "a/b\\0a\\ff\\5c");
    char many[200];
    memset(many, 'x', sizeof many);
    struct trace_text cut = trace_text((struct view){ many, sizeof many });
    assert_int_equal(strlen(cut.text), 63);
    assert_string_equal(cut.text + 60, "...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("fibers take turns and keep their stacks", fibers_take_turns),
        IT("stacks are used again, also those left half-way", stacks_are_used_again),
        IT("a deep stack hits the guard page and is killed", a_deep_stack_hits_the_guard),
        IT("memory belongs to whom it was made for", memory_has_an_owner),
        IT("an allocation fails on demand", an_allocation_fails_on_demand),
        IT("clocks can be read backwards, exactly", clocks_can_be_read_backwards),
        IT("lines of the trace are readable whatever keys hold", lines_are_readable),
    };
    int failed = cmocka_run_group_tests_name("sim_parts", tests, NULL, NULL);
    fiber_pool_release();
    return failed;
}
