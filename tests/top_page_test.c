/* SPDX-License-Identifier: Apache-2.0 */
/* top_page_test.c: the lines that `holdfast top` shows: which rows, in which order, how much time
 * is left, and that no name can harm a terminal or shift a column. */
#include "base/escape.h"
#include "test.h"
#include "top/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 120
#define LINES   20

struct scene {
    struct snapshot *snapshot;
    struct history history;
    struct choice choice;
    struct hf_error trouble;
    struct page page;
    struct mono_time now;
};

static int build(void **state)
{
    static struct scene scene;
    scene = (struct scene){ .now = { 10000000 }, .page = PAGE_INIT };
    scene.snapshot = snapshot_new(scene.now);
    error_clear(&scene.trouble);
    *state = &scene;
    return scene.snapshot ? 0 : -1;
}

static int fall(void **state)
{
    struct scene *scene = *state;
    snapshot_free(scene->snapshot);
    page_release(&scene->page);
    return 0;
}

static void add_noted(struct scene *scene, const char *scope, const char *holder,
                      const char *note, size_t place, int64_t held_ms, int64_t remaining_ms,
                      size_t waiters)
{
    const char *const scopes[] = { scope };
    struct hf_lease_info lease = { .struct_size = sizeof lease };
    lease.table = "default/meta/x.json";
    lease.scopes = scopes;
    lease.scope_count = 1;
    lease.holder = holder;
    lease.note = note;
    lease.place = place;
    lease.state = place > 0 ? HF_LEASE_WAITING : HF_LEASE_ACTIVE;
    lease.token = 7;
    lease.ttl_ms = 30000;
    lease.held_ms = held_ms;
    lease.remaining_ms = remaining_ms;
    lease.waiters = waiters;
    snapshot_add_lock(scene->snapshot, &lease);
}

static void add(struct scene *scene, const char *scope, const char *holder, size_t place,
                int64_t held_ms, int64_t remaining_ms, size_t waiters)
{
    add_noted(scene, scope, holder, "", place, held_ms, remaining_ms, waiters);
}

static void make_sized(struct scene *scene, size_t lines, size_t columns)
{
    struct view_of_store view = { "sqlite:locks.db", scene->snapshot, &scene->history,
                                  &scene->trouble, scene->now };
    assert_true(page_make(&scene->page, &view, &scene->choice, lines, columns));
    assert_true(scene->page.count <= lines || lines < 6);
    for (size_t i = 0; i < scene->page.count; i++)
        assert_true(text_width(view_of(page_line(&scene->page, i))) <= columns);
}

static void make(struct scene *scene)
{
    snapshot_finish(scene->snapshot);
    make_sized(scene, LINES, COLUMNS);
}

/* The line that contains the text, or a failure. */
static size_t find(const struct scene *scene, const char *text)
{
    for (size_t i = 0; i < scene->page.count; i++)
        if (strstr(page_line(&scene->page, i), text))
            return i;
    fail_msg("no line contains '%s'", text);
    return 0;
}

static bool shows(const struct scene *scene, const char *text)
{
    for (size_t i = 0; i < scene->page.count; i++)
        if (strstr(page_line(&scene->page, i), text))
            return true;
    return false;
}

static void add_three(struct scene *scene)
{
    add(scene, "named:beta", "worker-2", 0, 9000, 5000, 0);
    add(scene, "named:alpha", "worker-3", 0, 1000, 29000, 2);
    add(scene, "named:gamma", "worker-1", 0, 5000, 15000, 1);
    add(scene, "named:alpha", "worker-1", 1, 0, 0, 0);
    add(scene, "named:alpha", "worker-2", 2, 0, 0, 0);
}

static void rows_are_sorted_by_name_and_waiters_follow_their_lock(void **state)
{
    struct scene *scene = *state;
    add_three(scene);
    make(scene);
    size_t alpha = find(scene, "worker-3");
    assert_string_equal(strstr(page_line(&scene->page, alpha + 1), "waiting"),
                        "waiting, place 1");
    assert_string_equal(strstr(page_line(&scene->page, alpha + 2), "waiting"),
                        "waiting, place 2");
    assert_int_equal(find(scene, "beta"), alpha + 3);
    assert_int_equal(find(scene, "gamma"), alpha + 4);
    assert_true(shows(scene, "3 held, 2 waiting"));
}

