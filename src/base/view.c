/* SPDX-License-Identifier: Apache-2.0 */
/* view.c: compares views of bytes. */
#include "base/view.h"

int view_compare(struct view a, struct view b)
{
    size_t common = a.size < b.size ? a.size : b.size;
    int order = common == 0 ? 0 : memcmp(a.data, b.data, common);
    if (order != 0)
        return order;
    return (a.size > b.size) - (a.size < b.size);
}
