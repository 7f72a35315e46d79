#include "index/marks.h"

#include "base/check.h"
#include "store/pages.h"

#include <stdlib.h>

enum hf_status marks_init(struct marks *marks, const struct index *index,
                          struct hf_error *error)
{
    marks->count = shard_count(index->schema.digits);
    marks->of = calloc(marks->count, 1);
    return marks->of ? HF_OK : error_no_memory(error);
}

void marks_release(struct marks *marks)
{
    free(marks->of);
    *marks = (struct marks){ 0 };
}

/* Marks the shards that are named between the folder and this end. */
static void mark_page(struct marks *marks, const struct index *index, size_t folder,
                      struct view end, unsigned char mark, const struct list_call *page)
{
    for (size_t i = 0; i < page->count; i++) {
        struct view leaf = view_from(page->entries[i].key, folder);
        size_t number;
        if (view_ends_with(leaf, end) &&
            shard_number(view_first(leaf, leaf.size - end.size), index->schema.digits, &number))
            marks->of[number] |= mark;
    }
}

static enum hf_status mark_folder(struct marks *marks, struct index *index, const char *folder,
                                  struct view end, unsigned char mark, struct hf_error *error)
{
    char prefix[KEY_BYTES_MAX + 1];
    check(index_key(index, prefix, "%s", folder));
    struct pages pages = { .list = { .prefix = view_of(prefix), .delimiter = VIEW("/") } };
    while (pages_next(&pages, index->store))
        mark_page(marks, index, strlen(prefix), end, mark, &pages.list);
    return pages_end(&pages, HF_OK, error);
}

enum hf_status marks_waiting(struct marks *marks, struct index *index, struct hf_error *error)
{
    return mark_folder(marks, index, LAYOUT_INBOX_FOLDER, VIEW("/"), MARK_WAITING, error);
}

enum hf_status marks_there(struct marks *marks, struct index *index, struct hf_error *error)
{
    return mark_folder(marks, index, LAYOUT_SHARD_FOLDER, VIEW(LAYOUT_SHARD), MARK_THERE,
                       error);
}

/* ---- Entries that stand in no folder --------------------------------------------------- */

static int compare_shards(const void *a, const void *b)
{
    const struct entry *one = a, *two = b;
    return strcmp(one->name.shard.text, two->name.shard.text);
}

void marks_flat(struct marks *marks, const struct index *index, struct entry_list *list)
{
    /* A stray is of no shard: somebody has to set it aside, so the first one does. */
    for (size_t i = 0; i < list->count; i++)
        if (list->entries[i].name.shard.text[0] == '\0')
            list->entries[i].name.shard = shard_of_number(0, index->schema.digits);
    if (list->count > 0)
        qsort(list->entries, list->count, sizeof *list->entries, compare_shards);
    for (size_t i = 0; i < list->count; i++) {
        size_t number;
        if (shard_number(view_of(list->entries[i].name.shard.text), index->schema.digits,
                         &number))
            marks->of[number] |= MARK_WAITING;
    }
}

struct entry *marks_find_flat(const struct entry_list *list, struct shard_id shard,
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
