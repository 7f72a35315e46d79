/* SPDX-License-Identifier: Apache-2.0 */
/* serve_core_test.c: the core of the server, as stories. Each line is an event and the actions that
 * it causes. Events:
 *
 *     acquire R K      request R waits for the resource K
 *     until R K MS     ... at most this long
 *     try R K          ... or does not wait
 *     free R K         a work that may make K free (a release)
 *     work R           any other work
 *     wake K           K may have become free
 *     ... id=I[/C]     with a request id, and its content
 *     hangup R
 *     end O STATUS     the call of order O has ended; STATUS! is to be kept for retries
 *     pass MS          time passes
 *     stop
 *
 * An order has the number of the request that brought it. The actions are calls and answers:
 * "begin 1", "poll 1", "cancel 1", "give_back 1", "acquire 1", "work 1" and "1=ok". "free 1" is an
 * order that was freed. A refusal is "refused STATUS". */
#include "alloc.h"
#include "base/buffer.h"
#include "serve/core/core.h"
#include "test.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ORDERS_MAX 64
#define STEPS_MAX  24

struct step {
    const char *event, *actions;
};

struct stage {
    struct core *core;
    struct mono_time now;
    struct core_limits limits;
    uint64_t calls[ORDERS_MAX]; /* under way, by order; 0: none */
    size_t orders;              /* that were not freed */
    char said[512];
};

static struct stage *stage; /* of the current story */

static void say(const char *what, uint64_t number)
{
    size_t used = strlen(stage->said);
    snprintf(stage->said + used, sizeof stage->said - used, "%s%s %" PRIu64,
             used > 0 ? ", " : "", what, number);
}

/* ---- Events -------------------------------------------------------------------------- */

static void *order_of(uint64_t number)
{
    uint64_t *order = malloc(sizeof *order);
    assert_non_null(order);
    *order = number;
    stage->orders++;
    return order;
}

static void free_order_of(void *order)
{
    say("free", *(uint64_t *)order);
    stage->orders--;
    free(order);
}

static const struct {
    const char *name;
    enum hf_status status;
} statuses[] = { { "ok", HF_OK },           { "held", HF_HELD },
                 { "timeout", HF_TIMEOUT }, { "unavailable", HF_UNAVAILABLE },
                 { "lost", HF_LOST },       { "cancelled", HF_CANCELLED },
                 { "invalid", HF_INVALID }, { "unsure", HF_UNSURE } };

static const char *name_of(enum hf_status status)
{
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (statuses[i].status == status)
            return statuses[i].name;
    return "?";
}

struct words {
    char text[64];
    char *word[6];
    size_t count;
    struct core_retry retry;
};

static void split(const char *event, struct words *words)
{
    *words = (struct words){ .count = 0 };
    snprintf(words->text, sizeof words->text, "%s", event);
    for (char *at = words->text; at && *at;) {
        char *end = strchr(at, ' ');
        if (end)
            *end++ = '\0';
        if (strncmp(at, "id=", 3) == 0) {
            char *content = strchr(at, '/');
            if (content)
                *content++ = '\0';
            words->retry.id = view_of(at + 3);
            words->retry.content = content ? (uint64_t)*content : 0;
        } else {
            words->word[words->count++] = at;
        }
        at = end;
    }
}

static uint64_t number_in(const struct words *words, size_t index)
{
    uint64_t number = 0;
    assert_true(index < words->count);
    for (const char *at = words->word[index]; *at; at++)
        number = number * 10 + (uint64_t)(*at - '0');
    return number;
}

static void tell_refusal(enum hf_status status, void *order)
{
    if (status == HF_OK)
        return;
    snprintf(stage->said, sizeof stage->said, "refused %s", name_of(status));
    stage->orders--;
    free(order);
}

static void ask(const struct words *words, bool excludes, bool waits, int64_t limit_ms)
{
    struct hf_error error;
    struct mono_time until = mono_add(stage->now, SPAN_MS(limit_ms));
    struct core_wanted wanted = { .resource = view_of(words->word[2]),
                                  .excludes = excludes,
                                  .waits = waits,
                                  .until =
                                      limit_ms > 0 ? until : (struct mono_time){ MOMENT_FAR },
                                  .retry = words->retry,
                                  .order = order_of(number_in(words, 1)) };
    tell_refusal(core_acquire(stage->core, number_in(words, 1), &wanted, stage->now, &error),
                 wanted.order);
}

static void begin_work(const struct words *words, const char *resource, bool reads)
{
    struct hf_error error;
    struct core_work work = { .resource = view_of(resource),
                              .retry = words->retry,
                              .order = order_of(number_in(words, 1)),
                              .reads = reads };
    tell_refusal(core_work(stage->core, number_in(words, 1), &work, stage->now, &error),
                 work.order);
}

static void end_call(const struct words *words)
{
    uint64_t order = number_in(words, 1);
    struct core_result result = { .token = order };
    char name[32];
    snprintf(name, sizeof name, "%s", words->word[2]);
    size_t size = strlen(name);
    result.keep = name[size - 1] == '!';
    if (result.keep)
        name[size - 1] = '\0';
    bool known = false;
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (strcmp(statuses[i].name, name) == 0) {
            result.status = statuses[i].status;
            known = true;
        }
    assert_true(known && stage->calls[order] > 0);
    uint64_t call = stage->calls[order];
    stage->calls[order] = 0;
    core_call_ended(stage->core, call, &result, stage->now);
}

