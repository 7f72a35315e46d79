#include "index_scene.h"

#include "index/read.h"

#include <stdlib.h>

static void happen(void *argument, enum call_kind kind, struct view key)
{
    struct scene *scene = argument;
    if (kind == CALL_LIST)
        buffer_print(&scene->listed, "%.*s ", VIEW_ARGS(key));
    if (!scene->act || kind != scene->kind ||
        !memmem(key.data, key.size, scene->part, strlen(scene->part)))
        return;
    void (*act)(struct scene *) = scene->act;
    scene->act = NULL;
    act(scene);
}

void scene_happens(struct scene *scene, enum call_kind kind, const char *part,
                   void (*act)(struct scene *scene))
{
    scene->kind = kind;
    scene->part = part;
    scene->act = act;
}

int scene_set_up(void **state)
{
    struct scene *scene = calloc(1, sizeof *scene);
    assert_non_null(scene);
    yard_open(&scene->yard);
    gate_init(&scene->gate, &scene->yard.store.base);
    crew_open(&scene->crew, &scene->gate.base);
    crew_open(&scene->other, scene->yard.store.inner);
    scene->listed = BUFFER_INIT(MIB);
    scene->gate.before = happen;
    scene->gate.argument = scene;
    *state = scene;
    return 0;
}

int scene_tear_down(void **state)
{
    struct scene *scene = *state;
    crew_close(&scene->crew);
    crew_close(&scene->other);
    buffer_release(&scene->listed);
    yard_close(&scene->yard);
    free(scene);
    return 0;
}

uint64_t scene_keys(struct scene *scene)
{
    uint64_t count;
    assert_status(HF_OK, index_count(scene->other.index, NULL, &count, &scene->error),
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
