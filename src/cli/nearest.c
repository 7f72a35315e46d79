/* nearest.c: the name that was meant by a mistyped one. */
#include "cli/cli.h"

#include <strings.h>

#define NAME_MAX_ 32

/* The edit distance: letters to insert, leave out or change. */
static size_t distance(struct view a, struct view b)
{
    size_t row[NAME_MAX_ + 1];
    for (size_t j = 0; j <= b.size; j++)
        row[j] = j;
    for (size_t i = 1; i <= a.size; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.size; j++) {
            size_t change = diagonal + (a.data[i - 1] != b.data[j - 1]);
            size_t insert = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = change < insert ? change : insert;
        }
    }
    return row[b.size];
}

void nearest_offer(struct nearest *nearest, struct view name)
{
    struct view wanted = nearest->wanted;
    if (name.size > NAME_MAX_ || wanted.size > NAME_MAX_)
        return;
    size_t away = distance(wanted, name);
    if (view_starts_with(name, wanted))
        away = 1; /* a name that was cut short is a likely one */
    if (name.size == wanted.size && strncasecmp(name.data, wanted.data, name.size) == 0)
        away = 0;
    /* Of a name of a letter or two, all others are near. */
    if (away > 1 + wanted.size / 4 || away >= wanted.size ||
        (nearest->best.data && away >= nearest->distance))
        return;
    nearest->best = name;
    nearest->distance = away;
}
