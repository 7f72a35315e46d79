/* SPDX-License-Identifier: Apache-2.0 */
/* index_data.h: an index for benchmarks: its records, which follow from their numbers, and a
 * handle that counts its store requests. */
#ifndef BENCH_INDEX_DATA_H
#define BENCH_INDEX_DATA_H

#include "base/view.h"
#include "client.h"

#define DATA_NAME     "sites"
#define DATA_KEY_MAX  32
#define DATA_LINE_MAX 160
#define PUT_MAX       1000 /* records at once */

/* "h0012345.example.com": so a prefix of the number's digits is one of the key. */
const char *data_key(uint64_t number, char space[DATA_KEY_MAX]);

/* The record of a number, about 120 bytes, without its end: site, note, updated_at. */
struct view data_record(uint64_t number, char space[DATA_LINE_MAX]);

/* The next number, from this one on, whose key is in the shard, such as "a3". */
uint64_t data_in_shard(uint64_t number, const char *shard);

/* The store requests of an index. */
struct tally {
    struct counts asked;
    atomic_ulong lists_elsewhere; /* not of `folder` */
    char folder[64];
};

struct desk {
    struct client at;
    struct hf_index *index;
};

/* `tally` may be NULL. Creates the index if there is none. */
void desk_open(struct desk *desk, const char *url, struct tally *tally);
void desk_close(struct desk *desk);

/* Puts the records of these numbers into the inbox, this many at once. Returns seconds. */
double desk_put(struct desk *desk, const uint64_t *numbers, size_t count, size_t at_once);

/* All records from 0 to count - 1 straight into their shards. Seconds. */
double desk_load(struct desk *desk, uint64_t count);

/* Writes the records from 0 to count - 1 to a new file, one per line. */
void write_records(const char *path, uint64_t count);

#endif
