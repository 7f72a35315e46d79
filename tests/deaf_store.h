/* deaf_store.h: a store that becomes deaf at the first put that is no file, for a while: that put
 * is done or not, and nothing is answered. */
#ifndef TESTS_DEAF_STORE_H
#define TESTS_DEAF_STORE_H

#include "store/store.h"

struct deaf {
    struct store base;
    struct store *inner; /* stays the caller's */
    bool armed, is_deaf, does_it;
    struct span deaf_for;
    struct mono_time hears_again;
};

void deaf_init(struct deaf *deaf, struct store *inner, bool does_it, struct span deaf_for);

#endif
