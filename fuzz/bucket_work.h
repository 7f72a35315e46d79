/* bucket_work.h: every part of the library at work on a bucket of anything. */
#ifndef FUZZ_BUCKET_WORK_H
#define FUZZ_BUCKET_WORK_H

#include "base/view.h"
#include "env/env.h"

/* Puts the objects, written as fuzz_bucket.c says, into a store in memory, and lets the parts whose
 * bits are set work on it: locks, keys, sweeping, restoring, compaction, indexes. Aborts where
 * something is not told with a sentence, or where they ask too much of the store. */
void bucket_work(struct env *env, unsigned parts, struct view objects);

#endif
