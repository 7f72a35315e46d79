/* SPDX-License-Identifier: Apache-2.0 */
/* nearest.h: finds the name that a mistyped one probably means. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include "base/view.h"

/* The candidate that is most similar to the wanted name, if any is similar enough. Pass it every
 * candidate, one at a time. */
struct nearest {
    struct view wanted;
    struct view best; /* data NULL: none is similar */
    size_t distance;
};

void nearest_offer(struct nearest *nearest, struct view candidate);

#endif
