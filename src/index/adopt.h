/* SPDX-License-Identifier: Apache-2.0 */
/* adopt.h: shards of bare records, without a header line: each ended by LF, RS or RS LF, in any
 * order, with any number of records per key. Such a shard is read whole, and looks to its readers
 * like one of ours with the latest record of each key. Either another program has written it, and
 * the next fold replaces it, on condition of its ETag, with a shard in our format, so nothing is
 * lost if the other program writes it at the same time; or the shards of the index are plain, and
 * it is merged with the deletions of its sidecar (plain.h). */
#ifndef INDEX_ADOPT_H
#define INDEX_ADOPT_H

#include "index/cursor.h"

/* A larger shard is not read, because all of it must be in memory. */
#define ADOPT_BYTES_MAX PLAIN_BYTES_MAX

/* Turns the text of a whole object into the contents of the cursor: its head, and its records as
 * blocks that are loaded. CORRUPT: a line is not a record of this shard; the error names the
 * line. A plain shard may be empty. */
enum hf_status shard_adopt(struct shard_cursor *cursor, struct view text,
                           struct hf_error *error);

#endif
