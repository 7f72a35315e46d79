/* SPDX-License-Identifier: Apache-2.0 */
/* dir_path.c: decodes a whole path of a `dir:` store to its key. */
#include "dir_path.h"

#include <string.h>

bool dir_path_decode(struct view path, char ret_key[KEY_BYTES_MAX], size_t *ret_size)
{
    size_t size = 0;
    for (;;) {
        size_t slash = view_find(path, '/');
        bool last = slash == path.size;
        struct dir_name name;
        if (!dir_name_decode(view_first(path, slash), &name))
            return false;
        if (last ? name.kind == DIR_NAME_CONTINUED : name.kind == DIR_NAME_ASIDE)
            return false;
        bool separator = !last && name.kind == DIR_NAME_PLAIN;
        if (name.size + separator > KEY_BYTES_MAX - size)
            return false;
        memcpy(ret_key + size, name.bytes, name.size);
        size += name.size;
        if (separator)
            ret_key[size++] = '/';
        if (last)
            break;
        path = view_from(path, slash + 1);
    }
    *ret_size = size;
    return size > 0;
}