static void play(const char *event)
{
    struct words words;
    split(event, &words);
    const char *verb = words.word[0];
    if (strcmp(verb, "acquire") == 0)
        ask(&words, /* excludes */ false, /* waits */ true, 0);
    else if (strcmp(verb, "lock") == 0)
        ask(&words, /* excludes */ true, /* waits */ true, 0);
    else if (strcmp(verb, "until") == 0)
        ask(&words, /* excludes */ false, /* waits */ true, (int64_t)number_in(&words, 3));
    else if (strcmp(verb, "try") == 0)
        ask(&words, /* excludes */ false, /* waits */ false, 0);
    else if (strcmp(verb, "free") == 0)
        begin_work(&words, words.word[2], /* reads */ false);
    else if (strcmp(verb, "work") == 0)
        begin_work(&words, "", /* reads */ false);
    else if (strcmp(verb, "read") == 0)
        begin_work(&words, "", /* reads */ true);
    else if (strcmp(verb, "wake") == 0)
        core_wake(stage->core, view_of(words.word[1]), stage->now);
    else if (strcmp(verb, "hangup") == 0)
        core_hang_up(stage->core, number_in(&words, 1), stage->now);
    else if (strcmp(verb, "end") == 0)
        end_call(&words);
    else if (strcmp(verb, "stop") == 0)
        core_stop(stage->core, stage->now);
    else if (strcmp(verb, "pass") == 0) {
        stage->now = mono_add(stage->now, SPAN_MS((int64_t)number_in(&words, 1)));
        core_pass_time(stage->core, stage->now);
    } else
        fail_msg("no event: %s", event);
}

/* ---- Actions ------------------------------------------------------------------------- */

static const char *const call_names[] = {
    [CORE_CALL_ACQUIRE] = "acquire",     [CORE_CALL_BEGIN] = "begin",
    [CORE_CALL_POLL] = "poll",           [CORE_CALL_CANCEL] = "cancel",
    [CORE_CALL_GIVE_BACK] = "give_back", [CORE_CALL_WORK] = "work",
};

static void drain(void)
{
    struct core_action action;
    while (core_next(stage->core, &action)) {
        if (action.kind == CORE_CALL) {
            uint64_t order = *(uint64_t *)action.order;
            assert_true(stage->calls[order] == 0 && action.call > 0);
            stage->calls[order] = action.call;
            say(call_names[action.what], order);
            continue;
        }
        size_t used = strlen(stage->said);
        snprintf(stage->said + used, sizeof stage->said - used, "%s%" PRIu64 "=%s",
                 used > 0 ? ", " : "", action.request, name_of(action.result->status));
    }
    core_check(stage->core);
}

static void open_stage(struct stage *made, const struct core_limits *limits)
{
    *made = (struct stage){ .now = { 1000000 }, .limits = *limits };
    made->core = core_new(limits, free_order_of);
    assert_non_null(made->core);
    stage = made;
}

/* Calls that are under way at the end of a story are answered; then the core is freed, with
 * whatever is left. */
static void close_stage(void)
{
    for (int turn = 0; turn < 8; turn++) {
        for (size_t i = 0; i < ORDERS_MAX; i++)
            if (stage->calls[i] > 0) {
                const struct core_result lost = { .status = HF_LOST };
                uint64_t call = stage->calls[i];
                stage->calls[i] = 0;
                core_call_ended(stage->core, call, &lost, stage->now);
            }
        stage->said[0] = '\0';
        if (core_count(stage->core).calls == 0)
            break;
    }
    core_check(stage->core);
    core_free(stage->core);
    assert_int_equal(stage->orders, 0);
}

static void tell(const struct core_limits *limits, const struct step *steps)
{
    struct stage made;
    open_stage(&made, limits);
    for (size_t i = 0; i < STEPS_MAX && steps[i].event; i++) {
        stage->said[0] = '\0';
        play(steps[i].event);
        drain();
        if (strcmp(stage->said, steps[i].actions) != 0)
            fail_msg("step %zu, %s: '%s', expected '%s'", i + 1, steps[i].event, stage->said,
                     steps[i].actions);
    }
    close_stage();
}

#define STORY_WITH(calls, name, ...)                                               \
    static void name(void **state)                                                 \
    {                                                                              \
        (void)state;                                                               \
        static const struct step steps[] = { __VA_ARGS__, { 0, 0 } };              \
        static_assert(sizeof steps / sizeof *steps <= STEPS_MAX, "a short story"); \
        struct core_limits limits = CORE_LIMITS;                                   \
        limits.calls_max = calls;                                                  \
        tell(&limits, steps);                                                      \
    }
#define STORY(name, ...)             STORY_WITH(CORE_LIMITS.calls_max, name, __VA_ARGS__)
#define STORY_OF_ONE_CALL(name, ...) STORY_WITH(1, name, __VA_ARGS__)

