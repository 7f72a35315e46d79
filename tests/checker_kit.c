/* SPDX-License-Identifier: Apache-2.0 */
/* checker_kit.c: runs histories that a test writes by hand past a checker of the simulator. */
#include "checker_kit.h"

#include <stdio.h>
#include <string.h>

#define TEXT_MAX 8192

static void history_begin(struct history *history)
{
    struct world_options world_options = WORLD_OPTIONS;
    struct net_options net_options = NET_OPTIONS;
    struct node_options node_options = NODE_OPTIONS;
    *history = (struct history){ .arena = ARENA_INIT };
    history->run.world = world_new(&world_options);
    history->run.net = net_new(history->run.world, &net_options);
    history->node = node_new(history->run.world, &node_options);
}

static void history_end(struct history *history)
{
    net_free(history->run.net);
    world_free(history->run.world);
    arena_release(&history->arena);
}

static void tell_one(const struct court *court, const struct story *story)
{
    struct history history;
    char failure[WORLD_FAILURE_MAX] = "";
    history_begin(&history);
    court->begin(&history);
    story->tell(&history);
    if (world_failure(history.run.world))
        snprintf(failure, sizeof failure, "%s", world_failure(history.run.world));
    world_stop(history.run.world);
    court->end(&history);
    history_end(&history);
    if (story->words && !strstr(failure, story->words))
        fail_msg("not '%s' but '%s'", story->words, failure);
    if (!story->words && failure[0] != '\0')
        fail_msg("'%s'", failure);
}

void tell_all(const struct court *court, const struct story *stories, size_t count)
{
    for (size_t i = 0; i < count; i++)
        tell_one(court, &stories[i]);
}

void history_put(struct history *history, const char *key, const char *text)
{
    struct put_call call = { .key = view_of(key), .body = view_of(text) };
    bucket_put(net_bucket(history->run.net), &call);
}

void take(struct history *history, const char *key)
{
    struct delete_call call = { .key = view_of(key) };
    bucket_delete(net_bucket(history->run.net), &call);
}

static void do_nothing(void *argument)
{
    (void)argument;
}

void history_pass(struct history *history, struct span span)
{
    struct timer timer = { 0 };
    struct world *world = history->run.world;
    world_set_timer(world, &timer, world_now_us(world) + span.us, do_nothing, NULL);
    world_run(world);
}

const char *text(struct history *history, const char *format, ...)
{
    char space[TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(space, sizeof space, format, arguments);
    va_end(arguments);
    assert_in_range(size, 0, TEXT_MAX - 1);
    return arena_copy(&history->arena, view_of(space)).data;
}