static void rows_can_be_sorted_by_each_column_and_the_other_way_round(void **state)
{
    static const struct {
        enum order order;
        const char *first, *last; /* of the held ones */
    } rows[] = {
        { ORDER_NAME, "alpha", "gamma" },   { ORDER_HELD, "beta", "alpha" },
        { ORDER_LEFT, "beta", "alpha" },    { ORDER_WAITERS, "alpha", "beta" },
        { ORDER_HOLDER, "gamma", "alpha" },
    };
    struct scene *scene = *state;
    add(scene, "named:beta", "worker-2", 0, 9000, 5000, 0);
    add(scene, "named:alpha", "worker-3", 0, 1000, 29000, 2);
    add(scene, "named:gamma", "worker-1", 0, 5000, 15000, 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int backwards = 0; backwards < 2; backwards++) {
            scene->choice.order = rows[i].order;
            scene->choice.backwards = backwards;
            make_sized(scene, LINES, COLUMNS);
            size_t first = find(scene, rows[i].first), last = find(scene, rows[i].last);
            assert_int_equal(backwards ? first - last : last - first, 2);
        }
}

static void set_filter(struct scene *scene, const char *text)
{
    snprintf(scene->choice.filter, sizeof scene->choice.filter, "%s", text);
}

static void a_filter_keeps_names_and_holders_that_contain_it(void **state)
{
    struct scene *scene = *state;
    add_three(scene);
    set_filter(scene, "GAM");
    make(scene);
    assert_true(shows(scene, "gamma") && !shows(scene, "beta") && !shows(scene, "alpha"));
    set_filter(scene, "worker-3");
    make_sized(scene, LINES, COLUMNS);
    assert_true(shows(scene, "alpha") && !shows(scene, "gamma"));
    set_filter(scene, "nowhere");
    make_sized(scene, LINES, COLUMNS);
    assert_true(shows(scene, "nothing matches the filter"));
}

static void the_owner_in_a_note_is_shown_instead_of_the_server(void **state)
{
    struct scene *scene = *state;
    add_noted(scene, "named:a", "server-1", "{\"owner\":\"ci-7 \\u00e4\"}", 0, 1000, 9000, 0);
    add_noted(scene, "named:b", "server-2", "{\"owner\":7}", 0, 1000, 9000, 0);
    add_noted(scene, "named:c", "server-3", "[\"owner\"", 0, 1000, 9000, 0);
    make(scene);
    assert_true(shows(scene, "ci-7 \xc3\xa4") && !shows(scene, "server-1"));
    assert_true(shows(scene, "server-2") && shows(scene, "server-3"));
}

static void time_left_drains_while_the_store_is_silent(void **state)
{
    struct scene *scene = *state;
    add(scene, "named:job", "worker-1", 0, 1000, 29000, 0);
    make(scene);
    size_t line = find(scene, "job");
    assert_non_null(strstr(page_line(&scene->page, line), "████████████ 29s"));
    assert_int_equal(scene->page.styles[line], STYLE_GOOD);
    scene->now = mono_add(scene->now, SPAN_S(21));
    make_sized(scene, LINES, COLUMNS);
    assert_non_null(strstr(page_line(&scene->page, line), "████░░░░░░░░ 8s"));
    assert_int_equal(scene->page.styles[line], STYLE_WARNING);
    assert_true(shows(scene, "read 21s ago"));
    scene->now = mono_add(scene->now, SPAN_S(10));
    make_sized(scene, LINES, COLUMNS);
    assert_non_null(strstr(page_line(&scene->page, line), "overdue for 2s"));
    assert_int_equal(scene->page.styles[line], STYLE_BAD);
}

static void trouble_is_told_and_the_rows_stay(void **state)
{
    struct scene *scene = *state;
    add(scene, "named:job", "worker-1", 0, 1000, 29000, 0);
    error_set(&scene->trouble, HF_UNAVAILABLE, "no route to the store");
    make(scene);
    assert_int_equal(scene->page.styles[find(scene, "UNAVAILABLE: no route")], STYLE_BAD);
    assert_true(shows(scene, "job"));
}

static void before_the_first_read_the_page_says_so(void **state)
{
    struct scene *scene = *state;
    struct view_of_store view = { "sqlite:locks.db", NULL, &scene->history, &scene->trouble,
                                  scene->now };
    assert_true(page_make(&scene->page, &view, &scene->choice, LINES, COLUMNS));
    assert_true(shows(scene, "reading the store"));
}

static void no_name_can_harm_the_terminal(void **state)
{
    struct scene *scene = *state;
    add(scene, "named:\033[2Jevil", "a\nb\tc\x7f", 0, 1, 1000, 0);
    add(scene, "named:caf\xc3\xa9", "\xff\xfe", 0, 1, 1000, 0);
    make(scene);
    assert_true(shows(scene, "\\x1b[2Jevil"));
    assert_true(shows(scene, "a\\nb\\tc\\x7f"));
    assert_true(shows(scene, "caf\xc3\xa9"));
    assert_true(shows(scene, "\\xff\\xfe"));
    for (size_t i = 0; i < scene->page.count; i++)
        for (const char *at = page_line(&scene->page, i); *at; at++)
            assert_true((unsigned char)*at >= 0x20 && *at != 0x7f);
}