/* ---- Lines --------------------------------------------------------------------------- */

STORY(a_free_lock_is_granted_at_once, { "acquire 1 k", "begin 1" },
      { "end 1 ok", "free 1, 1=ok" }, { "acquire 2 k", "begin 2" })

STORY(waiters_are_served_in_the_order_in_which_they_came, { "acquire 1 k", "begin 1" },
      { "acquire 2 k", "" }, { "acquire 3 k", "" }, { "end 1 ok", "free 1, 1=ok, begin 2" },
      { "end 2 held", "" }, { "free 9 k", "work 9" }, { "end 9 ok", "free 9, 9=ok, poll 2" },
      { "end 2 ok", "free 2, 2=ok, begin 3" })

STORY(only_the_first_waiter_of_a_line_has_a_place, { "acquire 1 k", "begin 1" },
      { "end 1 held", "" }, { "acquire 2 k", "" }, { "pass 249", "" }, { "pass 1", "poll 1" },
      { "end 1 held", "" }, { "acquire 3 other", "begin 3" })

STORY(a_request_that_does_not_wait_does_not_overtake, { "try 1 k", "acquire 1" },
      { "try 2 k", "acquire 2" }, { "acquire 3 k", "begin 3" }, { "try 4 k", "refused held" },
      { "end 3 held", "" }, { "try 5 k", "refused held" }, { "end 1 held", "free 1, 1=held" },
      { "end 2 ok", "free 2, 2=ok" }, { "hangup 3", "cancel 3" },
      { "try 6 k", "acquire 6" }) /* the place that is given up does not count */

STORY(a_failure_is_answered_and_the_next_one_asks, { "acquire 1 k", "begin 1" },
      { "acquire 2 k", "" }, { "end 1 unavailable", "free 1, 1=unavailable, begin 2" },
      { "end 2 held", "" }, { "pass 250", "poll 2" }, { "end 2 lost", "free 2, 2=lost" })

STORY(the_next_in_line_asks_with_the_release, { "lock 1 k", "begin 1" }, { "lock 2 k", "" },
      { "lock 3 k", "" }, { "end 1 ok", "free 1, 1=ok" }, { "try 4 k", "refused held" },
      { "free 9 k", "work 9, begin 2" }, { "end 9 ok", "free 9, 9=ok" },
      { "end 2 ok", "free 2, 2=ok" }, { "wake k", "begin 3" })

STORY(the_next_in_line_does_not_wait_long_for_a_release, { "lock 1 k", "begin 1" },
      { "lock 2 k", "" }, { "end 1 ok", "free 1, 1=ok" }, { "pass 9", "" },
      { "pass 1", "begin 2" }, { "end 2 held", "" }, { "free 9 k", "work 9" },
      { "end 9 ok", "free 9, 9=ok, poll 2" }, { "end 2 ok", "free 2, 2=ok" })

STORY(a_release_that_comes_too_late_for_the_next_in_line_is_polled, { "lock 1 k", "begin 1" },
      { "lock 2 k", "" }, { "end 1 ok", "free 1, 1=ok" }, { "free 9 k", "work 9, begin 2" },
      { "end 2 held", "" }, { "end 9 ok", "free 9, 9=ok, poll 2" })

STORY(the_next_in_line_leaves_nothing, { "lock 1 k", "begin 1" }, { "lock 2 k", "" },
      { "lock 3 k", "" }, { "end 1 ok", "free 1, 1=ok" }, { "hangup 2", "free 2, begin 3" },
      { "end 3 held", "" }, { "hangup 3", "cancel 3" }, { "end 3 ok", "free 3" },
      { "lock 4 k", "begin 4" }, { "lock 5 k", "" }, { "end 4 ok", "free 4, 4=ok" },
      { "stop", "free 5, 5=cancelled" })

/* ---- Releases ------------------------------------------------------------------------ */

STORY(a_release_polls_at_once, { "acquire 1 k", "begin 1" }, { "end 1 held", "" },
      { "free 2 other", "work 2" }, { "end 2 ok", "free 2, 2=ok" }, { "free 3 k", "work 3" },
      { "end 3 ok", "free 3, 3=ok, poll 1" })

STORY(a_release_during_a_poll_is_followed_by_another, { "acquire 1 k", "begin 1" },
      { "free 2 k", "work 2" }, { "end 2 ok", "free 2, 2=ok" }, { "end 1 held", "poll 1" },
      { "free 3 k", "work 3" }, { "end 3 ok", "free 3, 3=ok" }, { "end 1 held", "poll 1" },
      { "end 1 held", "" })

STORY(what_becomes_free_otherwise_is_polled_at_once, { "wake k", "" },
      { "acquire 1 k", "begin 1" }, { "end 1 held", "" }, { "wake other", "" },
      { "wake k", "poll 1" }, { "wake k", "" }, { "end 1 held", "poll 1" },
      { "end 1 held", "" })

/* ---- Hang-ups ------------------------------------------------------------------------ */

