/* SPDX-License-Identifier: Apache-2.0 */
/* screen.h: pages on a terminal, and keys. */
#ifndef TOP_SCREEN_H
#define TOP_SCREEN_H

#include "top/page.h"
#include "top/reader.h"

/* Shows the reader's snapshots until a key or a signal ends it, or until `end`. The terminal is as
 * before when it returns. Returns HF_UNSUPPORTED if the terminal is of a kind that is not known. */
enum hf_status screen_run(struct env *env, struct reader *reader, const char *store,
                          struct mono_time end, struct hf_error *error);

#endif
