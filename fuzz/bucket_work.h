/* SPDX-License-Identifier: Apache-2.0 */
/* bucket_work.h: runs every part of the library on a bucket with arbitrary contents. */
#ifndef FUZZ_BUCKET_WORK_H
#define FUZZ_BUCKET_WORK_H

#include "base/view.h"
#include "env/env.h"

/* Puts the objects, in the format of fuzz_bucket.c, into a store in memory, and runs the parts
 * whose bits are set: locks, keys, sweeping, restoring, compaction, indexes. Aborts if a
 * failure has no sentence, or if they make too many requests. */
void bucket_work(struct env *env, unsigned parts, struct view objects);

#endif