STORY(a_release_of_a_path_wakes_the_trees_above, { "acquire 1 n/tree:/", "begin 1" },
      { "acquire 2 n/tree:/a", "begin 2" }, { "acquire 3 n/tree:/ab", "begin 3" },
      { "acquire 4 m/tree:/a", "begin 4" }, { "acquire 5 n/path:/a", "begin 5" },
      { "end 1 held", "" }, { "end 2 held", "" }, { "end 3 held", "" }, { "end 4 held", "" },
      { "end 5 held", "" }, { "free 6 n/path:/a/b", "work 6" },
      { "end 6 ok", "free 6, 6=ok, poll 2, poll 1" })

STORY(a_release_of_a_tree_wakes_what_is_below, { "acquire 1 n/path:/a/x", "begin 1" },
      { "acquire 2 n/tree:/a/y", "begin 2" }, { "acquire 3 n/path:/a", "begin 3" },
      { "acquire 4 n/path:/ab", "begin 4" }, { "acquire 5 n/named:a", "begin 5" },
      { "end 1 held", "" }, { "end 2 held", "" }, { "end 3 held", "" }, { "end 4 held", "" },
      { "end 5 held", "" }, { "free 6 n/tree:/a", "work 6" },
      { "end 6 ok", "free 6, 6=ok, poll 3, poll 1, poll 2" })

STORY(a_release_of_a_range_wakes_ranges_and_the_inode,
      { "acquire 1 n/range:7:0-10", "begin 1" }, { "acquire 2 n/inode:7", "begin 2" },
      { "acquire 3 n/range:70:0-10", "begin 3" }, { "end 1 held", "" }, { "end 2 held", "" },
      { "end 3 held", "" }, { "free 4 n/range:7:5-20", "work 4" },
      { "end 4 ok", "free 4, 4=ok, poll 2, poll 1" }, { "end 1 held", "" },
      { "end 2 held", "" }, { "free 5 n/inode:7", "work 5" },
      { "end 5 ok", "free 5, 5=ok, poll 2, poll 1" })

STORY(a_place_that_is_given_up_wakes_those_that_overlap, { "acquire 1 n/tree:/a", "begin 1" },
      { "acquire 2 n/path:/a/b", "begin 2" }, { "end 1 held", "" }, { "end 2 held", "" },
      { "hangup 1", "cancel 1" }, { "end 1 ok", "free 1, poll 2" })

STORY(a_parked_waiter_that_hangs_up_is_gone, { "acquire 1 k", "begin 1" },
      { "acquire 2 k", "" }, { "hangup 2", "free 2" }, { "hangup 2", "" },
      { "end 1 ok", "free 1, 1=ok" })

STORY(a_place_is_cancelled_before_the_next_waiter_asks, { "acquire 1 k", "begin 1" },
      { "end 1 held", "" }, { "acquire 2 k", "" }, { "hangup 1", "cancel 1" },
      { "free 3 k", "work 3" }, { "end 3 ok", "free 3, 3=ok" },
      { "end 1 ok", "free 1, begin 2" })

STORY(a_grant_for_a_client_that_has_hung_up_is_given_back, { "acquire 1 k", "begin 1" },
      { "acquire 2 k", "" }, { "hangup 1", "" }, { "end 1 ok!", "give_back 1" },
      { "end 1 ok", "free 1, begin 2" }, { "end 2 held", "" }, { "pass 250", "poll 2" },
      { "hangup 2", "" }, { "end 2 ok!", "give_back 2" }, { "end 2 unsure", "free 2" })

STORY(a_place_for_a_client_that_has_hung_up_is_cancelled, { "acquire 1 k", "begin 1" },
      { "hangup 1", "" }, { "end 1 held", "cancel 1" }, { "end 1 ok", "free 1" })

STORY(a_grant_of_a_try_is_given_back_and_the_line_is_polled, { "acquire 1 k", "begin 1" },
      { "hangup 1", "" }, { "try 2 k", "acquire 2" }, { "hangup 2", "" }, { "acquire 3 k", "" },
      { "end 1 lost", "free 1, begin 3" }, { "end 3 held", "" }, { "end 2 ok!", "give_back 2" },
      { "end 2 ok", "free 2, poll 3" })

STORY(a_call_that_has_not_begun_is_withdrawn, { "acquire 1 a", "begin 1" }, { "hangup 1", "" },
      { "end 1 unavailable", "free 1" })

STORY(a_hang_up_does_not_stop_a_work, { "work 1", "work 1" }, { "hangup 1", "" },
      { "end 1 ok", "free 1" })

/* ---- Time ---------------------------------------------------------------------------- */

STORY(a_wait_ends_at_its_limit, { "until 1 k 400", "begin 1" }, { "until 2 k 300", "" },
      { "end 1 held", "" }, { "pass 300", "free 2, 2=timeout, poll 1" }, { "pass 100", "" },
      { "end 1 ok!", "give_back 1" }, { "end 1 ok", "free 1, 1=timeout" })

STORY(a_place_whose_wait_has_ended_is_given_up_before_the_answer,
      { "until 1 k 100", "begin 1" }, { "end 1 held", "" }, { "pass 100", "cancel 1" },
      { "end 1 ok", "free 1, 1=timeout" })

