/* SPDX-License-Identifier: Apache-2.0 */
/* shard_set.c: finds the shards that exist or have entries, with one or two listings. The inbox
 * must be listed before the shards, so that a key that is folded between the two listings is found
 * in at least one of them. */
#include "index/shard_set.h"

#include "base/check.h"
#include "store/pages.h"

#include <stdlib.h>

enum hf_status shard_set_init(struct shard_set *shards_due, const struct index *index,
                              struct hf_error *error)
{
    shards_due->count = shard_count(index->schema.digits);
    shards_due->of = calloc(shards_due->count, 1);
    return shards_due->of ? HF_OK : error_no_memory(error);
}

void shard_set_release(struct shard_set *shards_due)
{
    free(shards_due->of);
    *shards_due = (struct shard_set){ 0 };
}

/* Marks the shards whose names are listed in the folder, each followed by this suffix. */
static enum hf_status mark_folder(struct shard_set *shards_due, struct index *index,
                                  const char *folder, struct view end, unsigned char mark,
                                  struct hf_error *error)
{
    char prefix[KEY_BYTES_MAX + 1];
    check(index_key(index, prefix, "%s", folder));
    struct pages pages = { .list = { .prefix = view_of(prefix), .delimiter = VIEW("/") } };
    while (pages_next(&pages, index->store))
        for (size_t i = 0; i < pages.list.count; i++) {
            struct view leaf = view_from(pages.list.entries[i].key, strlen(prefix));
            struct view name = view_first(leaf, leaf.size - end.size);
            size_t number;
            if (view_ends_with(leaf, end) && shard_number(name, index->schema.digits, &number))
                shards_due->of[number] |= mark;
        }
    return pages_end(&pages, HF_OK, error);
}

enum hf_status shard_set_waiting(struct shard_set *shards_due, struct index *index,
                                 struct hf_error *error)
{
    return mark_folder(shards_due, index, LAYOUT_INBOX_FOLDER, VIEW("/"), MARK_WAITING, error);
}

enum hf_status shard_set_there(struct shard_set *shards_due, struct index *index,
                               struct hf_error *error)
{
    return mark_folder(shards_due, index, LAYOUT_SHARD_FOLDER, VIEW(LAYOUT_SHARD), MARK_THERE,
                       error);
}

static int compare_shards(const void *a, const void *b)
{
    const struct entry *one = a, *two = b;
    return strcmp(one->name.shard.text, two->name.shard.text);
}

void shard_set_flat(struct shard_set *shards_due, const struct index *index,
                    struct entry_list *list)
{
    /* A stray belongs to no shard, but must be set aside, so shard 0 gets it. */
    for (size_t i = 0; i < list->count; i++)
        if (list->entries[i].name.shard.text[0] == '\0')
            list->entries[i].name.shard = shard_of_number(0, index->schema.digits);
    if (list->count > 0)
        qsort(list->entries, list->count, sizeof *list->entries, compare_shards);
    for (size_t i = 0; i < list->count; i++) {
        size_t number;
        if (shard_number(view_of(list->entries[i].name.shard.text), index->schema.digits,
                         &number))
            shards_due->of[number] |= MARK_WAITING;
    }
}

struct entry *shard_set_find_flat(const struct entry_list *list, struct shard_id shard,
                                  size_t *ret_count)
{
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(list->entries[middle].name.shard.text, shard.text) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    size_t end = low;
    while (end < list->count && strcmp(list->entries[end].name.shard.text, shard.text) == 0)
        end++;
    *ret_count = end - low;
    return low < end ? &list->entries[low] : NULL;
}