static void long_names_are_cut_and_columns_stay_aligned(void **state)
{
    struct scene *scene = *state;
    char name[600];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    memcpy(name, "named:", 6);
    add(scene, name, "worker-with-a-name-that-is-much-too-long", 0, 1000, 20000, 3);
    add(scene, "named:short", "w", 0, 1000, 20000, 4);
    make(scene);
    const char *cut = page_line(&scene->page, find(scene, "nnnn"));
    const char *whole = page_line(&scene->page, find(scene, "short"));
    assert_non_null(strstr(cut, "n… worker-with-a-name-…"));
    struct view before = { cut, (size_t)(strstr(cut, "█") - cut) };
    struct view same = { whole, (size_t)(strstr(whole, "█") - whole) };
    assert_int_equal(text_width(before), text_width(same));
}

static void rows_beyond_the_window_are_reached_by_moving(void **state)
{
    struct scene *scene = *state;
    for (int i = 0; i < 100; i++) {
        char scope[32];
        snprintf(scope, sizeof scope, "named:job-%03d", i);
        add(scene, scope, "w", 0, 1, 1000, 0);
    }
    make(scene);
    assert_true(shows(scene, "job-000") && !shows(scene, "job-050"));
    assert_true(shows(scene, "rows 1 to 15 of 100"));
    scene->choice.first = 50;
    make_sized(scene, LINES, COLUMNS);
    assert_true(shows(scene, "job-050") && !shows(scene, "job-049"));
    scene->choice.first = SIZE_MAX / 2; /* as far as possible */
    make_sized(scene, LINES, COLUMNS);
    assert_true(shows(scene, "job-099") && scene->choice.first == 85);
    for (size_t lines = 1; lines < 8; lines++)
        for (size_t columns = 1; columns < 40; columns += 7)
            make_sized(scene, lines, columns);
}

static void workers_are_summed_up(void **state)
{
    struct scene *scene = *state;
    add_three(scene);
    scene->choice.pane = PANE_WORKERS;
    make(scene);
    assert_int_equal(scene->page.rows_in_all, 3);
    assert_true(
        shows(scene, "worker-2                         1        1        9s             5s"));
}

static void what_is_beyond_the_bound_is_counted_and_told(void **state)
{
    struct scene *scene = *state;
    for (int i = 0; i < TOP_LOCKS_MAX + 5; i++)
        add(scene, "named:x", "w", 0, 1, 1000, 0);
    make(scene);
    assert_int_equal(scene->snapshot->lock_count, TOP_LOCKS_MAX);
    assert_true(shows(scene, "100005 held"));
    assert_true(shows(scene, "5 further leases and waiters are not shown"));
}

static void rates_are_those_between_the_last_two_reads(void **state)
{
    struct scene *scene = *state;
    scene->snapshot->granted = 10;
    history_add(&scene->history, scene->snapshot);
    scene->snapshot->at = mono_add(scene->snapshot->at, SPAN_S(2));
    scene->snapshot->granted = 30;
    scene->snapshot->ended = 5;
    history_add(&scene->history, scene->snapshot);
    make(scene);
    assert_true(shows(scene, "10.0 granted/s, 2.5 ended/s"));
    for (int i = 0; i < 3 * HISTORY_SECONDS; i++) {
        scene->snapshot->at = mono_add(scene->snapshot->at, SPAN_S(1));
        history_add(&scene->history, scene->snapshot);
    }
    make_sized(scene, LINES, COLUMNS);
    assert_true(shows(scene, "0.0 granted/s"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_are_sorted_by_name_and_waiters_follow_their_lock,
                                        build, fall),
        cmocka_unit_test_setup_teardown(
            rows_can_be_sorted_by_each_column_and_the_other_way_round, build, fall),
        cmocka_unit_test_setup_teardown(the_owner_in_a_note_is_shown_instead_of_the_server,
                                        build, fall),
        cmocka_unit_test_setup_teardown(a_filter_keeps_names_and_holders_that_contain_it, build,
                                        fall),
        cmocka_unit_test_setup_teardown(time_left_drains_while_the_store_is_silent, build,
                                        fall),
        cmocka_unit_test_setup_teardown(trouble_is_told_and_the_rows_stay, build, fall),
        cmocka_unit_test_setup_teardown(before_the_first_read_the_page_says_so, build, fall),
        cmocka_unit_test_setup_teardown(no_name_can_harm_the_terminal, build, fall),
        cmocka_unit_test_setup_teardown(long_names_are_cut_and_columns_stay_aligned, build,
                                        fall),
        cmocka_unit_test_setup_teardown(rows_beyond_the_window_are_reached_by_moving, build,
                                        fall),
        cmocka_unit_test_setup_teardown(workers_are_summed_up, build, fall),
        cmocka_unit_test_setup_teardown(what_is_beyond_the_bound_is_counted_and_told, build,
                                        fall),
        cmocka_unit_test_setup_teardown(rates_are_those_between_the_last_two_reads, build,
                                        fall),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