STORY(a_slow_store_delays_the_end_of_a_wait_by_3_s_at_most, { "until 1 k 100", "begin 1" },
      { "acquire 2 k", "" }, { "end 1 held", "" }, { "pass 100", "cancel 1" },
      { "pass 2999", "" }, { "pass 1", "1=timeout" }, { "end 1 ok", "free 1, begin 2" })

STORY(a_hang_up_after_the_limit_of_its_wait_changes_nothing, { "until 1 k 100", "begin 1" },
      { "end 1 held", "" }, { "pass 100", "cancel 1" }, { "hangup 1", "" },
      { "end 1 ok", "free 1" })

STORY(a_stop_after_the_limit_of_a_wait_answers_it_at_once, { "until 1 k 100", "begin 1" },
      { "end 1 held", "" }, { "pass 100", "cancel 1" }, { "stop", "1=cancelled" },
      { "end 1 ok", "free 1" })

/* ---- Retries ------------------------------------------------------------------------- */

STORY(a_repeat_without_a_wait_ends_the_wait, { "acquire 1 k id=a", "begin 1" },
      { "end 1 held", "" }, { "acquire 2 k", "" }, { "try 3 k id=a", "free 3, cancel 1" },
      { "end 1 ok", "free 1, 1=timeout, 3=timeout, begin 2" })

STORY(a_grant_after_a_withdrawal_is_given_back, { "acquire 1 k id=a", "begin 1" },
      { "try 2 k id=a", "free 2" }, { "hangup 1", "" }, { "end 1 ok!", "give_back 1" },
      { "end 1 ok", "free 1, 2=timeout" })
STORY(a_withdrawal_in_line_is_answered_at_once, { "acquire 1 k", "begin 1" },
      { "acquire 2 k id=a", "" }, { "try 3 k id=a", "free 3, free 2, 2=timeout, 3=timeout" })

STORY(a_retry_joins_the_request_that_is_under_way, { "acquire 1 k id=a", "begin 1" },
      { "acquire 2 k id=a", "free 2" }, { "hangup 1", "" }, { "end 1 held", "" },
      { "pass 250", "poll 1" }, { "acquire 3 k id=a", "free 3" },
      { "end 1 ok!", "free 1, 2=ok, 3=ok" })

STORY(a_retry_gets_the_result_again_for_ten_minutes, { "acquire 1 k id=a", "begin 1" },
      { "end 1 ok!", "free 1, 1=ok" }, { "acquire 2 k id=a", "free 2, 2=ok" },
      { "pass 599999", "" }, { "try 3 k id=a", "free 3, 3=ok" }, { "pass 1", "" },
      { "acquire 4 k id=a", "begin 4" })

STORY(works_with_one_id_share_a_call, { "work 1 id=a", "work 1" }, { "hangup 1", "" },
      { "work 2 id=a", "free 2" }, { "hangup 2", "" }, { "work 3 id=a", "free 3" },
      { "end 1 ok", "free 1, 3=ok" }, { "work 4 id=a", "work 4" })

STORY(a_refusal_is_not_remembered, { "try 1 k id=a", "acquire 1" },
      { "end 1 held", "free 1, 1=held" }, { "try 2 k id=a", "acquire 2" },
      { "end 2 unsure", "free 2, 2=unsure" }, { "work 3 id=b", "work 3" },
      { "end 3 unsure!", "free 3, 3=unsure" }, { "work 4 id=b", "free 4, 4=unsure" })

STORY(an_id_has_one_content, { "acquire 1 k id=a/x", "begin 1" },
      { "acquire 2 k id=a/y", "refused invalid" }, { "work 3 id=a/x", "refused invalid" },
      { "end 1 ok!", "free 1, 1=ok" }, { "acquire 4 k id=a/y", "refused invalid" },
      { "acquire 5 k id=a/x", "free 5, 5=ok" })

STORY(a_retry_does_not_join_what_is_given_back, { "acquire 1 k id=a", "begin 1" },
      { "hangup 1", "" }, { "acquire 2 k id=a", "" }, { "end 1 ok!", "give_back 1" },
      { "acquire 3 k id=a", "free 3" }, { "end 1 ok", "free 1, begin 2" },
      { "end 2 ok!", "free 2, 2=ok, 3=ok" })

STORY(each_request_of_an_acquire_has_its_own_limit, { "until 1 k 100 id=a", "begin 1" },
      { "until 2 k 400 id=a", "free 2" }, { "pass 100", "1=timeout" }, { "end 1 held", "" },
      { "pass 250", "poll 1" }, { "end 1 ok!", "free 1, 2=ok" })

/* ---- Stopping ------------------------------------------------------------------------ */

STORY(a_server_that_stops_grants_nothing, { "acquire 1 a", "begin 1" }, { "end 1 held", "" },
      { "acquire 2 a", "" }, { "try 3 b", "acquire 3" }, { "work 4", "work 4" },
      { "stop", "free 2, 1=cancelled, 2=cancelled, 3=cancelled, cancel 1" },
      { "acquire 5 a", "refused cancelled" }, { "work 6", "work 6" },
      { "end 3 ok!", "give_back 3" }, { "end 1 ok", "free 1" }, { "end 4 ok", "free 4, 4=ok" })

