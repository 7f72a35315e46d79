/* SPDX-License-Identifier: Apache-2.0 */
/* nearest.c: finds the name that a mistyped one probably means, for "did you mean" in errors. */
#include "base/nearest.h"

#define NAME_MAX_ 32

static char lower(char letter)
{
    return (char)(letter >= 'A' && letter <= 'Z' ? letter | 0x20 : letter);
}

static bool equal_but_for_case(struct view a, struct view b)
{
    if (a.size != b.size)
        return false;
    for (size_t i = 0; i < a.size; i++)
        if (lower(a.data[i]) != lower(b.data[i]))
            return false;
    return true;
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The edit distance: how many letters must be inserted, deleted or changed, or swapped with a
 * neighbour. */
static size_t distance(struct view a, struct view b)
{
    size_t rows[NAME_MAX_ + 1][NAME_MAX_ + 1];
    for (size_t i = 0; i <= a.size; i++)
        for (size_t j = 0; j <= b.size; j++) {
            rows[i][j] = i + j;
            if (i == 0 || j == 0)
                continue;
            bool same = a.data[i - 1] == b.data[j - 1];
            rows[i][j] = min_size(rows[i - 1][j], rows[i][j - 1]) + 1;
            rows[i][j] = min_size(rows[i][j], rows[i - 1][j - 1] + !same);
            if (i > 1 && j > 1 && a.data[i - 1] == b.data[j - 2] &&
                a.data[i - 2] == b.data[j - 1])
                rows[i][j] = min_size(rows[i][j], rows[i - 2][j - 2] + 1);
        }
    return rows[a.size][b.size];
}

void nearest_offer(struct nearest *nearest, struct view name)
{
    struct view wanted = nearest->wanted;
    if (name.size > NAME_MAX_ || wanted.size > NAME_MAX_)
        return;
    size_t away = distance(wanted, name);
    if (view_starts_with(name, wanted))
        away = 1; /* a truncated name is likely */
    if (equal_but_for_case(name, wanted))
        away = 0;
    /* Otherwise every name would be similar to a name of one or two letters. */
    if (away > 1 + wanted.size / 5 || away >= wanted.size ||
        (nearest->best.data && away >= nearest->distance))
        return;
    nearest->best = name;
    nearest->distance = away;
}
