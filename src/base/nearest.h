/* nearest.h: the name that was meant by a mistyped one. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include "base/view.h"

/* The candidate that is nearest to the wanted name, or none when none is near. Feed it with all of
 * them, one after the other. */
struct nearest {
    struct view wanted;
    struct view best; /* data NULL: none */
    size_t distance;
};

void nearest_offer(struct nearest *nearest, struct view candidate);

#endif