/* ---- Bounds -------------------------------------------------------------------------- */

STORY_OF_ONE_CALL(calls_are_bounded_and_urgent_ones_go_first, { "acquire 1 a", "begin 1" },
                  { "acquire 2 b", "" }, { "acquire 3 c", "" }, { "work 4", "" },
                  { "end 1 held", "work 4" }, { "hangup 2", "free 2" }, { "hangup 1", "" },
                  { "end 4 ok", "free 4, 4=ok, cancel 1" }, { "end 1 ok", "free 1, begin 3" })

STORY_OF_ONE_CALL(a_poll_that_has_not_begun_becomes_a_cancellation,
                  { "acquire 1 a", "begin 1" }, { "end 1 held", "" }, { "work 2", "work 2" },
                  { "pass 250", "" }, { "hangup 1", "" },
                  { "end 2 ok", "free 2, 2=ok, cancel 1" }, { "end 1 ok", "free 1" })

static void requests_beyond_the_limit_are_refused(void **state)
{
    (void)state;
    struct core_limits limits = CORE_LIMITS;
    limits.requests_max = 2;
    static const struct step steps[] = { { "acquire 1 a", "begin 1" },
                                         { "work 2", "work 2" },
                                         { "acquire 3 a", "refused unavailable" },
                                         { "work 4", "refused unavailable" },
                                         { "end 2 ok", "free 2, 2=ok" },
                                         { "acquire 5 a", "" },
                                         { 0, 0 } };
    tell(&limits, steps);
}

STORY_OF_ONE_CALL(a_call_that_does_not_start_in_time_is_refused, { "work 1", "work 1" },
                  { "work 2 id=a", "" }, { "try 3 k", "" }, { "pass 3000", "" },
                  { "work 4 id=a", "free 4" }, { "acquire 5 m", "" },
                  { "pass 2000",
                    "free 2, free 3, 2=unavailable, 4=unavailable, 3=unavailable" },
                  { "work 6 id=a", "" }, { "pass 4999", "" },
                  { "end 1 ok", "free 1, 1=ok, work 6" }, { "pass 9000", "" },
                  { "end 6 ok", "free 6, 6=ok, begin 5" })

STORY_OF_ONE_CALL(a_read_that_nobody_waits_for_does_not_begin, { "read 1", "work 1" },
                  { "read 2", "" }, { "hangup 2", "free 2" }, { "read 3 id=a", "" },
                  { "read 4 id=a", "free 4" }, { "hangup 3", "" }, { "hangup 4", "free 3" },
                  { "read 5 id=a", "" }, { "hangup 1", "" }, { "end 1 ok", "free 1, work 5" },
                  { "hangup 5", "" }, { "end 5 ok", "free 5" })

STORY_OF_ONE_CALL(calls_of_holders_begin_before_reads, { "read 1", "work 1" }, { "read 2", "" },
                  { "acquire 3 k", "" }, { "work 4", "" },
                  { "end 1 ok", "free 1, 1=ok, work 4" },
                  { "end 4 ok", "free 4, 4=ok, work 2" },
                  { "end 2 ok", "free 2, 2=ok, begin 3" })

STORY_OF_ONE_CALL(a_server_that_stops_begins_no_read, { "read 1", "work 1" },
                  { "read 2 id=a", "" }, { "read 3 id=a", "free 3" }, { "work 4", "" },
                  { "stop", "free 2, 2=cancelled, 3=cancelled" },
                  { "end 1 ok", "free 1, 1=ok, work 4" }, { "end 4 ok", "free 4, 4=ok" })

static void works_without_a_client_are_bounded(void **state)
{
    (void)state;
    struct core_limits limits = CORE_LIMITS;
    limits.requests_max = 2;
    limits.calls_max = 1;
    static const struct step steps[] = { { "work 1", "work 1" },
                                         { "hangup 1", "" },
                                         { "work 2", "" },
                                         { "hangup 2", "" },
                                         { "work 3", "" },
                                         { "hangup 3", "" },
                                         { "work 4", "refused unavailable" },
                                         { "end 1 ok", "free 1, work 2" },
                                         { "work 5", "" },
                                         { 0, 0 } };
    tell(&limits, steps);
}

static void the_oldest_result_is_forgotten_first(void **state)
{
    (void)state;
    struct core_limits limits = CORE_LIMITS;
    limits.remembered_max = 1;
    static const struct step steps[] = {
        { "work 1 id=a", "work 1" },       { "end 1 ok!", "free 1, 1=ok" },
        { "work 2 id=b", "work 2" },       { "work 3 id=a", "free 3, 3=ok" },
        { "end 2 ok!", "free 2, 2=ok" },   { "work 4 id=a", "work 4" },
        { "work 5 id=b", "free 5, 5=ok" }, { 0, 0 }
    };
    tell(&limits, steps);
}

