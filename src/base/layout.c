/* layout.c: the few names of a bucket that are more than a constant. */
#include "base/layout.h"

#include "base/parse.h"

#include <stdio.h>

bool layout_name_valid(struct view text, size_t bytes_max)
{
    if (text.size == 0 || text.size > bytes_max || text.data[0] == '.')
        return false;
    for (size_t i = 0; i < text.size; i++)
        if (!layout_is_name_byte(text.data[i]))
            return false;
    return true;
}

bool layout_partition_valid(struct view partition)
{
    return layout_name_valid(partition, PARTITION_BYTES_MAX);
}

bool layout_index_valid(struct view name)
{
    return layout_name_valid(name, INDEX_NAME_MAX);
}

bool layout_shard_valid(struct view shard)
{
    return shard.size > 0 && shard.size <= SHARD_NAME_MAX && text_is_hex(shard, shard.size);
}

/* Whether it is "L" and digits. */
static bool is_level(struct view segment)
{
    if (segment.size < 2 || segment.data[0] != 'L')
        return false;
    for (size_t i = 1; i < segment.size; i++)
        if (segment.data[i] < '0' || segment.data[i] > '9')
            return false;
    return true;
}

struct view layout_home(struct view chunk_key)
{
    struct view rest = view_from(chunk_key, strlen(LAYOUT_DATA_FOLDER));
    struct view partition = view_cut(&rest, '/');
    struct view level = view_cut(&rest, '/');
    bool is_chunk = view_starts_with(chunk_key, VIEW(LAYOUT_DATA_FOLDER)) &&
                    layout_partition_valid(partition) && is_level(level) && rest.size > 0;
    return is_chunk ? partition : VIEW(LAYOUT_PARTITION_DEFAULT);
}

bool layout_partition_key(struct view partition, const char *leaf,
                          char ret_key[KEY_BYTES_MAX + 1])
{
    bool is_default = view_equal(partition, VIEW(LAYOUT_PARTITION_DEFAULT));
    int size = is_default ? snprintf(ret_key, KEY_BYTES_MAX + 1, LAYOUT_CHUNK_FOLDER "%s", leaf)
                          : snprintf(ret_key, KEY_BYTES_MAX + 1, LAYOUT_CHUNK_FOLDER "%.*s/%s",
                                     VIEW_ARGS(partition), leaf);
    return size > 0 && size <= KEY_BYTES_MAX;
}
