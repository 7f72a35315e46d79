/* SPDX-License-Identifier: Apache-2.0 */
/* view.c: compares, searches and splits views of bytes. */
#include "base/view.h"

int view_compare(struct view a, struct view b)
{
    size_t common = a.size < b.size ? a.size : b.size;
    int order = common == 0 ? 0 : memcmp(a.data, b.data, common);
    if (order != 0)
        return order;
    return (a.size > b.size) - (a.size < b.size);
}

size_t view_find(struct view v, char byte)
{
    const char *at = v.size == 0 ? NULL : memchr(v.data, byte, v.size);
    return at == NULL ? v.size : (size_t)(at - v.data);
}

struct view view_cut(struct view *rest, char separator)
{
    size_t at = view_find(*rest, separator);
    struct view head = view_first(*rest, at);
    *rest = view_from(*rest, at + 1);
    return head;
}
