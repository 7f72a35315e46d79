/* SPDX-License-Identifier: Apache-2.0 */
/* tally.h: a document for tests on real stores: a few hundred counters, each of which one task
 * alone raises, by one at a time. An operation is "make my counter N": so it knows itself, and a
 * write that was lost, or done twice, shows at once as a counter that is not N - 1. */
#ifndef TESTS_TALLY_H
#define TESTS_TALLY_H

#include "doc/doc.h"

#define TALLY_SLOTS 512

struct tally {
    uint64_t counts[TALLY_SLOTS];
    uint64_t padding; /* bytes that the document is longer by */
};

extern const struct doc_type tally_type;

/* Makes counter `slot` be `number`, which it was one less than before. */
struct raise {
    struct doc_op op;
    size_t slot;
    uint64_t number;
    uint64_t padding;
    unsigned applied; /* so often */
};

struct raise raise_of(struct env *env, size_t slot, uint64_t number);

/* Of the object in the store; all zero when there is none. */
struct tally tally_read(struct store *store, struct view key);

#endif
