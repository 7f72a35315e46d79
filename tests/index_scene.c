/* SPDX-License-Identifier: Apache-2.0 */
/* index_scene.c: two compilers on one index, one of them behind a store that fails. */
#include "index_scene.h"

#include "index/read.h"

#include <stdio.h>
#include <stdlib.h>

static struct fate note_listing(void *argument, struct script_call *call)
{
    struct scene *scene = argument;
    buffer_print(&scene->listed, "%.*s ", VIEW_ARGS(call->key));
    return PASS;
}

void scene_happens(struct scene *scene, enum call_kind kind, const char *part,
                   void (*act)(void *scene))
{
    script_rule(&scene->gate, .name = "happens", .on = ON_KIND(kind) | ON_FIRST, .part = part,
                .times = 1, .before = act, .argument = scene);
}

int scene_set_up(void **state)
{
    struct scene *scene = calloc(1, sizeof *scene);
    assert_non_null(scene);
    yard_open(&scene->yard);
    yard_script(&scene->gate, &scene->yard.store.base);
    crew_open(&scene->crew, &scene->gate.base);
    crew_open(&scene->other, scene->yard.store.inner);
    scene->listed = BUFFER_INIT(MIB);
    script_rule(&scene->gate, .on = ON_LIST, .decide = note_listing, .argument = scene);
    *state = scene;
    return 0;
}

int scene_tear_down(void **state)
{
    struct scene *scene = *state;
    crew_close(&scene->crew);
    crew_close(&scene->other);
    buffer_release(&scene->listed);
    store_close(&scene->gate.base);
    yard_close(&scene->yard);
    free(scene);
    return 0;
}

uint64_t scene_keys(struct scene *scene)
{
    uint64_t count;
    assert_status(HF_OK, index_count(scene->other.index, NULL, NULL, &count, &scene->error),
                  &scene->error);
    return count;
}

size_t scene_waiting(struct scene *scene, struct shard_id shard)
{
    struct entry_list list = yard_list(&scene->yard, shard);
    size_t count = list.count;
    entry_list_release(&list);
    return count;
}

const char *scene_value(struct scene *scene, const char *key)
{
    static char value[64];
    struct buffer bytes = BUFFER_INIT(INDEX_RECORD_BYTES_MAX);
    value[0] = '\0';
    enum hf_status status = index_get(scene->crew.index, view_of(key), &bytes, &scene->error);
    if (status == HF_OK)
        snprintf(value, sizeof value, "%.*s",
                 VIEW_ARGS(record_field(&(struct record){ .bytes = buffer_view(&bytes) }, 1)));
    else
        assert_status(HF_NOT_FOUND, status, &scene->error);
    buffer_release(&bytes);
    return value;
}

void scene_delete(struct scene *scene, const char *key, const char *time)
{
    struct view text = view_of(key);
    size_t bad;
    assert_status(HF_OK,
                  index_delete(scene->other.index, &text, 1,
                               time ? view_of(time) : (struct view){ NULL, 0 }, &bad,
                               &scene->error),
                  &scene->error);
}

struct shard_head scene_head(struct scene *scene)
{
    struct shard_cursor cursor;
    struct shard_head head = { 0 };
    assert_status(HF_OK,
                  shard_cursor_open(&cursor, scene->other.index, A3, SHARD_READ_SMALL,
                                    &scene->error),
                  &scene->error);
    if (cursor.exists) {
        head = cursor.head;
        head.blocks = NULL;
    }
    shard_cursor_close(&cursor);
    return head;
}