/* The more lines, the slower the pace; a place keeps its own. */
static void the_pace_depends_on_the_number_of_lines(void **state)
{
    (void)state;
    struct core_limits limits = CORE_LIMITS;
    limits.calls_max = 1000;
    struct core *core = core_new(&limits, free);
    struct core_action action;
    struct hf_error error;
    struct mono_time now = { 1 };
    int64_t pace = 0;
    for (uint64_t i = 1; i <= 1000; i++) {
        char resource[16];
        snprintf(resource, sizeof resource, "k%" PRIu64, i);
        struct core_wanted wanted = { .resource = view_of(resource),
                                      .waits = true,
                                      .until = { MOMENT_FAR },
                                      .order = malloc(1) };
        assert_int_equal(core_acquire(core, i, &wanted, now, &error), HF_OK);
        assert_true(core_next(core, &action) && action.what == CORE_CALL_BEGIN);
        assert_true(action.poll_ms >= pace && action.poll_ms >= 250);
        pace = action.poll_ms;
        struct core_result held = { .status = HF_HELD };
        core_call_ended(core, action.call, &held, now);
    }
    assert_int_equal(pace, 2000);
    assert_int_equal(core_wake_at(core).us, now.us + 250000);
    assert_int_equal(core_count(core).waiting, 1000);
    assert_false(core_is_idle(core));
    core_free(core);
}

/* 10,000 waiters on one lock: the memory that they take, and their order. */
static void ten_thousand_waiters_are_small(void **state)
{
    (void)state;
    struct core *core = core_new(&CORE_LIMITS, free);
    struct core_action action;
    struct hf_error error;
    struct mono_time now = { 1 };
    for (uint64_t i = 1; i <= 10000; i++) {
        struct core_wanted wanted = {
            .resource = VIEW("k"), .waits = true, .until = { MOMENT_FAR }, .order = malloc(1)
        };
        assert_int_equal(core_acquire(core, i, &wanted, now, &error), HF_OK);
    }
    for (uint64_t i = 1; i <= 10000; i++) {
        struct core_result ok = { .status = HF_OK };
        assert_true(core_next(core, &action) && action.kind == CORE_CALL);
        core_call_ended(core, action.call, &ok, now);
        assert_true(core_next(core, &action) && action.kind == CORE_ANSWER);
        assert_int_equal(action.request, i);
    }
    assert_true(core_is_idle(core));
    core_free(core);
}

static void free_nothing(void *order)
{
    (void)order;
}

/* A request that arrives while memory runs out is refused, and changes nothing. Nothing else
 * fails. */
static void a_request_without_memory_is_refused(void **state)
{
    (void)state;
    static int order;
    struct mono_time now = { 1 };
    struct hf_error error;
    struct core_action action;
    const struct core_result ok = { .status = HF_OK, .keep = true };
    for (int kind = 0; kind < 3; kind++) {
        struct core *core = core_new(&CORE_LIMITS, free_nothing);
        assert_non_null(core);
        enum hf_status status = HF_UNAVAILABLE;
        struct core_retry retry = { VIEW("id"), 7 };
        struct core_wanted wanted = { .resource = VIEW("k"),
                                      .waits = kind == 0,
                                      .until = { MOMENT_FAR },
                                      .retry = retry,
                                      .order = &order };
        struct core_work work = { VIEW("k"), retry, &order };
        for (long n = 0; status != HF_OK; n++) {
            alloc_fail_after(n);
            status = kind < 2 ? core_acquire(core, 1, &wanted, now, &error)
                              : core_work(core, 1, &work, now, &error);
            bool failed = alloc_stop();
            assert_int_equal(status, failed ? HF_UNAVAILABLE : HF_OK);
            assert_true(core_is_idle(core) == failed);
            core_check(core);
        }
        alloc_fail_after(0); /* the call starts when there is memory again */
        assert_false(core_next(core, &action));
        assert_true(alloc_stop());
        assert_true(core_next(core, &action) && action.kind == CORE_CALL);
        core_call_ended(core, action.call, &ok, now);
        assert_true(core_next(core, &action) && action.kind == CORE_ANSWER);
        core_free(core);
    }
}

/* ---- Reports ------------------------------------------------------------------------- */

static void note_wait(void *argument, uint64_t request)
{
    buffer_print(argument, "%" PRIu64 ",", request);
}

/* Starts what the core asks for; the number of the last call. */
static uint64_t drain_calls(struct core *core)
{
    struct core_action action;
    uint64_t call = 0;
    while (core_next(core, &action))
        if (action.kind == CORE_CALL)
            call = action.call;
    return call;
}

