/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c: recognises and builds the names of objects in a bucket. */
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

/* Reserved names, each with its trailing slash. */
static const struct view top_folders[] = {
    { LAYOUT_CHUNK_FOLDER, sizeof LAYOUT_CHUNK_FOLDER - 1 },
    { LAYOUT_DATA_FOLDER, sizeof LAYOUT_DATA_FOLDER - 1 },
    { LAYOUT_INDEX_FOLDER, sizeof LAYOUT_INDEX_FOLDER - 1 },
    { LAYOUT_ROSTER_FOLDER, sizeof LAYOUT_ROSTER_FOLDER - 1 },
};

bool layout_namespace_reserved(struct view name)
{
    for (size_t i = 0; i < sizeof top_folders / sizeof *top_folders; i++)
        if (view_equal(name, view_first(top_folders[i], top_folders[i].size - 1)))
            return true;
    return false;
}

bool layout_in_own_folder(struct view key)
{
    for (size_t i = 0; i < sizeof top_folders / sizeof *top_folders; i++)
        if (view_starts_with(key, top_folders[i]))
            return true;
    return view_starts_with(key, VIEW("."));
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

/* Whether the segment is "L" followed by digits. */
static bool is_level(struct view segment)
{
    if (segment.size < 2 || segment.data[0] != 'L')
        return false;
    for (size_t i = 1; i < segment.size; i++)
        if (segment.data[i] < '0' || segment.data[i] > '9')
            return false;
    return true;
}

/* Whether the key is "data/<partition>/L<level>/" followed by something. */
static bool is_chunk(struct view key)
{
    struct view rest = view_from(key, strlen(LAYOUT_DATA_FOLDER));
    struct view partition = view_cut(&rest, '/');
    struct view level = view_cut(&rest, '/');
    return view_starts_with(key, VIEW(LAYOUT_DATA_FOLDER)) &&
           layout_partition_valid(partition) && is_level(level) && rest.size > 0;
}

struct view layout_home(struct view chunk_key)
{
    struct view rest = view_from(chunk_key, strlen(LAYOUT_DATA_FOLDER));
    return is_chunk(chunk_key) ? view_cut(&rest, '/') : VIEW(LAYOUT_PARTITION_DEFAULT);
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

/* Removes the last segment from the path and returns it. */
static struct view cut_last(struct view *path)
{
    size_t start = path->size;
    while (start > 0 && path->data[start - 1] != '/')
        start--;
    struct view last = view_from(*path, start);
    *path = view_first(*path, start > 0 ? start - 1 : 0);
    return last;
}

/* Whether the name starts with a token and ends with a nonce, as the names of states and bodies
 * do. */
static bool has_token(struct view name)
{
    struct view rest = name, number = view_cut(&rest, '-');
    uint64_t token;
    size_t start = rest.size;
    while (start > 0 && hex_digit(rest.data[start - 1]) >= 0)
        start--;
    return parse_u64(number, UINT64_MAX, &token, NULL) == HF_OK && rest.size - start >= 16;
}

/* "<ns>/state/<key>/<token>-<etag>", "<ns>/.lease-index/...", "<key>.hf/<token>-<seq>-<nonce>". */
static bool is_below_own(struct view key)
{
    struct view rest = key, folder = key;
    struct view path = view_from(key, view_cut(&rest, '/').size);
    struct view last = cut_last(&folder);
    if (view_starts_with(path, VIEW(LAYOUT_EXPIRY_FOLDER)))
        return true;
    struct view body = view_first(VIEW(LAYOUT_BODY_FOLDER), strlen(LAYOUT_BODY_FOLDER) - 1);
    return has_token(last) &&
           (view_starts_with(path, VIEW(LAYOUT_STATE_FOLDER)) || view_ends_with(folder, body));
}

/* Whether the rest of a key after "indexes/" belongs to an index. */
static bool is_of_index(struct view rest)
{
    view_cut(&rest, '/');
    return view_equal(rest, VIEW(LAYOUT_INDEX)) || view_equal(rest, VIEW(LAYOUT_MANIFEST)) ||
           view_starts_with(rest, VIEW(LAYOUT_SHARD_FOLDER)) ||
           view_starts_with(rest, VIEW(LAYOUT_ASIDE_FOLDER));
}

bool layout_is_own(struct view key)
{
    if (view_starts_with(key, VIEW(".holdfast/")) ||
        view_starts_with(key, VIEW(".txn-decisions/")) ||
        view_starts_with(key, VIEW(LAYOUT_ROSTER_FOLDER)) ||
        view_starts_with(key, VIEW(LAYOUT_CHUNK_FOLDER)))
        return true;
    if (view_starts_with(key, VIEW(LAYOUT_INDEX_FOLDER)))
        return is_of_index(view_from(key, strlen(LAYOUT_INDEX_FOLDER)));
    return is_chunk(key) || is_below_own(key);
}