static void a_request_that_waits_is_reported_once(void **state)
{
    (void)state;
    struct core *core = core_new(&CORE_LIMITS, free_nothing);
    struct buffer told = BUFFER_INIT(256);
    struct mono_time now = { 1 };
    struct hf_error error;
    int order;
    struct core_wanted wanted = { .resource = VIEW("k"),
                                  .waits = true,
                                  .until = { MOMENT_FAR },
                                  .retry = { VIEW("id"), 1 },
                                  .order = &order };
    struct core_result held = { .status = HF_HELD };
    core_on_wait(core, note_wait, &told);
    assert_int_equal(core_acquire(core, 1, &wanted, now, &error), HF_OK);
    uint64_t call = drain_calls(core);
    assert_int_equal(told.size, 0); /* it may be granted at once */
    core_call_ended(core, call, &held, now);
    assert_string_equal(buffer_text(&told), "1,");
    assert_int_equal(core_acquire(core, 2, &wanted, now, &error), HF_OK); /* joins it */
    wanted.retry = (struct core_retry){ VIEW(""), 0 };
    assert_int_equal(core_acquire(core, 3, &wanted, now, &error), HF_OK); /* behind it */
    assert_string_equal(buffer_text(&told), "1,2,3,");
    now = core_wake_at(core);
    core_pass_time(core, now);
    core_call_ended(core, drain_calls(core), &held, now); /* a poll, in vain */
    assert_string_equal(buffer_text(&told), "1,2,3,");
    for (uint64_t request = 1; request <= 3; request++)
        core_hang_up(core, request, now);
    core_call_ended(core, drain_calls(core), &held, now);
    drain_calls(core);
    assert_true(core_is_idle(core));
    core_free(core);
    buffer_release(&told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_that_waits_is_reported_once),
        cmocka_unit_test(a_free_lock_is_granted_at_once),
        cmocka_unit_test(waiters_are_served_in_the_order_in_which_they_came),
        cmocka_unit_test(only_the_first_waiter_of_a_line_has_a_place),
        cmocka_unit_test(a_request_that_does_not_wait_does_not_overtake),
        cmocka_unit_test(the_next_in_line_asks_with_the_release),
        cmocka_unit_test(the_next_in_line_does_not_wait_long_for_a_release),
        cmocka_unit_test(a_release_that_comes_too_late_for_the_next_in_line_is_polled),
        cmocka_unit_test(the_next_in_line_leaves_nothing),
        cmocka_unit_test(a_failure_is_answered_and_the_next_one_asks),
        cmocka_unit_test(a_release_polls_at_once),
        cmocka_unit_test(a_release_during_a_poll_is_followed_by_another),
        cmocka_unit_test(a_release_of_a_path_wakes_the_trees_above),
        cmocka_unit_test(a_release_of_a_tree_wakes_what_is_below),
        cmocka_unit_test(a_release_of_a_range_wakes_ranges_and_the_inode),
        cmocka_unit_test(a_place_that_is_given_up_wakes_those_that_overlap),
        cmocka_unit_test(what_becomes_free_otherwise_is_polled_at_once),
        cmocka_unit_test(a_parked_waiter_that_hangs_up_is_gone),
        cmocka_unit_test(a_place_is_cancelled_before_the_next_waiter_asks),
        cmocka_unit_test(a_grant_for_a_client_that_has_hung_up_is_given_back),
        cmocka_unit_test(a_place_for_a_client_that_has_hung_up_is_cancelled),
        cmocka_unit_test(a_grant_of_a_try_is_given_back_and_the_line_is_polled),
        cmocka_unit_test(a_call_that_has_not_begun_is_withdrawn),
        cmocka_unit_test(a_hang_up_does_not_stop_a_work),
        cmocka_unit_test(a_wait_ends_at_its_limit),
        cmocka_unit_test(a_place_whose_wait_has_ended_is_given_up_before_the_answer),
        cmocka_unit_test(a_slow_store_delays_the_end_of_a_wait_by_3_s_at_most),
        cmocka_unit_test(a_hang_up_after_the_limit_of_its_wait_changes_nothing),
        cmocka_unit_test(a_stop_after_the_limit_of_a_wait_answers_it_at_once),
        cmocka_unit_test(a_repeat_without_a_wait_ends_the_wait),
        cmocka_unit_test(a_grant_after_a_withdrawal_is_given_back),
        cmocka_unit_test(a_withdrawal_in_line_is_answered_at_once),
        cmocka_unit_test(a_retry_joins_the_request_that_is_under_way),
        cmocka_unit_test(works_with_one_id_share_a_call),
        cmocka_unit_test(a_retry_gets_the_result_again_for_ten_minutes),
        cmocka_unit_test(a_refusal_is_not_remembered),
        cmocka_unit_test(an_id_has_one_content),
        cmocka_unit_test(a_retry_does_not_join_what_is_given_back),
        cmocka_unit_test(each_request_of_an_acquire_has_its_own_limit),
        cmocka_unit_test(a_server_that_stops_grants_nothing),
        cmocka_unit_test(calls_are_bounded_and_urgent_ones_go_first),
        cmocka_unit_test(a_poll_that_has_not_begun_becomes_a_cancellation),
        cmocka_unit_test(requests_beyond_the_limit_are_refused),
        cmocka_unit_test(a_call_that_does_not_start_in_time_is_refused),
        cmocka_unit_test(a_read_that_nobody_waits_for_does_not_begin),
        cmocka_unit_test(calls_of_holders_begin_before_reads),
        cmocka_unit_test(a_server_that_stops_begins_no_read),
        cmocka_unit_test(works_without_a_client_are_bounded),
        cmocka_unit_test(the_oldest_result_is_forgotten_first),
        cmocka_unit_test(the_pace_depends_on_the_number_of_lines),
        cmocka_unit_test(ten_thousand_waiters_are_small),
        cmocka_unit_test(a_request_without_memory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
